//! What the fuzz targets reach inside this module. See [`crate::fuzzing`].

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::context::{IterContext, ReadContext};
use super::directory::FrameDirectory;
use super::filter::{FilterView, key_hash};
use super::footer::{FOOTER_BYTES, Footer, HEADER_BYTES, SectionTable, decode_header};
use super::key_block::KeyBlock;
use super::key_index::KeyIndex;
use super::properties::TableProperties;
use super::reader::TableReader;
use super::salvage::salvage;
use super::tombstones::decode_tombstones;
use super::unit::{UNIT_HEADER_BYTES, UnitKind, open_any_unit};
use crate::checksum::unit_checksum;
use crate::iter::InternalIterator;
use crate::options::ReadMode;
use crate::stats::Stats;
use crate::types::{FileId, SeqNo};
use crate::vfs::Vfs;

/// The fixed pieces of a file.
pub fn header_and_footer(data: &[u8]) {
    let _ = decode_header(data);
    let _ = Footer::decode(data, 1 << 20);
    let mut file = data.to_vec();
    repair_checksums(&mut file);
    let _ = decode_header(&file);
    if let Some(offset) = file.len().checked_sub(FOOTER_BYTES) {
        let _ = Footer::decode(file.get(offset..).unwrap_or_default(), offset as u64);
    }
}

/// A unit with a right checksum.
pub fn unit(data: &[u8]) {
    let mut bytes = data.to_vec();
    repair_unit(&mut bytes, FileId(1), &(0..data.len() as u64));
    if let Ok(unit) = open_any_unit(&bytes, FileId(1), 0) {
        let _ = unit.follower(1 << 20);
    }
}

/// A section table.
pub fn section_table(data: &[u8]) {
    let _ = SectionTable::decode(data, 1 << 40);
}

/// A key block: searched and walked.
pub fn key_block(data: &[u8]) {
    let Some((&key_len, rest)) = data.split_first() else {
        return;
    };
    let Some((key, bytes)) = rest.split_at_checked(usize::from(key_len)) else {
        return;
    };
    if let Ok(block) = KeyBlock::new(bytes) {
        let _ = block.search(key, SeqNo(1 << 20));
        let _ = block.for_each(|_, _| Ok(()));
    }
}

/// A key index: searched.
pub fn key_index(data: &[u8]) {
    let Some((&key_len, rest)) = data.split_first() else {
        return;
    };
    let Some((key, bytes)) = rest.split_at_checked(usize::from(key_len)) else {
        return;
    };
    if let Ok(index) = KeyIndex::new(bytes)
        && let Ok(block) = index.block_of(key)
    {
        let _ = index.extent(block);
        let _ = index.separator(block);
    }
}

/// A frame directory.
pub fn frame_directory(data: &[u8]) {
    if let Ok(directory) = FrameDirectory::new(data) {
        let count = u32::try_from(directory.len()).unwrap_or(u32::MAX);
        for ordinal in [0, count / 2, count.saturating_sub(1), count, u32::MAX] {
            let _ = directory.extent(ordinal);
        }
        let _ = directory.value_area();
    }
}

