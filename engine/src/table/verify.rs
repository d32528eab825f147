//! Checks a whole table: every unit's checksum, every frame's decode, every entry's order and
//! place, the filter's promise, and what the properties say.
//!
//! A problem does not end the check: it is noted with its place and with what it takes along, and
//! the rest goes on. Only a failing disk or the caller's own stop ends it. A table that cannot be
//! opened is checked as a salvage would read it, unit by unit.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::bases::HeldBases;
use super::chain::BASES_MAX;
use super::context::ReadContext;
use super::footer::{HEADER_BYTES, decode_header};
use super::key_block::{KeyBlock, RawEntry, StoredPlace};
use super::properties::TableProperties;
use super::reader::TableReader;
use super::salvage::identify;
use super::scan::{Finding, PADDING_BYTES_MAX, UnitScan};
use super::source::TableFile;
use super::unit::UnitKind;
use crate::error::{Error, ErrorKind, Result};
use crate::iter::compare;
use crate::options::ReadMode;
use crate::stats::Stats;
use crate::table::key_hash;
use crate::types::{EntryKind, FileId, SeqNo};
use crate::vfs::Vfs;

/// Something that is wrong with a file of a store.
#[derive(Debug)]
#[non_exhaustive]
pub struct VerifyProblem {
    /// What is wrong, with keyspace, file and offset as far as they apply.
    pub error: Error,
    /// The damaged bytes of the file, where they are known.
    pub bytes: Option<Range<u64>>,
    /// What cannot be read because of it.
    pub affects: Affected,
}

/// What damage makes unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Affected {
    /// Nothing that is stored.
    Nothing,
    /// Values, while their keys are sound.
    Values {
        /// How many.
        count: u64,
        /// The first of their keys.
        first: Vec<u8>,
        /// The last of their keys.
        last: Vec<u8>,
    },
    /// Whatever keys lie after the one and up to the other; none is the table's begin or end.
    Keys {
        /// The last key that is sound, or one between it and the next.
        after: Option<Vec<u8>>,
        /// The last key that is lost, or one between it and the next.
        up_to: Option<Vec<u8>>,
    },
    /// Every key of the table; a salvage gets out what is sound.
    Table,
    /// Nobody can say what.
    Unknown,
}

impl VerifyProblem {
    /// A problem of which no more is known.
    pub(crate) fn new(error: Error, affects: Affected) -> Self {
        Self {
            error,
            bytes: None,
            affects,
        }
    }

    pub(crate) fn in_bytes(mut self, bytes: Range<u64>) -> Self {
        self.error = self.error.at_offset(bytes.start);
        self.bytes = Some(bytes);
        self
    }

    pub(crate) fn map_error(mut self, map: impl FnOnce(Error) -> Error) -> Self {
        self.error = map(self.error);
        self
    }
}

impl std::fmt::Display for VerifyProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.error)
    }
}

/// What a check came to.
#[derive(Debug, Default)]
pub(crate) struct TableVerification {
    /// Units whose checksum is right.
    pub(crate) units: u64,
    /// Entries seen.
    pub(crate) entries: u64,
    /// Bytes of values decoded.
    pub(crate) decoded_bytes: u64,
    /// What is wrong, each with its place in the file.
    pub(crate) problems: Vec<VerifyProblem>,
}

/// Told of each unit's stored bytes as they are checked; its error ends the check.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

impl TableReader {
    /// Checks everything in the file.
    pub(crate) fn verify(&self, progress: Progress<'_>) -> Result<TableVerification> {
        self.check(true, progress)
    }

    /// Checks everything but that frames decode: their checksums vouch for the bytes that were
    /// written, not for what made them.
    pub(crate) fn verify_checksums(&self, progress: Progress<'_>) -> Result<TableVerification> {
        self.check(false, progress)
    }

    fn check(&self, decodes: bool, progress: Progress<'_>) -> Result<TableVerification> {
        let mut check = Check {
            table: self,
            decodes,
            progress,
            report: TableVerification::default(),
            raw_lens: Vec::new(),
            depths: Vec::new(),
            damaged_frames: HashMap::new(),
            stats: Stats::new(),
            held: HeldBases::default(),
            last: None,
            counted: TableProperties {
                seq_min: SeqNo::MAX,
                ..TableProperties::default()
            },
        };
        check.header()?;
        check.sections()?;
        check.frames()?;
        check.key_blocks()?;
        check.properties();
        Ok(located(check.report, self.file.path()))
    }
}

fn located(mut report: TableVerification, path: &Path) -> TableVerification {
    let problems = report.problems.into_iter();
    report.problems = problems
        .map(|problem| problem.map_error(|error| error.at_path(path)))
        .collect();
    report
}

