//! Bulk loads: what they write, where it goes, and that nothing is left when they end early.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use ppc_engine::vfs::PowerCut;
use ppc_engine::{
    BulkLoader, BulkOptions, BulkPhase, BulkProgress, BulkReport, CompactionReport, Counter, Db,
    Durability, ErrorKind, Keyspace, KeyspaceOptions, TableOptions,
};

use support::*;

const MIB: usize = 1 << 20;

fn loader(db: &Db, memory_bytes: usize) -> BulkLoader {
    let mut options = BulkOptions::default();
    options.memory_bytes = memory_bytes;
    db.bulk_loader(options).unwrap()
}

fn load(db: &Db, keyspace: &Keyspace, numbers: impl IntoIterator<Item = u64>) -> BulkReport {
    let mut loader = loader(db, MIB);
    for number in numbers {
        let value = Bytes::from(value(number, 1000));
        loader.put(keyspace, key(number), value).unwrap();
    }
    loader.finish(&mut |_| {}).unwrap()
}

fn expected(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = numbers
        .into_iter()
        .map(|number| (key(number), value(number, 1000)));
    entries.collect()
}

fn counter(db: &Db, counter: Counter) -> u64 {
    db.stats().counters.get(counter)
}

#[test]
fn sorted_input_is_written_once_to_the_last_level() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let report = load(&db, &keyspace, 0..4096);
    assert!(report.merge_failure.is_none());
    let [loaded] = &report.keyspaces[..] else {
        panic!("one keyspace")
    };
    assert_eq!((loaded.entries, loaded.runs, loaded.level), (4096, 1, 6));
    assert!(!loaded.merged);
    assert!(loaded.tables > 100, "tables are cut at their target");
    // Every byte of every table was written by the load, once, and nothing else was.
    assert_eq!(loaded.bytes_written, vfs.table_bytes());
    assert_eq!(
        counter(&db, Counter::BulkTableBytesWritten),
        vfs.table_bytes()
    );
    for unwanted in [Counter::CompactionBytesWritten, Counter::FlushBytesWritten] {
        assert_eq!(counter(&db, unwanted), 0);
    }
    assert!(dump(&keyspace).into_iter().eq(expected(0..4096)));
}

#[test]
fn unsorted_input_is_written_twice_at_most() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let report = load(&db, &keyspace, shuffled(8192));
    let [loaded] = &report.keyspaces[..] else {
        panic!("one keyspace")
    };
    assert!(loaded.runs > 2, "{loaded:?}");
    assert_eq!(
        (loaded.entries, loaded.merged, loaded.level),
        (8192, true, 6)
    );
    assert_eq!(loaded.bytes_merged, vfs.table_bytes());
    let raw_bytes = 8192 * 1012;
    let written = loaded.bytes_written + loaded.bytes_merged;
    assert!(written < 2 * raw_bytes + raw_bytes / 10, "{written}");
    assert_eq!(
        counter(&db, Counter::CompactionBytesWritten),
        loaded.bytes_merged
    );
    assert!(dump(&keyspace).into_iter().eq(expected(0..8192)));
    // Nothing is left for background compaction to do.
    let levels = &db.stats().keyspaces[0].levels;
    assert!(levels.iter().take(6).all(|level| level.tables == 0));
}

/// Values of which any eight in the order of their keys are nearly the same.
fn similar(number: u64) -> Bytes {
    let unlike = (0..400).map(|at| {
        let mixed = ((number / 8) * 1000 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u8
    });
    unlike.chain(number.to_be_bytes()).collect()
}

#[test]
fn runs_take_no_more_bytes_than_the_tables_that_they_become() {
    // They did: what is alike was not all in one run, and their blocks were as small as the tables'.
    let vfs = SteeredVfs::new();
    let (db, _) = open(db_options(&vfs));
    let mut options = KeyspaceOptions::uniform(TableOptions::blocks(3, 4096));
    options.table_bytes_target = 1 << 20;
    let keyspace = db.keyspace("similar", options).unwrap();
    let mut loader = loader(&db, 2 * MIB);
    for number in shuffled(16384) {
        loader.put(&keyspace, key(number), similar(number)).unwrap();
    }
    let report = loader.finish(&mut |_| {}).unwrap();
    let [loaded] = &report.keyspaces[..] else {
        panic!("one keyspace")
    };
    assert!(loaded.runs > 1 && loaded.merged, "{loaded:?}");
    assert!(loaded.bytes_written <= loaded.bytes_merged, "{loaded:?}");
    // What stays is written as the keyspace's options say.
    assert_eq!(db.compact().unwrap(), CompactionReport::default());
    let all = (0..16384).map(|number| (key(number), similar(number).to_vec()));
    assert!(dump(&keyspace).into_iter().eq(all));
}

#[test]
fn a_late_entry_costs_the_tables_that_it_meets() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let numbers = || (0..4096).map(|number| number * 2).chain([1001, 1003]);
    let report = load(&db, &keyspace, numbers());
    let [loaded] = &report.keyspaces[..] else {
        panic!("one keyspace")
    };
    assert_eq!((loaded.runs, loaded.merged, loaded.level), (2, true, 6));
    // It was the whole load.
    assert!(
        loaded.bytes_merged < loaded.bytes_written / 50,
        "{loaded:?}"
    );
    assert_eq!(tables_in_level(&db, 0), 0);
    assert!(dump(&keyspace).into_iter().eq(expected(numbers())));
}

