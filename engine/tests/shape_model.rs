//! Whatever flushes, compactions, bulk loads and ingests do to the shape of the tree, every reader
//! sees what a `BTreeMap` would show: now, at each live snapshot, and after reopening.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ppc_engine::vfs::MemVfs;
use ppc_engine::{
    BulkOptions, Db, DbOptions, Durability, ExternalTableWriter, IngestOptions, IterOptions,
    KeyRange, Keyspace, KeyspaceOptions, Snapshot, TableOptions,
};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u16),
    Delete(u8),
    DeleteRange(u8, u8),
    DeleteFrom(u8),
    Flush,
    Compact,
    CompactRange(u8, u8),
    Snapshot,
    DropSnapshot(usize),
    Bulk(Vec<(u8, u16)>),
    BulkCancelled(Vec<(u8, u16)>),
    Ingest(Vec<u8>),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let entries = || prop::collection::vec((any::<u8>(), any::<u16>()), 1..60);
    prop_oneof![
        30 => (any::<u8>(), any::<u16>()).prop_map(|(key, len)| Op::Put(key, len)),
        8 => any::<u8>().prop_map(Op::Delete),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::DeleteRange(a.min(b), a.max(b))),
        1 => any::<u8>().prop_map(Op::DeleteFrom),
        4 => Just(Op::Flush),
        2 => Just(Op::Compact),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::CompactRange(a.min(b), a.max(b))),
        3 => Just(Op::Snapshot),
        3 => any::<usize>().prop_map(Op::DropSnapshot),
        3 => entries().prop_map(Op::Bulk),
        1 => entries().prop_map(Op::BulkCancelled),
        2 => prop::collection::btree_set(any::<u8>(), 1..20)
            .prop_map(|keys| Op::Ingest(keys.into_iter().collect())),
        1 => Just(Op::Reopen),
    ]
}

fn key(number: u8) -> Vec<u8> {
    format!("key-{number:03}").into_bytes()
}

/// A value of its own for each write, longer than what is kept beside keys in some cases.
fn value(write: usize, len: u16) -> Vec<u8> {
    let mut value = format!("{write}:").into_bytes();
    value.resize(value.len() + usize::from(len % 700), b'.');
    value
}

fn options(vfs: &MemVfs, threads: usize) -> DbOptions {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(vfs.clone());
    options.memtable_bytes = 8 << 10;
    options.background_threads = threads;
    options.compression_threads = 1;
    options.l0_compaction_trigger = 2;
    options.l0_stall_trigger = 6;
    options
}

fn keyspace_options() -> KeyspaceOptions {
    let upper = TableOptions::blocks(-1, 1 << 10);
    let mut options = KeyspaceOptions::tiered(upper, TableOptions::blocks(1, 2 << 10));
    options.table_bytes_target = 4 << 10;
    options.base_level_bytes = 4 << 10;
    options.level_multiplier = 2;
    options
}

struct Store {
    vfs: MemVfs,
    threads: usize,
    db: Db,
    keyspace: Keyspace,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    writes: usize,
}

impl Store {
    fn open(vfs: MemVfs, threads: usize, model: Model, writes: usize) -> Self {
        let db = Db::open("store", options(&vfs, threads)).unwrap();
        let keyspace = db.keyspace("k", keyspace_options()).unwrap();
        Self {
            vfs,
            threads,
            db,
            keyspace,
            model,
            snapshots: Vec::new(),
            writes,
        }
    }

    fn next_value(&mut self, len: u16) -> Vec<u8> {
        self.writes += 1;
        value(self.writes, len)
    }

    fn bulk(&mut self, entries: &[(u8, u16)], finish: bool) {
        let mut options = BulkOptions::default();
        options.memory_bytes = 1 << 20;
        let mut loader = self.db.bulk_loader(options).unwrap();
        // A window of a megabyte would sort these few; several loads of one run each, and puts
        // of large values, make runs all the same.
        let filler = Bytes::from(vec![7; 400 << 10]);
        let mut loaded = Model::new();
        for (number, len) in entries {
            let value = self.next_value(*len);
            loader
                .put(&self.keyspace, key(*number), Bytes::from(value.clone()))
                .unwrap();
            loaded.insert(key(*number), value);
            if len % 5 == 0 {
                let key = [&key(*number)[..], b"-filler"].concat();
                loader.put(&self.keyspace, &key, filler.clone()).unwrap();
                loaded.insert(key, filler.to_vec());
            }
        }
        if finish {
            let report = loader.finish(&mut |_| {}).unwrap();
            assert!(report.merge_failure.is_none(), "{report:?}");
            self.model.extend(loaded);
        } else {
            let files = self.vfs.files().len();
            drop(loader);
            assert!(self.vfs.files().len() <= files);
        }
    }

    fn ingest(&mut self, numbers: &[u8]) {
        let path = format!("outside-{}", self.writes);
        let vfs = Arc::new(self.vfs.clone());
        let table = TableOptions::blocks(1, 1 << 10);
        let mut writer = ExternalTableWriter::create_in(vfs, &path, &table, 1).unwrap();
        for number in numbers {
            let value = self.next_value(100);
            writer
                .put(key(*number), Bytes::from(value.clone()))
                .unwrap();
            self.model.insert(key(*number), value);
        }
        let table = writer.finish().unwrap();
        let mut options = IngestOptions::default();
        options.verify = true;
        self.db
            .ingest(&self.keyspace, &[table.path], &options)
            .unwrap();
    }

