//! Gathers entries in key order into a [`Corpus`], and takes their checksum on the way.
//!
//! The checksum is a SHA-256 over, for each entry, the key's length (u32), the value's length
//! (u64), both little-endian, the key and the value. The lengths make it depend on where an entry
//! ends.

use ppc_store::{Error, PpcKey, Result};
use sha2::{Digest, Sha256};

use super::{Corpus, Entry};
use crate::results::CorpusId;

/// A corpus in the making.
pub(super) struct Builder {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    raw_bytes: u64,
    checksum: Sha256,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            entries: Vec::new(),
            raw_bytes: 0,
            checksum: Sha256::new(),
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
        // A key has less than 64 KiB.
        self.checksum.update((encoded.len() as u32).to_le_bytes());
        self.checksum.update((value.len() as u64).to_le_bytes());
        self.checksum.update(encoded);
        self.checksum.update(value);
        self.bytes.extend_from_slice(value);
        self.entries.push(entry);
        self.raw_bytes += value.len() as u64;
        Ok(())
    }

    pub(super) fn finish(mut self, name: impl Into<String>) -> Corpus {
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
        let sha256 = self.checksum.finalize();
        Corpus {
            id: CorpusId {
                name: name.into(),
                sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
                files: self.entries.len() as u64,
                raw_bytes: self.raw_bytes,
            },
            bytes: self.bytes,
            entries: self.entries,
            raw_bytes: self.raw_bytes,
        }
    }
}
