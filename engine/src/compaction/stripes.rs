//! Which versions of a key some reader can tell apart.
//!
//! The sequence numbers that live snapshots read at cut history into *stripes*. Of the versions
//! of one key within one stripe every reader sees the newest or none: the others can go. Stripe 0
//! is the oldest: what lies in it is seen by every snapshot.

use crate::types::SeqNo;

/// See the module's head.
#[derive(Debug, Clone)]
pub(crate) struct Stripes {
    /// Ascending; the last one is what was visible when the list was made.
    boundaries: Vec<SeqNo>,
}

impl Stripes {
    /// `visible` must have been read before the list of `snapshots` was: a snapshot made between
    /// reads at a number of at least `visible`.
    pub(crate) fn new(mut snapshots: Vec<SeqNo>, visible: SeqNo) -> Self {
        snapshots.push(visible);
        snapshots.sort_unstable();
        snapshots.dedup();
        Self {
            boundaries: snapshots,
        }
    }

    /// The stripe that a sequence number lies in. What no reader could see yet when the list was
    /// made has a stripe of its own: a snapshot that was not in the list may tell it apart.
    pub(crate) fn of(&self, seq: SeqNo) -> u64 {
        let index = self.boundaries.partition_point(|boundary| *boundary < seq) as u64;
        match self.boundaries.last() {
            Some(last) if seq > *last => index + (seq.0 - last.0),
            _ => index,
        }
    }

    /// The smallest sequence number of the stripe that `seq` lies in.
    pub(crate) fn start_of(&self, seq: SeqNo) -> SeqNo {
        match self.boundaries.last() {
            Some(last) if seq > *last => seq,
            _ => {
                let index = self.boundaries.partition_point(|boundary| *boundary < seq);
                let before = index.checked_sub(1).and_then(|at| self.boundaries.get(at));
                before.map_or(SeqNo::ZERO, |boundary| SeqNo(boundary.0 + 1))
            }
        }
    }

    /// Up to here every reader sees everything.
    pub(crate) fn oldest(&self) -> SeqNo {
        self.boundaries.first().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_cut_history() {
        let stripes = Stripes::new(vec![SeqNo(5), SeqNo(10)], SeqNo(20));
        let of = |seq| stripes.of(SeqNo(seq));
        assert_eq!(
            [of(0), of(5), of(6), of(10), of(11), of(20)],
            [0, 0, 1, 1, 2, 2]
        );
        assert_eq!([of(21), of(22)], [4, 5]);
        let start_of = |seq| stripes.start_of(SeqNo(seq)).0;
        assert_eq!(
            [
                start_of(5),
                start_of(6),
                start_of(10),
                start_of(15),
                start_of(22)
            ],
            [0, 6, 6, 11, 22]
        );
        assert_eq!(stripes.oldest(), SeqNo(5));
    }
}
