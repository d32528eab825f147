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
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::callbacks::Callbacks;
use super::executor::cancelled;
use super::picker::{Pick, Picker};
use super::plan::{Busy, JobId, Plan};
use super::stripes::Stripes;
use super::ticket::{Choice, Hold, Ticket, closing};
use super::weight::covered_entries;
use super::workers::{Retry, start_compacting, start_flushing};
use crate::cancel::CancelToken;
use crate::db::{DbInner, Space, WorkSignal};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Version;
use crate::types::{FileNumber, KeyspaceId};

/// How long a caller waits for a running job before it looks whether it was cancelled itself: a
/// token may be set from a signal handler, which cannot wake anyone.
const CANCEL_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Holds tables that are corrupt; no job has this id.
const QUARANTINE: JobId = JobId(0);

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    /// A job has ended, or the scheduler stops.
    ended: Condvar,
    signal: Arc<WorkSignal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Of the jobs that callers run.
    pub(super) callbacks: Callbacks,
}

#[derive(Debug, Default)]
struct State {
    last_job: u64,
    busy: HashMap<KeyspaceId, Busy>,
    running: HashMap<JobId, Running>,
    /// Keyspaces in which a caller waits for running jobs; no further ones start there.
    waited_for: HashMap<KeyspaceId, usize>,
    retry: Retry,
    /// Why corrupt tables are held, where some are.
    quarantine: HashMap<KeyspaceId, Error>,
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

/// What a compaction thread is to do.
pub(super) enum Next<'a> {
    Job(Ticket<'a>),
    /// Nothing before this time, unless a writer asks for it.
    At(Instant),
    Nothing,
}

impl Scheduler {
    pub(crate) fn new(signal: &Arc<WorkSignal>) -> Self {
        Self {
            state: Mutex::default(),
            ended: Condvar::new(),
            signal: Arc::clone(signal),
            threads: Mutex::default(),
            callbacks: Callbacks::default(),
        }
    }

    /// Starts the threads, which go on until [`Scheduler::shut_down`].
    pub(crate) fn start(&self, db: &Arc<DbInner>) -> Result<()> {
        self.threads.lock().push(start_flushing(db)?);
        for index in 1..=db.options().background_threads {
            self.threads.lock().push(start_compacting(db, index)?);
        }
        Ok(())
    }

    /// Whether this thread is inside a callback of a job, and must not wait for its end.
    pub(crate) fn is_in_callback(&self) -> bool {
        self.callbacks.is_inside()
    }

    /// Cancels running jobs and waits for the end of all threads, and of what callers' threads
    /// run. May be called more than once, but not from a callback.
    pub(crate) fn shut_down(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        state.running.values().for_each(|job| job.stop.cancel());
        drop(state);
        self.signal.stop();
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
    pub(crate) fn retry_now(&self) {
        self.state.lock().retry.at = None;
        self.signal.wake();
    }

    /// The most urgent job that can run now.
    pub(super) fn next_job(&self, db: &Arc<DbInner>) -> Next<'_> {
        if !db.options().auto_compaction || db.check_writable().is_err() {
            return Next::Nothing;
        }
        self.estimate_covered(db);
        let stripes = Stripes::new(db.snapshots(), db.visible_seq());
        let mut state = self.state.lock();
        if state.stopping {
            return Next::Nothing;
        }
        match state.retry.at {
            Some(at) if at > Instant::now() => return Next::At(at),
            _ => state.retry.at = None,
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
        let Some((pick, space, version)) = best else {
            return Next::Nothing;
        };
        let threads_max = db.options().background_threads;
        Next::Job(self.begin(&mut state, space, version, pick.plan, threads_max))
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

    pub(super) fn release(&self, job: JobId, space: &Space, plan: &Plan) {
        let mut state = self.state.lock();
        state.running.remove(&job);
        if let Some(busy) = state.busy.get_mut(&space.id) {
            busy.release(job);
        }
        for input in &plan.inputs {
            state.covered.remove(&input.table.number);
        }
        drop(state);
        self.something_ended();
    }

    /// Gives back everything that a [`Hold`] keeps.
    pub(super) fn release_hold(&self, hold: JobId) {
        let mut state = self.state.lock();
        state.busy.values_mut().for_each(|busy| busy.release(hold));
        drop(state);
        self.something_ended();
    }

    /// What had to wait may go on.
    fn something_ended(&self) {
        self.ended.notify_all();
        self.signal.wake();
    }

    /// Draws the conclusions from how a background job ended.
    pub(super) fn conclude(&self, db: &Arc<DbInner>, ticket: &Ticket<'_>, outcome: Result<()>) {
        let error = match outcome {
            Ok(()) => return self.state.lock().retry.succeeded(),
            Err(error) if is_told_to_stop(&error) => return,
            Err(error) => error,
        };
        tracing::warn!(%error, plan = %ticket.plan, "compaction failed");
        let mut state = self.state.lock();
        if error.kind() == ErrorKind::Corruption {
            let suspects = suspects(db, &ticket.plan, &error);
            let busy = state.busy.entry(ticket.space.id).or_default();
            busy.hold(QUARANTINE, suspects, None);
            state.quarantine.insert(ticket.space.id, error.duplicate());
        } else {
            state.retry.failed();
        }
        drop(state);
        db.compaction_failed(&error);
    }

    /// Writers that wait for room in L0 would wait forever where corrupt tables keep L0 from being
    /// compacted.
    pub(super) fn release_hopeless_writers(&self, db: &DbInner) {
        let state = self.state.lock();
        let Some(error) = state.quarantine.values().next() else {
            return;
        };
        if state.running.is_empty() && db.l0_tables_max() >= db.options().l0_stall_trigger {
            db.compaction_failed(error);
        }
    }

    /// Lets `act` look at, or hold, what is busy in a keyspace.
    pub(super) fn with_busy<T>(&self, space: &Space, act: impl FnOnce(&mut Busy) -> T) -> T {
        act(self.state.lock().busy.entry(space.id).or_default())
    }

    /// What all running jobs may write.
    pub(super) fn bytes_reserved(&self) -> u64 {
        let state = self.state.lock();
        state.running.values().map(|job| job.bytes).sum()
    }
}

impl State {
    fn new_job(&mut self) -> JobId {
        self.last_job += 1;
        JobId(self.last_job)
    }

    fn lift_quarantine(&mut self, keyspace: KeyspaceId) {
        if self.quarantine.remove(&keyspace).is_some()
            && let Some(busy) = self.busy.get_mut(&keyspace)
        {
            busy.release(QUARANTINE);
        }
    }
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

/// Whether a job ended because someone wanted it to.
fn is_told_to_stop(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Closed)
}
