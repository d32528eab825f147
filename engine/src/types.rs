//! The small words that every layer shares: sequence numbers, file numbers, entry kinds, key
//! ranges, and the limits of the format.

use std::fmt;
use std::ops::Bound;

/// Longest key, in bytes. A key's length is stored in 16 bits inside key blocks.
pub const KEY_BYTES_MAX: usize = 64 * 1024 - 1;

/// Longest value, in bytes: 1 GiB. Offsets inside a frame are 32 bits.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// Largest batch, in bytes of keys and values: one WAL record carries it whole.
pub const BATCH_BYTES_MAX: usize = (1 << 30) + (64 << 20);

/// The position of a write in the store's single history. Every batch entry has one; 0 is older
/// than any write and stands for "visible to every snapshot".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Newer than any write: 2^56 - 1, so that seven bytes always suffice.
    pub const MAX: Self = Self((1 << 56) - 1);
    /// Older than any write.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number in a store file's name; never used twice within a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileNumber(pub u64);

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// A random 64-bit id written inside each file and mixed into each of its checksums, so that a
/// block that strayed from another file fails like a block that rotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub u64);

impl FileId {
    /// A fresh random id.
    ///
    /// Taken from the standard library's hasher keys, which the operating system seeds; ids need
    /// to differ between files, not to be secret.
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            hasher.write_u128(now.as_nanos());
        }
        Self(hasher.finish())
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The id of a keyspace inside one store, as WAL records and the manifest name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u32);

/// What an entry does to its key. 0 is reserved so that zeroed bytes never decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has no value from here on.
    Delete = 1,
    /// The key has this value from here on.
    Put = 2,
}

impl EntryKind {
    /// The kind with this code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Delete),
            2 => Some(Self::Put),
            _ => None,
        }
    }
}

/// A range of keys with owned bounds, as range deletes, iterators and compactions take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Where the range begins.
    pub start: Bound<Vec<u8>>,
    /// Where the range ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self {
            start: Bound::Unbounded,
            end: Bound::Unbounded,
        }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let end = prefix_successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self {
            start: Bound::Included(prefix.to_vec()),
            end,
        }
    }

    /// Copies any range of borrowed or owned keys.
    pub fn new<K: AsRef<[u8]>>(range: impl std::ops::RangeBounds<K>) -> Self {
        let own = |bound: Bound<&K>| match bound {
            Bound::Included(key) => Bound::Included(key.as_ref().to_vec()),
            Bound::Excluded(key) => Bound::Excluded(key.as_ref().to_vec()),
            Bound::Unbounded => Bound::Unbounded,
        };
        Self {
            start: own(range.start_bound()),
            end: own(range.end_bound()),
        }
    }

    /// Whether `key` lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let after_start = match &self.start {
            Bound::Included(start) => key >= start.as_slice(),
            Bound::Excluded(start) => key > start.as_slice(),
            Bound::Unbounded => true,
        };
        let before_end = match &self.end {
            Bound::Included(end) => key <= end.as_slice(),
            Bound::Excluded(end) => key < end.as_slice(),
            Bound::Unbounded => true,
        };
        after_start && before_end
    }
}

/// The smallest key greater than every key with this prefix; none if the prefix is all 0xFF.
#[must_use]
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut successor = prefix.get(..=kept)?.to_vec();
    if let Some(last) = successor.last_mut() {
        *last += 1;
    }
    Some(successor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_range_holds_exactly_its_keys() {
        let range = KeyRange::prefix(b"a\xff");
        assert!(range.contains(b"a\xff"));
        assert!(range.contains(b"a\xff\xff\xff"));
        assert!(!range.contains(b"b"));
        assert!(!range.contains(b"a\xfe"));
        assert_eq!(KeyRange::prefix(b"\xff\xff").end, Bound::Unbounded);
        assert_eq!(KeyRange::prefix(b"").end, Bound::Unbounded);
    }

    #[test]
    fn file_ids_differ() {
        assert_ne!(FileId::random(), FileId::random());
    }
}