/// Checks the units of a table that does not open, for the reason that `because` tells.
pub(crate) fn verify_unopened(
    vfs: &dyn Vfs,
    path: &Path,
    expect: Option<FileId>,
    because: Error,
    progress: Progress<'_>,
) -> Result<TableVerification> {
    let mut report = TableVerification::default();
    let told_at = because.offset();
    let whole = VerifyProblem::new(because, Affected::Table);
    report.problems.push(whole);
    let mut file = TableFile::open(vfs, path, ReadMode::Pread)?;
    let Ok(id) = identify(&file, expect) else {
        return Ok(located(report, path));
    };
    file.identify(id);
    let mut scan = UnitScan::new(&file);
    while let Some(finding) = scan.next()? {
        let range = match &finding {
            Finding::Unit(unit) => &unit.range,
            Finding::Gap(range) => range,
        };
        progress(range.end - range.start)?;
        match finding {
            Finding::Unit(unit) => {
                report.units += 1;
                if unit.kind == UnitKind::KeyBlock {
                    report.entries += entries_of(&file, &unit.range)?;
                }
            }
            Finding::Gap(range) => {
                // The damage that was told, or the footer, which is no unit.
                let is_told = told_at.is_some_and(|at| range.start <= at && at <= range.end);
                let is_end = range.end == file.len();
                if range.end - range.start > PADDING_BYTES_MAX && !is_told && !is_end {
                    let error = Error::corruption("no sound unit lies here");
                    let problem = VerifyProblem::new(error, Affected::Unknown);
                    report.problems.push(problem.in_bytes(range));
                }
            }
        }
    }
    Ok(located(report, path))
}

/// The entries of a key block whose checksum is right.
fn entries_of(file: &TableFile, range: &Range<u64>) -> Result<u64> {
    let mut buffer = Vec::new();
    let unit = file.unit(UnitKind::KeyBlock, range, &mut buffer)?;
    let mut entries = 0;
    let counted = KeyBlock::new(unit.stored).and_then(|block| {
        block.for_each(|_, _| {
            entries += 1;
            Ok(())
        })
    });
    match counted {
        Err(error) if error.kind() != ErrorKind::Corruption => Err(error),
        _ => Ok(entries),
    }
}

struct Check<'a> {
    table: &'a TableReader,
    /// Whether frames are decoded.
    decodes: bool,
    progress: Progress<'a>,
    report: TableVerification,
    /// Each frame's raw length; none where the frame is damaged, so that its entries are not
    /// reported again.
    raw_lens: Vec<Option<u32>>,
    /// How many bases each frame has.
    depths: Vec<u8>,
    /// Which problem a damaged frame is.
    damaged_frames: HashMap<u32, usize>,
    /// Of no one's interest: a check is not a read of the store.
    stats: Stats,
    held: HeldBases,
    last: Option<(Vec<u8>, SeqNo)>,
    /// Counted while walking, to be compared with the properties.
    counted: TableProperties,
}

