//! The fixed pieces at both ends of a table file, and the section table between them.
//!
//! ```text
//! header, 24 bytes          magic 8 │ version u32 │ file id u64 │ CRC-32 u32
//! section table (a unit)    per section: kind u8 │ offset u64 │ unit length u64
//! footer, 48 bytes          section table offset u64 │ its unit length u64 │ file length u64 │
//!                           file id u64 │ version u32 │ CRC-32 u32 │ magic 8
//! ```
//!
//! The footer's magic differs from the header's, and its checksum covers everything before the
//! checksum in it. A reader starts at the footer; a salvage needs only the header's file id, or
//! the footer's.

use std::ops::Range;

use crate::checksum::{check_unit, unit_checksum};
use crate::coding::{Cursor, put_u32, put_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::table::unit::UnitKind;
use crate::types::FileId;

/// The format that this build writes. Version 2 brought frames with a base, 3 bases with one.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// The oldest format that it reads.
const FORMAT_VERSION_MIN: u32 = 1;
/// Length of the file header.
pub(crate) const HEADER_BYTES: usize = 24;
/// Length of the footer.
pub(crate) const FOOTER_BYTES: usize = 48;

const HEADER_MAGIC: [u8; 8] = *b"\x89PPCTBL\n";
const FOOTER_MAGIC: [u8; 8] = *b"\nLBTCPP\x89";
/// Checksum contexts of header and footer; beyond any unit's tag.
const HEADER_CONTEXT: u8 = 0xf0;
const FOOTER_CONTEXT: u8 = 0xf1;

/// Bytes of one section table entry.
const SECTION_ENTRY_BYTES: usize = 17;

/// Encodes the file header.
pub(crate) fn encode_header(id: FileId) -> Vec<u8> {
    let mut bytes = HEADER_MAGIC.to_vec();
    put_u32(&mut bytes, FORMAT_VERSION);
    put_u64(&mut bytes, id.0);
    let crc = unit_checksum(HEADER_CONTEXT, id, 0, &[&bytes]);
    put_u32(&mut bytes, crc);
    bytes
}

/// Decodes the file header and returns the file's id.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<FileId> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(8, "table header")? != HEADER_MAGIC {
        return Err(Error::corruption("file does not begin as a table").at_offset(0));
    }
    let version = cursor.u32("table version")?;
    let id = FileId(cursor.u64("file id")?);
    let crc = cursor.u32("header checksum")?;
    let covered = bytes.get(..HEADER_BYTES - 4).unwrap_or_default();
    check_unit(HEADER_CONTEXT, id, 0, &[covered], crc, "table header")?;
    check_version(version)?;
    Ok(id)
}

/// What the footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) id: FileId,
    /// Where the section table's unit starts.
    pub(crate) sections_offset: u64,
    /// Length of that unit with its header.
    pub(crate) sections_len: u64,
}

impl Footer {
    /// Encodes the footer of a file that it ends at `offset`.
    pub(crate) fn encode(&self, offset: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        put_u64(&mut bytes, self.sections_offset);
        put_u64(&mut bytes, self.sections_len);
        put_u64(&mut bytes, offset + FOOTER_BYTES as u64);
        put_u64(&mut bytes, self.id.0);
        put_u32(&mut bytes, FORMAT_VERSION);
        let crc = unit_checksum(FOOTER_CONTEXT, self.id, offset, &[&bytes]);
        put_u32(&mut bytes, crc);
        bytes.extend_from_slice(&FOOTER_MAGIC);
        bytes
    }

    /// Decodes the footer found at `offset`, the last bytes of a file.
    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Result<Self> {
        Self::decode_fields(bytes, offset).map_err(|error| error.at_offset(offset))
    }

