//! Where files come from: Parquet files, directories, tar archives, git repositories.
//!
//! A [`Source`] pushes every file it holds, as bytes, to a callback: name, content, the hashes that
//! the input states, and where it came from. What cannot be taken over (a null content, a file
//! without read permission) is pushed as a [`Problem`] beside the files, so that one bad row never
//! ends an import and never goes unreported. Only what makes the rest of the input unreadable is an
//! error.
//!
//! Invariants:
//! 1. Contents and names are the input's bytes: never decoded as text, never repaired.
//! 2. Nothing stated by the input is believed here: hashes are passed on for the importer to check.
//! 3. Contents are owned and not larger than [`SourceOptions::file_bytes_max`]; apart from them a
//!    source's memory is bounded as its own head says.
//!
//! A source is driven from one thread; its [`Progress`] may be watched from any other. To put a
//! queue between reading and what follows, send from the callback.

mod compressed;
mod detect;
mod directory;
#[cfg(feature = "git")]
mod git;
mod item;
mod parquet;
mod progress;
mod tar;
#[cfg(test)]
mod testing;

use std::path::PathBuf;
use std::str::FromStr;

use ppc_engine::{Error, Result, VALUE_BYTES_MAX};

use crate::text::quote;

pub(crate) use compressed::decompress;
pub use detect::{SourceSpec, open_source};
pub use directory::{DirectorySource, Excluded};
#[cfg(feature = "git")]
pub use git::GitSource;
pub use item::{Origin, Place, Problem, ProblemKind, SourceFile, SourceItem, StatedHash};
pub use parquet::{ColumnMapping, ParquetSource, panics_become_errors};
pub use progress::Progress;
pub use tar::TarSource;

/// Something that holds files.
pub trait Source: Send {
    /// What it is, for messages: the path it was opened from.
    fn label(&self) -> &str;

    /// How much it holds and how much of that was read; shared, so it can be watched meanwhile.
    fn progress(&self) -> &Progress;

    /// Pushes every file and problem to `each`, in the source's own order, once.
    ///
    /// An error of `each` ends the reading and is returned as it is: that is how a caller cancels.
    /// Called again, a source starts from its beginning.
    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()>;
}

/// What kind of input a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceFormat {
    /// Files below a directory, or a single file.
    Directory,
    /// A tar archive, plain or compressed.
    Tar,
    /// A Parquet file with a file in each row.
    Parquet,
    /// All blobs of a git repository.
    Git,
}

impl SourceFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Directory, Self::Tar, Self::Parquet, Self::Git];

    /// The name by which options and specs call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "dir",
            Self::Tar => "tar",
            Self::Parquet => "parquet",
            Self::Git => "git",
        }
    }
}

impl FromStr for SourceFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            Error::invalid_input(format!("unknown source format {}", quote(text.as_bytes())))
                .with_remedy("use one of dir, tar, parquet, git")
        })
    }
}

/// How sources are read.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The format of inputs whose [`SourceSpec`] names none; found out from the input if `None`.
    pub format: Option<SourceFormat>,
    /// Files with more bytes are reported as problems. At most the engine's [`VALUE_BYTES_MAX`].
    pub file_bytes_max: u64,
    /// Directories: leave out what `.gitignore` files exclude, and `.git` itself. Off by default.
    pub honour_gitignore: bool,
    /// Directories: take files and directories whose name begins with a dot. On by default.
    pub include_hidden: bool,
    /// Git: take every blob in the object database, reachable from a ref or not. Off by default.
    pub git_all_objects: bool,
    /// Parquet: which columns hold what; found out from their names if `None`.
    pub columns: Option<ColumnMapping>,
    /// Directories: what is left out wherever it is met, and reported. None by default.
    pub exclude: Vec<Excluded>,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            format: None,
            file_bytes_max: VALUE_BYTES_MAX as u64,
            honour_gitignore: false,
            include_hidden: true,
            git_all_objects: false,
            columns: None,
            exclude: Vec::new(),
        }
    }
}

/// Where a source was opened from, for its own messages.
#[derive(Debug, Clone)]
struct Input {
    path: PathBuf,
    label: std::sync::Arc<str>,
}

impl Input {
    fn new(path: PathBuf) -> Self {
        let label = path.display().to_string().into();
        Self { path, label }
    }

    fn origin(&self, place: Place) -> Origin {
        Origin {
            source: self.label.clone(),
            place,
        }
    }

    fn problem(&self, place: Place, kind: ProblemKind, message: impl Into<String>) -> SourceItem {
        SourceItem::Problem(Problem {
            kind,
            origin: self.origin(place),
            message: message.into(),
        })
    }

    /// The problem of a file with more bytes than the options allow.
    fn too_large(&self, place: Place, file_bytes: u64, file_bytes_max: u64) -> SourceItem {
        let plural = if file_bytes == 1 { "" } else { "s" };
        let message =
            format!("{file_bytes} byte{plural}, more than the limit of {file_bytes_max}, left out");
        self.problem(place, ProblemKind::TooLarge, message)
    }
}
