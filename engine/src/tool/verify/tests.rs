use std::path::Path;

use super::super::testing::{DIR, build_store, db_options, files_ending, flip, rewrite, tables};
use super::*;
use crate::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, Vfs, read_whole};

fn verify(db: &Db, options: &VerifyOptions) -> VerifyReport {
    db.verify(options, &mut |_| {}).unwrap()
}

fn shared(vfs: &MemVfs) -> Arc<dyn Vfs> {
    Arc::new(vfs.clone())
}

fn quick() -> VerifyOptions {
    VerifyOptions {
        quick: true,
        ..VerifyOptions::default()
    }
}

#[test]
fn a_sound_store_has_no_problems_and_progress_reaches_the_end() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    for threads in [1, 3] {
        let options = VerifyOptions {
            threads,
            ..VerifyOptions::default()
        };
        let mut last = VerifyProgress::default();
        let report = db
            .verify(&options, &mut |now| {
                assert!(now.bytes >= last.bytes && now.bytes <= now.bytes_total);
                last = now;
            })
            .unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        assert_eq!(report.keyspaces, 2);
        assert_eq!(report.tables, tables(&vfs).len() as u64);
        assert_eq!(report.entries, 300 + 50 + 10);
        assert!(report.decoded_bytes > 100_000);
        assert_eq!(
            (last.tables, last.bytes),
            (report.tables, report.stored_bytes)
        );
        assert_eq!(last.tables_total, report.tables);
    }
    let report = verify(&db, &quick());
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!((report.entries, report.decoded_bytes), (360, 0));
}

#[test]
fn each_damaged_table_is_named_and_the_others_are_checked() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    db.close().unwrap();
    let damaged = tables(&vfs);
    for path in damaged.iter().take(2) {
        // Within the first frame.
        flip(&vfs, path, 60);
    }
    let db = Db::open_read_only(DIR, db_options(&vfs)).unwrap();
    for options in [VerifyOptions::default(), quick()] {
        let report = verify(&db, &options);
        let mut named: Vec<_> = report
            .problems
            .iter()
            .filter_map(|it| it.error.path())
            .collect();
        named.dedup();
        assert_eq!(named, [damaged[0].as_path(), damaged[1].as_path()]);
        for problem in &report.problems {
            assert_eq!(problem.error.kind(), ErrorKind::Corruption);
            assert!(problem.bytes.is_some(), "{problem}");
            assert!(problem.error.keyspace().is_some(), "{problem}");
            let Affected::Values { count, first, last } = &problem.affects else {
                panic!("{:?}", problem.affects)
            };
            assert!(*count > 0 && first <= last && first.starts_with(b"key "));
        }
        assert!(report.entries > 250, "{}", report.entries);
        assert_eq!(report.tables, damaged.len() as u64);
    }
}

#[test]
fn a_missing_a_short_and_a_strayed_table_are_problems() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    let paths = tables(&vfs);
    vfs.remove(&paths[0]).unwrap();
    rewrite(&vfs, &paths[1], |bytes| bytes.truncate(100));
    let other = read_whole(&vfs, &paths[3]).unwrap();
    rewrite(&vfs, &paths[2], |bytes| *bytes = other);
    let db = Db::open_read_only(DIR, db_options(&vfs)).unwrap();
    let report = verify(&db, &VerifyOptions::default());
    let named: Vec<_> = report
        .problems
        .iter()
        .filter_map(|it| it.error.path())
        .collect();
    assert_eq!(named, [&paths[0], &paths[1], &paths[2]]);
    let message = |at: usize| report.problems[at].error.message();
    assert!(message(0).contains("missing"));
    assert!(
        message(1).contains("is cut short: 100 of"),
        "{}",
        message(1)
    );
}