#[test]
fn of_sorted_input_little_is_held() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let mut loader = loader(&db, 4 * MIB);
    let mut most = 0;
    for number in 0..8192 {
        let value = Bytes::from(value(number, 1000));
        loader.put(&keyspace, key(number), value).unwrap();
        most = most.max(loader.memory_bytes());
    }
    assert!(most < MIB, "{most}");
    assert_eq!(loader.finish(&mut |_| {}).unwrap().keyspaces[0].runs, 1);
}

#[test]
fn sorted_parts_that_come_in_another_order_are_written_once() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let report = load(&db, &keyspace, (4096..8192).chain(0..4096));
    let [loaded] = &report.keyspaces[..] else {
        panic!("one keyspace")
    };
    assert_eq!((loaded.runs, loaded.merged, loaded.level), (2, false, 6));
    assert_eq!(loaded.bytes_written, vfs.table_bytes());
    assert!(dump(&keyspace).into_iter().eq(expected(0..8192)));
}

#[test]
fn runs_that_a_stopped_merge_left_are_rewritten_by_compaction() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    let mut options = BulkOptions::default();
    options.memory_bytes = MIB;
    let cancel = options.cancel.clone();
    let mut loader = db.bulk_loader(options).unwrap();
    // From the back: the runs do not even overlap.
    for number in (0..4096).rev() {
        let value = Bytes::from(value(number, 1000));
        loader.put(&keyspace, key(number), value).unwrap();
    }
    let stop_merge = &mut |progress: BulkProgress| {
        if progress.phase == BulkPhase::Merge {
            cancel.cancel();
        }
    };
    let report = loader.finish(stop_merge).unwrap();
    assert!(report.merge_failure.is_some() && report.keyspaces[0].runs > 2);
    let left = tables_in_level(&db, 0);
    assert!(left > 0);
    assert!(dump(&keyspace).into_iter().eq(expected(0..4096)));
    let done = db.compact().unwrap();
    // None of them came to the last level as it was.
    assert!(done.tables_read >= left, "{done:?}, {left} tables");
    assert_eq!(tables_in_level(&db, 0), 0);
    assert!(dump(&keyspace).into_iter().eq(expected(0..4096)));
}

#[test]
fn the_last_put_of_a_key_counts_wherever_it_comes() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let mut loader = loader(&db, MIB);
    for round in 0..4u64 {
        for number in shuffled(1024) {
            let value = Bytes::from(value(number + round, 1000));
            loader.put(&keyspace, key(number), value).unwrap();
        }
    }
    let report = loader.finish(&mut |_| {}).unwrap();
    assert!(report.keyspaces[0].runs > 1);
    let last = (0..1024).map(|number| (key(number), value(number + 3, 1000)));
    assert!(dump(&keyspace).into_iter().eq(last));
}

#[test]
fn a_load_is_newer_than_what_was_written_before_it_finished() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    load(&db, &keyspace, 0..100);
    let mut loader = loader(&db, MIB);
    for number in 50..60 {
        loader
            .put(&keyspace, key(number), Bytes::from_static(b"loaded"))
            .unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    // In memory, and among the keys of the load.
    keyspace
        .put(key(55), b"before", Durability::Buffered)
        .unwrap();
    assert_eq!(keyspace.get(key(51)).unwrap().unwrap(), value(51, 1000));
    let report = loader.finish(&mut |_| {}).unwrap();
    assert_eq!(report.keyspaces[0].level, 0, "it lies over newer data");
    keyspace
        .put(key(56), b"after", Durability::Buffered)
        .unwrap();
    assert_eq!(keyspace.get(key(55)).unwrap().unwrap(), "loaded");
    assert_eq!(keyspace.get(key(56)).unwrap().unwrap(), "after");
    assert_eq!(
        snapshot.get(&keyspace, key(51)).unwrap().unwrap(),
        value(51, 1000)
    );
    db.compact().unwrap();
    assert_eq!(
        snapshot.get(&keyspace, key(51)).unwrap().unwrap(),
        value(51, 1000)
    );
    assert_eq!(keyspace.get(key(51)).unwrap().unwrap(), "loaded");
}

