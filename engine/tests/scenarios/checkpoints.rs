//! Checkpoints: whole or absent, independent of their store, cheap where links are possible.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::ErrorKind::{CrossesDevices, Other, StorageFull};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{DIR, key, open, options, pairs, small_tables, value};
use ppc_engine::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, PowerCut};
use ppc_engine::{Batch, Db, DbOptions, Durability, ErrorKind, KeyRange, Keyspace};

const COPY: &str = "/copy";

fn fill(keyspace: &Keyspace, range: std::ops::Range<u32>, version: u32) {
    for at in range {
        let put = keyspace.put(key(at), value(at, version), Durability::Buffered);
        put.unwrap();
    }
}

fn open_copy(options: DbOptions) -> (Db, Keyspace) {
    let db = Db::open(COPY, options).unwrap();
    let keyspace = db.existing_keyspace("k").unwrap().unwrap();
    (db, keyspace)
}

/// Files of the checkpoint, or of its building.
fn traces(memory: &MemVfs) -> Vec<PathBuf> {
    let mut files = memory.files();
    files.retain(|file| !file.starts_with(DIR));
    files
}

#[test]
fn a_checkpoint_holds_its_moment_and_goes_its_own_way() {
    let memory = MemVfs::new();
    let (db, keyspace) = open(options(&memory));
    fill(&keyspace, 0..300, 1);
    db.flush().unwrap();
    fill(&keyspace, 100..200, 2);
    keyspace.delete_prefix(key(250), Durability::None).unwrap();
    let then = pairs(&keyspace, KeyRange::all());
    let report = db.checkpoint(COPY).unwrap();
    assert_eq!((report.linked, report.copied), (2, 0));
    assert_eq!(report.bytes_copied, 0);
    assert_eq!(report.seq, db.snapshot().unwrap().seq());

    // Neither sees what the other does, though they share tables.
    fill(&keyspace, 0..50, 3);
    db.compact().unwrap();
    let now = pairs(&keyspace, KeyRange::all());
    let (copy, copied) = open_copy(options(&memory));
    assert_eq!(pairs(&copied, KeyRange::all()), then);
    fill(&copied, 400..500, 4);
    copied.delete(key(7), Durability::Sync).unwrap();
    copy.compact().unwrap();
    assert_eq!(pairs(&keyspace, KeyRange::all()), now);
    drop((db, keyspace));
    let (_db, keyspace) = open(options(&memory));
    assert_eq!(pairs(&keyspace, KeyRange::all()), now);
}

#[test]
fn a_checkpoint_survives_a_power_cut_once_it_is_made() {
    let memory = MemVfs::new();
    let (db, keyspace) = open(options(&memory));
    fill(&keyspace, 0..100, 1);
    let then = pairs(&keyspace, KeyRange::all());
    db.checkpoint(COPY).unwrap();
    let cut = memory.power_cut(PowerCut {
        seed: 5,
        keep_percent: 0,
    });
    let (_copy, copied) = open_copy(options(&cut));
    assert_eq!(pairs(&copied, KeyRange::all()), then);
}

#[test]
fn tables_are_copied_where_they_cannot_be_linked() {
    let memory = MemVfs::new();
    let plan = FaultPlan {
        stays: true,
        ..FaultPlan::once(FaultOp::HardLink, 1, CrossesDevices)
    };
    let vfs = FaultVfs::new(memory.clone(), plan);
    let (db, keyspace) = open(options(&vfs));
    fill(&keyspace, 0..100, 1);
    let then = pairs(&keyspace, KeyRange::all());
    let report = db.checkpoint(COPY).unwrap();
    assert_eq!((report.linked, report.copied), (0, 1));
    assert!(report.bytes > 0);
    assert_eq!(report.bytes_copied, report.bytes);
    let cut = memory.power_cut(PowerCut {
        seed: 5,
        keep_percent: 0,
    });
    let (_copy, copied) = open_copy(options(&cut));
    assert_eq!(pairs(&copied, KeyRange::all()), then);
}

#[test]
fn what_is_there_already_is_never_touched() {
    let memory = MemVfs::new();
    let (db, keyspace) = open(options(&memory));
    fill(&keyspace, 0..10, 1);
    db.checkpoint(COPY).unwrap();
    let before = traces(&memory);
    for path in [COPY, DIR, "/"] {
        let error = db.checkpoint(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.path().is_some(), "{error}");
    }
    assert_eq!(traces(&memory), before);
}

