//! Threads that compress the frames of tables being written, shared by all writers.
//!
//! A writer submits frames and takes results in the order of submission. Whoever would wait for a
//! frame that no thread has begun compresses it himself, so a pool of one thread has no worker at
//! all and runs the same code, and a busy pool never makes a writer slower than no pool. The
//! bytes written do not depend on who compressed what.
//!
//! Thread rule: a [`Job`] is claimed exactly once, under its lock. A worker that panics turns its
//! job into an error, never into a writer that waits for ever.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex};

use super::EncodedFrame;
use crate::error::{Error, ErrorKind, Result};

/// The shared threads.
pub(crate) struct CompressionPool {
    threads: usize,
    queue: Option<Sender<Arc<Job>>>,
    workers: Vec<JoinHandle<()>>,
}

impl CompressionPool {
    /// A pool that, together with the writing thread, makes up `threads` threads. Threads that the
    /// system refuses are done without.
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        let (queue, jobs) = crossbeam_channel::unbounded();
        let workers: Vec<_> = (1..threads)
            .map_while(|index| spawn_worker(index, jobs.clone()))
            .collect();
        Arc::new(Self {
            threads: workers.len() + 1,
            queue: (!workers.is_empty()).then_some(queue),
            workers,
        })
    }

    /// Threads that can compress at once for one writer, itself included.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Hands the work on one frame to the pool.
    pub(crate) fn submit(
        &self,
        work: impl FnOnce() -> Result<EncodedFrame> + Send + 'static,
    ) -> Arc<Job> {
        let job = Arc::new(Job {
            state: Mutex::new(State::Waiting(Box::new(work))),
            done: Condvar::new(),
        });
        if let Some(queue) = &self.queue {
            // Workers hang up only when the pool is dropped; then the writer compresses himself.
            let _ = queue.send(Arc::clone(&job));
        }
        job
    }
}

impl Drop for CompressionPool {
    fn drop(&mut self) {
        self.queue = None;
        for worker in self.workers.drain(..) {
            // A panic was turned into its job's error already.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for CompressionPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompressionPool({} threads)", self.threads)
    }
}

fn spawn_worker(index: usize, jobs: Receiver<Arc<Job>>) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("ppc-compress-{index}"))
        .spawn(move || {
            for job in jobs {
                job.run();
            }
        })
        .ok()
}

/// The work on one frame on its way through the pool.
pub(crate) struct Job {
    state: Mutex<State>,
    done: Condvar,
}

enum State {
    Waiting(Box<dyn FnOnce() -> Result<EncodedFrame> + Send>),
    Running,
    Done(Result<EncodedFrame>),
    Taken,
}

impl Job {
    /// Work that was done elsewhere, to keep its place among other jobs.
    pub(crate) fn done(frame: EncodedFrame) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Done(Ok(frame))),
            done: Condvar::new(),
        })
    }

    /// Does the work unless someone else does or did. Says whether it did.
    pub(crate) fn run(&self) -> bool {
        let work = {
            let mut state = self.state.lock();
            match std::mem::replace(&mut *state, State::Running) {
                State::Waiting(work) => work,
                other => {
                    *state = other;
                    return false;
                }
            }
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        *self.state.lock() = State::Done(outcome.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Failed,
                "compression of a frame panicked",
            ))
        }));
        self.done.notify_all();
        true
    }

    /// Whether the result is there to be taken.
    pub(crate) fn is_done(&self) -> bool {
        matches!(*self.state.lock(), State::Done(_))
    }

    /// Takes the result, working here if no one has begun, else waiting.
    pub(crate) fn take(&self) -> Result<EncodedFrame> {
        self.run();
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(result) => return result,
                State::Taken | State::Waiting(_) => {
                    return Err(Error::new(ErrorKind::Failed, "frame was taken twice"));
                }
                State::Running => *state = State::Running,
            }
            self.done.wait(&mut state);
        }
    }

    /// Drops the work if no one has begun it; no one will take its result.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting(_)) {
            *state = State::Taken;
        }
    }
}
