//! Sealed memtables on their way to L0, and the writers that wait for room.
//!
//! The memtables of all keyspaces are sealed together, with the log files that hold their entries:
//! a *generation*. Generations are flushed oldest first, each with one commit, after which its log
//! files are obsolete. So there is never a question which log a quiet keyspace still pins.
//!
//! Writers wait here, by condition variable, while too many generations or L0 tables have piled
//! up. A failed flush wakes them with its error: waiting for a full disk would be waiting forever.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::space::Space;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::types::FileNumber;

/// Memtables sealed together.
#[derive(Debug)]
pub(crate) struct Generation {
    /// None is empty.
    pub(crate) memtables: Vec<(Arc<Space>, Arc<Memtable>)>,
    /// Log files that hold nothing but this generation's entries and those of earlier ones.
    pub(crate) logs: Vec<FileNumber>,
}

impl Generation {
    pub(crate) fn memory_bytes(&self) -> usize {
        let memtables = self.memtables.iter();
        memtables.map(|(_, memtable)| memtable.memory_bytes()).sum()
    }
}

/// What one who waits may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Flush,
    Compaction,
}

/// Failed jobs of a stage so far, and the last one's error.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    last: Option<Error>,
}

/// How many jobs had failed, by the stages that matter, when someone began to wait.
#[derive(Debug)]
pub(crate) struct Wait {
    seen: Vec<(Stage, u64)>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    sealed: VecDeque<Arc<Generation>>,
    flush: Failures,
    compaction: Failures,
    closed: bool,
}

impl State {
    fn failures(&self, stage: Stage) -> &Failures {
        match stage {
            Stage::Flush => &self.flush,
            Stage::Compaction => &self.compaction,
        }
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    state: Mutex<State>,
    changed: Condvar,
}

impl Pipeline {
    pub(crate) fn push(&self, generation: Generation) {
        self.state.lock().sealed.push_back(Arc::new(generation));
    }

    /// The generation to flush next; it stays listed until [`Pipeline::pop`].
    pub(crate) fn oldest(&self) -> Option<Arc<Generation>> {
        self.state.lock().sealed.front().cloned()
    }

    /// Unlists the oldest generation, whose entries are in tables now.
    pub(crate) fn pop(&self) {
        self.state.lock().sealed.pop_front();
        self.changed.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().sealed.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let state = self.state.lock();
        let sealed = state.sealed.iter();
        sealed.map(|generation| generation.memory_bytes()).sum()
    }

    /// Wakes those who wait, to look at their condition again.
    pub(crate) fn notify(&self) {
        // Taking the lock first closes the gap between a waiter's look and its wait.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Wakes those who wait for a stage with the error of its job.
    pub(crate) fn fail(&self, stage: Stage, error: &Error) {
        let mut state = self.state.lock();
        let failures = match stage {
            Stage::Flush => &mut state.flush,
            Stage::Compaction => &mut state.compaction,
        };
        failures.count += 1;
        failures.last = Some(error.duplicate());
        drop(state);
        self.changed.notify_all();
    }

    /// Sends home everyone who waits, now and from now on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Begins to wait for jobs of these stages; called **before** work is asked for, so that a
    /// failure in between is not missed.
    pub(crate) fn begin_wait(&self, stages: &[Stage]) -> Wait {
        let state = self.state.lock();
        let seen = stages
            .iter()
            .map(|stage| (*stage, state.failures(*stage).count));
        Wait {
            seen: seen.collect(),
        }
    }

    /// Waits until `ready`, which is given the number of sealed generations. Fails when a job that
    /// matters has failed since the wait began, or when the store is closed.
    pub(crate) fn wait_until(
        &self,
        wait: &Wait,
        mut ready: impl FnMut(usize) -> bool,
    ) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if ready(state.sealed.len()) {
                return Ok(());
            }
            if state.closed {
                return Err(closed());
            }
            let mut failures = wait
                .seen
                .iter()
                .map(|(stage, seen)| (state.failures(*stage), seen));
            if let Some((failure, _)) = failures.find(|(failures, seen)| failures.count != **seen) {
                return Err(failure.last.as_ref().map_or_else(closed, Error::duplicate));
            }
            self.changed.wait(&mut state);
        }
    }
}

/// The error of every call on a closed store.
pub(super) fn closed() -> Error {
    Error::new(crate::error::ErrorKind::Closed, "the store was closed").with_remedy("open it again")
}
