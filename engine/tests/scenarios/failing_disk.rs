//! A disk that is full or refuses: clear errors, nothing acknowledged is lost, nothing reported as
//! failed comes back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::ErrorKind::{Other, StorageFull};

use std::path::{Path, PathBuf};

use crate::common::{
    DIR, count_tables, eventually, key, open, options, pairs, small_tables, value,
};
use ppc_engine::vfs::{FaultOp, FaultPlan, FaultVfs, LockKind, MemVfs, PowerCut, Vfs};
use ppc_engine::{Batch, BulkOptions, Db, Durability, ErrorKind, KeyRange, Keyspace, Result};

fn faulty(memory: &MemVfs) -> FaultVfs {
    FaultVfs::new(memory.clone(), FaultPlan::default())
}

/// The file system after a power cut that keeps nothing but what was synced.
fn after_power_cut(memory: &MemVfs) -> MemVfs {
    memory.power_cut(PowerCut {
        seed: 1,
        keep_percent: 0,
    })
}

#[test]
fn a_full_disk_stops_writes_until_there_is_room_and_reads_go_on() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (_db, keyspace) = open(options(&vfs));
    for at in 0..10 {
        keyspace
            .put(key(at), value(at, 0), Durability::Buffered)
            .unwrap();
    }
    vfs.arm(FaultPlan::writes_from(1, StorageFull).with_partial_append());
    for at in 10..13 {
        let error = keyspace
            .put(key(at), value(at, 0), Durability::Buffered)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.remedy().is_some(), "{error}");
        assert!(!keyspace.contains(key(at)).unwrap());
        assert_eq!(keyspace.get(key(3)).unwrap().unwrap(), value(3, 0));
    }
    vfs.disarm();
    keyspace
        .put(key(20), value(20, 0), Durability::Sync)
        .unwrap();
    let expected: Vec<_> = (0..10)
        .chain([20])
        .map(|at| (key(at), value(at, 0)))
        .collect();
    assert_eq!(pairs(&keyspace, KeyRange::all()), expected);

    // What was only handed to the system before the failure is on the disk by now.
    let (_db, keyspace) = open(options(&after_power_cut(&memory)));
    assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
}

#[test]
fn a_failed_log_sync_loses_nothing_acknowledged_and_its_batch_never_comes_back() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("unsynced", "1", Durability::Buffered).unwrap();
    keyspace.put("in memory", "2", Durability::None).unwrap();
    vfs.arm(FaultPlan::once(FaultOp::Sync, 1, Other).on(".wal"));
    let error = keyspace.put("failed", "3", Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(keyspace.get("failed").unwrap(), None);
    keyspace.put("after", "4", Durability::Sync).unwrap();
    let expected = [("after", "4"), ("in memory", "2"), ("unsynced", "1")];
    let expected: Vec<_> = expected
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .into();
    assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
    // The disk after a cut that keeps nothing unsynced, and one that keeps everything.
    for keep_percent in [0, 100] {
        let cut = memory.power_cut(PowerCut {
            seed: 3,
            keep_percent,
        });
        let (_db, keyspace) = open(options(&cut));
        assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
    }
    drop((db, keyspace));
    let (_db, keyspace) = open(options(&memory));
    assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
}

/// The system takes pages whose sync failed for written: the next process reads them, and its own
/// syncs succeed without saving them. Opening used to sync the log it had replayed and to name its
/// length in the next one; after a power cut the log was shorter than that, and the store was refused
/// as damaged. Now what was replayed goes to tables, and no log is named of which it is not known
/// that it is on the disk.
#[test]
fn a_log_whose_sync_failed_is_not_relied_on_by_the_next_process() {
    type Next = fn(&Db, &Keyspace);
    let next: [(&str, Next); 4] = [
        ("put", |_, keyspace| {
            keyspace.put("after", "4", Durability::Sync).unwrap();
        }),
        ("sync", |db, keyspace| {
            db.sync().unwrap();
            keyspace.put("after", "4", Durability::Sync).unwrap();
        }),
        ("flush", |db, keyspace| {
            db.flush().unwrap();
            keyspace.put("after", "4", Durability::Sync).unwrap();
        }),
        ("load", |db, keyspace| {
            let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
            loader.put(keyspace, "after", "4".into()).unwrap();
            loader.finish(&mut |_| {}).unwrap();
        }),
    ];
    for (name, act) in next {
        let memory = MemVfs::new();
        let vfs = faulty(&memory);
        let (_killed, keyspace) = open(options(&vfs));
        keyspace.put("synced", "1", Durability::Sync).unwrap();
        keyspace.put("buffered", "2", Durability::Buffered).unwrap();
        vfs.arm(FaultPlan::once(FaultOp::Sync, 1, Other).on(".wal"));
        keyspace.put("failed", "3", Durability::Sync).unwrap_err();

        let memory = memory.kill();
        let (db, keyspace) = open(options(&memory));
        assert_eq!(keyspace.get("buffered").unwrap().unwrap(), "2", "{name}");
        act(&db, &keyspace);
        let found = pairs(&keyspace, KeyRange::all());
        let (_db, keyspace) = open(options(&after_power_cut(&memory)));
        assert_eq!(pairs(&keyspace, KeyRange::all()), found, "{name}");
    }
}

