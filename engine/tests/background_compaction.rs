//! What the background threads do, alone and when things go wrong.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ppc_engine::vfs::{Vfs, WritableFile};
use ppc_engine::{
    CompactOptions, CompactionReport, Counter, Durability, ErrorKind, IterOptions, KeyRange,
    ReadMode,
};

use support::*;

/// Writes `count` entries of a kilobyte each in random order.
fn fill(keyspace: &ppc_engine::Keyspace, count: u64) {
    for number in shuffled(count) {
        keyspace
            .put(key(number), value(number, 1000), Durability::None)
            .unwrap();
    }
}

fn expected(count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count)
        .map(|number| (key(number), value(number, 1000)))
        .collect()
}

#[test]
fn compaction_keeps_up_with_writers_and_then_comes_to_rest() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    fill(&keyspace, 4096);
    db.flush().unwrap();
    eventually("L0 is compacted", || tables_in_level(&db, 0) < 4);
    let counted = || db.stats().counters.get(Counter::Compactions);
    assert!(counted() > 1);
    assert_eq!(dump(&keyspace), expected(4096));
    // At rest, threads wait: nothing is compacted over and over.
    let mut before = counted();
    eventually("no more compactions", || {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, counted()) == counted()
    });
    db.close().unwrap();
    let (db, keyspace) = open(db_options(&vfs));
    assert_eq!(dump(&keyspace), expected(4096));
    drop(db);
}

/// A compaction that ended, or an iterator that was dropped, just before the close left its tables on
/// the disk until the next opening: a store could lie there at twice its size.
#[test]
fn closing_removes_the_tables_that_were_in_use_until_then() {
    let held = Arc::new(Mutex::new(()));
    let arrived = Arc::new(AtomicBool::new(false));
    let armed = Arc::new(AtomicBool::new(false));
    let (gate, at_gate, is_armed) = (held.clone(), arrived.clone(), armed.clone());
    let vfs = SteeredVfs::new().on_create(move |thread| {
        if is_armed.load(Ordering::SeqCst) && thread.starts_with("ppc-flush") {
            at_gate.store(true, Ordering::SeqCst);
            drop(gate.lock().unwrap());
        }
        Ok(())
    });
    let (db, keyspace) = open(db_options(&vfs));
    fill(&keyspace, 512);
    db.compact().unwrap();
    let old = vfs.tables();
    let all = KeyRange::all();
    let iterator = keyspace.iter(all, IterOptions::default()).unwrap();
    fill(&keyspace, 512);
    db.compact().unwrap();
    assert!(old.iter().all(|table| vfs.tables().contains(table)));

    // The thread that would remove them is busy until the store no longer is open.
    let hold = held.lock().unwrap();
    armed.store(true, Ordering::SeqCst);
    keyspace.put(key(1), value(1, 9), Durability::None).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(db.flush()));
        eventually("a flush begins", || arrived.load(Ordering::SeqCst));
        drop(iterator);
        scope.spawn(|| db.close().unwrap());
        eventually("the store is closed", || keyspace.get(key(1)).is_err());
        drop(hold);
    });
    assert!(old.iter().all(|table| !vfs.tables().contains(table)));
}

#[test]
fn jobs_of_two_keyspaces_run_side_by_side() {
    // Each job waits, as it creates its first table, until both have come so far.
    let arrived = Arc::new((Mutex::new(HashSet::new()), Condvar::new()));
    let meet = Arc::clone(&arrived);
    let vfs = SteeredVfs::new().on_create(move |thread| {
        if thread.starts_with("ppc-compact") {
            let (threads, changed) = &*meet;
            let mut threads = threads.lock().unwrap();
            threads.insert(thread.to_owned());
            changed.notify_all();
            let wait = Duration::from_secs(20);
            let both = |threads: &mut HashSet<String>| threads.len() < 2;
            drop(changed.wait_timeout_while(threads, wait, both).unwrap());
        }
        Ok(())
    });
    let mut options = db_options(&vfs);
    options.l0_compaction_trigger = 2;
    let (db, first) = open(options);
    let second = db.keyspace("second", keyspace_options()).unwrap();
    for _ in 0..2 {
        for keyspace in [&first, &second] {
            keyspace
                .put(key(1), value(1, 2000), Durability::None)
                .unwrap();
            keyspace
                .put(key(9), value(9, 2000), Durability::None)
                .unwrap();
        }
        db.flush().unwrap();
    }
    eventually("two threads compact", || {
        arrived.0.lock().unwrap().len() == 2
    });
}

#[test]
fn one_large_job_runs_in_slices() {
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&threads);
    let vfs = SteeredVfs::new().on_create(move |_| {
        seen.lock().unwrap().insert(std::thread::current().id());
        Ok(())
    });
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    options.background_threads = 4;
    let (db, keyspace) = open(options);
    fill(&keyspace, 2048);
    db.flush().unwrap();
    threads.lock().unwrap().clear();
    db.compact().unwrap();
    assert!(threads.lock().unwrap().len() >= 3, "{threads:?}");
    assert_eq!(dump(&keyspace), expected(2048));
}

