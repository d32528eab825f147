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

/// A cut comes where this many low bits of the rolling hash are zero: once in 64 bytes.
const CUT_BITS: u32 = 6;
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

/// Cuts a long line by a rolling hash over its last 64 bytes (a gear hash).
fn cut(line: &[u8], found: &mut impl FnMut(&[u8])) {
    let mut start = 0;
    let mut hash = 0_u64;
    for (at, &byte) in line.iter().enumerate() {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(byte)]);
        let len = at + 1 - start;
        let is_cut = hash >> (u64::BITS - CUT_BITS) == 0 && len >= CUT_BYTES_MIN;
        if is_cut || len == PIECE_BYTES_MAX {
            found(&line[start..=at]);
            start = at + 1;
        }
    }
    if start < line.len() {
        found(&line[start..]);
    }
}

/// A random number for each byte (SplitMix64).
static GEAR: [u64; 256] = {
    let mut table = [0; 256];
    let mut state = 0_u64;
    let mut byte = 0;
    while byte < table.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[byte] = mixed ^ (mixed >> 31);
        byte += 1;
    }
    table
};
