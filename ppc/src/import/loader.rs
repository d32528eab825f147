//! The loader: puts batches back into reading order, leaves out what is there, and commits.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::seen::Seen;
use super::worker::{Hashed, HashedBatch, HashedFile, HashedItem, Mismatch};
use super::{Context, ImportReport};
use crate::archive::{ContentLoader, LoaderOptions};
use crate::progress::{Phase, Problem, ProblemKind, Progress, Wish};
use crate::source::SourceFile;
use crate::{Error, ErrorKind, Result};

/// Takes hashed batches in any order, and loads their items in reading order.
pub(super) struct Loader<'a> {
    context: Context<'a>,
    bytes_total: Option<u64>,
    seen: Seen,
    bulk: Option<ContentLoader>,
    /// Batches that came before their turn. Bounded by the bytes in flight.
    early: BTreeMap<u64, HashedBatch>,
    next_ordinal: u64,
    report: ImportReport,
    /// The report as it was at the last commit.
    committed: ImportReport,
}

impl<'a> Loader<'a> {
    pub(super) fn new(context: Context<'a>, bytes_total: Option<u64>) -> Self {
        Self {
            context,
            bytes_total,
            seen: Seen::new(context.shares.seen),
            bulk: None,
            early: BTreeMap::new(),
            next_ordinal: 0,
            report: ImportReport::default(),
            committed: ImportReport::default(),
        }
    }

    /// Takes one batch; loads it and those that waited for it, if it is its turn.
    pub(super) fn take(&mut self, batch: HashedBatch) -> Result<()> {
        self.early.insert(batch.ordinal, batch);
        while let Some(batch) = self.early.remove(&self.next_ordinal) {
            self.next_ordinal += 1;
            self.load(batch)?;
        }
        Ok(())
    }

    /// Commits the rest. `batch_count` batches were read; all must have been taken.
    pub(super) fn finish(&mut self, batch_count: u64) -> Result<()> {
        if self.next_ordinal != batch_count {
            // A worker died; its panic is on its way to the caller.
            return Err(Error::new(
                ErrorKind::Failed,
                "an import thread ended before its work was done",
            ));
        }
        self.commit()
    }

    /// The account of what is committed, and of nothing beyond.
    pub(super) fn into_report(self) -> ImportReport {
        self.committed
    }

    fn load(&mut self, batch: HashedBatch) -> Result<()> {
        if self.context.observer.wish() == Wish::Abandon {
            return Err(cancelled());
        }
        for item in batch.items {
            self.load_item(item, batch.commits_seen)?;
        }
        self.context.observer.progress(&self.progress());

        let loaded = self.bulk.as_ref().map(ContentLoader::loaded);
        let full =
            loaded.is_some_and(|loaded| loaded.raw_bytes >= self.context.options.commit_bytes);
        if full || self.seen.is_full() {
            self.commit()?;
        }
        Ok(())
    }

    /// How far reading is. Where the total is known it is in bytes as the sources count them, else
    /// in bytes of contents.
    fn progress(&self) -> Progress {
        let mut progress = Progress::start(Phase::Reading, self.bytes_total);
        progress.files = self.report.files_read;
        progress.bytes = match self.bytes_total {
            Some(_) => self.context.source_bytes.load(Ordering::Relaxed),
            None => self.report.bytes_read,
        };
        progress
    }

    fn load_item(&mut self, item: HashedItem, commits_seen: u64) -> Result<()> {
        let HashedFile {
            file,
            outcome,
            mismatches,
        } = match item {
            HashedItem::File(file) => file,
            HashedItem::Problem(problem) => {
                self.report_problem(problem.into());
                return Ok(());
            }
        };
        let hashed = match outcome {
            Ok(hashed) => hashed,
            Err(error) if error.kind() == ErrorKind::Limit => {
                let refused = ProblemKind::Refused;
                self.report_problem(Problem::new(refused, &file.origin, error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.report.files_read += 1;
        self.report.bytes_read += file.content.len() as u64;
        if !mismatches.is_empty() {
            self.report_mismatches(&file, &mismatches);
            if self.context.options.reject_mismatches {
                self.report.rejected += 1;
                return Ok(());
            }
        }
        self.store(file.content, hashed, commits_seen)
    }

    /// Stores a content unless it is there.
    fn store(&mut self, content: Bytes, hashed: Hashed, commits_seen: u64) -> Result<()> {
        let bytes = content.len() as u64;
        let hash = hashed.key.hash();
        // A no from before the latest commit may be out of date.
        let ask_again = !hashed.is_present && commits_seen != self.report.commits;
        if hashed.is_present || (ask_again && self.context.archive.has_sha1_git(hash)?) {
            self.report.present += 1;
            self.report.present_bytes += bytes;
            return Ok(());
        }
        if !self.seen.insert(hash) {
            self.report.duplicates += 1;
            self.report.duplicate_bytes += bytes;
            return Ok(());
        }
        self.report.files_stored += 1;
        self.report.files_named += u64::from(hashed.is_named);
        self.report.raw_bytes_stored += bytes;
        self.bulk()?.put(&hashed.key, &hashed.hashes, content)
    }

    fn report_problem(&mut self, problem: Problem) {
        *self.report.problems.entry(problem.kind).or_default() += 1;
        self.context.observer.problem(&problem);
    }

    fn report_mismatches(&mut self, file: &SourceFile, mismatches: &[Mismatch]) {
        self.report.mismatches += 1;
        let fate = if self.context.options.reject_mismatches {
            "; left out"
        } else {
            ""
        };
        for Mismatch { stated, computed } in mismatches {
            let message = format!("stated {stated}, but the content has {computed}{fate}");
            let kind = ProblemKind::HashMismatch;
            let problem = Problem::new(kind, &file.origin, message);
            self.context.observer.problem(&problem);
        }
    }

    fn bulk(&mut self) -> Result<&mut ContentLoader> {
        match &mut self.bulk {
            Some(bulk) => Ok(bulk),
            empty => {
                let options = LoaderOptions {
                    memory_bytes: self.context.shares.loader,
                };
                Ok(empty.insert(self.context.archive.loader(&options)?))
            }
        }
    }

    /// Makes what was loaded durable and visible.
    fn commit(&mut self) -> Result<()> {
        if let Some(bulk) = self.bulk.take() {
            bulk.finish(self.context.observer)?;
            self.report.commits += 1;
            self.context
                .commits
                .store(self.report.commits, Ordering::Release);
            self.seen.clear();
        }
        self.committed = self.report.clone();
        Ok(())
    }
}

/// What an abandoned import ends with.
pub(super) fn cancelled() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "the import was stopped before its last commit",
    )
    .with_remedy("run it again to go on; what is committed will be skipped")
}
