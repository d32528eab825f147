//! Corpora: the keys and values that experiments work on.
//!
//! A [`Corpus`] is read from a Parquet file that `ppc-bench corpus` or `ppc export` wrote, in whole
//! or as a [sample](Corpus::load_prefix), or made up by [`Corpus::generate`].
//!
//! `ppc-bench corpus` makes such files:
//!
//! ```text
//! list ─▶ ahead ─▶ downloads ─▶ client      archives, in list order, a few ahead
//!   └──▶ gather ─▶ wheel, or a tar source   their files
//!           └───▶ selected                  those of the language, up to a size
//!                    └─▶ write ─▶ features  each once, in key order, as Parquet
//! ```
//!
//! Invariants:
//! 1. Keys are binary PPC keys (see [`ppc_store::key`]), strictly ascending: no key twice.
//! 2. The hash in a key is its value's.
//! 3. Equal entries give equal [`CorpusId`]s, wherever they were read from.
//!
//! A corpus does not change once it is there, so any number of threads may read it.

mod ahead;
mod builder;
mod client;
pub mod command;
mod downloads;
mod features;
mod gather;
mod language;
mod list;
mod load;
mod sample;
mod scratch;
mod selected;
mod size;
mod synthetic;
#[cfg(test)]
mod tests;
mod watch;
#[cfg(feature = "zip")]
mod wheel;
mod write;

use crate::results::CorpusId;

pub use features::{ExtensionFeatures, Features, Sizes};
pub use language::Language;
pub use synthetic::CorpusOptions;

use builder::Builder;

/// Keys and values of a corpus in key order, in memory.
///
/// All of them lie in one buffer, each key before its value: a corpus of several GiB is one
/// allocation, and costs 16 bytes an entry beside its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Corpus {
    bytes: Vec<u8>,
    /// Where each entry begins, ascending.
    entries: Vec<Entry>,
    raw_bytes: u64,
    id: CorpusId,
}

/// Where an entry lies in the buffer; it ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    key_at: usize,
    value_at: usize,
}

impl Corpus {
    /// What the corpus is: its name, and the checksum over its keys and values.
    #[must_use]
    pub fn id(&self) -> &CorpusId {
        &self.id
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The `i`-th key in key order, from 0. Panics if there are not that many.
    #[must_use]
    pub fn key(&self, i: usize) -> &[u8] {
        let entry = self.entries[i];
        &self.bytes[entry.key_at..entry.value_at]
    }

    /// The value of the `i`-th key. Panics if there are not that many.
    #[must_use]
    pub fn value(&self, i: usize) -> &[u8] {
        let end = self.entries.get(i + 1);
        let end = end.map_or(self.bytes.len(), |next| next.key_at);
        &self.bytes[self.entries[i].value_at..end]
    }

    /// Keys and values in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|i| (self.key(i), self.value(i)))
    }

    /// Bytes of all values.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }
}

impl std::fmt::Debug for Corpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Corpus")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Bytes in lowercase hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
