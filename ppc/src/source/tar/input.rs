//! The bytes of an archive: counted, decompressed, and watched for the end mark.

use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use ppc_engine::{Error, ErrorKind, Result};

use super::Progress;

/// Compressed bytes read at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// zstd windows up to 2 GiB are accepted; the widest that archives are made with is 1 GiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;
/// What an xz stream may ask for: the decoder of `xz -9` needs 65 MiB, the format's largest
/// dictionary 1.5 GiB.
const XZ_MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Size of a tar block; a header is one.
const BLOCK_BYTES: usize = 512;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BZIP2_MAGIC: &[u8] = b"BZh";
/// What follows in a bzip2 stream: pi before a block, its root at the end of an empty stream.
const BZIP2_BLOCK: &[u8] = &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
const BZIP2_END: &[u8] = &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90];

/// The archive's bytes once decompressed, as its first bytes ask for. Bytes taken from `file` are
/// added to `progress`.
pub(super) fn decompress(file: impl Read + 'static, progress: &Progress) -> Result<Box<dyn Read>> {
    let counted = Counted {
        inner: file,
        progress: progress.clone(),
    };
    let mut buffered = BufReader::with_capacity(BUFFER_BYTES, counted);
    let cannot_read =
        |error| Error::new(ErrorKind::Io, "cannot read the archive").with_source(error);
    // One read may in theory be shorter than the magic; from a file it never is.
    let start = buffered.fill_buf().map_err(cannot_read)?;
    if start.starts_with(GZIP_MAGIC) {
        return Ok(Box::new(MultiGzDecoder::new(buffered)));
    }
    if start.starts_with(XZ_MAGIC) {
        let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, CONCATENATED)
            .map_err(|error| cannot_read(error.into()))?;
        return Ok(Box::new(XzDecoder::new_stream(buffered, stream)));
    }
    if is_zstd(start) {
        let mut decoder = zstd::Decoder::with_buffer(buffered).map_err(cannot_read)?;
        decoder
            .window_log_max(ZSTD_WINDOW_LOG_MAX)
            .map_err(cannot_read)?;
        return Ok(Box::new(decoder));
    }
    if is_bzip2(start) {
        return Ok(Box::new(MultiBzDecoder::new(buffered)));
    }
    Ok(Box::new(buffered))
}

/// Whether the bytes begin with a zstd frame, or with the skippable one that `pzstd` writes first.
fn is_zstd(start: &[u8]) -> bool {
    let is_skippable = matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    start.starts_with(ZSTD_MAGIC) || is_skippable
}

/// Whether the bytes begin with a bzip2 stream: its magic and the size of its blocks, a digit. A tar
/// archive, whose first bytes are a name, hardly begins so and goes on as a block does.
fn is_bzip2(start: &[u8]) -> bool {
    let after_magic = start.strip_prefix(BZIP2_MAGIC);
    let Some((b'1'..=b'9', rest)) = after_magic.and_then(<[u8]>::split_first) else {
        return false;
    };
    let marks = [BZIP2_BLOCK, BZIP2_END];
    marks.iter().any(|mark| {
        let known = rest.len().min(mark.len());
        rest.get(..known) == mark.get(..known)
    })
}

/// Whether a file with this beginning, once decompressed, begins with a tar header. Anything that
/// cannot be told is no tar archive.
pub(in super::super) fn looks_like_tar(file: impl Read + 'static) -> bool {
    let Ok(mut decompressed) = decompress(file, &Progress::new()) else {
        return false;
    };
    let mut header = [0_u8; BLOCK_BYTES];
    decompressed.read_exact(&mut header).is_ok() && is_header(&header)
}

/// Whether a block's checksum field holds the sum of its bytes, that field counted as spaces.
fn is_header(block: &[u8; BLOCK_BYTES]) -> bool {
    let (before, rest) = block.split_at(148);
    let (field, after) = rest.split_at(8);
    let bytes = before.iter().chain(after).map(|byte| u64::from(*byte));
    let sum = bytes.sum::<u64>() + 8 * u64::from(b' ');
    let digits = field.iter().copied().skip_while(|byte| *byte == b' ');
    let digits = digits.take_while(|byte| (b'0'..=b'7').contains(byte));
    let stated = digits.fold(0, |value, digit| value * 8 + u64::from(digit - b'0'));
    stated == sum && before.first() != Some(&0)
}

/// Adds what is read to the progress.
struct Counted<R> {
    inner: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.add_bytes(count as u64);
        Ok(count)
    }
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
