//! Input that may be compressed: counted as it lies on the disk, and decompressed as its first bytes
//! ask for.

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
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BZIP2_MAGIC: &[u8] = b"BZh";
/// What follows in a bzip2 stream: pi before a block, its root at the end of an empty stream.
const BZIP2_BLOCK: &[u8] = &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
const BZIP2_END: &[u8] = &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90];

/// The bytes of `file` once decompressed, as its first bytes ask for. Bytes taken from `file` are
/// added to `progress`.
pub(crate) fn decompress(file: impl Read + 'static, progress: &Progress) -> Result<Box<dyn Read>> {
    let counted = Counted {
        inner: file,
        progress: progress.clone(),
    };
    let mut buffered = BufReader::with_capacity(BUFFER_BYTES, counted);
    let cannot_read = |error| Error::new(ErrorKind::Io, "cannot read the file").with_source(error);
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
