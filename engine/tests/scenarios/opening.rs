//! Opening: what is refused, with which words, and that refusing changes nothing.

use std::path::Path;

use crate::common::{DIR, count_tables, key, open, options, pairs, small_tables, value};
use ppc_engine::vfs::{DiskVfs, FaultOp, FaultPlan, FaultVfs, MemVfs, Vfs};
use ppc_engine::{Db, DbOptions, Durability, Error, ErrorKind, KeyRange};

/// Every message names its place and what to do, in one line.
fn check_words(error: &Error, kind: ErrorKind) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.path().is_some(), "{error}");
    assert!(error.remedy().is_some(), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

fn write_file(vfs: &dyn Vfs, path: &str, bytes: &[u8]) {
    let write = || {
        let mut file = vfs.create(Path::new(path))?;
        file.append(bytes)?;
        file.sync()
    };
    let written: std::io::Result<()> = write();
    assert!(written.is_ok(), "{path}: {written:?}");
}

#[test]
fn a_directory_that_holds_something_else_is_left_alone() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    write_file(&vfs, "/store/thesis.tex", b"important");
    let error = Db::open(DIR, options(&vfs)).unwrap_err();
    check_words(&error, ErrorKind::InvalidInput);
    assert!(error.to_string().contains("thesis.tex"), "{error}");
    assert_eq!(vfs.files(), [Path::new("/store/thesis.tex")]);
}

#[test]
fn a_missing_store_is_not_created_unasked() {
    let vfs = MemVfs::new();
    let mut careful = options(&vfs);
    careful.create_if_missing = false;
    check_words(&Db::open(DIR, careful).unwrap_err(), ErrorKind::NotFound);
    let error = Db::open_read_only(DIR, options(&vfs)).unwrap_err();
    check_words(&error, ErrorKind::NotFound);
    assert!(!vfs.exists(Path::new(DIR)).unwrap());
}

#[test]
fn an_existing_store_is_refused_where_a_new_one_is_wanted() {
    let vfs = MemVfs::new();
    drop(open(options(&vfs)));
    let mut fresh = options(&vfs);
    fresh.error_if_exists = true;
    check_words(&Db::open(DIR, fresh).unwrap_err(), ErrorKind::InvalidInput);
}

#[test]
fn a_path_that_is_a_file_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    write_file(&DiskVfs, path.to_str().unwrap(), b"x");
    let error = Db::open(&path, DbOptions::default()).unwrap_err();
    check_words(&error, ErrorKind::InvalidInput);
}

#[test]
fn a_second_writer_is_refused_on_disk_too() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), DbOptions::default()).unwrap();
    let error = Db::open(dir.path(), DbOptions::default()).unwrap_err();
    check_words(&error, ErrorKind::Locked);
    drop(db);
    Db::open(dir.path(), DbOptions::default()).unwrap();
}

#[test]
fn a_store_of_another_version_is_refused_clearly() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), DbOptions::default()).unwrap();
    db.keyspace("k", small_tables()).unwrap();
    drop(db);
    for entry in DiskVfs.read_dir(dir.path()).unwrap() {
        if entry.name.ends_with(".manifest") {
            let path = dir.path().join(&entry.name);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[8] = 99;
            // The checksum covers the unit's kind, no id, no offset, and the bytes before it.
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&[0x40]);
            hasher.update(&[0; 16]);
            hasher.update(&bytes[..28]);
            bytes[28..32].copy_from_slice(&hasher.finalize().to_le_bytes());
            std::fs::write(&path, bytes).unwrap();
        }
    }
    for open in [Db::open, Db::open_read_only] {
        let error = open(dir.path(), DbOptions::default()).unwrap_err();
        check_words(&error, ErrorKind::Unsupported);
        assert!(error.to_string().contains("99"), "{error}");
    }
}

