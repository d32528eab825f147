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

/// A stage's jobs, numbered from 1 as they begin.
#[derive(Debug, Default)]
struct Attempts {
    begun: u64,
    /// The last one that failed, and its error.
    failed: Option<(u64, Error)>,
}

/// How many jobs had begun, by the stages that matter, when someone began to wait.
#[derive(Debug)]
pub(crate) struct Wait {
    begun: Vec<(Stage, u64)>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    sealed: VecDeque<Arc<Generation>>,
    flush: Attempts,
    compaction: Attempts,
    closed: bool,
}

impl State {
    fn attempts(&self, stage: Stage) -> &Attempts {
        match stage {
            Stage::Flush => &self.flush,
            Stage::Compaction => &self.compaction,
        }
    }

    fn attempts_mut(&mut self, stage: Stage) -> &mut Attempts {
        match stage {
            Stage::Flush => &mut self.flush,
            Stage::Compaction => &mut self.compaction,
        }
    }

    /// The failure of a job that began after the wait did.
    fn failure_since(&self, wait: &Wait) -> Option<&Error> {
        wait.begun.iter().find_map(|(stage, begun)| {
            let (attempt, error) = self.attempts(*stage).failed.as_ref()?;
            (attempt > begun).then_some(error)
        })
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

    /// The logs of all generations.
    pub(crate) fn logs(&self) -> Vec<FileNumber> {
        let state = self.state.lock();
        let logs = state.sealed.iter().flat_map(|generation| &generation.logs);
        logs.copied().collect()
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

    /// Numbers a job that begins.
    pub(crate) fn begin_attempt(&self, stage: Stage) -> u64 {
        let mut state = self.state.lock();
        let attempts = state.attempts_mut(stage);
        attempts.begun += 1;
        attempts.begun
    }

    /// Wakes with the job's error those who began to wait for its stage before it began. Others
    /// wait for the next attempt: what made this one fail may be gone.
    pub(crate) fn fail(&self, stage: Stage, attempt: u64, error: &Error) {
        let mut state = self.state.lock();
        state.attempts_mut(stage).failed = Some((attempt, error.duplicate()));
        drop(state);
        self.changed.notify_all();
    }

    /// Wakes everyone who waits for the stage with an error.
    pub(crate) fn fail_all(&self, stage: Stage, error: &Error) {
        let attempt = self.begin_attempt(stage);
        self.fail(stage, attempt, error);
    }

    /// Sends home everyone who waits, now and from now on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Begins to wait for jobs of these stages; called **before** work is asked for, so that the
    /// job that comes of it is known to be later.
    pub(crate) fn begin_wait(&self, stages: &[Stage]) -> Wait {
        let state = self.state.lock();
        let begun = stages
            .iter()
            .map(|stage| (*stage, state.attempts(*stage).begun));
        Wait {
            begun: begun.collect(),
        }
    }

    /// Waits until `ready`, which is given the number of sealed generations. Fails when a job that
    /// matters, and that began after the wait did, has failed, or when the store is closed.
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
            if let Some(error) = state.failure_since(wait) {
                return Err(error.duplicate());
            }
            self.changed.wait(&mut state);
        }
    }
}

/// The error of every call on a closed store.
pub(super) fn closed() -> Error {
    Error::new(crate::error::ErrorKind::Closed, "the store was closed").with_remedy("open it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_began_before_the_wait_is_no_reason_to_give_up() {
        let pipeline = Pipeline::default();
        let error = Error::limit("full");
        let early = pipeline.begin_attempt(Stage::Flush);
        let wait = pipeline.begin_wait(&[Stage::Flush]);
        pipeline.fail(Stage::Flush, early, &error);
        pipeline.fail_all(Stage::Compaction, &error);
        assert!(pipeline.state.lock().failure_since(&wait).is_none());
        let late = pipeline.begin_attempt(Stage::Flush);
        pipeline.fail(Stage::Flush, late, &error);
        let failed = pipeline.wait_until(&wait, |_| false).unwrap_err();
        assert_eq!(failed.kind(), error.kind());
    }
}
