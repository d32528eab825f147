//! Key blocks: sorted runs of entries, searched in place.
//!
//! ```text
//! block    entry … entry │ restart offset u32 … │ restart count u32
//! entry    tag u8 │ shared │ suffix length │ suffix │ [seq] │ place          (varints)
//! tag      bits 0-1 kind · bits 2-3 place form · bit 4: seq follows, else as the entry before
//! place    0 inline: value length, value bytes     (kind delete: nothing)
//!          1 same frame, right after the value before: length
//!          2 next frame, from its start: length
//!          3 explicit: frame ordinal as zigzag difference to the last one named since the
//!            restart (else to 0), offset, length
//! ```
//!
//! `shared` is the length of the longest prefix shared with the key before. Every
//! [`RESTART_INTERVAL`]th entry restarts: it shares nothing, its place is explicit or inline, and
//! its sequence number follows unless it is 0. So a search is a binary search over the restarts
//! and a walk of a few entries, which compares each key byte at most once and allocates nothing.
//!
//! Invariants: entries ascend in internal order ([`crate::iter::compare`]); a block holds at least
//! one entry; places of forms 1 and 2 never follow a restart without a frame before them.

use std::cmp::Ordering;

use crate::coding::Cursor;
use crate::error::{Error, Result};
use crate::types::{EntryKind, KEY_BYTES_MAX, SeqNo, VALUE_BYTES_MAX};

mod builder;

pub(crate) use builder::KeyBlockBuilder;

/// Entries from one restart to the next.
pub(crate) const RESTART_INTERVAL: usize = 16;

const TAG_KIND_MASK: u8 = 0b0_0011;
const TAG_FORM_SHIFT: u8 = 2;
const TAG_HAS_SEQ: u8 = 0b1_0000;
const TAG_UNUSED: u8 = 0b1110_0000;

const FORM_INLINE: u8 = 0;
const FORM_ADJACENT: u8 = 1;
const FORM_NEXT_FRAME: u8 = 2;
const FORM_EXPLICIT: u8 = 3;

/// Where in the value area a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FramePlace {
    /// The frame's ordinal.
    pub(crate) frame: u32,
    /// Where in the frame's raw bytes the value begins.
    pub(crate) offset: u32,
    /// The value's length.
    pub(crate) len: u32,
}

impl FramePlace {
    /// One past the value's last byte in the frame. Cannot overflow: decoding checks it.
    pub(crate) fn end(self) -> u32 {
        self.offset.saturating_add(self.len)
    }
}

/// An entry's value as a key block tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredPlace<'a> {
    /// The value itself; empty for deletes.
    Inline(&'a [u8]),
    /// In the value area.
    Frame(FramePlace),
}

/// Longest common prefix.
pub(crate) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Where a way from one ordinal to another leads, as the builder writes it; none if it leaves the
/// ordinals.
fn unzigzag(from: u32, way: u64) -> Option<u32> {
    let step = (way >> 1).cast_signed() ^ -(way & 1).cast_signed();
    u32::try_from(i64::from(from).checked_add(step)?).ok()
}

/// A key block over borrowed bytes whose checksum was verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyBlock<'a> {
    entries: &'a [u8],
    restarts: &'a [u8],
}

/// What a search in one block came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search<'a> {
    /// The newest visible entry of the key.
    Found(RawEntry<'a>),
    /// The block holds greater keys, so no block holds this one.
    Absent,
    /// Every entry of the block comes before the sought one.
    Beyond,
}

/// An entry without its key, which a search never assembles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawEntry<'a> {
    /// As stored in the table, before the table's base is added.
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) place: StoredPlace<'a>,
}

/// One step of decoding: the entry, and its key as a change to the key before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) shared: usize,
    pub(crate) suffix: &'a [u8],
    pub(crate) entry: RawEntry<'a>,
}

/// Where a walk through a block's entries stands. Plain numbers, so that an iterator can keep it
/// beside the block it owns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// Offset in the block of the entry that comes next.
    pub(crate) position: usize,
    last_seq: u64,
    last_place: Option<FramePlace>,
    until_restart: usize,
}

