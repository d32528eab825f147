//! The parts that a get, a build or a write consists of, each alone, over a made-up corpus: keys,
//! hashes, frames by kind, clusters, filters, key blocks, memtables, the log, merges. Gets by block size and
//! multi-gets, which need a whole store, are in the bench `store`.
//!
//! `cargo bench -p ppc-bench --bench parts -- frame` runs a part.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ppc_bench::corpus::{Corpus, CorpusOptions};
use ppc_engine::benching::{
    Bytes, Filter, Frames, Log, Memtable, Sketched, SortedKeys, hash_of_key, merge,
};
use ppc_engine::{Compression, FilterPolicy};
use ppc_store::{HashKinds, Hashes, PpcKey, Sha1Git};
use tempfile::TempDir;

const KIB: usize = 1024;

/// A key and a content, which share their bytes with every copy.
type Entry = (Bytes, Bytes);

fn corpus() -> Vec<Entry> {
    let corpus = Corpus::generate(&CorpusOptions {
        families: 250,
        ..CorpusOptions::default()
    });
    let copy = Bytes::copy_from_slice;
    corpus
        .iter()
        .map(|(key, content)| (copy(key), copy(content)))
        .collect()
}

fn bytes(corpus: &[Entry]) -> u64 {
    corpus.iter().map(|(_, content)| content.len() as u64).sum()
}

/// Goes round the items, far from one to the next.
fn stride<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let mut at = 0;
    std::iter::repeat_with(move || {
        at = (at + 1_597) % items.len();
        &items[at]
    })
}

/// A key that no corpus holds, right behind one that it holds.
fn with_more(key: &Bytes) -> Bytes {
    [key, &b"?"[..]].concat().into()
}

fn keys(criterion: &mut Criterion) {
    let names = [
        "doxygen.h",
        "setup.py",
        "index.test.js",
        "Makefile",
        "Main.java",
    ];
    let keys: Vec<PpcKey> = (0..1000_u32)
        .map(|index| {
            let name = names[index as usize % names.len()];
            PpcKey::of(name, &index.to_be_bytes()).unwrap()
        })
        .collect();
    let encoded: Vec<Vec<u8>> = keys.iter().map(PpcKey::encode).collect();
    let mut group = criterion.benchmark_group("key");
    group.throughput(Throughput::Elements(1));
    let mut out = Vec::new();
    let mut each = stride(&keys);
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            each.next().unwrap().encode_into(&mut out);
            black_box(out.len())
        });
    });
    let mut each = stride(&encoded);
    group.bench_function("decode", |bencher| {
        bencher.iter(|| PpcKey::decode(each.next().unwrap()).unwrap());
    });
    let texts: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let mut each = stride(&texts);
    group.bench_function("parse text", |bencher| {
        bencher.iter(|| each.next().unwrap().parse::<PpcKey>().unwrap());
    });
}

fn hashes(criterion: &mut Criterion) {
    let corpus = corpus();
    let content = &corpus[0].1[..];
    let mut group = criterion.benchmark_group("hash");
    group.throughput(Throughput::Bytes(content.len() as u64));
    group.bench_function("sha1_git", |bencher| {
        bencher.iter(|| Sha1Git::of(black_box(content)));
    });
    group.bench_function("all four", |bencher| {
        bencher.iter(|| Hashes::of(HashKinds::ALL, black_box(content)));
    });
    let key = &corpus[0].0[..];
    group.throughput(Throughput::Bytes(key.len() as u64));
    group.bench_function("key for the filter", |bencher| {
        bencher.iter(|| hash_of_key(black_box(key)));
    });
}

/// The corpus cut into frames of about this many bytes, as a table with blocks would.
fn raw_frames(corpus: &[Entry], frame_bytes: usize) -> Vec<Bytes> {
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    for (_, content) in corpus {
        frame.extend_from_slice(content);
        if frame.len() >= frame_bytes {
            frames.push(std::mem::take(&mut frame).into());
        }
    }
    frames
}

