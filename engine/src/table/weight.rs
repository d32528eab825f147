//! How many bytes of a table a range of keys takes.

use std::ops::Bound;
use std::sync::Arc;

use super::context::IterContext;
use super::iter::TableIter;
use super::reader::TableReader;
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::options::Layout;
use crate::types::{KeyRange, SeqNo};

/// Entries looked at, from the bound on, for one whose value lies in a frame. Keyspaces either
/// keep their values in frames or do not; where they mix, a key block has some of both.
const STEPS_MAX: usize = 64;

impl TableReader {
    /// About how many bytes of the file the keys of `range` take: the values to within a frame,
    /// the keys to within half a key block. Reads at most two key blocks, and no frame. Of a
    /// clustered table: the share of its keys.
    pub(crate) fn approximate_bytes(
        self: &Arc<Self>,
        range: &KeyRange,
        context: IterContext,
    ) -> Result<u64> {
        if let Layout::Clustered(_) = self.properties().layout {
            // Values do not lie in the order of their keys: all that can be told is how many there
            // are.
            return self.share_of_key_blocks(range, self.stored_bytes());
        }
        let mut iter = self.iter(context);
        let low = self.values_before(&range.start, 0, &mut iter)?;
        let high =
            self.values_before(&range.end, self.properties().stored_value_bytes, &mut iter)?;
        Ok(high.saturating_sub(low) + self.key_bytes(range)?)
    }

    /// Bytes of the value area before the values of the keys from `bound` on.
    fn values_before(
        &self,
        bound: &Bound<Vec<u8>>,
        unbounded: u64,
        iter: &mut TableIter,
    ) -> Result<u64> {
        let (Bound::Included(key) | Bound::Excluded(key)) = bound else {
            return Ok(unbounded);
        };
        let properties = self.properties();
        let directory = self.directory()?;
        let Some(values) = directory.value_area() else {
            return Ok(0);
        };
        iter.seek(key, SeqNo::MAX)?;
        for _ in 0..STEPS_MAX {
            if !iter.valid() {
                break;
            }
            if let Some(place) = iter.frame_place() {
                let frame = directory.extent(place.frame)?;
                // Values shrink within their frame as all values do within the table.
                let framed = properties
                    .raw_value_bytes
                    .saturating_sub(properties.inline_value_bytes);
                let before = u128::from(place.offset) * u128::from(properties.stored_value_bytes)
                    / u128::from(framed.max(1));
                let before = u64::try_from(before).unwrap_or(u64::MAX);
                let within = before.min(frame.end - frame.start);
                return Ok(frame.start.saturating_sub(values.start) + within);
            }
            iter.next()?;
        }
        Ok(properties.stored_value_bytes)
    }

    /// The share of everything but values that the key blocks of the range make up.
    fn key_bytes(&self, range: &KeyRange) -> Result<u64> {
        let values = self.properties().stored_value_bytes;
        self.share_of_key_blocks(range, self.stored_bytes().saturating_sub(values))
    }

    /// The share of `bytes` that the range's key blocks are of all.
    fn share_of_key_blocks(&self, range: &KeyRange, bytes: u64) -> Result<u64> {
        let index = self.index()?;
        let blocks = index.len();
        let block_of = |bound: &Bound<Vec<u8>>, unbounded| match bound {
            Bound::Unbounded => Ok(unbounded),
            Bound::Included(key) | Bound::Excluded(key) => index.block_of(key),
        };
        let (low, high) = (block_of(&range.start, 0)?, block_of(&range.end, blocks)?);
        if blocks == 0 || low >= blocks || high < low {
            return Ok(0);
        }
        // A range that begins and ends within a block has half of it, as far as anyone knows.
        let halves = (2 * (high - low) + 1).min(2 * blocks);
        let share = u128::from(bytes) * halves as u128 / (2 * blocks) as u128;
        Ok(u64::try_from(share).unwrap_or(u64::MAX))
    }
}
