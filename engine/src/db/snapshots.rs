//! The sequence numbers that live snapshots read at: what compaction must keep versions for.
//!
//! Threads: a short mutex, taken when a snapshot is made or dropped and when a job asks. A job
//! must ask **after** it has fixed its inputs. A snapshot made later then reads at a number no
//! smaller than any in those inputs, so it needs none of the versions that the job drops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::types::SeqNo;

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// By id, which is by age.
    live: BTreeMap<u64, (SeqNo, Instant)>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    state: Mutex<State>,
}

impl SnapshotList {
    /// Registers a snapshot at what `visible` holds at this moment.
    pub(crate) fn acquire(&self, visible: &AtomicU64) -> (u64, SeqNo) {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        // Read under the lock: a number from before it could be older than what a job, which asked
        // in between, has dropped.
        let seq = SeqNo(visible.load(Ordering::Acquire));
        state.live.insert(id, (seq, Instant::now()));
        (id, seq)
    }

    pub(crate) fn release(&self, id: u64) {
        self.state.lock().live.remove(&id);
    }

    /// The live snapshots' numbers, ascending, each once.
    pub(crate) fn live(&self) -> Vec<SeqNo> {
        let state = self.state.lock();
        let mut seqs: Vec<SeqNo> = state.live.values().map(|(seq, _)| *seq).collect();
        drop(state);
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// How many are live, and the age of the oldest.
    pub(crate) fn summary(&self) -> (usize, Option<Duration>) {
        let state = self.state.lock();
        let oldest = state.live.values().next();
        (state.live.len(), oldest.map(|(_, since)| since.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_listed_until_their_last_snapshot_goes() {
        let list = SnapshotList::default();
        let visible = AtomicU64::new(5);
        let (first, _) = list.acquire(&visible);
        let (second, _) = list.acquire(&visible);
        visible.store(9, Ordering::Release);
        let (third, seq) = list.acquire(&visible);
        assert_eq!(seq, SeqNo(9));
        assert_eq!(list.live(), [SeqNo(5), SeqNo(9)]);
        list.release(first);
        assert_eq!(list.live(), [SeqNo(5), SeqNo(9)]);
        list.release(second);
        assert_eq!(list.live(), [SeqNo(9)]);
        assert_eq!(list.summary().0, 1);
        list.release(third);
        assert_eq!(list.summary(), (0, None));
    }
}