#[test]
fn a_read_only_disk_is_named_as_such() {
    let memory = MemVfs::new();
    drop(open(options(&memory)));
    let plan = FaultPlan {
        stays: true,
        ..FaultPlan::once(FaultOp::Lock, 1, std::io::ErrorKind::ReadOnlyFilesystem)
    };
    let vfs = FaultVfs::new(memory, plan);
    check_words(
        &Db::open(DIR, options(&vfs)).unwrap_err(),
        ErrorKind::ReadOnly,
    );
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let vfs = MemVfs::new();
    let mut wrong = options(&vfs);
    wrong.open_tables_max = 0;
    let error = Db::open(DIR, wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("open_tables_max"), "{error}");
    let (db, _) = open(options(&vfs));
    let mut wrong = small_tables();
    wrong.level_multiplier = 1;
    let error = db.keyspace("k", wrong).unwrap_err();
    assert!(error.to_string().contains("level_multiplier"), "{error}");
    assert_eq!(
        db.keyspace("", small_tables()).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn keyspace_options_persist_and_can_be_changed() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    drop((db, keyspace));
    let db = Db::open(DIR, options(&vfs)).unwrap();
    let keyspace = db.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(keyspace.options(), small_tables());
    let mut changed = small_tables();
    changed.level_multiplier = 7;
    db.keyspace("k", changed.clone()).unwrap();
    assert_eq!(keyspace.options(), changed);
    drop((db, keyspace));
    let db = Db::open(DIR, options(&vfs)).unwrap();
    let keyspace = db.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(keyspace.options(), changed);
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
    assert!(db.existing_keyspace("other").unwrap().is_none());
}

#[test]
fn strangers_files_stay_and_leftovers_go() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    db.flush().unwrap();
    drop((db, keyspace));
    write_file(&vfs, "/store/._000001.table", b"AppleDouble");
    write_file(&vfs, "/store/notes.txt", b"mine");
    write_file(&vfs, "/store/000900.table", b"cut short by a crash");
    let (db, keyspace) = open(options(&vfs));
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
    let exists = |name: &str| vfs.exists(&Path::new(DIR).join(name)).unwrap();
    assert!(exists("._000001.table"));
    assert!(exists("notes.txt"));
    assert!(!exists("000900.table"));
    // And its number is not used again.
    keyspace.put("b", "2", Durability::Sync).unwrap();
    db.flush().unwrap();
    assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
}

#[test]
fn a_log_longer_than_memory_is_replayed_in_parts() {
    let vfs = MemVfs::new();
    let mut large = options(&vfs);
    large.memtable_bytes = 64 << 20;
    let (db, keyspace) = open(large);
    let value_of = |at: u32| value(at, 3).repeat(20);
    for at in 0..2000 {
        keyspace
            .put(key(at), value_of(at), Durability::Buffered)
            .unwrap();
    }
    assert_eq!(db.stats().keyspaces[0].total().tables, 0);
    drop((db, keyspace));
    let mut small = options(&vfs);
    small.memtable_bytes = 256 << 10;
    small.auto_compaction = false;
    let (db, keyspace) = open(small);
    let stats = db.stats();
    assert!(stats.keyspaces[0].total().tables > 5, "{stats:?}");
    assert!(stats.memory.active_memtables < 512 << 10, "{stats:?}");
    let expected: Vec<_> = (0..2000).map(|at| (key(at), value_of(at))).collect();
    assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
}

#[test]
fn a_dropped_keyspace_is_gone_for_good_and_its_name_is_free() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    for at in 0..100 {
        keyspace
            .put(key(at), value(at, 1), Durability::Sync)
            .unwrap();
        if at == 50 {
            db.flush().unwrap();
        }
    }
    assert!(db.drop_keyspace("k").unwrap());
    assert!(!db.drop_keyspace("k").unwrap());
    let error = keyspace.get(key(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = keyspace.put("x", "y", Durability::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(db.keyspace_names(), [""; 0]);
    let fresh = db.keyspace("k", small_tables()).unwrap();
    assert_eq!(pairs(&fresh, KeyRange::all()), []);
    fresh.put("new", "1", Durability::Sync).unwrap();
    drop((db, keyspace, fresh));
    let (_db, keyspace) = open(options(&vfs));
    assert_eq!(
        pairs(&keyspace, KeyRange::all()),
        [(b"new".to_vec(), b"1".to_vec())]
    );
    assert_eq!(count_tables(&vfs), 0);
}
