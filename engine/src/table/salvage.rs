//! Gets out of a damaged table what is still sound, and says what is lost.
//!
//! Needs neither footer nor sections: key blocks name frames by ordinal, frames carry theirs, and
//! a scan finds both (see [`super::scan`]). Needs the file's id, from the header, else the footer,
//! else the caller.
//!
//! Entries come out in internal order. A value whose frame is gone is told with its key, so that
//! the caller can fetch it elsewhere; a key block that is gone is told by the keys around it. What
//! sound frames hold beside the values of known keys comes out as orphans, in the order of frames:
//! frames do not say where one value ends and the next begins, so an orphan is one value or several.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use super::chain::BASES_MAX;
use super::footer::{HEADER_BYTES, decode_header};
use super::key_block::{FramePlace, KeyBlock, StoredPlace};
use super::properties::TableProperties;
use super::reader::read_footer;
use super::scan::{Finding, PADDING_BYTES_MAX, UnitScan};
use super::source::TableFile;
use super::tombstones::decode_tombstones;
use super::unit::{UNIT_HEADER_BYTES, Unit, UnitHeader, UnitKind};
use super::values::{decode_beside, decode_unit, value_bytes};
use crate::codec::Dictionary;
use crate::error::{ErrorKind, Result};
use crate::iter::RangeTombstone;
use crate::options::ReadMode;
use crate::types::{EntryKind, FileId, SeqNo};
use crate::vfs::Vfs;

/// A recovered entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SalvagedEntry<'a> {
    pub(crate) key: &'a [u8],
    /// Effective.
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: Bytes,
}

/// Bytes of values whose keys are lost: one value or several, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) frame: u32,
    /// Where in the frame's raw bytes they begin.
    pub(crate) offset: u32,
    pub(crate) bytes: Bytes,
}

/// What a salvage hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Salvaged<'a> {
    Entry(SalvagedEntry<'a>),
    /// All of them after the last entry, and only where keys are lost.
    Orphan(Orphan),
}

/// Where what is salvaged goes.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Salvaged<'_>) -> Result<()>;

/// Something that could not be recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A key whose value is gone.
    Value {
        key: Vec<u8>,
        seq: SeqNo,
        /// The frame whose loss took the value with it, where that is not the value's own.
        lost_base: Option<u32>,
    },
    /// Whatever keys lay strictly between these; none is the table's begin or end.
    Keys {
        after: Option<Vec<u8>>,
        before: Option<Vec<u8>>,
    },
    /// Bytes that hold no sound unit.
    Bytes(Range<u64>),
    /// The range tombstones: keys they deleted may be back. Told only if there were any, or if
    /// nobody can say.
    RangeTombstones,
}

/// What a salvage came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SalvageReport {
    pub(crate) entries: u64,
    pub(crate) value_bytes: u64,
    pub(crate) orphans: u64,
    /// With effective sequence numbers.
    pub(crate) range_tombstones: Vec<RangeTombstone>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) properties: Option<TableProperties>,
}

/// Hands every sound entry of the table at `path` to `sink`, in internal order, then the orphans.
/// `expect` is the id the file should have, for one that lost both header and footer.
pub(crate) fn salvage(
    vfs: &dyn Vfs,
    path: &Path,
    expect: Option<FileId>,
    seq_base: SeqNo,
    sink: Sink<'_>,
) -> Result<SalvageReport> {
    // By positioned reads: a bad sector must be an error here, never a signal.
    let mut file = TableFile::open(vfs, path, ReadMode::Pread)?;
    let id = identify(&file, expect).map_err(|error| error.at_path(path))?;
    file.identify(id);
    let mut salvage = Salvage {
        file: &file,
        seq_base,
        frames: HashMap::new(),
        key_blocks: Vec::new(),
        dictionary: None,
        properties: None,
        index_found: false,
        tombstones_found: false,
        known: None,
        frame: None,
        base: None,
        report: SalvageReport::default(),
    };
    salvage
        .survey()
        .and_then(|()| salvage.recover(sink))
        .map_err(|error| error.at_path(path))?;
    salvage.report.properties = salvage.properties;
    Ok(salvage.report)
}

/// The file's id, from wherever it can be had.
pub(super) fn identify(file: &TableFile, expect: Option<FileId>) -> Result<FileId> {
    let mut bytes = Vec::new();
    let header = file
        .read(&(0..HEADER_BYTES as u64), &mut bytes)
        .and_then(|()| decode_header(&bytes));
    let error = match header {
        Ok(id) => return Ok(id),
        Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
        Err(error) => error,
    };
    if let Ok(footer) = read_footer(file) {
        return Ok(footer.id);
    }
    expect.ok_or(error)
}

struct Salvage<'a> {
    file: &'a TableFile,
    seq_base: SeqNo,
    frames: HashMap<u32, Range<u64>>,
    key_blocks: Vec<(u32, Range<u64>)>,
    dictionary: Option<Dictionary>,
    properties: Option<TableProperties>,
    index_found: bool,
    tombstones_found: bool,
    /// The parts of frames that known keys name; kept only where keys are lost.
    known: Option<HashMap<u32, Vec<Range<u32>>>>,
    /// The frame decoded last.
    frame: Option<(u32, Decoded)>,
    /// The base decoded last.
    base: Option<(u32, Vec<u8>)>,
    report: SalvageReport,
}

