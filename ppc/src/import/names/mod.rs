//! Names for contents, from lists beside a dataset: CSV files with a SWHID and a file name in each
//! row, such as those of Boffa et al.'s archives, whose members are named by hash, or of Software
//! Heritage's popular contents.
//!
//! A list may have tens of millions of rows, so they are kept in a store of the engine in a
//! temporary directory, not in memory:
//!
//! ```text
//! sha1_git (20 bytes) · not(occurrences) (u64) · row (u64)  ->  name          big endian
//! ```
//!
//! The first key of a content is that of its most frequent name or, where the list does not count,
//! of its first one. The directory goes when [`Names`] is dropped; what a killed process left goes
//! when names are next read with the same [`NamesOptions::directory`].

mod row;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ppc_engine::{
    BulkLoader, BulkOptions, BulkPhase, BulkProgress, Db, DbOptions, IterOptions, KeyRange,
    Keyspace, KeyspaceOptions, ReadMode,
};

use crate::hash::Sha1Git;
use crate::progress::{Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::source::Progress as SourceProgress;
use crate::{Error, ErrorKind, Result};

use row::{Row, Rows};

const KEYSPACE: &str = "names";
/// How the temporary directories are called, before their random part.
const DIRECTORY_PREFIX: &str = ".ppc-names-";
/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 4096;
/// Memory of the store beside the loader's: nothing is written to it otherwise.
const MEMTABLE_BYTES: usize = 1 << 20;

/// How to read lists of names.
#[derive(Debug, Clone)]
pub struct NamesOptions {
    /// Where the temporary directory is made. It needs about twice the bytes of hashes and names.
    pub directory: PathBuf,
    /// Bytes of memory for sorting. At least 1 MiB.
    pub memory_bytes: usize,
    /// Bytes of memory for looking names up.
    pub cache_bytes: usize,
    /// Threads that compress.
    pub threads: usize,
}

/// Names by the hash of their content. May be asked from any thread.
pub struct Names {
    // Declared, and so dropped, before the directory that it lies in.
    keyspace: Keyspace,
    _db: Db,
    directory: tempfile::TempDir,
    rows: u64,
    bad_rows: u64,
}

impl Names {
    /// Reads the CSV files at `paths`, in this order; plain, or compressed with gzip, zstd, xz or
    /// bzip2.
    ///
    /// The first line of each is a header. Needed are the columns `swhid`, and `filename` or
    /// `filepath`; where a row has both, `filename` counts. A column `occurrences`, `filename_occurrences`
    /// or `count` says how frequent the name is. Others are ignored. Rows that make no sense are
    /// reported to the observer, with file and row, and left out.
    pub fn read(
        paths: &[PathBuf],
        options: &NamesOptions,
        observer: &dyn Observer,
    ) -> Result<Self> {
        // A wrong file is found before any is read.
        let mut total_bytes = 0;
        for path in paths {
            total_bytes += Rows::open(path, &SourceProgress::new())?.total_bytes();
        }
        sweep(&options.directory);
        let directory = tempfile::Builder::new()
            .prefix(DIRECTORY_PREFIX)
            .tempdir_in(&options.directory)
            .map_err(|error| {
                let path = options.directory.join(DIRECTORY_PREFIX);
                Error::io("create", &path, error)
            })?;
        let db = Db::open(directory.path(), db_options(options))?;
        let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions::default())?;
        let mut bulk = BulkOptions::default();
        bulk.memory_bytes = options.memory_bytes;
        let cancel = bulk.cancel.clone();
        let mut reading = Reading {
            keyspace: &keyspace,
            loader: db.bulk_loader(bulk)?,
            observer,
            progress: SourceProgress::new(),
            total_bytes,
            rows: 0,
            bad_rows: 0,
        };
        for path in paths {
            reading.read(path)?;
        }
        let Reading {
            loader,
            rows,
            bad_rows,
            ..
        } = reading;
        let finished = loader.finish(&mut |done: BulkProgress| {
            let phase = match done.phase {
                BulkPhase::Merge => Phase::Merging,
                _ => Phase::SortingNames,
            };
            let mut progress = Progress::start(phase, Some(done.raw_bytes_total));
            progress.files = rows;
            progress.bytes = done.raw_bytes;
            observer.progress(&progress);
            if observer.wish() != Wish::GoOn {
                cancel.cancel();
            }
        });
        match finished {
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(cancelled()),
            finished => finished?,
        };
        Ok(Self {
            keyspace,
            _db: db,
            directory,
            rows,
            bad_rows,
        })
    }

    /// The most frequent name of the content, or its first where frequencies are equal or unknown.
    pub fn get(&self, hash: Sha1Git) -> Result<Option<Bytes>> {
        let range = KeyRange::prefix(hash.as_bytes());
        let mut entries = self.keyspace.iter(range, IterOptions::default())?;
        Ok(entries.next().transpose()?.map(|(_, name)| name))
    }

    /// Rows with a name.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that were left out.
    #[must_use]
    pub fn bad_rows(&self) -> u64 {
        self.bad_rows
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names")
            .field("directory", &self.directory.path())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

fn db_options(options: &NamesOptions) -> DbOptions {
    let mut db = DbOptions::default();
    db.cache_bytes = options.cache_bytes;
    db.memtable_bytes = MEMTABLE_BYTES;
    db.compression_threads = options.threads;
    // Mapped tables would count as memory of the process.
    db.read_mode = ReadMode::Pread;
    db
}

/// Lists on their way into the store.
struct Reading<'a> {
    keyspace: &'a Keyspace,
    loader: BulkLoader,
    observer: &'a dyn Observer,
    /// Bytes of all files so far.
    progress: SourceProgress,
    total_bytes: u64,
    rows: u64,
    bad_rows: u64,
}

impl Reading<'_> {
    fn read(&mut self, path: &Path) -> Result<()> {
        let mut rows = Rows::open(path, &self.progress)?;
        while let Some(row) = rows.next()? {
            match row {
                Row::Name {
                    hash,
                    occurrences,
                    name,
                } => {
                    let mut key = Vec::with_capacity(Sha1Git::BYTES + 16);
                    key.extend_from_slice(hash.as_bytes());
                    key.extend_from_slice(&(!occurrences).to_be_bytes());
                    key.extend_from_slice(&self.rows.to_be_bytes());
                    self.rows += 1;
                    self.loader.put(self.keyspace, &key, name)?;
                }
                Row::Bad(message) => {
                    self.bad_rows += 1;
                    let problem = Problem::new(ProblemKind::BadNameRow, rows.place(), message);
                    self.observer.problem(&problem);
                }
            }
            if (self.rows + self.bad_rows).is_multiple_of(PROGRESS_ROWS) {
                self.report()?;
            }
        }
        self.report()
    }

    fn report(&self) -> Result<()> {
        let mut progress = Progress::start(Phase::ReadingNames, Some(self.total_bytes));
        progress.files = self.rows + self.bad_rows;
        progress.bytes = self.progress.read_bytes();
        self.observer.progress(&progress);
        match self.observer.wish() {
            Wish::GoOn => Ok(()),
            Wish::Finish | Wish::Abandon => Err(cancelled()),
        }
    }
}

fn cancelled() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "stopped while reading names, before anything was imported",
    )
}

/// Whether a file of this name in a walked directory is such a directory of names.
pub(crate) fn is_scratch(name: &OsStr) -> bool {
    name.as_encoded_bytes()
        .starts_with(DIRECTORY_PREFIX.as_bytes())
}

/// Removes what killed processes left. Whatever cannot be removed is left to the next sweep.
fn sweep(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        if is_scratch(&entry.file_name()) && is_abandoned(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a directory holds names that no process has open.
fn is_abandoned(directory: &Path) -> bool {
    let mut options = DbOptions::default();
    options.create_if_missing = false;
    options.auto_compaction = false;
    let db = Db::open(directory, options);
    db.is_ok_and(|db| db.keyspace_names().iter().all(|name| name == KEYSPACE))
}
