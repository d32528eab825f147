//! Writes one table, from entries in internal order to a synced file.
//!
//! ```text
//! header │ [dictionary] │ frames │ key blocks │ key index │ frame directory │ [filter] │
//! [range tombstones] │ properties │ section table │ footer
//! ```
//!
//! Values stream through the layout and the compression pool to the file. Keys wait in a spool
//! until every value has its place; then key blocks are written behind the value area. What is in
//! memory at any time: the spool, the frames on their way, eight bytes a key for the filter, and
//! what the layout holds back.
//!
//! Thread rule: one writer, one thread; the pool's threads see only frames. A writer dropped
//! before `finish`, or whose `finish` fails, removes its file.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::carry::{Carry, FramesKept, Progress, StoredValue};
use super::census::FrameCensus;
use super::context::IterContext;
use super::directory::encode_directory;
use super::filter::{build_filter, key_hash};
use super::footer::{FOOTER_BYTES, Footer, SectionTable};
use super::frames::{FrameWriter, ValueArea};
use super::key_block::{FramePlace, KeyBlockBuilder, StoredPlace};
use super::key_index::KeyIndexBuilder;
use super::layout::LayoutWriter;
use super::output::Output;
use super::properties::{OwnerKeyspace, TableProperties};
use super::spool::{KeySpool, SpooledValue};
use super::tombstones::encode_tombstones;
use super::unit::{UnitCodec, UnitKind};
use crate::codec::CompressionPool;
use crate::error::{Error, Result};
use crate::iter::{RangeTombstone, compare};
use crate::options::{FilterPolicy, TableOptions};
use crate::types::{EntryKind, FileId, KEY_BYTES_MAX, KeyspaceId, SeqNo, VALUE_BYTES_MAX};
use crate::vfs::Vfs;

/// A table that was written: what the manifest has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSummary {
    pub(crate) id: FileId,
    /// Length of the file.
    pub(crate) stored_bytes: u64,
    /// Bytes of keys and values.
    pub(crate) raw_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u32,
    /// See [`TableProperties::repeated_keys`].
    pub(crate) repeated_keys: Option<u64>,
    /// Smallest key of entries and range tombstones.
    pub(crate) smallest: Vec<u8>,
    /// Largest key of entries and range tombstones that end.
    pub(crate) largest: Vec<u8>,
    /// `largest` is a range tombstone's end, and no key of the table.
    pub(crate) largest_exclusive: bool,
    /// A range tombstone reaches to the end of the keyspace.
    pub(crate) unbounded_end: bool,
    /// As stored.
    pub(crate) seq_min: SeqNo,
    pub(crate) seq_max: SeqNo,
}

/// Writes one table.
pub(crate) struct TableWriter {
    options: TableOptions,
    frames: FrameWriter,
    layout: LayoutWriter,
    /// Where values may come from other tables.
    carry: Option<Box<Carry>>,
    spool: KeySpool,
    hashes: Vec<u64>,
    tombstones: Vec<RangeTombstone>,
    repeated_keys: u64,
    properties: TableProperties,
}

impl TableWriter {
    /// Creates the file; `AlreadyExists` is an error, so a table is never overwritten.
    pub(crate) fn create(
        vfs: &Arc<dyn Vfs>,
        path: PathBuf,
        options: &TableOptions,
        pool: &Arc<CompressionPool>,
    ) -> Result<Self> {
        options.validate()?;
        let output = Output::create(vfs, path)?;
        Ok(Self {
            frames: FrameWriter::new(output, options, pool),
            layout: LayoutWriter::new(options),
            carry: None,
            spool: KeySpool::default(),
            hashes: Vec::new(),
            tombstones: Vec::new(),
            repeated_keys: 0,
            properties: TableProperties {
                layout: options.layout,
                compression: options.compression,
                filter: options.filter,
                seq_min: SeqNo::MAX,
                ..TableProperties::default()
            },
            options: options.clone(),
        })
    }

    /// Holds back no more than about this many bytes of values at a time, whatever the layout would.
    pub(crate) fn limit_window(&mut self, bytes: usize) {
        self.layout.limit_window(bytes);
    }

    /// Allows [`TableWriter::add_stored`]. Before the first entry.
    pub(crate) fn carry_values(&mut self, context: IterContext) {
        self.carry = Some(Box::new(Carry::new(context)));
    }

