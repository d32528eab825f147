use super::super::testing::{
    DIR, build_store, db_options, expected, files_ending, flip, key, rewrite, tables,
};
use super::*;
use crate::types::KeyRange;
use crate::vfs::{MemVfs, read_whole};
use crate::{IngestOptions, Keyspace};
use bytes::Bytes;

const TARGET: &str = "/new";

fn options(vfs: &MemVfs) -> SalvageOptions {
    SalvageOptions {
        db: db_options(vfs),
        ..SalvageOptions::default()
    }
}

fn run(vfs: &MemVfs) -> SalvageReport {
    let before: Vec<_> = source_files(vfs);
    let report = salvage(DIR, TARGET, &options(vfs), &mut |_| {}).unwrap();
    assert_eq!(source_files(vfs), before, "the source was changed");
    report
}

fn source_files(vfs: &MemVfs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vfs.files();
    files.retain(|path| path.starts_with(DIR));
    let read = |path: PathBuf| {
        let bytes = read_whole(vfs, &path).unwrap();
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

fn open_target(vfs: &MemVfs) -> Keyspace {
    let db = Db::open(TARGET, db_options(vfs)).unwrap();
    db.existing_keyspace("files").unwrap().unwrap()
}

fn damage(vfs: &MemVfs, path: &Path) {
    let middle = read_whole(vfs, path).unwrap().len() / 3;
    flip(vfs, path, middle);
}

/// Every key has its newest value, or none.
fn check_all(vfs: &MemVfs) {
    let files = open_target(vfs);
    for number in 0..310 {
        let found = files.get(key(number)).unwrap();
        assert_eq!(found.as_deref(), expected(number).as_deref(), "{number}");
    }
    assert!(files.db().keyspace_names().contains(&"sizes".to_owned()));
}

#[test]
fn a_sound_store_comes_out_whole() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    let report = run(&vfs);
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    assert_eq!((report.tables_damaged, report.tables_lost), (0, 0));
    assert_eq!(report.log_writes, 50);
    let entries: Vec<_> = report.keyspaces.iter().map(|it| it.entries).collect();
    assert_eq!(entries, [250, 10]);
    check_all(&vfs);
}

#[test]
fn a_store_without_manifest_comes_out_whole() {
    for loses_manifest in [false, true] {
        let vfs = MemVfs::new();
        drop(build_store(&vfs));
        vfs.remove(&Path::new(DIR).join(CURRENT)).unwrap();
        if loses_manifest {
            for path in files_ending(&vfs, "manifest") {
                damage(&vfs, &path);
            }
        }
        let report = run(&vfs);
        let [loss] = report.losses.as_slice() else {
            panic!("{:?}", report.losses)
        };
        assert!(matches!(loss.part, LostPart::Manifest(_)), "{loss}");
        check_all(&vfs);
    }
}

#[test]
fn loads_outside_the_history_keep_their_place_without_manifest() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    db.flush().unwrap();
    let files = db.existing_keyspace("files").unwrap().unwrap();
    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
    for number in 10..20 {
        loader
            .put(&files, key(number), Bytes::from_static(b"loaded"))
            .unwrap();
    }
    loader.finish(&mut |_| {}).unwrap();
    files
        .put(key(15), "later", crate::Durability::Sync)
        .unwrap();
    db.close().unwrap();
    vfs.remove(&Path::new(DIR).join(CURRENT)).unwrap();
    for path in files_ending(&vfs, "manifest") {
        vfs.remove(&path).unwrap();
    }
    run(&vfs);
    let files = open_target(&vfs);
    assert_eq!(files.get(key(10)).unwrap().as_deref(), Some(&b"loaded"[..]));
    assert_eq!(files.get(key(15)).unwrap().as_deref(), Some(&b"later"[..]));
    assert_eq!(files.get(key(20)).unwrap(), expected(20).map(Bytes::from));
    assert_eq!(files.get(key(210)).unwrap(), None);
}

