//! The one error type: what kind of failure, where, and what to do about it.
//!
//! Callers act on [`ErrorKind`]; people read the message. An error names the file, the offset and
//! the keyspace as far as they are known where it is raised, and outer layers fill in what they
//! know (see [`Error::at_path`]), so the innermost place never needs a path passed down to it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, as far as a caller can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused a read or write. Retrying may help; see the source.
    Io,
    /// Bytes on disk are not what was written. Other keys stay readable: run `verify`, then
    /// `salvage` if the damage is confirmed.
    Corruption,
    /// The disk or quota is full. Reads go on; writes resume once there is room.
    NoSpace,
    /// Another process holds the store, in a way that excludes what was asked.
    Locked,
    /// A store, file or keyspace that was named does not exist. (A missing *key* is no error:
    /// gets return `Option`.)
    NotFound,
    /// The caller's argument is wrong; the store is as it was.
    InvalidInput,
    /// A format version, feature or option this build does not know.
    Unsupported,
    /// A documented limit (key, value, batch or table size) would be exceeded.
    Limit,
    /// The caller cancelled the operation; nothing of it remains.
    Cancelled,
    /// The store was opened read-only, or lies on a read-only file system.
    ReadOnly,
    /// An earlier failure left the store unable to accept writes; reopen it. The source is that
    /// earlier failure's message.
    Failed,
    /// The store was closed.
    Closed,
}

impl ErrorKind {
    /// A short lowercase name, stable for machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Corruption => "corruption",
            Self::NoSpace => "no-space",
            Self::Locked => "locked",
            Self::NotFound => "not-found",
            Self::InvalidInput => "invalid-input",
            Self::Unsupported => "unsupported",
            Self::Limit => "limit",
            Self::Cancelled => "cancelled",
            Self::ReadOnly => "read-only",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }
}

/// An error with its kind, place, remedy and cause. One pointer wide.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    keyspace: Option<String>,
    remedy: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is lowercase, one line, without a full stop.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            path: None,
            offset: None,
            keyspace: None,
            remedy: None,
            source: None,
        }))
    }

    /// Shorthand for [`ErrorKind::Corruption`].
    #[must_use]
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// Shorthand for [`ErrorKind::InvalidInput`].
    #[must_use]
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Shorthand for [`ErrorKind::Limit`].
    #[must_use]
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// Wraps an I/O error met while doing `action` ("open", "append to", ...) on `path`.
    #[must_use]
    pub fn io(action: &str, path: &Path, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::NoSpace
            }
            std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, format!("cannot {action} file")).at_path(path);
        if kind == ErrorKind::NoSpace {
            error = error.with_remedy("free some space and try again; nothing was lost");
        }
        error.with_source(source)
    }

    /// Names the file, unless an inner layer already did.
    #[must_use]
    pub fn at_path(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Names the byte offset in the file, unless an inner layer already did.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the keyspace, unless an inner layer already did.
    #[must_use]
    pub fn in_keyspace(mut self, keyspace: &str) -> Self {
        self.0.keyspace.get_or_insert_with(|| keyspace.to_owned());
        self
    }

    /// Says what the user can do, as an imperative sentence without a full stop.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy.get_or_insert_with(|| remedy.into());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What failed, as far as a caller can act on it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message alone, without place, remedy and cause.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned, where known.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The byte offset in that file, where known.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The keyspace concerned, where known.
    #[must_use]
    pub fn keyspace(&self) -> Option<&str> {
        self.0.keyspace.as_deref()
    }

    /// What the user can do, where there is something.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }

    /// Another error of the same kind and words, for a failure that several callers must see (a
    /// group commit, a latched failure). The cause is flattened to its message.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            message: self.0.message.clone(),
            path: self.0.path.clone(),
            offset: self.0.offset,
            keyspace: self.0.keyspace.clone(),
            remedy: self.0.remedy.clone(),
            source: self
                .0
                .source
                .as_ref()
                .map(|source| source.to_string().into()),
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        f.write_str(&inner.message)?;
        if let Some(keyspace) = &inner.keyspace {
            write!(f, " in keyspace {keyspace:?}")?;
        }
        if let Some(path) = &inner.path {
            write!(f, ": {}", path.display())?;
            if let Some(offset) = inner.offset {
                write!(f, " at offset {offset}")?;
            }
        }
        if let Some(source) = &inner.source {
            write!(f, ": {source}")?;
        }
        if let Some(remedy) = &inner.remedy {
            write!(f, " ({remedy})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_place_cause_and_remedy_in_one_line() {
        let error = Error::corruption("frame checksum mismatch")
            .at_path(Path::new("s/000007.table"))
            .at_offset(4096)
            .in_keyspace("contents")
            .with_remedy("run verify");
        assert_eq!(
            error.to_string(),
            "frame checksum mismatch in keyspace \"contents\": s/000007.table at offset 4096 (run verify)"
        );
    }

    #[test]
    fn the_innermost_place_wins() {
        let error = Error::corruption("bad").at_offset(1).at_offset(2);
        assert_eq!(error.offset(), Some(1));
    }

    #[test]
    fn a_full_disk_is_told_apart_from_other_io() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(
            Error::io("write", Path::new("x"), full).kind(),
            ErrorKind::NoSpace
        );
    }
}