/// The same of the manifest: opening used to remove the log because a record said that tables hold
/// it, a record that could be read but was not on the disk. After a power cut neither was there.
#[test]
fn a_manifest_whose_sync_failed_is_not_relied_on_by_the_next_process() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    db.flush().unwrap();
    keyspace.put("b", "2", Durability::Sync).unwrap();
    vfs.arm(FaultPlan::once(FaultOp::Sync, 1, Other).on(".manifest"));
    db.flush().unwrap_err();

    let memory = memory.kill();
    let (_db, keyspace) = open(options(&memory));
    let found = pairs(&keyspace, KeyRange::all());
    assert_eq!(found.len(), 2);
    // Some cuts keep the removal of a file and not the record that allowed it.
    for seed in 0..50 {
        let keep_percent = 50;
        let cut = memory.power_cut(PowerCut { seed, keep_percent });
        let (_db, keyspace) = open(options(&cut));
        assert_eq!(pairs(&keyspace, KeyRange::all()), found, "seed {seed}");
    }
}

#[test]
fn closing_saves_what_a_failed_log_did_not() {
    for plan in [
        FaultPlan::once(FaultOp::Append, 1, StorageFull),
        FaultPlan::once(FaultOp::Sync, 1, Other),
    ] {
        let memory = MemVfs::new();
        let vfs = faulty(&memory);
        let (db, keyspace) = open(options(&vfs));
        keyspace.put("on disk", "0", Durability::Sync).unwrap();
        keyspace.put("in memory", "1", Durability::None).unwrap();
        vfs.arm(plan.on(".wal"));
        keyspace.put("failed", "2", Durability::Sync).unwrap_err();
        // It used to say that all was well, and lose what only memory held.
        db.close().unwrap();
        drop((db, keyspace));
        let (_db, keyspace) = open(options(&after_power_cut(&memory)));
        assert_eq!(keyspace.get("on disk").unwrap().unwrap(), "0");
        assert_eq!(keyspace.get("in memory").unwrap().unwrap(), "1");
        assert_eq!(keyspace.get("failed").unwrap(), None);
    }
}

#[test]
fn closing_tells_what_it_could_not_save() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("in memory", "1", Durability::None).unwrap();
    vfs.arm(FaultPlan::writes_from(1, StorageFull));
    keyspace.put("failed", "2", Durability::Sync).unwrap_err();
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::NoSpace);
    db.close().unwrap();
}

#[test]
fn a_failed_manifest_sync_stops_writes_for_good_and_reads_go_on() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    db.flush().unwrap();
    keyspace.put("b", "2", Durability::Sync).unwrap();
    let before = memory.files();
    vfs.arm(FaultPlan::once(FaultOp::Sync, 1, Other).on(".manifest"));
    let error = db.flush().unwrap_err();
    assert!(error.path().is_some(), "{error}");
    for _ in 0..2 {
        let error = keyspace.put("c", "3", Durability::Sync).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert!(error.remedy().is_some(), "{error}");
    }
    assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
    let after = memory.files();
    let lost: Vec<_> = before.iter().filter(|file| !after.contains(file)).collect();
    assert!(lost.is_empty(), "{lost:?} were removed");

    drop((db, keyspace));
    vfs.disarm();
    let (_db, keyspace) = open(options(&vfs));
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
    assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
    keyspace.put("c", "3", Durability::Sync).unwrap();
}

