//! A manifest that lost its end.
//!
//! It used to pass for one whose last append was torn: the store opened as it was before, and the
//! next writer removed the tables that the lost end named. Now `CURRENT` says how long the manifest
//! is, and where it does not, nothing is removed.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ppc_engine::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, Vfs};
use ppc_engine::{Db, DbOptions, Durability, ErrorKind, KeyRange, ReadMode, VerifyOptions};

use crate::common::{DIR, Pairs, key, open, options, pairs, small_tables, value};
use crate::support::SteeredVfs;

fn read(vfs: &MemVfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, ReadMode::Pread).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn overwrite(vfs: &MemVfs, path: &Path, bytes: &[u8]) {
    vfs.remove(path).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
}

fn contents(vfs: &MemVfs) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = vfs.files().into_iter();
    // Locks are taken and left behind.
    let files = files.filter(|path| !path.ends_with("LOCK") && !path.ends_with("READERS"));
    files.map(|path| (path.clone(), read(vfs, &path))).collect()
}

fn current() -> PathBuf {
    Path::new(DIR).join("CURRENT")
}

/// The manifest in force, and the length that `CURRENT` tells.
fn in_force(vfs: &MemVfs) -> (PathBuf, usize) {
    let line = String::from_utf8(read(vfs, &current())).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    (Path::new(DIR).join(words[0]), words[1].parse().unwrap())
}

/// Only what an opening does, and nothing in the background, changes the files.
fn without_compaction(vfs: &MemVfs) -> DbOptions {
    let mut options = options(vfs);
    options.auto_compaction = false;
    options
}

/// Several tables in two levels, and writes in the log. The manifest has a snapshot and some
/// further records.
fn fill(vfs: &MemVfs) -> (Db, Pairs) {
    let (db, keyspace) = open(without_compaction(vfs));
    let other = db.keyspace("other", small_tables()).unwrap();
    for round in 0..4 {
        for at in round * 10..round * 10 + 30 {
            keyspace
                .put(key(at), value(at, round), Durability::None)
                .unwrap();
        }
        other.put("round", [round as u8], Durability::None).unwrap();
        db.flush().unwrap();
        if round == 1 {
            keyspace.compact(&KeyRange::all()).unwrap();
        }
    }
    keyspace
        .put("in the log", "1", Durability::Buffered)
        .unwrap();
    let found = pairs(&keyspace, KeyRange::all());
    (db, found)
}

/// As a clean close, and as a kill, leave it.
fn stores() -> [(MemVfs, Pairs); 2] {
    [true, false].map(|closes| {
        let vfs = MemVfs::new();
        let (db, found) = fill(&vfs);
        if !closes {
            return (vfs.kill(), found);
        }
        db.close().unwrap();
        drop(db);
        (vfs, found)
    })
}

#[test]
fn wherever_the_manifest_is_cut_the_store_is_refused_and_left_as_it_is() {
    for (vfs, found) in stores() {
        let (manifest, witnessed) = in_force(&vfs);
        let whole = read(&vfs, &manifest);
        assert!(witnessed <= whole.len() && witnessed > whole.len() * 9 / 10);
        for len in 0..=whole.len() {
            let vfs = vfs.kill();
            overwrite(&vfs, &manifest, &whole[..len]);
            let before = contents(&vfs);
            if len >= witnessed {
                // All that went is the seal.
                let db = Db::open_read_only(DIR, options(&vfs)).unwrap();
                let report = db.verify(&VerifyOptions::default(), &mut |_| {}).unwrap();
                assert!(report.is_sound());
                drop(db);
                let (_db, keyspace) = open(options(&vfs));
                assert_eq!(pairs(&keyspace, KeyRange::all()), found, "{len} bytes");
                continue;
            }
            for open in [Db::open_read_only, Db::open] {
                let error = open(Path::new(DIR), options(&vfs)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption, "{len} bytes: {error}");
                let text = error.to_string();
                for word in [&len.to_string(), &witnessed.to_string(), "salvage"] {
                    assert!(text.contains(word), "{len} bytes: {error}");
                }
                assert_eq!(error.path(), Some(&*manifest));
            }
            assert!(contents(&vfs) == before, "{len} bytes: files changed");
        }
    }
}

