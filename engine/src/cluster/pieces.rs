//! Cutting a value into the pieces that its sketch is made of.
//!
//! A piece is a line without the blanks around it, so that code which was indented, or came with
//! other line ends, still shows as the same. A line that is longer than [`PIECE_BYTES_MAX`] is cut
//! where its content says so: minified and binary files have no lines to speak of, and pieces at
//! fixed offsets would all change when a byte is inserted.

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

const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const LINE_FEEDS: u64 = 0x0a0a_0a0a_0a0a_0a0a;

/// Calls `found` with every piece of `value`, in order.
pub(super) fn for_each_piece(value: &[u8], mut found: impl FnMut(&[u8])) {
    let mut line_start = 0;
    let mut at = 0;
    let (words, rest) = value.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ LINE_FEEDS;
        // The top bit of each byte that is a line feed; exact, no carry passes a byte.
        let mut feeds = !(((word & LOW_BITS) + LOW_BITS) | word | LOW_BITS);
        while feeds != 0 {
            let line_end = at + (feeds.trailing_zeros() / 8) as usize;
            for_each_in_line(&value[line_start..line_end], &mut found);
            line_start = line_end + 1;
            feeds &= feeds - 1;
        }
        at += 8;
    }
    for byte in rest {
        if *byte == b'\n' {
            for_each_in_line(&value[line_start..at], &mut found);
            line_start = at + 1;
        }
        at += 1;
    }
    for_each_in_line(&value[line_start..], &mut found);
}

#[inline]
fn for_each_in_line(line: &[u8], found: &mut impl FnMut(&[u8])) {
    let line = line.trim_ascii();
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