#[test]
fn a_writer_that_waits_for_a_full_disk_is_told() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let mut options = options(&vfs);
    options.memtable_bytes = 1 << 10;
    options.sealed_memtables_max = 1;
    let (db, keyspace) = open(options);
    vfs.arm(FaultPlan {
        stays: true,
        ..FaultPlan::once(FaultOp::Append, 1, StorageFull).on(".table")
    });
    let mut acknowledged = Vec::new();
    let error = (0..1000u32).find_map(|at| {
        let put = keyspace.put(key(at), value(at, 1), Durability::Buffered);
        if put.is_ok() {
            acknowledged.push((key(at), value(at, 1)));
        }
        put.err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::NoSpace);
    // The background tries again by itself, so one may be there for a moment.
    eventually("removal of half-written tables", || {
        count_tables(&memory) == 0
    });
    vfs.disarm();
    keyspace.put("more", "", Durability::Sync).unwrap();
    acknowledged.push((b"more".to_vec(), Vec::new()));
    db.flush().unwrap();
    assert_eq!(pairs(&keyspace, KeyRange::all()), acknowledged);
}

#[test]
fn every_single_failing_call_leaves_what_was_acknowledged() {
    for nth in 1..120 {
        let memory = MemVfs::new();
        let vfs = faulty(&memory);
        vfs.arm(FaultPlan {
            stays: false,
            ..FaultPlan::writes_from(nth, StorageFull)
        });
        let mut acknowledged = Vec::new();
        let mut uncertain = Vec::new();
        if let Ok(db) = Db::open(DIR, options(&vfs))
            && let Ok(keyspace) = db.keyspace("k", small_tables())
        {
            for at in 0..30 {
                let mut batch = Batch::new();
                batch.put(&keyspace, key(at), value(at, 1));
                match db.write(batch, Durability::Sync) {
                    Ok(()) => acknowledged.push(at),
                    Err(_) => uncertain.push(at),
                }
                if at % 10 == 9 {
                    // Whether it fails is not the question here.
                    let _ = db.flush();
                }
            }
        }
        vfs.disarm();
        let (_db, keyspace) = open(options(&after_power_cut(&memory)));
        for at in acknowledged {
            let found = keyspace.get(key(at)).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(&*value(at, 1)),
                "{at}, failure {nth}"
            );
        }
        for at in uncertain {
            let found = keyspace.get(key(at)).unwrap();
            assert!(
                found.is_none_or(|found| found == value(at, 1)),
                "{at}, failure {nth}"
            );
        }
    }
}

/// The logs, and their lengths.
fn logs(memory: &MemVfs) -> Vec<(String, u64)> {
    let entries = memory.read_dir(Path::new(DIR)).unwrap();
    let mut logs: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.name.ends_with(".wal"))
        .map(|entry| (entry.name, entry.len))
        .collect();
    logs.sort();
    logs
}

/// Bytes that compress badly.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// What an append that failed had written used to stay until the store was opened again: of a large
/// value, all the room there was. Now the log is cut back, and smaller writes find room at once.
#[test]
fn a_write_that_does_not_fit_gives_its_room_back() {
    let memory = MemVfs::new();
    let (_db, keyspace) = open(options(&memory));
    keyspace.put("before", "1", Durability::Sync).unwrap();
    keyspace.put("unsynced", "2", Durability::Buffered).unwrap();
    let (used, lengths) = (memory.used_bytes(), logs(&memory));
    memory.set_capacity(Some(used + (64 << 10)));
    let error = keyspace
        .put("large", noise(1, 1 << 20), Durability::Buffered)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    let message = error.to_string();
    assert!(
        message.contains(".wal") && message.contains("free some space"),
        "{message}"
    );
    assert_eq!(logs(&memory), lengths);
    assert_eq!(memory.used_bytes(), used);
    // The cut is on the disk, and what was acknowledged before.
    for (next, found) in [(memory.kill(), 2), (after_power_cut(&memory), 2)] {
        next.set_capacity(None);
        let (_db, keyspace) = open(options(&next));
        assert_eq!(pairs(&keyspace, KeyRange::all()).len(), found);
    }
    keyspace.put("small", "3", Durability::Sync).unwrap();
    assert_eq!(keyspace.get("large").unwrap(), None);
    assert_eq!(logs(&memory).len(), 1, "{:?}", logs(&memory));
    let (_db, keyspace) = open(options(&after_power_cut(&memory)));
    let expected = [("before", "1"), ("small", "3"), ("unsynced", "2")];
    let expected: Vec<_> = expected
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .into();
    assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
}