    fn decode_fields(bytes: &[u8], offset: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let sections_offset = cursor.u64("footer section table offset")?;
        let sections_len = cursor.u64("footer section table length")?;
        let file_len = cursor.u64("footer file length")?;
        let id = FileId(cursor.u64("footer file id")?);
        let version = cursor.u32("footer version")?;
        let crc = cursor.u32("footer checksum")?;
        if cursor.take(8, "footer magic")? != FOOTER_MAGIC {
            return Err(Error::corruption(
                "file does not end as a table; it may be cut short",
            ));
        }
        cursor.finish("the footer")?;
        let covered = bytes.get(..FOOTER_BYTES - 12).unwrap_or_default();
        check_unit(FOOTER_CONTEXT, id, offset, &[covered], crc, "table footer")?;
        check_version(version)?;
        let end = sections_offset.checked_add(sections_len);
        if file_len != offset.saturating_add(FOOTER_BYTES as u64)
            || end.is_none_or(|end| end > offset)
        {
            return Err(Error::corruption("footer disagrees with the file's length"));
        }
        Ok(Self {
            id,
            sections_offset,
            sections_len,
        })
    }
}

fn check_version(version: u32) -> Result<()> {
    if (FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "table format version {version} is not between {FORMAT_VERSION_MIN} and \
             {FORMAT_VERSION}"
        ),
    )
    .with_remedy("open the store with the release that wrote it, or a newer one"))
}

/// Where the units outside the value area lie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SectionTable {
    entries: Vec<(UnitKind, Range<u64>)>,
}

impl SectionTable {
    /// Adds a section that fills `range` of the file, unit header included.
    pub(crate) fn add(&mut self, kind: UnitKind, range: Range<u64>) {
        self.entries.push((kind, range));
    }

    /// The section of this kind, if the table has one.
    pub(crate) fn get(&self, kind: UnitKind) -> Option<Range<u64>> {
        self.entries
            .iter()
            .find(|(of, _)| *of == kind)
            .map(|(_, range)| range.clone())
    }

    /// The section of this kind; corruption if there is none.
    pub(crate) fn require(&self, kind: UnitKind) -> Result<Range<u64>> {
        self.get(kind)
            .ok_or_else(|| Error::corruption(format!("table has no {}", kind.name())))
    }

    /// The sections in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(UnitKind, Range<u64>)> {
        self.entries.iter()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * SECTION_ENTRY_BYTES);
        for (kind, range) in &self.entries {
            bytes.push(*kind as u8);
            put_u64(&mut bytes, range.start);
            put_u64(&mut bytes, range.end - range.start);
        }
        bytes
    }

    /// Decodes the table of a file whose sections end at or before `limit`.
    pub(crate) fn decode(bytes: &[u8], limit: u64) -> Result<Self> {
        let mut table = Self::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let code = cursor.u8("section kind")?;
            let start = cursor.u64("section offset")?;
            let len = cursor.u64("section length")?;
            let end = start
                .checked_add(len)
                .filter(|&end| end <= limit)
                .ok_or_else(|| Error::corruption("section lies outside the file"))?;
            let kind = UnitKind::from_code(code)
                .ok_or_else(|| Error::corruption(format!("section of unknown kind {code}")))?;
            if table.get(kind).is_some() {
                return Err(Error::corruption(format!(
                    "two sections of {}",
                    kind.name()
                )));
            }
            table.add(kind, start..end);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_and_footer_round_trip_and_every_flipped_bit_is_found() {
        let header = encode_header(FileId(5));
        assert_eq!(header.len(), HEADER_BYTES);
        assert_eq!(decode_header(&header).unwrap(), FileId(5));
        let footer = Footer {
            id: FileId(5),
            sections_offset: 100,
            sections_len: 60,
        };
        let bytes = footer.encode(160);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes, 160).unwrap(), footer);
        assert!(Footer::decode(&bytes, 161).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&bad, 160).is_err());
        }
        for bit in 0..header.len() * 8 {
            let mut bad = header.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_section_table_panic(bytes: Vec<u8>) {
            let _ = SectionTable::decode(&bytes, 1000);
            let _ = Footer::decode(&bytes, 1000);
            let _ = decode_header(&bytes);
        }
    }

    #[test]
    fn sections_round_trip() {
        let mut table = SectionTable::default();
        table.add(UnitKind::KeyIndex, 10..20);
        table.add(UnitKind::Properties, 24..30);
        assert_eq!(SectionTable::decode(&table.encode(), 30).unwrap(), table);
        assert!(SectionTable::decode(&table.encode(), 29).is_err());
    }
}
