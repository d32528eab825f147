//! A memtable's range tombstones: appended by one writer, read by all without a lock.
//!
//! Most are kept as a sorted, fragmented set that a lookup searches by bisection; the newest few
//! stay in a short list beside it, so that an insert need not rebuild the set. The list is folded
//! in when it outgrows a fixed share of the set, so that n inserts cost O(n log n) in all.

use std::ops::Bound;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::iter::RangeTombstone;
use crate::tombstones::TombstoneSet;
use crate::types::{KeyRange, SeqNo};

/// The list is folded in at this length, or at a 32nd of the set's.
const RECENT_LEN_MIN: usize = 32;

#[derive(Debug, Default)]
struct State {
    folded: Arc<TombstoneSet>,
    recent: Vec<Arc<RangeTombstone>>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct TombstoneLog {
    state: ArcSwap<State>,
}

impl TombstoneLog {
    /// Adds one. Callers take turns: the write path has one leader at a time.
    pub(super) fn push(&self, tombstone: RangeTombstone) {
        let state = self.state.load_full();
        let mut recent = state.recent.clone();
        recent.push(Arc::new(tombstone));
        let limit = RECENT_LEN_MIN.max(state.folded.len() / 32);
        let next = if recent.len() < limit {
            State {
                folded: Arc::clone(&state.folded),
                recent,
            }
        } else {
            let all = state.folded.iter().chain(recent.iter().map(Arc::as_ref));
            State {
                folded: Arc::new(TombstoneSet::new(all.cloned().collect())),
                recent: Vec::new(),
            }
        };
        self.state.store(Arc::new(next));
    }

    /// The newest tombstone up to `seq` that covers `key`; zero if none does.
    pub(super) fn covering(&self, key: &[u8], seq: SeqNo) -> SeqNo {
        let state = self.state.load();
        let recent = state
            .recent
            .iter()
            .filter(|tombstone| tombstone.seq <= seq && tombstone.covers(key))
            .map(|tombstone| tombstone.seq)
            .max();
        let folded = state.folded.covering(key, seq);
        recent.map_or(folded, |recent| recent.max(folded))
    }

    pub(super) fn all(&self) -> Vec<RangeTombstone> {
        let state = self.state.load();
        let recent = state.recent.iter().map(Arc::as_ref);
        state.folded.iter().chain(recent).cloned().collect()
    }

    /// Whether some tombstone's range and `range` meet.
    pub(super) fn overlaps(&self, range: &KeyRange) -> bool {
        let begins_before_end = |start: &[u8]| match &range.end {
            Bound::Included(end) => start <= end.as_slice(),
            Bound::Excluded(end) => start < end.as_slice(),
            Bound::Unbounded => true,
        };
        let ends_after_start = |end: Option<&[u8]>| match &range.start {
            Bound::Included(start) | Bound::Excluded(start) => {
                end.is_none_or(|end| end > start.as_slice())
            }
            Bound::Unbounded => true,
        };
        self.all().iter().any(|tombstone| {
            begins_before_end(&tombstone.start) && ends_after_start(tombstone.end.as_deref())
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.load();
        state.recent.is_empty() && state.folded.is_empty()
    }
}
