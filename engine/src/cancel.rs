//! How a caller tells a long operation to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Stops the operations it was given to. Clones are one token: any of them, from any thread or a
/// signal handler, cancels for all.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that nobody has cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end. Operations notice soon, undo what they did and fail with
    /// [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked for the end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once someone asked for the end of what `what` names.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::new(
                ErrorKind::Cancelled,
                format!("{what} was cancelled; nothing of it remains"),
            ));
        }
        Ok(())
    }
}
