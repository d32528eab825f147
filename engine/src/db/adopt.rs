//! Taking in tables that were built outside the history: bulk loads and ingests.

use super::inner::DbInner;
use crate::error::{Error, Result};
use crate::manifest::{Edit, ManifestState};
use crate::types::{KeyRange, KeyspaceId, SeqNo};
use std::sync::atomic::Ordering;

/// What a keyspace's adopted tables reach over.
pub(crate) struct Adoption<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) ranges: &'a [KeyRange],
}

impl DbInner {
    /// Gives the adopted tables their place in the history, newer than every write before and older
    /// than every write after, and makes them durable and visible as one.
    ///
    /// `plan` is given the state that its edits will change and the first of `seq_count` sequence
    /// numbers, which are the tables' bases. Where memtables hold keys of the ranges they are flushed first, because a
    /// memtable must never be older than a table below it. Writers wait meanwhile, readers do not.
    pub(crate) fn adopt(
        &self,
        adoptions: &[Adoption<'_>],
        seq_count: u64,
        plan: impl FnOnce(&ManifestState, SeqNo) -> Result<Vec<Edit>>,
    ) -> Result<SeqNo> {
        let mut state = self.write.state.lock();
        self.check_writable()?;
        // What was written before must not be lost by a power cut that the tables survive.
        self.sync_log_locked(&mut state)?;
        if adoptions.iter().any(|adoption| self.is_in_memory(adoption)) {
            self.seal(&mut state);
            self.wait_for_flushes()?;
        }
        let first_seq = SeqNo(state.last_seq.0 + 1);
        let seq = SeqNo(state.last_seq.0 + seq_count);
        if seq > SeqNo::MAX {
            return Err(Error::limit("the store's sequence numbers are used up").at_path(&self.dir));
        }
        self.commit_planned(
            |manifest| {
                let mut edits = plan(manifest, first_seq)?;
                edits.push(Edit::LastSeq(seq));
                Ok(edits)
            },
            &[],
        )?;
        state.last_seq = seq;
        self.visible.store(seq.0, Ordering::Release);
        Ok(seq)
    }

    fn is_in_memory(&self, adoption: &Adoption<'_>) -> bool {
        let Some(space) = self.space(adoption.keyspace) else {
            return false;
        };
        let view = space.view();
        let mut memtables = view.memtables();
        memtables.any(|memtable| {
            let mut ranges = adoption.ranges.iter();
            ranges.any(|range| memtable.overlaps(range))
        })
    }
}
