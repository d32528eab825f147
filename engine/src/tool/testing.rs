//! Damaged stores, for the tests of this module.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::options::{DbOptions, Durability, KeyspaceOptions, TableOptions};
use crate::types::KeyRange;
use crate::vfs::{MemVfs, Vfs, read_whole};
use crate::{Db, Keyspace};

pub(super) const DIR: &str = "/store";

pub(super) fn db_options(vfs: &MemVfs) -> DbOptions {
    DbOptions {
        auto_compaction: false,
        compression_threads: 1,
        vfs: Arc::new(vfs.clone()),
        ..DbOptions::default()
    }
}

pub(super) fn small_tables() -> KeyspaceOptions {
    KeyspaceOptions {
        table_bytes_target: 16 << 10,
        ..KeyspaceOptions::uniform(TableOptions::blocks(3, 4096))
    }
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

pub(super) fn value(number: u64, round: u64) -> Vec<u8> {
    format!("value {number} of round {round}, ")
        .repeat(20)
        .into_bytes()
}

pub(super) fn fill(keyspace: &Keyspace, numbers: std::ops::Range<u64>, round: u64) {
    for number in numbers {
        keyspace
            .put(key(number), value(number, round), Durability::None)
            .unwrap();
    }
}

/// A store with tables in the last level and in L0 of `files`, one in L0 of `sizes`, and writes in
/// its log. `files` holds 0..300, of which 0..100 are of round 1, and 200..250 are deleted.
pub(super) fn build_store(vfs: &MemVfs) -> Db {
    let db = Db::open(DIR, db_options(vfs)).unwrap();
    let files = db.keyspace("files", small_tables()).unwrap();
    let sizes = db.keyspace("sizes", small_tables()).unwrap();
    fill(&files, 0..300, 0);
    fill(&sizes, 0..10, 0);
    db.flush().unwrap();
    files.compact(&KeyRange::all()).unwrap();
    fill(&files, 0..50, 1);
    let deleted = KeyRange::new(key(200)..key(250));
    files.delete_range(&deleted, Durability::None).unwrap();
    db.flush().unwrap();
    fill(&files, 50..100, 1);
    db.sync().unwrap();
    db
}

/// What `files` of [`build_store`] holds.
pub(super) fn expected(number: u64) -> Option<Vec<u8>> {
    match number {
        0..100 => Some(value(number, 1)),
        200..250 => None,
        100..300 => Some(value(number, 0)),
        _ => None,
    }
}

pub(super) fn tables(vfs: &MemVfs) -> Vec<PathBuf> {
    files_ending(vfs, "table")
}

pub(super) fn files_ending(vfs: &MemVfs, suffix: &str) -> Vec<PathBuf> {
    let mut files = vfs.files();
    files.retain(|path| {
        path.starts_with(DIR) && path.extension().is_some_and(|found| found == suffix)
    });
    files
}

/// Replaces a file by one of other bytes, as a disk that rots does.
pub(super) fn rewrite(vfs: &MemVfs, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = read_whole(vfs, path).unwrap();
    change(&mut bytes);
    vfs.remove(path).unwrap();
    let mut file = vfs.create(path).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
}

pub(super) fn flip(vfs: &MemVfs, path: &Path, offset: usize) {
    rewrite(vfs, path, |bytes| {
        if let Some(byte) = bytes.get_mut(offset) {
            *byte ^= 0x40;
        }
    });
}
