//! Stores of clustered tables: loads, compactions, ingests, and what is left of deleted bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use ppc_engine::vfs::Vfs;
use ppc_engine::{
    BulkOptions, ClusterOptions, Db, Durability, ExternalTableWriter, IngestMode, IngestOptions,
    Keyspace, KeyspaceOptions, Layout, ReadMode, TableOptions, list_frames_in,
};

use support::*;

const KIB: usize = 1 << 10;

fn table_options() -> TableOptions {
    let mut cluster = ClusterOptions::default();
    cluster.window_bytes = 1 << 20;
    let mut options = TableOptions::clustered(3);
    options.layout = Layout::Clustered(cluster);
    options
}

fn open_clustered(vfs: &SteeredVfs) -> (Db, Keyspace) {
    let db = Db::open("/db", db_options(vfs)).unwrap();
    let options = KeyspaceOptions::uniform(table_options());
    let keyspace = db.keyspace("files", options).unwrap();
    (db, keyspace)
}

/// Bytes that no compression hides: a deleted value could be found by them.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| byte()).collect()
}

/// A version of one of 40 files: most of it is the file's, a little its own.
fn content(number: u64) -> Vec<u8> {
    let lines = (0..60).map(|line| format!("let f{} = call({line});\n", (number % 40) * 97 + line));
    let mut content = lines.collect::<String>().into_bytes();
    content.extend_from_slice(&noise(number, 40));
    content
}

fn check(keyspace: &Keyspace, numbers: &[u64]) {
    let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| key(number)).collect();
    for ((number, key), many) in numbers.iter().zip(&keys).zip(keyspace.multi_get(&keys)) {
        let expected = content(*number);
        assert_eq!(many.unwrap().unwrap(), expected);
        assert_eq!(keyspace.get(key).unwrap().unwrap(), expected);
    }
    let walked = dump(keyspace);
    assert_eq!(walked.len(), numbers.len());
    for ((walked_key, value), number) in walked.iter().zip(numbers) {
        assert_eq!((walked_key, value), (&key(*number), &content(*number)));
    }
}

/// Frames of all tables that have a base.
fn followers(vfs: &SteeredVfs) -> usize {
    let mut followers = 0;
    for table in vfs.tables() {
        list_frames_in(vfs, &table, &mut |frame| {
            followers += usize::from(frame.base.is_some());
            true
        })
        .unwrap();
    }
    followers
}

fn is_on_disk(vfs: &SteeredVfs, needle: &[u8]) -> bool {
    let mut tables = vfs.tables().into_iter();
    tables.any(|table| {
        let file = vfs.open(&table, ReadMode::Pread).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle)
    })
}

#[test]
fn loads_of_any_order_come_back_whole() {
    let numbers: Vec<u64> = (0..4096).collect();
    for sorted in [true, false] {
        let vfs = SteeredVfs::new();
        let (db, keyspace) = open_clustered(&vfs);
        let mut options = BulkOptions::default();
        options.memory_bytes = 1024 * KIB;
        let mut loader = db.bulk_loader(options).unwrap();
        let order: Vec<u64> = if sorted {
            numbers.clone()
        } else {
            shuffled(4096).collect()
        };
        for number in order {
            let value = Bytes::from(content(number));
            loader.put(&keyspace, key(number), value).unwrap();
        }
        let report = loader.finish(&mut |_| {}).unwrap();
        assert_eq!(report.keyspaces[0].runs == 1, sorted);
        assert!(followers(&vfs) > 3000, "{}", followers(&vfs));
        check(&keyspace, &numbers);
        let (_, trace) = keyspace.get_traced(key(1000)).unwrap();
        let frames: Vec<_> = trace.frames().collect();
        if let [base, frame] = frames[..] {
            assert_eq!(frame.base, Some(base.ordinal));
        }
        db.close().unwrap();
        let (_db, keyspace) = open_clustered(&vfs);
        check(&keyspace, &numbers);
    }
}

#[test]
fn writes_flushes_and_compactions_keep_every_value() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open_clustered(&vfs);
    for number in shuffled(1024) {
        keyspace
            .put(key(number), content(number), Durability::Buffered)
            .unwrap();
    }
    db.compact().unwrap();
    for number in (0..1024).step_by(3) {
        keyspace.delete(key(number), Durability::Buffered).unwrap();
    }
    db.compact().unwrap();
    let left: Vec<u64> = (0..1024).filter(|number| number % 3 != 0).collect();
    check(&keyspace, &left);
    assert!(followers(&vfs) > left.len() / 2);
}

#[test]
fn a_deleted_base_is_gone_after_compaction_and_its_followers_are_not() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open_clustered(&vfs);
    // The longest is the base of all others, and of some bytes the only holder.
    let shared = noise(1, 8 * KIB);
    let secret = noise(2, 2 * KIB);
    let values: Vec<Vec<u8>> = (0..10u64)
        .map(|number| match number {
            4 => [&shared[..], &secret].concat(),
            _ => [&shared[..], &noise(100 + number, 64)].concat(),
        })
        .collect();
    for (number, value) in (0..).zip(&values) {
        keyspace
            .put(key(number), value.as_slice(), Durability::Sync)
            .unwrap();
    }
    db.compact().unwrap();
    // What was flushed first and what came later may have a base each.
    assert!(followers(&vfs) >= 8);
    assert!(is_on_disk(&vfs, &secret[1000..1064]));
    keyspace.delete(key(4), Durability::Sync).unwrap();
    db.compact().unwrap();
    // A thread that looks for work may hold the old table for a moment longer.
    eventually("the secret is gone", || {
        !is_on_disk(&vfs, &secret[1000..1064])
    });
    assert_eq!(followers(&vfs), 8);
    for (number, value) in (0..).zip(&values) {
        let got = keyspace.get(key(number)).unwrap();
        assert_eq!(got.as_deref(), (number != 4).then_some(value.as_slice()));
    }
}

#[test]
fn tables_built_elsewhere_bring_their_clusters() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open_clustered(&vfs);
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut writer = ExternalTableWriter::create_in(shared, "/in", &table_options(), 2).unwrap();
    for number in 0..300 {
        writer
            .put(key(number), Bytes::from(content(number)))
            .unwrap();
    }
    let path = writer.finish().unwrap().path;
    let mut options = IngestOptions::default();
    options.mode = IngestMode::Move;
    options.verify = true;
    db.ingest(&keyspace, &[path], &options).unwrap();
    assert!(followers(&vfs) > 200);
    check(&keyspace, &(0..300).collect::<Vec<_>>());
}
