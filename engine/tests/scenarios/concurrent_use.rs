//! Many writers and readers at once; writers that are told to wait.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::common::{key, open, options, pairs, small_tables, value};
use ppc_engine::vfs::MemVfs;
use ppc_engine::{Batch, Counter, Durability, ErrorKind, IterOptions, KeyRange};

#[test]
fn writers_share_syncs_and_readers_never_see_half_a_batch() {
    const WRITERS: u32 = 4;
    const ROUNDS: u32 = 150;
    let vfs = MemVfs::new();
    let mut small = options(&vfs);
    small.memtable_bytes = 64 << 10;
    let (db, left) = open(small);
    let right = db.keyspace("right", small_tables()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Acquire) {
                let snapshot = db.snapshot().unwrap();
                for writer in 0..WRITERS {
                    let a = snapshot.get(&left, key(writer)).unwrap();
                    let b = snapshot.get(&right, key(writer)).unwrap();
                    assert_eq!(a, b);
                }
                reads += 1;
            }
            reads
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, left, right) = (&db, &left, &right);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mut batch = Batch::new();
                        let text = format!("{round:04}").repeat(50);
                        batch.put(left, key(writer), &text);
                        batch.put(right, key(writer), &text);
                        batch.put(left, key(1000 + writer * ROUNDS + round), &text);
                        let durability = [Durability::None, Durability::Buffered, Durability::Sync];
                        db.write(batch, durability[round as usize % 3]).unwrap();
                        let own = left.get(key(writer)).unwrap().unwrap();
                        assert_eq!(own, text, "a writer reads its own write");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(
        pairs(&left, KeyRange::all()).len() as u32,
        WRITERS * (ROUNDS + 1)
    );
    let syncs = db.stats().counters.get(Counter::WalSyncs);
    assert!(syncs <= u64::from(WRITERS * ROUNDS), "{syncs}");
}

#[test]
fn readers_at_the_newest_state_never_miss_a_key_that_is_only_overwritten() {
    let vfs = MemVfs::new();
    let mut small = options(&vfs);
    small.memtable_bytes = 8 << 10;
    small.l0_stall_trigger = 10_000;
    small.cache_bytes = 0;
    let (db, keyspace) = open(small);
    for at in 0..20 {
        keyspace
            .put(key(at), value(at, 0), Durability::None)
            .unwrap();
    }
    let version = AtomicU32::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let before = version.load(Ordering::Acquire);
                    for at in 0..20 {
                        let found = keyspace.get(key(at)).unwrap().unwrap();
                        let after = version.load(Ordering::Acquire);
                        let fits = (before..=after + 1).any(|version| found == value(at, version));
                        assert!(fits, "{at} between versions {before} and {after}");
                    }
                    let scan = keyspace.iter(KeyRange::all(), IterOptions::default());
                    assert_eq!(scan.unwrap().filter(Result::is_ok).count(), 20);
                    let scan = keyspace.iter(KeyRange::all(), IterOptions::keys_only());
                    assert_eq!(scan.unwrap().rev().filter(Result::is_ok).count(), 20);
                }
            });
        }
        for next in 1..200 {
            for at in 0..20 {
                keyspace
                    .put(key(at), value(at, next), Durability::None)
                    .unwrap();
            }
            version.store(next, Ordering::Release);
        }
        done.store(true, Ordering::Release);
    });
    assert!(db.stats().counters.get(Counter::Flushes) > 5);
}

#[test]
fn writers_wait_for_flushes_and_are_counted() {
    let vfs = MemVfs::new();
    let mut small = options(&vfs);
    small.memtable_bytes = 1 << 10;
    small.sealed_memtables_max = 1;
    small.auto_compaction = false;
    let (db, keyspace) = open(small);
    for at in 0..300 {
        keyspace.put(key(at), [1; 600], Durability::None).unwrap();
    }
    let stats = db.stats();
    assert!(stats.sealed_generations <= 1);
    let stalls = stats.counters.get(Counter::WriteStalls);
    assert!(stalls > 0);
    assert_eq!(pairs(&keyspace, KeyRange::all()).len(), 300);
}

#[test]
fn closing_sends_waiting_writers_home() {
    let vfs = MemVfs::new();
    let mut small = options(&vfs);
    small.memtable_bytes = 1 << 10;
    small.sealed_memtables_max = 1;
    let (db, keyspace) = open(small);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..).find_map(|at| keyspace.put(key(at), [1; 600], Durability::Buffered).err())
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        db.close().unwrap();
        let error = writer.join().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    });
}

#[test]
fn batches_report_what_they_cannot_hold() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    let mut batch = Batch::new();
    batch.put(&keyspace, "fine", "1");
    batch.put(&keyspace, vec![b'k'; ppc_engine::KEY_BYTES_MAX + 1], "2");
    let error = db.write(batch, Durability::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(!keyspace.contains("fine").unwrap());
    keyspace
        .put(
            vec![b'k'; ppc_engine::KEY_BYTES_MAX],
            "longest",
            Durability::None,
        )
        .unwrap();
    keyspace.put("", "empty key", Durability::None).unwrap();
    db.flush().unwrap();
    assert_eq!(keyspace.get("").unwrap().unwrap(), "empty key");
    let longest = vec![b'k'; ppc_engine::KEY_BYTES_MAX];
    assert_eq!(keyspace.get(&longest).unwrap().unwrap(), "longest");
    keyspace
        .delete_range(&KeyRange::new(..=longest.clone()), Durability::None)
        .unwrap();
    assert_eq!(pairs(&keyspace, KeyRange::all()), []);

    let other = MemVfs::new();
    let (other_db, _other) = open(options(&other));
    let mut batch = Batch::new();
    batch.put(&keyspace, "a", "1");
    let error = other_db.write(batch, Durability::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    db.write(Batch::new(), Durability::Sync).unwrap();
}
