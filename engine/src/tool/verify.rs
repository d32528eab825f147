//! Checks every table of an open store, and that the manifest agrees with them.
//!
//! Each table is opened anew, by positioned reads: what the store's own cache and mappings hold
//! is not asked, and a bad sector is an error here, never a signal. What is wrong with one table is
//! noted and costs the check of that table at most.
//!
//! Threads take tables from one list; progress is told under a lock, from whichever has some.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::cancel::CancelToken;
use crate::db::{Db, DbInner};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{TableMeta, Version};
use crate::options::ReadMode;
use crate::table::{TableReader, TableVerification};
use crate::types::SeqNo;

/// Options of [`Db::verify`].
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
    /// What is wrong, each with keyspace, file and offset as far as they apply; by file.
    pub problems: Vec<Error>,
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
                report.problems.push(error.in_keyspace(keyspace));
            }
            jobs.extend(version.tables().map(|(_, table)| Job { keyspace, table }));
        }
        // Files in the order in which they were written, as disks like it.
        jobs.sort_by_key(|job| job.table.number);
        report.tables = jobs.len() as u64;
        report.stored_bytes = jobs.iter().map(|job| job.table.stored_bytes).sum();
        let check = StoreCheck {
            db,
            options,
            jobs: &jobs,
            next: AtomicUsize::new(0),
            shared: Mutex::new(Shared {
                done: VerifyProgress {
                    tables_total: report.tables,
                    bytes_total: report.stored_bytes,
                    ..VerifyProgress::default()
                },
                progress,
                report,
                failure: None,
            }),
        };
        check.run()
    }
}

struct Job<'a> {
    keyspace: &'a str,
    table: &'a TableMeta,
}

struct StoreCheck<'a> {
    db: &'a DbInner,
    options: &'a VerifyOptions,
    jobs: &'a [Job<'a>],
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
        problems.sort_by_key(|problem| (problem.path().map(ToOwned::to_owned), problem.offset()));
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
    fn check_table(&self, job: &Job<'_>) -> Result<()> {
        let mut told = 0;
        let outcome = self.verify_table(job, &mut told);
        let mut shared = self.shared.lock();
        let shared = &mut *shared;
        let problems = match outcome {
            Ok(verification) => {
                shared.report.units += verification.units;
                shared.report.entries += verification.entries;
                shared.report.decoded_bytes += verification.decoded_bytes;
                verification.problems
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => vec![error],
        };
        let path = self.db.table_path(job.table.number);
        shared.report.problems.extend(
            problems
                .into_iter()
                .map(|problem| problem.at_path(&path).in_keyspace(job.keyspace)),
        );
        // What lies between units, and what a damaged table did not come to.
        shared.done.bytes += job.table.stored_bytes.saturating_sub(told);
        shared.done.tables += 1;
        (shared.progress)(shared.done);
        Ok(())
    }

    fn verify_table(&self, job: &Job<'_>, told: &mut u64) -> Result<TableVerification> {
        self.options.cancel.check("the check")?;
        let meta = job.table;
        let path = self.db.table_path(meta.number);
        let vfs = &**self.db.vfs();
        let reader = TableReader::open(vfs, &path, ReadMode::Pread, Some(meta.id), meta.seq_base)
            .map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                return Error::corruption("a table named by the manifest is missing");
            }
            error
        })?;
        let mut progress = |bytes: u64| {
            self.options.cancel.check("the check")?;
            let bytes = bytes.min(meta.stored_bytes.saturating_sub(*told));
            *told += bytes;
            let mut shared = self.shared.lock();
            let shared = &mut *shared;
            shared.done.bytes += bytes;
            (shared.progress)(shared.done);
            Ok(())
        };
        let mut verification = match self.options.quick {
            true => reader.verify_checksums(&mut progress)?,
            false => reader.verify(&mut progress)?,
        };
        verification.problems.extend(disagreement(meta, &reader));
        Ok(verification)
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
