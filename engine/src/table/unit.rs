//! Units: the checksummed pieces that a table file consists of between its header and footer.
//!
//! ```text
//!  0        1              4               8               12              16
//! ┌────────┬──────────────┬───────────────┬───────────────┬───────────────┬──────────────┐
//! │ tag    │ ordinal      │ stored length │ raw length    │ CRC-32        │ stored bytes │
//! │ u8     │ u24          │ u32           │ u32           │ u32           │              │
//! └────────┴──────────────┴───────────────┴───────────────┴───────────────┴──────────────┘
//! ```
//!
//! The tag holds the unit's kind in its low and its codec in its high four bits. The ordinal counts
//! the units of one kind from 0, modulo 2^24: enough for a salvage to tell which frame it found,
//! while the directory's position is what a reader trusts. The checksum covers tag, file id and
//! offset (see [`crate::checksum`]), the twelve bytes before it, and the stored bytes.
//!
//! Invariants: (1) the checksum is verified before any stored byte is interpreted; (2) lengths are
//! checked against the file and [`UnitHeader::check_lengths`] before anything is allocated.

use crate::checksum::{check_unit, unit_checksum};
use crate::coding::{Cursor, put_u32};
use crate::error::{Error, Result};
use crate::types::{FileId, VALUE_BYTES_MAX};

/// Bytes of a unit before its stored bytes.
pub(crate) const UNIT_HEADER_BYTES: usize = 16;

/// Most raw bytes that one stored byte of a zstd frame can stand for: a run block of 128 KiB takes
/// four bytes. A larger claim is refused before memory is asked for.
const RAW_PER_STORED_MAX: u64 = (128 << 10) / 4;

/// Bytes of a follower's base ordinal, before its zstd frame.
pub(crate) const BASE_ORDINAL_BYTES: usize = 4;

/// What a unit is. 0 is reserved so that zeroed bytes never decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum UnitKind {
    Frame = 1,
    KeyBlock = 2,
    KeyIndex = 3,
    FrameDirectory = 4,
    Filter = 5,
    RangeTombstones = 6,
    Dictionary = 7,
    Properties = 8,
    SectionTable = 9,
}

impl UnitKind {
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Frame),
            2 => Some(Self::KeyBlock),
            3 => Some(Self::KeyIndex),
            4 => Some(Self::FrameDirectory),
            5 => Some(Self::Filter),
            6 => Some(Self::RangeTombstones),
            7 => Some(Self::Dictionary),
            8 => Some(Self::Properties),
            9 => Some(Self::SectionTable),
            _ => None,
        }
    }

    /// The word for error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::KeyBlock => "key block",
            Self::KeyIndex => "key index",
            Self::FrameDirectory => "frame directory",
            Self::Filter => "filter",
            Self::RangeTombstones => "range tombstones",
            Self::Dictionary => "dictionary",
            Self::Properties => "properties",
            Self::SectionTable => "section table",
        }
    }
}

/// How a unit's stored bytes become its raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum UnitCodec {
    Raw = 0,
    /// One zstd frame without magic, checksum, content size and dictionary id.
    Zstd = 1,
    /// The same, with the table's dictionary.
    ZstdDictionary = 2,
    /// The ordinal of a frame of the same table, its base, then the same with that frame's raw
    /// bytes as prefix.
    ZstdBase = 3,
}

impl UnitCodec {
    fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Raw),
            1 => Some(Self::Zstd),
            2 => Some(Self::ZstdDictionary),
            3 => Some(Self::ZstdBase),
            _ => None,
        }
    }
}

/// A unit's header, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitHeader {
    pub(crate) kind: UnitKind,
    pub(crate) codec: UnitCodec,
    /// Modulo 2^24.
    pub(crate) ordinal: u32,
    pub(crate) stored_len: u32,
    pub(crate) raw_len: u32,
    crc: u32,
}

/// The part of an ordinal that a unit header keeps.
pub(crate) const ORDINAL_MASK: u32 = (1 << 24) - 1;

impl UnitHeader {
    /// Encodes the header of a unit at `offset` of the file with `id`.
    pub(crate) fn encode(
        kind: UnitKind,
        codec: UnitCodec,
        ordinal: u32,
        raw_len: u32,
        stored: &[u8],
        id: FileId,
        offset: u64,
    ) -> Result<[u8; UNIT_HEADER_BYTES]> {
        let stored_len = u32::try_from(stored.len())
            .map_err(|_| Error::limit(format!("{} exceeds 4 GiB", kind.name())))?;
        let tag = kind as u8 | (codec as u8) << 4;
        let mut bytes = Vec::with_capacity(UNIT_HEADER_BYTES);
        put_u32(&mut bytes, u32::from(tag) | (ordinal & ORDINAL_MASK) << 8);
        put_u32(&mut bytes, stored_len);
        put_u32(&mut bytes, raw_len);
        let crc = unit_checksum(tag, id, offset, &[&bytes, stored]);
        put_u32(&mut bytes, crc);
        let mut header = [0; UNIT_HEADER_BYTES];
        header.copy_from_slice(&bytes);
        Ok(header)
    }

