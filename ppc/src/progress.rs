//! How long operations tell their caller how far they are, and ask whether to go on.

use std::ops::Range;
use std::path::PathBuf;

use crate::key::PpcKey;
#[cfg(feature = "transfer")]
use crate::source;

/// How far an operation is. Numbers only grow within a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Files done so far in this phase.
    pub files: u64,
    /// Raw bytes done so far in this phase.
    pub bytes: u64,
    /// Raw bytes of the whole phase, where known beforehand.
    pub bytes_total: Option<u64>,
}

impl Progress {
    /// The beginning of `phase`.
    #[must_use]
    pub fn start(phase: Phase, bytes_total: Option<u64>) -> Self {
        Self {
            phase,
            bytes_total,
            ..Self::default()
        }
    }
}

/// What an operation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Phase {
    /// Reading sources.
    #[default]
    Reading,
    /// Reading lists of names.
    ReadingNames,
    /// Writing what was read of them in order.
    SortingNames,
    /// Sorting, compressing and committing what was read.
    Committing,
    /// Merging what was committed in several runs.
    Merging,
    /// Writing to the sink.
    Writing,
    /// Counting keys.
    Counting,
    /// Checking tables, unit by unit.
    CheckingTables,
    /// Checking what is stored.
    Verifying,
    /// Collecting a sample of sources that were read once before.
    Sampling,
    /// Trying other options on a sample.
    Measuring,
    /// Copying what is readable.
    Salvaging,
    /// Finding contents whose keys are lost by their hashes.
    Matching,
}

impl Phase {
    /// A lowercase word for it, as progress lines begin.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::ReadingNames => "reading names",
            Self::SortingNames => "sorting names",
            Self::Committing => "committing",
            Self::Merging => "merging",
            Self::Writing => "writing",
            Self::Counting => "counting",
            Self::CheckingTables => "checking tables",
            Self::Verifying => "verifying",
            Self::Sampling => "sampling",
            Self::Measuring => "measuring",
            Self::Salvaging => "salvaging",
            Self::Matching => "matching",
        }
    }
}

/// Something about one item that did not stop the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Which sort of problem.
    pub kind: ProblemKind,
    /// Where it was met: a file, and where there is one a row, entry, object or key.
    pub origin: String,
    /// What is wrong.
    pub message: String,
    /// The damaged part of a file of the store, where there is one.
    pub place: Option<DamagedPlace>,
    /// The content concerned, where it is one.
    pub key: Option<PpcKey>,
}

/// A damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedPlace {
    /// The file.
    pub path: PathBuf,
    /// Which bytes of it, where known.
    pub bytes: Option<Range<u64>>,
    /// The keyspace that the file is of, where known.
    pub keyspace: Option<String>,
}

impl DamagedPlace {
    /// A part of the file `path`.
    #[must_use]
    pub fn new(path: PathBuf, bytes: Option<Range<u64>>, keyspace: Option<String>) -> Self {
        Self {
            path,
            bytes,
            keyspace,
        }
    }
}

impl Problem {
    /// A problem at `origin`.
    #[must_use]
    pub fn new(kind: ProblemKind, origin: impl ToString, message: impl Into<String>) -> Self {
        Self {
            kind,
            origin: origin.to_string(),
            message: message.into(),
            place: None,
            key: None,
        }
    }

    /// Names the damaged part of a file.
    #[must_use]
    pub fn at(mut self, place: DamagedPlace) -> Self {
        self.place = Some(place);
        self
    }

    /// Names the content concerned.
    #[must_use]
    pub fn of_content(mut self, key: PpcKey) -> Self {
        self.key = Some(key);
        self
    }
}

#[cfg(feature = "transfer")]
impl From<source::Problem> for Problem {
    fn from(problem: source::Problem) -> Self {
        let kind = ProblemKind::Source(problem.kind);
        Self::new(kind, problem.origin, problem.message)
    }
}

/// Sorts of problems, counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A stated hash is not the content's.
    HashMismatch,
    /// A source could not give the item.
    #[cfg(feature = "transfer")]
    Source(source::ProblemKind),
    /// A row of a list of names is none.
    BadNameRow,
    /// What was asked for is not in the store.
    Missing,
    /// The store could not take the item.
    Refused,
    /// Stored bytes are damaged, or an index and the contents disagree.
    Damage,
    /// A content cannot be had any more.
    Lost,
    /// Something about the store that is worth knowing, and no damage.
    Finding,
}

impl ProblemKind {
    /// A short lowercase name, stable for machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HashMismatch => "hash-mismatch",
            #[cfg(feature = "transfer")]
            Self::Source(kind) => kind.name(),
            Self::BadNameRow => "bad-name-row",
            Self::Missing => "missing",
            Self::Refused => "refused",
            Self::Damage => "damage",
            Self::Lost => "lost",
            Self::Finding => "finding",
        }
    }
}

/// Whether a long operation should go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Wish {
    /// Go on.
    #[default]
    GoOn,
    /// Take in nothing more, but finish and keep what was taken in.
    Finish,
    /// Stop now; what is not committed is lost.
    Abandon,
}

/// What watches a long operation. All methods may be called from several threads, often: an
/// implementation that prints should limit its own rate.
pub trait Observer: Send + Sync {
    /// The operation got this far.
    fn progress(&self, _progress: &Progress) {}
    /// One item went wrong; the operation goes on.
    fn problem(&self, _problem: &Problem) {}
    /// Asked between items.
    fn wish(&self) -> Wish {
        Wish::GoOn
    }
}

/// An observer that sees nothing and wants everything done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
