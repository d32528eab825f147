//! Whatever is put into clustered tables comes back: after loads, writes, deletes, compactions and
//! merges, one by one, at once and by scans both ways, mapped and by positioned reads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use ppc_engine::{
    BulkOptions, ClusterOptions, Db, Durability, IterOptions, KeyRange, Keyspace, KeyspaceOptions,
    Layout, ReadMode, TableOptions,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use support::*;

type Model = BTreeMap<Vec<u8>, Bytes>;

/// A value by the numbers that it is made of, so that failures print little.
#[derive(Debug, Clone)]
enum Value {
    /// A version of one of a few files: most of its lines are the file's.
    Version { file: u64, version: u64, lines: u64 },
    /// One long line with a few changes.
    Minified { file: u64, version: u64, words: u64 },
    /// Like nothing else, and not compressible.
    Noise { seed: u64, bytes: usize },
    /// Compresses to next to nothing.
    Run { byte: u8, bytes: usize },
}

impl Value {
    fn bytes(&self) -> Bytes {
        match *self {
            Self::Version {
                file,
                version,
                lines,
            } => {
                let line = |line: u64| match line % 50 {
                    7 => format!("const V{line}: u64 = {version};\n"),
                    _ => format!("let f{file}_{line} = call({});\n", line * 7919 % 1009),
                };
                (0..lines).map(line).collect::<String>().into()
            }
            Self::Minified {
                file,
                version,
                words,
            } => {
                let word = |word: u64| match word % 97 {
                    13 => format!("v{version},"),
                    _ => format!("w{}({file});", word * 31 % 2003),
                };
                (0..words).map(word).collect::<String>().into()
            }
            Self::Noise { seed, bytes } => value(seed, bytes).into(),
            Self::Run { byte, bytes } => vec![byte; bytes].into(),
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let version = |lines| {
        (0..6u64, 0..9u64, lines).prop_map(|(file, version, lines)| Value::Version {
            file,
            version,
            lines,
        })
    };
    prop_oneof![
        12 => version(0..400u64),
        // Up to 2 MiB.
        1 => version(20_000..70_000u64),
        4 => (0..4u64, 0..9u64, 0..9000u64).prop_map(|(file, version, words)| Value::Minified {
            file,
            version,
            words,
        }),
        2 => (1..1000u64, 0..20_000usize).prop_map(|(seed, bytes)| Value::Noise { seed, bytes }),
        1 => (1..9u64, 100_000..900_000usize)
            .prop_map(|(seed, bytes)| Value::Noise { seed, bytes }),
        2 => (any::<u8>(), 0..3000usize).prop_map(|(byte, bytes)| Value::Run { byte, bytes }),
        1 => (any::<u8>(), 0..2_000_000usize)
            .prop_map(|(byte, bytes)| Value::Run { byte, bytes }),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    /// Adds keys by a bulk load.
    Load(Vec<(u64, Value)>),
    /// Adds or replaces keys by writes.
    Put(Vec<(u64, Value)>),
    /// Deletes every so-many-th key from one on.
    Delete(u64, u64),
    DeleteRange(u64, u64),
    Compact,
    Reopen,
}

const KEYS: u64 = 200;

fn any_step() -> impl Strategy<Value = Step> {
    let entries = || prop::collection::vec((0..KEYS, any_value()), 1..40);
    prop_oneof![
        3 => entries().prop_map(Step::Load),
        3 => entries().prop_map(Step::Put),
        2 => (0..KEYS, 1..9u64).prop_map(|(from, step)| Step::Delete(from, step)),
        1 => (0..KEYS, 0..30u64).prop_map(|(from, count)| Step::DeleteRange(from, count)),
        3 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Debug, Clone)]
struct Setup {
    window_bytes: u32,
    depth_max: u32,
    dictionary_bytes: u32,
    shared_frame_bytes: u32,
    mapped: bool,
    cache_bytes: usize,
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let windows = prop_oneof![Just(64 << 10), Just(1 << 20), Just(64 << 20)];
    let caches = prop_oneof![Just(0), Just(256 << 10), Just(64 << 20)];
    let dictionaries = prop_oneof![Just(0), Just(4 << 10)];
    let shared = prop_oneof![Just(0), Just(8 << 10)];
    let setup = (
        windows,
        0..4u32,
        dictionaries,
        shared,
        any::<bool>(),
        caches,
    );
    setup.prop_map(
        |(window_bytes, depth_max, dictionary_bytes, shared_frame_bytes, mapped, cache_bytes)| {
            Setup {
                window_bytes,
                depth_max,
                dictionary_bytes,
                shared_frame_bytes,
                mapped,
                cache_bytes,
            }
        },
    )
}

fn open_store(vfs: &SteeredVfs, setup: &Setup) -> (Db, Keyspace) {
    let mut options = db_options(vfs);
    options.memtable_bytes = 1 << 20;
    options.cache_bytes = setup.cache_bytes;
    options.read_mode = match setup.mapped {
        true => ReadMode::Mmap,
        false => ReadMode::Pread,
    };
    let mut cluster = ClusterOptions::default();
    cluster.window_bytes = setup.window_bytes;
    cluster.depth_max = setup.depth_max;
    cluster.shared_frame_bytes = setup.shared_frame_bytes;
    let mut table = TableOptions::clustered(1);
    table.layout = Layout::Clustered(cluster);
    table.dictionary_bytes = setup.dictionary_bytes;
    let mut keyspace = KeyspaceOptions::uniform(table);
    keyspace.table_bytes_target = 2 << 20;
    let db = Db::open("/db", options).unwrap();
    let keyspace = db.keyspace("files", keyspace).unwrap();
    (db, keyspace)
}

fn check(keyspace: &Keyspace, model: &Model) -> Result<(), TestCaseError> {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let mut buffer = Vec::new();
    for (key, many) in keys.iter().zip(keyspace.multi_get(&keys)) {
        let expected = model.get(key);
        let (many, single) = (many.unwrap(), keyspace.get(key).unwrap());
        prop_assert!(many.as_ref() == expected && single.as_ref() == expected);
        let found = keyspace.get_into(key, &mut buffer).unwrap();
        prop_assert!(found.then_some(&buffer[..]) == expected.map(|it| &it[..]));
    }
    let walk = || {
        let iter = keyspace.iter(KeyRange::all(), IterOptions::default());
        iter.unwrap().map(Result::unwrap)
    };
    let expected = || model.iter().map(|(key, value)| (&key[..], value));
    let same = |(key, value): (Bytes, Bytes), (expected_key, expected): (&[u8], &Bytes)| {
        key == expected_key && value == *expected
    };
    prop_assert_eq!(walk().count(), model.len());
    prop_assert!(
        walk()
            .zip(expected())
            .all(|(got, expected)| same(got, expected))
    );
    let backward = walk().rev().zip(expected().rev());
    prop_assert!(
        backward
            .into_iter()
            .all(|(got, expected)| same(got, expected))
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn every_value_comes_back_by_every_way(
        setup in any_setup(),
        steps in prop::collection::vec(any_step(), 1..10),
    ) {
        let vfs = SteeredVfs::new();
        let (mut db, mut keyspace) = open_store(&vfs, &setup);
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Load(entries) => {
                    let entries: Model = entries
                        .iter()
                        .map(|(number, value)| (key(*number), value.bytes()))
                        .collect();
                    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
                    for (key, value) in &entries {
                        loader.put(&keyspace, key, value.clone()).unwrap();
                    }
                    loader.finish(&mut |_| {}).unwrap();
                    model.extend(entries);
                }
                Step::Put(entries) => {
                    for (number, value) in entries {
                        let (key, value) = (key(number), value.bytes());
                        keyspace.put(&key, value.clone(), Durability::Buffered).unwrap();
                        model.insert(key, value);
                    }
                }
                Step::Delete(from, step) => {
                    for number in (from..KEYS).step_by(step as usize) {
                        keyspace.delete(key(number), Durability::Buffered).unwrap();
                        model.remove(&key(number));
                    }
                }
                Step::DeleteRange(from, count) => {
                    let range = KeyRange::new(key(from)..key(from + count));
                    keyspace.delete_range(&range, Durability::Buffered).unwrap();
                    model.retain(|at, _| *at < key(from) || *at >= key(from + count));
                }
                Step::Compact => {
                    db.compact().unwrap();
                }
                Step::Reopen => {
                    db.close().unwrap();
                    (db, keyspace) = open_store(&vfs, &setup);
                }
            }
            check(&keyspace, &model)?;
        }
        db.compact().unwrap();
        check(&keyspace, &model)?;
    }
}