#[test]
fn what_a_damaged_table_loses_is_listed_and_the_rest_is_there() {
    for with_manifest in [true, false] {
        let vfs = MemVfs::new();
        drop(build_store(&vfs));
        let mut largest = tables(&vfs).pop().unwrap();
        for path in tables(&vfs) {
            if read_whole(&vfs, &path).unwrap().len() > read_whole(&vfs, &largest).unwrap().len() {
                largest = path;
            }
        }
        // Within the first frame.
        flip(&vfs, &largest, 60);
        if !with_manifest {
            vfs.remove(&Path::new(DIR).join(CURRENT)).unwrap();
        }
        let report = run(&vfs);
        assert_eq!(report.tables_damaged, 1);
        let lost: Vec<&[u8]> = report
            .losses
            .iter()
            .filter_map(|loss| match &loss.part {
                LostPart::Value { key, .. } => Some(key.as_slice()),
                _ => None,
            })
            .collect();
        assert!(!lost.is_empty(), "{:?}", report.losses);
        let files = open_target(&vfs);
        for number in 0..300 {
            let found = files.get(key(number)).unwrap();
            let is_lost = lost.contains(&key(number).as_slice());
            let right = found.as_deref() == expected(number).as_deref();
            assert!(right || is_lost, "{number}");
        }
        assert!(
            vfs.files()
                .iter()
                .all(|path| !path.to_string_lossy().ends_with(SCRATCH_SUFFIX))
        );
    }
}

#[test]
fn a_table_that_is_gone_and_one_of_rubbish_are_losses() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    let paths = tables(&vfs);
    vfs.remove(&paths[0]).unwrap();
    rewrite(&vfs, &paths[1], |bytes| bytes.fill(7));
    let report = run(&vfs);
    let lost: Vec<_> = report.losses.iter().map(|loss| &loss.path).collect();
    assert!(
        lost.contains(&&paths[0]) && lost.contains(&&paths[1]),
        "{lost:?}"
    );
    assert!(report.tables_lost >= 1);
}

#[test]
fn a_hole_in_the_log_costs_what_follows_in_that_file() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    let files = db.existing_keyspace("files").unwrap().unwrap();
    files.put("last", "x", crate::Durability::Sync).unwrap();
    db.close().unwrap();
    let log = files_ending(&vfs, "wal").pop().unwrap();
    damage(&vfs, &log);
    assert!(Db::open_read_only(DIR, db_options(&vfs)).is_err());
    let report = run(&vfs);
    let [loss] = report.losses.as_slice() else {
        panic!("{:?}", report.losses)
    };
    assert!(matches!(loss.part, LostPart::Log(_)), "{loss}");
    assert!(report.log_writes > 0 && report.log_writes < 51);
    let files = open_target(&vfs);
    assert_eq!(
        files.get(key(20)).unwrap().as_deref(),
        expected(20).as_deref()
    );
}

#[test]
fn a_table_of_unknown_owner_goes_to_the_fallback() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let path = "/outside.table";
    let table = crate::TableOptions::default();
    let mut writer = crate::ExternalTableWriter::create_in(shared, path, &table, 1).unwrap();
    writer.put("outside", Bytes::from_static(b"1")).unwrap();
    writer.finish().unwrap();
    let files = db.existing_keyspace("files").unwrap().unwrap();
    db.ingest(&files, &[path], &IngestOptions::default())
        .unwrap();
    db.close().unwrap();
    vfs.remove(&Path::new(DIR).join(CURRENT)).unwrap();
    for path in files_ending(&vfs, "manifest") {
        vfs.remove(&path).unwrap();
    }
    let report = run(&vfs);
    assert!(
        report
            .losses
            .iter()
            .any(|loss| matches!(loss.part, LostPart::Keyspace))
    );
    let files = open_target(&vfs);
    let fallback = files.db().existing_keyspace("recovered").unwrap().unwrap();
    assert_eq!(fallback.get("outside").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn what_cannot_be_done_leaves_nothing_behind() {
    let vfs = MemVfs::new();
    let db = build_store(&vfs);
    let error = salvage(DIR, TARGET, &options(&vfs), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    drop(db);
    let cancelled = options(&vfs);
    let cancel = cancelled.cancel.clone();
    let error = salvage(DIR, TARGET, &cancelled, &mut |_| cancel.cancel()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!vfs.exists(Path::new(TARGET)).unwrap());
    let error = salvage(DIR, DIR, &options(&vfs), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    run(&vfs);
    let error = salvage(DIR, TARGET, &options(&vfs), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let all = KeyRange::all();
    assert_eq!(
        open_target(&vfs)
            .iter(all, Default::default())
            .unwrap()
            .count(),
        250
    );
}
