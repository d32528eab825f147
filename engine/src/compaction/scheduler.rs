//! Who compacts what, and when: the threads of the background, and the bookkeeping that keeps jobs
//! apart.
//!
//! One thread flushes; `background_threads` others compact. A job may spread over further threads
//! while fewer than that are at work. Manual compactions and bulk loads run on their callers'
//! threads, and take part in the same bookkeeping.
//!
//! Everyone waits by condition variable: threads without work on the store's
//! [`WorkSignal`](crate::db::WorkSignal), callers whose plan meets a running job on `ended`.
//!
//! A job that fails is tried again: after a pause that doubles from one second to a minute, or at
//! once when a writer is waiting for it. A table that turns out to be corrupt is left alone until
//! the store is opened again or a manual compaction asks for it: the rest of the tree goes on. A
//! job that panics stops all writes.
//!
//! Lock order: `state` comes after every lock of [`DbInner`] but those held for moments.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::executor::{cancelled, run_plan};
use super::merge::Watch;
use super::picker::{Pick, Picker};
use super::plan::{Busy, JobId, Plan};
use super::span::Span;
use super::stripes::Stripes;
use super::weight::covered_entries;
use crate::cancel::CancelToken;
use crate::db::{DbInner, Space, WorkSignal};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Version;
use crate::types::{FileNumber, KeyspaceId};

const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a caller waits for a running job before it looks whether it was cancelled itself: a
/// token may be set from a signal handler, which cannot wake anyone.
const CANCEL_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Holds tables that are corrupt; no job has this id.
const QUARANTINE: JobId = JobId(0);

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    /// A job has ended, or the scheduler stops.
    ended: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State {
    last_job: u64,
    busy: HashMap<KeyspaceId, Busy>,
    running: HashMap<JobId, Running>,
    /// Keyspaces in which a caller waits for running jobs; no further ones start there.
    waited_for: HashMap<KeyspaceId, usize>,
    retry: Retry,
    /// Why corrupt tables are held.
    quarantine: Option<Error>,
    /// Estimates of what tables' range tombstones cover.
    covered: HashMap<FileNumber, u64>,
    stopping: bool,
}

#[derive(Debug)]
struct Running {
    stop: CancelToken,
    threads: usize,
    bytes: u64,
}

/// When to try again after a failure.
#[derive(Debug, Default)]
struct Retry {
    /// None while all is well, or when it is to be tried at once.
    at: Option<Instant>,
    pause: Duration,
}

impl Retry {
    fn failed(&mut self) {
        self.pause = (self.pause * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
        self.at = Some(Instant::now() + self.pause);
    }

    fn succeeded(&mut self) {
        *self = Self::default();
    }

    fn is_due(&self) -> bool {
        self.at.is_none_or(|at| at <= Instant::now())
    }
}

impl Scheduler {
    /// Starts the threads, which go on until [`Scheduler::shut_down`].
    pub(crate) fn start(&self, db: &Arc<DbInner>) -> Result<()> {
        let count = db.options().background_threads;
        for index in 0..=count {
            let name = match index {
                0 => "ppc-flush".to_owned(),
                _ => format!("ppc-compact-{index}"),
            };
            let work = if index == 0 {
                flush_work
            } else {
                compaction_work
            };
            let inner = Arc::clone(db);
            let spawned = std::thread::Builder::new()
                .name(name)
                .spawn(move || work_until_stopped(&inner, work));
            let handle = spawned.map_err(|error| {
                Error::new(ErrorKind::Io, "cannot start a background thread").with_source(error)
            })?;
            self.threads.lock().push(handle);
        }
        Ok(())
    }

