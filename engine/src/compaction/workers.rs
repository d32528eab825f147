//! The threads of the background: what each does until the store is closed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::executor::run_plan;
use super::scheduler::Next;
use crate::db::DbInner;
use crate::error::{Error, ErrorKind, Result};

const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);

/// When to try again after a failure.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// None while all is well, or when it is to be tried at once.
    pub(super) at: Option<Instant>,
    pause: Duration,
}

impl Retry {
    pub(super) fn failed(&mut self) {
        self.pause = (self.pause * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
        self.at = Some(Instant::now() + self.pause);
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

/// What a thread does again and again.
type Work = fn(&Arc<DbInner>, &mut Retry) -> Worked;

/// Starts a thread for flushes.
pub(super) fn start_flushing(db: &Arc<DbInner>) -> Result<JoinHandle<()>> {
    start(db, "ppc-flush".to_owned(), flush_work)
}

/// Starts the `index`-th thread for compactions.
pub(super) fn start_compacting(db: &Arc<DbInner>, index: usize) -> Result<JoinHandle<()>> {
    start(db, format!("ppc-compact-{index}"), compaction_work)
}

fn start(db: &Arc<DbInner>, name: String, work: Work) -> Result<JoinHandle<()>> {
    let inner = Arc::clone(db);
    let thread = std::thread::Builder::new().name(name);
    let thread = thread.spawn(move || work_until_stopped(&inner, work));
    thread.map_err(|error| {
        Error::new(ErrorKind::Io, "cannot start a background thread").with_source(error)
    })
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

fn work_until_stopped(db: &Arc<DbInner>, work: Work) {
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
    let ticket = match scheduler.next_job(db) {
        Next::Job(ticket) => ticket,
        none => {
            if matches!(none, Next::Nothing) {
                scheduler.release_hopeless_writers(db);
            }
            // While it looked for work here, this thread held tables that another may have wanted
            // to remove.
            db.purge_obsolete();
            return match none {
                Next::At(retry) => Worked::RetryAt(retry),
                _ => Worked::Idle,
            };
        }
    };
    // A second job may run beside this one.
    db.work().wake();
    let outcome = run_plan(db, &ticket, &ticket);
    scheduler.conclude(db, &ticket, outcome.map(drop));
    // Gives back what it reserved, which wakes others.
    drop(ticket);
    // The job's inputs were in use until now.
    db.purge_obsolete();
    Worked::Done
}