    /// Holds back about this many bytes of values until a dictionary is trained on samples of them.
    pub(crate) fn hold_for_dictionary(&mut self, bytes: usize) {
        self.frames.hold_for_dictionary(bytes);
    }

    /// Notes in the table whose it is, for a salvage that has no manifest to ask.
    pub(crate) fn set_keyspace(&mut self, id: KeyspaceId, name: &str) {
        self.properties.keyspace = Some(OwnerKeyspace {
            id,
            name: name.to_owned(),
        });
    }

    /// Notes in the table that its sequence numbers are given by whoever adopts it.
    pub(crate) fn set_outside_history(&mut self) {
        self.properties.outside_history = true;
    }

    /// Adds the next entry; entries ascend strictly in internal order.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        value: Bytes,
    ) -> Result<()> {
        self.note_entry(key, seq, value.len())?;
        if kind == EntryKind::Delete {
            self.properties.tombstones += 1;
            self.spool.push(key, seq, kind, SpooledValue::Inline(&[]));
        } else if self.is_inline(value.len()) {
            self.properties.inline_value_bytes += value.len() as u64;
            self.spool
                .push(key, seq, kind, SpooledValue::Inline(&value));
        } else {
            self.spool.push(key, seq, kind, SpooledValue::Placed);
            self.layout.add(value, &mut self.frames)?;
            if let Some(carry) = &mut self.carry {
                carry.was_given()?;
            }
        }
        Ok(())
    }

    /// Adds the next entry, a put whose value lies in a frame of another table. It is decoded when
    /// [`TableWriter::carry_over`] is called, if at all.
    pub(crate) fn add_stored(&mut self, key: &[u8], seq: SeqNo, value: &StoredValue) -> Result<()> {
        let Some(carry) = &mut self.carry else {
            return Err(Error::invalid_input("the table takes no values of others"));
        };
        carry.push(value)?;
        self.note_entry(key, seq, value.place.len as usize)?;
        self.spool
            .push(key, seq, EntryKind::Put, SpooledValue::Placed);
        Ok(())
    }

    /// Whether a value of this length sits in the key block.
    pub(crate) fn is_inline(&self, value_bytes: usize) -> bool {
        value_bytes <= self.options.inline_value_bytes_max as usize
    }

    /// Writes the values that lie in frames of other tables, once all entries were added. `progress`
    /// is told of their raw bytes. Says which frames were copied.
    pub(crate) fn carry_over(&mut self, progress: Progress<'_>) -> Result<FramesKept> {
        let Some(carry) = &mut self.carry else {
            return Ok(FramesKept::default());
        };
        let kept = carry.write(&mut self.layout, &mut self.frames, &self.options, progress)?;
        self.properties.unplanned_value_bytes += kept.unplanned_bytes;
        Ok(kept)
    }

    /// Bytes of the values added that lie in frames.
    pub(crate) fn framed_value_bytes(&self) -> u64 {
        self.properties.raw_value_bytes - self.properties.inline_value_bytes
    }

    fn note_entry(&mut self, key: &[u8], seq: SeqNo, value_bytes: usize) -> Result<()> {
        self.check_entry(key, seq, value_bytes)?;
        let repeated = self.spool.last().is_some_and(|(last, _)| last == key);
        self.repeated_keys += u64::from(repeated);
        if !repeated && self.options.filter != FilterPolicy::None {
            self.hashes.push(key_hash(key));
        }
        let properties = &mut self.properties;
        if properties.entries == 0 {
            properties.smallest = key.to_vec();
        }
        properties.entries += 1;
        properties.raw_key_bytes += key.len() as u64;
        properties.raw_value_bytes += value_bytes as u64;
        properties.seq_min = properties.seq_min.min(seq);
        properties.seq_max = properties.seq_max.max(seq);
        Ok(())
    }

    fn check_entry(&self, key: &[u8], seq: SeqNo, value_bytes: usize) -> Result<()> {
        if let Some((last, last_seq)) = self.spool.last()
            && compare(last, last_seq, key, seq) != Ordering::Less
        {
            return Err(Error::invalid_input(format!(
                "entries out of order: \"{}\" at {seq} after \"{}\" at {last_seq}",
                key.escape_ascii(),
                last.escape_ascii()
            ))
            .at_path(self.frames.output().path()));
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::limit(format!(
                "key of {} bytes exceeds {KEY_BYTES_MAX}",
                key.len()
            )));
        }
        if value_bytes > VALUE_BYTES_MAX {
            return Err(Error::limit(format!(
                "value of {value_bytes} bytes exceeds {VALUE_BYTES_MAX}"
            )));
        }
        if seq > SeqNo::MAX {
            return Err(Error::limit(format!(
                "sequence number {seq} is out of range"
            )));
        }
        Ok(())
    }

    /// Adds a range tombstone, in any order.
    pub(crate) fn add_range_tombstone(&mut self, tombstone: RangeTombstone) -> Result<()> {
        if tombstone
            .end
            .as_ref()
            .is_some_and(|end| *end <= tombstone.start)
        {
            return Err(Error::invalid_input(
                "range tombstone ends before it starts",
            ));
        }
        self.properties.seq_min = self.properties.seq_min.min(tombstone.seq);
        self.properties.seq_max = self.properties.seq_max.max(tombstone.seq);
        self.tombstones.push(tombstone);
        Ok(())
    }

    /// Bytes of keys and values added.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.properties.raw_key_bytes + self.properties.raw_value_bytes
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.spool.memory_bytes()
            + self.hashes.capacity() * 8
            + self.layout.memory_bytes()
            + self.carry.as_ref().map_or(0, |carry| carry.memory_bytes())
            + self.frames.memory_bytes()
    }

    /// Completes the file and syncs it. Its directory is the caller's to sync.
    pub(crate) fn finish(mut self) -> Result<TableSummary> {
        self.carry_over(&mut |_| Ok(()))?;
        let mut places = self.layout.finish(&mut self.frames)?;
        if let Some(carry) = self.carry {
            places = carry.places(&places)?;
        }
        let area = self.frames.finish()?;
        if let Some((last, _)) = self.spool.last() {
            self.properties.largest = last.to_vec();
        }
        if self.properties.seq_min > self.properties.seq_max {
            self.properties.seq_min = self.properties.seq_max;
        }
        self.tombstones.sort();
        self.properties.range_tombstones = self.tombstones.len() as u64;
        self.properties.repeated_keys = Some(self.repeated_keys);
        let (notes, starts, end) = (&area.notes, &area.starts, area.output.offset());
        self.properties.census = Some(FrameCensus::of(notes, starts, end, &places));
        let mut tail = Tail::new(area, self.properties);
        let index = tail.write_keys(&self.options, &self.spool, &places)?;
        drop(self.spool);
        let filter = build_filter(self.options.filter, self.hashes);
        tail.write_sections(index, filter, &self.tombstones)?;
        tail.finish(&self.tombstones)
    }
}

