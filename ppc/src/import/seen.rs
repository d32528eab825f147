//! The contents met since the last commit, by hash, within a bound on memory.
//!
//! What was committed need not be remembered: the archive's index knows it.

use std::collections::HashSet;

use crate::hash::Sha1Git;

/// Bytes a hash takes in the set: itself and a control byte, at a load between 7/16 and 7/8, while
/// it grows with the smaller table beside it.
const BYTES_PER_HASH: usize = 72;

/// A set of hashes that knows when it is large enough.
pub(super) struct Seen {
    hashes: HashSet<Sha1Git>,
    count_max: usize,
}

impl Seen {
    /// A set that is full when it takes about `memory_bytes`.
    pub(super) fn new(memory_bytes: usize) -> Self {
        Self {
            hashes: HashSet::new(),
            count_max: (memory_bytes / BYTES_PER_HASH).max(1),
        }
    }

    /// Adds a hash; false if it was there.
    pub(super) fn insert(&mut self, hash: Sha1Git) -> bool {
        self.hashes.insert(hash)
    }

    /// Whether it should be cleared before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.hashes.len() >= self.count_max
    }

    pub(super) fn clear(&mut self) {
        // Keeps the table: the next segment grows to the same size.
        self.hashes.clear();
    }
}
