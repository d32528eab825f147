//! The store's own operations, over a made-up corpus: point reads by block size with and without
//! the cache, multi-gets, scans, batches, bulk loads, and opening a store of 10,000 tables.
//!
//! `cargo bench -p ppc-bench --bench store -- get` runs a part.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ppc_bench::corpus::{Corpus, CorpusOptions};
use ppc_engine::vfs::{MemVfs, Vfs};
use ppc_engine::{
    Batch, Db, DbOptions, Durability, IterOptions, KeyRange, Keyspace, KeyspaceOptions, ReadMode,
    TableOptions,
};
use tempfile::TempDir;

const KIB: u32 = 1024;

struct Store {
    keyspace: Keyspace,
    _dir: TempDir,
}

fn options(cache_bytes: usize) -> DbOptions {
    let mut options = DbOptions::default();
    options.cache_bytes = cache_bytes;
    options
}

/// The corpus in one table of the last level.
fn built(corpus: &Corpus, block_bytes: u32, cache_bytes: usize) -> Store {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options(cache_bytes)).unwrap();
    let table = TableOptions::blocks(3, block_bytes);
    let keyspace = db
        .keyspace("contents", KeyspaceOptions::uniform(table))
        .unwrap();
    load(&db, &keyspace, corpus);
    Store {
        keyspace,
        _dir: dir,
    }
}

fn load(db: &Db, keyspace: &Keyspace, corpus: &Corpus) {
    let mut loader = db.bulk_loader(ppc_engine::BulkOptions::default()).unwrap();
    for (key, content) in corpus.iter() {
        let content = content.to_vec().into();
        loader.put(keyspace, key, content).unwrap();
    }
    loader.finish(&mut |_| {}).unwrap();
}

/// Visits every key once, far from its predecessor.
fn stride(corpus: &Corpus) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 0;
    std::iter::repeat_with(move || {
        at = (at + 1_597) % corpus.len();
        (corpus.key(at), corpus.value(at))
    })
}

fn gets(criterion: &mut Criterion) {
    let corpus = Corpus::generate(&CorpusOptions::default());
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Bytes(corpus.raw_bytes() / corpus.len() as u64));
    for (cache, cache_bytes) in [("uncached", 0), ("cached", 256 << 20)] {
        for block_bytes in [4 * KIB, 64 * KIB, 128 * KIB] {
            let store = built(&corpus, block_bytes, cache_bytes);
            let mut keys = stride(&corpus);
            group.bench_function(format!("{cache}/{}KiB", block_bytes / KIB), |bencher| {
                bencher.iter(|| {
                    let (key, content) = keys.next().unwrap();
                    let value = store.keyspace.get(key).unwrap().unwrap();
                    assert_eq!(value.len(), content.len());
                    black_box(value)
                });
            });
        }
    }
    group.throughput(Throughput::Elements(1));
    let store = built(&corpus, 64 * KIB, 0);
    let mut keys = stride(&corpus).map(|(key, _)| [key, b"?"].concat());
    group.bench_function("miss", |bencher| {
        bencher.iter_batched(
            || keys.next().unwrap(),
            |key| assert!(store.keyspace.get(key).unwrap().is_none()),
            BatchSize::SmallInput,
        );
    });
}

fn multi_gets(criterion: &mut Criterion) {
    let corpus = Corpus::generate(&CorpusOptions::default());
    let store = built(&corpus, 64 * KIB, 0);
    let mut group = criterion.benchmark_group("multi_get");
    for count in [1, 10, 100] {
        group.throughput(Throughput::Elements(count as u64));
        let mut keys = stride(&corpus).map(|(key, _)| key);
        group.bench_function(format!("{count}"), |bencher| {
            bencher.iter_batched(
                || keys.by_ref().take(count).collect::<Vec<_>>(),
                |keys| {
                    let values = store.keyspace.multi_get(&keys);
                    assert!(values.iter().all(|value| matches!(value, Ok(Some(_)))));
                    values
                },
                BatchSize::SmallInput,
            );
        });
    }
}

