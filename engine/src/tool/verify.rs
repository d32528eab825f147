//! Checks every table of a store, open or not, and that the manifest agrees with them.
//!
//! Each table is opened anew, by positioned reads: what the store's own cache and mappings hold
//! is not asked, and a bad sector is an error here, never a signal. What is wrong with one table is
//! noted; a table that does not open is checked unit by unit all the same.
//!
//! Threads take tables from one list; progress is told under a lock, from whichever has some.

mod files;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::cancel::CancelToken;
use crate::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{TableMeta, Version};
use crate::options::ReadMode;
use crate::table::{
    Affected, TableProperties, TableReader, TableVerification, VerifyProblem, verify_unopened,
};
use crate::types::{FileNumber, SeqNo};
use crate::vfs::Vfs;

pub use files::{verify_store, verify_store_in};

/// Options of [`Db::verify`] and [`verify_store`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Check checksums and keys, but decode no values. Default false.
    pub quick: bool,
    /// Tables checked at a time. Default: the machine's cores.
    pub threads: usize,
    /// Stops the check, which then fails with [`ErrorKind::Cancelled`].
    pub cancel: CancelToken,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            quick: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cancel: CancelToken::new(),
        }
    }
}

/// How far a check has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Tables checked.
    pub tables: u64,
    /// Tables there are.
    pub tables_total: u64,
    /// Stored bytes checked.
    pub bytes: u64,
    /// Stored bytes there are.
    pub bytes_total: u64,
}

/// What a check came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Keyspaces checked.
    pub keyspaces: u64,
    /// Tables checked.
    pub tables: u64,
    /// Their stored bytes, as the manifest says.
    pub stored_bytes: u64,
    /// Units (frames, key blocks, sections) whose checksum is right.
    pub units: u64,
    /// Entries seen.
    pub entries: u64,
    /// Bytes of values decoded; none in a quick check.
    pub decoded_bytes: u64,
    /// What is wrong, by file.
    pub problems: Vec<VerifyProblem>,
    /// Finished tables that a sound manifest does not name, while no writer has the store open: left
    /// by a process that died, or by damage to the manifest that nobody noticed. Found by
    /// [`verify_store`] only.
    pub unlisted: Vec<StrayTable>,
}

/// A table that no manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrayTable {
    /// Its file.
    pub path: PathBuf,
    /// The keyspace it was written for, where it says so.
    pub keyspace: Option<String>,
    /// Its entries.
    pub entries: u64,
    /// Its bytes.
    pub stored_bytes: u64,
    /// Whether nothing is wrong with it.
    pub is_sound: bool,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Db {
    /// Checks every table of every keyspace, as they are at this moment: the checksum of every
    /// unit, that every frame decodes, the order of keys, that filters deny no key, that counts and
    /// key ranges are those that the tables' properties and the manifest say, and that no two tables
    /// of a level overlap.
    ///
    /// Reads the files, not the cache, and writes nothing: it works on a store opened read-only, and
    /// beside reads and writes. What is in memory only is not checked; flush it before. Problems do
    /// not end the check, they are listed in the report; an error means that it could not be made.
    ///
    /// ```
    /// # use ppc_engine::{Db, DbOptions, Durability, KeyspaceOptions, VerifyOptions};
    /// # fn main() -> ppc_engine::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::open(dir.path(), DbOptions::default())?;
    /// let files = db.keyspace("files", KeyspaceOptions::default())?;
    /// files.put("a", "fn main() {}", Durability::Buffered)?;
    /// db.flush()?;
    /// let report = db.verify(&VerifyOptions::default(), &mut |_| {})?;
    /// assert_eq!((report.tables, report.entries), (1, 1));
    /// assert!(report.is_sound());
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(
        &self,
        options: &VerifyOptions,
        progress: &mut (dyn FnMut(VerifyProgress) + Send),
    ) -> Result<VerifyReport> {
        let db = self.inner();
        db.check_open()?;
        // Files stay as long as a version that lists them.
        let keyspaces: Vec<(String, Arc<Version>)> = db
            .spaces()
            .iter()
            .map(|space| (space.name.clone(), Arc::clone(&space.view().version)))
            .collect();
        let mut report = VerifyReport {
            keyspaces: keyspaces.len() as u64,
            ..VerifyReport::default()
        };
        let mut jobs = Vec::new();
        for (keyspace, version) in &keyspaces {
            if let Err(error) = version.check() {
                let error = error.in_keyspace(keyspace);
                let problem = VerifyProblem::new(error, Affected::Unknown);
                report.problems.push(problem);
            }
            jobs.extend(version.tables().map(|(_, table)| Job {
                number: table.number,
                path: db.table_path(table.number),
                keyspace: Some(keyspace.clone()),
                stored_bytes: table.stored_bytes,
                is_listed: true,
                meta: Some(Arc::clone(table)),
            }));
        }
        check_tables(&**db.vfs(), jobs, report, options, progress)
    }
}

