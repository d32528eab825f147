//! The range tombstones of a compaction's inputs: which entries they delete, and what is left of
//! them for the outputs.
//!
//! Overlapping tombstones are cut at each other's ends into disjoint *fragments*. A fragment keeps
//! the newest tombstone of each stripe: no reader can tell the others apart. So the set stays
//! linear in the number of tombstones times the number of live snapshots.

use std::collections::BTreeMap;

use super::stripes::Stripes;
use crate::iter::RangeTombstone;
use crate::types::SeqNo;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fragment {
    start: Vec<u8>,
    /// Exclusive; none reaches to the end of the keyspace.
    end: Option<Vec<u8>>,
    /// Newest first, one for each stripe that has any.
    seqs: Vec<SeqNo>,
}

impl Fragment {
    fn ends_before(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| end <= key)
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct RangeDeletes {
    /// Ascending, disjoint, none without a tombstone.
    fragments: Vec<Fragment>,
}

impl RangeDeletes {
    pub(crate) fn new(mut tombstones: Vec<RangeTombstone>, stripes: &Stripes) -> Self {
        tombstones.retain(|tombstone| {
            let end = tombstone.end.as_deref();
            end.is_none_or(|end| end > tombstone.start.as_slice())
        });
        tombstones.sort_unstable();
        let mut starts: BTreeMap<&[u8], Vec<SeqNo>> = BTreeMap::new();
        let mut ends: BTreeMap<&[u8], Vec<SeqNo>> = BTreeMap::new();
        for tombstone in &tombstones {
            starts
                .entry(&tombstone.start)
                .or_default()
                .push(tombstone.seq);
            if let Some(end) = &tombstone.end {
                ends.entry(end).or_default().push(tombstone.seq);
            }
        }
        let mut cuts: Vec<&[u8]> = starts.keys().chain(ends.keys()).copied().collect();
        cuts.sort_unstable();
        cuts.dedup();

        let mut fragments = Vec::new();
        // How many open tombstones have a sequence number: the same one may appear in pieces.
        let mut open: BTreeMap<SeqNo, u32> = BTreeMap::new();
        for (index, &cut) in cuts.iter().enumerate() {
            for seq in ends.get(cut).into_iter().flatten() {
                if let Some(count) = open.get_mut(seq) {
                    *count -= 1;
                    if *count == 0 {
                        open.remove(seq);
                    }
                }
            }
            for seq in starts.get(cut).into_iter().flatten() {
                *open.entry(*seq).or_default() += 1;
            }
            if !open.is_empty() {
                fragments.push(Fragment {
                    start: cut.to_vec(),
                    end: cuts.get(index + 1).map(|next| next.to_vec()),
                    seqs: newest_of_each_stripe(&open, stripes),
                });
            }
        }
        Self { fragments }
    }

    /// A cursor for keys that come in ascending order.
    pub(crate) fn cursor(&self) -> RangeDeleteCursor<'_> {
        RangeDeleteCursor {
            rest: &self.fragments,
        }
    }

    /// The tombstones for an output that holds the keys from `start` up to `end` (exclusive; none
    /// is unbounded), clipped to it: those pieces that `keep` wants. Neighbouring pieces of one
    /// tombstone are joined again.
    pub(crate) fn clipped(
        &self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        mut keep: impl FnMut(&RangeTombstone) -> bool,
    ) -> Vec<RangeTombstone> {
        let mut tombstones = Vec::new();
        let mut open: BTreeMap<SeqNo, RangeTombstone> = BTreeMap::new();
        let first = start.map_or(0, |start| {
            self.fragments
                .partition_point(|fragment| fragment.ends_before(start))
        });
        for fragment in self.fragments.get(first..).unwrap_or_default() {
            if end.is_some_and(|end| fragment.start.as_slice() >= end) {
                break;
            }
            let piece_start = fragment.start.as_slice().max(start.unwrap_or_default());
            let piece_end = match (fragment.end.as_deref(), end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            for &seq in &fragment.seqs {
                let piece = RangeTombstone {
                    start: piece_start.to_vec(),
                    end: piece_end.map(<[u8]>::to_vec),
                    seq,
                };
                if !keep(&piece) {
                    continue;
                }
                match open.get_mut(&seq) {
                    Some(previous) if previous.end.as_deref() == Some(piece_start) => {
                        previous.end = piece.end;
                    }
                    _ => tombstones.extend(open.insert(seq, piece)),
                }
            }
        }
        tombstones.extend(open.into_values());
        tombstones.sort_unstable();
        tombstones
    }
}

/// The newest open sequence number of each stripe, newest first.
fn newest_of_each_stripe(open: &BTreeMap<SeqNo, u32>, stripes: &Stripes) -> Vec<SeqNo> {
    let mut seqs = Vec::new();
    let mut below = SeqNo(SeqNo::MAX.0 + 1);
    while let Some((&seq, _)) = open.range(..below).next_back() {
        seqs.push(seq);
        let stripe = stripes.of(seq);
        if stripe == 0 {
            break;
        }
        below = stripes.start_of(seq);
    }
    seqs
}

/// Answers for keys in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct RangeDeleteCursor<'a> {
    rest: &'a [Fragment],
}

impl RangeDeleteCursor<'_> {
    /// Whether a tombstone hides the entry from every reader that sees its stripe.
    pub(crate) fn deletes(&mut self, key: &[u8], seq: SeqNo, stripes: &Stripes) -> bool {
        while let Some((first, rest)) = self.rest.split_first() {
            if !first.ends_before(key) {
                break;
            }
            self.rest = rest;
        }
        let Some(fragment) = self.rest.first() else {
            return false;
        };
        let stripe = stripes.of(seq);
        fragment.start.as_slice() <= key
            && fragment
                .seqs
                .iter()
                .any(|newer| *newer > seq && stripes.of(*newer) == stripe)
    }
}

#[cfg(test)]
mod tests;
