//! Second hops: bases that have bases themselves, where that pays and the depth allows.
//!
//! Starts from a choice of depth one and moves values, with all that hangs on them, to better bases:
//! mostly whole clusters to a base of another. A move is weighed with everything that must be decoded
//! for it: the new base, and its own bases, for the value and for each of its dependents.

use std::cmp::Reverse;

use super::select::{NONE, Pairs};

/// Rounds of moves; later ones find little.
const ROUNDS: usize = 3;

/// A forest of values, each below its base.
pub(super) struct Forest<'p> {
    pairs: &'p Pairs,
    /// What decoding each value for another one costs.
    due: &'p [u32],
    depth_max: u32,
    base: Vec<u32>,
    /// Values below each, at any depth.
    dependents: Vec<u32>,
    /// Bases at most between each value and one below it; never too low.
    height: Vec<u32>,
    pub(super) work: u64,
}

impl<'p> Forest<'p> {
    /// A forest of depth one; `base` holds [`NONE`] for a value without.
    pub(super) fn new(pairs: &'p Pairs, due: &'p [u32], depth_max: u32, base: Vec<u32>) -> Self {
        let mut dependents = vec![0; base.len()];
        let mut height = vec![0; base.len()];
        for &of in base.iter().filter(|of| **of != NONE) {
            dependents[of as usize] += 1;
            height[of as usize] = 1;
        }
        Self {
            pairs,
            due,
            depth_max,
            base,
            dependents,
            height,
            work: 0,
        }
    }

    /// Improves the forest; gives the base of each value.
    pub(super) fn grow(mut self) -> (Vec<u32>, u64) {
        for _ in 0..ROUNDS {
            let mut moves = Vec::new();
            for value in 0..self.base.len() as u32 {
                for pair in self.pairs.of(value) {
                    if let Some(added) = self.added(value, pair.of, pair.bytes) {
                        moves.push((Reverse(added), value, *pair));
                    }
                }
            }
            moves.sort_unstable_by_key(|(added, value, pair)| (*added, *value, pair.of));
            for &(_, value, pair) in &moves {
                // Moves before this one may have changed what it adds.
                if self.added(value, pair.of, pair.bytes).is_some() {
                    self.attach(value, pair.of);
                }
            }
            if moves.is_empty() {
                break;
            }
        }
        (self.base, self.work)
    }

    /// What the move of `value` below `base` adds, if it may be made and adds anything.
    fn added(&mut self, value: u32, base: u32, gain: u32) -> Option<i64> {
        self.work += 1;
        if self.base[value as usize] == base {
            return None;
        }
        let decoders = i64::from(self.dependents[value as usize]) + 1;
        let (depth, due) = self.above(base, value)?;
        if depth + 1 + self.height[value as usize] > self.depth_max {
            return None;
        }
        // A pair's gain accounts for one decoding of its base.
        let with = |gain: u32, base: u32, due_above: i64| {
            i64::from(gain)
                - i64::from(self.due[base as usize]) * (decoders - 1)
                - due_above * decoders
        };
        let mut added = with(gain, base, due);
        let now = self.base[value as usize];
        if now != NONE {
            let gain_now = self.pairs.of(value).iter().find(|pair| pair.of == now)?;
            let (_, due_now) = self.above(now, value)?;
            added -= with(gain_now.bytes, now, due_now);
        }
        (added > 0).then_some(added)
    }

    /// The depth of `value`, and what decoding its bases costs; none if `below` is one of them.
    fn above(&self, value: u32, below: u32) -> Option<(u32, i64)> {
        let (mut depth, mut due) = (0, 0);
        let mut at = value;
        loop {
            if at == below {
                return None;
            }
            at = self.base[at as usize];
            if at == NONE {
                return Some((depth, due));
            }
            depth += 1;
            due += i64::from(self.due[at as usize]);
        }
    }

    fn attach(&mut self, value: u32, base: u32) {
        let moved = self.dependents[value as usize] + 1;
        let mut at = self.base[value as usize];
        while at != NONE {
            self.dependents[at as usize] -= moved;
            at = self.base[at as usize];
        }
        self.base[value as usize] = base;
        let mut at = base;
        let mut height = self.height[value as usize];
        while at != NONE {
            height += 1;
            self.dependents[at as usize] += moved;
            let known = &mut self.height[at as usize];
            height = height.max(*known);
            *known = height;
            at = self.base[at as usize];
        }
    }
}
