//! Which keys are asked for, and in what order.
//!
//! A [`Sequence`] gives ordinals into a corpus in key order. Equal seeds give equal sequences, on
//! every machine and for every peer: in one run all peers are asked the same questions.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::corpus::Corpus;
use crate::results::Keys;

/// Exponent of the power law, as in the paper: the r-th most wanted key is wanted r^-1.5 times as
/// often as the first.
const POWER_LAW_EXPONENT: f64 = -1.5;

/// Bytes of hash at the end of a PPC key.
const HASH_BYTES: usize = 20;

/// An endless sequence of ordinals below a number of keys.
#[derive(Debug)]
pub struct Sequence {
    keys: u32,
    random: StdRng,
    order: Order,
}

#[derive(Debug)]
enum Order {
    /// Round after round, each a fresh permutation.
    Uniform { round: Vec<u32>, at: usize },
    /// Ranks drawn by their cumulative weights; a permutation says whose rank it is.
    PowerLaw {
        cumulative: Vec<f64>,
        ranking: Vec<u32>,
    },
    /// Round after round in key order.
    Ordered { next: u32 },
}

impl Sequence {
    /// A sequence over `keys` keys, at least one. [`Keys::None`] goes in key order.
    #[must_use]
    pub fn new(kind: Keys, keys: u32, seed: u64) -> Self {
        let keys = keys.max(1);
        let mut random = StdRng::seed_from_u64(seed);
        let order = match kind {
            Keys::Uniform => Order::Uniform {
                round: Vec::new(),
                at: 0,
            },
            Keys::PowerLaw => Order::PowerLaw {
                cumulative: cumulative_weights(keys),
                ranking: permutation(keys, &mut random),
            },
            Keys::Ordered | Keys::None => Order::Ordered { next: 0 },
        };
        Self {
            keys,
            random,
            order,
        }
    }

    /// The next ordinal.
    pub fn draw(&mut self) -> u32 {
        match &mut self.order {
            Order::Uniform { round, at } => {
                if *at >= round.len() {
                    *round = permutation(self.keys, &mut self.random);
                    *at = 0;
                }
                let drawn = round.get(*at).copied().unwrap_or_default();
                *at += 1;
                drawn
            }
            Order::PowerLaw {
                cumulative,
                ranking,
            } => {
                let total = cumulative.last().copied().unwrap_or(1.0);
                let point = self.random.random_range(0.0..total);
                let rank = cumulative.partition_point(|&up_to| up_to <= point);
                ranking.get(rank).copied().unwrap_or_default()
            }
            Order::Ordered { next } => {
                let drawn = *next;
                *next = (drawn + 1) % self.keys;
                drawn
            }
        }
    }

    /// The next `count` ordinals.
    pub fn take(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.draw()).collect()
    }
}

/// The numbers below `keys` in random order.
#[must_use]
pub fn shuffled(keys: u32, seed: u64) -> Vec<u32> {
    permutation(keys, &mut StdRng::seed_from_u64(seed))
}

fn permutation(keys: u32, random: &mut StdRng) -> Vec<u32> {
    let mut permutation: Vec<u32> = (0..keys).collect();
    permutation.shuffle(random);
    permutation
}

fn cumulative_weights(keys: u32) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=keys)
        .map(|rank| {
            sum += f64::from(rank).powf(POWER_LAW_EXPONENT);
            sum
        })
        .collect()
}

/// Keys that the corpus does not hold, each the neighbour of one that it holds: a key of
/// `neighbours` with other bytes for a hash.
#[must_use]
pub fn absent_keys(corpus: &Corpus, neighbours: &[u32], seed: u64) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(seed);
    let absent = |&neighbour: &u32| {
        let mut key = corpus.key(neighbour as usize).to_vec();
        let hash_at = key.len().saturating_sub(HASH_BYTES);
        loop {
            if let Some(hash) = key.get_mut(hash_at..) {
                random.fill(hash);
            }
            if !holds(corpus, &key) {
                return key;
            }
            // Only where nearly every key of a tiny length is taken.
            key.push(0);
        }
    };
    neighbours.iter().map(absent).collect()
}

fn holds(corpus: &Corpus, key: &[u8]) -> bool {
    let (mut low, mut high) = (0, corpus.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match corpus.key(middle).cmp(key) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::CorpusOptions;

    const KINDS: [Keys; 3] = [Keys::Uniform, Keys::PowerLaw, Keys::Ordered];

    #[test]
    fn uniform_asks_for_every_key_once_before_any_twice() {
        let mut sequence = Sequence::new(Keys::Uniform, 1000, 7);
        let mut rounds = Vec::new();
        for _ in 0..3 {
            let round = sequence.take(1000);
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..1000));
            rounds.push(round);
        }
        assert_ne!(rounds[0], rounds[1]);
        assert!(!rounds[0].is_sorted());
    }

    #[test]
    fn the_power_law_has_its_exponent() {
        let keys = 10_000;
        let mut counts = vec![0_u32; keys as usize];
        for drawn in Sequence::new(Keys::PowerLaw, keys, 3).take(1_000_000) {
            counts[drawn as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // Weights sum to about 2.6: the first rank gets 1/2.6 of all draws, the r-th r^-1.5 of that.
        let first = f64::from(counts[0]);
        assert!((370_000.0..410_000.0).contains(&first), "{first}");
        for rank in [2, 4, 8, 16, 64] {
            let expected = first * f64::from(rank).powf(-1.5);
            let got = f64::from(counts[rank as usize - 1]);
            assert!(
                (got / expected - 1.0).abs() < 0.1,
                "rank {rank}: {got} for {expected}"
            );
        }
    }

    #[test]
    fn the_favourites_of_the_power_law_are_not_the_first_keys() {
        let drawn = Sequence::new(Keys::PowerLaw, 10_000, 3).take(1000);
        let low = drawn.iter().filter(|&&ordinal| ordinal < 100).count();
        assert!(low < 900, "{low}");
        assert!(drawn.iter().all(|&ordinal| ordinal < 10_000));
    }

    #[test]
    fn ordered_begins_again_at_its_end() {
        let drawn = Sequence::new(Keys::Ordered, 3, 1).take(7);
        assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_seed_decides() {
        for kind in KINDS {
            let take = |seed| Sequence::new(kind, 500, seed).take(700);
            assert_eq!(take(1), take(1));
            assert_eq!(take(1) == take(2), kind == Keys::Ordered);
        }
        assert_eq!(shuffled(500, 1), shuffled(500, 1));
        assert_ne!(shuffled(500, 1), shuffled(500, 2));
    }

    #[test]
    fn absent_keys_are_absent_and_lie_beside_present_ones() {
        let corpus = Corpus::generate(&CorpusOptions {
            families: 4,
            versions: 5,
            lines: 3,
            ..CorpusOptions::default()
        });
        let neighbours = shuffled(corpus.len() as u32, 1);
        let absent = absent_keys(&corpus, &neighbours, 2);
        assert_eq!(absent.len(), corpus.len());
        for (key, &neighbour) in absent.iter().zip(&neighbours) {
            assert!(corpus.iter().all(|(present, _)| present != key));
            let present = corpus.key(neighbour as usize);
            let stem = present.len() - HASH_BYTES;
            assert_eq!(key[..stem], present[..stem]);
        }
    }
}
