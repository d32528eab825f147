//! Merges into clustered tables: what they copy, what they encode anew, and that every value is
//! there afterwards, for every reader that may see it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use ppc_engine::{
    BulkOptions, ClusterOptions, CompactOptions, Counter, Db, Durability, IterOptions, KeyRange,
    Keyspace, KeyspaceOptions, Layout, Snapshot, TableOptions, VerifyOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use support::*;

const KIB: u64 = 1 << 10;

fn keyspace_options(table_bytes_target: u64, dictionary_bytes: u32) -> KeyspaceOptions {
    let mut cluster = ClusterOptions::default();
    cluster.window_bytes = 256 << 10;
    cluster.shared_frame_bytes = 1 << 10;
    let mut last = TableOptions::clustered(3);
    last.layout = Layout::Clustered(cluster);
    last.dictionary_bytes = dictionary_bytes;
    let mut options = KeyspaceOptions::tiered(TableOptions::blocks(1, 4 << 10), last);
    options.table_bytes_target = table_bytes_target;
    options
}

/// A version of one of 40 files: most of it is the file's, a little its own.
fn content(number: u64, version: u64) -> Vec<u8> {
    let lines = if number % 9 == 4 { 4 } else { 40 };
    let line = |line| format!("let f{} = call({line});\n", (number % 40) * 97 + line);
    let mut content = (0..lines).map(line).collect::<String>().into_bytes();
    content.extend_from_slice(&value(number << 8 | version, 40));
    content
}

type Files = BTreeMap<u64, u64>;

fn check(view: impl Iterator<Item = (Vec<u8>, Vec<u8>)>, files: &Files) {
    let walked: Vec<_> = view.collect();
    assert_eq!(walked.len(), files.len());
    for ((walked_key, value), (&number, &version)) in walked.iter().zip(files) {
        assert_eq!(walked_key, &key(number));
        assert_eq!(value, &content(number, version));
    }
}

fn check_snapshot(snapshot: &Snapshot, keyspace: &Keyspace, files: &Files) {
    let iter = snapshot.iter(keyspace, KeyRange::all(), IterOptions::default());
    let entries = iter.unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    check(entries, files);
}

