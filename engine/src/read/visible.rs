//! What a reader at one sequence number sees of a merge: of each key the newest entry up to that
//! number, unless it is a delete or a range tombstone covers it.
//!
//! A cursor goes one way only, forward or backward, from where it was placed; a double-ended
//! iterator holds two. Values are fetched on demand, so a walk over keys reads no frame.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::tombstones::TombstoneSet;
use crate::types::{EntryKind, SeqNo};

/// Versions of one key that are stepped over one by one before the rest is skipped by a seek.
const STEPS_BEFORE_SEEK: usize = 8;

/// A key a reader sees, and its value where it was asked for.
#[derive(Debug)]
pub(crate) struct Visible {
    pub(crate) key: Bytes,
    /// Empty if keys alone were asked for. An error costs this value only.
    pub(crate) value: Result<Bytes>,
    /// The value's length, whether or not it was fetched.
    pub(crate) value_len: usize,
}

/// See the module's head.
pub(crate) struct VisibleCursor<I> {
    merge: I,
    seq: SeqNo,
    keys_only: bool,
    /// Met behind an entry that was whole; reported by the next call.
    pending: Option<Error>,
    /// The key being settled, kept for its capacity.
    key: Vec<u8>,
}

impl<I: InternalIterator> VisibleCursor<I> {
    pub(crate) fn new(merge: I, seq: SeqNo, keys_only: bool) -> Self {
        Self {
            merge,
            seq,
            keys_only,
            pending: None,
            key: Vec::new(),
        }
    }

    /// Where the cursor stands. Place it before the first [`VisibleCursor::next`] or
    /// [`VisibleCursor::prev`]: on the first entry for the former, on the last for the latter.
    pub(crate) fn merge_mut(&mut self) -> &mut I {
        &mut self.merge
    }

