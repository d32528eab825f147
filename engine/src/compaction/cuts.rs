//! Where one output of a merge ends and the next begins.
//!
//! A table is closed once it has its target size. But a clustered table of the output level keeps
//! its frames only if one output has them all; so an output that has entered the range of such an
//! *anchor* goes on to the anchor's end, and the next anchor begins a new output. What grows far
//! beyond the target is cut into equal parts, which are encoded anew; so is what is so small that
//! it joins its neighbour.

/// Below this part of the target, a table joins its neighbour.
const SMALL_DIVISOR: u64 = 4;

/// A table of the output level that an output may continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// Raw bytes that an output from its first to its last key will have, about.
    pub(crate) raw_bytes: u64,
}

impl Anchor {
    /// Whether a boundary right before `key` would cut the anchor in two.
    pub(crate) fn is_cut_before(&self, key: &[u8]) -> bool {
        self.smallest.as_slice() < key && key <= self.largest.as_slice()
    }

    /// Raw bytes at which an output is closed within the anchor.
    fn part_bytes(&self, target: u64) -> u64 {
        let twice = target.saturating_mul(2);
        if self.raw_bytes <= target.saturating_add(target / 2) {
            return twice;
        }
        let parts = (self.raw_bytes.saturating_add(target / 2) / target.max(1)).max(1);
        self.raw_bytes.div_ceil(parts).min(twice)
    }
}

/// The outputs of a stretch of keys.
pub(crate) struct Cuts<'a> {
    target: u64,
    /// Those ahead, by key.
    anchors: &'a [Anchor],
    entered: Option<&'a Anchor>,
}

impl<'a> Cuts<'a> {
    /// Cuts at `target` raw bytes where no anchor is. `anchors` are disjoint and by key.
    pub(crate) fn new(target: u64, anchors: &'a [Anchor]) -> Self {
        Self {
            target,
            anchors,
            entered: None,
        }
    }

    /// Goes on to `key`, and says whether an output of `raw_bytes` ends before it. Keys ascend.
    pub(crate) fn ends_before(&mut self, key: &[u8], raw_bytes: u64) -> bool {
        let mut begins = false;
        while let Some((next, rest)) = self.anchors.split_first() {
            if key < next.smallest.as_slice() {
                break;
            }
            begins |= !self.joins(raw_bytes, next);
            self.entered = Some(next);
            self.anchors = rest;
        }
        let bytes_max = match self.entered {
            Some(anchor) if key <= anchor.largest.as_slice() => anchor.part_bytes(self.target),
            _ => self.target,
        };
        begins || raw_bytes >= bytes_max
    }

    fn joins(&self, raw_bytes: u64, next: &Anchor) -> bool {
        let small = self.target / SMALL_DIVISOR;
        raw_bytes.min(next.raw_bytes) < small
            && raw_bytes.saturating_add(next.raw_bytes) <= self.target.saturating_add(small)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(smallest: u8, largest: u8, raw_bytes: u64) -> Anchor {
        Anchor {
            smallest: vec![smallest],
            largest: vec![largest],
            raw_bytes,
        }
    }

    /// The first keys of all outputs, of 100 bytes about, if each key comes with 10 bytes.
    fn outputs(anchors: &[Anchor], keys: impl Iterator<Item = u8>) -> Vec<u8> {
        let mut cuts = Cuts::new(100, anchors);
        let mut raw_bytes = 0;
        let mut begins = Vec::new();
        for key in keys {
            if cuts.ends_before(&[key], raw_bytes) || begins.is_empty() {
                begins.push(key);
                raw_bytes = 0;
            }
            raw_bytes += 10;
        }
        begins
    }

    #[test]
    fn without_anchors_the_target_cuts() {
        assert_eq!(outputs(&[], 0..25), [0, 10, 20]);
    }

    #[test]
    fn an_anchor_stays_whole_and_begins_an_output() {
        let anchors = [anchor(5, 17, 130), anchor(18, 27, 100)];
        assert_eq!(outputs(&anchors, 0..40), [0, 5, 18, 28, 38]);
    }

    #[test]
    fn what_follows_a_full_anchor_begins_an_output_and_joins_the_next() {
        let anchors = [anchor(0, 9, 100), anchor(12, 20, 90)];
        assert_eq!(outputs(&anchors, 0..21), [0, 10]);
    }

    #[test]
    fn small_anchors_join_as_far_as_they_fit() {
        let small: Vec<Anchor> = (0..10).map(|n| anchor(2 * n, 2 * n + 1, 20)).collect();
        assert_eq!(outputs(&small, 0..20), [0, 12]);
    }

    #[test]
    fn what_outgrew_the_target_is_cut_into_equal_parts() {
        assert_eq!(outputs(&[anchor(0, 15, 160)], 0..16), [0, 8]);
        assert_eq!(outputs(&[anchor(0, 14, 150)], 0..15), [0]);
        // Nor does a wrong estimate make tables without end.
        assert_eq!(outputs(&[anchor(0, 90, 90)], 0..91), [0, 20, 40, 60, 80]);
    }

    #[test]
    fn only_boundaries_inside_cut_an_anchor() {
        let anchor = anchor(5, 9, 1);
        assert!([6, 9].iter().all(|&key| anchor.is_cut_before(&[key])));
        assert!(![5, 10].iter().any(|&key| anchor.is_cut_before(&[key])));
    }
}
