//! Clusters: which values of a window are alike, and so what is compressed against what.
//!
//! The writer of a clustered table hands each value of a window to a [`Clusterer`], in key order,
//! and then asks for the [`ClusterPlan`]. Values are not kept; only their sketches are.
//!
//! ```text
//! value ─ pieces ─ sketch ─┐
//! value ─ pieces ─ sketch ─┼─ index ─ candidates ─ gains ─ choice of bases ─ order of frames
//! value ─ pieces ─ sketch ─┘
//! ```
//!
//! Invariants:
//! 1. A plan is a function of the values and the options alone.
//! 2. A base has no base itself: one value is decoded before another at most.
//! 3. A base stands before its followers; every value stands in the order once.
//! 4. Planning takes time in proportion to the values' number and bytes, however alike they are.
//!
//! A clusterer belongs to one thread.

mod index;
mod pieces;
mod select;
mod sketch;

use index::{Index, Lookup};
use select::{Gain, Pairs};
use sketch::Sketches;

/// What the choice of bases weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterOptions {
    /// Entries of a value's sketch at most, each of 8 bytes. More tell better how alike two values
    /// are. Default 64.
    pub(crate) sketch_entries_max: u32,
    /// Stored bytes that a base must save for each thousand of its own bytes, which each get of a
    /// follower decodes. Higher: fewer and shorter bases, faster gets, more bytes. Default 100.
    pub(crate) saved_bytes_per_1000_decoded: u32,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            sketch_entries_max: 64,
            saved_bytes_per_1000_decoded: 100,
        }
    }
}

/// How the values of one window become frames. Values are numbered as they were added, from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClusterPlan {
    /// Values in the order of their frames in the file: a base stands before its followers, beside
    /// them.
    pub(crate) order: Vec<u32>,
    /// For each value, the value whose bytes serve as its prefix. A base has none itself.
    pub(crate) base: Vec<Option<u32>>,
}

/// Bytes that a thousand distinct bytes of source code take when compressed with a dictionary alone.
const STORED_BYTES_PER_1000: u64 = 220;
/// Bases that a value may choose among.
const CHOICES_MAX: usize = 16;
/// A sketch has an entry for this many bytes of its value at most: that is about a line.
const BYTES_PER_ENTRY_MIN: usize = 32;
/// But no value has to do with fewer entries.
const ENTRIES_MIN: usize = 8;

/// Sketches the values of a window and plans their frames.
#[derive(Debug)]
pub(crate) struct Clusterer {
    options: ClusterOptions,
    sketches: Sketches,
}

impl Clusterer {
    pub(crate) fn new(options: ClusterOptions) -> Self {
        Self {
            options,
            sketches: Sketches::default(),
        }
    }

    /// Sketches the next value; a window has fewer than 2^32 of them.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let entries_max = (value.len() / BYTES_PER_ENTRY_MIN)
            .max(ENTRIES_MIN)
            .min(self.options.sketch_entries_max as usize);
        self.sketches.push(value, entries_max);
    }

    /// Bytes that the sketches take. Planning takes as much again, twice over.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sketches.memory_bytes()
    }

    /// Plans the window.
    pub(crate) fn plan(self) -> ClusterPlan {
        self.plan_counting().0
    }

    /// The plan, and how many postings, sketches and pairs were looked at for it.
    fn plan_counting(self) -> (ClusterPlan, u64) {
        let index = Index::new(&self.sketches);
        let mut lookup = Lookup::default();
        let mut candidates = Vec::new();
        let mut pairs = Pairs::default();
        let mut choices: Vec<Gain> = Vec::new();
        for rank in 0..index.len() as u32 {
            index.candidates(&self.sketches, rank, &mut lookup, &mut candidates);
            choices.clear();
            for candidate in &candidates {
                let base = self.sketches.get(index.value(candidate.rank));
                let saved = u64::from(candidate.shared_bytes) * STORED_BYTES_PER_1000;
                let due = u64::from(base.value_bytes)
                    * u64::from(self.options.saved_bytes_per_1000_decoded);
                let gained = saved.saturating_sub(due) / 1000;
                if gained > 0 {
                    choices.push(Gain {
                        of: candidate.rank,
                        bytes: u32::try_from(gained).unwrap_or(u32::MAX),
                    });
                }
            }
            choices.sort_unstable_by_key(|gain| (std::cmp::Reverse(gain.bytes), gain.of));
            pairs.push(choices.iter().copied().take(CHOICES_MAX));
        }
        let (base_of_rank, pairs_seen) = select::choose(&pairs);
        let mut base = vec![None; index.len()];
        for (rank, of) in base_of_rank.iter().enumerate() {
            base[index.value(rank as u32) as usize] = of.map(|of| index.value(of));
        }
        let order = order(&base);
        (ClusterPlan { order, base }, lookup.work + pairs_seen)
    }
}

/// Cluster after cluster, in the key order of their first members; a base, then its followers in key
/// order.
fn order(base: &[Option<u32>]) -> Vec<u32> {
    let mut first: Vec<u32> = (0..base.len() as u32).collect();
    for (value, base) in base.iter().enumerate() {
        if let Some(base) = base {
            let first = &mut first[*base as usize];
            *first = (*first).min(value as u32);
        }
    }
    let mut order: Vec<u32> = (0..base.len() as u32).collect();
    order.sort_unstable_by_key(|&value| {
        let base = base[value as usize];
        (first[base.unwrap_or(value) as usize], base.is_some(), value)
    });
    order
}