/// A batch whose sync failed lay whole in the log, and the next process showed it, although its writer
/// was told that it failed.
#[test]
fn a_batch_whose_sync_failed_is_not_found_by_the_next_process() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (_killed, keyspace) = open(options(&vfs));
    keyspace
        .put("acknowledged", "1", Durability::Buffered)
        .unwrap();
    vfs.arm(FaultPlan::once(FaultOp::Sync, 1, StorageFull).on(".wal"));
    keyspace.put("failed", "2", Durability::Sync).unwrap_err();
    let (_db, keyspace) = open(options(&memory.kill()));
    assert!(keyspace.contains("acknowledged").unwrap());
    assert!(!keyspace.contains("failed").unwrap());
}

#[test]
fn a_log_that_may_be_read_is_not_cut_back() {
    let memory = MemVfs::new();
    let vfs = faulty(&memory);
    let (_db, keyspace) = open(options(&vfs));
    keyspace.put("before", "1", Durability::Buffered).unwrap();
    let readers = Path::new(DIR).join("READERS");
    let reader = memory.lock(&readers, LockKind::Shared).unwrap().unwrap();
    let lengths = logs(&memory);
    vfs.arm(FaultPlan::once(FaultOp::Append, 1, StorageFull).with_partial_append());
    keyspace
        .put("failed", "2", Durability::Buffered)
        .unwrap_err();
    assert!(logs(&memory)[0].1 > lengths[0].1);
    keyspace.put("after", "3", Durability::Sync).unwrap();
    drop(reader);
    // It goes with the next files that do.
    keyspace.put("more", "4", Durability::Sync).unwrap();
    let found = pairs(&keyspace, KeyRange::all());
    assert_eq!(found.len(), 3);
    let (_db, keyspace) = open(options(&after_power_cut(&memory)));
    assert_eq!(pairs(&keyspace, KeyRange::all()), found);
}

/// Each attempt used to leave a log that could not be begun. Where a log could be begun and the write
/// did not fit, each left a predecessor for the next to name, until there were too many and the store
/// refused all writes until it was opened again, also after there was room.
#[test]
fn any_number_of_writes_that_do_not_fit_leave_nothing() {
    for room_bytes in [0, 200 << 10] {
        let memory = MemVfs::new();
        let (_db, keyspace) = open(options(&memory));
        let files = memory.files().len();
        let large = noise(2, 1 << 20);
        memory.set_capacity(Some(memory.used_bytes() + room_bytes));
        for attempt in 0..700 {
            let error = keyspace
                .put("large", large.clone(), Durability::Buffered)
                .unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::NoSpace,
                "attempt {attempt}: {error}"
            );
            assert!(memory.files().len() <= files + 1, "{:?}", memory.files());
        }
        memory.set_capacity(None);
        keyspace.put("large", large, Durability::Sync).unwrap();
        let (_db, keyspace) = open(options(&after_power_cut(&memory)));
        assert_eq!(pairs(&keyspace, KeyRange::all()).len(), 1);
    }
}

#[test]
fn a_log_that_cannot_be_begun_leaves_no_file() {
    for op in [FaultOp::Append, FaultOp::Sync, FaultOp::SyncDir] {
        let memory = MemVfs::new();
        let vfs = faulty(&memory);
        let (_db, keyspace) = open(options(&vfs));
        let suffix = if op == FaultOp::SyncDir { "" } else { ".wal" };
        vfs.arm(FaultPlan {
            stays: true,
            ..FaultPlan::once(op, 1, StorageFull).on(suffix)
        });
        for _ in 0..3 {
            keyspace.put("a", "1", Durability::Buffered).unwrap_err();
            assert_eq!(logs(&memory), [], "{op:?}");
        }
        vfs.disarm();
        keyspace.put("a", "2", Durability::Sync).unwrap();
        let (_db, keyspace) = open(options(&after_power_cut(&memory)));
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "2");
    }
}

/// Files that are neither the store's nor those it has begun with.
fn leftovers(memory: &MemVfs, db: &Db) -> Vec<PathBuf> {
    let unlisted = db.unlisted_tables().unwrap();
    let temporary = memory.files().into_iter();
    let temporary = temporary.filter(|file| file.extension().is_some_and(|it| it == "tmp"));
    let tables = unlisted.into_iter().map(|table| table.path);
    tables.chain(temporary).collect()
}

/// Work that ends with tables, on a store that has some and a memtable.
type Work = fn(&Db, &Keyspace) -> Result<()>;

