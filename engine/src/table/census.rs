//! Which frames a table has: how many of each kind, how alike followers are to their bases, how deep
//! and how large clusters are. Counted while a table is written and kept in its properties, so that
//! nobody needs to look at a frame to know.

use super::chain::BASES_MAX;
use super::key_block::FramePlace;
use super::unit::UnitCodec;
use crate::coding::{Cursor, put_varint};
use crate::error::Result;

/// Frames of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FrameTally {
    /// How many.
    pub frames: u64,
    /// Their bytes once decoded.
    pub raw_bytes: u64,
    /// Their bytes in the file, headers included.
    pub stored_bytes: u64,
}

impl FrameTally {
    fn add(&mut self, other: &Self) {
        // Sums of what files say, whatever that is.
        self.frames = self.frames.saturating_add(other.frames);
        self.raw_bytes = self.raw_bytes.saturating_add(other.raw_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(other.stored_bytes);
    }
}

/// The frames of a table, or of several. Each is of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FrameCensus {
    /// One value, compressed by itself or with the dictionary; of no help to others.
    pub lone: FrameTally,
    /// Several values.
    pub shared: FrameTally,
    /// One value, which others are compressed against; has no base itself, and may be stored raw.
    pub bases: FrameTally,
    /// One value, compressed against another.
    pub followers: FrameTally,
    /// One value, stored as it is; of no help to others.
    pub raw: FrameTally,
    /// Followers by the share of their raw bytes that is stored, in steps of a tenth: first those
    /// that take less than a tenth.
    pub stored_tenths: [u64; 10],
    /// Frames by the number of bases that are decoded before them, from 0.
    pub depths: [u64; BASES_MAX + 1],
    /// Clusters (a base and all that stands on it) by how many frames they have: 2, up to 4, up to
    /// 8, and so on; the last holds all that are larger.
    pub cluster_sizes: [u64; 8],
}

/// What a writer notes of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameNote {
    pub(super) raw_len: u32,
    pub(super) codec: UnitCodec,
    pub(super) base: Option<u32>,
}

/// What is known of a frame once all were noted.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    values: u8,
    depth: u8,
    /// Frames that stand on this one, if it has no base itself.
    standing: u32,
    /// The frame below all its bases.
    root: u32,
}

impl FrameCensus {
    /// Counts the frames of a table, which start at `starts` and end at `end`, with values at `places`.
    pub(super) fn of(notes: &[FrameNote], starts: &[u64], end: u64, places: &[FramePlace]) -> Self {
        let known = know(notes, places);
        let ends = starts.iter().skip(1).chain(std::iter::once(&end));
        let stored = starts.iter().zip(ends).map(|(start, end)| end - start);
        let mut census = Self::default();
        for ((note, known), stored_bytes) in notes.iter().zip(&known).zip(stored) {
            census.count(note, known, stored_bytes);
        }
        census
    }

    fn count(&mut self, note: &FrameNote, known: &Known, stored_bytes: u64) {
        let raw_bytes = u64::from(note.raw_len);
        let tally = if note.base.is_some() {
            let tenth = stored_bytes * 10 / raw_bytes.max(1);
            let last = self.stored_tenths.len() - 1;
            bump(&mut self.stored_tenths, (tenth as usize).min(last));
            &mut self.followers
        } else if known.standing > 0 {
            // Sizes from 2 on: 2, 3 to 4, 5 to 8.
            let size = known.standing.saturating_add(1);
            let step = (u32::BITS - (size - 1).leading_zeros()) as usize;
            let last = self.cluster_sizes.len() - 1;
            bump(&mut self.cluster_sizes, (step - 1).min(last));
            &mut self.bases
        } else if known.values > 1 {
            &mut self.shared
        } else if note.codec == UnitCodec::Raw {
            &mut self.raw
        } else {
            &mut self.lone
        };
        tally.add(&FrameTally {
            frames: 1,
            raw_bytes,
            stored_bytes,
        });
        bump(&mut self.depths, known.depth.into());
    }

    /// Adds another table's frames.
    pub fn add(&mut self, other: &Self) {
        let mut mine = self.numbers();
        let others = other.clone().numbers().map(|number| *number);
        for (number, more) in mine.iter_mut().zip(others) {
            **number = number.saturating_add(more);
        }
    }

