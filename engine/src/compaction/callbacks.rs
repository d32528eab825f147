//! Which threads are inside a caller's callback. Closing the store waits for running jobs, and from
//! a callback of such a job it would wait for itself.

use std::thread::ThreadId;

use parking_lot::Mutex;

/// The threads that are inside a callback. A few at most.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    threads: Mutex<Vec<ThreadId>>,
}

impl Callbacks {
    /// Runs a callback on this thread.
    pub(super) fn run(&self, callback: impl FnOnce()) {
        self.threads.lock().push(std::thread::current().id());
        let _inside = Inside { callbacks: self };
        callback();
    }

    /// Whether this thread is inside a callback.
    pub(super) fn is_inside(&self) -> bool {
        let threads = self.threads.lock();
        threads.contains(&std::thread::current().id())
    }
}

struct Inside<'a> {
    callbacks: &'a Callbacks,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut threads = self.callbacks.threads.lock();
        let this = std::thread::current().id();
        if let Some(index) = threads.iter().rposition(|thread| *thread == this) {
            threads.swap_remove(index);
        }
    }
}
