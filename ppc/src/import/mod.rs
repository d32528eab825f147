//! Import: from any number of sources into an archive.
//!
//! ```text
//! reader ──batches──▶ hashing workers ──batches──▶ loader (in reading order) ──▶ bulk loader
//!    ▲                                                 │
//!    └────────────── bytes given back ◀────────────────┘
//! ```
//!
//! Invariants:
//! 1. The loader takes items in the order they were read, whichever worker was faster: which name a
//!    repeated content gets does not depend on threads.
//! 2. What is committed is a prefix of what was read, less what was left out. So an import that was
//!    cut off at any moment and is run again skips what it committed, stores the rest under the
//!    same names, and ends as if never cut off.
//! 3. Bytes in flight, in the bulk loader and in the set of hashes stay within shares of one
//!    budget, [`ImportOptions::memory_bytes`].
//!
//! A content that comes under several names is stored under the first, or under the one that a list
//! of names has for it: see [`names`].
//!
//! Every hash is recomputed. A stated hash that differs is reported and counted; the content is
//! stored under its true hash, or left out with [`ImportOptions::reject_mismatches`].

mod loader;
pub mod names;
mod reader;
mod report;
mod seen;
mod sources;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crossbeam_channel::Receiver;
use ppc_engine::{Counter, DbOptions, ReadMode};

use crate::archive::Archive;
use crate::budget::Budget;
use crate::progress::Observer;
use crate::{Error, Result};

pub use report::{ImportReport, peak_memory_bytes};
pub use sources::Sources;

use loader::Loader;
use worker::HashedBatch;

/// Smallest [`ImportOptions::memory_bytes`].
pub const MEMORY_BYTES_MIN: u64 = 256 << 20;

/// How to import.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Resident memory of the process to stay within. At least [`MEMORY_BYTES_MIN`]; default 1 GiB.
    /// One file larger than an eighth of it may exceed it by its own size.
    pub memory_bytes: u64,
    /// Threads that hash. Default: the machine's cores.
    pub threads: usize,
    /// Leave files out whose stated hash is not their content's.
    pub reject_mismatches: bool,
    /// Raw bytes after which what was read is committed. What was read since the last commit is
    /// lost when the process dies; each commit makes tables that overlap the earlier ones, which
    /// compaction then merges. Default 16 GiB.
    pub commit_bytes: u64,
    /// Names that contents get instead of those they have in the sources. None by default.
    pub names: Option<Arc<names::Names>>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            reject_mismatches: false,
            commit_bytes: 16 << 30,
            names: None,
        }
    }
}

impl ImportOptions {
    /// Sets what an archive must be opened with for [`Self::memory_bytes`] to hold: a small cache,
    /// since an import reads indexes only, small memtables, and reads that leave no table mapped
    /// into the process.
    pub fn fit(&self, db: &mut DbOptions) {
        let share = usize::try_from(self.memory_bytes / 100).unwrap_or(usize::MAX);
        db.cache_bytes = db.cache_bytes.min(share * 2);
        db.memtable_bytes = db.memtable_bytes.min(share * 4);
        db.read_mode = ReadMode::Pread;
        db.compression_threads = self.threads;
    }

    /// How to read lists of names within [`Self::memory_bytes`], before the import begins; the
    /// result is for [`Self::names`]. They are sorted in a temporary directory below `directory`.
    #[must_use]
    pub fn names_options(&self, directory: impl Into<std::path::PathBuf>) -> names::NamesOptions {
        names::NamesOptions {
            directory: directory.into(),
            memory_bytes: Shares::of(self.memory_bytes).loader,
            cache_bytes: usize::try_from(self.memory_bytes / 50).unwrap_or(usize::MAX),
            threads: self.threads,
        }
    }

    /// Fails on values outside the documented ranges, naming the option.
    pub fn validate(&self) -> Result<()> {
        let at_least = |name: &str, value: u64, min: u64| {
            if value >= min {
                return Ok(());
            }
            Err(Error::invalid_input(format!(
                "{name} is {value}; it must be at least {min}"
            )))
        };
        at_least("memory_bytes", self.memory_bytes, MEMORY_BYTES_MIN)?;
        at_least("threads", self.threads as u64, 1)?;
        at_least("commit_bytes", self.commit_bytes, 1)
    }
}

/// Reads `sources` in order and stores what the archive lacks.
///
/// A source that fails ends the import: every file read before is committed, those of the source
/// itself among them, then its error is returned. An error of the store ends it at the last commit.
/// Either way a second run skips what is committed and goes on. Asked by the observer to finish, it
/// commits what was read and says so in the report; asked to abandon, it fails with
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
pub fn import(
    archive: &Archive,
    sources: Sources,
    options: &ImportOptions,
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let mut report = ImportReport::default();
    import_reporting(archive, sources, options, observer, &mut report)?;
    Ok(report)
}

