//! The bytes of an archive: told from other files, and watched for the end mark.

use std::io::{self, Read};

use super::super::compressed::decompress;
use super::Progress;

/// Size of a tar block; a header is one.
const BLOCK_BYTES: usize = 512;

/// Whether a file with this beginning, once decompressed, begins with a tar header. Anything that
/// cannot be told is no tar archive.
pub(in super::super) fn looks_like_tar(file: impl Read + 'static) -> bool {
    let Ok(mut decompressed) = decompress(file, &Progress::new()) else {
        return false;
    };
    let mut header = [0_u8; BLOCK_BYTES];
    decompressed.read_exact(&mut header).is_ok() && is_header(&header)
}

/// Fails if what `file` begins with, once decompressed, cannot begin a tar archive. No bytes at all,
/// or the zeros of an end mark, can: reading tells what is to be told of those.
pub(super) fn check_beginning(file: impl Read + 'static) -> io::Result<()> {
    let mut decompressed =
        decompress(file, &Progress::new()).map_err(|error| io::Error::other(error.to_string()))?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    (&mut decompressed)
        .take(BLOCK_BYTES as u64)
        .read_to_end(&mut block)?;
    if block.is_empty() {
        return Ok(());
    }
    let block: [u8; BLOCK_BYTES] = block
        .try_into()
        .map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    if has_checksum(&block) || block.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "it does not begin with a tar header",
    ))
}

/// Whether a block is the header of a member with a name.
fn is_header(block: &[u8; BLOCK_BYTES]) -> bool {
    has_checksum(block) && block.first() != Some(&0)
}

/// Whether a block's checksum field holds the sum of its bytes, that field counted as spaces.
fn has_checksum(block: &[u8; BLOCK_BYTES]) -> bool {
    let (before, rest) = block.split_at(148);
    let (field, after) = rest.split_at(8);
    let bytes = before.iter().chain(after).map(|byte| u64::from(*byte));
    let sum = bytes.sum::<u64>() + 8 * u64::from(b' ');
    let digits = field.iter().copied().skip_while(|byte| *byte == b' ');
    let digits = digits.take_while(|byte| (b'0'..=b'7').contains(byte));
    let stated = digits.fold(0, |value, digit| value * 8 + u64::from(digit - b'0'));
    stated == sum
}

/// Passes bytes through and knows whether the last ones were zeros enough for an end mark.
pub(super) struct EndMark<R> {
    inner: R,
    trailing_zeros: usize,
}

impl<R: Read> EndMark<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            trailing_zeros: 0,
        }
    }

    /// Whether a whole block of zeros, where the tar reader stops, was read last.
    pub(super) fn was_seen(&self) -> bool {
        self.trailing_zeros >= BLOCK_BYTES
    }
}

impl<R: Read> Read for EndMark<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let read = buffer.get(..count).unwrap_or_default();
        match read.iter().rev().position(|byte| *byte != 0) {
            Some(zeros) => self.trailing_zeros = zeros,
            None => self.trailing_zeros += count,
        }
        Ok(count)
    }
}
