//! The threads that flush.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::inner::DbInner;
use crate::error::{Error, ErrorKind, Result};

/// Background threads of an open store.
#[derive(Debug)]
pub(crate) struct Background {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    /// No threads, for a store that is only read.
    pub(crate) fn none() -> Self {
        Self {
            threads: Mutex::default(),
        }
    }

    pub(crate) fn start(db: &Arc<DbInner>) -> Result<Self> {
        let inner = Arc::clone(db);
        let thread = std::thread::Builder::new().name("ppc-flush".to_owned());
        let thread = thread
            .spawn(move || flush_until_stopped(&inner))
            .map_err(|error| {
                Error::new(ErrorKind::Io, "cannot start a background thread").with_source(error)
            })?;
        Ok(Self {
            threads: Mutex::new(vec![thread]),
        })
    }

    /// Waits for every thread to end; the caller has told them to.
    pub(crate) fn join(&self) {
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A thread that panicked has said so; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn flush_until_stopped(db: &DbInner) {
    loop {
        let seen = db.work().generation();
        // After a failure, whoever waits for room asks again.
        while let Ok(true) = db.flush_next() {}
        if !db.work().wait(seen) {
            return;
        }
    }
}