/// What comes behind the value area.
struct Tail {
    output: Output,
    sections: SectionTable,
    directory: Vec<u8>,
    properties: TableProperties,
}

impl Tail {
    fn new(area: ValueArea, mut properties: TableProperties) -> Self {
        let end = area.output.offset();
        let start = area.starts.first().copied().unwrap_or(end);
        properties.frames = area.starts.len() as u64;
        properties.raw_frames = area.raw_frames;
        properties.follower_frames = area.follower_frames;
        properties.stored_value_bytes = end - start;
        properties.dictionary_bytes = area.dictionary_bytes;
        let mut sections = SectionTable::default();
        if let Some(range) = area.dictionary_section {
            sections.add(UnitKind::Dictionary, range);
        }
        Self {
            directory: encode_directory(&area.starts, end),
            output: area.output,
            sections,
            properties,
        }
    }

    fn write_keys(
        &mut self,
        options: &TableOptions,
        spool: &KeySpool,
        places: &[FramePlace],
    ) -> Result<KeyIndexBuilder> {
        let block_bytes = options.key_block_bytes as usize;
        let mut index = KeyIndexBuilder::default();
        let mut block = KeyBlockBuilder::default();
        let mut places = places.iter();
        let mut last_key = Vec::new();
        spool.replay(|key, seq, kind, value| {
            if block.len() >= block_bytes {
                self.write_key_block(&mut block, &mut index, &last_key, Some(key))?;
            }
            let place = match value {
                SpooledValue::Inline(value) => StoredPlace::Inline(value),
                SpooledValue::Placed => places
                    .next()
                    .map(|place| StoredPlace::Frame(*place))
                    .ok_or_else(|| Error::corruption("layout lost a value"))?,
            };
            block.add(key, seq, kind, place)?;
            last_key.clear();
            last_key.extend_from_slice(key);
            Ok(())
        })?;
        if !block.is_empty() {
            self.write_key_block(&mut block, &mut index, &last_key, None)?;
        }
        Ok(index)
    }

