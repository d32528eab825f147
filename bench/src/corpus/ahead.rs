//! Downloads that run ahead of the one who unpacks.
//!
//! Some threads get archives in list order, a few archives ahead of the one that was taken last; so
//! a corpus of a given size downloads little that it does not use.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use ppc_store::{Error, ErrorKind, Result};

use super::downloads::Download;
use super::list::PinnedArchive;

/// Archives that each thread may be ahead.
const AHEAD_OF_A_THREAD: usize = 3;

/// Gets one archive.
pub(super) type Get = Box<dyn Fn(&PinnedArchive) -> Result<Download> + Send + Sync>;

/// A queue of downloads in list order. Dropping it waits for the downloads that are running.
pub(super) struct Ahead {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    archives: Vec<PinnedArchive>,
    get: Get,
    ahead_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next archive to get.
    next: usize,
    /// Archives before this one were taken.
    taken: usize,
    ready: BTreeMap<usize, Result<Download>>,
    is_over: bool,
}

impl Ahead {
    /// Begins to get `archives` by `threads` threads.
    pub(super) fn start(archives: Vec<PinnedArchive>, threads: usize, get: Get) -> Self {
        let shared = Arc::new(Shared {
            archives,
            get,
            ahead_max: threads * AHEAD_OF_A_THREAD,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let threads = (0..threads.max(1))
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.work())
            })
            .collect();
        Self { shared, threads }
    }

    /// The `i`-th archive and its download, once it is there; none after the last. Taken in order;
    /// one that was taken before is got anew, from the cache.
    pub(super) fn take(&self, i: usize) -> Option<(&PinnedArchive, Result<Download>)> {
        let archive = self.shared.archives.get(i)?;
        let mut state = self.shared.state.lock();
        if i < state.taken {
            drop(state);
            return Some((archive, (self.shared.get)(archive)));
        }
        state.taken = i;
        self.shared.changed.notify_all();
        loop {
            if let Some(download) = state.ready.remove(&i) {
                state.taken = i + 1;
                self.shared.changed.notify_all();
                return Some((archive, download));
            }
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            while !state.is_over && state.next > state.taken + self.ahead_max {
                self.changed.wait(&mut state);
            }
            let i = state.next;
            let Some(archive) = self.archives.get(i).filter(|_| !state.is_over) else {
                return;
            };
            state.next += 1;
            drop(state);
            // Whoever waits for this archive must hear of it, whatever happens here.
            let download = catch_unwind(AssertUnwindSafe(|| (self.get)(archive)));
            let download = download.unwrap_or_else(|_| {
                let message = format!("the download of {archive} ended before its work was done");
                Err(Error::new(ErrorKind::Failed, message))
            });
            self.state.lock().ready.insert(i, download);
            self.changed.notify_all();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // Panics were caught where they could happen.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::client::Client;
    use super::super::list::Pin;
    use super::*;

    fn archives(count: usize) -> Vec<PinnedArchive> {
        (0..count)
            .map(|i| PinnedArchive {
                client: Client::Npm,
                name: i.to_string(),
                python: None,
                pin: Pin {
                    version: "1".to_owned(),
                    bytes: None,
                    sha256: None,
                },
            })
            .collect()
    }

    fn download(name: &str) -> Download {
        Download {
            path: name.into(),
            bytes: 1,
            sha256: String::new(),
        }
    }

    #[test]
    fn archives_come_in_order_and_errors_in_their_place() {
        let get = |archive: &PinnedArchive| match archive.name.as_str() {
            "7" => Err(Error::invalid_input("no seven")),
            "9" => panic!("a defect"),
            name => Ok(download(name)),
        };
        let ahead = Ahead::start(archives(30), 3, Box::new(get));
        for i in 0..30 {
            let (archive, got) = ahead.take(i).unwrap();
            assert_eq!(archive.name, i.to_string());
            assert_eq!(got.is_err(), i == 7 || i == 9);
        }
        assert!(ahead.take(30).is_none());
        // Again from the beginning.
        assert_eq!(ahead.take(0).unwrap().1.unwrap(), download("0"));
    }

    #[test]
    fn no_more_is_got_than_a_few_ahead() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let get = move |archive: &PinnedArchive| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(download(&archive.name))
        };
        let ahead = Ahead::start(archives(1_000), 2, Box::new(get));
        ahead.take(0).unwrap().1.unwrap();
        drop(ahead);
        // One taken, six ahead, and one more in each thread's hands.
        assert!(count.load(Ordering::Relaxed) <= 10);
    }
}