fn frames(criterion: &mut Criterion) {
    let corpus = corpus();
    let samples: Vec<Bytes> = stride(&corpus)
        .take(1000)
        .map(|(_, content)| content.clone())
        .collect();
    let zstd = |level| Frames::new(Compression::Zstd { level });
    let with_dictionary = |level| zstd(level).with_dictionary(&samples, 64 * KIB).unwrap();
    let kinds = [
        ("stored", Frames::new(Compression::None)),
        ("zstd-3", zstd(3)),
        ("zstd-6", zstd(6)),
        ("zstd-3 dictionary", with_dictionary(3)),
        ("zstd-6 dictionary", with_dictionary(6)),
    ];
    for frame_bytes in [4 * KIB, 64 * KIB] {
        let raw = raw_frames(&corpus, frame_bytes);
        let mean = raw.iter().map(Bytes::len).sum::<usize>() / raw.len();
        for direction in ["encode", "decode"] {
            let mut group = criterion.benchmark_group(format!("frame {direction}"));
            group.throughput(Throughput::Bytes(mean as u64));
            for (kind, frames) in &kinds {
                let name = format!("{kind}/{}KiB", frame_bytes / KIB);
                if direction == "encode" {
                    let mut each = stride(&raw);
                    group.bench_function(name, |bencher| {
                        bencher.iter(|| frames.encode(each.next().unwrap().clone()).unwrap());
                    });
                    continue;
                }
                let units: Vec<Vec<u8>> = raw
                    .iter()
                    .map(|raw| frames.encode(raw.clone()).unwrap())
                    .collect();
                let mut each = stride(&units);
                let mut out = Vec::new();
                group.bench_function(name, |bencher| {
                    bencher.iter(|| {
                        frames.decode(each.next().unwrap(), &mut out).unwrap();
                        black_box(out.len())
                    });
                });
            }
        }
    }
}

/// What a clustered table does before it compresses: sketches, of lines or of pieces where there are
/// no lines, and the plan of a window.
fn clusters(criterion: &mut Criterion) {
    let corpus = corpus();
    let all: Vec<Bytes> = corpus.iter().map(|(_, content)| content.clone()).collect();
    // Files of 20 KiB: neighbours joined, with and without their line ends.
    let (mut joined, mut one_line) = (Vec::new(), Vec::new());
    for chunk in raw_frames(&corpus, 20 * KIB) {
        let minified: Vec<u8> = chunk.iter().map(|byte| byte.max(&b' ')).copied().collect();
        one_line.push(Bytes::from(minified));
        joined.push(chunk);
    }
    let mut group = criterion.benchmark_group("cluster");
    for (name, values) in [
        ("20 KiB of lines", &joined),
        ("20 KiB in one line", &one_line),
    ] {
        let bytes = values.iter().map(Bytes::len).sum::<usize>();
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("sketch {name}"), |bencher| {
            bencher.iter(|| black_box(Sketched::new(values).memory_bytes()));
        });
    }
    group.throughput(Throughput::Bytes(bytes(&corpus)));
    group.bench_function("plan", |bencher| {
        bencher.iter_batched(
            || Sketched::new(&all),
            Sketched::plan,
            BatchSize::LargeInput,
        );
    });
}

fn filters(criterion: &mut Criterion) {
    const COUNT: u64 = 100_000;
    let hash = |index: u64| hash_of_key(&index.to_le_bytes());
    let there: Vec<u64> = (0..COUNT).map(hash).collect();
    let not_there: Vec<u64> = (COUNT..2 * COUNT).map(hash).collect();
    let mut group = criterion.benchmark_group("filter");
    group.throughput(Throughput::Elements(COUNT));
    for (name, policy) in [
        ("fuse-8", FilterPolicy::Fuse8),
        ("fuse-16", FilterPolicy::Fuse16),
    ] {
        group.bench_function(format!("build {name}"), |bencher| {
            bencher.iter_batched(
                || there.clone(),
                |hashes| Filter::build(policy, hashes).unwrap(),
                BatchSize::LargeInput,
            );
        });
        let filter = Filter::build(policy, there.clone()).unwrap();
        for (answer, hashes) in [("there", &there), ("not there", &not_there)] {
            group.bench_function(format!("probe {name}, {answer}"), |bencher| {
                bencher.iter(|| filter.count(black_box(hashes)).unwrap());
            });
        }
        assert_eq!(filter.count(&there).unwrap() as u64, COUNT);
    }
}