    fn write_key_block(
        &mut self,
        block: &mut KeyBlockBuilder,
        index: &mut KeyIndexBuilder,
        last: &[u8],
        next: Option<&[u8]>,
    ) -> Result<()> {
        let ordinal = u32::try_from(self.properties.key_blocks)
            .map_err(|_| Error::limit("table exceeds 2^32 key blocks"))?;
        let stored = block.finish();
        let raw_len = stored.len() as u32;
        let offset = self.output.unit(
            UnitKind::KeyBlock,
            UnitCodec::Raw,
            ordinal,
            raw_len,
            &stored,
        )?;
        index.add(offset, last, next)?;
        self.properties.key_blocks += 1;
        self.properties.key_area_bytes += self.output.offset() - offset;
        Ok(())
    }

    fn section(&mut self, kind: UnitKind, bytes: &[u8]) -> Result<Range<u64>> {
        let range = self.output.section(kind, bytes)?;
        self.sections.add(kind, range.clone());
        Ok(range)
    }

    fn write_sections(
        &mut self,
        index: KeyIndexBuilder,
        filter: Option<Vec<u8>>,
        tombstones: &[RangeTombstone],
    ) -> Result<()> {
        let index = index.finish(self.output.offset());
        let range = self.section(UnitKind::KeyIndex, &index)?;
        self.properties.key_area_bytes += range.end - range.start;
        let directory = std::mem::take(&mut self.directory);
        self.section(UnitKind::FrameDirectory, &directory)?;
        if let Some(filter) = filter {
            let range = self.section(UnitKind::Filter, &filter)?;
            self.properties.filter_bytes = range.end - range.start;
        }
        if !tombstones.is_empty() {
            self.section(UnitKind::RangeTombstones, &encode_tombstones(tombstones))?;
        }
        let properties = self.properties.encode();
        self.section(UnitKind::Properties, &properties)?;
        Ok(())
    }

    fn finish(mut self, tombstones: &[RangeTombstone]) -> Result<TableSummary> {
        let sections = self
            .output
            .section(UnitKind::SectionTable, &self.sections.encode())?;
        let footer = Footer {
            id: self.output.id(),
            sections_offset: sections.start,
            sections_len: sections.end - sections.start,
        };
        let id = self.output.id();
        let mut bytes = [0; FOOTER_BYTES];
        bytes.copy_from_slice(&footer.encode(sections.end));
        let stored_bytes = self.output.finish(&bytes)?;
        let properties = self.properties;
        Ok(TableSummary::new(id, stored_bytes, properties, tombstones))
    }
}

impl TableSummary {
    /// What a table with these properties and range tombstones, by start, is to the manifest.
    pub(super) fn new(
        id: FileId,
        stored_bytes: u64,
        properties: TableProperties,
        tombstones: &[RangeTombstone],
    ) -> Self {
        let mut summary = Self {
            id,
            stored_bytes,
            raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
            entries: properties.entries,
            tombstones: properties.tombstones,
            range_tombstones: u32::try_from(tombstones.len()).unwrap_or(u32::MAX),
            repeated_keys: properties.repeated_keys,
            smallest: properties.smallest,
            largest: properties.largest,
            largest_exclusive: false,
            unbounded_end: false,
            seq_min: properties.seq_min,
            seq_max: properties.seq_max,
        };
        for (index, tombstone) in tombstones.iter().enumerate() {
            let first = summary.entries == 0 && index == 0;
            if first || tombstone.start < summary.smallest {
                summary.smallest.clone_from(&tombstone.start);
            }
            match &tombstone.end {
                None => summary.unbounded_end = true,
                Some(end) if first || *end > summary.largest => {
                    summary.largest.clone_from(end);
                    summary.largest_exclusive = true;
                }
                Some(_) => {}
            }
        }
        summary
    }
}