#[test]
fn loads_side_by_side_in_key_order_never_meet() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    for part in [3, 0, 2, 1] {
        let report = load(&db, &keyspace, part * 500..(part + 1) * 500);
        assert_eq!(report.keyspaces[0].level, 6);
    }
    assert_eq!(counter(&db, Counter::CompactionBytesWritten), 0);
    assert!(dump(&keyspace).into_iter().eq(expected(0..2000)));
}

#[test]
fn a_small_load_into_a_large_keyspace_does_not_rewrite_it() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    let mut keyspace_options = keyspace_options();
    keyspace_options.base_level_bytes = 8 << 20;
    let keyspace = db.keyspace(keyspace.name(), keyspace_options).unwrap();
    load(&db, &keyspace, (0..65536).map(|number| number * 2));
    let report = load(&db, &keyspace, shuffled(2048).map(|number| number * 64 + 1));
    let [loaded] = &report.keyspaces[..] else {
        panic!("one keyspace")
    };
    assert!(loaded.runs > 1 && loaded.merged, "{loaded:?}");
    assert!(loaded.level < 6, "{loaded:?}");
    assert!(loaded.bytes_merged < 2 * loaded.bytes_written, "{loaded:?}");
    assert_eq!(dump(&keyspace).len(), 65536 + 2048);
}

#[test]
fn memory_stays_within_the_budget() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let index = db.keyspace("index", keyspace_options()).unwrap();
    let mut loader = loader(&db, MIB);
    let mut most = 0;
    for number in shuffled(8192) {
        let value = Bytes::from(value(number, 1000));
        loader
            .put(&index, &value[..20], Bytes::from(key(number)))
            .unwrap();
        loader.put(&keyspace, key(number), value).unwrap();
        most = most.max(loader.memory_bytes());
    }
    assert!(most <= MIB, "{most}");
    let report = loader.finish(&mut |_| {}).unwrap();
    let names: Vec<&str> = report
        .keyspaces
        .iter()
        .map(|keyspace| &keyspace.name[..])
        .collect();
    assert_eq!(names, ["index", "k"]);
    assert_eq!(dump(&index).len(), 8192);
    assert!(dump(&keyspace).into_iter().eq(expected(0..8192)));
}

#[test]
fn a_dropped_or_cancelled_load_leaves_nothing() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    load(&db, &keyspace, 0..100);
    let before = vfs.files.files();
    let mut dropped = loader(&db, MIB);
    for number in shuffled(8192) {
        dropped
            .put(&keyspace, key(number), Bytes::from(value(number, 1000)))
            .unwrap();
    }
    assert!(vfs.files.files().len() > before.len() + 10);
    drop(dropped);
    assert_eq!(vfs.files.files(), before);

    let mut options = BulkOptions::default();
    options.memory_bytes = MIB;
    let cancel = options.cancel.clone();
    let mut cancelled = db.bulk_loader(options).unwrap();
    for number in shuffled(8192) {
        cancelled
            .put(&keyspace, key(number), Bytes::from(value(number, 1000)))
            .unwrap();
    }
    let error = cancelled.finish(&mut |progress| {
        if progress.phase == BulkPhase::Write && progress.entries > 0 {
            cancel.cancel();
        }
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(vfs.files.files(), before);
    assert!(dump(&keyspace).into_iter().eq(expected(0..100)));
}

#[test]
fn a_load_that_fails_leaves_nothing() {
    let broken = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&broken);
    let vfs = SteeredVfs::new().on_append(move |_| match full.load(Ordering::Relaxed) {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    });
    let (db, keyspace) = open(db_options(&vfs));
    load(&db, &keyspace, 0..100);
    let before = vfs.files.files();
    let mut loader = loader(&db, MIB);
    let mut put = |number: u64| loader.put(&keyspace, key(number), value(number, 1000).into());
    shuffled(2048).for_each(|number| put(number).unwrap());
    broken.store(true, Ordering::Relaxed);
    let failed = shuffled(8192).find_map(|number| put(number).err());
    assert_eq!(failed.unwrap().kind(), ErrorKind::NoSpace);
    drop(loader);
    assert_eq!(vfs.files.files(), before);
}