impl Check<'_> {
    /// Notes a problem of the table, which lies in `bytes`; passes on what is not one.
    fn note<T>(
        &mut self,
        outcome: Result<T>,
        bytes: Range<u64>,
        affects: Affected,
    ) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let problem = VerifyProblem::new(error, affects);
                self.report.problems.push(problem.in_bytes(bytes));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn header(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        let outcome = self
            .table
            .file
            .read(&(0..HEADER_BYTES as u64), &mut bytes)
            .and_then(|()| decode_header(&bytes))
            .and_then(|id| {
                if id == self.table.id() {
                    return Ok(());
                }
                Err(Error::corruption(format!(
                    "header has file id {id}, the footer another"
                )))
            });
        self.note(outcome, 0..HEADER_BYTES as u64, Affected::Nothing)?;
        (self.progress)(HEADER_BYTES as u64)
    }

    fn sections(&mut self) -> Result<()> {
        let table = self.table;
        for (kind, range) in table.sections.iter() {
            let outcome = table.file.section(*kind, range).map(|_| ());
            // Frames that need a damaged dictionary are problems of their own; a table does without
            // its filter.
            let affects = match kind {
                UnitKind::Filter | UnitKind::Dictionary => Affected::Nothing,
                _ => Affected::Table,
            };
            if self.note(outcome, range.clone(), affects)?.is_some() {
                self.report.units += 1;
            }
            (self.progress)(range.end - range.start)?;
        }
        Ok(())
    }

    fn frames(&mut self) -> Result<()> {
        let directory = self.table.directory()?;
        let count = u32::try_from(directory.len())
            .map_err(|_| Error::corruption("frame directory exceeds 2^32 frames"))?;
        self.depths = vec![0; directory.len()];
        let (mut stored, mut raw) = (Vec::new(), Vec::new());
        for ordinal in 0..count {
            let outcome = self.frame(ordinal, &mut stored, &mut raw);
            let extent = directory.extent(ordinal).unwrap_or_default();
            // Their keys are added when the key blocks are walked.
            let affects = Affected::Values {
                count: 0,
                first: Vec::new(),
                last: Vec::new(),
            };
            let raw_len = self.note(outcome, extent.clone(), affects)?;
            if raw_len.is_none() {
                let problem = self.report.problems.len().saturating_sub(1);
                self.damaged_frames.insert(ordinal, problem);
            }
            self.raw_lens.push(raw_len);
            (self.progress)(extent.end - extent.start)?;
        }
        self.counted.frames = u64::from(count);
        Ok(())
    }

    /// What decodes with a base at hand may still have more below it than readers take.
    fn check_depth(&mut self, ordinal: u32, base: Option<u32>) -> Result<()> {
        let above = base.and_then(|base| self.depths.get(base as usize));
        let depth = above.map_or(0, |above| above.saturating_add(1));
        if let Some(slot) = self.depths.get_mut(ordinal as usize) {
            *slot = depth;
        }
        if usize::from(depth) <= BASES_MAX {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "frame {ordinal} has more than {BASES_MAX} bases"
        )))
    }

    fn frame(&mut self, ordinal: u32, stored: &mut Vec<u8>, raw: &mut Vec<u8>) -> Result<u32> {
        let range = self.table.directory()?.extent(ordinal)?;
        let unit = self.table.file.unit(UnitKind::Frame, &range, stored)?;
        self.report.units += 1;
        let at_frame = |error: Error| error.at_offset(range.start);
        let follower = unit.follower(ordinal).map_err(at_frame)?;
        self.counted.follower_frames += u64::from(follower.is_some());
        self.check_depth(ordinal, follower.map(|follower| follower.base))
            .map_err(at_frame)?;
        if !self.decodes {
            // What decoding would find.
            if let Some(follower) = follower
                && self.damaged_frames.contains_key(&follower.base)
            {
                return Err(at_frame(Error::corruption(format!(
                    "frame {ordinal} needs its base, frame {}, which is damaged",
                    follower.base
                ))));
            }
            return Ok(unit.header.raw_len);
        }
        let context = ReadContext {
            cache: None,
            stats: &self.stats,
            trace: None,
            fill_cache: false,
            for_get: false,
            held: Some(&self.held),
        };
        self.table
            .decode_whole(ordinal, &unit, &context, raw)
            .map_err(at_frame)?;
        self.report.decoded_bytes += raw.len() as u64;
        Ok(unit.header.raw_len)
    }

    fn key_blocks(&mut self) -> Result<()> {
        let index = self.table.index()?;
        let mut buffer = Vec::new();
        for block in 0..index.len() {
            let outcome = index.extent(block).and_then(|range| {
                let unit = self
                    .table
                    .file
                    .unit(UnitKind::KeyBlock, &range, &mut buffer)?;
                self.report.units += 1;
                self.key_block(block, unit.stored)
                    .map_err(|error| error.at_offset(range.start))
            });
            let extent = index.extent(block).unwrap_or_default();
            let separator = |block: usize| index.separator(block).ok().map(<[u8]>::to_vec);
            let affects = Affected::Keys {
                after: block.checked_sub(1).and_then(separator),
                up_to: separator(block).filter(|_| block + 1 < index.len()),
            };
            if self.note(outcome, extent.clone(), affects)?.is_none() {
                // The next block follows on what was lost, whatever that was.
                self.last = None;
            }
            (self.progress)(extent.end - extent.start)?;
        }
        self.counted.key_blocks = index.len() as u64;
        Ok(())
    }

    fn key_block(&mut self, block: usize, stored: &[u8]) -> Result<()> {
        let index = self.table.index()?;
        let before = match block.checked_sub(1) {
            Some(before) => index.separator(before)?,
            None => &[],
        };
        KeyBlock::new(stored)?.for_each(|key, entry| {
            if key < before {
                return Err(Error::corruption(
                    "key is less than the separator before it",
                ));
            }
            self.entry(key, entry)
        })?;
        let separator = index.separator(block)?;
        if self
            .last
            .as_ref()
            .is_some_and(|(last, _)| separator < last.as_slice())
        {
            return Err(Error::corruption(
                "separator is less than a key of its block",
            ));
        }
        Ok(())
    }

    fn entry(&mut self, key: &[u8], entry: RawEntry<'_>) -> Result<()> {
        if let Some((last, last_seq)) = &self.last
            && compare(last, *last_seq, key, entry.seq) != Ordering::Less
        {
            return Err(Error::corruption(format!(
                "entries out of order: \"{}\" after \"{}\"",
                key.escape_ascii(),
                last.escape_ascii()
            )));
        }
        if let Some(filter) = self.table.filter()
            && !filter.may_contain(key_hash(key))
        {
            return Err(Error::corruption(format!(
                "filter denies key \"{}\"",
                key.escape_ascii()
            )));
        }
        let value_len = match entry.place {
            StoredPlace::Inline(value) => {
                self.counted.inline_value_bytes += value.len() as u64;
                value.len() as u64
            }
            StoredPlace::Frame(place) => {
                self.add_affected(place.frame, key);
                let raw_len = self.raw_lens.get(place.frame as usize);
                if raw_len.is_none_or(|raw_len| raw_len.is_some_and(|len| place.end() > len)) {
                    return Err(Error::corruption(format!(
                        "value of key \"{}\" lies outside its frame",
                        key.escape_ascii()
                    )));
                }
                u64::from(place.len)
            }
        };
        self.report.entries += 1;
        let counted = &mut self.counted;
        if counted.entries == 0 {
            counted.smallest = key.to_vec();
        }
        counted.entries += 1;
        counted.tombstones += u64::from(entry.kind == EntryKind::Delete);
        let repeated = self.last.as_ref().is_some_and(|(last, _)| last == key);
        *counted.repeated_keys.get_or_insert(0) += u64::from(repeated);
        counted.raw_key_bytes += key.len() as u64;
        counted.raw_value_bytes += value_len;
        counted.seq_min = counted.seq_min.min(entry.seq);
        counted.seq_max = counted.seq_max.max(entry.seq);
        let (last, last_seq) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        *last_seq = entry.seq;
        Ok(())
    }

    /// Adds a key to what a damaged frame takes along, if the frame is that.
    fn add_affected(&mut self, frame: u32, key: &[u8]) {
        let Some(problem) = self.damaged_frames.get(&frame) else {
            return;
        };
        let problem = self.report.problems.get_mut(*problem);
        if let Some(Affected::Values { count, first, last }) =
            problem.map(|problem| &mut problem.affects)
        {
            if *count == 0 {
                *first = key.to_vec();
            }
            *count += 1;
            *last = key.to_vec();
        }
    }

    /// Compares what was counted with what the properties say. Only where nothing was damaged:
    /// the counts of a damaged table are short.
    fn properties(&mut self) {
        if !self.report.problems.is_empty() {
            return;
        }
        let (counted, said) = (self.counted.clone(), self.table.properties());
        let last = self.last.take().unwrap_or_default().0;
        let tombstones = self.table.range_tombstones();
        let seqs = tombstones
            .iter()
            .map(|it| SeqNo(it.seq.0.saturating_sub(self.table.seq_base.0)));
        let seq_min = seqs.clone().fold(counted.seq_min, SeqNo::min);
        let seq_max = seqs.fold(counted.seq_max, SeqNo::max);
        let agree = [
            ("entries", counted.entries, said.entries),
            ("tombstones", counted.tombstones, said.tombstones),
            (
                "range tombstones",
                tombstones.len() as u64,
                said.range_tombstones,
            ),
            (
                "repeated keys",
                counted.repeated_keys.unwrap_or(0),
                // Where the writer did not count them, there is nothing to compare with.
                said.repeated_keys.or(counted.repeated_keys).unwrap_or(0),
            ),
            ("key bytes", counted.raw_key_bytes, said.raw_key_bytes),
            ("value bytes", counted.raw_value_bytes, said.raw_value_bytes),
            (
                "inline value bytes",
                counted.inline_value_bytes,
                said.inline_value_bytes,
            ),
            ("frames", counted.frames, said.frames),
            (
                "frames with a base",
                counted.follower_frames,
                said.follower_frames,
            ),
            ("key blocks", counted.key_blocks, said.key_blocks),
            (
                "smallest sequence number",
                seq_min.min(seq_max).0,
                said.seq_min.0,
            ),
            ("largest sequence number", seq_max.0, said.seq_max.0),
        ];
        for (what, counted, said) in agree {
            if counted != said {
                self.disagree(format!(
                    "table has {counted} {what} where its properties say {said}"
                ));
            }
        }
        if counted.smallest != said.smallest || last != said.largest {
            self.disagree("table's keys are not those its properties say".to_owned());
        }
    }

    fn disagree(&mut self, message: String) {
        let problem = VerifyProblem::new(Error::corruption(message), Affected::Unknown);
        self.report.problems.push(problem);
    }
}
