//! Measures what other table options would make of a keyspace, on a sample of it.
//!
//! The sample is made of stretches of neighbouring keys, spread over the keyspace: what compresses
//! well together stays together. Each combination of options writes it to a table in memory, by the
//! same writer as any table, and reads it back, on the calling thread alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::cancel::CancelToken;
use crate::codec::CompressionPool;
use crate::db::{IterOptions, Keyspace};
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::options::{Compression, Layout, ReadMode, TableOptions};
use crate::stats::{Counter, Stats};
use crate::table::{IterContext, ReadContext, TableReader, TableSummary, TableWriter, key_hash};
use crate::types::{EntryKind, KeyRange, SeqNo};
use crate::vfs::{MemVfs, Vfs};

/// Gets made of each table.
const GETS_MAX: usize = 2048;

/// Where sample starts are looked for, for each one wanted.
const CANDIDATES_PER_STRETCH: u64 = 4;

/// Options of [`Keyspace::what_if`]. Whole sets of options are measured, and every combination of
/// levels, block sizes and dictionary sizes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WhatIfOptions {
    /// What the combinations do not set. Default [`TableOptions::default`].
    pub table: TableOptions,
    /// zstd levels. Default 3, 9 and 19.
    pub levels: Vec<i32>,
    /// Block sizes. Default 64 KiB, 256 KiB and 1 MiB.
    pub block_bytes: Vec<u32>,
    /// Whole sets of options, such as the profiles; they come first. Default none.
    ///
    /// What is alike must lie in the sample to help: the more of the data it has, the more it shows of
    /// what clusters save.
    pub tables: Vec<TableOptions>,
    /// Dictionary sizes. Default 0: none.
    pub dictionary_bytes: Vec<u32>,
    /// Raw bytes of the sample. It lies in memory, and its compressed form beside it. Default 64 MiB.
    pub sample_bytes: u64,
    /// Raw bytes of each stretch of neighbours; should be many times the largest block. Default
    /// 8 MiB.
    pub stretch_bytes: u64,
    /// Stops the measurement.
    pub cancel: CancelToken,
}

impl Default for WhatIfOptions {
    fn default() -> Self {
        Self {
            table: TableOptions::default(),
            levels: vec![3, 9, 19],
            block_bytes: vec![64 << 10, 256 << 10, 1 << 20],
            tables: Vec::new(),
            dictionary_bytes: vec![0],
            sample_bytes: 64 << 20,
            stretch_bytes: 8 << 20,
            cancel: CancelToken::new(),
        }
    }
}

/// What one combination came to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WhatIfResult {
    /// The combination.
    pub table: TableOptions,
    /// Raw bytes of the sample: keys and values.
    pub raw_bytes: u64,
    /// Bytes of the table that it became.
    pub stored_bytes: u64,
    /// Processor time of one thread to write it.
    pub encode_time: Duration,
    /// Processor time of one thread to read it from end to end.
    pub decode_time: Duration,
    /// Processor time of one thread for single gets of keys all over the sample, without a cache.
    pub get_time: Duration,
    /// Bytes that they decoded.
    pub get_decoded_bytes: u64,
    /// Bytes of values that they returned.
    pub get_returned_bytes: u64,
}

impl WhatIfResult {
    /// Stored bytes for each raw byte.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.stored_bytes as f64 / self.raw_bytes.max(1) as f64
    }

    /// Raw MiB written in a second of one thread.
    #[must_use]
    pub fn encode_mib_per_second(&self) -> f64 {
        mib_per_second(self.raw_bytes, self.encode_time)
    }

    /// Raw MiB read in a second of one thread.
    #[must_use]
    pub fn decode_mib_per_second(&self) -> f64 {
        mib_per_second(self.raw_bytes, self.decode_time)
    }

    /// MiB of values that single gets return in a second of one thread, bases decoded too.
    #[must_use]
    pub fn get_mib_per_second(&self) -> f64 {
        mib_per_second(self.get_returned_bytes, self.get_time)
    }

    /// Bytes decoded for each byte that a single get returns.
    #[must_use]
    pub fn get_amplification(&self) -> f64 {
        self.get_decoded_bytes as f64 / self.get_returned_bytes.max(1) as f64
    }
}

