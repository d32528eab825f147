//! Threads that help large multi-gets, shared by all of a store's.
//!
//! They are started when first wanted and end with the pool. A caller never depends on them: it
//! works on its own task list too, and helpers that come late find nothing left to do.

use std::sync::OnceLock;

use crossbeam_channel::{Sender, unbounded};

type Task = Box<dyn FnOnce() + Send>;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    threads: usize,
    tasks: OnceLock<Option<Sender<Task>>>,
}

impl WorkerPool {
    /// A pool of up to `threads` threads; none are started yet.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            tasks: OnceLock::new(),
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Hands a task to some thread, sooner or later. Does nothing where no thread can be had.
    pub(crate) fn submit(&self, task: impl FnOnce() + Send + 'static) {
        let tasks = self.tasks.get_or_init(|| start(self.threads));
        if let Some(tasks) = tasks {
            // Fails only once every thread has ended, and the caller does the work itself.
            let _ = tasks.send(Box::new(task));
        }
    }
}

/// Threads end when the sender is dropped. Nobody joins them: the task that holds the last handle
/// to a store may run on one of them.
fn start(threads: usize) -> Option<Sender<Task>> {
    let (sender, tasks) = unbounded::<Task>();
    let mut started = 0;
    for index in 0..threads {
        let tasks = tasks.clone();
        let thread = std::thread::Builder::new().name(format!("ppc-read-{index}"));
        let spawned = thread.spawn(move || tasks.iter().for_each(|task| task()));
        started += usize::from(spawned.is_ok());
    }
    (started > 0).then_some(sender)
}
