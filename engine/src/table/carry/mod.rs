//! Carries values of other tables into the one being written: what nothing changed about goes as
//! the bytes it is stored as, and only the rest is decoded and compressed.
//!
//! A merge names values by their places (see [`StoredValue`]) and decodes none. When all keys of the
//! new table are known, so is what became of each old frame. At most one old table is *continued*:
//! the new one takes over its dictionary, and every frame of it whose values all survive, with its
//! base. All other values are *fresh*: they go through the layout like those of any new table.
//!
//! ```text
//! places in key order ─▶ survey: which frames are whole ─▶ traces: may the dictionary stay
//!                         │                                 │
//!                         ├── whole, base too: copied       └── no, or too much is fresh:
//!                         └── else: fresh                       all of it is encoded anew
//!                              └─▶ adopt: which of it joins a copied cluster
//! ```
//!
//! Invariants:
//! 1. A frame is copied only if its values, and those of its bases, are all in the new table: no byte
//!    of a value that is not can be decoded from it.
//! 2. A dictionary is taken over only if each 16 bytes of it that a value left behind has, some value
//!    of the new table has too (see [`traces`]).
//! 3. A copied frame's checksum was verified; the new table has one of its own for it.
//! 4. What is written is a function of the values and their old tables alone.
//!
//! Of a value there is a place in memory until the table is written, 20 bytes; the values themselves
//! come and go one by one.

mod adopt;
mod survey;
mod traces;

use std::sync::Arc;

use bytes::Bytes;

use self::adopt::{Adopted, Joining, adopt};
use self::survey::{Frame, Survey};
use super::context::IterContext;
use super::frames::{FrameWriter, StoredFrame};
use super::iter::TableIter;
use super::key_block::FramePlace;
use super::layout::{BaseFrame, FrameSink, LayoutWriter, RawFrame, planned_with};
use super::reader::TableReader;
use super::unit::{ORDINAL_MASK, UnitCodec, UnitKind};
use crate::codec::Dictionary;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Compression, Layout, TableOptions};
use crate::vfs::Advice;

/// A table is encoded anew once this part of its values would be there without having been planned
/// together with the rest, or was left behind since.
const CHANGED_DIVISOR: u64 = 4;

/// Bytes of the value area that the kernel is told of at a time.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// A value in a frame of an open table.
#[derive(Debug, Clone)]
pub(crate) struct StoredValue {
    pub(crate) table: Arc<TableReader>,
    pub(crate) place: FramePlace,
}

/// What a table's frames came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FramesKept {
    /// Frames that were copied.
    pub(crate) frames: u64,
    /// Their stored bytes.
    pub(crate) stored_bytes: u64,
    /// Bytes of the values in them.
    pub(crate) raw_bytes: u64,
    /// Bytes of values that were never planned together with all others of the table.
    pub(super) unplanned_bytes: u64,
}

/// Told of raw bytes that are done; an error ends the work.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

impl TableReader {
    /// Whether a table written with `options` may take over frames of this one.
    pub(crate) fn can_be_continued(&self, options: &TableOptions) -> bool {
        let properties = self.properties();
        let has_dictionary = self.dictionary.is_some();
        matches!(options.layout, Layout::Clustered(_))
            && properties.layout == options.layout
            && properties.compression == options.compression
            && properties.frames > 0
            // A damaged one would damage the new table too.
            && has_dictionary == (properties.dictionary_bytes > 0)
    }
}

/// The values on their way into one table.
pub(super) struct Carry {
    context: IterContext,
    sources: Vec<Source>,
    values: Vec<CarriedValue>,
    /// Values with a place in a frame, these and others.
    placed: u32,
    /// Which of them the layout was given, in the order it was.
    given: Vec<u32>,
    /// Those that are written otherwise.
    written: Vec<(u32, FramePlace)>,
}

/// A table that values come from.
struct Source {
    table: Arc<TableReader>,
    /// Decodes values, and keeps the frames that the next may need.
    values: TableIter,
}

/// A value whose frame is not decided yet.
#[derive(Debug, Clone, Copy)]
struct CarriedValue {
    /// Its number among the values that have a place in a frame.
    index: u32,
    source: u32,
    place: FramePlace,
}

/// The table to continue.
struct Continued {
    source: u32,
    survey: Survey,
    /// Fresh values that join its clusters.
    adopted: Adopted,
    unplanned_bytes: u64,
}

