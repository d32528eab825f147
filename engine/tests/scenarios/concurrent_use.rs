//! Many writers and readers at once; writers that are told to wait.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{key, open, options, pairs, small_tables, value};
use ppc_engine::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs};
use ppc_engine::{
    Batch, BulkOptions, CompactOptions, Counter, Durability, ErrorKind, IterOptions, KeyRange,
};

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

/// A writer that panicked while it led a group used to leave the others in the queue asleep for
/// ever. Now they are told, and the store takes no more writes.
#[test]
fn a_writer_that_panics_leaves_no_other_waiting() {
    const WRITERS: u32 = 6;
    let memory = MemVfs::new();
    let vfs = FaultVfs::new(memory.clone(), FaultPlan::default());
    let (db, keyspace) = open(options(&vfs));
    vfs.arm(
        FaultPlan::once(FaultOp::Sync, 40, io::ErrorKind::Other)
            .on(".wal")
            .with_panic(),
    );
    let (sender, ended) = channel();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (sender, keyspace) = (sender.clone(), keyspace.clone());
            std::thread::spawn(move || {
                let mut acknowledged = 0;
                let error = loop {
                    let at = key(writer * 1000 + acknowledged);
                    let put = || keyspace.put(at, value(acknowledged, 0), Durability::Sync);
                    match catch_unwind(AssertUnwindSafe(put)) {
                        Ok(Ok(())) => acknowledged += 1,
                        Ok(Err(error)) => break Some(error.kind()),
                        Err(_) => break None,
                    }
                };
                sender.send((writer, acknowledged, error)).unwrap();
            })
        })
        .collect();
    let mut expected = BTreeMap::new();
    let mut panics = 0;
    for _ in 0..WRITERS {
        let writer = ended.recv_timeout(Duration::from_secs(60));
        let (writer, acknowledged, error) = writer.expect("a writer waits for ever");
        for number in 0..acknowledged {
            expected.insert(key(writer * 1000 + number), value(number, 0));
        }
        match error {
            Some(kind) => assert_eq!(kind, ErrorKind::Failed),
            None => panics += 1,
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(panics, 1);
    let error = keyspace.put("more", "", Durability::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert!(
        pairs(&keyspace, KeyRange::all())
            .into_iter()
            .eq(expected.clone())
    );
    db.close().unwrap_err();
    drop((db, keyspace));

    let (_db, keyspace) = open(options(&memory));
    let found: BTreeMap<_, _> = pairs(&keyspace, KeyRange::all()).into_iter().collect();
    for (key, value) in expected {
        assert_eq!(found.get(&key), Some(&value));
    }
}

/// It used to wait for the end of the work that was waiting for it.
#[test]
fn closing_from_a_callback_of_the_stores_own_work_is_refused() {
    let (db, keyspace) = open(options(&MemVfs::new()));
    for round in 0..3 {
        for at in 0..200 {
            let value = value(at, round);
            keyspace.put(key(at), value, Durability::None).unwrap();
        }
        db.flush().unwrap();
    }
    let (other, _) = open(options(&MemVfs::new()));
    let mut refused = Vec::new();
    let compacted = db.compact_with(&CompactOptions::default(), &mut |_| {
        refused.extend(db.close().err());
        other.close().unwrap();
    });
    compacted.unwrap();
    assert!(!refused.is_empty());
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.remedy().is_some(), "{error}");
    }

    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
    loader.put(&keyspace, key(7), "loaded".into()).unwrap();
    loader.finish(&mut |_| {}).unwrap();
    assert_eq!(keyspace.get(key(7)).unwrap().unwrap(), "loaded");
    db.close().unwrap();
}
