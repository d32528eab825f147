use super::super::testing::{DIR, build_store, db_options, flip, rewrite, tables};
use super::*;
use crate::vfs::{MemVfs, Vfs, read_whole};

fn verify(db: &Db, options: &VerifyOptions) -> VerifyReport {
    db.verify(options, &mut |_| {}).unwrap()
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
        let middle = read_whole(&vfs, path).unwrap().len() / 3;
        flip(&vfs, path, middle);
    }
    let db = Db::open_read_only(DIR, db_options(&vfs)).unwrap();
    for options in [VerifyOptions::default(), quick()] {
        let report = verify(&db, &options);
        let mut named: Vec<_> = report.problems.iter().filter_map(Error::path).collect();
        named.dedup();
        assert_eq!(named, [damaged[0].as_path(), damaged[1].as_path()]);
        for problem in &report.problems {
            assert_eq!(problem.kind(), ErrorKind::Corruption);
            assert!(problem.offset().is_some(), "{problem}");
            assert!(problem.keyspace().is_some(), "{problem}");
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
    let named: Vec<_> = report.problems.iter().filter_map(Error::path).collect();
    assert_eq!(named, [&paths[0], &paths[1], &paths[2]]);
    assert!(report.problems[0].message().contains("missing"));
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
