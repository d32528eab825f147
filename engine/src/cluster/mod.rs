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
//! 2. No value has more bases above it than `depth_max`: with one, a base has none itself.
//! 3. A base stands before its followers; every value stands in the order once.
//! 4. Planning takes time in proportion to the values' number and bytes, however alike they are.
//!
//! A clusterer belongs to one thread.

mod hops;
mod index;
mod lone;
mod pieces;
mod select;
mod sketch;
#[cfg(test)]
mod tests;

use hops::Forest;
use index::{Index, Lookup};
pub(crate) use lone::LoneSketch;
use select::{Gain, NONE, Pairs};
use sketch::Sketches;

/// What the choice of bases weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterOptions {
    /// Entries of a value's sketch at most, each of 8 bytes; of a long one's, four times as many.
    /// More tell better how alike two values are. Default 32.
    pub(crate) sketch_entries_max: u32,
    /// Stored bytes that a base must save for each thousand of its own bytes, which each get of a
    /// follower decodes. Higher: fewer and shorter bases, faster gets, more bytes. Default 25.
    pub(crate) saved_bytes_per_1000_decoded: u32,
    /// Bases to decode before a value at most; at least 1. Default 1.
    pub(crate) depth_max: u32,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            sketch_entries_max: 32,
            saved_bytes_per_1000_decoded: 25,
            depth_max: 1,
        }
    }
}

impl ClusterOptions {
    /// Entries of the sketch of a value of this length, at most.
    fn entries_max(&self, value_bytes: usize) -> usize {
        let most = self.sketch_entries_max as usize;
        (value_bytes / BYTES_PER_ENTRY_MIN)
            .min(most)
            .max(value_bytes / BYTES_PER_FURTHER_ENTRY)
            .min(most * FURTHER_ENTRIES_FACTOR)
            .max(ENTRIES_MIN)
    }

    /// What decoding a base of this length costs, in stored bytes.
    fn due(&self, base_bytes: u32) -> u64 {
        u64::from(base_bytes) * u64::from(self.saved_bytes_per_1000_decoded) / 1000
    }
}

/// How the values of one window become frames. Values are numbered as they were added, from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClusterPlan {
    /// Values in the order of their frames in the file: a base stands before its followers, beside
    /// them.
    pub(crate) order: Vec<u32>,
    /// For each value, the value whose bytes serve as its prefix.
    pub(crate) base: Vec<Option<u32>>,
}

/// Bytes that a thousand distinct bytes of source code take when compressed with a dictionary alone.
const STORED_BYTES_PER_1000: u64 = 220;
/// Bases that a value may choose among.
const CHOICES_MAX: usize = 8;
/// A sketch has an entry for this many bytes of its value at most: that is about a line.
const BYTES_PER_ENTRY_MIN: usize = 32;
/// A long value has one for this many bytes, beyond what others may have.
const BYTES_PER_FURTHER_ENTRY: usize = 4 << 10;
/// How many times as many entries a long value may have.
const FURTHER_ENTRIES_FACTOR: usize = 4;
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

    /// Sketches the next value. A window has fewer than 2^32 of them, and less than 16 GiB.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let entries_max = self.options.entries_max(value.len());
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
    fn plan_counting(mut self) -> (ClusterPlan, u64) {
        let index = Index::new(&mut self.sketches);
        let mut lookup = Lookup::default();
        let mut candidates = Vec::new();
        let mut pairs = Pairs::default();
        let mut choices: Vec<Gain> = Vec::new();
        for rank in 0..index.len() as u32 {
            index.candidates(&self.sketches, rank, &mut lookup, &mut candidates);
            choices.clear();
            for candidate in &candidates {
                let saved = u64::from(candidate.shared_bytes) * STORED_BYTES_PER_1000 / 1000;
                let gained = saved.saturating_sub(self.due(index.value(candidate.rank)));
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
        let (mut base_of_rank, mut work) = select::choose(&pairs);
        if self.options.depth_max > 1 {
            let due: Vec<u32> = (0..index.len() as u32)
                .map(|rank| self.due(index.value(rank)) as u32)
                .collect();
            let forest = Forest::new(&pairs, &due, self.options.depth_max, base_of_rank);
            let (grown, moves_weighed) = forest.grow();
            base_of_rank = grown;
            work += moves_weighed;
        }
        let mut base = vec![None; index.len()];
        for (rank, &of) in base_of_rank.iter().enumerate() {
            base[index.value(rank as u32) as usize] = (of != NONE).then(|| index.value(of));
        }
        let order = order(&base);
        (ClusterPlan { order, base }, lookup.work + work)
    }

    /// What decoding a value for another one costs, in stored bytes.
    fn due(&self, value: u32) -> u64 {
        self.options.due(self.sketches.get(value).value_bytes)
    }
}

/// Cluster after cluster, in the key order of their first members. In a cluster, each value is
/// followed by those it serves as base, in key order, each with its own.
fn order(base: &[Option<u32>]) -> Vec<u32> {
    let count = base.len();
    // Followers in key order, base after base.
    let mut ends = vec![0_u32; count];
    for base in base.iter().flatten() {
        ends[*base as usize] += 1;
    }
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    let mut followers = vec![0; start as usize];
    for (value, base) in base.iter().enumerate() {
        if let Some(base) = base {
            let end = &mut ends[*base as usize];
            followers[*end as usize] = value as u32;
            *end += 1;
        }
    }
    let mut order = Vec::with_capacity(count);
    let mut is_placed = vec![false; count];
    let mut next = Vec::new();
    for first in 0..count as u32 {
        if is_placed[first as usize] {
            continue;
        }
        let mut root = first;
        while let Some(base) = base[root as usize] {
            root = base;
        }
        next.push(root);
        while let Some(value) = next.pop() {
            is_placed[value as usize] = true;
            order.push(value);
            let value = value as usize;
            let start = if value == 0 { 0 } else { ends[value - 1] };
            let served = &followers[start as usize..ends[value] as usize];
            next.extend(served.iter().rev());
        }
    }
    order
}
