//! What a source yields: files, and problems in place of files.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::hash::{ContentHash, HashKind, HashKinds, Hashes};
use crate::key::file_name;
use crate::text::Escaped;

/// A file, or what stands where a file should.
#[derive(Debug, Clone)]
pub enum SourceItem {
    /// A file that was read.
    File(SourceFile),
    /// A file that could not be, and why.
    Problem(Problem),
}

/// A file that a source holds.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its file name, without directories; empty if the input has none.
    pub name: Bytes,
    /// Its path as the input states it, where it does.
    pub path: Option<Bytes>,
    /// Its bytes.
    pub content: Bytes,
    /// The hashes that the input states, unchecked.
    pub stated: Vec<StatedHash>,
    /// Where it came from, for messages.
    pub origin: Origin,
}

impl SourceFile {
    /// A file known by its path.
    #[must_use]
    pub fn from_path(path: Bytes, content: Bytes, origin: Origin) -> Self {
        Self {
            name: path.slice_ref(file_name(&path)),
            path: Some(path),
            content,
            stated: Vec::new(),
            origin,
        }
    }
}

/// A hash that the input states for a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatedHash {
    /// A hash of a known kind.
    Known(ContentHash),
    /// 20 bytes, either sha1_git or sha1: the input does not tell.
    Either20([u8; 20]),
    /// 32 bytes, either sha256 or blake2s256: the input does not tell.
    Either32([u8; 32]),
    /// What stands in the place of a hash but is none, as it would be shown.
    Malformed(String),
}

impl StatedHash {
    /// The hashes that must be computed to check it.
    #[must_use]
    pub fn kinds(&self) -> HashKinds {
        match self {
            Self::Known(hash) => HashKinds::NONE.with(hash.kind()),
            Self::Either20(_) => HashKinds::NONE.with(HashKind::Sha1Git).with(HashKind::Sha1),
            Self::Either32(_) => HashKinds::NONE
                .with(HashKind::Sha256)
                .with(HashKind::Blake2s256),
            Self::Malformed(_) => HashKinds::NONE,
        }
    }

    /// Whether `computed`, which must hold [`StatedHash::kinds`], confirms it.
    #[must_use]
    pub fn is_confirmed_by(&self, computed: &Hashes) -> bool {
        match self {
            Self::Known(hash) => computed.get(hash.kind()) == Some(*hash),
            Self::Either20(bytes) => {
                computed.sha1_git.is_some_and(|hash| hash.0 == *bytes)
                    || computed.sha1.is_some_and(|hash| hash.0 == *bytes)
            }
            Self::Either32(bytes) => {
                computed.sha256.is_some_and(|hash| hash.0 == *bytes)
                    || computed.blake2s256.is_some_and(|hash| hash.0 == *bytes)
            }
            Self::Malformed(_) => false,
        }
    }
}

impl fmt::Display for StatedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(hash) => hash.fmt(f),
            Self::Either20(bytes) => {
                write!(f, "sha1_git or sha1 {}", crate::hash::Sha1(*bytes))
            }
            Self::Either32(bytes) => {
                write!(f, "sha256 or blake2s256 {}", crate::hash::Sha256(*bytes))
            }
            Self::Malformed(text) => write!(f, "malformed hash {text}"),
        }
    }
}

/// Where a file came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The source's label.
    pub source: Arc<str>,
    /// The place in it.
    pub place: Place,
}

/// A place in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The source itself, which is a single file.
    Whole,
    /// A path below a directory.
    Path(Bytes),
    /// A row of a Parquet file, the first being 0.
    Row(u64),
    /// A member of an archive.
    Member(Bytes),
    /// An object of a git repository, as hex.
    Object(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |bytes| Escaped { bytes, also: &[] };
        match &self.place {
            Place::Whole => f.write_str(&self.source),
            Place::Path(path) => {
                let slash = if self.source.ends_with('/') { "" } else { "/" };
                write!(f, "{}{slash}{}", self.source, escaped(path))
            }
            Place::Row(row) => write!(f, "{} row {row}", self.source),
            Place::Member(path) => write!(f, "{} member {}", self.source, escaped(path)),
            Place::Object(id) => write!(f, "{} object {id}", self.source),
        }
    }
}

/// Why something in a source did not become a file.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The class it is counted under.
    pub kind: ProblemKind,
    /// Where it is.
    pub origin: Origin,
    /// What is wrong, lowercase and on one line, without the place.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// Classes of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A link, device, socket or the like: by design no file to import.
    NotAFile,
    /// A row without content.
    NullContent,
    /// A file above the size limit.
    TooLarge,
    /// A file that cannot be read.
    Unreadable,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [
        Self::NotAFile,
        Self::NullContent,
        Self::TooLarge,
        Self::Unreadable,
    ];

    /// A short lowercase name, stable for machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAFile => "not-a-file",
            Self::NullContent => "null-content",
            Self::TooLarge => "too-large",
            Self::Unreadable => "unreadable",
        }
    }
}
