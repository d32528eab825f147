//! The key index: which key block may hold a key. Binary-searched in place.
//!
//! ```text
//! ┌───────────┬──────────────────────────┬─────────────────────────────────┬───────────────┐
//! │ count u32 │ separator end u32 × count │ block offset u64 × (count + 1)  │ separators    │
//! └───────────┴──────────────────────────┴─────────────────────────────────┴───────────────┘
//! ```
//!
//! Key blocks lie back to back; the last offset is the end of the last. Separator i is at or after
//! every user key of block i, and before every user key of block i + 1 unless one user key's
//! versions run from one block into the next: then it is that user key. Separators ascend.

use std::ops::Range;

use crate::coding::{Cursor, put_u32, put_u64};
use crate::error::{Error, Result};

/// Collects the index while key blocks are written.
#[derive(Debug, Default)]
pub(crate) struct KeyIndexBuilder {
    separators: Vec<u8>,
    ends: Vec<u32>,
    offsets: Vec<u64>,
}

impl KeyIndexBuilder {
    /// Adds a block that starts at `offset`, whose last user key is `last`, and before whose
    /// successor's first user key, `next`, the separator must stay.
    pub(crate) fn add(&mut self, offset: u64, last: &[u8], next: Option<&[u8]>) -> Result<()> {
        let separator = next.map_or(last, |next| shortest_separator(last, next));
        self.separators.extend_from_slice(separator);
        let end = u32::try_from(self.separators.len())
            .map_err(|_| Error::limit("key index exceeds 4 GiB"))?;
        self.ends.push(end);
        self.offsets.push(offset);
        Ok(())
    }

    /// Encodes the index of key blocks that end at `end`.
    pub(crate) fn finish(self, end: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + 12 * self.ends.len() + self.separators.len());
        put_u32(&mut bytes, self.ends.len() as u32);
        for separator_end in &self.ends {
            put_u32(&mut bytes, *separator_end);
        }
        for offset in self.offsets.iter().chain(std::iter::once(&end)) {
            put_u64(&mut bytes, *offset);
        }
        bytes.extend_from_slice(&self.separators);
        bytes
    }
}

/// A short key at or after `last` and before `next`: a prefix of `next` where one is no longer than
/// `last`, else `last` itself, as when both are one user key.
fn shortest_separator<'a>(last: &'a [u8], next: &'a [u8]) -> &'a [u8] {
    let shared = super::key_block::shared_prefix(last, next);
    // Where `last` goes on after the shared prefix, `next[..=shared]` is greater than it; where
    // `next` goes on even after that, it is less than `next`.
    match next.get(..=shared) {
        Some(prefix) if prefix.len() <= last.len() && prefix.len() < next.len() => prefix,
        _ => last,
    }
}

/// An index over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyIndex<'a> {
    ends: &'a [u8],
    offsets: &'a [u8],
    separators: &'a [u8],
}

impl<'a> KeyIndex<'a> {
    /// Takes apart an index's bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let malformed = || Error::corruption("key index has a wrong length");
        let mut cursor = Cursor::new(bytes);
        let count = cursor.u32("key index count")? as usize;
        let ends_len = count.checked_mul(4).ok_or_else(malformed)?;
        let offsets_len = count
            .checked_add(1)
            .and_then(|offsets| offsets.checked_mul(8))
            .ok_or_else(malformed)?;
        let index = Self {
            ends: cursor.take(ends_len, "key index separator ends")?,
            offsets: cursor.take(offsets_len, "key index offsets")?,
            separators: cursor.rest(),
        };
        let named = match count {
            0 => 0,
            _ => index.separator_end(count - 1).ok_or_else(malformed)?,
        };
        if named != index.separators.len() {
            return Err(malformed());
        }
        Ok(index)
    }

    /// Number of key blocks.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() / 4
    }

    fn separator_end(&self, block: usize) -> Option<usize> {
        let bytes = self.ends.get(block * 4..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    }

    /// The block's separator.
    pub(crate) fn separator(&self, block: usize) -> Result<&'a [u8]> {
        let start = match block {
            0 => Some(0),
            _ => self.separator_end(block - 1),
        };
        start
            .zip(self.separator_end(block))
            .and_then(|(start, end)| self.separators.get(start..end))
            .ok_or_else(|| Error::corruption(format!("key index has no separator {block}")))
    }

    /// The bytes of the file that the block's unit fills.
    pub(crate) fn extent(&self, block: usize) -> Result<Range<u64>> {
        let offset = |index: usize| {
            let bytes = self.offsets.get(index * 8..)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*bytes))
        };
        match (offset(block), offset(block + 1)) {
            (Some(start), Some(end)) if start <= end => Ok(start..end),
            _ => Err(Error::corruption(format!(
                "key index has no extent of block {block}"
            ))),
        }
    }

    /// The first block that may hold `key` or a greater key; the block count if there is none.
    pub(crate) fn block_of(&self, key: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.separator(middle)? < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn separators_are_short_and_between() {
        assert_eq!(shortest_separator(b"apple", b"banana"), b"b");
        assert_eq!(shortest_separator(b"abc", b"abd"), b"abc");
        assert_eq!(shortest_separator(b"abc", b"abdx"), b"abd");
        assert_eq!(shortest_separator(b"ab", b"abc"), b"ab");
        assert_eq!(shortest_separator(b"ab", b"ab"), b"ab");
        assert_eq!(shortest_separator(b"", b"a"), b"");
        assert_eq!(shortest_separator(b"", b"aa"), b"");
    }

    proptest! {
        #[test]
        fn separators_separate(a: Vec<u8>, b: Vec<u8>) {
            let (last, next) = if a <= b { (a, b) } else { (b, a) };
            let separator = shortest_separator(&last, &next);
            prop_assert!(separator >= last.as_slice());
            prop_assert!(separator < next.as_slice() || last == next);
        }

        #[test]
        fn no_bytes_make_an_index_panic(bytes: Vec<u8>, key: Vec<u8>, block in 0usize..100) {
            if let Ok(index) = KeyIndex::new(&bytes) {
                let _ = index.block_of(&key);
                let _ = index.separator(block);
                let _ = index.extent(block);
            }
        }
    }

    #[test]
    fn an_index_finds_the_block_of_every_key() {
        let mut builder = KeyIndexBuilder::default();
        builder.add(10, b"b", Some(b"dd")).unwrap();
        builder.add(20, b"dd", Some(b"dd")).unwrap();
        builder.add(30, b"e", None).unwrap();
        let bytes = builder.finish(40);
        let index = KeyIndex::new(&bytes).unwrap();
        assert_eq!(index.len(), 3);
        for (key, block) in [("a", 0), ("b", 0), ("d", 0), ("dd", 1), ("e", 2), ("f", 3)] {
            assert_eq!(index.block_of(key.as_bytes()).unwrap(), block, "{key}");
        }
        assert_eq!(index.extent(2).unwrap(), 30..40);
        assert!(index.extent(3).is_err());
    }
}