    /// Cancels running jobs and waits for the end of all threads, and of what callers' threads
    /// run. May be called more than once.
    pub(crate) fn shut_down(&self, signal: &WorkSignal) {
        let mut state = self.state.lock();
        state.stopping = true;
        state.running.values().for_each(|job| job.stop.cancel());
        drop(state);
        signal.stop();
        self.ended.notify_all();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("a background thread panicked");
            }
        }
        let mut state = self.state.lock();
        while !state.running.is_empty() {
            self.ended.wait(&mut state);
        }
    }

    /// Tries again at once what failed before: a writer is waiting for it.
    pub(crate) fn retry_now(&self, signal: &WorkSignal) {
        self.state.lock().retry.at = None;
        signal.wake();
    }

    /// The most urgent job that can run now.
    fn next_job<'a>(&'a self, db: &Arc<DbInner>) -> Option<Ticket<'a>> {
        if !db.options().auto_compaction || db.check_writable().is_err() {
            return None;
        }
        self.estimate_covered(db);
        let stripes = Stripes::new(db.snapshots(), db.visible_seq());
        let mut state = self.state.lock();
        if state.stopping || !state.retry.is_due() {
            return None;
        }
        let mut best: Option<(Pick, Arc<Space>, Arc<Version>)> = None;
        for space in db.spaces() {
            if state.waited_for.contains_key(&space.id) {
                continue;
            }
            // Read under the lock: jobs give back their tables only after new ones are in force.
            let version = Arc::clone(&space.view().version);
            let options = space.options();
            let idle = Busy::default();
            let picker = Picker {
                version: &version,
                options: &options,
                l0_compaction_trigger: db.options().l0_compaction_trigger,
                busy: state.busy.get(&space.id).unwrap_or(&idle),
                oldest_seq: stripes.oldest(),
                covered_entries: &|table| {
                    state
                        .covered
                        .get(&table.number)
                        .copied()
                        .unwrap_or_default()
                },
            };
            let Some(pick) = picker.pick() else { continue };
            let urgency = best.as_ref().map_or(0, |(best, ..)| best.urgency);
            if best.is_none() || pick.urgency > urgency {
                best = Some((pick, space, version));
            }
        }
        let (pick, space, version) = best?;
        let threads_max = db.options().background_threads;
        Some(self.begin(&mut state, space, version, pick.plan, threads_max))
    }

    /// Reserves what the plan needs.
    fn begin<'a>(
        &'a self,
        state: &mut State,
        space: Arc<Space>,
        version: Arc<Version>,
        plan: Plan,
        threads_max: usize,
    ) -> Ticket<'a> {
        let job = state.new_job();
        let at_work: usize = state.running.values().map(|job| job.threads).sum();
        let threads = 1.max(threads_max.saturating_sub(at_work));
        let stop = CancelToken::new();
        if state.stopping {
            stop.cancel();
        }
        let bytes = if plan.trivial_move {
            0
        } else {
            plan.stored_bytes()
        };
        state.running.insert(
            job,
            Running {
                stop: stop.clone(),
                threads,
                bytes,
            },
        );
        state.busy.entry(space.id).or_default().reserve(job, &plan);
        Ticket {
            scheduler: self,
            job,
            space,
            version,
            plan,
            threads,
            stop,
        }
    }

    /// Reserves the plan that `choose` makes for the tree as it is, once no running job meets it;
    /// none if `choose` has no more. `choose` is asked again after each wait. What `own` holds is
    /// not in the way.
    pub(crate) fn begin_chosen<'a>(
        &'a self,
        db: &Arc<DbInner>,
        space: &Arc<Space>,
        cancel: &CancelToken,
        own: Option<JobId>,
        choose: &mut dyn FnMut(&Arc<Version>, &Busy) -> Choice,
    ) -> Result<Option<Ticket<'a>>> {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return Err(closing());
            }
            cancel.check("the compaction")?;
            if space.is_dropped() {
                return Err(cancelled("the keyspace was dropped while it was compacted"));
            }
            state.lift_quarantine(space.id);
            let version = Arc::clone(&space.view().version);
            let busy = state.busy.entry(space.id).or_default();
            match choose(&version, busy) {
                Choice::Done => return Ok(None),
                Choice::Run(plan) if !busy.conflicts_beside(&plan, own) => {
                    let space = Arc::clone(space);
                    let threads_max = db.options().background_threads;
                    let ticket = self.begin(&mut state, space, version, plan, threads_max);
                    return Ok(Some(ticket));
                }
                Choice::Run(_) | Choice::Wait => self.wait_for_end_of_a_job(&mut state, space.id),
            }
        }
    }

    fn wait_for_end_of_a_job(&self, state: &mut MutexGuard<'_, State>, keyspace: KeyspaceId) {
        *state.waited_for.entry(keyspace).or_default() += 1;
        self.ended.wait_for(state, CANCEL_NOTICED_WITHIN);
        if let Some(count) = state.waited_for.get_mut(&keyspace) {
            *count -= 1;
            if *count == 0 {
                state.waited_for.remove(&keyspace);
            }
        }
    }

    /// A hold of nothing yet.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold {
            scheduler: self,
            job: self.state.lock().new_job(),
        }
    }

    /// Learns what range tombstones cover, for tables that are new since the last call.
    fn estimate_covered(&self, db: &Arc<DbInner>) {
        let mut estimates = Vec::new();
        for space in db.spaces() {
            let version = Arc::clone(&space.view().version);
            for (level, table) in version.tables() {
                let is_new = || !self.state.lock().covered.contains_key(&table.number);
                if table.range_tombstones > 0 && is_new() {
                    // A table that cannot be read weighs nothing; whoever reads it will tell.
                    let covered = covered_entries(db, &version, level, table).unwrap_or(0);
                    estimates.push((table.number, covered));
                }
            }
        }
        self.state.lock().covered.extend(estimates);
    }

    fn release(&self, job: JobId, space: &Space, plan: &Plan) {
        let mut state = self.state.lock();
        state.running.remove(&job);
        if let Some(busy) = state.busy.get_mut(&space.id) {
            busy.release(job);
        }
        for input in &plan.inputs {
            state.covered.remove(&input.table.number);
        }
        drop(state);
        self.ended.notify_all();
    }

    /// Draws the conclusions from how a background job ended.
    fn conclude(&self, db: &Arc<DbInner>, ticket: &Ticket<'_>, outcome: Result<()>) {
        let error = match outcome {
            Ok(()) => return self.state.lock().retry.succeeded(),
            Err(error) if error.kind() == ErrorKind::Cancelled => return,
            Err(error) => error,
        };
        tracing::warn!(%error, plan = %ticket.plan, "compaction failed");
        let mut state = self.state.lock();
        if error.kind() == ErrorKind::Corruption {
            let suspects = suspects(db, &ticket.plan, &error);
            let busy = state.busy.entry(ticket.space.id).or_default();
            busy.hold(QUARANTINE, suspects, None);
            state.quarantine = Some(error.duplicate());
        } else {
            state.retry.failed();
        }
        drop(state);
        db.compaction_failed(&error);
    }

    /// Writers that wait for room in L0 would wait forever where corrupt tables keep L0 from being
    /// compacted.
    fn release_hopeless_writers(&self, db: &DbInner) {
        let state = self.state.lock();
        let Some(error) = &state.quarantine else {
            return;
        };
        if state.running.is_empty() && db.l0_tables_max() >= db.options().l0_stall_trigger {
            db.compaction_failed(error);
        }
    }

    fn retry_at(&self) -> Option<Instant> {
        self.state.lock().retry.at
    }
}

