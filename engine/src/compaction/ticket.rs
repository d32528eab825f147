//! Leave to run a job, and to keep others from running.

use std::sync::Arc;

use super::executor::cancelled;
use super::merge::Watch;
use super::plan::{Busy, JobId, Plan};
use super::scheduler::Scheduler;
use super::span::Span;
use crate::cancel::CancelToken;
use crate::db::{DbInner, Space};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Version;
use crate::types::FileNumber;

/// The error of a caller whose job ends because the store does.
pub(crate) fn closing() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed").with_remedy("open it again")
}

/// Leave to run a plan. Dropped, it gives back what it reserved.
pub(crate) struct Ticket<'a> {
    pub(super) scheduler: &'a Scheduler,
    pub(super) job: JobId,
    pub(super) space: Arc<Space>,
    pub(super) version: Arc<Version>,
    pub(super) plan: Plan,
    pub(super) threads: usize,
    pub(super) stop: CancelToken,
}

impl Ticket<'_> {
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The tree the plan was made for.
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Threads that may work on the plan.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// What this job and all other running ones may write.
    pub(crate) fn bytes_reserved_by_all(&self) -> u64 {
        self.scheduler.bytes_reserved()
    }

    /// Tells a caller of the job's progress.
    pub(crate) fn call_back(&self, callback: impl FnOnce()) {
        self.scheduler.callbacks.run(callback);
    }

    /// Fails once the store is about to close or the keyspace is gone.
    pub(crate) fn check(&self) -> Result<()> {
        if self.stop.is_cancelled() {
            return Err(closing());
        }
        if self.space.is_dropped() {
            return Err(cancelled("the keyspace was dropped while it was compacted"));
        }
        Ok(())
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.scheduler.release(self.job, &self.space, &self.plan);
    }
}

impl Watch for Ticket<'_> {
    fn check(&self) -> Result<()> {
        Ticket::check(self)
    }

    fn advance(&self, _entries: u64, _raw_bytes: u64) {}
}

/// Keeps tables and spans from compactions, until it is dropped.
pub(crate) struct Hold<'a> {
    pub(super) scheduler: &'a Scheduler,
    pub(super) job: JobId,
}

impl Hold<'_> {
    /// Keeps tables that are about to appear in L0.
    pub(crate) fn hold_tables(&self, space: &Space, tables: Vec<FileNumber>) {
        let hold = |busy: &mut Busy| busy.hold(self.job, tables, None);
        self.scheduler.with_busy(space, hold);
    }

    /// Keeps `spans` of the deepest level up to `deepest` that no running job writes into there,
    /// and tells which it is. In L0 there is nothing to keep.
    pub(crate) fn hold_deepest(&self, space: &Space, deepest: usize, spans: &[Span]) -> usize {
        self.scheduler.with_busy(space, |busy| {
            let is_free = |level: &usize| !spans.iter().any(|span| busy.writes_into(*level, span));
            let level = (1..=deepest).rev().find(is_free).unwrap_or(0);
            if level > 0 {
                let span = spans.iter().cloned().reduce(Span::union);
                busy.hold(self.job, Vec::new(), span.map(|span| (level, span)));
            }
            level
        })
    }

    /// As [`Scheduler::begin_chosen`], for a plan that may take what is held here.
    pub(crate) fn begin_chosen(
        &self,
        db: &Arc<DbInner>,
        space: &Arc<Space>,
        cancel: &CancelToken,
        choose: &mut dyn FnMut(&Arc<Version>, &Busy) -> Choice,
    ) -> Result<Option<Ticket<'_>>> {
        let own = Some(self.job);
        self.scheduler.begin_chosen(db, space, cancel, own, choose)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.scheduler.release_hold(self.job);
    }
}

/// What a caller wants to run next.
pub(crate) enum Choice {
    /// Nothing more.
    Done,
    /// This, once no running job meets it.
    Run(Plan),
    /// Something, but a running job has it.
    Wait,
}
