//! Walks one table in internal order, both ways.
//!
//! Moving touches key blocks only. [`TableIter::value`] decodes, and keeps the last frame that
//! holds more than the value asked for: a scan that goes on in it decodes it once. A frame that is
//! all one value is handed out and not kept, so one long value between two of the same block does
//! not cost the block a second decode.
//!
//! Invariant: while valid, `key`, `entry` and `entry_start` describe one entry of `block`, and
//! `walk` stands right behind it.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::bases::HeldBases;
use super::carry::StoredValue;
use super::context::{IterContext, ReadContext};
use super::key_block::{FramePlace, KeyBlock, StoredPlace, Walk};
use super::reader::TableReader;
use super::unit::UNIT_HEADER_BYTES;
use crate::error::{Error, Result};
use crate::iter::{EntryKey, InternalIterator, PassedOver, compare};
use crate::types::{EntryKind, SeqNo};
use crate::vfs::Advice;

/// Bytes of the value area that the kernel is told of at a time.
const READ_AHEAD_BYTES: u64 = 2 << 20;

/// Frames apart that still are a walk: long values lie a little off the order of keys.
const FRAMES_NEAR: u32 = 64;

/// A cursor over one table.
pub(crate) struct TableIter {
    table: Arc<TableReader>,
    context: IterContext,
    block: Option<LoadedBlock>,
    valid: bool,
    key: Vec<u8>,
    entry: Entry,
    entry_start: usize,
    walk: Option<Walk>,
    frame: RefCell<Option<(u32, Bytes)>>,
    bases: HeldBases,
    read_ahead: Cell<ReadAhead>,
    /// Where damaged key blocks are told that a walk forward passes over; none if they end it.
    passed_over: Option<PassedOver>,
}

/// How far the kernel was told to read, while values are taken in about the order of the file.
#[derive(Debug, Clone, Copy, Default)]
struct ReadAhead {
    last_frame: u32,
    /// Offset in the file.
    told_until: u64,
}

#[derive(Debug)]
struct LoadedBlock {
    index: usize,
    bytes: BlockBytes,
}

#[derive(Debug)]
enum BlockBytes {
    /// Bytes of the mapping, verified.
    Mapped(Range<u64>),
    Owned(Bytes),
}

#[derive(Debug, Clone)]
struct Entry {
    seq: SeqNo,
    kind: EntryKind,
    place: EntryPlace,
}

#[derive(Debug, Clone)]
enum EntryPlace {
    /// Bytes of the key block's entries.
    Inline(Range<usize>),
    Frame(FramePlace),
}

impl TableReader {
    /// A cursor over the table.
    pub(crate) fn iter(self: &Arc<Self>, context: IterContext) -> TableIter {
        TableIter {
            table: Arc::clone(self),
            context,
            block: None,
            valid: false,
            key: Vec::new(),
            entry: Entry {
                seq: SeqNo::ZERO,
                kind: EntryKind::Delete,
                place: EntryPlace::Inline(0..0),
            },
            entry_start: 0,
            walk: None,
            frame: RefCell::new(None),
            bases: HeldBases::default(),
            read_ahead: Cell::default(),
            passed_over: None,
        }
    }
}

impl TableIter {
    /// Goes on behind damaged key blocks, forward, and leaves word of them.
    pub(crate) fn passing_over(mut self, passed_over: Option<PassedOver>) -> Self {
        self.passed_over = passed_over;
        self
    }

    /// Takes note of damage that is to be passed over; gives back any other error.
    fn pass_over(&self, error: Error) -> Result<()> {
        match &self.passed_over {
            Some(passed_over) => passed_over.note(self.place_error(error)),
            None => Err(error),
        }
    }

    /// Where the entry's value lies, if in a frame.
    pub(super) fn frame_place(&self) -> Option<FramePlace> {
        match self.entry.place {
            EntryPlace::Frame(place) => Some(place),
            EntryPlace::Inline(_) => None,
        }
    }

    fn block_bytes(&self) -> Result<&[u8]> {
        let block = self.block.as_ref().ok_or_else(unpositioned)?;
        match &block.bytes {
            BlockBytes::Owned(bytes) => Ok(bytes),
            BlockBytes::Mapped(range) => self.table.file.mapped(range).ok_or_else(unpositioned),
        }
    }

    fn load(&mut self, index: usize) -> Result<()> {
        if self
            .block
            .as_ref()
            .is_some_and(|block| block.index == index)
        {
            return Ok(());
        }
        self.block = None;
        let bytes = if self.table.file.is_mapped() {
            self.table.mapped_key_block(index)?;
            let unit = self.table.index()?.extent(index)?;
            BlockBytes::Mapped(unit.start + UNIT_HEADER_BYTES as u64..unit.end)
        } else {
            let context = self.context.as_read();
            BlockBytes::Owned(self.table.loaded_key_block(index, &context)?)
        };
        self.block = Some(LoadedBlock { index, bytes });
        Ok(())
    }