fn mib_per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / time.as_secs_f64().max(1e-9)
}

impl Keyspace {
    /// Writes a sample of the keyspace with each combination of options, and tells size and speed.
    /// The store is only read. `progress` receives how many combinations are done, and how many
    /// there are. Fails if the keyspace is empty.
    pub fn what_if(
        &self,
        options: &WhatIfOptions,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<WhatIfResult>> {
        let combinations = combinations(options)?;
        let stretches =
            self.sample(options.sample_bytes, options.stretch_bytes, &options.cancel)?;
        let sample = stretches.concat();
        if sample.is_empty() {
            return Err(
                Error::invalid_input("there is nothing to measure").in_keyspace(self.name())
            );
        }
        let mut results = Vec::with_capacity(combinations.len());
        for table in &combinations {
            progress(results.len(), combinations.len());
            results.push(measure(&sample, table, &options.cancel)?);
        }
        progress(results.len(), combinations.len());
        Ok(results)
    }

    /// Keys and values of about `sample_bytes` raw bytes, never more: stretches of neighbours, each
    /// of about `stretch_bytes`, evenly spread over the keyspace. In key order; what compresses well
    /// together stays together. A value longer than a stretch is left out.
    ///
    /// The sample owns its memory. Reads the stretches and little else.
    pub fn sample(
        &self,
        sample_bytes: u64,
        stretch_bytes: u64,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<(Bytes, Bytes)>>> {
        let stretch_bytes = stretch_bytes.clamp(1, sample_bytes.max(1));
        let count = (sample_bytes / stretch_bytes).max(1);
        let starts = self.stretch_starts(count)?;
        // Where there are fewer places to begin at than wanted, stretches are longer.
        let share = sample_bytes / (starts.len() as u64).max(1);
        let stretch_bytes = stretch_bytes.max(share);
        let mut stretches = Vec::with_capacity(starts.len());
        for (index, start) in starts.iter().enumerate() {
            let range = match starts.get(index + 1) {
                Some(next) => KeyRange::new(start.as_slice()..next.as_slice()),
                None => KeyRange::new(start.as_slice()..),
            };
            let mut stretch = Vec::new();
            let mut taken = 0;
            for item in self.iter(range, IterOptions::default())? {
                cancel.check("the measurement")?;
                let (key, value) = item?;
                let raw_bytes = (key.len() + value.len()) as u64;
                if raw_bytes > stretch_bytes {
                    continue;
                }
                if taken + raw_bytes > stretch_bytes {
                    break;
                }
                // A value may share a whole frame's memory.
                stretch.push((key, Bytes::copy_from_slice(&value)));
                taken += raw_bytes;
            }
            if !stretch.is_empty() {
                stretches.push(stretch);
            }
        }
        Ok(stretches)
    }

    /// Up to `count` keys that are spread over the keyspace by bytes; the first is the least key.
    fn stretch_starts(&self, count: u64) -> Result<Vec<Vec<u8>>> {
        let db = self.db().inner();
        let version = Arc::clone(&self.space().view().version);
        let total: u64 = version.tables().map(|(_, table)| table.raw_bytes).sum();
        let wanted = u128::from(count.saturating_mul(CANDIDATES_PER_STRETCH));
        let mut keys = vec![Vec::new()];
        for (_, table) in version.tables() {
            let share = wanted * u128::from(table.raw_bytes) / u128::from(total.max(1));
            let share = usize::try_from(share).unwrap_or(usize::MAX);
            keys.push(table.smallest.clone());
            let context = db.iter_context(false);
            keys.extend(db.table(table)?.sample_keys_by_bytes(share, &context)?);
        }
        keys.sort_unstable();
        keys.dedup();
        let count = usize::try_from(count).unwrap_or(usize::MAX).max(1);
        let step = keys.len().div_ceil(count);
        Ok(keys.into_iter().step_by(step.max(1)).collect())
    }
}

fn combinations(options: &WhatIfOptions) -> Result<Vec<TableOptions>> {
    let mut combinations = options.tables.clone();
    for &dictionary_bytes in &options.dictionary_bytes {
        for &bytes in &options.block_bytes {
            for &level in &options.levels {
                combinations.push(TableOptions {
                    layout: Layout::Blocks { bytes },
                    compression: Compression::Zstd { level },
                    dictionary_bytes,
                    ..options.table.clone()
                });
            }
        }
    }
    combinations.iter().try_for_each(TableOptions::validate)?;
    Ok(combinations)
}

fn measure(
    sample: &[(Bytes, Bytes)],
    options: &TableOptions,
    cancel: &CancelToken,
) -> Result<WhatIfResult> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let path = Path::new("/sample.table");
    let begun = thread_time();
    let summary = encode(&vfs, path, sample, options, cancel)?;
    let encode_time = thread_time().saturating_sub(begun);
    let reader = TableReader::open(&*vfs, path, ReadMode::Pread, None, SeqNo::ZERO)?;
    let begun = thread_time();
    scan(&reader, cancel)?;
    let decode_time = thread_time().saturating_sub(begun);
    let begun = thread_time();
    let (get_decoded_bytes, get_returned_bytes) = gets(&reader, sample)?;
    let get_time = thread_time().saturating_sub(begun);
    Ok(WhatIfResult {
        table: options.clone(),
        raw_bytes: summary.raw_bytes,
        stored_bytes: summary.stored_bytes,
        encode_time,
        decode_time,
        get_time,
        get_decoded_bytes,
        get_returned_bytes,
    })
}

fn encode(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    sample: &[(Bytes, Bytes)],
    options: &TableOptions,
    cancel: &CancelToken,
) -> Result<TableSummary> {
    // Of one thread: the caller's.
    let pool = CompressionPool::new(1);
    let mut writer = TableWriter::create(vfs, path.to_path_buf(), options, &pool)?;
    for (key, value) in sample {
        cancel.check("the measurement")?;
        writer.add(key, SeqNo::ZERO, EntryKind::Put, value.clone())?;
    }
    writer.finish()
}

fn scan(reader: &Arc<TableReader>, cancel: &CancelToken) -> Result<()> {
    let mut cursor = reader.iter(IterContext {
        cache: None,
        stats: Arc::new(Stats::new()),
        fill_cache: false,
    });
    cursor.seek_to_first()?;
    while cursor.valid() {
        cancel.check("the measurement")?;
        cursor.value()?;
        cursor.next()?;
    }
    Ok(())
}

/// Bytes decoded and bytes returned by gets of keys all over the sample.
fn gets(reader: &TableReader, sample: &[(Bytes, Bytes)]) -> Result<(u64, u64)> {
    let stats = Stats::new();
    let context = ReadContext {
        cache: None,
        stats: &stats,
        trace: None,
        fill_cache: false,
        held: None,
        for_get: false,
    };
    let mut returned = 0;
    let step = sample.len().div_ceil(GETS_MAX).max(1);
    for (key, _) in sample.iter().step_by(step) {
        if let Some(found) = reader.find(key, key_hash(key), SeqNo::MAX, &context)? {
            returned += reader.read(&found.place, &context)?.len() as u64;
        }
    }
    Ok((stats.get(Counter::FrameBytesDecoded), returned))
}

/// Processor time of this thread; of the clock, where the system does not tell.
fn thread_time() -> Duration {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        Duration::new(seconds, nanos)
    }
    #[cfg(not(unix))]
    {
        use std::time::{SystemTime, UNIX_EPOCH};
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::build_store;

    #[test]
    fn larger_blocks_compress_better_and_cost_more_to_get_from() {
        let vfs = MemVfs::new();
        let db = build_store(&vfs);
        let files = db.existing_keyspace("files").unwrap().unwrap();
        let options = WhatIfOptions {
            levels: vec![1, 5],
            block_bytes: vec![1024, 64 << 10],
            stretch_bytes: 16 << 10,
            ..WhatIfOptions::default()
        };
        let options = WhatIfOptions {
            tables: vec![TableOptions::balanced()],
            ..options
        };
        let mut last = (0, 0);
        let progress = &mut |done, total| last = (done, total);
        let results = files.what_if(&options, progress).unwrap();
        assert_eq!((results.len(), last), (5, (5, 5)));
        assert_eq!(results[0].table, TableOptions::balanced());
        assert!(
            results
                .iter()
                .all(|result| result.get_time > Duration::ZERO)
        );
        let (small, large) = (&results[1], &results[3]);
        assert_eq!(large.table.layout, Layout::Blocks { bytes: 64 << 10 });
        assert!(large.ratio() < small.ratio());
        assert!(large.get_amplification() > small.get_amplification());
        assert!(small.get_amplification() >= 1.0);
        assert!(small.encode_time > Duration::ZERO && small.decode_time > Duration::ZERO);
    }

    /// It was spread by entries: a tenth of the bytes gave half of the sample, where small values
    /// stand together, and their ratio was taken for that of all.
    #[test]
    fn a_sample_is_spread_by_bytes() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let options = crate::options::DbOptions {
            vfs,
            ..Default::default()
        };
        let db = crate::db::Db::open("/db", options).unwrap();
        let table = TableOptions {
            key_block_bytes: 256,
            ..TableOptions::default()
        };
        let files = crate::options::KeyspaceOptions::uniform(table);
        let files = db.keyspace("files", files).unwrap();
        let mut loader = db.bulk_loader(Default::default()).unwrap();
        for number in 0..4000u32 {
            let bytes = if number < 2000 { 200 } else { 1800 };
            let key = format!("{number:06}");
            let value = Bytes::from(vec![b'a'; bytes]);
            loader.put(&files, key, value).unwrap();
        }
        loader.finish(&mut |_| {}).unwrap();
        let sample = files.sample(200_000, 10_000, &CancelToken::new()).unwrap();
        let small = sample.iter().filter(|stretch| stretch[0].1.len() == 200);
        let small = small.count();
        assert!((1..=4).contains(&small), "{small} of {}", sample.len());
        assert!((16..=20).contains(&sample.len()), "{}", sample.len());
    }

    #[test]
    fn a_sample_keeps_within_its_size_and_an_empty_keyspace_has_none() {
        let vfs = MemVfs::new();
        let db = build_store(&vfs);
        let files = db.existing_keyspace("files").unwrap().unwrap();
        let cancel = CancelToken::new();
        let stretches = files.sample(20_000, 5_000, &cancel).unwrap();
        let sample = stretches.concat();
        let bytes: usize = sample
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        assert!((10_000..=20_000).contains(&bytes), "{bytes}");
        assert!(sample.is_sorted());
        // Every stretch is a part of the keyspace without a gap, and they lie apart.
        let all: Vec<(Bytes, Bytes)> = files
            .iter(KeyRange::all(), IterOptions::default())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(stretches.len() > 1);
        for stretch in &stretches {
            let at = all.iter().position(|entry| *entry == stretch[0]).unwrap();
            assert_eq!(*stretch, all[at..at + stretch.len()]);
        }
        // Shorter than any entry.
        assert!(files.sample(100, 100, &cancel).unwrap().is_empty());
        let empty = db.keyspace("empty", Default::default()).unwrap();
        assert!(
            empty
                .what_if(&WhatIfOptions::default(), &mut |_, _| {})
                .is_err()
        );
    }
}
