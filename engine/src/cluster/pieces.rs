//! Cutting a value into the pieces that its sketch is made of.
//!
//! A piece is a line without the blanks and control characters around it, so that code which was
//! indented, or came with other line ends, still shows as the same. A line that is longer than
//! [`PIECE_BYTES_MAX`] is cut where its content says so: minified and binary files have no lines to
//! speak of, and pieces at fixed offsets would all change when a byte is inserted.

/// Shorter lines are left out: `}`, `else:` and the like are everywhere and save nothing.
pub(super) const PIECE_BYTES_MIN: usize = 6;
/// Longer lines are cut.
pub(super) const PIECE_BYTES_MAX: usize = 256;

/// A cut comes where this many top bits of a hash of the eight bytes before are zero: once in 64.
const CUT_BITS: u32 = 6;
/// Spreads eight bytes to the top bits: 2^64 divided by the golden ratio.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// No piece of a long line is shorter, but for its last.
const CUT_BYTES_MIN: usize = 24;

/// Bytes that are looked at together.
const CHUNK_BYTES: usize = 64;
/// Bytes up to this one are blanks.
const BLANK_MAX: u8 = b' ';

/// Calls `found` with every piece of `value`, in order.
pub(super) fn for_each_piece(value: &[u8], mut found: impl FnMut(&[u8])) {
    let mut line = Line::default();
    let mut at = 0;
    let (chunks, rest) = value.as_chunks::<CHUNK_BYTES>();
    // Line feeds behind the value end its last line.
    let mut last = [b'\n'; CHUNK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    for chunk in chunks.iter().chain([&last]) {
        let Marks {
            mut feeds,
            mut solid,
        } = Marks::of(chunk);
        while feeds != 0 {
            let up_to_feed = feeds ^ (feeds - 1);
            line.extend(at, solid & up_to_feed);
            for_each_in_line(&value[std::mem::take(&mut line).range()], &mut found);
            solid &= !up_to_feed;
            feeds &= feeds - 1;
        }
        line.extend(at, solid);
        at += CHUNK_BYTES;
    }
}

/// What is known of a line: where its bytes that are no blanks begin and end.
#[derive(Default)]
struct Line {
    solid: Option<(usize, usize)>,
}

impl Line {
    /// Adds the bytes that `solid` marks, counted from `at`.
    #[inline]
    fn extend(&mut self, at: usize, solid: u64) {
        if solid != 0 {
            let first = at + solid.trailing_zeros() as usize;
            let end = at + CHUNK_BYTES - solid.leading_zeros() as usize;
            self.solid = Some((self.solid.map_or(first, |(first, _)| first), end));
        }
    }

    #[inline]
    fn range(self) -> std::ops::Range<usize> {
        let (first, end) = self.solid.unwrap_or_default();
        first..end
    }
}

/// A bit for each byte of a chunk, the first in the lowest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Marks {
    /// Line feeds.
    feeds: u64,
    /// Bytes that are no blanks.
    solid: u64,
}

impl Marks {
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn of(chunk: &[u8; CHUNK_BYTES]) -> Self {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_max_epu8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8,
        };
        let mut marks = Self::default();
        for (part, bytes) in chunk.as_chunks::<16>().0.iter().enumerate() {
            let bytes = u128::from_le_bytes(*bytes);
            // SAFETY: these need SSE2, which every processor of this architecture has. They work
            // on values, not on memory.
            let (feeds, solid) = unsafe {
                let bytes = _mm_set_epi64x((bytes >> 64) as i64, bytes as i64);
                let solid_min = _mm_set1_epi8((BLANK_MAX + 1) as i8);
                let feeds = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\n' as i8));
                let solid = _mm_cmpeq_epi8(_mm_max_epu8(bytes, solid_min), bytes);
                (_mm_movemask_epi8(feeds), _mm_movemask_epi8(solid))
            };
            marks.feeds |= u64::from(feeds as u16) << (16 * part);
            marks.solid |= u64::from(solid as u16) << (16 * part);
        }
        marks
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of(chunk: &[u8; CHUNK_BYTES]) -> Self {
        Self::byte_by_byte(chunk)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn byte_by_byte(chunk: &[u8; CHUNK_BYTES]) -> Self {
        let mut marks = Self::default();
        for (place, &byte) in chunk.iter().enumerate() {
            marks.feeds |= u64::from(byte == b'\n') << place;
            marks.solid |= u64::from(byte > BLANK_MAX) << place;
        }
        marks
    }
}

#[inline]
fn for_each_in_line(line: &[u8], found: &mut impl FnMut(&[u8])) {
    if line.len() > PIECE_BYTES_MAX {
        cut(line, found);
    } else if line.len() >= PIECE_BYTES_MIN {
        found(line);
    }
}

/// Cuts a long line after every eight bytes whose hash says so.
fn cut(line: &[u8], found: &mut impl FnMut(&[u8])) {
    let mut rest = line;
    while rest.len() > CUT_BYTES_MIN {
        let len_max = rest.len().min(PIECE_BYTES_MAX);
        let first = CUT_BYTES_MIN - size_of::<u64>();
        let windows = rest[first..len_max].windows(size_of::<u64>());
        let len = windows
            .map(|window| window.try_into().map_or(0, u64::from_le_bytes))
            .position(|window| window.wrapping_mul(HASH_FACTOR) >> (u64::BITS - CUT_BITS) == 0)
            .map_or(len_max, |at| at + CUT_BYTES_MIN);
        let (piece, after) = rest.split_at(len);
        found(piece);
        rest = after;
    }
    if !rest.is_empty() {
        found(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(value: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        for_each_piece(value, |piece| pieces.push(piece.to_vec()));
        pieces
    }

    /// Bytes as they are in code, and some that are not.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![Just(b'\n'), Just(b' '), Just(b'a'), any::<u8>()]
    }

    proptest! {
        #[test]
        fn marks_are_those_of_each_byte(bytes in prop::collection::vec(byte(), CHUNK_BYTES)) {
            let chunk = bytes.as_slice().try_into().unwrap();
            prop_assert_eq!(Marks::of(chunk), Marks::byte_by_byte(chunk));
        }

        #[test]
        fn pieces_are_lines_without_blanks(value in prop::collection::vec(byte(), 0..500)) {
            let is_solid = |byte: &u8| *byte > BLANK_MAX;
            let mut expected = Vec::new();
            for line in value.split(|byte| *byte == b'\n') {
                let Some(first) = line.iter().position(is_solid) else { continue };
                let end = line.iter().rposition(is_solid).unwrap() + 1;
                for_each_in_line(&line[first..end], &mut |piece| expected.push(piece.to_vec()));
            }
            prop_assert_eq!(pieces(&value), expected);
        }
    }
}