    /// Decodes the next entry of the loaded block; false at its end, which changes nothing.
    fn step(&mut self, walk: &mut Walk) -> Result<bool> {
        let start = walk.position;
        // Taken out, so that it can change while the block is borrowed.
        let mut key = std::mem::take(&mut self.key);
        let stepped = self.decode_step(walk, &mut key);
        self.key = key;
        let Some(entry) = stepped? else {
            return Ok(false);
        };
        self.entry = entry;
        self.entry_start = start;
        Ok(true)
    }

    fn decode_step(&self, walk: &mut Walk, key: &mut Vec<u8>) -> Result<Option<Entry>> {
        let Some(step) = KeyBlock::new(self.block_bytes()?)?.step(walk)? else {
            return Ok(None);
        };
        if step.shared > key.len() {
            return Err(Error::corruption(
                "entry shares more than the key before has",
            ));
        }
        key.truncate(step.shared);
        key.extend_from_slice(step.suffix);
        let place = match step.entry.place {
            StoredPlace::Frame(place) => EntryPlace::Frame(place),
            // An inline value is the last part of its entry.
            StoredPlace::Inline(value) => {
                EntryPlace::Inline(walk.position - value.len()..walk.position)
            }
        };
        Ok(Some(Entry {
            seq: step.entry.seq,
            kind: step.entry.kind,
            place,
        }))
    }

    /// To the first entry of the block, or of the first one after it that has any.
    fn first_from(&mut self, mut index: usize) -> Result<()> {
        let blocks = self.table.index()?.len();
        while index < blocks {
            match self.first_of(index) {
                Ok(Some(walk)) => return self.stand(walk),
                Ok(None) => {}
                Err(error) => self.pass_over(error)?,
            }
            index += 1;
        }
        Ok(())
    }

    /// A walk that stands behind the block's first entry, if it has one.
    fn first_of(&mut self, index: usize) -> Result<Option<Walk>> {
        self.load(index)?;
        let mut walk = KeyBlock::new(self.block_bytes()?)?.walk_from(0)?;
        Ok(self.step(&mut walk)?.then_some(walk))
    }

    /// To the last entry of the block.
    fn last_of(&mut self, index: usize) -> Result<()> {
        self.load(index)?;
        let block = KeyBlock::new(self.block_bytes()?)?;
        let mut walk = block.walk_from(block.restart_count() - 1)?;
        if !self.step(&mut walk)? {
            return Err(Error::corruption(
                "the key block ends before its last entry",
            ));
        }
        let mut last = walk;
        while self.step(&mut walk)? {
            last = walk;
        }
        self.stand(last)
    }

    fn stand(&mut self, walk: Walk) -> Result<()> {
        self.walk = Some(walk);
        self.valid = true;
        Ok(())
    }

    fn seek_stored(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let index = self.table.index()?;
        let blocks = index.len();
        let mut at = index.block_of(key)?;
        while at < blocks {
            match self.seek_within(at, key, seq) {
                Ok(Some(walk)) => return self.stand(walk),
                Ok(None) => {}
                Err(error) => self.pass_over(error)?,
            }
            at += 1;
        }
        Ok(())
    }

    /// A walk that stands behind the block's first entry at or after (`key`, `seq`), if it has one.
    fn seek_within(&mut self, at: usize, key: &[u8], seq: SeqNo) -> Result<Option<Walk>> {
        self.load(at)?;
        let block = KeyBlock::new(self.block_bytes()?)?;
        let mut walk = block.walk_from(block.restart_before(key, seq)?)?;
        while self.step(&mut walk)? {
            if compare(&self.key, self.entry.seq, key, seq) != Ordering::Less {
                return Ok(Some(walk));
            }
        }
        Ok(None)
    }