fn key_blocks(criterion: &mut Criterion) {
    let corpus = corpus();
    let keys: Vec<Bytes> = corpus.iter().map(|(key, _)| key.clone()).collect();
    let mut group = criterion.benchmark_group("key block search");
    group.throughput(Throughput::Elements(1));
    for block_bytes in [4 * KIB, 16 * KIB] {
        let block = SortedKeys::build(&keys, block_bytes).unwrap();
        let inside = &keys[..block.count()];
        let mut each = stride(inside);
        group.bench_function(format!("{}KiB, there", block_bytes / KIB), |bencher| {
            bencher.iter(|| {
                let found = block.search(each.next().unwrap()).unwrap();
                assert!(found.is_some());
                found
            });
        });
        // Beside a key that is there: in the middle of the block, not before or behind it.
        let beside: Vec<Bytes> = inside.iter().map(with_more).collect();
        let mut each = stride(&beside);
        group.bench_function(format!("{}KiB, not there", block_bytes / KIB), |bencher| {
            bencher.iter(|| {
                let found = block.search(each.next().unwrap()).unwrap();
                assert!(found.is_none());
                found
            });
        });
    }
}

/// The corpus in memtables, an entry to each in turn.
fn memtables(corpus: &[Entry], count: usize) -> Vec<Memtable> {
    let memtables = vec![(); count].into_iter().map(|()| Memtable::default());
    let memtables: Vec<Memtable> = memtables.collect();
    for (index, (key, content)) in corpus.iter().enumerate() {
        memtables[index % count].insert(key, index as u64 + 1, content.clone());
    }
    memtables
}

fn memtable(criterion: &mut Criterion) {
    let corpus = corpus();
    let mut group = criterion.benchmark_group("memtable");
    group.throughput(Throughput::Elements(corpus.len() as u64));
    let shuffled: Vec<_> = stride(&corpus).take(corpus.len()).cloned().collect();
    for (order, entries) in [("sorted", &corpus), ("shuffled", &shuffled)] {
        group.bench_function(format!("insert {order}"), |bencher| {
            bencher.iter_with_large_drop(|| memtables(entries, 1));
        });
    }
    group.throughput(Throughput::Elements(1));
    let memtable = &memtables(&corpus, 1)[0];
    let mut each = stride(&corpus);
    group.bench_function("get", |bencher| {
        bencher.iter(|| memtable.get(&each.next().unwrap().0).unwrap());
    });
    let mut each = stride(&corpus).map(|(key, _)| with_more(key));
    group.bench_function("miss", |bencher| {
        bencher.iter_batched(
            || each.next().unwrap(),
            |key| assert!(memtable.get(&key).is_none()),
            BatchSize::SmallInput,
        );
    });
}

fn merges(criterion: &mut Criterion) {
    let corpus = corpus();
    let mut group = criterion.benchmark_group("merge");
    group.throughput(Throughput::Elements(corpus.len() as u64));
    for count in [1, 2, 8, 32] {
        let sources = memtables(&corpus, count);
        group.bench_function(format!("{count} memtables"), |bencher| {
            bencher.iter(|| {
                let (entries, key_bytes) = merge(&sources).unwrap();
                assert_eq!(entries, corpus.len());
                key_bytes
            });
        });
    }
}

/// A log in a directory of its own, removed when it is dropped, outside of what is timed.
struct FreshLog {
    log: Log,
    _dir: TempDir,
}

fn fresh_log() -> FreshLog {
    let dir = TempDir::new().unwrap();
    FreshLog {
        log: Log::create(dir.path()).unwrap(),
        _dir: dir,
    }
}

fn log(criterion: &mut Criterion) {
    let corpus = corpus();
    let mut group = criterion.benchmark_group("log append");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(bytes(&corpus)));
    for count in [1, 100] {
        group.bench_function(format!("batches of {count}"), |bencher| {
            bencher.iter_batched(
                fresh_log,
                |mut fresh| {
                    append(&mut fresh.log, &corpus, count);
                    fresh
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.throughput(Throughput::Elements(1));
    let batch = &corpus[..10];
    group.bench_function("batch of 10 and sync", |bencher| {
        bencher.iter_batched(
            fresh_log,
            |mut fresh| {
                append(&mut fresh.log, batch, batch.len());
                fresh.log.sync().unwrap();
                fresh
            },
            BatchSize::PerIteration,
        );
    });
}

fn append(log: &mut Log, entries: &[Entry], count: usize) {
    let mut seq = 1;
    for chunk in entries.chunks(count) {
        let puts = chunk.iter().map(|(key, content)| (&key[..], &content[..]));
        log.append(seq, puts).unwrap();
        seq += chunk.len() as u64;
    }
}

criterion_group!(
    parts, keys, hashes, frames, clusters, filters, key_blocks, memtable, merges, log
);
criterion_main!(parts);
