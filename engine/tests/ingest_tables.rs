//! Tables built elsewhere: how they get in, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ppc_engine::vfs::{Vfs, WritableFile};
use ppc_engine::{
    Durability, ErrorKind, ExternalTableWriter, IngestMode, IngestOptions, Placed, ReadMode,
    TableOptions,
};

use support::*;

fn build(vfs: &SteeredVfs, name: &str, numbers: impl IntoIterator<Item = u64>) -> PathBuf {
    let vfs = Arc::new(vfs.clone());
    let options = TableOptions::blocks(3, 4 << 10);
    let mut writer = ExternalTableWriter::create_in(vfs, name, &options, 1).unwrap();
    for number in numbers {
        writer
            .put(key(number), Bytes::from(value(number, 500)))
            .unwrap();
    }
    writer.finish().unwrap().path
}

fn mode(mode: IngestMode) -> IngestOptions {
    let mut options = IngestOptions::default();
    options.mode = mode;
    options.verify = true;
    options
}

#[test]
fn tables_go_to_the_deepest_free_level_by_link_copy_or_move() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let mut expected_level = [6, 6, 6].into_iter();
    let modes = [
        (IngestMode::Link, Placed::Linked, true),
        (IngestMode::Copy, Placed::Copied, true),
        (IngestMode::Move, Placed::Linked, false),
    ];
    for (round, (how, placed, stays)) in modes.into_iter().enumerate() {
        let base = round as u64 * 1000;
        let paths = [
            build(&vfs, &format!("b{round}"), base + 500..base + 600),
            build(&vfs, &format!("a{round}"), base..base + 100),
        ];
        let report = db.ingest(&keyspace, &paths, &mode(how)).unwrap();
        assert_eq!(Some(report.level), expected_level.next());
        let order: Vec<_> = report.tables.iter().map(|table| &table.path).collect();
        assert_eq!(order, [&paths[1], &paths[0]]);
        for table in &report.tables {
            assert_eq!((table.placed, table.entries), (placed, 100));
            assert_eq!(vfs.exists(&table.path).unwrap(), stays);
        }
    }
    assert_eq!(dump(&keyspace).len(), 600);
    db.close().unwrap();
    let (_db, keyspace) = open(db_options(&vfs));
    assert_eq!(dump(&keyspace).len(), 600);
    assert_eq!(keyspace.get(key(1599)).unwrap().unwrap(), value(1599, 500));
}

#[test]
fn ingested_entries_are_newer_than_what_was_there() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    keyspace.put(key(5), b"old", Durability::Buffered).unwrap();
    let path = build(&vfs, "outside", 0..10);
    let report = db
        .ingest(&keyspace, &[path], &IngestOptions::default())
        .unwrap();
    assert_eq!(report.level, 0);
    assert_eq!(keyspace.get(key(5)).unwrap().unwrap(), value(5, 500));
    keyspace.delete(key(5), Durability::Buffered).unwrap();
    assert_eq!(keyspace.get(key(5)).unwrap(), None);
}

#[test]
fn overlapping_files_are_refused_by_name() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let paths = [build(&vfs, "left", 0..10), build(&vfs, "right", 9..20)];
    let before = vfs.files.files();
    let error = db
        .ingest(&keyspace, &paths, &IngestOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let message = error.to_string();
    assert!(
        message.contains("left") && message.contains("right"),
        "{message}"
    );
    assert_eq!(vfs.files.files(), before);
    assert!(dump(&keyspace).is_empty());
}

#[test]
fn keys_out_of_order_are_refused_by_name() {
    let vfs = Arc::new(SteeredVfs::new());
    let options = TableOptions::default();
    let files = vfs.files.clone();
    let mut writer = ExternalTableWriter::create_in(vfs, "outside", &options, 1).unwrap();
    writer.put("b", Bytes::new()).unwrap();
    for key in ["a", "b"] {
        let error = writer.put(key, Bytes::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"b\""), "{error}");
    }
    drop(writer);
    assert!(
        files.files().is_empty(),
        "an unfinished table removes its file"
    );
}

#[test]
fn damaged_and_foreign_files_are_refused_and_nothing_changes() {
    let vfs = SteeredVfs::new();
    let (db, keyspace) = open(db_options(&vfs));
    let good = build(&vfs, "good", 0..100);
    let file = vfs.open(&good, ReadMode::Pread).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let mut file: Box<dyn WritableFile> = vfs.create(name.as_ref()).unwrap();
        file.append(bytes).unwrap();
        PathBuf::from(name)
    };
    let mut rotten = bytes.clone();
    rotten[bytes.len() / 3] ^= 1;
    let cases = [
        (write("rotten", &rotten), ErrorKind::Corruption),
        (
            write("short", &bytes[..bytes.len() / 2]),
            ErrorKind::Corruption,
        ),
        (write("foreign", &[b'x'; 5000]), ErrorKind::Corruption),
        (write("empty", &[]), ErrorKind::Corruption),
        (PathBuf::from("missing"), ErrorKind::NotFound),
        (build(&vfs, "no-entries", []), ErrorKind::InvalidInput),
    ];
    let before = vfs.files.files();
    for (path, kind) in cases {
        // The good one alone would do; all or none.
        let paths = [good.clone(), path.clone()];
        let error = db
            .ingest(&keyspace, &paths, &mode(IngestMode::Move))
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.path(), Some(path.as_path()), "{error}");
        assert_eq!(vfs.files.files(), before);
    }
    assert!(dump(&keyspace).is_empty());
}

#[test]
fn a_stores_own_table_with_deletes_is_refused() {
    let vfs = SteeredVfs::new();
    let mut options = db_options(&vfs);
    options.auto_compaction = false;
    let (db, keyspace) = open(options);
    keyspace.put(key(1), b"one", Durability::Buffered).unwrap();
    keyspace.delete(key(2), Durability::Buffered).unwrap();
    db.flush().unwrap();
    let [table] = &vfs.tables()[..] else {
        panic!("one table")
    };
    let other = db.keyspace("other", keyspace_options()).unwrap();
    let error = db
        .ingest(&other, &[table], &IngestOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}