/// A table whose end was lost, or whose sections are damaged, was one problem and never looked at.
#[test]
fn a_table_that_does_not_open_is_checked_unit_by_unit() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    let sound = verify_store_in(&shared(&vfs), Path::new(DIR), &quick(), &mut |_| {}).unwrap();
    let path = tables(&vfs)[0].clone();
    rewrite(&vfs, &path, |bytes| {
        // The first frame, and the footer.
        bytes[50] ^= 1;
        let end = bytes.len() - 20;
        bytes[end] ^= 1;
    });
    let damaged = verify_store_in(&shared(&vfs), Path::new(DIR), &quick(), &mut |_| {}).unwrap();
    let [frame, footer] = damaged.problems.as_slice() else {
        panic!("{:?}", damaged.problems)
    };
    assert_eq!(footer.affects, Affected::Table);
    assert_eq!(frame.bytes.as_ref().map(|bytes| bytes.start), Some(24));
    assert!(frame.bytes.as_ref().unwrap().contains(&50));
    // The section table is counted as a unit only where it is come upon.
    assert_eq!(damaged.units, sound.units);
    assert_eq!(damaged.entries, sound.entries);
}

#[test]
fn a_damaged_key_block_is_told_with_its_keys_and_walks_go_on_behind_it() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    db.compact().unwrap();
    db.close().unwrap();
    drop(db);
    let mut block = None;
    for path in tables(&vfs) {
        crate::list_key_blocks_in(&vfs, &path, &mut |found| {
            let entries = found.entries.unwrap();
            if entries.first.starts_with(b"key ") && entries.count < 100 && block.is_none() {
                block = Some((path.clone(), found.range, entries));
            }
            true
        })
        .unwrap();
    }
    let (path, range, entries) = block.unwrap();
    flip(&vfs, &path, range.start as usize + 20);
    let db = Db::open_read_only(DIR, db_options(&vfs)).unwrap();
    for options in [VerifyOptions::default(), quick()] {
        let report = verify(&db, &options);
        let [problem] = report.problems.as_slice() else {
            panic!("{:?}", report.problems)
        };
        assert_eq!(problem.bytes, Some(range.clone()));
        let Affected::Keys { after, up_to } = &problem.affects else {
            panic!("{:?}", problem.affects)
        };
        assert!(after.as_ref().is_none_or(|after| *after < entries.first));
        assert!(up_to.as_ref().is_none_or(|up_to| *up_to >= entries.last));
    }
    let keyspace = problem_keyspace(&db, &entries.first);
    let mut walked = 0;
    let mut errors = 0;
    let options = crate::IterOptions::default().passing_over_damage();
    let mut iter = keyspace.iter(crate::KeyRange::all(), options).unwrap();
    let mut last: Option<Vec<u8>> = None;
    while let Some(item) = iter.next() {
        match item {
            Ok((key, _)) => {
                assert_eq!(iter.last_key(), Some(&key[..]));
                assert!(last.as_deref().is_none_or(|last| last < &key[..]));
                last = Some(key.to_vec());
                walked += 1;
            }
            Err(error) => {
                assert_eq!(error.offset(), Some(range.start));
                assert_eq!(iter.last_key(), None);
                errors += 1;
            }
        }
    }
    let all = keyspace_entries(&keyspace);
    assert_eq!((errors, walked), (1, all - entries.count));
    let plain = keyspace.iter(crate::KeyRange::all(), crate::IterOptions::default());
    assert!(plain.unwrap().last().unwrap().is_err());
}

/// The keyspace of the first key of a block.
fn problem_keyspace(db: &Db, key: &[u8]) -> crate::Keyspace {
    let names = db.keyspace_names();
    let mut keyspaces = names
        .iter()
        .map(|name| db.existing_keyspace(name).unwrap().unwrap());
    keyspaces
        .find(|keyspace| keyspace.get(key).is_err())
        .unwrap()
}

/// How many keys a compacted keyspace of [`build_store`] holds.
fn keyspace_entries(keyspace: &crate::Keyspace) -> u64 {
    match keyspace.name() {
        "sizes" => 10,
        _ => 250,
    }
}