impl State {
    fn new_job(&mut self) -> JobId {
        self.last_job += 1;
        JobId(self.last_job)
    }

    fn lift_quarantine(&mut self, keyspace: KeyspaceId) {
        if self.quarantine.is_some()
            && let Some(busy) = self.busy.get_mut(&keyspace)
        {
            busy.release(QUARANTINE);
        }
    }
}

/// Keeps tables and spans from compactions, until it is dropped.
pub(crate) struct Hold<'a> {
    scheduler: &'a Scheduler,
    job: JobId,
}

impl Hold<'_> {
    /// Keeps tables that are about to appear in L0.
    pub(crate) fn hold_tables(&self, space: &Space, tables: Vec<FileNumber>) {
        let mut state = self.scheduler.state.lock();
        let busy = state.busy.entry(space.id).or_default();
        busy.hold(self.job, tables, None);
    }

    /// Keeps `spans` of the deepest level up to `deepest` that no running job writes into there,
    /// and tells which it is. In L0 there is nothing to keep.
    pub(crate) fn hold_deepest(&self, space: &Space, deepest: usize, spans: &[Span]) -> usize {
        let mut state = self.scheduler.state.lock();
        let busy = state.busy.entry(space.id).or_default();
        let is_free = |level: &usize| !spans.iter().any(|span| busy.writes_into(*level, span));
        let level = (1..=deepest).rev().find(is_free).unwrap_or(0);
        if level > 0 {
            let span = spans.iter().cloned().reduce(Span::union);
            busy.hold(self.job, Vec::new(), span.map(|span| (level, span)));
        }
        level
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
        let mut state = self.scheduler.state.lock();
        state
            .busy
            .values_mut()
            .for_each(|busy| busy.release(self.job));
        drop(state);
        self.scheduler.ended.notify_all();
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

/// The tables of a failed plan that the error blames; all of them if it blames none.
fn suspects(db: &DbInner, plan: &Plan, error: &Error) -> Vec<FileNumber> {
    let numbers = plan.inputs.iter().map(|input| input.table.number);
    let blamed: Vec<FileNumber> = numbers
        .clone()
        .filter(|number| error.path() == Some(db.table_path(*number).as_path()))
        .collect();
    if blamed.is_empty() {
        numbers.collect()
    } else {
        blamed
    }
}

/// The error of a caller whose job ends because the store does.
pub(crate) fn closing() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed").with_remedy("open it again")
}