fn scans(criterion: &mut Criterion) {
    let corpus = Corpus::generate(&CorpusOptions::default());
    let store = built(&corpus, 64 * KIB, 0);
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Bytes(corpus.raw_bytes()));
    for (name, options) in [
        ("values", IterOptions::default()),
        ("keys", IterOptions::keys_only()),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let iter = store.keyspace.iter(KeyRange::all(), options).unwrap();
                assert_eq!(iter.filter(|entry| entry.is_ok()).count(), corpus.len());
            });
        });
    }
}

fn writes(criterion: &mut Criterion) {
    let corpus = Corpus::generate(&CorpusOptions::default());
    let mut group = criterion.benchmark_group("write");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(corpus.raw_bytes()));
    let fresh = || {
        let dir = TempDir::new().unwrap();
        let db = Db::open(dir.path(), options(0)).unwrap();
        let keyspace = db.keyspace("contents", KeyspaceOptions::default()).unwrap();
        (dir, db, keyspace)
    };
    group.bench_function("batches of 100", |bencher| {
        bencher.iter_batched(
            fresh,
            |(dir, db, keyspace)| {
                let entries: Vec<_> = corpus.iter().collect();
                for chunk in entries.chunks(100) {
                    let mut batch = Batch::new();
                    for (key, content) in chunk {
                        batch.put(&keyspace, key, content);
                    }
                    db.write(batch, Durability::Buffered).unwrap();
                }
                (dir, db)
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("bulk load", |bencher| {
        bencher.iter_batched(
            fresh,
            |(dir, db, keyspace)| {
                load(&db, &keyspace, &corpus);
                (dir, db)
            },
            BatchSize::PerIteration,
        );
    });
}

const TABLES: u32 = 10_000;

fn key_of_table(table: u32, value: u32) -> [u8; 5] {
    let [a, b, c, d] = table.to_be_bytes();
    [a, b, c, d, value as u8]
}

/// A store of many tables of four small values each. Built in memory, because a disk would sync
/// each table.
fn many_tables() -> TempDir {
    let memory = MemVfs::new();
    let mut in_memory = options(0);
    in_memory.vfs = Arc::new(memory.clone());
    let db = Db::open("store", in_memory).unwrap();
    let mut keyspace = KeyspaceOptions::uniform(TableOptions::blocks(1, 4 * KIB));
    keyspace.table_bytes_target = 4 << 10;
    let keyspace = db.keyspace("contents", keyspace).unwrap();
    let mut loader = db.bulk_loader(ppc_engine::BulkOptions::default()).unwrap();
    for table in 0..TABLES {
        for value in 0..4 {
            let key = key_of_table(table, value);
            loader.put(&keyspace, key, vec![7; 1020].into()).unwrap();
        }
    }
    let report = loader.finish(&mut |_| {}).unwrap();
    assert_eq!(report.keyspaces[0].tables, u64::from(TABLES));
    db.close().unwrap();
    let dir = TempDir::new().unwrap();
    for path in memory.files() {
        let file = memory.open(&path, ReadMode::Mmap).unwrap();
        let name = path.strip_prefix("store").unwrap();
        std::fs::write(dir.path().join(name), file.mapping().unwrap()).unwrap();
    }
    dir
}

fn opens(criterion: &mut Criterion) {
    let dir = many_tables();
    let open = |path: &Path| {
        let mut options = options(0);
        options.open_tables_max = 2 * TABLES as usize;
        let db = Db::open(path, options).unwrap();
        let keyspace = db.existing_keyspace("contents").unwrap().unwrap();
        (db, keyspace)
    };
    let mut group = criterion.benchmark_group("open");
    group.sample_size(10);
    group.throughput(Throughput::Elements(u64::from(TABLES)));
    group.bench_function("10000 tables", |bencher| {
        bencher.iter_with_large_drop(|| open(dir.path()));
    });
    group.bench_function("10000 tables, each one read", |bencher| {
        bencher.iter_with_large_drop(|| {
            let (db, keyspace) = open(dir.path());
            for table in 0..TABLES {
                assert!(keyspace.contains(key_of_table(table, 2)).unwrap());
            }
            (db, keyspace)
        });
    });
}

criterion_group!(store, gets, multi_gets, scans, writes, opens);
criterion_main!(store);
