//! Range tombstones made searchable.
//!
//! Overlapping tombstones are cut at each other's ends into disjoint fragments, each with the
//! newest sequence number over it. That answers, by one bisection, the question of a reader who
//! may see all of them. A reader at an older snapshot asks the tombstones themselves, one by one:
//! rare, and it keeps the set linear in size where fragments with every sequence number would be
//! quadratic for nested ranges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::iter::RangeTombstone;
use crate::types::SeqNo;

/// From `start` to the next fragment's start, `seq` is the newest tombstone; zero for a gap.
#[derive(Debug, PartialEq, Eq)]
struct Fragment {
    start: Vec<u8>,
    seq: SeqNo,
}

/// An immutable set of range tombstones.
#[derive(Debug, Default)]
pub(crate) struct TombstoneSet {
    tombstones: Vec<RangeTombstone>,
    /// Ascending by start; neighbours differ in `seq`.
    fragments: Vec<Fragment>,
    newest: SeqNo,
}

impl TombstoneSet {
    pub(crate) fn new(tombstones: Vec<RangeTombstone>) -> Self {
        let newest = tombstones
            .iter()
            .map(|tombstone| tombstone.seq)
            .max()
            .unwrap_or_default();
        let fragments = fragment(&tombstones);
        Self {
            tombstones,
            fragments,
            newest,
        }
    }

    /// Those a reader at `seq` may see.
    pub(crate) fn visible_at(mut tombstones: Vec<RangeTombstone>, seq: SeqNo) -> Self {
        tombstones.retain(|tombstone| tombstone.seq <= seq);
        Self::new(tombstones)
    }

    pub(crate) fn len(&self) -> usize {
        self.tombstones.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tombstones.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.tombstones.iter()
    }

    /// The newest tombstone up to `seq` that covers `key`; zero if none does.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> SeqNo {
        if seq < self.newest {
            let seen = self.tombstones.iter();
            return seen
                .filter(|tombstone| tombstone.seq <= seq && tombstone.covers(key))
                .map(|tombstone| tombstone.seq)
                .max()
                .unwrap_or_default();
        }
        let after = self
            .fragments
            .partition_point(|fragment| fragment.start.as_slice() <= key);
        let fragment = after.checked_sub(1).and_then(|at| self.fragments.get(at));
        fragment.map_or(SeqNo::ZERO, |fragment| fragment.seq)
    }
}

/// Sweeps over all starts and ends in key order, keeping the open tombstones newest first.
fn fragment(tombstones: &[RangeTombstone]) -> Vec<Fragment> {
    let mut by_start: Vec<&RangeTombstone> = tombstones
        .iter()
        .filter(|tombstone| {
            let end = tombstone.end.as_deref();
            end.is_none_or(|end| end > tombstone.start.as_slice())
        })
        .collect();
    by_start.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut cuts: Vec<&[u8]> = by_start
        .iter()
        .flat_map(|tombstone| {
            let start = Some(tombstone.start.as_slice());
            start.into_iter().chain(tombstone.end.as_deref())
        })
        .collect();
    cuts.sort_unstable();
    cuts.dedup();

    let mut fragments: Vec<Fragment> = Vec::new();
    let mut open: BinaryHeap<(SeqNo, Reverse<usize>)> = BinaryHeap::new();
    let mut opened = 0;
    for cut in cuts {
        while let Some(tombstone) = by_start.get(opened) {
            if tombstone.start.as_slice() > cut {
                break;
            }
            open.push((tombstone.seq, Reverse(opened)));
            opened += 1;
        }
        // Closed ones leave when they surface: a closed one beneath an open newer one is harmless.
        while let Some(&(_, Reverse(index))) = open.peek() {
            let end = by_start
                .get(index)
                .and_then(|tombstone| tombstone.end.as_deref());
            if end.is_none_or(|end| end > cut) {
                break;
            }
            open.pop();
        }
        let seq = open.peek().map_or(SeqNo::ZERO, |&(seq, _)| seq);
        let before = fragments
            .last()
            .map_or(SeqNo::ZERO, |fragment| fragment.seq);
        if seq != before {
            fragments.push(Fragment {
                start: cut.to_vec(),
                seq,
            });
        }
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tombstone() -> impl Strategy<Value = RangeTombstone> {
        let key = || prop::collection::vec(0u8..4, 0..3);
        (key(), prop::option::of(key()), 1u64..20).prop_map(|(start, end, seq)| RangeTombstone {
            start,
            end,
            seq: SeqNo(seq),
        })
    }

    proptest! {
        #[test]
        fn fragments_answer_as_the_tombstones_do(
            tombstones in prop::collection::vec(tombstone(), 0..12),
            key in prop::collection::vec(0u8..4, 0..3),
            seq in 0u64..25,
        ) {
            let expected = tombstones
                .iter()
                .filter(|tombstone| tombstone.seq.0 <= seq && tombstone.covers(&key))
                .map(|tombstone| tombstone.seq)
                .max()
                .unwrap_or_default();
            let set = TombstoneSet::new(tombstones.clone());
            prop_assert_eq!(set.covering(&key, SeqNo(seq)), expected);
            let at = TombstoneSet::visible_at(tombstones, SeqNo(seq));
            prop_assert_eq!(at.covering(&key, SeqNo(seq)), expected);
            prop_assert_eq!(at.covering(&key, SeqNo::MAX), expected);
        }
    }

    #[test]
    fn nested_ranges_stay_linear() {
        let count = 2000u64;
        let tombstones = (0..count)
            .map(|at| RangeTombstone {
                start: at.to_be_bytes().to_vec(),
                end: Some((2 * count - at).to_be_bytes().to_vec()),
                seq: SeqNo(at + 1),
            })
            .collect();
        let set = TombstoneSet::new(tombstones);
        assert!(set.fragments.len() as u64 <= 2 * count);
        assert_eq!(set.covering(&count.to_be_bytes(), SeqNo::MAX), SeqNo(count));
    }
}
