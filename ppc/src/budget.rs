//! A bound on the bytes in flight between threads, whatever the number of items.
//!
//! Who holds bytes holds a [`Permit`] for them; who wants more than is left waits. A request for
//! more than the whole budget waits until everything is back, and then gets the whole: one huge
//! file passes alone instead of never.
//!
//! Closing wakes everyone who waits, for good: the pipeline is coming down.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A shared budget. Clones share it.
#[derive(Clone)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    total: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    left: usize,
    closed: bool,
}

/// Bytes taken from a budget until dropped.
pub(crate) struct Permit {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                total,
                state: Mutex::new(State {
                    left: total,
                    closed: false,
                }),
                changed: Condvar::new(),
            }),
        }
    }

    /// Takes `bytes`, waiting until they are there; none once the budget is closed.
    pub(crate) fn take(&self, bytes: usize) -> Option<Permit> {
        let bytes = bytes.min(self.shared.total);
        let mut state = self.shared.state.lock();
        while state.left < bytes && !state.closed {
            self.shared.changed.wait(&mut state);
        }
        if state.closed {
            return None;
        }
        state.left -= bytes;
        Some(Permit {
            shared: Arc::clone(&self.shared),
            bytes,
        })
    }

    /// Refuses every request from now on.
    pub(crate) fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.state.lock().left += self.bytes;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_waits_until_the_bytes_are_back() {
        let budget = Budget::new(100);
        let first = budget.take(80).unwrap();
        let waiter = std::thread::spawn({
            let budget = budget.clone();
            move || budget.take(30).is_some()
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(first);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn a_request_beyond_the_total_gets_the_total() {
        let budget = Budget::new(10);
        let all = budget.take(1000).unwrap();
        assert_eq!(budget.shared.state.lock().left, 0);
        drop(all);
        assert_eq!(budget.shared.state.lock().left, 10);
    }

    #[test]
    fn closing_wakes_who_waits() {
        let budget = Budget::new(1);
        let held = budget.take(1);
        let waiter = std::thread::spawn({
            let budget = budget.clone();
            move || budget.take(1).is_none()
        });
        std::thread::sleep(Duration::from_millis(20));
        budget.close();
        assert!(waiter.join().unwrap());
        drop(held);
        assert!(budget.take(1).is_none());
    }
}