    fn apply(&mut self, op: &Op) {
        let buffered = Durability::Buffered;
        match op {
            Op::Put(number, len) => {
                let value = self.next_value(*len);
                self.keyspace.put(key(*number), &value, buffered).unwrap();
                self.model.insert(key(*number), value);
            }
            Op::Delete(number) => {
                self.keyspace.delete(key(*number), buffered).unwrap();
                self.model.remove(&key(*number));
            }
            Op::DeleteRange(start, end) => {
                let range = KeyRange::new(key(*start)..key(*end));
                self.keyspace.delete_range(&range, buffered).unwrap();
                self.model.retain(|key, _| !range.contains(key));
            }
            Op::DeleteFrom(start) => {
                let range = KeyRange::new(key(*start)..);
                self.keyspace.delete_range(&range, buffered).unwrap();
                self.model.retain(|key, _| !range.contains(key));
            }
            Op::Flush => self.db.flush().unwrap(),
            Op::Compact => {
                self.db.compact().unwrap();
                if self.snapshots.is_empty() {
                    self.check_clean();
                }
            }
            Op::CompactRange(start, end) => {
                let range = KeyRange {
                    start: Bound::Excluded(key(*start)),
                    end: Bound::Included(key(*end)),
                };
                self.keyspace.compact(&range).unwrap();
            }
            Op::Snapshot => {
                let snapshot = self.db.snapshot().unwrap();
                self.snapshots.push((snapshot, self.model.clone()));
            }
            Op::DropSnapshot(index) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.swap_remove(index % self.snapshots.len());
                }
            }
            Op::Bulk(entries) => self.bulk(entries, true),
            Op::BulkCancelled(entries) => self.bulk(entries, false),
            Op::Ingest(numbers) => self.ingest(numbers),
            Op::Reopen => {
                self.snapshots.clear();
                self.db.close().unwrap();
                let model = std::mem::take(&mut self.model);
                *self = Self::open(self.vfs.clone(), self.threads, model, self.writes);
            }
        }
    }

    /// After a whole compaction that no snapshot holds back, the last level has exactly the live
    /// entries, and no other level has any.
    fn check_clean(&self) {
        let stats = self.db.stats();
        let levels = &stats.keyspaces[0].levels;
        let (last, upper) = levels.split_last().unwrap();
        assert!(upper.iter().all(|level| level.tables == 0), "{levels:?}");
        assert_eq!(last.entries, self.model.len() as u64);
        assert_eq!((last.tombstones, last.range_tombstones), (0, 0));
    }

    fn check(&self) {
        let read = self.keyspace.iter(KeyRange::all(), IterOptions::default());
        let read: Vec<_> = read.unwrap().map(Result::unwrap).collect();
        let expected = self.model.iter().map(|(key, value)| (&key[..], &value[..]));
        assert!(
            read.iter()
                .map(|(key, value)| (&key[..], &value[..]))
                .eq(expected)
        );
        for number in 0..=u8::MAX {
            let key = key(number);
            let found = self.keyspace.get(&key).unwrap();
            assert_eq!(found.as_deref(), self.model.get(&key).map(Vec::as_slice));
        }
        for (snapshot, model) in &self.snapshots {
            let read = snapshot.iter(&self.keyspace, KeyRange::all(), IterOptions::default());
            let read: Vec<_> = read.unwrap().map(Result::unwrap).collect();
            let expected = model.iter().map(|(key, value)| (&key[..], &value[..]));
            assert!(
                read.iter()
                    .map(|(key, value)| (&key[..], &value[..]))
                    .eq(expected)
            );
            for (key, value) in model {
                let found = snapshot.get(&self.keyspace, key).unwrap();
                assert_eq!(found.as_deref(), Some(value.as_slice()));
            }
        }
    }
}

/// No file but the store's own, and no table that the tree does not name.
fn check_files(vfs: &MemVfs, db: &Db) {
    let tables: u64 = db.stats().keyspaces[0]
        .levels
        .iter()
        .map(|level| level.tables)
        .sum();
    let files = vfs.files();
    let in_store = files
        .iter()
        .filter(|file| file.starts_with(Path::new("store")));
    let found = in_store.filter(|file| file.extension().is_some_and(|name| name == "table"));
    assert_eq!(found.count() as u64, tables);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn the_shape_of_the_tree_never_shows(
        ops in prop::collection::vec(op(), 1..80),
        threads in 1usize..4,
    ) {
        let mut store = Store::open(MemVfs::new(), threads, Model::new(), 0);
        for op in &ops {
            store.apply(op);
            if !matches!(op, Op::Put(..) | Op::Delete(_)) {
                store.check();
            }
        }
        store.check();
        store.snapshots.clear();
        store.apply(&Op::Compact);
        store.check();
        store.apply(&Op::Reopen);
        store.check();
        check_files(&store.vfs, &store.db);
    }
}
