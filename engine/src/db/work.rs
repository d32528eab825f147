//! How background threads learn that there may be something to do: a counter under a mutex, and a
//! condition variable. Nobody polls and nobody sleeps.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
struct State {
    /// Grows with every reason to look again.
    generation: u64,
    stopping: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct WorkSignal {
    state: Mutex<State>,
    changed: Condvar,
}

impl WorkSignal {
    /// Says that there may be something to do.
    pub(crate) fn wake(&self) {
        self.state.lock().generation += 1;
        self.changed.notify_all();
    }

    /// Tells every thread to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Where the counter stands. A thread takes it **before** it looks for work, so that what
    /// comes up while it looks is not missed.
    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Waits until the counter has moved on from `seen`, or until `deadline` if there is one;
    /// false when the thread is to end.
    pub(crate) fn wait_until(&self, seen: u64, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while state.generation == seen && !state.stopping {
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) => {
                    if self.changed.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        !state.stopping
    }

    /// Whether threads are to end; long jobs look now and then.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }
}
