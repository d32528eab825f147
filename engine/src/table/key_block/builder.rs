//! Writes key blocks; the head of the parent module draws them.

use super::{
    FORM_ADJACENT, FORM_EXPLICIT, FORM_INLINE, FORM_NEXT_FRAME, FramePlace, RESTART_INTERVAL,
    StoredPlace, TAG_FORM_SHIFT, TAG_HAS_SEQ, shared_prefix,
};
use crate::coding::{put_bytes, put_u32, put_varint};
use crate::error::{Error, Result};
use crate::types::{EntryKind, SeqNo};

/// Builds key blocks one after another.
#[derive(Debug, Default)]
pub(crate) struct KeyBlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    count: usize,
    last_key: Vec<u8>,
    last_seq: u64,
    last_place: Option<FramePlace>,
}

impl KeyBlockBuilder {
    /// Appends an entry; the caller keeps the order.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        place: StoredPlace<'_>,
    ) -> Result<()> {
        let offset =
            u32::try_from(self.bytes.len()).map_err(|_| Error::limit("key block exceeds 4 GiB"))?;
        let restart = self.count.is_multiple_of(RESTART_INTERVAL);
        if restart {
            self.restarts.push(offset);
            self.last_key.clear();
            self.last_seq = 0;
            self.last_place = None;
        }
        let shared = shared_prefix(&self.last_key, key);
        let suffix = key.get(shared..).unwrap_or_default();
        let form = self.form_of(place);
        let has_seq = seq.0 != self.last_seq;
        let seq_bit = if has_seq { TAG_HAS_SEQ } else { 0 };
        self.bytes
            .push(kind as u8 | form << TAG_FORM_SHIFT | seq_bit);
        put_varint(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, suffix);
        if has_seq {
            put_varint(&mut self.bytes, seq.0);
        }
        match place {
            StoredPlace::Inline(_) if kind == EntryKind::Delete => {}
            StoredPlace::Inline(value) => put_bytes(&mut self.bytes, value),
            StoredPlace::Frame(place) => {
                if form == FORM_EXPLICIT {
                    let last = self.last_place.map_or(0, |last| last.frame);
                    put_varint(&mut self.bytes, zigzag(last, place.frame));
                    put_varint(&mut self.bytes, u64::from(place.offset));
                }
                put_varint(&mut self.bytes, u64::from(place.len));
                self.last_place = Some(place);
            }
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.last_seq = seq.0;
        self.count += 1;
        Ok(())
    }

    fn form_of(&self, place: StoredPlace<'_>) -> u8 {
        match (place, self.last_place) {
            (StoredPlace::Inline(_), _) => FORM_INLINE,
            (StoredPlace::Frame(place), Some(last)) => {
                if place.frame == last.frame && place.offset == last.end() {
                    FORM_ADJACENT
                } else if last.frame.checked_add(1) == Some(place.frame) && place.offset == 0 {
                    FORM_NEXT_FRAME
                } else {
                    FORM_EXPLICIT
                }
            }
            (StoredPlace::Frame(_), None) => FORM_EXPLICIT,
        }
    }

    /// Bytes the block would take if it were finished now.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the block and hands out its bytes; the builder starts over.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        for restart in &self.restarts {
            put_u32(&mut bytes, *restart);
        }
        put_u32(&mut bytes, self.restarts.len() as u32);
        self.restarts.clear();
        self.count = 0;
        bytes
    }
}

/// The way from one ordinal to another, small for small steps either way.
fn zigzag(from: u32, to: u32) -> u64 {
    let step = i64::from(to) - i64::from(from);
    (step << 1 ^ step >> 63).cast_unsigned()
}