const WORKS: [(&str, Work); 4] = [
    ("flush", |db, _| db.flush()),
    ("compaction", |db, _| db.compact().map(drop)),
    ("bulk load, sorted", |db, keyspace| {
        let mut loader = db.bulk_loader(BulkOptions::default())?;
        for at in 0..200 {
            loader.put(keyspace, key(at), noise(at, 500).into())?;
        }
        loader.finish(&mut |_| {}).map(drop)
    }),
    ("bulk load, unsorted", |db, keyspace| {
        let mut options = BulkOptions::default();
        options.memory_bytes = 1 << 20;
        let mut loader = db.bulk_loader(options)?;
        for at in 0..2500_u32 {
            loader.put(
                keyspace,
                key(at.wrapping_mul(1_000_003) % 2500),
                noise(at, 500).into(),
            )?;
        }
        loader.finish(&mut |_| {}).map(drop)
    }),
];

fn store_with_work_to_do(vfs: &(impl Vfs + Clone + 'static)) -> (Db, Keyspace, Keyspace) {
    let mut options = options(vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    let other = db.keyspace("other", small_tables()).unwrap();
    for version in 0..3 {
        for at in 0..40 {
            let bytes = noise(at + 100 * version, 300);
            keyspace
                .put(key(at), bytes.clone(), Durability::Buffered)
                .unwrap();
            other.put(key(at), bytes, Durability::Buffered).unwrap();
        }
        if version < 2 {
            db.flush().unwrap();
        }
    }
    (db, keyspace, other)
}

/// Also while somebody reads the store, which used to keep what a failed flush had finished.
#[test]
fn unfinished_tables_go_at_once_whichever_call_finds_the_disk_full() {
    for (name, work) in WORKS {
        let mut failures = 0;
        for nth in 1.. {
            let memory = MemVfs::new();
            let vfs = faulty(&memory);
            let (db, keyspace, other) = store_with_work_to_do(&vfs);
            let before = (
                pairs(&keyspace, KeyRange::all()),
                pairs(&other, KeyRange::all()),
            );
            let readers = Path::new(DIR).join("READERS");
            let reader = memory.lock(&readers, LockKind::Shared).unwrap();
            // What a compaction has replaced may wait for readers.
            let reader = reader.filter(|_| name == "flush");
            vfs.arm(FaultPlan {
                ops: vec![FaultOp::Create, FaultOp::Append],
                partial_append: true,
                ..FaultPlan::writes_from(nth, StorageFull)
            });
            let Err(error) = work(&db, &keyspace) else {
                break;
            };
            failures += 1;
            let context = format!("{name}, call {nth}: {error}");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{context}");
            // The background may be at another attempt.
            eventually(&context, || leftovers(&memory, &db).is_empty());
            drop(reader);
            let now = (
                pairs(&keyspace, KeyRange::all()),
                pairs(&other, KeyRange::all()),
            );
            assert!(before == now, "{context}");
            vfs.disarm();
            work(&db, &keyspace).unwrap_or_else(|error| panic!("{context}, then {error}"));
            keyspace.put("after", "", Durability::Sync).unwrap();
            db.flush().unwrap();
            let found = pairs(&keyspace, KeyRange::all());
            let (_db, keyspace) = open(options(&after_power_cut(&memory)));
            assert_eq!(pairs(&keyspace, KeyRange::all()), found, "{context}");
        }
        assert!(failures > 3, "{name} failed {failures} times only");
    }
}

/// The same by bytes: the disk fills up at any place of any file.
#[test]
fn work_that_fills_the_disk_succeeds_once_there_is_room() {
    for (name, work) in WORKS {
        let mut failures = 0;
        let mut room_bytes = 0;
        loop {
            let memory = MemVfs::new();
            let (db, keyspace, _) = store_with_work_to_do(&memory);
            let before = pairs(&keyspace, KeyRange::all());
            memory.set_capacity(Some(memory.used_bytes() + room_bytes));
            let Err(error) = work(&db, &keyspace) else {
                break;
            };
            failures += 1;
            let context = format!("{name}, {room_bytes} bytes of room: {error}");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{context}");
            assert!(error.remedy().is_some(), "{context}");
            eventually(&context, || leftovers(&memory, &db).is_empty());
            assert!(pairs(&keyspace, KeyRange::all()) == before, "{context}");
            memory.set_capacity(None);
            work(&db, &keyspace).unwrap_or_else(|error| panic!("{context}, then {error}"));
            let found = pairs(&keyspace, KeyRange::all());
            let (_db, keyspace) = open(options(&memory.kill()));
            assert!(pairs(&keyspace, KeyRange::all()) == found, "{context}");
            room_bytes += 701 + room_bytes / 4;
        }
        assert!(failures > 3, "{name} failed {failures} times only");
    }
}