#[test]
fn a_merge_that_finds_no_room_leaves_the_load_in_the_store() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    vfs.set_free_bytes(1000);
    let report = load(&db, &keyspace, shuffled(4096));
    let failure = report.merge_failure.unwrap();
    assert_eq!(failure.kind(), ErrorKind::NoSpace, "{failure}");
    assert!(!report.keyspaces[0].merged);
    assert!(dump(&keyspace).into_iter().eq(expected(0..4096)));
    // Tables of a load do not make writers wait.
    keyspace
        .put(key(9999), value(9999, 1000), Durability::Buffered)
        .unwrap();
    vfs.set_free_bytes(u64::MAX);
    db.flush().unwrap();
    eventually("compaction takes care of it", || {
        tables_in_level(&db, 0) < 4
    });
    assert_eq!(dump(&keyspace).len(), 4097);
}

#[test]
fn a_power_cut_leaves_all_of_a_load_or_nothing() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    load(&db, &keyspace, 0..100);
    let mut loader = loader(&db, MIB);
    for number in shuffled(4096) {
        let value = Bytes::from(value(number, 1000));
        loader.put(&keyspace, key(number + 50), value).unwrap();
    }
    let reopened = |files: ppc_engine::vfs::MemVfs| {
        let vfs = SteeredVfs::over(files);
        let mut options = db_options(&vfs);
        options.auto_compaction = false;
        let (db, keyspace) = open(options);
        let tables: u64 = db.stats().keyspaces[0]
            .levels
            .iter()
            .map(|level| level.tables)
            .sum();
        assert_eq!(vfs.tables().len() as u64, tables, "no table is left over");
        dump(&keyspace)
    };
    for seed in 0..8 {
        let cut = PowerCut {
            seed,
            keep_percent: 50,
        };
        assert!(
            reopened(vfs.files.power_cut(cut))
                .into_iter()
                .eq(expected(0..100))
        );
    }
    let mut after = expected(0..50);
    after.extend((0..4096).map(|number| (key(number + 50), value(number, 1000))));
    let (mut adopted, mut cuts) = (false, 0);
    loader
        .finish(&mut |progress| {
            let seed = progress.entries;
            let cut = PowerCut {
                seed,
                keep_percent: 50,
            };
            match progress.phase {
                BulkPhase::Adopt => adopted = true,
                BulkPhase::Merge if seed / 1000 > cuts => {
                    cuts += 1;
                    assert!(
                        reopened(vfs.files.power_cut(cut))
                            .into_iter()
                            .eq(after.clone())
                    );
                }
                _ => {}
            }
        })
        .unwrap();
    assert!(adopted && cuts > 0);
    let cut = PowerCut {
        seed: 1,
        keep_percent: 0,
    };
    assert!(reopened(vfs.files.power_cut(cut)).into_iter().eq(after));
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let mut options = BulkOptions::default();
    options.memory_bytes = 1000;
    let error = db.bulk_loader(options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let mut loader = loader(&db, MIB);
    let error = loader
        .put(&keyspace, vec![1; 1 << 16], Bytes::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let (other, foreign) = open(db_options(&SteeredVfs::new()));
    let error = loader.put(&foreign, key(1), Bytes::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    drop((other, loader));
    let empty = db.bulk_loader(BulkOptions::default()).unwrap();
    let report = empty.finish(&mut |_| {}).unwrap();
    assert!(report.keyspaces.is_empty());
}

#[test]
fn writers_and_flushes_go_on_during_a_load() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..2000 {
                let name = [&b"w"[..], &key(number)].concat();
                keyspace
                    .put(name, value(number, 500), Durability::None)
                    .unwrap();
            }
        });
        for round in 0..4 {
            let mut loader = loader(&db, MIB);
            for number in shuffled(2048) {
                let value = Bytes::from(value(number + round, 1000));
                loader.put(&keyspace, key(number), value).unwrap();
            }
            assert!(loader.finish(&mut |_| {}).unwrap().merge_failure.is_none());
        }
        writer.join().unwrap();
    });
    let loaded = (0..2048).map(|number| (key(number), value(number + 3, 1000)));
    let written = (0..2000).map(|number| ([&b"w"[..], &key(number)].concat(), value(number, 500)));
    assert!(dump(&keyspace).into_iter().eq(loaded.chain(written)));
}
