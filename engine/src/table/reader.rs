//! An open table: point reads.
//!
//! A get probes the filter, searches the key index, searches one key block, and decodes one
//! frame; only the last step touches the value area, and only as far as the value needs. Opening
//! reads the footer and the sections behind the key area, never keys or values.
//!
//! Invariants: (1) nothing is interpreted whose checksum was not verified, each key block once per
//! opening where it is mapped, every frame each time it is decoded; (2) errors name file and
//! offset; (3) a corrupt unit fails the reads that need it and no others; a corrupt filter fails
//! none, the table does without.
//!
//! Thread rule: shared by any number of threads; nothing is locked but inside the cache.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::context::{IterContext, ReadContext};
use super::directory::FrameDirectory;
use super::filter::FilterView;
use super::footer::{FOOTER_BYTES, Footer, HEADER_BYTES, SectionTable};
use super::key_block::{FramePlace, KeyBlock, RawEntry, Search, StoredPlace};
use super::key_index::KeyIndex;
use super::properties::TableProperties;
use super::source::{Section, TableFile};
use super::tombstones::decode_tombstones;
use super::unit::{UNIT_HEADER_BYTES, UnitCodec, UnitKind};
use super::writer::TableSummary;
use crate::cache::CachedUnit;
use crate::codec::{Dictionary, with_scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::RangeTombstone;
use crate::options::ReadMode;
use crate::stats::{Counter, FilterOutcome};
use crate::types::{EntryKind, FileId, SeqNo};
use crate::vfs::Vfs;

/// Where a found value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Here; empty for deletes.
    Inline(Bytes),
    /// In the value area of the table it was found in.
    Frame(FramePlace),
}

/// The entry a point read came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Effective: the table's base is added.
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) place: Place,
}

/// An open table.
#[derive(Debug)]
pub(crate) struct TableReader {
    pub(super) file: TableFile,
    pub(super) seq_base: SeqNo,
    pub(super) sections: SectionTable,
    index: Section,
    directory: Section,
    filter: Option<Section>,
    pub(super) dictionary: Option<Dictionary>,
    tombstones: Vec<RangeTombstone>,
    properties: TableProperties,
    /// A bit for each key block of a mapping whose checksum was verified.
    verified: Box<[AtomicU64]>,
}