    /// Decodes a header without judging its lengths or checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let word = cursor.u32("unit tag")?;
        let stored_len = cursor.u32("unit stored length")?;
        let raw_len = cursor.u32("unit raw length")?;
        let crc = cursor.u32("unit checksum")?;
        let tag = (word & 0xff) as u8;
        let kind = UnitKind::from_code(tag & 0x0f)
            .ok_or_else(|| Error::corruption(format!("unit of unknown kind {}", tag & 0x0f)))?;
        let codec = UnitCodec::from_code(tag >> 4)
            .ok_or_else(|| Error::corruption(format!("unit of unknown codec {}", tag >> 4)))?;
        Ok(Self {
            kind,
            codec,
            ordinal: word >> 8,
            stored_len,
            raw_len,
            crc,
        })
    }

    /// Fails on lengths that no writer makes, so that they can be trusted for an allocation.
    pub(crate) fn check_lengths(&self) -> Result<()> {
        let stored = u64::from(self.stored_len);
        let raw = u64::from(self.raw_len);
        let plausible = match self.codec {
            UnitCodec::Raw => raw == stored,
            UnitCodec::Zstd | UnitCodec::ZstdDictionary | UnitCodec::ZstdBase => {
                raw <= VALUE_BYTES_MAX as u64 && raw <= stored.saturating_mul(RAW_PER_STORED_MAX)
            }
        };
        if plausible {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "{} of {stored} stored bytes claims {raw} raw bytes",
            self.kind.name()
        )))
    }
}

/// A whole unit whose checksum was verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit<'a> {
    pub(crate) header: UnitHeader,
    pub(crate) stored: &'a [u8],
}

/// A frame that is decoded with the help of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Follower<'a> {
    /// Ordinal of the frame whose raw bytes are the prefix.
    pub(crate) base: u32,
    pub(crate) compressed: &'a [u8],
    pub(crate) raw_len: usize,
}

impl<'a> Unit<'a> {
    /// What the unit says as frame `ordinal`, if it has a base. A base stands before its followers,
    /// so whoever goes from frame to base comes to an end.
    pub(crate) fn follower(&self, ordinal: u32) -> Result<Option<Follower<'a>>> {
        if self.header.codec != UnitCodec::ZstdBase {
            return Ok(None);
        }
        let (base, compressed) = self
            .stored
            .split_first_chunk::<BASE_ORDINAL_BYTES>()
            .ok_or_else(|| Error::corruption("frame is too short to name its base"))?;
        let base = u32::from_le_bytes(*base);
        if base >= ordinal {
            return Err(Error::corruption(format!(
                "frame {ordinal} names frame {base} as its base, which does not come before it"
            )));
        }
        Ok(Some(Follower {
            base,
            compressed,
            raw_len: self.header.raw_len as usize,
        }))
    }
}

/// Takes apart the unit that fills `bytes`, which lie at `offset` of the file with `id`, and
/// verifies it.
pub(crate) fn open_unit(bytes: &[u8], kind: UnitKind, id: FileId, offset: u64) -> Result<Unit<'_>> {
    open_any_unit(bytes, id, offset)
        .and_then(|unit| {
            if unit.header.kind == kind {
                return Ok(unit);
            }
            Err(Error::corruption(format!(
                "expected a {}, found a {}",
                kind.name(),
                unit.header.kind.name()
            )))
        })
        .map_err(|error| error.at_offset(offset))
}

/// Like [`open_unit`], whatever the unit's kind.
pub(crate) fn open_any_unit(bytes: &[u8], id: FileId, offset: u64) -> Result<Unit<'_>> {
    let header = UnitHeader::decode(bytes)?;
    let (head, stored) = bytes
        .split_at_checked(UNIT_HEADER_BYTES)
        .ok_or_else(|| Error::corruption("unit header is cut short"))?;
    if stored.len() as u64 != u64::from(header.stored_len) {
        return Err(Error::corruption(format!(
            "{} of {} stored bytes where {} were expected",
            header.kind.name(),
            header.stored_len,
            stored.len()
        )));
    }
    let context = head.get(..UNIT_HEADER_BYTES - 4).unwrap_or_default();
    let tag = context.first().copied().unwrap_or_default();
    let name = header.kind.name();
    check_unit(tag, id, offset, &[context, stored], header.crc, name)?;
    header.check_lengths()?;
    Ok(Unit { header, stored })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(stored: &[u8]) -> Vec<u8> {
        let header = UnitHeader::encode(
            UnitKind::Frame,
            UnitCodec::Raw,
            0x0123_4567,
            stored.len() as u32,
            stored,
            FileId(9),
            77,
        );
        let mut bytes = header.unwrap().to_vec();
        bytes.extend_from_slice(stored);
        bytes
    }

    #[test]
    fn a_unit_opens_as_it_was_made() {
        let bytes = unit(b"hello");
        let unit = open_unit(&bytes, UnitKind::Frame, FileId(9), 77).unwrap();
        assert_eq!(unit.stored, b"hello");
        assert_eq!(unit.header.ordinal, 0x0023_4567);
        assert!(open_unit(&bytes, UnitKind::KeyBlock, FileId(9), 77).is_err());
        assert!(open_unit(&bytes, UnitKind::Frame, FileId(9), 78).is_err());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = unit(b"hello");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open_unit(&bad, UnitKind::Frame, FileId(9), 77).is_err());
        }
    }

    #[test]
    fn absurd_raw_lengths_are_refused_before_allocation() {
        let header = UnitHeader {
            kind: UnitKind::Frame,
            codec: UnitCodec::Zstd,
            ordinal: 0,
            stored_len: 10,
            raw_len: 1 << 29,
            crc: 0,
        };
        assert!(header.check_lengths().is_err());
    }
}