    /// The next visible key and its value.
    pub(crate) fn next(&mut self, tombstones: &TombstoneSet) -> Result<Option<Visible>> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        while self.merge.valid() {
            let entry = self.merge.key();
            if entry.seq > self.seq {
                self.merge.next()?;
                continue;
            }
            // The newest that this reader sees; the older ones of the key do not matter.
            let lives = entry.kind == EntryKind::Put
                && tombstones.covering(entry.user_key, self.seq) <= entry.seq;
            self.key.clear();
            self.key.extend_from_slice(entry.user_key);
            let value = lives.then(|| self.value());
            let skipped = self.skip_key();
            if let Some((value, value_len)) = value {
                self.pending = skipped.err();
                return Ok(Some(self.visible(value, value_len)));
            }
            skipped?;
        }
        Ok(None)
    }

    /// The value the merge stands on, where it is asked for, and its length.
    fn value(&self) -> (Result<Bytes>, usize) {
        let value = match self.keys_only {
            true => Ok(Bytes::new()),
            false => self.merge.value(),
        };
        (value, self.merge.value_len())
    }

    fn visible(&self, value: Result<Bytes>, value_len: usize) -> Visible {
        Visible {
            key: Bytes::copy_from_slice(&self.key),
            value,
            value_len,
        }
    }

    /// Goes on to the next key.
    fn skip_key(&mut self) -> Result<()> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.merge.next()?;
            if !self.merge.valid() || self.merge.key().user_key != self.key {
                return Ok(());
            }
        }
        self.merge.seek(&self.key, SeqNo::ZERO)?;
        while self.merge.valid() && self.merge.key().user_key == self.key {
            self.merge.next()?;
        }
        Ok(())
    }

    /// The previous visible key and its value.
    pub(crate) fn prev(&mut self, tombstones: &TombstoneSet) -> Result<Option<Visible>> {
        while self.merge.valid() {
            self.key.clear();
            self.key.extend_from_slice(self.merge.key().user_key);
            let covered = tombstones.covering(&self.key, self.seq);
            // Backward, a key's entries come oldest first: the last one up to `seq` counts.
            let mut newest = None;
            while self.merge.valid() {
                let entry = self.merge.key();
                if entry.user_key != self.key {
                    break;
                }
                if entry.seq <= self.seq {
                    let lives = entry.kind == EntryKind::Put && covered <= entry.seq;
                    newest = lives.then(|| self.value());
                }
                self.merge.prev()?;
            }
            if let Some((value, value_len)) = newest {
                return Ok(Some(self.visible(value, value_len)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::iter::RangeTombstone;
    use crate::read::testing::{Entry, VecIter};

    fn history() -> impl Strategy<Value = (Vec<Entry>, Vec<RangeTombstone>)> {
        let key = || prop::collection::vec(0u8..3, 0..3);
        let op = prop_oneof![
            4 => key().prop_map(|key| (key, None, 0)),
            2 => key().prop_map(|key| (key, None, 1)),
            1 => (key(), prop::option::of(key())).prop_map(|(key, end)| (key, end, 2)),
        ];
        prop::collection::vec(op, 0..60).prop_map(|ops| {
            let mut entries = Vec::new();
            let mut tombstones = Vec::new();
            for (at, (key, end, what)) in ops.into_iter().enumerate() {
                let seq = at as u64 + 1;
                if what == 2 {
                    tombstones.push(RangeTombstone {
                        start: key,
                        end,
                        seq: SeqNo(seq),
                    });
                    continue;
                }
                let mut entry = Entry::put(&key, seq);
                if what == 1 {
                    entry.kind = EntryKind::Delete;
                    entry.value = Bytes::new();
                }
                entries.push(entry);
            }
            (entries, tombstones)
        })
    }

    fn model(
        entries: &[Entry],
        tombstones: &[RangeTombstone],
        seq: SeqNo,
    ) -> BTreeMap<Vec<u8>, Bytes> {
        let mut map = BTreeMap::new();
        for at in (1..=seq.0).map(SeqNo) {
            if let Some(entry) = entries.iter().find(|entry| entry.seq == at) {
                match entry.kind {
                    EntryKind::Put => map.insert(entry.key.clone(), entry.value.clone()),
                    EntryKind::Delete => map.remove(&entry.key),
                };
            }
            if let Some(tombstone) = tombstones.iter().find(|tombstone| tombstone.seq == at) {
                map.retain(|key, _| !tombstone.covers(key));
            }
        }
        map
    }

    proptest! {
        #[test]
        fn a_reader_sees_what_replaying_the_history_gives(
            (entries, tombstones) in history(),
            seq in 0u64..70,
        ) {
            let seq = SeqNo(seq);
            let expected: Vec<_> = model(&entries, &tombstones, seq).into_iter().collect();
            let set = TombstoneSet::visible_at(tombstones, seq);
            let cursor = || VisibleCursor::new(VecIter::new(entries.clone()), seq, false);

            let mut forward = cursor();
            forward.merge_mut().seek_to_first().unwrap();
            let mut seen = Vec::new();
            while let Some(found) = forward.next(&set).unwrap() {
                seen.push((found.key.to_vec(), found.value.unwrap()));
            }
            prop_assert_eq!(&seen, &expected);

            let mut backward = cursor();
            backward.merge_mut().seek_to_last().unwrap();
            let mut seen = Vec::new();
            while let Some(found) = backward.prev(&set).unwrap() {
                seen.push((found.key.to_vec(), found.value.unwrap()));
            }
            seen.reverse();
            prop_assert_eq!(&seen, &expected);
        }
    }

    #[test]
    fn a_key_with_a_long_history_is_skipped_whole() {
        let mut entries: Vec<Entry> = (1..100).map(|seq| Entry::put(b"a", seq)).collect();
        entries.push(Entry::put(b"b", 1));
        let mut cursor = VisibleCursor::new(VecIter::new(entries), SeqNo(50), true);
        cursor.merge_mut().seek_to_first().unwrap();
        let set = TombstoneSet::default();
        assert_eq!(cursor.next(&set).unwrap().unwrap().key, b"a".as_slice());
        assert_eq!(cursor.next(&set).unwrap().unwrap().key, b"b".as_slice());
        assert!(cursor.next(&set).unwrap().is_none());
    }
}
