//! What a compaction keeps of its inputs' entries.
//!
//! An entry goes if a newer one of its key, or a range tombstone, hides it from every reader that
//! could see it (they lie in one [stripe](super::stripes)). A tombstone goes as well once it has
//! nothing left to hide: every reader sees it, and no deeper level holds the key. In the last
//! level, what every reader sees loses its sequence number: zeros compress to nothing.

use bytes::Bytes;

use super::range_deletes::{RangeDeleteCursor, RangeDeletes};
use super::stripes::Stripes;
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::table::StoredValue;
use crate::types::{EntryKind, SeqNo};

/// Which deeper data a compaction must respect.
pub(crate) trait Deeper {
    /// Whether a level below the output level may hold `key`. Keys come in ascending order.
    fn may_hold(&mut self, key: &[u8]) -> bool;
}

/// Entries dropped in one [`Survivors::advance`] at most, so that its caller is never away for
/// long: a range tombstone may cover millions.
const DROPPED_MAX: u64 = 1024;

/// Where [`Survivors::advance`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// On a survivor.
    Survivor,
    /// Nowhere yet, after many dropped entries.
    Underway,
    /// Past the last entry.
    End,
}

/// A forward walk over the surviving entries of a sorted input.
pub(crate) struct Survivors<'a, I, D> {
    input: I,
    /// The first key that is not part of the walk.
    end: Option<&'a [u8]>,
    stripes: &'a Stripes,
    deletes: RangeDeleteCursor<'a>,
    deeper: D,
    /// Whether the output goes to the last level.
    last_level: bool,
    key: Vec<u8>,
    /// The stripe of the newest entry of `key` that was met in it; none before the first key.
    stripe: Option<u64>,
    /// Whether deeper levels hold `key`, once asked.
    key_lies_deeper: Option<bool>,
    seq: SeqNo,
    kind: EntryKind,
    /// The input still stands on the entry that was given out.
    given_out: bool,
    /// Entries met, dropped ones included.
    met: u64,
}

impl<'a, I: InternalIterator, D: Deeper> Survivors<'a, I, D> {
    /// Walks from where `input` stands, which must be positioned.
    pub(crate) fn new(
        input: I,
        end: Option<&'a [u8]>,
        stripes: &'a Stripes,
        deletes: &'a RangeDeletes,
        deeper: D,
        last_level: bool,
    ) -> Self {
        Self {
            input,
            end,
            stripes,
            deletes: deletes.cursor(),
            deeper,
            last_level,
            key: Vec::new(),
            stripe: None,
            key_lies_deeper: None,
            seq: SeqNo::ZERO,
            kind: EntryKind::Put,
            given_out: false,
            met: 0,
        }
    }

    /// Towards the next survivor.
    pub(crate) fn advance(&mut self) -> Result<Step> {
        for _ in 0..DROPPED_MAX {
            if std::mem::take(&mut self.given_out) {
                self.input.next()?;
            }
            if !self.input.valid() {
                return Ok(Step::End);
            }
            let entry = self.input.key();
            if self.end.is_some_and(|end| entry.user_key >= end) {
                return Ok(Step::End);
            }
            self.met += 1;
            self.given_out = true;
            if self.stripe.is_none() || entry.user_key != self.key.as_slice() {
                self.key.clear();
                self.key.extend_from_slice(entry.user_key);
                self.stripe = None;
                self.key_lies_deeper = None;
            }
            let (seq, kind) = (entry.seq, entry.kind);
            let stripe = self.stripes.of(seq);
            if self.stripe == Some(stripe) {
                continue;
            }
            self.stripe = Some(stripe);
            if self.deletes.deletes(&self.key, seq, self.stripes) {
                continue;
            }
            let seen_by_all = stripe == 0;
            if kind == EntryKind::Delete && seen_by_all && !self.lies_deeper() {
                continue;
            }
            let needs_no_seq = kind == EntryKind::Put && seen_by_all && self.last_level;
            self.seq = if needs_no_seq { SeqNo::ZERO } else { seq };
            self.kind = kind;
            return Ok(Step::Survivor);
        }
        Ok(Step::Underway)
    }

    fn lies_deeper(&mut self) -> bool {
        let Self {
            key_lies_deeper,
            deeper,
            key,
            ..
        } = self;
        *key_lies_deeper.get_or_insert_with(|| deeper.may_hold(key))
    }

    /// The survivor's key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The survivor's sequence number, as it is to be written.
    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The survivor's value; this is what decodes it.
    pub(crate) fn value(&self) -> Result<Bytes> {
        match self.kind {
            EntryKind::Put => self.input.value(),
            EntryKind::Delete => Ok(Bytes::new()),
        }
    }

    /// Where the survivor's value lies, if in a frame of a table; decodes nothing.
    pub(crate) fn stored_value(&self) -> Option<StoredValue> {
        match self.kind {
            EntryKind::Put => self.input.stored_value(),
            EntryKind::Delete => None,
        }
    }

    /// Entries met so far, dropped ones included.
    pub(crate) fn met(&self) -> u64 {
        self.met
    }
}

#[cfg(test)]
mod tests;
