//! RocksDB, set as in the paper's section V-C: mapped reads and writes, large write buffers,
//! adaptive mutexes, several compaction threads, filters optimised for hits, a bound on the log.
//!
//! Where the paper says nothing, RocksDB's own defaults hold, with three exceptions: four write
//! buffers instead of two, so that writers do not wait for one flush; a ten-bit Bloom filter,
//! without which `optimize_filters_for_hits` means nothing; and a short info log, which would
//! otherwise count as stored bytes.
//!
//! A build by puts writes batches through the log, then flushes, compacts the whole range and
//! waits until no compaction is left. Compacting moves tables that do not overlap instead of
//! rewriting them, so sorted input is compressed once and shuffled input is merged. A build of
//! sorted tables writes disjoint ranges on all threads and has RocksDB adopt the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ::rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    DEFAULT_COLUMN_FAMILY_NAME, IngestExternalFileOptions, LogLevel, Options, ReadOptions,
    SstFileWriter, WaitForCompactOptions, WriteBatch,
};
use parking_lot::Mutex;
use ppc_store::{Error, Result};

use super::{
    Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Update, Wanted, foreign,
};
use crate::corpus::Corpus;
use crate::results::Load;

/// Entries and bytes of one batch of puts.
const BATCH_ENTRIES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

const WRITE_BUFFERS_MAX: i32 = 4;
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// Uncompressed bytes of one table of a sorted build, as our bulk loader cuts them.
const SORTED_TABLE_RAW_BYTES: u64 = 256 << 20;

/// Bytes of training data for each byte of dictionary, as zstd and RocksDB advise.
const DICTIONARY_SAMPLE_FACTOR: u32 = 100;

/// RocksDB.
pub(super) struct RocksDb;

fn failed(action: &str) -> impl FnOnce(::rocksdb::Error) -> Error + '_ {
    move |error| foreign("rocksdb", action, error)
}

fn compression(codec: Codec) -> Option<(DBCompressionType, i32)> {
    match codec {
        Codec::None => Some((DBCompressionType::None, 0)),
        Codec::Zstd(level) => Some((DBCompressionType::Zstd, level)),
        Codec::Zlib(level) => Some((DBCompressionType::Zlib, level)),
        Codec::Snappy => Some((DBCompressionType::Snappy, 0)),
        Codec::Lz4 => None,
    }
}

fn options(spec: &StoreSpec, resources: &Resources) -> Result<Options> {
    let (kind, level) = compression(spec.codec)
        .ok_or_else(|| Error::invalid_input(format!("rocksdb cannot be built as {spec}")))?;
    let mut table = BlockBasedOptions::default();
    table.set_block_size(spec.block_bytes as usize);
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    match usize::try_from(spec.cache_bytes) {
        Ok(0) => table.disable_cache(),
        Ok(bytes) => table.set_block_cache(&Cache::new_lru_cache(bytes)),
        Err(_) => return Err(Error::invalid_input("the cache exceeds the address space")),
    }
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(kind);
    options.set_compression_options(-14, level, 0, dictionary_bytes(spec));
    options.set_zstd_max_train_bytes(dictionary_bytes(spec) * DICTIONARY_SAMPLE_FACTOR as i32);
    options.set_allow_mmap_reads(true);
    options.set_allow_mmap_writes(true);
    options.set_use_adaptive_mutex(true);
    options.set_optimize_filters_for_hits(true);
    let threads = i32::try_from(resources.threads).unwrap_or(i32::MAX);
    options.increase_parallelism(threads);
    options.set_max_subcompactions(resources.threads as u32);
    let buffer = resources.write_buffer_bytes;
    options.set_write_buffer_size(usize::try_from(buffer).unwrap_or(usize::MAX));
    options.set_max_write_buffer_number(WRITE_BUFFERS_MAX);
    options.set_max_total_wal_size(buffer.saturating_mul(WRITE_BUFFERS_MAX as u64));
    options.set_log_level(LogLevel::Error);
    options.set_keep_log_file_num(1);
    Ok(options)
}

/// Opens the store with its column family named, which batched multi-gets ask for.
fn open(options: &Options, dir: &Path) -> Result<DB> {
    let family = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
    DB::open_cf_descriptors(options, dir, [family]).map_err(failed("open a store"))
}

fn dictionary_bytes(spec: &StoreSpec) -> i32 {
    i32::try_from(spec.dictionary_bytes).unwrap_or(i32::MAX)
}

fn put_all(db: &DB, input: Input<'_>) -> Result<()> {
    let mut batch = WriteBatch::default();
    for (key, value) in input.entries() {
        batch.put(key, value);
        if batch.len() >= BATCH_ENTRIES || batch.size_in_bytes() >= BATCH_BYTES {
            db.write(std::mem::take(&mut batch))
                .map_err(failed("write a batch"))?;
        }
    }
    db.write(batch).map_err(failed("write a batch"))?;
    db.flush().map_err(failed("flush"))?;
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let mut wait = WaitForCompactOptions::default();
    wait.set_flush(true);
    db.wait_for_compact(&wait).map_err(failed("compact"))
}

