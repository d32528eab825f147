//! What lies where in a table: its frames, its key blocks, and the share of a frame that a value
//! takes. For those who look into a file or ask what a group of keys costs; no read path comes here.
//!
//! Frames are told by their headers, which are read without the checksum: that would mean to read
//! every value. `verify` checks them.

use std::ops::Range;
use std::sync::Arc;

use super::context::IterContext;
use super::reader::TableReader;
use super::unit::{BASE_ORDINAL_BYTES, UNIT_HEADER_BYTES, UnitCodec, UnitHeader, UnitKind};
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::types::EntryKind;

/// A key block that could be read.
pub(crate) struct KeyBlockContent {
    pub(crate) entries: u64,
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
}

/// What the values of one group take of one frame.
struct Part {
    group: usize,
    raw_bytes: u64,
}

impl TableReader {
    /// The bytes of the file that each frame's unit fills, by ordinal.
    pub(crate) fn frame_extents(&self) -> Result<Vec<Range<u64>>> {
        let directory = self.directory()?;
        let ordinals = 0..u32::try_from(directory.len()).unwrap_or(u32::MAX);
        ordinals.map(|ordinal| directory.extent(ordinal)).collect()
    }

    /// The header of the frame whose unit fills `extent`, and the base it names, unverified.
    pub(crate) fn frame_header(&self, extent: &Range<u64>) -> Result<(UnitHeader, Option<u32>)> {
        let mut bytes = Vec::new();
        let wanted = (UNIT_HEADER_BYTES + BASE_ORDINAL_BYTES) as u64;
        let end = extent.start.saturating_add(wanted).min(extent.end);
        self.file.read(&(extent.start..end), &mut bytes)?;
        let header = UnitHeader::decode(&bytes)?;
        header.check_lengths()?;
        let unit_bytes = UNIT_HEADER_BYTES as u64 + u64::from(header.stored_len);
        if header.kind != UnitKind::Frame || unit_bytes != extent.end - extent.start {
            return Err(Error::corruption("no frame lies where one should").at_offset(extent.start));
        }
        let base = bytes
            .get(UNIT_HEADER_BYTES..)
            .and_then(|stored| stored.first_chunk::<BASE_ORDINAL_BYTES>())
            .filter(|_| header.codec == UnitCodec::ZstdBase);
        Ok((header, base.map(|base| u32::from_le_bytes(*base))))
    }

    /// How many values each frame holds, by ordinal. Reads every key block.
    pub(crate) fn values_by_frame(self: &Arc<Self>, context: IterContext) -> Result<Vec<u64>> {
        let mut values = vec![0; self.directory()?.len()];
        let mut iter = self.iter(context);
        iter.seek_to_first()?;
        while iter.valid() {
            if let Some(place) = iter.frame_place() {
                *values.get_mut(place.frame as usize).ok_or_else(no_frame)? += 1;
            }
            iter.next()?;
        }
        Ok(values)
    }

    /// The bytes of the file that each key block's unit fills, in key order.
    pub(crate) fn key_block_extents(&self) -> Result<Vec<Range<u64>>> {
        let index = self.index()?;
        (0..index.len()).map(|block| index.extent(block)).collect()
    }

    /// What a key block holds.
    pub(crate) fn key_block_content(
        &self,
        block: usize,
        context: &IterContext,
    ) -> Result<KeyBlockContent> {
        self.with_key_block(block, &context.as_read(), |entries| {
            let mut content = KeyBlockContent {
                entries: 0,
                first: Vec::new(),
                last: Vec::new(),
            };
            entries.for_each(|key, _| {
                if content.entries == 0 {
                    content.first = key.to_vec();
                }
                content.entries += 1;
                content.last.clear();
                content.last.extend_from_slice(key);
                Ok(())
            })?;
            Ok(content)
        })
    }

    /// Adds to `sums`, by group, the stored bytes of the table's values: a frame's bytes are shared
    /// among its values as their raw bytes are, and a value beside its key takes its own. All sums
    /// together grow by exactly what the values take. Reads every key block, and no frame.
    pub(crate) fn add_value_bytes(
        self: &Arc<Self>,
        context: IterContext,
        group_of: &mut dyn FnMut(&[u8]) -> Result<usize>,
        sums: &mut Vec<u64>,
    ) -> Result<()> {
        let extents = self.frame_extents()?;
        // Values of one frame need not be neighbours in key order, so shares are dealt at the end.
        let mut frames: Vec<Vec<Part>> = Vec::new();
        frames.resize_with(extents.len(), Vec::new);
        let mut add = |group: usize, bytes: u64| {
            if sums.len() <= group {
                sums.resize(group + 1, 0);
            }
            if let Some(sum) = sums.get_mut(group) {
                *sum += bytes;
            }
        };
        let mut iter = self.iter(context);
        iter.seek_to_first()?;
        while iter.valid() {
            let entry = iter.key();
            if entry.kind == EntryKind::Put {
                let group = group_of(entry.user_key)?;
                let raw_bytes = iter.value_len() as u64;
                match iter.frame_place() {
                    None => add(group, raw_bytes),
                    Some(place) => {
                        let frame = frames.get_mut(place.frame as usize);
                        let parts = frame.ok_or_else(no_frame)?;
                        match parts.last_mut() {
                            Some(last) if last.group == group => last.raw_bytes += raw_bytes,
                            _ => parts.push(Part { group, raw_bytes }),
                        }
                    }
                }
            }
            iter.next()?;
        }
        for (extent, parts) in extents.iter().zip(&frames) {
            let stored_bytes = u128::from(extent.end - extent.start);
            let raw_bytes: u64 = parts.iter().map(|part| part.raw_bytes).sum();
            let stored_before = |raw_before: u64| {
                let share = stored_bytes * u128::from(raw_before) / u128::from(raw_bytes.max(1));
                u64::try_from(share).unwrap_or(u64::MAX)
            };
            let mut raw_before = 0;
            for part in parts {
                let raw_after = raw_before + part.raw_bytes;
                add(
                    part.group,
                    stored_before(raw_after) - stored_before(raw_before),
                );
                raw_before = raw_after;
            }
        }
        Ok(())
    }
}

fn no_frame() -> Error {
    Error::corruption("an entry names a frame that the table does not have")
}