/// Damage that leaves the file its length is no torn append either.
#[test]
fn a_manifest_whose_last_record_is_overwritten_is_refused() {
    let [(vfs, _), _] = stores();
    let (manifest, witnessed) = in_force(&vfs);
    let mut bytes = read(&vfs, &manifest);
    bytes[witnessed - 40..].fill(0);
    overwrite(&vfs, &manifest, &bytes);
    let before = contents(&vfs);
    for open in [Db::open_read_only, Db::open] {
        let error = open(Path::new(DIR), options(&vfs)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
    assert!(contents(&vfs) == before, "files changed");
}

/// A store of an older build, or one whose `CURRENT` was mended by hand: no length is known.
#[test]
fn without_a_length_a_cut_costs_no_table() {
    let is_table = |path: &&PathBuf| path.to_string_lossy().contains(".table");
    for (vfs, _) in stores() {
        let (manifest, _) = in_force(&vfs);
        let whole = read(&vfs, &manifest);
        let name = manifest.file_name().unwrap().to_str().unwrap();
        overwrite(&vfs, &current(), format!("{name}\n").as_bytes());
        let mut tables: Vec<Vec<u8>> = contents(&vfs)
            .iter()
            .filter(|(path, _)| is_table(path))
            .map(|(_, bytes)| bytes.clone())
            .collect();
        tables.sort();
        let (mut opened, mut lost_some) = (0, 0);
        // Inside of each record and now and then at its end; the manifest's own tests try every byte.
        for len in (0..=whole.len()).step_by(5) {
            let vfs = vfs.kill();
            overwrite(&vfs, &manifest, &whole[..len]);
            // The second opening finds a length.
            for _ in 0..2 {
                let Ok(db) = Db::open(DIR, without_compaction(&vfs)) else {
                    continue;
                };
                opened += 1;
                let unlisted = db.unlisted_tables().unwrap();
                lost_some += usize::from(!unlisted.is_empty());
                assert!(unlisted.iter().all(|table| table.may_be_lost));
                db.close().unwrap();
            }
            let left = contents(&vfs);
            let left: Vec<&Vec<u8>> = left
                .iter()
                .filter(|(path, _)| is_table(path))
                .map(|(_, bytes)| bytes)
                .collect();
            for table in &tables {
                assert!(left.contains(&table), "{len} bytes: a table is gone");
            }
        }
        assert!(opened > 50 && lost_some > 50, "{opened}, {lost_some}");
    }
}

#[test]
fn a_store_without_a_length_is_taken_as_it_is_and_gets_one() {
    let [(vfs, found), _] = stores();
    let (manifest, _) = in_force(&vfs);
    let name = manifest.file_name().unwrap().to_str().unwrap().to_owned();
    overwrite(&vfs, &current(), format!("{name}\n").as_bytes());
    let db = Db::open_read_only(DIR, options(&vfs)).unwrap();
    assert_eq!(db.unlisted_tables().unwrap(), []);
    drop(db);
    let line = read(&vfs, &current());
    assert_eq!(line, format!("{name}\n").as_bytes());
    let db = Db::open(DIR, options(&vfs)).unwrap();
    let keyspace = db.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(pairs(&keyspace, KeyRange::all()), found);
    drop((db, keyspace));
    let (manifest, witnessed) = in_force(&vfs);
    let whole = read(&vfs, &manifest);
    overwrite(&vfs, &manifest, &whole[..witnessed - 1]);
    let error = Db::open(DIR, options(&vfs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

/// They may still open the tables of the state that they have read.
#[test]
fn no_table_is_set_aside_under_a_readers_eyes() {
    let [(vfs, _), _] = stores();
    let stray = Path::new(DIR).join("009999.table");
    vfs.create(&stray).unwrap();
    let (manifest, _) = in_force(&vfs);
    let name = manifest.file_name().unwrap().to_str().unwrap();
    overwrite(&vfs, &current(), format!("{name}\n").as_bytes());
    let reader = Db::open_read_only(DIR, options(&vfs)).unwrap();
    let before = contents(&vfs);
    let error = Db::open(DIR, options(&vfs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(contents(&vfs) == before, "files changed");
    drop(reader);
    let db = Db::open(DIR, options(&vfs)).unwrap();
    let aside = Path::new(DIR).join("009999.table.lost");
    assert!(!vfs.files().contains(&stray));
    assert!(vfs.files().contains(&aside));
    let unlisted = db.unlisted_tables().unwrap();
    assert!(unlisted.iter().any(|table| table.path == aside));
}

/// With a length, what is not listed is work that was never finished.
#[test]
fn unfinished_tables_go_when_the_manifest_is_known_to_be_whole() {
    let [(vfs, _), _] = stores();
    let stray = Path::new(DIR).join("009999.table");
    vfs.create(&stray).unwrap();
    let reader = Db::open_read_only(DIR, options(&vfs)).unwrap();
    let unlisted = reader.unlisted_tables().unwrap();
    assert_eq!(unlisted.len(), 1);
    assert!(!unlisted[0].may_be_lost);
    drop(reader);
    let db = Db::open(DIR, options(&vfs)).unwrap();
    assert_eq!(db.unlisted_tables().unwrap(), []);
    assert!(!vfs.files().contains(&stray));
}

/// An empty manifest beside tables, or a log that names keyspaces, used to pass for a store whose
/// creation was cut off.
#[test]
fn a_store_with_tables_or_writes_never_passes_for_a_new_one() {
    let vfs = MemVfs::new();
    drop(Db::open(DIR, options(&vfs)).unwrap());
    let (manifest, witnessed) = in_force(&vfs);
    let empty = read(&vfs, &manifest)[..witnessed].to_vec();
    let name = manifest.file_name().unwrap().to_str().unwrap();
    let line = format!("{name}\n");

    let stray = Path::new(DIR).join("009999.table");
    for kind in ["table", "log"] {
        let with_data = if kind == "table" {
            let with_data = vfs.kill();
            with_data.create(&stray).unwrap();
            with_data
        } else {
            let live = vfs.kill();
            let (_db, keyspace) = open(options(&live));
            keyspace.put("a", "1", Durability::Sync).unwrap();
            let killed = live.kill();
            killed.remove(&in_force(&killed).0).unwrap();
            killed.create(&manifest).unwrap().append(&empty).unwrap();
            killed
        };
        overwrite(&with_data, &current(), line.as_bytes());
        for open in [Db::open_read_only, Db::open] {
            let error = open(Path::new(DIR), options(&with_data)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{kind}: {error}");
            assert!(error.to_string().contains("lost its end"), "{error}");
        }
        with_data.remove(&current()).unwrap();
        let error = Db::open(DIR, options(&with_data)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{kind}: {error}");
    }
}

/// `CURRENT` may lag behind: it is written after the manifest, and a failure there costs nothing
/// that was acknowledged. The next append, or closing the store, makes up for it.
#[test]
fn a_length_that_cannot_be_written_is_written_later() {
    for op in [
        FaultOp::Create,
        FaultOp::Append,
        FaultOp::Sync,
        FaultOp::Rename,
        FaultOp::SyncDir,
    ] {
        let memory = MemVfs::new();
        let vfs = FaultVfs::new(memory.clone(), FaultPlan::default());
        let (db, keyspace) = open(options(&vfs));
        let (_, before) = in_force(&memory);
        keyspace.put("a", "1", Durability::Sync).unwrap();
        let plan = FaultPlan::once(op, 1, io::ErrorKind::StorageFull);
        let suffix = if op == FaultOp::SyncDir {
            ""
        } else {
            "CURRENT.tmp"
        };
        // The first sync of the directory is the flush's own.
        let nth = if op == FaultOp::SyncDir { 2 } else { 1 };
        vfs.arm(FaultPlan { nth, ..plan }.on(suffix));
        db.flush().unwrap();
        assert_eq!(vfs.failed(), 1, "{op:?}");
        vfs.disarm();
        // The record is in force without it.
        let killed = memory.kill();
        let (_, lagging) = in_force(&killed);
        assert!(op == FaultOp::SyncDir || lagging == before, "{op:?}");
        let (other, other_keyspace) = open(options(&killed));
        assert_eq!(other_keyspace.get("a").unwrap().unwrap(), "1");
        drop((other, other_keyspace));

        db.close().unwrap();
        let (manifest, witnessed) = in_force(&memory);
        assert!(witnessed > before, "{op:?}");
        let whole = read(&memory, &manifest);
        overwrite(&memory, &manifest, &whole[..witnessed - 1]);
        Db::open(DIR, options(&memory)).unwrap_err();
    }
}

/// A keyspace that the log knows and the manifest does not is no damage if a writer created it
/// after the reader had read the manifest.
#[test]
fn a_keyspace_created_while_a_reader_opens_is_no_damage() {
    let files = MemVfs::new();
    let (db, keyspace) = open(options(&files));
    keyspace.put("a", "1", Durability::Sync).unwrap();
    let writer = db.clone();
    let act = move || {
        let new = writer.keyspace("new", small_tables()).unwrap();
        new.put("b", "2", Durability::Sync).unwrap();
        new.put("c", "3", Durability::Sync).unwrap();
    };
    // The writer acts when the reader, which has read the manifest, opens a log.
    let act = Mutex::new(Some(act));
    let acted = Arc::new(AtomicBool::new(false));
    let has_acted = Arc::clone(&acted);
    let meanwhile = SteeredVfs::over(files.clone()).on_open(move |path| {
        let is_log = path.extension().is_some_and(|extension| extension == "wal");
        let act = act.lock().unwrap().take_if(|_| is_log);
        if let Some(act) = act {
            act();
            has_acted.store(true, Ordering::Relaxed);
        }
    });
    let reader = Db::open_read_only(DIR, options(&meanwhile)).unwrap();
    assert!(acted.load(Ordering::Relaxed));
    assert_eq!(reader.keyspace_names(), ["k"]);
    let old = reader.existing_keyspace("k").unwrap().unwrap();
    assert_eq!(old.get("a").unwrap().unwrap(), "1");
    assert_eq!(db.keyspace_names(), ["k", "new"]);
}