#[test]
fn no_failure_leaves_a_trace() {
    for (nth, error) in (1..).map(|nth| (nth, if nth % 2 == 0 { Other } else { StorageFull })) {
        let memory = MemVfs::new();
        let vfs = FaultVfs::new(memory.clone(), FaultPlan::default());
        let (db, keyspace) = open(options(&vfs));
        fill(&keyspace, 0..50, 1);
        db.flush().unwrap();
        let then = pairs(&keyspace, KeyRange::all());
        let all = FaultPlan {
            nth,
            error,
            ..FaultPlan::default()
        };
        vfs.arm(all);
        let made = db.checkpoint(COPY);
        let failed = vfs.failed();
        vfs.disarm();
        if failed == 0 {
            assert!(nth > 10, "only {nth} calls");
            made.unwrap();
            return;
        }
        if made.is_err() {
            let left = traces(&memory);
            assert!(left.is_empty(), "call {nth} left {left:?}");
            db.checkpoint(COPY).unwrap();
        }
        let (_copy, copied) = open_copy(options(&memory));
        assert_eq!(pairs(&copied, KeyRange::all()), then, "call {nth}");
    }
}

#[test]
fn writers_and_compactions_go_on_and_no_batch_is_torn() {
    let memory = MemVfs::new();
    let mut options = options(&memory);
    options.memtable_bytes = 8 << 10;
    let (db, a) = open(options.clone());
    let b = db.keyspace("b", small_tables()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let mut batch = Batch::new();
                batch.put(&a, key(at % 64), value(at, 1));
                batch.put(&b, key(at % 64), value(at, 1));
                db.write(batch, Durability::Buffered).unwrap();
            }
        });
        for copy in 0..12 {
            let path = format!("/copy{copy}");
            db.checkpoint(&path).unwrap();
            let copy = Db::open_read_only(&path, options.clone()).unwrap();
            let [a, b] = ["k", "b"].map(|name| copy.existing_keyspace(name).unwrap().unwrap());
            assert_eq!(pairs(&a, KeyRange::all()), pairs(&b, KeyRange::all()));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_reader_makes_checkpoints_too() {
    let memory = MemVfs::new();
    let (db, keyspace) = open(options(&memory));
    fill(&keyspace, 0..100, 1);
    db.flush().unwrap();
    fill(&keyspace, 50..60, 2);
    keyspace
        .delete_prefix(key(70), Durability::Buffered)
        .unwrap();
    let then = pairs(&keyspace, KeyRange::all());
    let reader = Db::open_read_only(DIR, options(&memory)).unwrap();
    fill(&keyspace, 0..100, 3);
    db.compact().unwrap();
    let report = reader.checkpoint(COPY).unwrap();
    assert_eq!((report.linked, report.copied), (1, 1));
    drop((reader, db));
    let (copy, copied) = open_copy(options(&memory));
    assert_eq!(pairs(&copied, KeyRange::all()), then);
    fill(&copied, 0..10, 5);
    assert_eq!(copied.get(key(3)).unwrap().unwrap(), value(3, 5));
    drop(copy);
}

#[test]
fn a_checkpoint_on_the_disk_shares_its_tables() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = DbOptions::default();
    options.compression_threads = 1;
    let db = Db::open(dir.path().join("store"), options.clone()).unwrap();
    let keyspace = db.keyspace("k", small_tables()).unwrap();
    fill(&keyspace, 0..100, 1);
    let then = pairs(&keyspace, KeyRange::all());
    // A path with a separator at its end names the same directory.
    let copy = dir.path().join("deep/copy/");
    let report = db.checkpoint(&copy).unwrap();
    assert_eq!((report.linked, report.copied), (1, 0));
    drop((db, keyspace));
    std::fs::remove_dir_all(dir.path().join("store")).unwrap();
    let names = std::fs::read_dir(dir.path().join("deep")).unwrap();
    assert_eq!(names.count(), 1);
    let copy = Db::open(Path::new(&copy), options).unwrap();
    let copied = copy.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(pairs(&copied, KeyRange::all()), then);
}