/// A filter: probed.
pub fn filter(data: &[u8]) {
    if let Ok(filter) = FilterView::new(data) {
        for hash in 0..64u64 {
            let _ = filter.may_contain(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
}

/// Properties; what decodes encodes to the same again.
pub fn properties(data: &[u8]) {
    if let Ok(properties) = TableProperties::decode(data) {
        let again = TableProperties::decode(&properties.encode());
        assert!(again.is_ok_and(|again| again == properties));
    }
}

/// Range tombstones.
pub fn range_tombstones(data: &[u8]) {
    let _ = decode_tombstones(data, SeqNo(7));
}

/// Opens the table both ways and reads all that can be read. Nothing is expected of the answers
/// but that they come.
pub(crate) fn read_everything(vfs: &dyn Vfs, path: &Path, seq_base: SeqNo) {
    for mode in [ReadMode::Mmap, ReadMode::Pread] {
        if let Ok(reader) = TableReader::open(vfs, path, mode, None, seq_base) {
            walk(&reader);
            let _ = reader.verify(&mut |_| Ok(()));
        }
    }
    let _ = salvage(vfs, path, Some(FileId(1)), seq_base, &mut |_| Ok(()));
}

fn walk(reader: &Arc<TableReader>) {
    let stats = Arc::new(Stats::new());
    let context = ReadContext {
        cache: None,
        stats: &stats,
        trace: None,
        fill_cache: false,
        held: None,
        for_get: false,
    };
    let mut iter = reader.iter(IterContext {
        cache: None,
        stats: Arc::clone(&stats),
        fill_cache: false,
    });
    let mut outcome = iter.seek_to_first();
    while outcome.is_ok() && iter.valid() {
        let _ = iter.value();
        let key = iter.key().user_key;
        if let Ok(Some(found)) = reader.find(key, key_hash(key), SeqNo::MAX, &context) {
            let _ = reader.read(&found.place, &context);
        }
        outcome = iter.next();
    }
    let mut outcome = iter.seek_to_last();
    while outcome.is_ok() && iter.valid() {
        outcome = iter.prev();
    }
    let _ = iter.seek(b"m", SeqNo(3));
    let _ = iter.seek_before(b"m", SeqNo(3));
}

/// Makes the checksums right of everything that can be found from the footer.
pub(crate) fn repair_checksums(bytes: &mut [u8]) {
    // As in the footer's and header's own encoding: context, what is covered, where it is kept.
    const HEADER: (u8, usize) = (0xf0, HEADER_BYTES - 4);
    const FOOTER: (u8, usize) = (0xf1, FOOTER_BYTES - 12);
    let Some(footer_start) = bytes.len().checked_sub(FOOTER_BYTES) else {
        return;
    };
    let Some(id) = read_u64(bytes, footer_start + 24).map(FileId) else {
        return;
    };
    let len = bytes.len() as u64;
    put(bytes, 12, &id.0.to_le_bytes());
    put(bytes, footer_start + 16, &len.to_le_bytes());
    repair(bytes, HEADER, id, 0);
    repair(bytes, FOOTER, id, footer_start);
    let (Some(start), Some(sections_len)) = (
        read_u64(bytes, footer_start),
        read_u64(bytes, footer_start + 8),
    ) else {
        return;
    };
    let range = start..start.saturating_add(sections_len);
    repair_unit(bytes, id, &range);
    let Ok(sections) = SectionTable::decode(payload(bytes, &range), len) else {
        return;
    };
    for (_, range) in sections.iter() {
        repair_unit(bytes, id, range);
    }
    let mut units = Vec::new();
    if let Some(range) = sections.get(UnitKind::KeyIndex)
        && let Ok(index) = KeyIndex::new(payload(bytes, &range))
    {
        units.extend((0..index.len()).filter_map(|block| index.extent(block).ok()));
    }
    if let Some(range) = sections.get(UnitKind::FrameDirectory)
        && let Ok(directory) = FrameDirectory::new(payload(bytes, &range))
    {
        let count = u32::try_from(directory.len()).unwrap_or(u32::MAX);
        units.extend((0..count).filter_map(|frame| directory.extent(frame).ok()));
    }
    for range in units {
        repair_unit(bytes, id, &range);
    }
}

fn repair(bytes: &mut [u8], (context, covered): (u8, usize), id: FileId, start: usize) {
    let Some(body) = bytes.get(start..start + covered) else {
        return;
    };
    let crc = unit_checksum(context, id, start as u64, &[body]);
    put(bytes, start + covered, &crc.to_le_bytes());
}

fn repair_unit(bytes: &mut [u8], id: FileId, range: &Range<u64>) {
    let start = usize::try_from(range.start).unwrap_or(usize::MAX);
    let end = usize::try_from(range.end).unwrap_or(usize::MAX);
    let Some(unit) = bytes.get_mut(start..end) else {
        return;
    };
    let Some((header, stored)) = unit.split_at_mut_checked(UNIT_HEADER_BYTES) else {
        return;
    };
    let stored_len = u32::try_from(stored.len()).unwrap_or(u32::MAX);
    put(header, 4, &stored_len.to_le_bytes());
    let covered = header.get(..UNIT_HEADER_BYTES - 4).unwrap_or_default();
    let tag = covered.first().copied().unwrap_or_default();
    let crc = unit_checksum(tag, id, range.start, &[covered, stored]);
    put(header, UNIT_HEADER_BYTES - 4, &crc.to_le_bytes());
}

fn payload<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let start = usize::try_from(range.start).unwrap_or(usize::MAX);
    let end = usize::try_from(range.end).unwrap_or(usize::MAX);
    bytes
        .get(start.saturating_add(UNIT_HEADER_BYTES)..end)
        .unwrap_or_default()
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word))
}

fn put(bytes: &mut [u8], at: usize, word: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + word.len()) {
        place.copy_from_slice(word);
    }
}
