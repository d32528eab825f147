//! Choosing bases: which values serve others, so that the whole window saves most.
//!
//! Every value may have several bases that would pay; a value that serves as a base cannot have one.
//! This is facility location. The greedy way takes, again and again, the value whose choice as a base
//! adds most: what its followers gain over the bases they have, less what it loses by giving up its
//! own. Gains only fall while bases are chosen, so a value's gain is computed again only when it
//! comes to the top (lazy greedy).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No base.
pub(super) const NONE: u32 = u32::MAX;
/// How often a value's gain is computed again before the value is given up as a base.
const REVISIONS_MAX: u8 = 64;

/// Who could follow whom, with what gain.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Bases of each follower, follower after follower.
    bases: Vec<Gain>,
    /// Where each follower's part of `bases` ends.
    ends: Vec<u32>,
}

/// One end of a pair, and bytes gained if the pair is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gain {
    pub(super) of: u32,
    pub(super) bytes: u32,
}

impl Pairs {
    /// Adds the bases that pay for the next follower.
    pub(super) fn push(&mut self, bases: impl IntoIterator<Item = Gain>) {
        self.bases.extend(bases);
        self.ends.push(self.bases.len() as u32);
    }

    /// Bases of a follower, best first.
    pub(super) fn of(&self, follower: u32) -> &[Gain] {
        part(&self.bases, &self.ends, follower)
    }

    /// The same pairs by base.
    fn turned(&self) -> Self {
        let mut ends = vec![0; self.ends.len()];
        for pair in &self.bases {
            ends[pair.of as usize] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut turned = vec![Gain { of: 0, bytes: 0 }; self.bases.len()];
        for follower in 0..self.ends.len() as u32 {
            for pair in self.of(follower) {
                let end = &mut ends[pair.of as usize];
                turned[*end as usize] = Gain {
                    of: follower,
                    bytes: pair.bytes,
                };
                *end += 1;
            }
        }
        Self {
            bases: turned,
            ends,
        }
    }
}

fn part<'a>(all: &'a [Gain], ends: &[u32], of: u32) -> &'a [Gain] {
    let of = of as usize;
    let start = match of {
        0 => 0,
        _ => ends[of - 1],
    };
    &all[start as usize..ends[of] as usize]
}

/// Bases being chosen.
struct Choice<'p> {
    by_follower: &'p Pairs,
    by_base: Pairs,
    /// The base of each value, and what it gains by it.
    chosen: Vec<Gain>,
    is_base: Vec<bool>,
    work: u64,
}

/// For each value its base, or [`NONE`]; and the number of pairs looked at.
pub(super) fn choose(pairs: &Pairs) -> (Vec<u32>, u64) {
    let count = pairs.ends.len();
    let mut choice = Choice {
        by_follower: pairs,
        by_base: pairs.turned(),
        chosen: vec![Gain { of: NONE, bytes: 0 }; count],
        is_base: vec![false; count],
        work: 0,
    };
    choice.take_best();
    choice.dissolve();
    let bases = choice.chosen.iter().map(|gain| gain.of);
    (bases.collect(), choice.work)
}

impl Choice<'_> {
    /// What the choice of `base` would add.
    fn added(&mut self, base: u32) -> i64 {
        let followers = part(&self.by_base.bases, &self.by_base.ends, base);
        self.work += followers.len() as u64;
        let mut added = -i64::from(self.chosen[base as usize].bytes);
        for pair in followers {
            let follower = pair.of as usize;
            if !self.is_base[follower] {
                added += i64::from(pair.bytes.saturating_sub(self.chosen[follower].bytes));
            }
        }
        added
    }

    fn take_best(&mut self) {
        let mut best = BinaryHeap::new();
        for value in 0..self.is_base.len() as u32 {
            let added = self.added(value);
            if added > 0 {
                best.push((added, Reverse(value)));
            }
        }
        let mut revisions = vec![0_u8; self.is_base.len()];
        while let Some((promised, Reverse(value))) = best.pop() {
            let added = self.added(value);
            if added <= 0 {
                continue;
            }
            if added < promised
                && best
                    .peek()
                    .is_some_and(|next| *next > (added, Reverse(value)))
            {
                let revisions = &mut revisions[value as usize];
                *revisions += 1;
                if *revisions < REVISIONS_MAX {
                    best.push((added, Reverse(value)));
                }
                continue;
            }
            self.take(value);
        }
    }

    fn take(&mut self, base: u32) {
        self.is_base[base as usize] = true;
        self.chosen[base as usize] = Gain { of: NONE, bytes: 0 };
        let followers = part(&self.by_base.bases, &self.by_base.ends, base);
        self.work += followers.len() as u64;
        for pair in followers {
            let follower = pair.of as usize;
            if !self.is_base[follower] && self.chosen[follower].bytes < pair.bytes {
                self.chosen[follower] = Gain {
                    of: base,
                    bytes: pair.bytes,
                };
            }
        }
    }

    /// Turns a base into a follower where that gains more than its own followers lose: those that
    /// were chosen early may have lost theirs to later ones.
    fn dissolve(&mut self) {
        for base in 0..self.is_base.len() as u32 {
            if !self.is_base[base as usize] {
                continue;
            }
            let Some(own) = self.best_base(base, base) else {
                continue;
            };
            let followers = part(&self.by_base.bases, &self.by_base.ends, base);
            self.work += followers.len() as u64;
            let followers: Vec<u32> = followers
                .iter()
                .map(|pair| pair.of)
                .filter(|&follower| self.chosen[follower as usize].of == base)
                .collect();
            let mut lost = 0;
            let mut next = Vec::with_capacity(followers.len());
            for &follower in &followers {
                let other = self.best_base(follower, base);
                let other = other.unwrap_or(Gain { of: NONE, bytes: 0 });
                lost += u64::from(self.chosen[follower as usize].bytes - other.bytes);
                next.push(other);
            }
            if u64::from(own.bytes) > lost {
                self.is_base[base as usize] = false;
                self.chosen[base as usize] = own;
                for (follower, gain) in followers.into_iter().zip(next) {
                    self.chosen[follower as usize] = gain;
                }
            }
        }
    }

    /// The base among those chosen, but for `without`, by which `follower` gains most.
    fn best_base(&mut self, follower: u32, without: u32) -> Option<Gain> {
        let bases = self.by_follower.of(follower);
        self.work += bases.len() as u64;
        let chosen = bases
            .iter()
            .filter(|pair| self.is_base[pair.of as usize] && pair.of != without);
        chosen
            .copied()
            .max_by_key(|pair| (pair.bytes, Reverse(pair.of)))
    }
}
