//! Bytes to numbers and back, for every on-disk structure: little-endian fixed widths and
//! LEB128 varints.
//!
//! Encoding appends to a `Vec<u8>`. Decoding goes through [`Cursor`], whose every step is
//! bounds-checked and names the missing field in its error, so that decoders are total: no bytes,
//! whatever they are, make them panic, over-allocate or loop.

use crate::error::{Error, Result};

/// Longest encoding of a `u64` varint, in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` as a little-endian `u32`.
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` as a little-endian `u64`.
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` as an LEB128 varint: seven bits a byte, low bits first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A reader over untrusted bytes. Every method fails cleanly at the end of the input.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is left to read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let (head, tail) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| truncated(what))?;
        self.rest = tail;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let (head, tail) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| truncated(what))?;
        self.rest = tail;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// A little-endian `u32`.
    #[inline]
    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// A little-endian `u64`.
    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A varint of at most 64 bits.
    #[inline]
    pub(crate) fn varint(&mut self, what: &str) -> Result<u64> {
        // Most take one byte.
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(what),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, what: &str) -> Result<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index as u32;
            if shift == 63 && bits > 1 {
                return Err(Error::corruption(format!("{what} overflows 64 bits")));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(truncated(what))
    }

    /// A varint that must fit `u32`.
    #[inline]
    pub(crate) fn varint_u32(&mut self, what: &str) -> Result<u32> {
        let value = self.varint(what)?;
        u32::try_from(value)
            .map_err(|_| Error::corruption(format!("{what} {value} does not fit 32 bits")))
    }

    /// A varint length and that many bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.varint(what)?;
        let len = usize::try_from(len).map_err(|_| truncated(what))?;
        self.take(len, what)
    }

    /// A varint length and that many bytes of UTF-8.
    pub(crate) fn str(&mut self, what: &str) -> Result<&'a str> {
        std::str::from_utf8(self.bytes(what)?)
            .map_err(|_| Error::corruption(format!("{what} is not UTF-8")))
    }

    /// Fails unless everything was read.
    pub(crate) fn finish(&self, what: &str) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "{} stray bytes after {what}",
            self.rest.len()
        )))
    }
}

#[cold]
fn truncated(what: &str) -> Error {
    Error::corruption(format!("{what} is cut short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint("value").unwrap(), value);
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn no_bytes_make_a_cursor_panic(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.bytes("bytes").is_ok() {}
            let _ = cursor.varint_u32("varint");
            let _ = cursor.u64("fixed");
        }
    }

    #[test]
    fn an_overlong_varint_is_refused() {
        let bytes = [0xff; 11];
        assert!(Cursor::new(&bytes).varint("value").is_err());
        let too_big = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Cursor::new(&too_big).varint("value").is_err());
    }
}
