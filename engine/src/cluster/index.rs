//! Which values share pieces: an index from sketch entries to values, and the candidates it gives.
//!
//! Bounded work: a value looks at [`POSTINGS_PER_VALUE_MAX`] postings at most, rare pieces first,
//! and at [`NEIGHBOURS`] + [`HUBS`] of any one piece. Of a piece that is everywhere it sees the
//! values whose length is nearest to its own, which among versions of one file are the nearest
//! versions; and a few that all the others see too, among which a base for all of them is found.

use super::sketch::{Sketches, low_bits, piece_bytes};

/// Postings that one value looks at.
const POSTINGS_PER_VALUE_MAX: usize = 1024;
/// Of a piece that many values have: those next to the value in the order of lengths.
const NEIGHBOURS: usize = 6;
/// Of a piece that many values have: those spread over the order of lengths.
const HUBS: usize = 4;
/// Candidates that are compared sketch by sketch.
const COMPARED_MAX: usize = 8;

/// A piece that occurs in this many of 64 regions of the window is common.
const REGIONS_COMMON: u32 = 16;

/// Values beyond these, the shortest, are not indexed.
const RANKED_MAX: usize = 1 << RANK_BITS;
/// Bits of a posting under construction that hold the rank; the others tell pieces apart.
const RANK_BITS: u32 = 24;
const RANK_MASK: u64 = (1 << RANK_BITS) - 1;
const PIECE_BITS: u32 = u64::BITS - RANK_BITS;

/// Values by rank (longest first, then in key order), and what they share.
#[derive(Debug)]
pub(super) struct Index {
    /// The value of each rank.
    by_rank: Vec<u32>,
    /// Ranks that have a piece, ascending, piece after piece. No piece has one only.
    postings: Vec<u32>,
    pieces: Vec<Piece>,
    /// Pieces of each rank, rank after rank, rare ones first.
    shared: Vec<u32>,
    /// Where each rank's part of `shared` ends.
    shared_ends: Vec<u32>,
}

/// A piece that several values have.
#[derive(Debug, Clone, Copy)]
struct Piece {
    first_posting: u32,
    count: u32,
    bytes: u16,
}

/// A value that might serve another as its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) rank: u32,
    /// Bytes of the follower that it holds too, estimated.
    pub(super) shared_bytes: u32,
}

/// What looking up candidates needs room for; used again from value to value.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// For each rank, bytes of sketched pieces that it shares with the value.
    scores: Vec<u32>,
    /// Ranks with a score.
    scored: Vec<u32>,
    /// Postings looked at and candidates compared since the start.
    pub(super) work: u64,
}

