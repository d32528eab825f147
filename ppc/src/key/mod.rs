//! The PPC key: where a content stands in the store, and so beside which others it is compressed.
//!
//! A key is a file name and a content hash. The name falls into an extension and a stem, and keys
//! are ordered by (extension, stem, hash): files of one language first, files of one name next,
//! which is what makes neighbours alike.
//!
//! Names are any bytes. The extension is what follows the last dot; where nothing does, it is
//! empty and the stem is the whole name:
//!
//! | name | extension | stem |
//! |---|---|---|
//! | `doxygen.h` | `h` | `doxygen` |
//! | `a.tar.gz` | `gz` | `a.tar` |
//! | `.gitignore` | `gitignore` | (empty) |
//! | `Makefile` | (empty) | `Makefile` |
//! | `notes.` | (empty) | `notes.` |
//!
//! Invariants:
//! 1. Names and pairs (extension, stem) correspond one to one: a pair with an empty extension has
//!    a stem that holds no dot or ends in one, and an extension holds no dot.
//! 2. The binary form ([`PpcKey::encode`]) orders like the triple and decodes to the same key;
//!    bytes that no key encodes to are refused.
//! 3. It is no longer than the engine's [`KEY_BYTES_MAX`], else there is no such key.
//!
//! Keys are plain values without interior state, for use from any thread.

mod binary;
#[cfg(test)]
mod tests;
mod text;

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;
use ppc_engine::{Error, KEY_BYTES_MAX, Result};

use crate::hash::Sha1Git;
use crate::swhid::Swhid;
use crate::text::quote;

pub use binary::{prefix_of_ext, prefix_of_name, prefix_of_stem_start};

/// A file name and a content hash, ordered by (extension, stem, hash).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PpcKey {
    name: Bytes,
    hash: Sha1Git,
}

impl PpcKey {
    /// The key of the content with this hash under this file name.
    ///
    /// Fails with a limit error if the name is so long that the key would pass 64 KiB - 1 once
    /// encoded.
    pub fn new(name: impl Into<Bytes>, hash: Sha1Git) -> Result<Self> {
        let name = name.into();
        let encoded_bytes = binary::encoded_bytes(&name);
        if encoded_bytes > KEY_BYTES_MAX {
            return Err(Error::limit(format!(
                "file name {} of {} bytes makes a key of {encoded_bytes} bytes; keys have at most \
                 {KEY_BYTES_MAX}",
                quote(&name),
                name.len()
            ))
            .with_remedy("shorten the file name"));
        }
        Ok(Self { name, hash })
    }

    /// The key of `content` under this file name.
    pub fn of(name: impl Into<Bytes>, content: &[u8]) -> Result<Self> {
        Self::new(name, Sha1Git::of(content))
    }

    /// The file name.
    #[must_use]
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// What follows the name's last dot.
    #[must_use]
    pub fn ext(&self) -> &[u8] {
        split_name(&self.name).0
    }

    /// What precedes that dot, or the whole name.
    #[must_use]
    pub fn stem(&self) -> &[u8] {
        split_name(&self.name).1
    }

    /// The content's hash.
    #[must_use]
    pub fn hash(&self) -> Sha1Git {
        self.hash
    }

    /// The content's SWHID.
    #[must_use]
    pub fn swhid(&self) -> Swhid {
        Swhid::content(self.hash)
    }
}

impl Ord for PpcKey {
    fn cmp(&self, other: &Self) -> Ordering {
        split_name(&self.name)
            .cmp(&split_name(&other.name))
            .then_with(|| self.hash.cmp(&other.hash))
    }
}

impl PartialOrd for PpcKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for PpcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name's (extension, stem).
#[must_use]
pub fn split_name(name: &[u8]) -> (&[u8], &[u8]) {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    match dot.and_then(|dot| name.split_at_checked(dot)) {
        Some((stem, [_, ext @ ..])) if !ext.is_empty() => (ext, stem),
        _ => (&[], name),
    }
}

/// The name with this (extension, stem); none if no name has them.
#[must_use]
pub fn join_name(ext: &[u8], stem: &[u8]) -> Option<Vec<u8>> {
    let mut name = stem.to_vec();
    if !ext.is_empty() {
        name.push(b'.');
        name.extend_from_slice(ext);
    }
    (split_name(&name) == (ext, stem)).then_some(name)
}

/// The bytes that a piece of a key's text stands for; none if a `%` in it is not followed by two hex
/// digits.
#[must_use]
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    crate::text::unescape(text).map(std::borrow::Cow::into_owned)
}

/// The file name at the end of a path: what follows the last `/`. A backslash is a byte like any
/// other, since most paths that reach us come from systems where it is.
#[must_use]
pub fn file_name(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.map_or(path, |slash| path.get(slash + 1..).unwrap_or_default())
}
