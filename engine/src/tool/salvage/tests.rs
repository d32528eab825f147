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
    for target in [DIR, "/store/new", "/"] {
        let error = salvage(DIR, target, &options(&vfs), &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains("store"), "{error}");
    }
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

/// What the frames of a damaged table held under lost keys came out of no salvage.
#[test]
fn values_of_lost_keys_come_out_where_they_are_wanted() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    // A key block whose keys no other table or log has.
    let mut block = None;
    for path in tables(&vfs) {
        crate::list_key_blocks_in(&vfs, &path, &mut |found| {
            let first = found.entries.unwrap().first;
            if (key(100)..key(180)).contains(&first) {
                block = Some((path.clone(), found.range.start as usize));
            }
            true
        })
        .unwrap();
    }
    let (path, start) = block.unwrap();
    flip(&vfs, &path, start + 40);
    let wanted = SalvageOptions {
        orphans_keyspace: Some("orphans".to_owned()),
        ..options(&vfs)
    };
    let report = salvage(DIR, TARGET, &wanted, &mut |_| {}).unwrap();
    assert!(report.orphans > 0);
    let is_keys = |loss: &SalvageLoss| matches!(loss.part, LostPart::Keys { .. });
    assert!(report.losses.iter().any(is_keys), "{:?}", report.losses);
    let files = open_target(&vfs);
    let orphans = files.db().existing_keyspace("orphans").unwrap().unwrap();
    let all: Vec<Bytes> = orphans
        .iter(KeyRange::all(), Default::default())
        .unwrap()
        .map(|entry| entry.unwrap().1)
        .collect();
    assert_eq!(all.len() as u64, report.orphans);
    let all = all.concat();
    let mut found = 0;
    for number in 0..300 {
        let (Some(value), None) = (expected(number), files.get(key(number)).unwrap()) else {
            continue;
        };
        found += 1;
        assert!(all.windows(value.len()).any(|it| it == value), "{number}");
    }
    assert!(found > 10, "{found}");

    // Nobody asked for them.
    let plain = salvage(DIR, "/plain", &options(&vfs), &mut |_| {}).unwrap();
    assert_eq!(plain.orphans, 0);
    assert_eq!(plain.keyspaces.len(), report.keyspaces.len() - 1);
}

/// A table that a compaction had replaced, or that was never committed.
#[test]
fn tables_that_no_manifest_names_are_told_and_taken_only_if_it_is_damaged() {
    for is_damaged in [false, true] {
        let vfs = MemVfs::new();
        let db = build_store(&vfs);
        let before: Vec<(PathBuf, Vec<u8>)> = tables(&vfs)
            .into_iter()
            .map(|path| (path.clone(), read_whole(&vfs, &path).unwrap()))
            .collect();
        let files = db.existing_keyspace("files").unwrap().unwrap();
        files.compact(&KeyRange::all()).unwrap();
        db.close().unwrap();
        drop((db, files));
        let (path, bytes) = before
            .iter()
            .find(|(path, _)| !vfs.exists(path).unwrap())
            .unwrap();
        vfs.create(path).unwrap().append(bytes).unwrap();
        if is_damaged {
            let manifest = files_ending(&vfs, "manifest").pop().unwrap();
            let middle = read_whole(&vfs, &manifest).unwrap().len() / 2;
            flip(&vfs, &manifest, middle);
        }
        let report = run(&vfs);
        let (taken, left) = (&report.unlisted_taken, &report.unlisted_left);
        assert_eq!(taken.contains(path), is_damaged, "{report:?}");
        assert_eq!(left.contains(path), !is_damaged, "{report:?}");
        let is_told = report
            .losses
            .iter()
            .any(|loss| matches!(loss.part, LostPart::Manifest(_)));
        assert_eq!(is_told, is_damaged);
        let files = open_target(&vfs);
        for number in 0..310 {
            let found = files.get(key(number)).unwrap();
            let is_back = is_damaged && (200..250).contains(&number);
            assert!(
                found.as_deref() == expected(number).as_deref() || is_back,
                "{number}"
            );
        }
    }
}

/// A writer that found no length in `CURRENT` set it aside: it may be what the manifest lost.
#[test]
fn a_table_that_was_set_aside_is_taken_and_told() {
    let vfs = MemVfs::new();
    drop(build_store(&vfs));
    let aside = Path::new(DIR).join("000900.table.lost");
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let pool = crate::codec::CompressionPool::new(1);
    let options = crate::TableOptions::default();
    let mut writer =
        crate::table::TableWriter::create(&shared, aside.clone(), &options, &pool).unwrap();
    let value = Bytes::from_static(b"found again");
    writer
        .add(b"lost key", SeqNo(3), crate::EntryKind::Put, value)
        .unwrap();
    writer.finish().unwrap();
    let report = run(&vfs);
    assert_eq!(report.unlisted_taken, [aside]);
    assert!(report.unlisted_left.is_empty());
    let files = open_target(&vfs);
    let fallback = files.db().existing_keyspace("recovered").unwrap().unwrap();
    let found = fallback.get("lost key").unwrap();
    assert_eq!(found.as_deref(), Some(&b"found again"[..]));
}