/// A table to check.
struct Job {
    number: FileNumber,
    path: PathBuf,
    keyspace: Option<String>,
    stored_bytes: u64,
    /// Whether it counts as a part of the store.
    is_listed: bool,
    /// What the manifest says of it, where it does.
    meta: Option<Arc<TableMeta>>,
}

/// Checks tables on several threads, and adds what was found to `report`.
fn check_tables(
    vfs: &dyn Vfs,
    mut jobs: Vec<Job>,
    mut report: VerifyReport,
    options: &VerifyOptions,
    progress: &mut (dyn FnMut(VerifyProgress) + Send),
) -> Result<VerifyReport> {
    // Files in the order in which they were written, as disks like it.
    jobs.sort_by_key(|job| job.number);
    let listed = || jobs.iter().filter(|job| job.is_listed);
    report.tables = listed().count() as u64;
    report.stored_bytes = listed().map(|job| job.stored_bytes).sum();
    let check = StoreCheck {
        vfs,
        options,
        jobs: &jobs,
        next: AtomicUsize::new(0),
        shared: Mutex::new(Shared {
            done: VerifyProgress {
                tables_total: jobs.len() as u64,
                bytes_total: jobs.iter().map(|job| job.stored_bytes).sum(),
                ..VerifyProgress::default()
            },
            progress,
            report,
            failure: None,
        }),
    };
    check.run()
}

struct StoreCheck<'a> {
    vfs: &'a dyn Vfs,
    options: &'a VerifyOptions,
    jobs: &'a [Job],
    /// The next job that nobody has taken.
    next: AtomicUsize,
    shared: Mutex<Shared<'a>>,
}

struct Shared<'a> {
    done: VerifyProgress,
    progress: &'a mut (dyn FnMut(VerifyProgress) + Send),
    report: VerifyReport,
    /// Why the check ends early.
    failure: Option<Error>,
}

