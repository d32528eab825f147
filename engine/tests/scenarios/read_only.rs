//! Read-only opens: beside a writer and each other, seeing what is on disk, changing nothing.

use std::path::{Path, PathBuf};

use crate::common::{DIR, key, open, options, pairs, small_tables, value};
use ppc_engine::vfs::{FaultOp, FaultPlan, FaultVfs, LockKind, MemVfs, Vfs};
use ppc_engine::{Db, DbOptions, Durability, ErrorKind, KeyRange};

#[test]
fn readers_see_tables_and_log_beside_a_writer() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    for at in 0..50 {
        keyspace
            .put(key(at), value(at, 1), Durability::Sync)
            .unwrap();
        if at == 25 {
            db.flush().unwrap();
        }
    }
    let expected: Vec<_> = (0..50).map(|at| (key(at), value(at, 1))).collect();
    let readers: Vec<_> = (0..3)
        .map(|_| Db::open_read_only(DIR, options(&vfs)).unwrap())
        .collect();
    keyspace.put("later", "x", Durability::Sync).unwrap();
    for reader in &readers {
        assert!(reader.is_read_only());
        let keyspace = reader.existing_keyspace("k").unwrap().unwrap();
        assert_eq!(pairs(&keyspace, KeyRange::all()), expected);
    }
    let keyspace = readers[0].keyspace("k", small_tables()).unwrap();
    let error = keyspace.put("a", "b", Durability::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    for error in [
        readers[0].flush().unwrap_err(),
        readers[0].sync().unwrap_err(),
        readers[0].drop_keyspace("k").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
    let error = readers[0].keyspace("new", small_tables()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

fn data_files(vfs: &MemVfs) -> Vec<PathBuf> {
    let is_data = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("table" | "wal"))
    };
    vfs.files().into_iter().filter(is_data).collect()
}

#[test]
fn a_writer_removes_nothing_while_a_reader_is_about() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    let reader = Db::open_read_only(DIR, options(&vfs)).unwrap();
    let before = data_files(&vfs);
    db.flush().unwrap();
    db.drop_keyspace("k").unwrap();
    let during = data_files(&vfs);
    assert!(
        before.iter().all(|file| during.contains(file)),
        "{during:?}"
    );
    let seen = reader.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(seen.get("a").unwrap().unwrap(), "1");
    drop((reader, seen));
    // The next thing that happens lets the files go.
    let other = db.keyspace("other", small_tables()).unwrap();
    other.put("b", "2", Durability::Sync).unwrap();
    db.flush().unwrap();
    let after = data_files(&vfs);
    let old: Vec<_> = before.iter().filter(|file| after.contains(file)).collect();
    assert!(old.is_empty(), "{old:?} are left");
}

#[test]
fn a_reader_changes_nothing_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), DbOptions::default()).unwrap();
    let keyspace = db.keyspace("k", small_tables()).unwrap();
    keyspace.put("a", "1", Durability::Sync).unwrap();
    drop((db, keyspace));
    std::fs::write(dir.path().join("000900.table"), b"a leftover").unwrap();
    std::fs::write(dir.path().join("READERS"), b"").unwrap();
    let listing = || {
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
            .collect();
        names.sort();
        names
    };
    let before = listing();
    let reader = Db::open_read_only(dir.path(), DbOptions::default()).unwrap();
    let keyspace = reader.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
    drop((reader, keyspace));
    assert_eq!(listing(), before);
}

#[test]
fn a_directory_that_cannot_be_written_to_needs_no_lock() {
    let memory = MemVfs::new();
    let (db, keyspace) = open(options(&memory));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    drop((db, keyspace));
    let readers = Path::new(DIR).join("READERS");
    if memory.exists(&readers).unwrap() {
        memory.remove(&readers).unwrap();
    }
    let plan = FaultPlan {
        stays: true,
        ops: vec![
            FaultOp::Lock,
            FaultOp::Create,
            FaultOp::Append,
            FaultOp::Remove,
        ],
        ..FaultPlan::once(FaultOp::Lock, 1, std::io::ErrorKind::ReadOnlyFilesystem)
    };
    let vfs = FaultVfs::new(memory, plan);
    let reader = Db::open_read_only(DIR, options(&vfs)).unwrap();
    let keyspace = reader.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
}

#[test]
fn a_reader_waits_for_a_writer_that_removes_files() {
    let vfs = MemVfs::new();
    drop(open(options(&vfs)));
    let removing = vfs
        .lock(&Path::new(DIR).join("READERS"), LockKind::Exclusive)
        .unwrap()
        .unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| Db::open_read_only(DIR, options(&vfs)));
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(removing);
        assert!(reader.join().unwrap().is_ok());
    });
}
