//! What became of each frame of a table: which of its values are still there.

use std::ops::Range;
use std::sync::Arc;

use super::CarriedValue;
use crate::error::{Error, Result};
use crate::table::reader::TableReader;

/// A frame of the table, by what its header says; nothing is verified yet.
pub(super) struct Frame {
    /// The bytes of the file that its unit fills.
    pub(super) extent: Range<u64>,
    pub(super) raw_len: u32,
    pub(super) base: Option<u32>,
    /// Its values that survive, among [`Survey::members`].
    members: Range<usize>,
    /// All of it survives, and so does all that it needs.
    pub(super) is_copied: bool,
}

/// All frames of a table.
pub(super) struct Survey {
    /// By ordinal.
    pub(super) frames: Vec<Frame>,
    /// Positions of the table's values among all, by frame and offset.
    members: Vec<u32>,
    pub(super) copied_raw_bytes: u64,
    /// Raw bytes of values that do not survive.
    pub(super) dropped_raw_bytes: u64,
}

impl Survey {
    /// Surveys `table`, which is `source` of the `values`. Reads a few bytes of each frame.
    pub(super) fn new(
        table: &Arc<TableReader>,
        source: u32,
        values: &[CarriedValue],
    ) -> Result<Self> {
        let own = (0..)
            .zip(values)
            .filter(|(_, value)| value.source == source);
        let mut own: Vec<(u32, u32, u32)> = own
            .map(|(position, value)| (value.place.frame, value.place.offset, position))
            .collect();
        own.sort_unstable();
        let members: Vec<u32> = own.iter().map(|(_, _, position)| *position).collect();
        let mut survey = Self {
            frames: Vec::new(),
            members,
            copied_raw_bytes: 0,
            dropped_raw_bytes: 0,
        };
        let mut next = 0;
        for (ordinal, extent) in (0..).zip(table.frame_extents()?) {
            let rest = own.get(next..).unwrap_or_default();
            let count = rest.partition_point(|(frame, _, _)| *frame == ordinal);
            let members = next..next + count;
            next += count;
            let (header, base) = table.frame_header(&extent)?;
            survey.push(ordinal, extent, header.raw_len, base, members, values)?;
        }
        if next == own.len() {
            return Ok(survey);
        }
        Err(Error::corruption(
            "an entry names a frame that the table does not have",
        ))
    }

    fn push(
        &mut self,
        ordinal: u32,
        extent: Range<u64>,
        raw_len: u32,
        base: Option<u32>,
        members: Range<usize>,
        values: &[CarriedValue],
    ) -> Result<()> {
        let mut frame = Frame {
            extent,
            raw_len,
            base,
            members,
            is_copied: false,
        };
        let dropped: u64 = self
            .gaps(&frame, values)
            .map(|gap| u64::from(gap.end - gap.start))
            .sum();
        let has_base = match base {
            None => true,
            Some(base) if base < ordinal => {
                let base = self.frames.get(base as usize);
                base.is_some_and(|base| base.is_copied)
            }
            Some(base) => {
                return Err(Error::corruption(format!(
                    "frame {ordinal} names frame {base} as its base, which does not come before it"
                )));
            }
        };
        frame.is_copied = has_base && self.is_whole(&frame, values);
        if frame.is_copied {
            self.copied_raw_bytes += u64::from(raw_len);
        }
        self.dropped_raw_bytes += dropped;
        self.frames.push(frame);
        Ok(())
    }

    /// Whether a frame is copied.
    pub(super) fn is_copied(&self, ordinal: u32) -> bool {
        let frame = self.frames.get(ordinal as usize);
        frame.is_some_and(|frame| frame.is_copied)
    }

    /// The base that the cluster of a copied frame begins with, or the frame itself if it could begin
    /// one: it has one value, and no base.
    pub(super) fn root(&self, ordinal: u32) -> Option<u32> {
        let mut root = ordinal;
        // Ends: a frame that is copied comes behind its base.
        loop {
            let frame = self.frames.get(root as usize)?;
            if !frame.is_copied {
                return None;
            }
            match frame.base {
                Some(base) => root = base,
                None => return (frame.members.len() == 1).then_some(root),
            }
        }
    }

    /// The values of a frame that survive, by offset.
    pub(super) fn members<'a>(
        &'a self,
        frame: &Frame,
        values: &'a [CarriedValue],
    ) -> impl Iterator<Item = &'a CarriedValue> {
        let members = self.members.get(frame.members.clone()).unwrap_or_default();
        members.iter().filter_map(|&at| values.get(at as usize))
    }

    /// Whether the values that survive fill the frame exactly, one behind the other.
    fn is_whole(&self, frame: &Frame, values: &[CarriedValue]) -> bool {
        let mut end = 0;
        for value in self.members(frame, values) {
            if value.place.offset != end {
                return false;
            }
            end = value.place.end();
        }
        end == frame.raw_len
    }

    /// The stretches of a frame's raw bytes that no surviving value has.
    pub(super) fn gaps<'a>(
        &'a self,
        frame: &Frame,
        values: &'a [CarriedValue],
    ) -> impl Iterator<Item = Range<u32>> {
        let raw_len = frame.raw_len;
        let held = self.members(frame, values).map(|value| value.place);
        let held = held.map(|place| (place.offset, place.end()));
        let mut end = 0;
        held.chain([(raw_len, raw_len)])
            .filter_map(move |(start, held_end)| {
                let gap = end..start;
                end = end.max(held_end);
                (gap.start < gap.end).then_some(gap)
            })
    }
}