#[test]
fn a_full_disk_refuses_writes_keeps_reads_and_resumes_when_there_is_room() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.l0_stall_trigger = 6;
    let (db, keyspace) = open(options);
    vfs.set_free_bytes(1000);
    // Flushes go on as long as L0 may grow; then writers are told why they cannot.
    let mut written = BTreeMap::new();
    let refused = shuffled(1 << 16).find_map(|number| {
        let put = keyspace.put(key(number), value(number, 1000), Durability::None);
        match put {
            Ok(()) => written.insert(key(number), value(number, 1000)),
            Err(error) => return Some((number, error)),
        };
        None
    });
    let (number, error) = refused.expect("a writer must be told");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("free"), "{error}");
    assert!(dump(&keyspace).into_iter().eq(written.clone()));
    vfs.set_free_bytes(u64::MAX);
    // No reopening, no waiting for a timer: the next write has it tried again.
    keyspace
        .put(key(number), value(number, 1000), Durability::None)
        .unwrap();
    eventually("L0 is compacted", || tables_in_level(&db, 0) < 4);
    written.insert(key(number), value(number, 1000));
    assert!(dump(&keyspace).into_iter().eq(written));
}

#[test]
fn a_compaction_that_fails_midway_leaves_the_store_as_it_was() {
    let broken = Arc::new(AtomicU64::new(u64::MAX));
    let countdown = Arc::clone(&broken);
    let vfs = SteeredVfs::new().on_append(move |_| match countdown.load(Ordering::Relaxed) {
        0 => Err(io::ErrorKind::StorageFull.into()),
        u64::MAX => Ok(()),
        _ => {
            countdown.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }
    });
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    fill(&keyspace, 512);
    db.flush().unwrap();
    let before = vfs.tables();
    for appends in [0, 1, 5, 12] {
        broken.store(appends, Ordering::Relaxed);
        let error = db.compact().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert_eq!(vfs.tables(), before);
        assert_eq!(dump(&keyspace), expected(512));
    }
    broken.store(u64::MAX, Ordering::Relaxed);
    db.compact().unwrap();
    assert_eq!(tables_in_level(&db, 0), 0);
    assert_eq!(dump(&keyspace), expected(512));
}

#[test]
fn a_job_that_panics_stops_writes_and_hangs_nobody() {
    let armed = Arc::new(AtomicBool::new(false));
    let trap = Arc::clone(&armed);
    let vfs = SteeredVfs::new().on_create(move |thread| {
        let sprung = trap.load(Ordering::Relaxed) && thread.starts_with("ppc-compact");
        assert!(!sprung, "a bug");
        Ok(())
    });
    let (db, keyspace) = open(db_options(&vfs));
    armed.store(true, Ordering::Relaxed);
    let error = (0..100_000).find_map(|number| {
        let put = keyspace.put(key(number % 50), value(number, 1000), Durability::None);
        put.err()
    });
    let error = error.expect("writes must stop");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert!(error.to_string().contains("a bug"), "{error}");
    assert_eq!(dump(&keyspace).len(), 50);
    db.close().unwrap();
}

/// Flips a byte in the middle of a file.
fn corrupt(vfs: &SteeredVfs, path: &Path) {
    let file = vfs.open(path, ReadMode::Pread).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    vfs.files.remove(path).unwrap();
    let mut file: Box<dyn WritableFile> = vfs.files.create(path).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    vfs.files.sync_dir(path.parent().unwrap()).unwrap();
}