/// What became of a frame, or of a value in it.
#[derive(Debug, Clone)]
enum Decoded {
    Sound(Bytes),
    /// It is not there, or does not decode.
    Lost,
    /// It is there, but this base of it is not.
    BaseLost(u32),
}

impl Salvage<'_> {
    /// Finds every sound unit.
    fn survey(&mut self) -> Result<()> {
        let mut scan = UnitScan::new(self.file);
        let mut last_gap = None;
        while let Some(finding) = scan.next()? {
            let unit = match finding {
                Finding::Unit(unit) => unit,
                Finding::Gap(range) => {
                    if range.end - range.start > PADDING_BYTES_MAX {
                        self.report.losses.push(Loss::Bytes(range.clone()));
                    }
                    last_gap = Some(range);
                    continue;
                }
            };
            match unit.kind {
                UnitKind::Frame => {
                    self.frames.entry(unit.ordinal).or_insert(unit.range);
                }
                UnitKind::KeyBlock => self.key_blocks.push((unit.ordinal, unit.range)),
                kind => self.section(kind, &unit.range)?,
            }
        }
        // A sound footer is no unit, so it ends the scan as a gap of its own.
        if read_footer(self.file).is_ok()
            && let Some(gap) = last_gap
        {
            let footer = self.file.len() - super::footer::FOOTER_BYTES as u64;
            self.report
                .losses
                .retain(|loss| *loss != Loss::Bytes(gap.clone()));
            if gap.start + PADDING_BYTES_MAX < footer {
                self.report.losses.push(Loss::Bytes(gap.start..footer));
            }
        }
        Ok(())
    }

    fn section(&mut self, kind: UnitKind, range: &Range<u64>) -> Result<()> {
        let section = self.file.section(kind, range)?;
        let bytes = self.file.bytes(&section);
        match kind {
            UnitKind::Dictionary => self.dictionary = Some(Dictionary::new(bytes.to_vec())),
            UnitKind::Properties => self.properties = TableProperties::decode(bytes).ok(),
            UnitKind::KeyIndex => self.index_found = true,
            UnitKind::RangeTombstones => {
                if let Ok(tombstones) = decode_tombstones(bytes, self.seq_base) {
                    self.report.range_tombstones = tombstones;
                    self.tombstones_found = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Walks the key blocks and hands out their entries, then what is left of the frames.
    fn recover(&mut self, sink: Sink<'_>) -> Result<()> {
        let blocks = std::mem::take(&mut self.key_blocks);
        let end = blocks.last().map_or(0, |(last, _)| last.saturating_add(1));
        let complete = match &self.properties {
            Some(properties) => properties.key_blocks == u64::from(end),
            // What follows the last key block was found, so that one was the last.
            None => self.index_found,
        };
        if !complete || blocks.len() as u64 != u64::from(end) {
            self.known = Some(HashMap::new());
        }
        let mut expected = 0;
        let mut last_key = None;
        for (ordinal, range) in &blocks {
            let missing = *ordinal != expected;
            self.block(range, missing, &mut last_key, sink)?;
            expected = ordinal.saturating_add(1);
        }
        if !complete {
            self.report.losses.push(Loss::Keys {
                after: last_key,
                before: None,
            });
        }
        let had_tombstones = self
            .properties
            .as_ref()
            .is_none_or(|properties| properties.range_tombstones > 0);
        if had_tombstones && !self.tombstones_found {
            self.report.losses.push(Loss::RangeTombstones);
        }
        match self.known.take() {
            Some(known) => self.orphans(known, sink),
            None => Ok(()),
        }
    }

    /// Hands out what sound frames hold beside the values of known keys.
    fn orphans(&mut self, mut known: HashMap<u32, Vec<Range<u32>>>, sink: Sink<'_>) -> Result<()> {
        let mut ordinals: Vec<u32> = self.frames.keys().copied().collect();
        ordinals.sort_unstable();
        for ordinal in ordinals {
            let mut parts = known.remove(&ordinal).unwrap_or_default();
            parts.sort_unstable_by_key(|part| part.start);
            let Decoded::Sound(bytes) = self.decode(ordinal)? else {
                continue;
            };
            // A frame is never longer than a value may be, and that fits.
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            parts.push(len..len);
            let mut from = 0;
            for part in parts {
                let orphan = from as usize..part.start as usize;
                from = from.max(part.end);
                let Some(bytes) = bytes.get(orphan.clone()).filter(|bytes| !bytes.is_empty())
                else {
                    continue;
                };
                self.report.orphans += 1;
                sink(Salvaged::Orphan(Orphan {
                    frame: ordinal,
                    offset: u32::try_from(orphan.start).unwrap_or(u32::MAX),
                    bytes: Bytes::copy_from_slice(bytes),
                }))?;
            }
        }
        Ok(())
    }

    fn block(
        &mut self,
        range: &Range<u64>,
        mut missing_before: bool,
        last_key: &mut Option<Vec<u8>>,
        sink: Sink<'_>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let unit = self.file.unit(UnitKind::KeyBlock, range, &mut buffer)?;
        KeyBlock::new(unit.stored)?.for_each(|key, entry| {
            if std::mem::take(&mut missing_before) {
                self.report.losses.push(Loss::Keys {
                    after: last_key.take(),
                    before: Some(key.to_vec()),
                });
            }
            let seq = SeqNo(entry.seq.0.saturating_add(self.seq_base.0));
            let value = match entry.place {
                StoredPlace::Inline(value) => Decoded::Sound(Bytes::copy_from_slice(value)),
                StoredPlace::Frame(place) => {
                    if let Some(known) = &mut self.known {
                        let parts = known.entry(place.frame).or_default();
                        parts.push(place.offset..place.end());
                    }
                    self.value(place)?
                }
            };
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            let lost_base = match value {
                Decoded::BaseLost(base) => Some(base),
                _ => None,
            };
            let Decoded::Sound(value) = value else {
                self.report.losses.push(Loss::Value {
                    key: key.to_vec(),
                    seq,
                    lost_base,
                });
                return Ok(());
            };
            self.report.entries += 1;
            self.report.value_bytes += value.len() as u64;
            sink(Salvaged::Entry(SalvagedEntry {
                key,
                seq,
                kind: entry.kind,
                value,
            }))
        })
    }

    /// The value at `place`.
    fn value(&mut self, place: FramePlace) -> Result<Decoded> {
        if self
            .frame
            .as_ref()
            .is_none_or(|(held, _)| *held != place.frame)
        {
            let frame = self.decode(place.frame)?;
            self.frame = Some((place.frame, frame));
        }
        Ok(match &self.frame {
            Some((_, Decoded::Sound(frame))) => value_bytes(frame, place)
                .map_or(Decoded::Lost, |value| {
                    Decoded::Sound(frame.slice_ref(value))
                }),
            Some((_, lost)) => lost.clone(),
            None => Decoded::Lost,
        })
    }

    fn decode(&mut self, ordinal: u32) -> Result<Decoded> {
        let Some(range) = self.frames.get(&ordinal) else {
            return Ok(Decoded::Lost);
        };
        let mut buffer = Vec::new();
        let unit = self.file.unit(UnitKind::Frame, range, &mut buffer)?;
        let mut raw = Vec::new();
        let outcome = match unit.follower(ordinal) {
            Ok(None) => decode_unit(&unit, self.dictionary.as_ref(), &mut raw),
            Ok(Some(follower)) => {
                if !self.decode_base(follower.base)? {
                    return Ok(Decoded::BaseLost(follower.base));
                }
                let Some((_, base)) = &mut self.base else {
                    return Ok(Decoded::BaseLost(follower.base));
                };
                let base_len = base.len();
                let outcome = decode_beside(&follower, base, &mut raw);
                base.truncate(base_len);
                outcome
            }
            Err(error) => Err(error),
        };
        Ok(sound(outcome)?.map_or(Decoded::Lost, |()| Decoded::Sound(raw.into())))
    }

    /// Sees to it that `base` is this base; false if it is lost, or one that it needs is.
    fn decode_base(&mut self, ordinal: u32) -> Result<bool> {
        // From the base on those that it needs, until one that is held or needs none.
        let mut units: Vec<(u32, UnitHeader, Vec<u8>)> = Vec::new();
        let mut next = Some(ordinal);
        while let Some(at) = next.filter(|at| self.base.as_ref().is_none_or(|it| it.0 != *at)) {
            let range = match self.frames.get(&at) {
                Some(range) if units.len() < BASES_MAX => range,
                _ => return Ok(false),
            };
            let mut buffer = Vec::new();
            let header = self.file.unit(UnitKind::Frame, range, &mut buffer)?.header;
            let stored = buffer.split_off(UNIT_HEADER_BYTES.min(buffer.len()));
            let follower = Unit {
                header,
                stored: &stored,
            }
            .follower(at);
            next = match follower {
                Ok(follower) => follower.map(|follower| follower.base),
                Err(_) => return Ok(false),
            };
            units.push((at, header, stored));
        }
        for (at, header, stored) in units.into_iter().rev() {
            let stored = &stored;
            let unit = Unit { header, stored };
            let mut raw = Vec::new();
            let outcome = match (unit.follower(at)?, self.base.as_mut()) {
                (Some(follower), Some((_, base))) => decode_beside(&follower, base, &mut raw),
                _ => decode_unit(&unit, self.dictionary.as_ref(), &mut raw),
            };
            self.base = sound(outcome)?.map(|()| (at, raw));
            if self.base.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// None for what is damaged; passes on what is no damage.
fn sound(outcome: Result<()>) -> Result<Option<()>> {
    match outcome {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
        Err(error) => Err(error),
    }
}