/// As [`import`], with an account also of an import that fails: `report` then tells what is committed.
pub fn import_reporting(
    archive: &Archive,
    sources: Sources,
    options: &ImportOptions,
    observer: &dyn Observer,
    report: &mut ImportReport,
) -> Result<()> {
    options.validate()?;
    let start = Instant::now();
    let before = Meter::read(archive);
    let context = Context {
        archive,
        options,
        observer,
        shares: Shares::of(options.memory_bytes),
        commits: &AtomicU64::new(0),
        source_bytes: &AtomicU64::new(0),
    };
    let outcome = run_threads(sources, context, report);
    let after = Meter::read(archive);
    report.elapsed = start.elapsed();
    report.stored_bytes_before = before.stored_bytes;
    report.stored_bytes_after = after.stored_bytes;
    report.written_bytes = after.written_bytes - before.written_bytes;
    report.peak_memory_bytes = peak_memory_bytes();
    outcome
}

/// What the threads of one import share.
#[derive(Clone, Copy)]
struct Context<'a> {
    archive: &'a Archive,
    options: &'a ImportOptions,
    observer: &'a dyn Observer,
    shares: Shares,
    /// Commits made so far: written by the loader, read by the workers.
    commits: &'a AtomicU64,
    /// Bytes read so far, as the sources count them: written by the reader, read by the loader.
    source_bytes: &'a AtomicU64,
}

/// Runs reader and workers beside the loader, which works on this thread.
fn run_threads(sources: Sources, context: Context<'_>, report: &mut ImportReport) -> Result<()> {
    let budget = Budget::new(context.shares.in_flight);
    let mut loader = Loader::new(context, sources.bytes_total());
    std::thread::scope(|scope| {
        // Bounded by the budget: a batch in a channel holds its permit.
        let (batch_sender, batch_receiver) = crossbeam_channel::unbounded();
        let (hashed_sender, hashed_receiver) = crossbeam_channel::unbounded();
        let reader = scope.spawn({
            let budget = &budget;
            move || reader::run(sources, context, budget, batch_sender)
        });
        for _ in 0..context.options.threads {
            let (batches, hashed) = (batch_receiver.clone(), hashed_sender.clone());
            scope.spawn(move || worker::run(context, &batches, &hashed));
        }
        drop((batch_receiver, hashed_sender));

        let loaded = load(&mut loader, &hashed_receiver);
        // Whoever still waits to hand something on learns that nobody takes it.
        drop(hashed_receiver);
        budget.close();
        let read = match reader.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let finished = loaded.and_then(|()| loader.finish(read.batch_count));
        *report = loader.into_report();
        report.is_interrupted = read.is_interrupted;
        // The loader's error comes first: it is why the reader stopped, if both failed.
        finished?;
        report.has_failed_source = read.failure.is_some();
        read.failure.map_or(Ok(()), Err)
    })
}

/// Loads batches until there are no more.
fn load(loader: &mut Loader<'_>, hashed: &Receiver<HashedBatch>) -> Result<()> {
    for batch in hashed {
        loader.take(batch)?;
    }
    Ok(())
}

/// Counters of the store that an import is measured by.
struct Meter {
    stored_bytes: u64,
    written_bytes: u64,
}

impl Meter {
    fn read(archive: &Archive) -> Self {
        let counters = archive.db().stats().counters;
        let written = [
            Counter::WalBytesWritten,
            Counter::FlushBytesWritten,
            Counter::BulkTableBytesWritten,
            Counter::CompactionBytesWritten,
        ];
        Self {
            stored_bytes: archive.stored_bytes(),
            written_bytes: written.map(|counter| counters.get(counter)).iter().sum(),
        }
    }
}

/// How [`ImportOptions::memory_bytes`] is shared out, in bytes.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// Contents between reader and loader.
    in_flight: usize,
    /// The bulk loader: its buffer, and frames being compressed.
    loader: usize,
    /// Hashes met since the last commit.
    seen: usize,
}

impl Shares {
    /// Leaves about a third to what a source decodes at once, code, stacks and the allocator.
    fn of(memory_bytes: u64) -> Self {
        let share = |percent: u64| {
            let bytes = memory_bytes / 100 * percent;
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        Self {
            in_flight: share(12),
            loader: share(44),
            seen: share(10),
        }
    }
}
