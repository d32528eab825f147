//! A disk that is full or refuses: clear errors, nothing acknowledged is lost, nothing reported as
//! failed comes back.

use std::io::ErrorKind::{Other, StorageFull};

use crate::common::{
    DIR, count_tables, eventually, key, open, options, pairs, small_tables, value,
};
use ppc_engine::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, PowerCut};
use ppc_engine::{Batch, BulkOptions, Db, Durability, ErrorKind, KeyRange, Keyspace};

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
