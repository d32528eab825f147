//! The frame directory: from a frame's ordinal to its place in the file.
//!
//! ```text
//! ┌──────────┬────────────────────────────────────────────────┐
//! │ width u8 │ offset of frame 0 … frame n-1, end of frame n-1 │   each `width` bytes
//! └──────────┴────────────────────────────────────────────────┘
//! ```
//!
//! Frames lie back to back in ordinal order, so n + 1 offsets give every frame's extent and one
//! positioned read fetches it. The width is the fewest bytes that hold the last offset: four for
//! nearly every table, which matters with blocks of a few KiB. Read in place, never copied out.

use std::ops::Range;

use crate::error::{Error, Result};

/// Encodes the directory of frames that start at `starts` and end at `end`.
pub(crate) fn encode_directory(starts: &[u64], end: u64) -> Vec<u8> {
    let width = (8 - end.leading_zeros() as usize / 8).max(1);
    let mut bytes = Vec::with_capacity(1 + (starts.len() + 1) * width);
    bytes.push(width as u8);
    for offset in starts.iter().chain(std::iter::once(&end)) {
        bytes.extend(offset.to_le_bytes().iter().take(width));
    }
    bytes
}

/// A directory over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameDirectory<'a> {
    width: usize,
    offsets: &'a [u8],
    len: usize,
}

impl<'a> FrameDirectory<'a> {
    /// Takes apart a directory's bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let (&width, offsets) = bytes
            .split_first()
            .ok_or_else(|| Error::corruption("frame directory is empty"))?;
        let width = usize::from(width);
        if !(1..=8).contains(&width) || offsets.is_empty() || offsets.len() % width != 0 {
            return Err(Error::corruption("frame directory has a wrong length"));
        }
        Ok(Self {
            width,
            offsets,
            len: offsets.len() / width - 1,
        })
    }

    /// Number of frames.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn offset(&self, index: usize) -> Option<u64> {
        let start = index.checked_mul(self.width)?;
        let bytes = self.offsets.get(start..start + self.width)?;
        let mut word = [0; 8];
        word.get_mut(..self.width)?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }

    /// The bytes of the file that the frame's unit fills.
    pub(crate) fn extent(&self, ordinal: u32) -> Result<Range<u64>> {
        let index = ordinal as usize;
        match (self.offset(index), self.offset(index + 1)) {
            (Some(start), Some(end)) if start <= end => Ok(start..end),
            (Some(_), Some(_)) => Err(Error::corruption(format!(
                "frame directory runs backwards at frame {ordinal}"
            ))),
            _ => Err(Error::corruption(format!(
                "frame {ordinal} is named, but the table has {}",
                self.len
            ))),
        }
    }

    /// Where the value area begins and ends.
    pub(crate) fn value_area(&self) -> Option<Range<u64>> {
        Some(self.offset(0)?..self.offset(self.len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extents_round_trip(mut offsets in prop::collection::vec(any::<u64>(), 1..50)) {
            offsets.sort_unstable();
            let end = *offsets.last().unwrap();
            let starts = &offsets[..offsets.len() - 1];
            let bytes = encode_directory(starts, end);
            let directory = FrameDirectory::new(&bytes).unwrap();
            prop_assert_eq!(directory.len(), starts.len());
            for (ordinal, pair) in offsets.windows(2).enumerate() {
                prop_assert_eq!(directory.extent(ordinal as u32).unwrap(), pair[0]..pair[1]);
            }
            prop_assert!(directory.extent(starts.len() as u32).is_err());
            prop_assert!(directory.extent(u32::MAX).is_err());
        }

        #[test]
        fn no_bytes_make_a_directory_panic(bytes: Vec<u8>, ordinal: u32) {
            if let Ok(directory) = FrameDirectory::new(&bytes) {
                let _ = directory.extent(ordinal);
                let _ = directory.value_area();
            }
        }
    }

    #[test]
    fn small_tables_take_few_bytes_a_frame() {
        assert_eq!(encode_directory(&[24], 1000).len(), 1 + 2 * 2);
        assert_eq!(encode_directory(&[], 24).len(), 2);
        assert_eq!(encode_directory(&[], u64::MAX).len(), 9);
    }
}
