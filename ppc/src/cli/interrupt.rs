//! Ctrl-C and termination signals.
//!
//! A command that can stop at a clean point calls [`graceful`] and then asks [`requests`] now and
//! then; for every other command the first signal ends the process at once, which is safe at any
//! moment because the store is: what was acknowledged is there on the next open. The third signal
//! ends any command at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::failure::EXIT_INTERRUPTED;

static REQUESTS: AtomicUsize = AtomicUsize::new(0);
static GRACEFUL: AtomicBool = AtomicBool::new(false);

/// Signals at which even a graceful command ends at once.
const REQUESTS_MAX: usize = 3;

/// Installs the handler; called once, first thing.
pub(crate) fn install() {
    // Without a handler the default action remains, which ends the process: just as safe.
    let _ = ctrlc::set_handler(|| {
        let requests = REQUESTS.fetch_add(1, Ordering::SeqCst) + 1;
        if !GRACEFUL.load(Ordering::SeqCst) || requests >= REQUESTS_MAX {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
    });
}

/// From here on the command looks after signals itself.
pub(crate) fn graceful() {
    GRACEFUL.store(true, Ordering::SeqCst);
}

/// How often the user asked to stop.
pub(crate) fn requests() -> usize {
    REQUESTS.load(Ordering::SeqCst)
}