impl StoreCheck<'_> {
    fn run(self) -> Result<VerifyReport> {
        let others = self.options.threads.min(self.jobs.len()).saturating_sub(1);
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        let mut shared = self.shared.into_inner();
        if let Some(failure) = shared.failure {
            return Err(failure);
        }
        let problems = &mut shared.report.problems;
        problems.sort_by_key(|problem| {
            let error = &problem.error;
            (error.path().map(ToOwned::to_owned), error.offset())
        });
        shared.report.unlisted.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(shared.report)
    }

    fn work(&self) {
        while let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = self.check_table(job) {
                let mut shared = self.shared.lock();
                shared.failure.get_or_insert(error);
                self.next.store(self.jobs.len(), Ordering::Relaxed);
            }
        }
    }

    /// Fails only if the whole check is to end.
    fn check_table(&self, job: &Job) -> Result<()> {
        let mut told = 0;
        let outcome = self.verify_table(job, &mut told);
        let mut shared = self.shared.lock();
        let shared = &mut *shared;
        // What lies between units, and what a damaged table did not come to.
        shared.done.bytes += job.stored_bytes.saturating_sub(told);
        shared.done.tables += 1;
        let (verification, properties) = match outcome {
            Ok(checked) => checked,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) if is_forbidden(&error) => return Err(error),
            Err(error) => {
                let mut failed = TableVerification::default();
                failed
                    .problems
                    .push(VerifyProblem::new(error, Affected::Table));
                (failed, None)
            }
        };
        if job.is_listed {
            shared.report.units += verification.units;
            shared.report.entries += verification.entries;
            shared.report.decoded_bytes += verification.decoded_bytes;
            let problems = verification.problems.into_iter();
            shared.report.problems.extend(problems.map(|problem| {
                problem.map_error(|error| {
                    let error = error.at_path(&job.path);
                    match &job.keyspace {
                        Some(keyspace) => error.in_keyspace(keyspace),
                        None => error,
                    }
                })
            }));
        } else if let Some(properties) = properties {
            shared.report.unlisted.push(StrayTable {
                path: job.path.clone(),
                keyspace: properties.keyspace.map(|owner| owner.name),
                entries: properties.entries,
                stored_bytes: job.stored_bytes,
                is_sound: verification.problems.is_empty(),
            });
        }
        (shared.progress)(shared.done);
        Ok(())
    }

    /// What is found in a table, and its properties if it can be opened.
    fn verify_table(
        &self,
        job: &Job,
        told: &mut u64,
    ) -> Result<(TableVerification, Option<TableProperties>)> {
        self.options.cancel.check("the check")?;
        let mut progress = |bytes: u64| {
            self.options.cancel.check("the check")?;
            let bytes = bytes.min(job.stored_bytes.saturating_sub(*told));
            *told += bytes;
            let mut shared = self.shared.lock();
            let shared = &mut *shared;
            shared.done.bytes += bytes;
            (shared.progress)(shared.done);
            Ok(())
        };
        let (id, base) = match &job.meta {
            Some(meta) => (Some(meta.id), meta.seq_base),
            None => (None, SeqNo::ZERO),
        };
        let opened = TableReader::open(self.vfs, &job.path, ReadMode::Pread, id, base);
        let reader = match opened {
            Ok(reader) => reader,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::corruption(
                    "a table named by the manifest is missing",
                ));
            }
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let unopened = verify_unopened(self.vfs, &job.path, id, error, &mut progress)?;
                return Ok((self.cut_short(job, unopened), None));
            }
            Err(error) => return Err(error),
        };
        let mut verification = match self.options.quick {
            true => reader.verify_checksums(&mut progress)?,
            false => reader.verify(&mut progress)?,
        };
        if let Some(meta) = &job.meta {
            let disagreement = disagreement(meta, &reader);
            let problem = disagreement.map(|error| VerifyProblem::new(error, Affected::Unknown));
            verification.problems.extend(problem);
        }
        Ok((verification, Some(reader.properties().clone())))
    }

    /// Says of a table that does not open, and is shorter than it was, that this is why.
    fn cut_short(&self, job: &Job, mut unopened: TableVerification) -> TableVerification {
        let len = self
            .vfs
            .open(&job.path, ReadMode::Pread)
            .map_or(job.stored_bytes, |file| file.len());
        if len < job.stored_bytes
            && let Some(first) = unopened.problems.first_mut()
        {
            let error = Error::corruption(format!(
                "table is cut short: {len} of {} bytes are left",
                job.stored_bytes
            ));
            *first = VerifyProblem::new(error, Affected::Table).in_bytes(len..job.stored_bytes);
        }
        unopened
    }
}

/// In what the manifest and the table disagree, if they do.
fn disagreement(meta: &TableMeta, reader: &TableReader) -> Option<Error> {
    let table = reader.summary();
    let effective = |stored: SeqNo| SeqNo(stored.0.saturating_add(meta.seq_base.0));
    let range = |smallest: &[u8], largest: &[u8], exclusive: bool, unbounded: bool| {
        (smallest.to_vec(), largest.to_vec(), exclusive, unbounded)
    };
    let differs = [
        ("length", meta.stored_bytes != table.stored_bytes),
        ("raw bytes", meta.raw_bytes != table.raw_bytes),
        ("number of entries", meta.entries != table.entries),
        ("number of deletes", meta.tombstones != table.tombstones),
        (
            "number of range tombstones",
            meta.range_tombstones != table.range_tombstones,
        ),
        (
            "number of repeated keys",
            meta.repeated_keys.is_some() && meta.repeated_keys != table.repeated_keys,
        ),
        (
            "sequence numbers",
            (meta.seq_min, meta.seq_max) != (effective(table.seq_min), effective(table.seq_max)),
        ),
        (
            "key range",
            range(
                &meta.smallest,
                &meta.largest,
                meta.largest_exclusive,
                meta.unbounded_end,
            ) != range(
                &table.smallest,
                &table.largest,
                table.largest_exclusive,
                table.unbounded_end,
            ),
        ),
    ];
    let names: Vec<&str> = differs
        .iter()
        .filter_map(|(name, differs)| differs.then_some(*name))
        .collect();
    if names.is_empty() {
        return None;
    }
    Some(Error::corruption(format!(
        "the manifest and the table disagree in {}",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests;

/// Whether a file may not be read by whoever asks: that says nothing about its bytes.
fn is_forbidden(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|source| source.kind() == std::io::ErrorKind::PermissionDenied)
}
