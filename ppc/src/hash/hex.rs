//! Hex digits to bytes and back, for hashes.

use std::fmt;

/// Writes `bytes` as lowercase hex digits.
pub(super) fn write(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // The longest hash has 32 bytes; longer input would only take more rounds.
    for part in bytes.chunks(32) {
        let mut text = [0_u8; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(part) {
            pair.copy_from_slice(&[
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
        let digits = text.get(..2 * part.len()).unwrap_or_default();
        f.write_str(std::str::from_utf8(digits).unwrap_or_default())?;
    }
    Ok(())
}

/// Exactly `N` bytes from `2 N` hex digits of either case.
pub(crate) fn decode<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0_u8; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}