impl Index {
    /// Indexes the sketches, and lowers the weight of what is common among them.
    pub(super) fn new(sketches: &mut Sketches) -> Self {
        let mut by_rank: Vec<u32> = (0..sketches.len() as u32).collect();
        by_rank.sort_by_key(|&value| std::cmp::Reverse(sketches.get(value).value_bytes));
        let mut pairs = Vec::with_capacity(sketches.entry_count());
        for (rank, &value) in by_rank.iter().enumerate().take(RANKED_MAX) {
            for &entry in sketches.get(value).entries {
                pairs.push(low_bits(entry, PIECE_BITS) << RANK_BITS | rank as u64);
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut index = Self {
            shared_ends: vec![0; by_rank.len()],
            by_rank,
            postings: Vec::new(),
            pieces: Vec::new(),
            shared: Vec::new(),
        };
        let mut common = Vec::new();
        let mut common_bytes = 0;
        for pairs in pairs.chunk_by(|a, b| a >> RANK_BITS == b >> RANK_BITS) {
            if pairs.len() > 1 {
                index.push_piece(pairs);
                if index.regions_of_last() >= REGIONS_COMMON {
                    common.push(pairs[0] >> RANK_BITS);
                    common_bytes += piece_bytes(pairs[0] >> RANK_BITS) * pairs.len() as u64;
                }
            }
        }
        drop(pairs);
        // More than a dictionary can hold, where all values are versions of a few.
        if common_bytes <= sketches.sketched_bytes() / 2 {
            sketches.lower(&common, PIECE_BITS);
        }
        index.list_pieces_by_rank();
        index
    }

    fn push_piece(&mut self, pairs: &[u64]) {
        self.pieces.push(Piece {
            first_posting: self.postings.len() as u32,
            count: pairs.len() as u32,
            bytes: piece_bytes(pairs[0] >> RANK_BITS) as u16,
        });
        self.postings
            .extend(pairs.iter().map(|pair| (pair & RANK_MASK) as u32));
    }

    /// In how many regions of the window, in key order, the last piece occurs.
    fn regions_of_last(&self) -> u32 {
        let Some(piece) = self.pieces.last() else {
            return 0;
        };
        if piece.count < REGIONS_COMMON {
            return 0;
        }
        let mut regions = 0_u64;
        for &rank in &self.postings[piece.first_posting as usize..] {
            let value = u64::from(self.by_rank[rank as usize]);
            regions |= 1 << (value * u64::from(u64::BITS) / self.by_rank.len() as u64);
        }
        regions.count_ones()
    }

    /// Turns postings round, rare pieces first.
    fn list_pieces_by_rank(&mut self) {
        for &rank in &self.postings {
            self.shared_ends[rank as usize] += 1;
        }
        let mut start = 0;
        for end in &mut self.shared_ends {
            // For now where the rank's part begins; filling it moves it on to its end.
            start += std::mem::replace(end, start);
        }
        self.shared = vec![0; self.postings.len()];
        let mut rare_first: Vec<u32> = (0..self.pieces.len() as u32).collect();
        rare_first.sort_by_key(|&piece| self.pieces[piece as usize].count);
        for piece in rare_first {
            let Piece {
                first_posting,
                count,
                ..
            } = self.pieces[piece as usize];
            for posting in first_posting..first_posting + count {
                let end = &mut self.shared_ends[self.postings[posting as usize] as usize];
                self.shared[*end as usize] = piece;
                *end += 1;
            }
        }
    }

    fn postings_of(&self, piece: u32) -> &[u32] {
        let piece = self.pieces[piece as usize];
        let first = piece.first_posting as usize;
        &self.postings[first..first + piece.count as usize]
    }

    /// Values, and so ranks.
    pub(super) fn len(&self) -> usize {
        self.by_rank.len()
    }

    /// The value of a rank.
    pub(super) fn value(&self, rank: u32) -> u32 {
        self.by_rank[rank as usize]
    }

    /// Fills `found` with candidates for the base of the value of `rank`.
    pub(super) fn candidates(
        &self,
        sketches: &Sketches,
        rank: u32,
        lookup: &mut Lookup,
        found: &mut Vec<Candidate>,
    ) {
        found.clear();
        self.score(rank, lookup);
        let Lookup {
            scores,
            scored,
            work,
        } = lookup;
        let by_score = |rank: &u32| (std::cmp::Reverse(scores[*rank as usize]), *rank);
        if scored.len() > COMPARED_MAX {
            scored.select_nth_unstable_by_key(COMPARED_MAX, by_score);
        }
        let follower = sketches.get(self.value(rank));
        for &candidate in scored.iter().take(COMPARED_MAX) {
            let base = sketches.get(self.value(candidate));
            found.push(Candidate {
                rank: candidate,
                shared_bytes: follower.bytes_shared_with(&base),
            });
        }
        *work += found.len() as u64;
        for &rank in scored.iter() {
            scores[rank as usize] = 0;
        }
        scored.clear();
    }

    /// Scores the values that share pieces with the value of `rank`.
    fn score(&self, rank: u32, lookup: &mut Lookup) {
        lookup.scores.resize(self.len(), 0);
        let at = rank as usize;
        let start = match at {
            0 => 0,
            _ => self.shared_ends[at - 1],
        };
        let mut left = POSTINGS_PER_VALUE_MAX;
        for &piece in &self.shared[start as usize..self.shared_ends[at] as usize] {
            let bytes = u32::from(self.pieces[piece as usize].bytes);
            let all = self.postings_of(piece);
            let mut see = |other: u32| {
                let score = &mut lookup.scores[other as usize];
                if other != rank {
                    if *score == 0 {
                        lookup.scored.push(other);
                    }
                    *score += bytes;
                }
            };
            let looked_at = all.len().min(NEIGHBOURS + HUBS);
            if all.len() == looked_at {
                all.iter().copied().for_each(&mut see);
            } else {
                let place = all.partition_point(|&other| other < rank);
                let near = place.saturating_sub(NEIGHBOURS / 2);
                let near = near..(near + NEIGHBOURS).min(all.len());
                all[near.clone()].iter().copied().for_each(&mut see);
                for hub in (0..HUBS).map(|hub| all.len() * hub / HUBS) {
                    if !near.contains(&hub) {
                        see(all[hub]);
                    }
                }
            }
            lookup.work += looked_at as u64;
            left = left.saturating_sub(looked_at);
            if left == 0 {
                break;
            }
        }
    }
}
