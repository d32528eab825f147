//! The checksum of every unit on disk: CRC-32 (IEEE) over the unit's context, then its bytes.
//!
//! The context (what kind of unit, which file, which offset) makes a block that was moved, or
//! written to the wrong file, fail exactly like a block that rotted. RocksDB added the same in its
//! table format version 6, after years without.

use crate::error::{Error, Result};
use crate::types::FileId;

/// CRC-32 of `stored` as a unit of `kind` at `offset` of the file with `id`.
pub(crate) fn unit_checksum(kind: u8, id: FileId, offset: u64, stored: &[&[u8]]) -> u32 {
    let mut context = [0u8; 17];
    let (kind_byte, rest) = context.split_at_mut(1);
    let (id_bytes, offset_bytes) = rest.split_at_mut(8);
    kind_byte.copy_from_slice(&[kind]);
    id_bytes.copy_from_slice(&id.0.to_le_bytes());
    offset_bytes.copy_from_slice(&offset.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&context);
    for part in stored {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Fails with the offset unless the unit has the checksum `expected`.
pub(crate) fn check_unit(
    kind: u8,
    id: FileId,
    offset: u64,
    stored: &[&[u8]],
    expected: u32,
    what: &str,
) -> Result<()> {
    let actual = unit_checksum(kind, id, offset, stored);
    if actual == expected {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "{what} checksum mismatch: stored {expected:08x}, computed {actual:08x}"
    ))
    .at_offset(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_unit_fails_like_a_rotten_one() {
        let sum = unit_checksum(1, FileId(7), 100, &[b"ab", b"c"]);
        assert!(check_unit(1, FileId(7), 100, &[b"abc"], sum, "frame").is_ok());
        assert!(check_unit(1, FileId(7), 101, &[b"abc"], sum, "frame").is_err());
        assert!(check_unit(1, FileId(8), 100, &[b"abc"], sum, "frame").is_err());
        assert!(check_unit(2, FileId(7), 100, &[b"abc"], sum, "frame").is_err());
        assert!(check_unit(1, FileId(7), 100, &[b"abd"], sum, "frame").is_err());
    }
}