impl TableReader {
    /// Opens the table. With `expect`, fails unless the file has that id.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        path: &Path,
        mode: ReadMode,
        expect: Option<FileId>,
        seq_base: SeqNo,
    ) -> Result<Arc<Self>> {
        let file = TableFile::open(vfs, path, mode)?;
        Self::open_file(file, expect, seq_base)
            .map(Arc::new)
            .map_err(|error| error.at_path(path))
    }

    fn open_file(mut file: TableFile, expect: Option<FileId>, seq_base: SeqNo) -> Result<Self> {
        let footer = read_footer(&file)?;
        if let Some(expect) = expect
            && footer.id != expect
        {
            return Err(Error::corruption(format!(
                "table has id {} where {expect} was expected",
                footer.id
            )));
        }
        file.identify(footer.id);
        let range = footer.sections_offset..footer.sections_offset + footer.sections_len;
        let table = file.section(UnitKind::SectionTable, &range)?;
        let sections = SectionTable::decode(file.bytes(&table), footer.sections_offset)?;
        let index = file.section(UnitKind::KeyIndex, &sections.require(UnitKind::KeyIndex)?)?;
        let key_blocks = KeyIndex::new(file.bytes(&index))?.len();
        let directory = file.section(
            UnitKind::FrameDirectory,
            &sections.require(UnitKind::FrameDirectory)?,
        )?;
        FrameDirectory::new(file.bytes(&directory))?;
        let properties = file.section(
            UnitKind::Properties,
            &sections.require(UnitKind::Properties)?,
        )?;
        let properties = TableProperties::decode(file.bytes(&properties))?;
        let tombstones = match sections.get(UnitKind::RangeTombstones) {
            Some(range) => {
                let section = file.section(UnitKind::RangeTombstones, &range)?;
                decode_tombstones(file.bytes(&section), seq_base)?
            }
            None => Vec::new(),
        };
        let dictionary = open_dictionary(&file, &sections);
        let filter = open_filter(&file, &sections);
        let words = if file.is_mapped() {
            key_blocks.div_ceil(64)
        } else {
            0
        };
        Ok(Self {
            seq_base,
            index,
            directory,
            filter,
            dictionary,
            tombstones,
            properties,
            sections,
            verified: (0..words).map(|_| AtomicU64::new(0)).collect(),
            file,
        })
    }

    /// The id in the file.
    pub(crate) fn id(&self) -> FileId {
        self.file.id()
    }

    /// Length of the file.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.file.len()
    }

    /// How the table was built and what is in it.
    pub(crate) fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// Where the sections lie.
    pub(crate) fn section_ranges(&self) -> impl Iterator<Item = (UnitKind, &Range<u64>)> {
        self.sections.iter().map(|(kind, range)| (*kind, range))
    }

    /// What the table's writer told of it: what the manifest should say, but for the number and the
    /// base of the sequence numbers.
    pub(crate) fn summary(&self) -> TableSummary {
        let properties = self.properties.clone();
        TableSummary::new(self.id(), self.stored_bytes(), properties, &self.tombstones)
    }

    /// The range tombstones by start, with effective sequence numbers.
    pub(crate) fn range_tombstones(&self) -> &[RangeTombstone] {
        &self.tombstones
    }

    /// Bytes of memory beyond the mapping.
    pub(crate) fn memory_bytes(&self) -> usize {
        let sections = [
            Some(&self.index),
            Some(&self.directory),
            self.filter.as_ref(),
        ];
        let sections: usize = sections
            .into_iter()
            .flatten()
            .map(Section::memory_bytes)
            .sum();
        let dictionary = self.dictionary.as_ref().map_or(0, |it| it.bytes().len());
        size_of::<Self>() + sections + dictionary + self.verified.len() * 8
    }

    pub(super) fn index(&self) -> Result<KeyIndex<'_>> {
        KeyIndex::new(self.file.bytes(&self.index))
    }

    pub(super) fn directory(&self) -> Result<FrameDirectory<'_>> {
        FrameDirectory::new(self.file.bytes(&self.directory))
    }

    pub(super) fn filter(&self) -> Option<FilterView<'_>> {
        FilterView::new(self.file.bytes(self.filter.as_ref()?)).ok()
    }

    /// The stored form of an effective sequence number; none if it is older than the whole table.
    pub(super) fn stored_seq(&self, seq: SeqNo) -> Option<SeqNo> {
        seq.0.checked_sub(self.seq_base.0).map(SeqNo)
    }

    pub(super) fn effective_seq(&self, stored: SeqNo) -> SeqNo {
        SeqNo(stored.0.saturating_add(self.seq_base.0)).min(SeqNo::MAX)
    }

    /// The newest entry of `key` with an effective sequence number of at most `seq_max`.
    pub(crate) fn find(
        &self,
        key: &[u8],
        key_hash: u64,
        seq_max: SeqNo,
        context: &ReadContext<'_>,
    ) -> Result<Option<Found>> {
        let Some(seq) = self.stored_seq(seq_max) else {
            return Ok(None);
        };
        let filtered = match self.filter() {
            Some(filter) => {
                context.stats.add(Counter::FilterProbes, 1);
                if !filter.may_contain(key_hash) {
                    context.stats.add(Counter::FilterNegatives, 1);
                    context.trace_filter(FilterOutcome::RuledOut);
                    return Ok(None);
                }
                context.trace_filter(FilterOutcome::Passed);
                true
            }
            None => false,
        };
        let found = self
            .search(key, seq, context)
            .map_err(|error| error.at_path(self.file.path()))?;
        match &found {
            Some(_) => context.trace_found(),
            None if filtered => context.stats.add(Counter::FilterFalsePositives, 1),
            None => {}
        }
        Ok(found)
    }

    fn search(&self, key: &[u8], seq: SeqNo, context: &ReadContext<'_>) -> Result<Option<Found>> {
        let index = self.index()?;
        let mut block = index.block_of(key)?;
        while block < index.len() {
            context.stats.add(Counter::KeyBlocksSearched, 1);
            context.trace_key_block();
            let searched = self.with_key_block(block, context, |entries| {
                Ok(match entries.search(key, seq)? {
                    Search::Found(entry) => Some(Some(self.found(entry))),
                    Search::Absent => Some(None),
                    Search::Beyond => None,
                })
            })?;
            match searched {
                Some(found) => return Ok(found),
                // The versions of one key may run on into the next block; its separator says so.
                None if index.separator(block)? == key => block += 1,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    fn found(&self, entry: RawEntry<'_>) -> Found {
        Found {
            seq: self.effective_seq(entry.seq),
            kind: entry.kind,
            place: match entry.place {
                StoredPlace::Inline(value) => Place::Inline(Bytes::copy_from_slice(value)),
                StoredPlace::Frame(place) => Place::Frame(place),
            },
        }
    }

    /// Lends a verified key block.
    pub(super) fn with_key_block<T>(
        &self,
        block: usize,
        context: &ReadContext<'_>,
        use_block: impl FnOnce(KeyBlock<'_>) -> Result<T>,
    ) -> Result<T> {
        let range = self.index()?.extent(block)?;
        let at_block = |error: Error| error.at_offset(range.start);
        if self.file.is_mapped() {
            let bytes = self.mapped_key_block(block)?;
            return use_block(KeyBlock::new(bytes).map_err(at_block)?).map_err(at_block);
        }
        match context.cache {
            Some(_) => {
                let bytes = self.loaded_key_block(block, context)?;
                use_block(KeyBlock::new(&bytes).map_err(at_block)?).map_err(at_block)
            }
            None => with_scratch(|buffer| {
                let bytes = self.read_key_block(block, buffer)?;
                use_block(KeyBlock::new(bytes).map_err(at_block)?).map_err(at_block)
            }),
        }
    }

    /// A key block's raw bytes in the mapping, verified the first time.
    pub(super) fn mapped_key_block(&self, block: usize) -> Result<&[u8]> {
        let range = self.index()?.extent(block)?;
        let outside =
            || Error::corruption("key block lies outside the file").at_offset(range.start);
        let unit = self.file.mapped(&range).ok_or_else(outside)?;
        let word = self.verified.get(block / 64).ok_or_else(outside)?;
        let bit = 1 << (block % 64);
        if word.load(Ordering::Relaxed) & bit == 0 {
            let unit = super::unit::open_unit(unit, UnitKind::KeyBlock, self.id(), range.start)?;
            check_plain(unit.header.codec, range.start)?;
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(unit.get(UNIT_HEADER_BYTES..).unwrap_or_default())
    }

    /// A key block's raw bytes by positioned read, through the cache where there is one.
    pub(super) fn loaded_key_block(
        &self,
        block: usize,
        context: &ReadContext<'_>,
    ) -> Result<Bytes> {
        let load = || {
            let mut buffer = Vec::new();
            self.read_key_block(block, &mut buffer)?;
            Ok(Bytes::from(buffer).slice(UNIT_HEADER_BYTES..))
        };
        let ordinal = u32::try_from(block)
            .map_err(|_| Error::corruption("key block ordinal exceeds 32 bits"))?;
        let unit = CachedUnit::KeyBlock(ordinal);
        match context.cache {
            // Key blocks are few and hot: they are kept whatever becomes of the frames.
            Some(cache) => cache
                .get_or_decode(self.id(), unit, load)
                .map(|(bytes, _)| bytes),
            None => load(),
        }
    }

    fn read_key_block<'a>(&'a self, block: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let range = self.index()?.extent(block)?;
        let unit = self.file.unit(UnitKind::KeyBlock, &range, buffer)?;
        check_plain(unit.header.codec, range.start)?;
        Ok(unit.stored)
    }

    /// Up to `count` keys that cut the table into parts of about equal bytes of keys and values. They
    /// need not be keys of entries. Reads no more than a bounded number of key blocks.
    pub(crate) fn sample_keys_by_bytes(
        &self,
        count: usize,
        context: &IterContext,
    ) -> Result<Vec<Vec<u8>>> {
        const WEIGHED_BLOCKS_MAX: usize = 2048;
        let index = self.index()?;
        let step = index.len().div_ceil(WEIGHED_BLOCKS_MAX).max(1);
        let mut weights = Vec::new();
        for block in (0..index.len()).step_by(step) {
            let mut bytes = 0u64;
            let walked = self.with_key_block(block, &context.as_read(), |entries| {
                entries.for_each(|key, entry| {
                    let value_bytes = match entry.place {
                        StoredPlace::Inline(value) => value.len() as u64,
                        StoredPlace::Frame(place) => place.len.into(),
                    };
                    bytes += key.len() as u64 + value_bytes;
                    Ok(())
                })
            });
            // A damaged block weighs what was read of it: whoever samples will come upon it anyway.
            match walked {
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                _ => weights.push((block, bytes)),
            }
        }
        let total: u64 = weights.iter().map(|(_, bytes)| bytes).sum();
        let share = (total / (count as u64 + 1)).max(1);
        let (mut keys, mut before) = (Vec::new(), 0u64);
        for (block, bytes) in weights {
            let cuts = (before + bytes) / share > before / share;
            before += bytes;
            let last = block + step - 1;
            // The last block's separator is the end of the table, and cuts nothing.
            if cuts && keys.len() < count && last + 1 < index.len() {
                keys.push(index.separator(last)?.to_vec());
            }
        }
        Ok(keys)
    }

    /// Up to `count` keys that cut the table into about equal parts. They need not be keys of
    /// entries. Reads no key block.
    pub(crate) fn sample_keys(&self, count: usize) -> Result<Vec<Vec<u8>>> {
        let index = self.index()?;
        let step = (index.len() / (count + 1)).max(1);
        // The last block's separator is the end of the table, and cuts nothing.
        let blocks = (step - 1..index.len().saturating_sub(1)).step_by(step);
        let keys = blocks
            .take(count)
            .map(|block| index.separator(block).map(<[u8]>::to_vec));
        keys.collect()
    }
}

fn check_plain(codec: UnitCodec, offset: u64) -> Result<()> {
    if codec == UnitCodec::Raw {
        return Ok(());
    }
    Err(Error::corruption("key block is compressed").at_offset(offset))
}

/// Reads and decodes the footer.
pub(super) fn read_footer(file: &TableFile) -> Result<Footer> {
    let len = file.len();
    if len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(Error::corruption(format!(
            "file of {len} bytes is too short for a table"
        )));
    }
    let offset = len - FOOTER_BYTES as u64;
    let mut buffer = Vec::new();
    file.read(&(offset..len), &mut buffer)?;
    Footer::decode(&buffer, offset)
}

/// The dictionary. Damaged, it fails the frames that need it, not the table.
fn open_dictionary(file: &TableFile, sections: &SectionTable) -> Option<Dictionary> {
    let range = sections.get(UnitKind::Dictionary)?;
    match file.section(UnitKind::Dictionary, &range) {
        Ok(section) => Some(Dictionary::new(file.bytes(&section).to_vec())),
        Err(error) => {
            tracing::warn!(path = %file.path().display(), %error, "table dictionary is damaged");
            None
        }
    }
}

/// The filter. Damaged, the table does without.
fn open_filter(file: &TableFile, sections: &SectionTable) -> Option<Section> {
    let range = sections.get(UnitKind::Filter)?;
    let opened = file.section(UnitKind::Filter, &range).and_then(|section| {
        FilterView::new(file.bytes(&section))?;
        Ok(section)
    });
    match opened {
        Ok(section) => Some(section),
        Err(error) => {
            tracing::warn!(path = %file.path().display(), %error, "table filter is damaged");
            None
        }
    }
}