    fn step_back(&mut self) -> Result<()> {
        let at = self.block.as_ref().ok_or_else(unpositioned)?.index;
        let until = self.entry_start;
        if until == 0 {
            return match at.checked_sub(1) {
                Some(before) => self.last_of(before),
                None => Ok(()),
            };
        }
        let block = KeyBlock::new(self.block_bytes()?)?;
        let (mut low, mut high) = (0, block.restart_count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if block.restart_offset(middle)? < until {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut walk = block.walk_from(low)?;
        let mut stepped = false;
        while walk.position < until && self.step(&mut walk)? {
            stepped = true;
        }
        if !stepped {
            // Standing still would be walking back for ever.
            return Err(Error::corruption(
                "no restart point lies before an entry of the key block",
            ));
        }
        self.stand(walk)
    }

    /// The value at `place` of the table; the cursor need not stand on it, nor anywhere.
    pub(super) fn framed_value(&self, place: FramePlace) -> Result<Bytes> {
        if let Some((ordinal, frame)) = &*self.frame.borrow()
            && *ordinal == place.frame
        {
            return self.table.value_in(frame, place);
        }
        self.read_ahead(place.frame);
        let frame = self.raw_frame(place.frame)?;
        let value = self.table.value_in(&frame, place)?;
        if frame.len() > value.len() {
            self.frame.replace(Some((place.frame, frame)));
        }
        Ok(value)
    }

    /// A frame's raw bytes.
    pub(super) fn raw_frame(&self, ordinal: u32) -> Result<Bytes> {
        let context = ReadContext {
            held: Some(&self.bases),
            ..self.context.as_read()
        };
        self.table.frame(ordinal, &context)
    }

    /// Tells the kernel of the next stretch of the value area once a walk gets near its end.
    fn read_ahead(&self, ordinal: u32) {
        let mut state = self.read_ahead.get();
        let near = ordinal.abs_diff(state.last_frame) <= FRAMES_NEAR;
        state.last_frame = ordinal;
        if let Ok(directory) = self.table.directory()
            && let Ok(frame) = directory.extent(ordinal)
        {
            if !near {
                // A jump, as every first value is one: wait for a second nearby.
                state.told_until = frame.end;
            } else if frame.end + READ_AHEAD_BYTES / 2 >= state.told_until {
                let area_end = directory.value_area().map_or(0, |area| area.end);
                let start = frame.end.max(state.told_until);
                let end = (start + READ_AHEAD_BYTES).min(area_end);
                if start < end {
                    self.table.file.advise(Advice::WillNeed, start..end);
                }
                state.told_until = end.max(start);
            }
        }
        self.read_ahead.set(state);
    }

    /// Runs a movement: on an error, and unless it came to stand, the cursor is not valid.
    fn moving(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.valid = false;
        let outcome = movement(self);
        if outcome.is_err() {
            self.valid = false;
        }
        outcome.map_err(|error| self.place_error(error))
    }

    fn place_error(&self, error: Error) -> Error {
        let offset = self.block.as_ref().and_then(|block| {
            let extent = self
                .table
                .index()
                .and_then(|index| index.extent(block.index));
            extent.ok().map(|range| range.start)
        });
        let error = match offset {
            Some(offset) => error.at_offset(offset),
            None => error,
        };
        error.at_path(self.table.file.path())
    }
}

impl InternalIterator for TableIter {
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.moving(|iter| iter.first_from(0))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.moving(|iter| match iter.table.index()?.len().checked_sub(1) {
            Some(last) => iter.last_of(last),
            None => Ok(()),
        })
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.moving(|iter| match iter.table.stored_seq(seq) {
            Some(stored) => iter.seek_stored(key, stored),
            // Every entry of the key is newer and comes before: on to the key right after it.
            None => iter.seek_stored(&[key, &[0]].concat(), SeqNo::MAX),
        })
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek(key, seq)?;
        if self.valid {
            self.prev()
        } else {
            self.seek_to_last()
        }
    }

    fn next(&mut self) -> Result<()> {
        self.moving(|iter| {
            let mut walk = iter.walk.ok_or_else(unpositioned)?;
            let at = iter.block.as_ref().ok_or_else(unpositioned)?.index;
            match iter.step(&mut walk) {
                Ok(true) => iter.stand(walk),
                Ok(false) => iter.first_from(at + 1),
                Err(error) => {
                    iter.pass_over(error)?;
                    iter.first_from(at + 1)
                }
            }
        })
    }

    fn prev(&mut self) -> Result<()> {
        self.moving(Self::step_back)
    }

    fn key(&self) -> EntryKey<'_> {
        EntryKey {
            user_key: &self.key,
            seq: self.table.effective_seq(self.entry.seq),
            kind: self.entry.kind,
        }
    }

    fn value(&self) -> Result<Bytes> {
        match &self.entry.place {
            EntryPlace::Inline(range) => {
                let bytes = self.block_bytes()?;
                let value = bytes.get(range.clone()).unwrap_or_default();
                Ok(Bytes::copy_from_slice(value))
            }
            EntryPlace::Frame(place) => self.framed_value(*place),
        }
    }

    fn stored_value(&self) -> Option<StoredValue> {
        Some(StoredValue {
            place: self.frame_place()?,
            table: Arc::clone(&self.table),
        })
    }

    fn value_len(&self) -> usize {
        match &self.entry.place {
            EntryPlace::Inline(range) => range.len(),
            EntryPlace::Frame(place) => place.len as usize,
        }
    }
}

fn unpositioned() -> Error {
    Error::invalid_input("cursor was moved before it was placed")
}
