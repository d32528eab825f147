//! The keys of a table being written, held until the places of their values are known.
//!
//! Entries are kept as they arrive, prefix-compressed against the one before, in one growing
//! buffer: a layout may decide where a value goes long after its key came by. In memory only, so
//! its bytes are trusted; reading them back still goes through the bounds-checked cursor.
//!
//! ```text
//! kind and place u8 │ shared │ suffix length │ suffix │ seq │ [inline length │ inline value]
//! ```

use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::types::{EntryKind, SeqNo};

use super::key_block::shared_prefix;

const INLINE: u8 = 0x80;

/// The spool.
#[derive(Debug, Default)]
pub(crate) struct KeySpool {
    bytes: Vec<u8>,
    last_key: Vec<u8>,
    last_seq: SeqNo,
    count: u64,
}

/// A spooled entry's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpooledValue<'a> {
    /// To sit in the key block; empty for deletes.
    Inline(&'a [u8]),
    /// The next of the values given to the layout, in the order they were given.
    Placed,
}

impl KeySpool {
    /// Appends an entry.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        value: SpooledValue<'_>,
    ) {
        let shared = shared_prefix(&self.last_key, key);
        let suffix = key.get(shared..).unwrap_or_default();
        let inline = matches!(value, SpooledValue::Inline(_));
        self.bytes
            .push(kind as u8 | if inline { INLINE } else { 0 });
        put_varint(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, suffix);
        put_varint(&mut self.bytes, seq.0);
        if let SpooledValue::Inline(value) = value {
            put_bytes(&mut self.bytes, value);
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.last_seq = seq;
        self.count += 1;
    }

    /// The last entry's key and sequence number.
    pub(crate) fn last(&self) -> Option<(&[u8], SeqNo)> {
        (self.count > 0).then_some((self.last_key.as_slice(), self.last_seq))
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.last_key.capacity()
    }

    /// Hands the entries out in order.
    pub(crate) fn replay(
        &self,
        mut each: impl FnMut(&[u8], SeqNo, EntryKind, SpooledValue<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = Cursor::new(&self.bytes);
        let mut key = Vec::with_capacity(256);
        while !cursor.is_empty() {
            let tag = cursor.u8("spooled tag")?;
            let kind = EntryKind::from_code(tag & !INLINE)
                .ok_or_else(|| Error::corruption("spooled entry of unknown kind"))?;
            key.truncate(cursor.varint_u32("spooled shared length")? as usize);
            key.extend_from_slice(cursor.bytes("spooled key")?);
            let seq = SeqNo(cursor.varint("spooled sequence number")?);
            let value = match tag & INLINE {
                0 => SpooledValue::Placed,
                _ => SpooledValue::Inline(cursor.bytes("spooled value")?),
            };
            each(&key, seq, kind, value)?;
        }
        Ok(())
    }
}
