//! Room behind what a vector holds, for those who write bytes before they are initialised.

use std::mem::MaybeUninit;

use zstd::zstd_safe::WriteBuf;

use crate::error::Result;

/// Uninitialised bytes, of which a front part gets written.
pub(super) struct Room<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    /// Bytes at the front that were written.
    written: usize,
}

// SAFETY: pointer and capacity are those of one slice, which is borrowed for as long as `self`;
// `as_slice` covers what `filled_until` was told of.
unsafe impl WriteBuf for Room<'_> {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the first `written` bytes are initialised; `filled_until` keeps them within.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.written) }
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, n: usize) {
        debug_assert!(n <= self.bytes.len());
        self.written = n;
    }
}

/// Lends what `buffer` holds, and room for `len` bytes right behind it; what `fill` has written
/// there is held by `buffer` as well then. After an error `buffer` holds what it did before.
pub(super) fn fill_behind(
    buffer: &mut Vec<u8>,
    len: usize,
    fill: impl FnOnce(&[u8], &mut Room<'_>) -> Result<()>,
) -> Result<()> {
    buffer.reserve(len);
    let held_len = buffer.len();
    let start = buffer.as_mut_ptr();
    // SAFETY: the vector's allocation starts at `start`, holds `held_len` initialised bytes and has
    // space for `len` more, which may be uninitialised, right behind them. The two slices do not
    // overlap, and the vector is not touched while either is borrowed.
    let (held, bytes) = unsafe {
        (
            std::slice::from_raw_parts(start, held_len),
            std::slice::from_raw_parts_mut(start.add(held_len).cast::<MaybeUninit<u8>>(), len),
        )
    };
    let mut room = Room { bytes, written: 0 };
    fill(held, &mut room)?;
    let written = room.written;
    // SAFETY: that many bytes behind `held_len` were written; they lie within the `len` reserved.
    unsafe { buffer.set_len(held_len + written) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn write(room: &mut Room<'_>, bytes: &[u8]) {
        for (slot, byte) in room.bytes.iter_mut().zip(bytes) {
            slot.write(*byte);
        }
        // SAFETY: the loop has written them all, or the capacity was less and the test wrong.
        unsafe { room.filled_until(bytes.len()) };
    }

    /// Run under Miri as well: `cargo miri test -p ppc-engine room`.
    #[test]
    fn what_was_written_is_held_and_nothing_else() {
        let mut buffer = b"base".to_vec();
        fill_behind(&mut buffer, 1000, |held, room| {
            assert_eq!((held, room.capacity()), (&b"base"[..], 1000));
            write(room, held);
            assert_eq!(room.as_slice(), b"base");
            Ok(())
        })
        .unwrap();
        assert_eq!(buffer, b"basebase");
        let failed = fill_behind(&mut buffer, 8, |_, room| {
            write(room, b"torn");
            Err(Error::corruption("torn"))
        });
        assert!(failed.is_err());
        assert_eq!(buffer, b"basebase");
        fill_behind(&mut buffer, 0, |_, room| {
            assert!(room.as_slice().is_empty());
            Ok(())
        })
        .unwrap();
        assert_eq!(buffer, b"basebase");
    }
}