    /// The kinds by name, in a fixed order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, FrameTally)> {
        [
            ("base", self.bases),
            ("follower", self.followers),
            ("lone", self.lone),
            ("shared", self.shared),
            ("raw", self.raw),
        ]
        .into_iter()
    }

    /// All frames.
    #[must_use]
    pub fn total(&self) -> FrameTally {
        let mut total = FrameTally::default();
        self.kinds().for_each(|(_, tally)| total.add(&tally));
        total
    }

    /// Every number, in the order in which they are stored.
    fn numbers(&mut self) -> [&mut u64; 5 * 3 + 10 + BASES_MAX + 1 + 8] {
        let tallies = [
            &mut self.lone,
            &mut self.shared,
            &mut self.bases,
            &mut self.followers,
            &mut self.raw,
        ];
        let tallies = tallies.into_iter().flat_map(|tally| {
            [
                &mut tally.frames,
                &mut tally.raw_bytes,
                &mut tally.stored_bytes,
            ]
        });
        let mut numbers = tallies
            .chain(&mut self.stored_tenths)
            .chain(&mut self.depths)
            .chain(&mut self.cluster_sizes);
        std::array::from_fn(|_| {
            numbers
                .next()
                .unwrap_or_else(|| unreachable!("there are as many numbers as counted"))
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in self.clone().numbers() {
            put_varint(&mut bytes, *number);
        }
        bytes
    }

    /// Numbers that a later build appends are skipped.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut census = Self::default();
        let mut cursor = Cursor::new(bytes);
        for number in census.numbers() {
            if cursor.is_empty() {
                break;
            }
            *number = cursor.varint("frame census")?;
        }
        Ok(census)
    }
}

fn know(notes: &[FrameNote], places: &[FramePlace]) -> Vec<Known> {
    let mut known = vec![Known::default(); notes.len()];
    for place in places {
        if let Some(frame) = known.get_mut(place.frame as usize) {
            frame.values = frame.values.saturating_add(1);
        }
    }
    // Bases come before their followers.
    for (ordinal, note) in notes.iter().enumerate() {
        let base = note.base.and_then(|base| known.get(base as usize)).copied();
        let (depth, root) = match base {
            Some(base) => (base.depth.saturating_add(1), base.root),
            None => (0, ordinal as u32),
        };
        if let Some(frame) = known.get_mut(ordinal) {
            (frame.depth, frame.root) = (depth, root);
        }
        if base.is_some()
            && let Some(root) = known.get_mut(root as usize)
        {
            root.standing += 1;
        }
    }
    known
}

fn bump(counts: &mut [u64], index: usize) {
    if let Some(count) = counts.get_mut(index) {
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(raw_len: u32, codec: UnitCodec, base: Option<u32>) -> FrameNote {
        FrameNote {
            raw_len,
            codec,
            base,
        }
    }

    #[test]
    fn frames_are_counted_by_kind_likeness_depth_and_cluster() {
        let notes = [
            note(1000, UnitCodec::ZstdDictionary, None),
            note(1000, UnitCodec::ZstdBase, Some(0)),
            note(1000, UnitCodec::ZstdBase, Some(1)),
            note(1000, UnitCodec::ZstdBase, Some(0)),
            note(500, UnitCodec::Raw, None),
            note(900, UnitCodec::Zstd, None),
            note(700, UnitCodec::Zstd, None),
        ];
        let starts = [24, 224, 274, 624, 1600, 2116, 2316];
        let values = [0, 1, 2, 3, 4, 5, 5, 6];
        let places = values.map(|frame| FramePlace {
            frame,
            offset: 0,
            len: 1,
        });
        let census = FrameCensus::of(&notes, &starts, 2500, &places);
        let tally = |frames, raw_bytes, stored_bytes| FrameTally {
            frames,
            raw_bytes,
            stored_bytes,
        };
        assert_eq!(census.bases, tally(1, 1000, 200));
        assert_eq!(census.followers, tally(3, 3000, 50 + 350 + 976));
        assert_eq!(census.raw, tally(1, 500, 516));
        assert_eq!(census.shared, tally(1, 900, 200));
        assert_eq!(census.lone, tally(1, 700, 184));
        assert_eq!(census.total(), tally(7, 6100, 2500 - 24));
        assert_eq!(census.stored_tenths, [1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(census.depths, [4, 2, 1, 0, 0, 0, 0, 0, 0]);
        // Four frames: one base, two on it, and one on one of those.
        assert_eq!(census.cluster_sizes, [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(FrameCensus::decode(&census.encode()).unwrap(), census);
        let mut twice = census;
        twice.add(&census);
        assert_eq!(twice.followers, tally(6, 6000, 2 * (50 + 350 + 976)));
        assert_eq!(twice.depths[1], 4);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_census_panic(bytes: Vec<u8>) {
            let _ = FrameCensus::decode(&bytes);
        }
    }
}