#[test]
fn a_corrupt_table_is_left_alone_and_everyone_is_told() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options.clone());
    keyspace
        .put(key(1), value(1, 20_000), Durability::None)
        .unwrap();
    keyspace
        .put(key(5), value(5, 20_000), Durability::None)
        .unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let [table] = &vfs.tables()[..] else {
        panic!("one table")
    };
    corrupt(&vfs, table);

    options.auto_compaction = true;
    options.l0_stall_trigger = 6;
    let (db, _) = open(options);
    // Everything goes to the last level at once.
    let mut two_levels = keyspace_options();
    two_levels.base_level_bytes = 1 << 30;
    let keyspace = db.keyspace("k", two_levels).unwrap();
    // A plain compaction would move the table without reading it.
    let mut rewrite = CompactOptions::default();
    rewrite.rewrite_all = true;
    let error = db.compact_with(&rewrite, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.path(), Some(table.as_path()), "{error}");
    // Keys beside it are written, compacted and read.
    for number in 100..400 {
        keyspace
            .put(key(number), value(number, 1000), Durability::None)
            .unwrap();
    }
    db.flush().unwrap();
    eventually("what can be compacted is", || tables_in_level(&db, 0) < 4);
    assert_eq!(keyspace.get(key(100)).unwrap().unwrap(), value(100, 1000));
    // Keys amid those of the rotten table pile up in L0 above it: writers are told, not left waiting.
    let error = (0..100_000).find_map(|number| {
        let put = keyspace.put(key(2 + number % 3), value(number, 1000), Durability::None);
        put.err()
    });
    let error = error.expect("writers must be told");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn closing_does_not_wait_for_a_long_compaction() {
    let slow = Arc::new(AtomicBool::new(false));
    let running = Arc::new(AtomicUsize::new(0));
    let (throttle, count) = (Arc::clone(&slow), Arc::clone(&running));
    let vfs = SteeredVfs::new().on_append(move |thread| {
        if throttle.load(Ordering::Relaxed) && thread.starts_with("ppc-compact") {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options.clone());
    fill(&keyspace, 2048);
    db.flush().unwrap();
    db.close().unwrap();
    let before = vfs.tables();
    slow.store(true, Ordering::Relaxed);
    options.auto_compaction = true;
    let (db, _) = open(options);
    eventually("a compaction runs", || running.load(Ordering::Relaxed) > 2);
    let begun = Instant::now();
    db.close().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(vfs.tables(), before);
}

#[test]
fn a_manual_compaction_is_cancelled_within_a_step() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    fill(&keyspace, 1024);
    db.flush().unwrap();
    let before = vfs.tables();
    let options = CompactOptions::default();
    let cancel = options.cancel.clone();
    let mut reports = 0;
    let error = keyspace
        .compact_with(&KeyRange::all(), &options, &mut |progress| {
            assert!(progress.raw_bytes <= progress.raw_bytes_estimate + 4096);
            reports += 1;
            cancel.cancel();
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(reports >= 1);
    assert_eq!(vfs.tables(), before);
    assert_eq!(dump(&keyspace), expected(1024));
}

#[test]
fn compaction_drops_what_no_reader_needs_once_the_last_snapshot_goes() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    fill(&keyspace, 256);
    let snapshot = db.snapshot().unwrap();
    keyspace
        .delete_range(&KeyRange::all(), Durability::None)
        .unwrap();
    keyspace.put(key(7), b"seven", Durability::None).unwrap();
    db.compact().unwrap();
    let held = vfs.table_bytes();
    assert!(held > 200_000, "the snapshot's values must stay: {held}");
    let read = snapshot.get(&keyspace, key(9)).unwrap().unwrap();
    assert_eq!(read, value(9, 1000));
    drop(snapshot);
    db.compact().unwrap();
    let left = vfs.table_bytes();
    assert!(left < 4096, "{left} bytes are left for one small entry");
    assert_eq!(dump(&keyspace), [(key(7), b"seven".to_vec())]);
}

#[test]
fn a_manual_compaction_moves_what_was_written_once_and_rewrites_what_hides_something() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    for (round, numbers) in [(0, 0..50), (1, 100..150), (2, 200..250)] {
        for number in numbers {
            let value = value(number + round, 100);
            keyspace.put(key(number), value, Durability::None).unwrap();
        }
        db.flush().unwrap();
    }
    let moved = db.compact().unwrap();
    assert_eq!(
        (moved.tables_moved, moved.tables_written),
        (3, 0),
        "{moved:?}"
    );
    assert_eq!(db.compact().unwrap(), CompactionReport::default());
    let before = dump(&keyspace);

    // A version that only a snapshot sees is in the table beside the newer one.
    keyspace
        .put(key(300), value(1, 100), Durability::None)
        .unwrap();
    let snapshot = db.snapshot();
    keyspace
        .put(key(300), value(2, 100), Durability::None)
        .unwrap();
    db.flush().unwrap();
    drop(snapshot);
    let merged = db.compact().unwrap();
    assert_eq!(
        (merged.tables_moved, merged.tables_written),
        (0, 1),
        "{merged:?}"
    );
    // So is a delete that has nothing to delete.
    keyspace.delete(key(400), Durability::None).unwrap();
    keyspace.delete(key(300), Durability::None).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(dump(&keyspace), before);
    assert_eq!(db.compact().unwrap(), CompactionReport::default());
}

#[test]
fn a_second_whole_compaction_has_nothing_to_do() {
    // What compacts by itself meanwhile leaves tables that the first call does not touch again.
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    options.l0_stall_trigger = 10_000;
    let (db, keyspace) = open(options);
    fill(&keyspace, 1024);
    db.compact().unwrap();
    let report = db.compact().unwrap();
    assert_eq!(
        (report.tables_read, report.tables_moved),
        (0, 0),
        "{report:?}"
    );
    let mut options = CompactOptions::default();
    options.rewrite_all = true;
    let report = db.compact_with(&options, &mut |_| {}).unwrap();
    assert!(report.tables_read > 1, "{report:?}");
    assert_eq!(dump(&keyspace), expected(1024));
}

#[test]
fn deleted_data_is_reclaimed_without_being_asked_for() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    fill(&keyspace, 2048);
    db.flush().unwrap();
    let full = vfs.table_bytes();
    keyspace
        .delete_range(&KeyRange::all(), Durability::None)
        .unwrap();
    db.flush().unwrap();
    eventually("the space is free", || vfs.table_bytes() < full / 10);
    assert_eq!(dump(&keyspace), []);
}