fn check_store(db: &Db, keyspace: &Keyspace, files: &Files) {
    check(dump(keyspace).into_iter(), files);
    let keys: Vec<Vec<u8>> = files.keys().map(|&number| key(number)).collect();
    let values = keyspace.multi_get(&keys).into_iter();
    for (value, (&number, &version)) in values.zip(files) {
        assert_eq!(value.unwrap().unwrap(), content(number, version));
    }
    let report = db.verify(&VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

fn load(db: &Db, keyspace: &Keyspace, files: &Files) {
    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
    for (&number, &version) in files {
        let value = Bytes::from(content(number, version));
        loader.put(keyspace, key(number), value).unwrap();
    }
    loader.finish(&mut |_| {}).unwrap();
}

fn put(keyspace: &Keyspace, number: u64, version: u64) {
    let value = content(number, version);
    keyspace
        .put(key(number), value, Durability::Buffered)
        .unwrap();
}

#[test]
fn merging_a_hundredth_encodes_little_more_than_that() {
    for dictionary_bytes in [0, 4 << 10] {
        let vfs = SteeredVfs::new();
        let db = Db::open("/db", db_options(&vfs)).unwrap();
        let options = keyspace_options(640 * KIB, dictionary_bytes);
        let keyspace = db.keyspace("files", options).unwrap();
        let mut files: Files = (0..2000).map(|number| (number, 0)).collect();
        files.retain(|number, _| number % 100 != 77);
        load(&db, &keyspace, &files);
        assert!(tables_in_level(&db, 6) > 2);
        let stored_before = vfs.table_bytes();
        for number in (77..2000).step_by(100) {
            put(&keyspace, number, 0);
            files.insert(number, 0);
        }
        let report = db.compact().unwrap();
        check_store(&db, &keyspace, &files);
        let lens = files.keys().map(|&number| content(number, 0).len());
        // What is shorter sits beside its key.
        let framed = lens.filter(|&len| len > 128).sum::<usize>() as u64;
        assert!(
            report.value_bytes_encoded < framed / 50,
            "{report:?} of {framed}"
        );
        assert!(
            report.frame_bytes_copied > stored_before / 2,
            "{report:?} of {stored_before}"
        );
        let counters = db.stats().counters;
        let copied = counters.get(Counter::CompactionFrameBytesCopied);
        assert_eq!(copied, report.frame_bytes_copied);
        assert!(counters.get(Counter::CompactionFramesCopied) > 1000);
        // Asked to, it encodes everything anew.
        let mut anew = CompactOptions::default();
        anew.rewrite_all = true;
        let report = db.compact_with(&anew, &mut |_| {}).unwrap();
        assert_eq!(report.frame_bytes_copied, 0);
        assert_eq!(report.value_bytes_encoded, framed);
        check_store(&db, &keyspace, &files);
    }
}

/// A store that is written, deleted from and compacted at random, beside what it should hold.
struct Run {
    db: Db,
    keyspace: Keyspace,
    files: Files,
    random: StdRng,
    version: u64,
    copied: u64,
}

impl Run {
    fn number(&mut self) -> u64 {
        self.random.random_range(0..1200)
    }

    /// Changes a little: so little that most of the tables stays as it is.
    fn change(&mut self) {
        self.version = (self.version + 1) % 256;
        for _ in 0..self.random.random_range(0..12) {
            let number = self.number();
            put(&self.keyspace, number, self.version);
            self.files.insert(number, self.version);
        }
        for _ in 0..self.random.random_range(0..6) {
            let number = self.number();
            self.keyspace
                .delete(key(number), Durability::Buffered)
                .unwrap();
            self.files.remove(&number);
        }
        if self.random.random_bool(0.3) {
            let start = self.number();
            let end = start + self.random.random_range(1..12);
            let range = KeyRange::new(key(start)..key(end));
            self.keyspace
                .delete_range(&range, Durability::Buffered)
                .unwrap();
            self.files
                .retain(|number, _| !(start..end).contains(number));
        }
    }

    fn step(&mut self, snapshots: &mut Vec<(Snapshot, Files)>) {
        self.change();
        if self.random.random_bool(0.3) {
            snapshots.push((self.db.snapshot().unwrap(), self.files.clone()));
        }
        if self.random.random_bool(0.2) {
            snapshots.clear();
        }
        match self.random.random_range(0..4) {
            0 => self.db.flush().unwrap(),
            1 => {}
            _ => self.copied += self.db.compact().unwrap().frame_bytes_copied,
        }
        check_store(&self.db, &self.keyspace, &self.files);
        for (snapshot, files) in snapshots {
            check_snapshot(snapshot, &self.keyspace, files);
        }
    }
}

#[test]
fn random_merges_agree_with_a_map() {
    let seeds = std::env::var("PPC_SIM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(6);
    for seed in 0..seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let target = [48, 200, 1024][random.random_range(0..3)] * KIB;
        let dictionary_bytes = [0, 2 << 10][random.random_range(0..2)];
        let vfs = SteeredVfs::new();
        let mut options = db_options(&vfs);
        options.background_threads = random.random_range(1..4);
        options.compression_threads = random.random_range(1..3);
        let db = Db::open("/db", options).unwrap();
        let options = keyspace_options(target, dictionary_bytes);
        let keyspace = db.keyspace("files", options).unwrap();
        let mut run = Run {
            files: (0..1000).map(|number| (number, 0)).collect(),
            db,
            keyspace,
            random,
            version: 0,
            copied: 0,
        };
        load(&run.db, &run.keyspace, &run.files);
        let mut snapshots = Vec::new();
        for _ in 0..12 {
            run.step(&mut snapshots);
        }
        assert!(run.copied > 100 * KIB, "seed {seed}: {}", run.copied);
    }
}
