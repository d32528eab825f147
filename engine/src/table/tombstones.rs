//! The range tombstones section: `start │ has end u8 │ [end] │ seq`, one after another.

use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::iter::RangeTombstone;
use crate::types::{KEY_BYTES_MAX, SeqNo};

/// Encodes the section; sequence numbers as stored, before the table's base.
pub(crate) fn encode_tombstones(tombstones: &[RangeTombstone]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tombstone in tombstones {
        put_bytes(&mut bytes, &tombstone.start);
        match &tombstone.end {
            Some(end) => {
                bytes.push(1);
                put_bytes(&mut bytes, end);
            }
            None => bytes.push(0),
        }
        put_varint(&mut bytes, tombstone.seq.0);
    }
    bytes
}

/// Decodes the section, adding the table's base to each sequence number.
pub(crate) fn decode_tombstones(bytes: &[u8], seq_base: SeqNo) -> Result<Vec<RangeTombstone>> {
    let mut tombstones = Vec::new();
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        let start = cursor.bytes("range tombstone start")?.to_vec();
        let end = match cursor.u8("range tombstone end flag")? {
            0 => None,
            1 => Some(cursor.bytes("range tombstone end")?.to_vec()),
            other => {
                return Err(Error::corruption(format!(
                    "range tombstone end flag is {other}"
                )));
            }
        };
        let stored = cursor.varint("range tombstone sequence number")?;
        let longest = start.len().max(end.as_ref().map_or(0, Vec::len));
        let seq = stored
            .checked_add(seq_base.0)
            .filter(|&seq| seq <= SeqNo::MAX.0 && longest <= KEY_BYTES_MAX + 1)
            .ok_or_else(|| Error::corruption("range tombstone is out of range"))?;
        tombstones.push(RangeTombstone {
            start,
            end,
            seq: SeqNo(seq),
        });
    }
    Ok(tombstones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tombstones_round_trip(
            raw in prop::collection::vec(
                (any::<Vec<u8>>(), any::<Option<Vec<u8>>>(), 0..1u64 << 50), 0..10),
            base in 0..1u64 << 50,
        ) {
            let tombstones: Vec<_> = raw
                .into_iter()
                .map(|(start, end, seq)| RangeTombstone { start, end, seq: SeqNo(seq) })
                .collect();
            let bytes = encode_tombstones(&tombstones);
            let decoded = decode_tombstones(&bytes, SeqNo(base)).unwrap();
            prop_assert_eq!(decoded.len(), tombstones.len());
            for (got, want) in decoded.iter().zip(&tombstones) {
                prop_assert_eq!((&got.start, &got.end), (&want.start, &want.end));
                prop_assert_eq!(got.seq.0, want.seq.0 + base);
            }
        }

        #[test]
        fn no_bytes_make_tombstones_panic(bytes: Vec<u8>) {
            let _ = decode_tombstones(&bytes, SeqNo(1));
        }
    }
}