#[test]
fn a_file_that_may_not_be_read_is_no_damage() {
    // It was counted as one, with the advice to salvage.
    let inner = MemVfs::new();
    drop(build_store(&inner));
    for suffix in ["table", "manifest"] {
        let denied = std::io::ErrorKind::PermissionDenied;
        let plan = FaultPlan::once(FaultOp::Open, 1, denied).on(suffix);
        let vfs: Arc<dyn Vfs> = Arc::new(FaultVfs::new(inner.clone(), plan));
        let error = verify_store_in(&vfs, Path::new(DIR), &quick(), &mut |_| {}).unwrap_err();
        let path = error.path().and_then(Path::extension);
        assert_eq!(path.and_then(|it| it.to_str()), Some(suffix), "{error}");
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}

#[test]
fn a_store_that_does_not_open_is_checked_all_the_same() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    let check = || verify_store_in(&shared(&vfs), Path::new(DIR), &quick(), &mut |_| {});
    let sound = check().unwrap();
    assert!(sound.is_sound() && sound.unlisted.is_empty());
    let log = files_ending(&vfs, "wal").pop().unwrap();
    let len = read_whole(&vfs, &log).unwrap().len();
    flip(&vfs, &log, len / 3);
    let manifest = files_ending(&vfs, "manifest").pop().unwrap();
    let len = read_whole(&vfs, &manifest).unwrap().len();
    flip(&vfs, &manifest, len / 2);
    assert!(Db::open_read_only(DIR, db_options(&vfs)).is_err());
    let report = check().unwrap();
    assert_eq!(
        (report.tables, report.entries),
        (sound.tables, sound.entries)
    );
    let paths: Vec<_> = report
        .problems
        .iter()
        .filter_map(|it| it.error.path())
        .collect();
    assert_eq!(paths, [manifest.as_path(), log.as_path()]);

    vfs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
    assert_eq!(check().unwrap().entries, sound.entries);
    let nowhere = Path::new("/nowhere");
    let error = verify_store_in(&shared(&vfs), nowhere, &quick(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn tables_that_no_manifest_names_are_told_unless_a_writer_may_be_at_work() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    let check = || verify_store_in(&shared(&vfs), Path::new(DIR), &quick(), &mut |_| {}).unwrap();
    let bytes = read_whole(&vfs, &tables(&vfs)[0]).unwrap();
    for (name, bytes) in [("900000", &bytes[..]), ("900001", &bytes[..70])] {
        let path = Path::new(DIR).join(format!("{name}.table"));
        vfs.create(&path).unwrap().append(bytes).unwrap();
    }
    let report = check();
    assert!(
        report.is_sound() && report.unlisted.is_empty(),
        "{report:?}"
    );
    drop(db);
    let report = check();
    assert!(report.is_sound(), "{:?}", report.problems);
    let [unlisted] = report.unlisted.as_slice() else {
        panic!("{:?}", report.unlisted)
    };
    assert!(unlisted.path.ends_with("900000.table") && unlisted.is_sound);
    assert!(unlisted.keyspace.is_some() && unlisted.entries > 0);
}

#[test]
fn a_manifest_that_says_otherwise_is_a_problem() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    let version = Arc::clone(&db.inner().spaces()[0].view().version);
    let table = &version.level(0)[0];
    let reader = db.inner().table(table).unwrap();
    assert!(disagreement(table, &reader).is_none());
    let mut meta = TableMeta::clone(table);
    meta.entries += 1;
    meta.largest.push(0);
    let error = disagreement(&meta, &reader).unwrap();
    assert!(error.message().ends_with("in number of entries, key range"));
}

#[test]
fn a_cancelled_check_fails_and_says_so() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    let options = VerifyOptions::default();
    let cancel = options.cancel.clone();
    let error = db.verify(&options, &mut |_| cancel.cancel()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
