//! Sketches: what a value holds, in a few hundred bytes.
//!
//! A sketch keeps the pieces of a value whose hashes are smallest, each once (bottom-k). Two values
//! that share pieces share sketch entries in proportion, because both keep the same end of the same
//! order. Each entry carries its piece's length, so that shares are counted in bytes.

use xxhash_rust::xxh3::xxh3_64;

use super::pieces::for_each_piece;

/// An entry's low bits hold its piece's length, the others its hash: entries sort by hash.
const LENGTH_BITS: u32 = 10;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;
/// A common piece counts for this part of its bytes: a dictionary has it too.
const COMMON_DIVISOR: u64 = 4;
/// Bits of the number of a place in the filter for common pieces.
const FILTER_BITS: u32 = 20;
/// Entries gathered, as a multiple of those kept, before the largest are thrown out.
const SLACK: usize = 3;

/// The sketches of many values, one after the other.
#[derive(Debug, Default)]
pub(super) struct Sketches {
    entries: Vec<u64>,
    of_values: Vec<Extent>,
    /// Entries of the value being sketched.
    gathered: Vec<u64>,
}

/// One value's part of [`Sketches`].
#[derive(Debug, Clone, Copy)]
struct Extent {
    end: usize,
    /// Bytes of the value.
    value_bytes: u32,
    /// Bytes of its distinct pieces, estimated.
    distinct_bytes: u32,
    /// Whether larger entries were thrown out.
    is_cut: bool,
}

/// One value's sketch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sketch<'a> {
    /// Ascending, each once.
    pub(super) entries: &'a [u64],
    pub(super) value_bytes: u32,
    pub(super) distinct_bytes: u32,
    /// No entry up to this one is missing.
    known_to: u64,
}

impl Sketches {
    /// Sketches a value, with at most `entries_max` entries.
    pub(super) fn push(&mut self, value: &[u8], entries_max: usize) {
        let gathered = &mut self.gathered;
        gathered.clear();
        let mut limit = u64::MAX;
        for_each_piece(value, |piece| {
            let entry = entry_of(piece);
            if entry < limit {
                gathered.push(entry);
                if gathered.len() > SLACK * entries_max {
                    keep_smallest(gathered, entries_max, &mut limit);
                }
            }
        });
        keep_smallest(gathered, entries_max, &mut limit);
        let sketched: u64 = gathered.iter().map(|&entry| piece_bytes(entry)).sum();
        let is_cut = limit != u64::MAX;
        let distinct = if is_cut {
            // The entries kept are to all as the last one is to the whole range of hashes.
            (u128::from(sketched) << 64) / u128::from(limit.max(1))
        } else {
            u128::from(sketched)
        };
        let value_bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.entries.extend_from_slice(gathered);
        self.of_values.push(Extent {
            end: self.entries.len(),
            value_bytes,
            distinct_bytes: distinct.min(u128::from(value_bytes)) as u32,
            is_cut,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.of_values.len()
    }

    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the pieces of all entries.
    pub(super) fn sketched_bytes(&self) -> u64 {
        self.entries.iter().map(|&entry| piece_bytes(entry)).sum()
    }

    pub(super) fn get(&self, index: u32) -> Sketch<'_> {
        let index = index as usize;
        let extent = self.of_values[index];
        let start = match index {
            0 => 0,
            _ => self.of_values[index - 1].end,
        };
        let entries = &self.entries[start..extent.end];
        Sketch {
            entries,
            value_bytes: extent.value_bytes,
            distinct_bytes: extent.distinct_bytes,
            known_to: match entries.last() {
                Some(last) if extent.is_cut => *last,
                _ => u64::MAX,
            },
        }
    }

    /// Lowers the weight of the entries whose low bits are among `common`, which is ascending.
    pub(super) fn lower(&mut self, common: &[u64], bits: u32) {
        let mut may_be = vec![0_u64; 1 << (FILTER_BITS - 6)];
        let place = |entry: u64| (entry >> LENGTH_BITS) as usize & ((1 << FILTER_BITS) - 1);
        for &low in common {
            let place = place(low);
            may_be[place / 64] |= 1 << (place % 64);
        }
        let mut start = 0;
        for extent in &mut self.of_values {
            let (mut before, mut after) = (0, 0);
            for entry in &mut self.entries[start..extent.end] {
                let bytes = piece_bytes(*entry);
                let place = place(*entry);
                before += bytes;
                let mut weight = bytes;
                if may_be[place / 64] & 1 << (place % 64) != 0
                    && common.binary_search(&low_bits(*entry, bits)).is_ok()
                {
                    weight = bytes / COMMON_DIVISOR;
                    *entry = *entry & !LENGTH_MASK | weight;
                }
                after += weight;
            }
            let lowered = (u64::from(extent.distinct_bytes) * after).checked_div(before);
            extent.distinct_bytes = lowered.unwrap_or(0) as u32;
            start = extent.end;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>() + self.of_values.capacity() * size_of::<Extent>()
    }
}

impl Sketch<'_> {
    /// How many of the value's distinct bytes `base` holds too, estimated where both sketches
    /// know of all pieces.
    pub(super) fn bytes_shared_with(&self, base: &Sketch<'_>) -> u32 {
        let known_to = self.known_to.min(base.known_to);
        let (mut shared, mut seen) = (0_u64, 0_u64);
        let mut at = 0;
        for &entry in self.entries {
            if entry > known_to {
                break;
            }
            while base.entries.get(at).is_some_and(|&other| other < entry) {
                at += 1;
            }
            seen += piece_bytes(entry);
            if base.entries.get(at) == Some(&entry) {
                shared += piece_bytes(entry);
            }
        }
        match seen {
            0 => 0,
            // At most `distinct_bytes`, for no more is shared than was seen.
            _ => (u64::from(self.distinct_bytes) * shared / seen) as u32,
        }
    }
}

#[inline]
fn entry_of(piece: &[u8]) -> u64 {
    (xxh3_64(piece) & !LENGTH_MASK) | (piece.len() as u64).min(LENGTH_MASK)
}

/// Bytes of an entry's piece.
pub(super) fn piece_bytes(entry: u64) -> u64 {
    entry & LENGTH_MASK
}

/// The low bits of an entry: its piece's length and hash bits in which small entries differ.
pub(super) fn low_bits(entry: u64, bits: u32) -> u64 {
    entry & ((1 << bits) - 1)
}

fn keep_smallest(gathered: &mut Vec<u64>, entries_max: usize, limit: &mut u64) {
    gathered.sort_unstable();
    gathered.dedup();
    if gathered.len() >= entries_max {
        gathered.truncate(entries_max);
        *limit = gathered.last().copied().unwrap_or(0);
    }
}
