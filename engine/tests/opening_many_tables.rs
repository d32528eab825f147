//! A store of many tables opens without reading them, and a table opens without reading its values.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ppc_engine::{BulkOptions, Db, DbOptions, IterOptions, KeyRange, Keyspace, ReadMode};

use support::*;

const TABLES: u64 = 500;
const VALUES_PER_TABLE: u64 = 4;
const VALUE_BYTES: usize = 2 << 10;

/// What was read of each table.
type Reads = Arc<Mutex<BTreeMap<PathBuf, Vec<Range<u64>>>>>;

fn options(vfs: &SteeredVfs) -> DbOptions {
    let mut options = db_options(vfs);
    // Each read is a call that can be watched.
    options.read_mode = ReadMode::Pread;
    options.auto_compaction = false;
    options
}

fn open_many(vfs: &SteeredVfs) -> (Db, Keyspace) {
    let db = Db::open("store", options(vfs)).unwrap();
    let mut many = keyspace_options();
    many.table_bytes_target = VALUES_PER_TABLE * VALUE_BYTES as u64;
    let keyspace = db.keyspace("k", many).unwrap();
    (db, keyspace)
}

/// Values are incompressible, so that the value area of a table is at least as long as they are. It
/// begins behind the file's header.
#[test]
fn opening_reads_no_table_and_a_tables_first_read_no_value() {
    let reads = Reads::default();
    let seen = Arc::clone(&reads);
    let vfs = SteeredVfs::new().on_read(move |path, range| {
        let mut seen = seen.lock().unwrap();
        seen.entry(path.to_path_buf()).or_default().push(range);
    });
    let (db, keyspace) = open_many(&vfs);
    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
    for number in 0..TABLES * VALUES_PER_TABLE {
        let value = Bytes::from(value(number, VALUE_BYTES));
        loader.put(&keyspace, key(number), value).unwrap();
    }
    loader.finish(&mut |_| {}).unwrap();
    db.close().unwrap();
    drop((db, keyspace));
    let files = vfs.tables();
    assert_eq!(files.len() as u64, TABLES);

    reads.lock().unwrap().clear();
    let (_db, keyspace) = open_many(&vfs);
    assert_eq!(*reads.lock().unwrap(), BTreeMap::new());

    // A look at one key of each table opens it.
    for table in 0..TABLES {
        assert!(keyspace.contains(key(table * VALUES_PER_TABLE)).unwrap());
    }
    let value_area_end = VALUES_PER_TABLE * VALUE_BYTES as u64;
    let opened = std::mem::take(&mut *reads.lock().unwrap());
    assert_eq!(opened.len() as u64, TABLES);
    for (path, ranges) in &opened {
        let first = ranges.iter().map(|range| range.start).min();
        assert!(first > Some(value_area_end), "{path:?}: {ranges:?}");
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert!(bytes < 2 << 10, "{path:?}: {bytes} bytes in {ranges:?}");
    }
    // Nor does a scan of the keys; one of the values does.
    let keys_only = IterOptions::keys_only();
    let keys = keyspace.iter(KeyRange::all(), keys_only).unwrap();
    assert_eq!(keys.count() as u64, TABLES * VALUES_PER_TABLE);
    let starts_in_values = |ranges: &[Range<u64>]| {
        let mut ranges = ranges.iter();
        ranges.any(|range| range.start < value_area_end)
    };
    let mut read = std::mem::take(&mut *reads.lock().unwrap()).into_values();
    assert!(!read.any(|ranges| starts_in_values(&ranges)));
    assert!(keyspace.get(key(0)).unwrap().is_some());
    let mut read = std::mem::take(&mut *reads.lock().unwrap()).into_values();
    assert!(read.any(|ranges| starts_in_values(&ranges)));
}