/// Leave to run a plan. Dropped, it gives back what it reserved.
pub(crate) struct Ticket<'a> {
    scheduler: &'a Scheduler,
    job: JobId,
    space: Arc<Space>,
    version: Arc<Version>,
    plan: Plan,
    threads: usize,
    stop: CancelToken,
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
        let state = self.scheduler.state.lock();
        state.running.values().map(|job| job.bytes).sum()
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

/// What a thread did when it was asked to.
enum Worked {
    /// Something; there may be more.
    Done,
    /// Nothing: there was nothing to do.
    Idle,
    /// It failed, and is to be tried again at this time if nothing happens before.
    RetryAt(Instant),
}

fn work_until_stopped(db: &Arc<DbInner>, work: fn(&Arc<DbInner>, &mut Retry) -> Worked) {
    let mut retry = Retry::default();
    loop {
        let seen = db.work().generation();
        let worked = catch_unwind(AssertUnwindSafe(|| work(db, &mut retry)));
        let until = match worked {
            Ok(Worked::Done) if db.work().is_stopping() => return,
            Ok(Worked::Done) => continue,
            Ok(Worked::Idle) => None,
            Ok(Worked::RetryAt(at)) => Some(at),
            Err(panic) => {
                let what = panic_message(panic.as_ref());
                let message = format!("a background job panicked: {what}");
                db.latch_failure(&Error::new(ErrorKind::Failed, message));
                None
            }
        };
        if !db.work().wait_until(seen, until) {
            return;
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    message
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

fn flush_work(db: &Arc<DbInner>, retry: &mut Retry) -> Worked {
    match db.flush_next() {
        Ok(true) => {
            retry.succeeded();
            Worked::Done
        }
        Ok(false) => {
            // An iterator that ended may have let go of files.
            db.purge_obsolete();
            Worked::Idle
        }
        Err(_) if db.check_writable().is_err() => Worked::Idle,
        Err(_) => {
            retry.failed();
            retry.at.map_or(Worked::Idle, Worked::RetryAt)
        }
    }
}

fn compaction_work(db: &Arc<DbInner>, _retry: &mut Retry) -> Worked {
    let scheduler = db.scheduler();
    let Some(ticket) = scheduler.next_job(db) else {
        scheduler.release_hopeless_writers(db);
        return scheduler.retry_at().map_or(Worked::Idle, Worked::RetryAt);
    };
    // A second job may run beside this one.
    db.work().wake();
    let outcome = run_plan(db, &ticket, &ticket);
    scheduler.conclude(db, &ticket, outcome.map(drop));
    drop(ticket);
    // The job's inputs were in use until now.
    db.purge_obsolete();
    Worked::Done
}
