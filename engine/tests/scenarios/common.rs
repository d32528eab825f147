//! What the scenario tests share.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ppc_engine::vfs::{MemVfs, Vfs};
use ppc_engine::{Db, DbOptions, IterOptions, KeyRange, Keyspace, KeyspaceOptions, TableOptions};

/// Where stores lie in a memory file system.
pub(crate) const DIR: &str = "/store";

/// Options for a store on `vfs`, with memtables of a MiB.
pub(crate) fn options(vfs: &(impl Vfs + Clone + 'static)) -> DbOptions {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(vfs.clone());
    options.memtable_bytes = 1 << 20;
    options.compression_threads = 1;
    options
}

/// Small blocks and small inline values, so that few bytes exercise every structure.
pub(crate) fn small_tables() -> KeyspaceOptions {
    let mut table = TableOptions::blocks(1, 1 << 10);
    table.key_block_bytes = 256;
    table.inline_value_bytes_max = 8;
    KeyspaceOptions::uniform(table)
}

pub(crate) fn key(at: u32) -> Vec<u8> {
    format!("key{at:06}").into_bytes()
}

/// Some bytes that depend on both numbers; lengths from none to a few hundred.
pub(crate) fn value(at: u32, version: u32) -> Vec<u8> {
    let text = format!("{at} in version {version};");
    text.repeat((at.wrapping_mul(7) + version) as usize % 23)
        .into_bytes()
}

pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// All keys and values of a range, forward, checked against the backward walk.
pub(crate) fn pairs(keyspace: &Keyspace, range: KeyRange) -> Pairs {
    let collect = |iter: &mut dyn Iterator<
        Item = ppc_engine::Result<(bytes::Bytes, bytes::Bytes)>,
    >|
     -> Pairs {
        iter.map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_, _>>()
            .unwrap()
    };
    let options = IterOptions::default();
    let forward = collect(&mut keyspace.iter(range.clone(), options).unwrap());
    let mut backward = collect(&mut keyspace.iter(range, options).unwrap().rev());
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

/// Opens the store with one keyspace, `k`.
pub(crate) fn open(options: DbOptions) -> (Db, Keyspace) {
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("k", small_tables()).unwrap();
    (db, keyspace)
}

/// Table files of every store on the file system.
pub(crate) fn count_tables(vfs: &MemVfs) -> usize {
    let files = vfs.files();
    let is_table = |file: &&std::path::PathBuf| file.extension().is_some_and(|it| it == "table");
    files.iter().filter(is_table).count()
}

/// Waits for what the background is about to do.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::yield_now();
    }
}