impl Carry {
    pub(super) fn new(context: IterContext) -> Self {
        Self {
            context,
            sources: Vec::new(),
            values: Vec::new(),
            placed: 0,
            given: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Takes the next value that lies in a frame elsewhere.
    pub(super) fn push(&mut self, value: &StoredValue) -> Result<()> {
        let index = self.next_index()?;
        let source = self.source(&value.table);
        self.values.push(CarriedValue {
            index,
            source,
            place: value.place,
        });
        Ok(())
    }

    /// Notes that the layout was given the next value.
    pub(super) fn was_given(&mut self) -> Result<()> {
        let index = self.next_index()?;
        self.given.push(index);
        Ok(())
    }

    fn next_index(&mut self) -> Result<u32> {
        let index = self.placed;
        self.placed = index
            .checked_add(1)
            .ok_or_else(|| Error::limit("table exceeds 2^32 values"))?;
        Ok(index)
    }

    fn source(&mut self, table: &Arc<TableReader>) -> u32 {
        let is_it = |source: &Source| source.table.id() == table.id();
        if let Some(last) = self.values.last()
            && self.sources.get(last.source as usize).is_some_and(is_it)
        {
            return last.source;
        }
        let known = self.sources.iter().position(is_it);
        let index = known.unwrap_or_else(|| {
            self.sources.push(Source {
                values: table.iter(self.context.clone()),
                table: Arc::clone(table),
            });
            self.sources.len() - 1
        });
        index as u32
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<CarriedValue>()
            + self.given.capacity() * size_of::<u32>()
            + self.written.capacity() * size_of::<(u32, FramePlace)>()
    }

    /// Writes the values: copies frames, and gives the layout what is fresh.
    pub(super) fn write(
        &mut self,
        layout: &mut LayoutWriter,
        frames: &mut FrameWriter,
        options: &TableOptions,
        progress: Progress<'_>,
    ) -> Result<FramesKept> {
        let values = std::mem::take(&mut self.values);
        let mut kept = FramesKept::default();
        let continued = match self.choose(&values, options) {
            // What nobody needs any more may be damaged; what is needed will be found to be.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                tracing::warn!(%error, "no frame is copied from a damaged table");
                None
            }
            chosen => chosen?,
        };
        if let Some(continued) = &continued {
            kept.unplanned_bytes = continued.unplanned_bytes;
            layout.train_no_dictionary();
            self.copy(continued, &values, frames, &mut kept, progress)?;
        }
        for (position, value) in values.iter().enumerate() {
            let is_written = |it: &Continued| it.copies(value) || it.adopted.contains(position);
            if !continued.as_ref().is_some_and(is_written) {
                self.encode(value, layout, frames)?;
                progress(u64::from(value.place.len))?;
            }
        }
        Ok(kept)
    }

    fn encode(
        &mut self,
        value: &CarriedValue,
        layout: &mut LayoutWriter,
        frames: &mut FrameWriter,
    ) -> Result<()> {
        let bytes = self.from(value.source)?.values.framed_value(value.place)?;
        layout.add(bytes, frames)?;
        self.given.push(value.index);
        Ok(())
    }

    fn from(&self, source: u32) -> Result<&Source> {
        let source = self.sources.get(source as usize);
        source.ok_or_else(|| Error::new(ErrorKind::Failed, "a value comes from no table"))
    }

    /// The table that gives most, if it can be continued and too much has not changed.
    fn choose(&self, values: &[CarriedValue], options: &TableOptions) -> Result<Option<Continued>> {
        // Frames with what the layout was given may be on their way already, or soon: too late for
        // another table's dictionary.
        if !self.given.is_empty() {
            return Ok(None);
        }
        let mut given_by = vec![0; self.sources.len()];
        for value in values {
            if let Some(bytes) = given_by.get_mut(value.source as usize) {
                *bytes += u64::from(value.place.len);
            }
        }
        let all: u64 = given_by.iter().sum();
        let sources = self.sources.iter().zip(&given_by).zip(0..);
        let able = sources.filter(|((source, _), _)| source.table.can_be_continued(options));
        let Some(((source, _), index)) = able.max_by_key(|((_, bytes), _)| **bytes) else {
            return Ok(None);
        };
        let survey = Survey::new(&source.table, index, values)?;
        let fresh = all - survey.copied_raw_bytes;
        let unplanned_bytes = fresh + source.table.properties().unplanned_value_bytes;
        let changed = unplanned_bytes.saturating_add(survey.dropped_raw_bytes);
        if survey.copied_raw_bytes == 0 || changed > all / CHANGED_DIVISOR {
            return Ok(None);
        }
        if let Some(dictionary) = &source.table.dictionary
            && traces::linger(dictionary.bytes(), source, &survey, values, &self.context)?
        {
            tracing::debug!(
                path = %source.table.file.path().display(),
                "a dictionary has bytes of values that are gone"
            );
            return Ok(None);
        }
        let adopted = match options.layout {
            Layout::Clustered(cluster)
                if cluster.depth_max > 0 && options.compression != Compression::None =>
            {
                let cluster = planned_with(&cluster);
                adopt(&self.sources, index, &survey, values, cluster)?
            }
            _ => Adopted::default(),
        };
        Ok(Some(Continued {
            source: index,
            survey,
            unplanned_bytes: unplanned_bytes - adopted.raw_bytes,
            adopted,
        }))
    }

    /// Copies the frames of the continued table that are whole, in their order, bases first.
    fn copy(
        &mut self,
        continued: &Continued,
        values: &[CarriedValue],
        frames: &mut FrameWriter,
        kept: &mut FramesKept,
        progress: Progress<'_>,
    ) -> Result<()> {
        let table = Arc::clone(&self.from(continued.source)?.table);
        let dictionary = table.dictionary.as_ref();
        if let Some(dictionary) = dictionary {
            frames.set_dictionary(Dictionary::new(dictionary.bytes().to_vec()))?;
        }
        let mut copies: Vec<Option<u32>> = vec![None; continued.survey.frames.len()];
        let mut told_until = 0;
        for (ordinal, frame) in (0..).zip(&continued.survey.frames) {
            if !frame.is_copied {
                continue;
            }
            if frame.extent.end > told_until {
                told_until = frame.extent.start + READ_AHEAD_BYTES;
                let ahead = frame.extent.start..told_until.min(table.stored_bytes());
                table.file.advise(Advice::WillNeed, ahead);
            }
            let copy = copy_frame(&table, ordinal, frame, &copies, frames)
                .map_err(|error| error.at_offset(frame.extent.start))
                .map_err(|error| error.at_path(table.file.path()))?;
            if let Some(slot) = copies.get_mut(ordinal as usize) {
                *slot = Some(copy);
            }
            for value in continued.survey.members(frame, values) {
                let place = FramePlace {
                    frame: copy,
                    ..value.place
                };
                self.written.push((value.index, place));
            }
            kept.frames += 1;
            kept.stored_bytes += frame.extent.end - frame.extent.start;
            kept.raw_bytes += u64::from(frame.raw_len);
            progress(u64::from(frame.raw_len))?;
            let joining = continued.adopted.of_base(ordinal);
            if !joining.is_empty() {
                let raw = self.from(continued.source)?.values.raw_frame(ordinal)?;
                let base = BaseFrame {
                    ordinal: copy,
                    decoded_bytes: raw.len() as u64,
                    bytes: raw,
                };
                for Joining { value, bytes } in joining {
                    self.encode_follower(value, bytes.clone(), base.clone(), frames)?;
                    progress(u64::from(value.place.len))?;
                }
            }
        }
        Ok(())
    }

    /// Gives a value the next frame, in the cluster of a base.
    fn encode_follower(
        &mut self,
        value: &CarriedValue,
        bytes: Bytes,
        base: BaseFrame,
        frames: &mut FrameWriter,
    ) -> Result<()> {
        let frame = frames.push(RawFrame {
            bytes,
            value_lens: vec![value.place.len],
            base: Some(base),
        })?;
        let place = FramePlace {
            frame,
            offset: 0,
            ..value.place
        };
        self.written.push((value.index, place));
        Ok(())
    }

    /// Where each value went, in key order; `laid_out` says where the layout put what it was given.
    pub(super) fn places(&self, laid_out: &[FramePlace]) -> Result<Vec<FramePlace>> {
        let mut places = vec![None; self.placed as usize];
        let given = self.given.iter().copied().zip(laid_out.iter().copied());
        for (index, place) in given.chain(self.written.iter().copied()) {
            if let Some(slot) = places.get_mut(index as usize) {
                *slot = Some(place);
            }
        }
        let places: Option<Vec<FramePlace>> = places.into_iter().collect();
        places.ok_or_else(|| Error::new(ErrorKind::Failed, "a merge lost a value"))
    }
}

impl Continued {
    /// Whether the value lies in a frame that is copied.
    fn copies(&self, value: &CarriedValue) -> bool {
        let frame = self.survey.frames.get(value.place.frame as usize);
        value.source == self.source && frame.is_some_and(|frame| frame.is_copied)
    }
}

/// Copies one frame, verified, and returns its new ordinal. `copies` says where its base went.
fn copy_frame(
    table: &TableReader,
    ordinal: u32,
    frame: &Frame,
    copies: &[Option<u32>],
    frames: &mut FrameWriter,
) -> Result<u32> {
    let mut buffer = Vec::new();
    let unit = table
        .file
        .unit(UnitKind::Frame, &frame.extent, &mut buffer)?;
    let header = &unit.header;
    let follower = unit.follower(ordinal)?;
    let base = follower.as_ref().map(|follower| follower.base);
    // The survey went by headers whose checksums it had not verified.
    if header.ordinal != ordinal & ORDINAL_MASK
        || header.raw_len != frame.raw_len
        || base != frame.base
    {
        return Err(Error::corruption(format!(
            "frame {ordinal} is not what its header said"
        )));
    }
    if header.codec == UnitCodec::ZstdDictionary && table.dictionary.is_none() {
        return Err(Error::corruption(format!(
            "frame {ordinal} needs a dictionary that the table does not have"
        )));
    }
    let base = match base {
        None => None,
        Some(base) => Some(
            copies
                .get(base as usize)
                .copied()
                .flatten()
                .ok_or_else(|| {
                    Error::new(
                        ErrorKind::Failed,
                        "a frame was to be copied without its base",
                    )
                })?,
        ),
    };
    frames.push_stored(StoredFrame {
        codec: header.codec,
        raw_len: header.raw_len,
        base,
        compressed: follower.map_or(unit.stored, |follower| follower.compressed),
    })
}
