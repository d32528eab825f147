//! Corpora written as Parquet and read back.

use std::path::{Path, PathBuf};

use ppc_store::PpcKey;
use ppc_store::sink::{ParquetCompression, ParquetSink, Sink, SinkOptions};
use tempfile::TempDir;

use super::{Corpus, CorpusOptions};

fn small() -> Corpus {
    Corpus::generate(&CorpusOptions {
        families: 40,
        versions: 4,
        ..CorpusOptions::default()
    })
}

/// Writes entries, in the order given, as `dir/name.parquet`.
fn write<'a>(
    dir: &Path,
    name: &str,
    options: &SinkOptions,
    entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> PathBuf {
    let path = dir.join(format!("{name}.parquet"));
    let mut sink = Box::new(ParquetSink::create(&path, options).unwrap());
    for (key, value) in entries {
        sink.write(&PpcKey::decode(key).unwrap(), value).unwrap();
    }
    sink.finish().unwrap();
    path
}

#[test]
fn a_corpus_comes_back_from_parquet_with_the_same_id() {
    let dir = TempDir::new().unwrap();
    let corpus = small();
    for parquet_compression in [ParquetCompression::Snappy, ParquetCompression::Zstd] {
        let options = SinkOptions {
            parquet_compression,
            row_group_rows_max: 50,
            overwrite: true,
            ..SinkOptions::default()
        };
        let path = write(dir.path(), "synthetic", &options, corpus.iter());
        let loaded = Corpus::load(&path).unwrap();
        assert_eq!(loaded, corpus);
    }
    assert_eq!(corpus.id().files, corpus.len() as u64);
    assert_eq!(corpus.id().raw_bytes, corpus.raw_bytes());
    let bytes: usize = corpus.iter().map(|(_, value)| value.len()).sum();
    assert_eq!(corpus.raw_bytes(), bytes as u64);
}

/// The checksum stands in kept results: were it computed otherwise, no new result could be compared
/// with them.
#[test]
fn the_id_of_known_entries_stays_as_it_is() {
    let dir = TempDir::new().unwrap();
    let contents: [&[u8]; 2] = [b"int main() {}\n", b""];
    let keys = contents.map(|content| PpcKey::of(b"main.c".to_vec(), content).unwrap());
    let mut entries: Vec<_> = keys.iter().map(PpcKey::encode).zip(contents).collect();
    entries.sort();
    let entries = entries.iter().map(|(key, value)| (&key[..], *value));
    let path = write(dir.path(), "two", &SinkOptions::default(), entries);
    let id = Corpus::load(&path).unwrap().id().clone();
    assert_eq!((id.name.as_str(), id.files, id.raw_bytes), ("two", 2, 14));
    assert_eq!(
        id.sha256,
        "d4482dbae8b58621aa79c035c9cfa483ca5739b7386b704eb070b25d892a3663"
    );
}

#[test]
fn rows_out_of_order_or_given_twice_are_refused() {
    let dir = TempDir::new().unwrap();
    let corpus = small();
    let options = SinkOptions::default();
    let mut entries: Vec<_> = corpus.iter().collect();
    entries.swap(3, 4);
    let path = write(dir.path(), "swapped", &options, entries.iter().copied());
    let error = Corpus::load(&path).unwrap_err().to_string();
    assert!(error.contains("from-parquet"), "{error}");
    let first = corpus.iter().next().unwrap();
    let path = write(dir.path(), "twice", &options, [first, first].into_iter());
    assert!(Corpus::load(&path).is_err());
}

#[test]
fn a_content_under_another_hash_is_refused() {
    let dir = TempDir::new().unwrap();
    let key = PpcKey::of(b"a.c".to_vec(), b"one").unwrap().encode();
    let entries = [(&key[..], &b"two"[..])];
    let path = write(
        dir.path(),
        "wrong",
        &SinkOptions::default(),
        entries.into_iter(),
    );
    let error = Corpus::load(&path).unwrap_err().to_string();
    assert!(error.contains("row 0"), "{error}");
}

#[test]
fn a_sample_is_part_of_the_corpus_and_keeps_neighbours() {
    let dir = TempDir::new().unwrap();
    let corpus = Corpus::generate(&CorpusOptions {
        families: 1_000,
        versions: 4,
        ..CorpusOptions::default()
    });
    let path = write(
        dir.path(),
        "synthetic",
        &SinkOptions::default(),
        corpus.iter(),
    );
    let wanted = corpus.raw_bytes() / 4;
    let sample = Corpus::load_prefix(&path, wanted).unwrap();
    assert!(sample.raw_bytes().abs_diff(wanted) <= wanted / 16);
    assert_ne!(sample.id().sha256, corpus.id().sha256);

    // All four versions of each of its names are there.
    let all: std::collections::HashMap<_, _> = corpus.iter().collect();
    let mut versions = std::collections::BTreeMap::new();
    for (key, value) in sample.iter() {
        assert_eq!(all.get(key), Some(&value));
        let name = PpcKey::decode(key).unwrap().name().clone();
        *versions.entry(name).or_insert(0) += 1;
    }
    assert!(versions.values().all(|count| *count == 4), "{versions:?}");
    // Not the first of them only.
    let last = corpus.len() * 3 / 4;
    assert!(sample.key(sample.len() - 1) > corpus.key(last));

    let whole = Corpus::load_prefix(&path, u64::MAX).unwrap();
    assert_eq!(whole, corpus);
}
