//! The seam to the `parquet` crate: what it may read, and what its panics become.
//!
//! The crate allocates what a page header claims, up to 2 GiB, before it looks at the page. Here
//! no range beyond the file's end is read, and a page that claims to expand more than its codec
//! can is refused before it is decoded. What still makes the crate panic becomes an error; a
//! program's panic hook learns from [`panics_become_errors`] that there is nothing to say.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use ppc_engine::{Error, Result};

/// Pages below this size are not worth guarding.
const PAGE_BYTES_SMALL: u64 = 64 * 1024;

/// A file, or one column chunk of it, as the `parquet` crate reads it.
#[derive(Debug, Clone)]
pub(super) struct GuardedFile {
    file: Arc<File>,
    len: u64,
    /// The largest factor by which pages can expand, where the codec has one.
    expansion_max: Option<u64>,
}

impl GuardedFile {
    pub(super) fn new(file: File) -> std::io::Result<Self> {
        Ok(Self {
            len: file.metadata()?.len(),
            file: Arc::new(file),
            expansion_max: None,
        })
    }

    /// The same file, for reading a column chunk compressed like this.
    pub(super) fn for_column(&self, compression: Compression) -> Self {
        Self {
            expansion_max: expansion_max(compression),
            ..self.clone()
        }
    }

    fn check_range(&self, start: u64, bytes: u64) -> Result<(), ParquetError> {
        match start.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(ParquetError::EOF(format!(
                "{bytes} bytes at offset {start} lie beyond the end of the file"
            ))),
        }
    }
}

impl Length for GuardedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for GuardedFile {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut reader = self.file.get_read(start)?;
        if let Some(expansion_max) = self.expansion_max {
            // The only reads of a column chunk that are not of a known length are page headers.
            if let Some((stored, raw)) = page_sizes(reader.fill_buf()?)
                && raw > PAGE_BYTES_SMALL
                && raw / expansion_max > stored
            {
                return Err(ParquetError::General(format!(
                    "the page at offset {start} claims to expand from {stored} to {raw} bytes, \
                     more than its compression can"
                )));
            }
        }
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.check_range(start, length as u64)?;
        self.file.get_bytes(start, length)
    }
}

/// The largest factor by which a codec can expand, generously rounded; none where there is no
/// bound, or where the decoder commits no memory ahead of the data (zstd, brotli).
fn expansion_max(compression: Compression) -> Option<u64> {
    match compression {
        // 64 bytes from a tag of 2 or 3.
        Compression::SNAPPY => Some(64),
        // 255 bytes from one more byte of length.
        Compression::LZ4 | Compression::LZ4_RAW => Some(512),
        // 258 bytes from two bits.
        Compression::GZIP(_) => Some(2_048),
        _ => None,
    }
}

/// The (stored, raw) size that a page header states: the third and second field of a structure
/// in Thrift's compact encoding, after the page's type. None if it does not look like one; then
/// the crate's own decoder finds the error.
fn page_sizes(header: &[u8]) -> Option<(u64, u64)> {
    /// The head of a field whose number is one more than the last one's, of type i32.
    const NEXT_I32: u8 = 0x15;
    let mut rest = header;
    let mut field = || {
        let (head, mut after) = rest.split_first()?;
        if *head != NEXT_I32 {
            return None;
        }
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let (byte, next) = after.split_first()?;
            after = next;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                rest = after;
                // Zigzag: odd numbers are negative, and no size is.
                return (value & 1 == 0).then_some(value >> 1);
            }
        }
        None
    };
    let _page_type = field()?;
    let raw = field()?;
    let stored = field()?;
    Some((stored, raw))
}

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a decoder whose panics are caught and become errors. A panic hook
/// that prints may stay silent then: the error will say everything.
#[must_use]
pub fn panics_become_errors() -> bool {
    // A thread that is ending decodes nothing.
    IS_GUARDED.try_with(Cell::get).unwrap_or(false)
}

/// Runs a piece of the `parquet` crate; its errors and panics become one of ours, `what` failed.
pub(super) fn guarded<T>(
    what: &dyn Fn() -> String,
    run: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T> {
    // Nothing is used again after a panic: the reader in question is dropped with the error.
    IS_GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(false);
    let damaged = |cause: String| {
        Error::corruption(what())
            .with_source(cause.replace(char::is_control, " "))
            .with_remedy("the file may be damaged or cut short; fetch it again")
    };
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(damaged(text.unwrap_or("the decoder panicked").to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_the_hook_can_tell() {
        assert!(!panics_become_errors());
        let what = || "cannot read".to_owned();
        let outcome = guarded::<()>(&what, || {
            assert!(panics_become_errors());
            panic!("index out of\nbounds")
        });
        let message = outcome.unwrap_err().to_string();
        assert!(
            message.contains("cannot read: index out of bounds"),
            "{message}"
        );
        assert!(!panics_become_errors());
    }

    #[test]
    fn page_sizes_are_read_from_the_header_or_not_at_all() {
        // type 0, raw 300, stored 5
        let header = [0x15, 0, 0x15, 0xd8, 0x04, 0x15, 10, 0x2c];
        assert_eq!(page_sizes(&header), Some((5, 300)));
        for end in 0..7 {
            assert_eq!(page_sizes(&header[..end]), None);
        }
        let negative = [0x15, 0, 0x15, 1, 0x15, 10];
        assert_eq!(page_sizes(&negative), None);
        assert_eq!(
            page_sizes(&[0x15, 0, 0x15, 255, 255, 255, 255, 255, 255]),
            None
        );
    }
}
