//! Iterators at their edges, range deletes at every depth, snapshots over both.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::common::{count_tables, eventually, key, open, options, pairs, value};
use ppc_engine::vfs::MemVfs;
use ppc_engine::{Counter, Durability, IterOptions, KeyRange, Keyspace};

fn fill(keyspace: &Keyspace, keys: impl Iterator<Item = u32>, version: u32) {
    for at in keys {
        let put = keyspace.put(key(at), value(at, version), Durability::None);
        assert!(put.is_ok(), "{put:?}");
    }
}

#[test]
fn the_two_ends_meet_and_every_key_comes_once() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, (0..100).step_by(2), 1);
    db.flush().unwrap();
    fill(&keyspace, (1..100).step_by(2), 1);
    let mut iter = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap();
    let mut seen = BTreeMap::new();
    for turn in 0.. {
        let item = match turn % 5 {
            0 | 3 => iter.next_back(),
            _ => iter.next(),
        };
        let Some(item) = item else { break };
        let (key, value) = item.unwrap();
        assert!(seen.insert(key.to_vec(), value.to_vec()).is_none());
    }
    assert!(iter.next().is_none());
    assert!(iter.next_back().is_none());
    let expected: BTreeMap<_, _> = (0..100).map(|at| (key(at), value(at, 1))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn bounds_are_kept_to_the_byte() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..10, 1);
    db.flush().unwrap();
    let count = |start: Bound<Vec<u8>>, end: Bound<Vec<u8>>| {
        pairs(&keyspace, KeyRange { start, end }).len()
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(count(Unbounded, Unbounded), 10);
    assert_eq!(count(Included(key(3)), Excluded(key(6))), 3);
    assert_eq!(count(Excluded(key(3)), Included(key(6))), 3);
    assert_eq!(count(Included(key(3)), Included(key(3))), 1);
    assert_eq!(count(Excluded(key(3)), Excluded(key(3))), 0);
    assert_eq!(count(Included(key(6)), Excluded(key(3))), 0);
    assert_eq!(count(Unbounded, Excluded(b"key".to_vec())), 0);
    assert_eq!(count(Excluded(key(9)), Unbounded), 0);
    let prefixed = keyspace.prefix("key00000", IterOptions::default()).unwrap();
    assert_eq!(prefixed.count(), 10);
    assert_eq!(
        keyspace
            .prefix("kez", IterOptions::default())
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn keys_alone_read_no_frame() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..500, 1);
    db.flush().unwrap();
    let frames = || db.stats().counters.get(Counter::FramesRead);
    let before = frames();
    let keys = keyspace
        .iter(KeyRange::all(), IterOptions::keys_only())
        .unwrap();
    assert_eq!(keys.filter(Result::is_ok).count(), 500);
    assert!(keyspace.contains(key(499)).unwrap());
    assert_eq!(frames(), before);
    let all = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap();
    assert_eq!(all.count(), 500);
    let scanned = frames() - before;
    assert!(scanned > 10, "{scanned}");
    let decoded = db.stats().counters.get(Counter::FrameBytesDecoded);
    let raw = db.stats().keyspaces[0].total().raw_bytes;
    assert!(decoded <= raw + (1 << 10), "a scan decodes each frame once");
}

#[test]
fn a_range_delete_hides_what_is_older_at_every_depth_and_nothing_newer() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..30, 1);
    db.flush().unwrap();
    fill(&keyspace, (0..30).step_by(3), 2);
    let before = db.snapshot().unwrap();
    keyspace
        .delete_range(&KeyRange::new(key(10)..key(20)), Durability::None)
        .unwrap();
    keyspace.put(key(15), "new", Durability::None).unwrap();
    let expected = |at: u32| -> Option<Vec<u8>> {
        match at {
            15 => Some(b"new".to_vec()),
            10..20 => None,
            _ => Some(value(at, if at.is_multiple_of(3) { 2 } else { 1 })),
        }
    };
    let all: Vec<_> = (0..30)
        .filter_map(|at| Some((key(at), expected(at)?)))
        .collect();
    for depth in 0..3 {
        for at in 0..30 {
            let found = keyspace.get(key(at)).unwrap();
            assert_eq!(
                found.as_deref(),
                expected(at).as_deref(),
                "{at} at depth {depth}"
            );
            let old = before.get(&keyspace, key(at)).unwrap().unwrap();
            assert_eq!(old, value(at, if at.is_multiple_of(3) { 2 } else { 1 }));
        }
        let found = keyspace.multi_get(&(0..30).map(key).collect::<Vec<_>>());
        for (at, found) in found.into_iter().enumerate() {
            assert_eq!(found.unwrap().as_deref(), expected(at as u32).as_deref());
        }
        assert_eq!(pairs(&keyspace, KeyRange::all()), all);
        let scan = before.iter(&keyspace, KeyRange::all(), IterOptions::default());
        assert_eq!(scan.unwrap().count(), 30);
        db.flush().unwrap();
    }
    keyspace.delete_prefix("key", Durability::None).unwrap();
    assert_eq!(pairs(&keyspace, KeyRange::all()), []);
    keyspace
        .delete_range(&KeyRange::all(), Durability::None)
        .unwrap();
    assert_eq!(
        before.get(&keyspace, key(15)).unwrap().unwrap(),
        value(15, 2)
    );
}

#[test]
fn an_iterator_keeps_seeing_its_moment() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..200, 1);
    let mut iter = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap();
    let mut seen = vec![iter.next().unwrap().unwrap()];
    keyspace.delete_prefix("key0001", Durability::None).unwrap();
    fill(&keyspace, 0..300, 2);
    db.flush().unwrap();
    fill(&keyspace, 0..300, 3);
    db.flush().unwrap();
    seen.extend(iter.map(|item| item.unwrap()));
    let expected: Vec<_> = (0..200).map(|at| (key(at), value(at, 1))).collect();
    let seen: Vec<_> = seen
        .into_iter()
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn files_that_only_an_iterator_needs_go_when_it_ends() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..100, 1);
    db.flush().unwrap();
    let mut iter = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap();
    assert!(iter.next().unwrap().is_ok());
    keyspace.delete_prefix("", Durability::None).unwrap();
    db.compact().unwrap();
    assert!(count_tables(&vfs) > 0);
    assert_eq!(iter.by_ref().filter(Result::is_ok).count(), 99);
    drop(iter);
    eventually("removal of its files", || count_tables(&vfs) == 0);
}

#[test]
fn an_iterator_outlives_every_handle_and_moves_between_threads() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..50, 1);
    db.flush().unwrap();
    let iter = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap();
    drop((db, keyspace));
    let count = std::thread::spawn(move || iter.filter(Result::is_ok).count());
    assert_eq!(count.join().unwrap(), 50);
}
