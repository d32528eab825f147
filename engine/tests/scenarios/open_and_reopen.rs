//! What is written is there, before and after a flush, and when the store is opened again.

use std::sync::Arc;

use ppc_engine::vfs::{MemVfs, Vfs};
use ppc_engine::{
    Batch, Db, DbOptions, Durability, ErrorKind, IterOptions, KeyRange, KeyspaceOptions,
};

fn options(vfs: &MemVfs) -> DbOptions {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(vfs.clone()) as Arc<dyn Vfs>;
    options.memtable_bytes = 1 << 20;
    options
}

fn key(at: u32) -> Vec<u8> {
    format!("key{at:06}").into_bytes()
}

fn value(at: u32) -> Vec<u8> {
    format!("value {at} ").repeat(at as usize % 50).into_bytes()
}

#[test]
fn values_survive_flushes_and_reopening() {
    let vfs = MemVfs::new();
    for round in 0..3u32 {
        let db = Db::open("/store", options(&vfs)).unwrap();
        let keyspace = db.keyspace("files", KeyspaceOptions::default()).unwrap();
        for at in (0..1000).filter(|at| at % 3 == round) {
            keyspace
                .put(key(at), value(at), Durability::Buffered)
                .unwrap();
        }
        if round == 1 {
            db.flush().unwrap();
        }
        for at in 0..1000 {
            let expected = (at % 3 <= round).then(|| value(at));
            let found = keyspace.get(key(at)).unwrap();
            assert_eq!(found.as_deref(), expected.as_deref(), "{at} in {round}");
        }
    }
    let db = Db::open("/store", options(&vfs)).unwrap();
    let keyspace = db.existing_keyspace("files").unwrap().unwrap();
    let all: Vec<_> = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap()
        .map(|item| item.unwrap())
        .collect();
    assert_eq!(all.len(), 1000);
    for (at, (found_key, found_value)) in all.iter().enumerate() {
        assert_eq!(found_key.as_ref(), key(at as u32));
        assert_eq!(found_value.as_ref(), value(at as u32));
    }
    let keys: Vec<_> = (0..1000).rev().map(key).collect();
    for (at, found) in (0..1000).rev().zip(keyspace.multi_get(&keys)) {
        assert_eq!(found.unwrap().unwrap().as_ref(), value(at));
    }
}

#[test]
fn a_batch_over_two_keyspaces_is_seen_whole() {
    let vfs = MemVfs::new();
    let db = Db::open("/store", options(&vfs)).unwrap();
    let left = db.keyspace("left", KeyspaceOptions::default()).unwrap();
    let right = db.keyspace("right", KeyspaceOptions::default()).unwrap();
    let before = db.snapshot().unwrap();
    let mut batch = Batch::new();
    batch.put(&left, "k", "1");
    batch.put(&right, "k", "2");
    batch.put(&right, "gone", "3");
    batch.delete(&right, "gone");
    db.write(batch, Durability::Sync).unwrap();
    assert_eq!(before.get(&left, "k").unwrap(), None);
    assert_eq!(left.get("k").unwrap().unwrap().as_ref(), b"1");
    assert_eq!(right.get("k").unwrap().unwrap().as_ref(), b"2");
    assert!(!right.contains("gone").unwrap());
}

#[test]
fn a_second_writer_is_refused_and_a_closed_store_says_so() {
    let vfs = MemVfs::new();
    let db = Db::open("/store", options(&vfs)).unwrap();
    let keyspace = db.keyspace("k", KeyspaceOptions::default()).unwrap();
    let error = Db::open("/store", options(&vfs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    db.close().unwrap();
    let error = keyspace.put("a", "b", Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(keyspace.get("a").unwrap_err().kind(), ErrorKind::Closed);
    Db::open("/store", options(&vfs)).unwrap();
}
