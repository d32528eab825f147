//! Finds the units of a table file without its footer, by reading from its start.
//!
//! Units lie back to back, so a sound one says where the next begins. Where one is damaged, the
//! scan goes on byte by byte until a unit checks out again: its checksum is salted with file and
//! offset, so neither a stray copy nor chance is taken for one. Only headers whose lengths are
//! possible are tried, so a damaged stretch costs little more than reading it.

use std::ops::Range;

use super::footer::HEADER_BYTES;
use super::source::TableFile;
use super::unit::{
    ORDINAL_MASK, UNIT_HEADER_BYTES, UnitCodec, UnitHeader, UnitKind, open_any_unit,
};
use crate::error::Result;

/// Bytes read at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// Stretches without a unit of up to this length may be padding.
pub(super) const PADDING_BYTES_MAX: u64 = 7;

/// A found unit.
#[derive(Debug, Clone)]
pub(crate) struct FoundUnit {
    pub(crate) kind: UnitKind,
    /// Counted on beyond the 24 bits that the header keeps.
    pub(crate) ordinal: u32,
    pub(crate) range: Range<u64>,
}

/// The units of a file, and the stretches between them that hold none.
pub(crate) struct UnitScan<'a> {
    file: &'a TableFile,
    offset: u64,
    window: Vec<u8>,
    window_start: u64,
    unit: Vec<u8>,
    /// The next ordinal of frames and of key blocks.
    next_frame: u32,
    next_key_block: u32,
}

/// What a scan comes upon.
#[derive(Debug, Clone)]
pub(crate) enum Finding {
    Unit(FoundUnit),
    /// Bytes in which there is no sound unit: damage, or padding before a section.
    Gap(Range<u64>),
}

impl<'a> UnitScan<'a> {
    pub(crate) fn new(file: &'a TableFile) -> Self {
        Self {
            file,
            offset: HEADER_BYTES as u64,
            window: Vec::new(),
            window_start: 0,
            unit: Vec::new(),
            next_frame: 0,
            next_key_block: 0,
        }
    }

    /// The next finding; none at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Finding>> {
        let start = self.offset;
        let mut at = start;
        while at < self.file.len() {
            if let Some(header) = self.candidate(at)?
                && let Some(unit) = self.check(at, header)?
            {
                if at > start {
                    // Told of first; the unit is found again right away.
                    self.offset = at;
                    return Ok(Some(Finding::Gap(start..at)));
                }
                self.offset = unit.range.end;
                self.advance(&unit);
                return Ok(Some(Finding::Unit(unit)));
            }
            at += 1;
        }
        self.offset = at;
        Ok((at > start).then_some(Finding::Gap(start..at)))
    }

    fn advance(&mut self, unit: &FoundUnit) {
        match unit.kind {
            UnitKind::Frame => self.next_frame = unit.ordinal.saturating_add(1),
            UnitKind::KeyBlock => self.next_key_block = unit.ordinal.saturating_add(1),
            _ => {}
        }
    }

    /// The header at `at`, if it could be one.
    fn candidate(&mut self, at: u64) -> Result<Option<UnitHeader>> {
        let end = at + UNIT_HEADER_BYTES as u64;
        if end > self.file.len() {
            return Ok(None);
        }
        let held = self.window_start..self.window_start + self.window.len() as u64;
        if at < held.start || end > held.end {
            let range = at..(at + WINDOW_BYTES).min(self.file.len());
            self.file.read(&range, &mut self.window)?;
            self.window_start = at;
        }
        let from = usize::try_from(at - self.window_start).unwrap_or(usize::MAX);
        let bytes = self.window.get(from..).unwrap_or_default();
        let Ok(header) = UnitHeader::decode(bytes) else {
            return Ok(None);
        };
        let compressed = header.codec != UnitCodec::Raw;
        let possible = header.check_lengths().is_ok()
            && end + u64::from(header.stored_len) <= self.file.len()
            && (header.kind == UnitKind::Frame || !compressed)
            && (!compressed || header.stored_len < header.raw_len);
        Ok(possible.then_some(header))
    }

    fn check(&mut self, at: u64, header: UnitHeader) -> Result<Option<FoundUnit>> {
        let end = at + UNIT_HEADER_BYTES as u64 + u64::from(header.stored_len);
        self.file.read(&(at..end), &mut self.unit)?;
        if open_any_unit(&self.unit, self.file.id(), at).is_err() {
            return Ok(None);
        }
        let expected = match header.kind {
            UnitKind::Frame => self.next_frame,
            UnitKind::KeyBlock => self.next_key_block,
            _ => 0,
        };
        // The smallest ordinal from the expected one on that has these low bits.
        let ahead = header.ordinal.wrapping_sub(expected) & ORDINAL_MASK;
        let ordinal = expected.saturating_add(ahead);
        Ok(Some(FoundUnit {
            kind: header.kind,
            ordinal,
            range: at..end,
        }))
    }
}