impl Walk {
    fn place(&mut self, form: u8, cursor: &mut Cursor<'_>) -> Result<FramePlace> {
        let orphan = || Error::corruption("entry's place refers to no entry before it");
        let (frame, offset) = match form {
            FORM_ADJACENT => self
                .last_place
                .map(|last| (last.frame, last.end()))
                .ok_or_else(orphan)?,
            FORM_NEXT_FRAME => self
                .last_place
                .and_then(|last| last.frame.checked_add(1))
                .map(|frame| (frame, 0))
                .ok_or_else(orphan)?,
            _ => {
                let last = self.last_place.map_or(0, |last| last.frame);
                let frame = unzigzag(last, cursor.varint("entry frame")?)
                    .ok_or_else(|| Error::corruption("entry's frame is out of range"))?;
                (frame, cursor.varint_u32("entry offset")?)
            }
        };
        let len = cursor.varint_u32("entry value length")?;
        let place = FramePlace { frame, offset, len };
        if len as usize > VALUE_BYTES_MAX || offset.checked_add(len).is_none() {
            return Err(Error::corruption("entry's place is out of range"));
        }
        self.last_place = Some(place);
        Ok(place)
    }
}

impl<'a> KeyBlock<'a> {
    /// Takes apart a block's raw bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let malformed = || Error::corruption("key block has a wrong length");
        let (body, count) = bytes.split_last_chunk::<4>().ok_or_else(malformed)?;
        let restart_bytes = (u32::from_le_bytes(*count) as usize)
            .checked_mul(4)
            .filter(|&len| len > 0 && len < body.len())
            .ok_or_else(malformed)?;
        let (entries, restarts) = body
            .split_at_checked(body.len() - restart_bytes)
            .ok_or_else(malformed)?;
        Ok(Self { entries, restarts })
    }

    /// Number of restarts; at least one.
    pub(crate) fn restart_count(&self) -> usize {
        self.restarts.len() / 4
    }

    /// Offset of a restart's first entry.
    pub(crate) fn restart_offset(&self, index: usize) -> Result<usize> {
        self.restarts
            .get(index * 4..)
            .and_then(|rest| rest.first_chunk::<4>())
            .map(|bytes| u32::from_le_bytes(*bytes) as usize)
            .filter(|&offset| offset < self.entries.len())
            .ok_or_else(|| Error::corruption("key block restart lies outside the block"))
    }

    /// A walk from a restart on.
    pub(crate) fn walk_from(&self, restart: usize) -> Result<Walk> {
        Ok(Walk {
            position: self.restart_offset(restart)?,
            last_seq: 0,
            last_place: None,
            until_restart: 0,
        })
    }

    /// The next entry of a walk, or none at the end of the block.
    pub(crate) fn step(&self, walk: &mut Walk) -> Result<Option<Step<'a>>> {
        let rest = self.entries.get(walk.position..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let mut cursor = Cursor::new(rest);
        let restart = walk.until_restart == 0;
        if restart {
            walk.until_restart = RESTART_INTERVAL;
            walk.last_seq = 0;
            walk.last_place = None;
        }
        walk.until_restart -= 1;
        let tag = cursor.u8("entry tag")?;
        let kind = EntryKind::from_code(tag & TAG_KIND_MASK)
            .filter(|_| tag & TAG_UNUSED == 0)
            .ok_or_else(|| Error::corruption(format!("entry of unknown tag {tag:#04x}")))?;
        let shared = cursor.varint_u32("entry shared length")? as usize;
        let suffix = cursor.bytes("entry key")?;
        if shared + suffix.len() > KEY_BYTES_MAX || (restart && shared != 0) {
            return Err(Error::corruption("entry key has a wrong length"));
        }
        if tag & TAG_HAS_SEQ != 0 {
            walk.last_seq = cursor.varint("entry sequence number")?;
            if walk.last_seq > SeqNo::MAX.0 {
                return Err(Error::corruption("entry sequence number is out of range"));
            }
        }
        let place = match (tag >> TAG_FORM_SHIFT & 0b11, kind) {
            (FORM_INLINE, EntryKind::Delete) => StoredPlace::Inline(&[]),
            (FORM_INLINE, EntryKind::Put) => StoredPlace::Inline(cursor.bytes("inline value")?),
            (_, EntryKind::Delete) => {
                return Err(Error::corruption("delete entry with a value"));
            }
            (form, EntryKind::Put) => StoredPlace::Frame(walk.place(form, &mut cursor)?),
        };
        walk.position = self.entries.len() - cursor.rest().len();
        let entry = RawEntry {
            seq: SeqNo(walk.last_seq),
            kind,
            place,
        };
        Ok(Some(Step {
            shared,
            suffix,
            entry,
        }))
    }

    /// The key and sequence number of a restart's first entry. Looks no further than these: a search
    /// comes by here more often than anywhere else, and the walk from the restart checks the rest.
    pub(crate) fn restart_key(&self, restart: usize) -> Result<(&'a [u8], SeqNo)> {
        let start = self.restart_offset(restart)?;
        let mut cursor = Cursor::new(self.entries.get(start..).unwrap_or_default());
        let tag = cursor.u8("entry tag")?;
        if cursor.varint("entry shared length")? != 0 {
            return Err(Error::corruption("entry key has a wrong length"));
        }
        let key = cursor.bytes("entry key")?;
        let seq = match tag & TAG_HAS_SEQ {
            0 => 0,
            _ => cursor.varint("entry sequence number")?,
        };
        Ok((key, SeqNo(seq)))
    }

    /// The last restart whose entry comes before (`key`, `seq`), or the first one.
    pub(crate) fn restart_before(&self, key: &[u8], seq: SeqNo) -> Result<usize> {
        let (mut low, mut high) = (0, self.restart_count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let (middle_key, middle_seq) = self.restart_key(middle)?;
            if crate::iter::compare(middle_key, middle_seq, key, seq) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Hands out every entry with its whole key, and holds the block to its rules: each entry
    /// shares all it can with the one before, and restarts lie where they are said to.
    pub(crate) fn for_each(
        &self,
        mut each: impl FnMut(&[u8], RawEntry<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut key = Vec::new();
        let mut walk = self.walk_from(0)?;
        let mut count = 0usize;
        loop {
            let restart = count.is_multiple_of(RESTART_INTERVAL);
            let start = walk.position;
            let Some(step) = self.step(&mut walk)? else {
                break;
            };
            if restart && self.restart_offset(count / RESTART_INTERVAL)? != start {
                return Err(Error::corruption("key block restart lies inside an entry"));
            }
            let shares_all = match (key.get(step.shared), step.suffix.first()) {
                (Some(before), Some(after)) => before != after,
                _ => true,
            };
            if step.shared > key.len() || !(shares_all || restart) {
                return Err(Error::corruption(
                    "entry shares a wrong part of the key before",
                ));
            }
            key.truncate(step.shared);
            key.extend_from_slice(step.suffix);
            each(&key, step.entry)?;
            count += 1;
        }
        if count.div_ceil(RESTART_INTERVAL) != self.restart_count() {
            return Err(Error::corruption("key block has restarts without entries"));
        }
        Ok(())
    }

    /// Looks for the newest entry of `key` with a stored sequence number of at most `seq`.
    pub(crate) fn search(&self, key: &[u8], seq: SeqNo) -> Result<Search<'a>> {
        let mut walk = self.walk_from(self.restart_before(key, seq)?)?;
        // Invariant: the entry before shares exactly `matched` bytes with the sought key and comes
        // before it. So an entry that shares more with its predecessor comes before as well, and
        // one that shares less is greater.
        let mut matched = 0;
        while let Some(step) = self.step(&mut walk)? {
            if step.shared == 0 {
                matched = 0;
            }
            match step.shared.cmp(&matched) {
                Ordering::Greater => continue,
                Ordering::Less => return Ok(Search::Absent),
                Ordering::Equal => {}
            }
            let rest = key.get(matched..).unwrap_or_default();
            match step.suffix.cmp(rest) {
                Ordering::Less => matched += shared_prefix(step.suffix, rest),
                Ordering::Greater => return Ok(Search::Absent),
                Ordering::Equal if step.entry.seq <= seq => return Ok(Search::Found(step.entry)),
                Ordering::Equal => matched = key.len(),
            }
        }
        Ok(Search::Beyond)
    }
}

#[cfg(test)]
mod tests;
