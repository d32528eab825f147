//! Gathers entries in key order into a [`Corpus`], and takes their checksum on the way.

use ppc_store::{Error, PpcKey, Result};
use sha2::{Digest, Sha256};

use super::{Corpus, Entry, hex};
use crate::results::CorpusId;

/// A corpus in the making.
pub(super) struct Builder {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    raw_bytes: u64,
    checksum: Checksum,
}

/// The checksum of a corpus: a SHA-256 over, for each entry in key order, the key's length (u32),
/// the value's length (u64), both little-endian, the key and the value. The lengths make it depend
/// on where an entry ends.
#[derive(Default)]
pub(super) struct Checksum(Sha256);

impl Checksum {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        // A key has less than 64 KiB.
        self.0.update((key.len() as u32).to_le_bytes());
        self.0.update((value.len() as u64).to_le_bytes());
        self.0.update(key);
        self.0.update(value);
    }

    /// The checksum, in lowercase hexadecimal.
    pub(super) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            entries: Vec::new(),
            raw_bytes: 0,
            checksum: Checksum::default(),
        }
    }

    /// Adds an entry, whose key must be greater than all before.
    pub(super) fn push(&mut self, key: &PpcKey, value: &[u8]) -> Result<()> {
        let last = self.entries.last().copied();
        let entry = Entry {
            key_at: self.bytes.len(),
            value_at: {
                key.encode_into(&mut self.bytes);
                self.bytes.len()
            },
        };
        let encoded = &self.bytes[entry.key_at..];
        if last.is_some_and(|last| &self.bytes[last.key_at..last.value_at] >= encoded) {
            return Err(Error::invalid_input(format!(
                "key {key} does not come after the one before it"
            )));
        }
        self.checksum.add(encoded, value);
        self.bytes.extend_from_slice(value);
        self.entries.push(entry);
        self.raw_bytes += value.len() as u64;
        Ok(())
    }

    pub(super) fn finish(mut self, name: impl Into<String>) -> Corpus {
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
        Corpus {
            id: CorpusId {
                name: name.into(),
                sha256: self.checksum.finish(),
                files: self.entries.len() as u64,
                raw_bytes: self.raw_bytes,
            },
            bytes: self.bytes,
            entries: self.entries,
            raw_bytes: self.raw_bytes,
        }
    }
}