/// Cuts the corpus into ranges of ordinals of about equal bytes: enough for all threads, and none
/// much longer than a table.
fn ranges(corpus: &Corpus, threads: usize) -> Vec<std::ops::Range<usize>> {
    let tables = corpus.raw_bytes().div_ceil(SORTED_TABLE_RAW_BYTES).max(1);
    let tables = tables.next_multiple_of(threads as u64);
    let bytes_each = corpus.raw_bytes().div_ceil(tables).max(1);
    let mut ranges = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for ordinal in 0..corpus.len() {
        bytes += corpus.value(ordinal).len() as u64;
        if bytes >= bytes_each {
            ranges.push(start..ordinal + 1);
            (start, bytes) = (ordinal + 1, 0);
        }
    }
    if start < corpus.len() {
        ranges.push(start..corpus.len());
    }
    ranges
}

fn write_table(
    options: &Options,
    corpus: &Corpus,
    range: std::ops::Range<usize>,
    path: &Path,
) -> Result<()> {
    let mut writer = SstFileWriter::create(options);
    writer.open(path).map_err(failed("create a table"))?;
    for ordinal in range {
        let put = writer.put(corpus.key(ordinal), corpus.value(ordinal));
        put.map_err(failed("write a table"))?;
    }
    writer.finish().map_err(failed("finish a table"))
}

fn ingest_sorted(
    db: &DB,
    options: &Options,
    corpus: &Corpus,
    threads: usize,
    dir: &Path,
) -> Result<()> {
    let ranges = ranges(corpus, threads);
    let path = |index: usize| -> PathBuf { dir.join(format!("sorted-{index}.tmp")) };
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(ranges.len()) {
            scope.spawn(|| {
                while let Some((index, range)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    ranges.get(index).map(|range| (index, range.clone()))
                } {
                    if let Err(error) = write_table(options, corpus, range, &path(index)) {
                        failure.lock().get_or_insert(error);
                        return;
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    let mut ingest = IngestExternalFileOptions::default();
    ingest.set_move_files(true);
    let paths = (0..ranges.len()).map(path).collect();
    db.ingest_external_file_opts(&ingest, paths)
        .map_err(failed("adopt sorted tables"))?;
    db.wait_for_compact(&WaitForCompactOptions::default())
        .map_err(failed("compact"))
}

impl Peer for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn lacks(&self) -> &'static str {
        "no bulk load of unsorted input"
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        let dictionary = spec.dictionary_bytes == 0 || matches!(spec.codec, Codec::Zstd(_));
        compression(spec.codec).is_some()
            && dictionary
            && spec.layout == "blocks"
            && spec.load != Load::Shuffled
    }

    fn options(&self, spec: &StoreSpec, resources: &Resources) -> BTreeMap<String, String> {
        let named = |name: &str, value: String| (name.to_owned(), value);
        let mut options = BTreeMap::from([
            named("allow_mmap_reads", "true".into()),
            named("allow_mmap_writes", "true".into()),
            named("use_adaptive_mutex", "true".into()),
            named("optimize_filters_for_hits", "true".into()),
            named("bloom_bits_per_key", BLOOM_BITS_PER_KEY.to_string()),
            named("background_threads", resources.threads.to_string()),
        ]);
        if matches!(spec.load, Load::Puts | Load::ShuffledPuts) {
            let buffer = resources.write_buffer_bytes;
            let wal = buffer.saturating_mul(WRITE_BUFFERS_MAX as u64);
            options.extend([
                named("write_buffer_bytes", buffer.to_string()),
                named("write_buffers_max", WRITE_BUFFERS_MAX.to_string()),
                named("total_wal_bytes_max", wal.to_string()),
                named("batch_bytes_max", BATCH_BYTES.to_string()),
            ]);
        }
        options
    }

    fn build(
        &self,
        spec: &StoreSpec,
        input: Input<'_>,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Built> {
        let options = options(spec, resources)?;
        let db = open(&options, dir)?;
        match spec.load {
            Load::Puts | Load::ShuffledPuts => put_all(&db, input)?,
            Load::Sorted | Load::Shuffled => {
                ingest_sorted(&db, &options, input.corpus, resources.threads, dir)?;
            }
        }
        Ok(Built::default())
    }

    fn open<'a>(
        &self,
        spec: &StoreSpec,
        _corpus: &'a Corpus,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        let db = open(&options(spec, resources)?, dir)?;
        Ok(Box::new(Open { db }))
    }
}

struct Open {
    db: DB,
}

impl Open {
    fn family(&self) -> Result<&ColumnFamily> {
        let family = self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        family.ok_or_else(|| Error::corruption("rocksdb has no default column family"))
    }
}

impl Store for Open {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(DbReader {
            store: self,
            options: ReadOptions::default(),
        })
    }

    fn update(&self, update: Update<'_>) -> Result<()> {
        match update {
            Update::Put(key, value) => self.db.put(key, value).map_err(failed("put")),
            Update::Delete(key) => self.db.delete(key).map_err(failed("delete")),
        }
    }
}

struct DbReader<'a> {
    store: &'a Open,
    options: ReadOptions,
}

impl Reader for DbReader<'_> {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let value = self.store.db.get_pinned_opt(wanted.key, &self.options);
        if let Some(value) = value.map_err(failed("get"))? {
            found(&value);
        }
        Ok(())
    }

    fn multi_get(
        &mut self,
        wanted: &[Wanted<'_>],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let family = self.store.family()?;
        let keys = wanted.iter().map(|wanted| wanted.key);
        let db = &self.store.db;
        let values = db.batched_multi_get_cf_opt(family, keys, false, &self.options);
        for (place, value) in values.into_iter().enumerate() {
            if let Some(value) = value.map_err(failed("get"))? {
                found(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iterator = self.store.db.raw_iterator();
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            found(key, value);
            iterator.next();
        }
        iterator.status().map_err(failed("scan"))
    }
}
