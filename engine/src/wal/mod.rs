//! The write-ahead log: every batch, in the order of its sequence numbers, before it is visible.
//!
//! Files are logs of the `log` module. A file's first record names its predecessors; each further
//! one is a batch:
//!
//! ```text
//! first record = count v | (number v | valid length v){count}
//! record       = first_seq 8 | count 4 | op{count}               see `batch`
//! ```
//!
//! Invariants:
//! 1. A file that was reopened is never appended to, and neither is one whose append failed or
//!    whose length was named as a predecessor's. One whose append failed is cut back to the batches
//!    before, if nobody may be reading it, and so is one whose sync failed.
//! 2. A file is durable up to the length that a successor names before that successor exists.
//!    Therefore bytes before it can be missing only by damage, and bytes after it (a torn tail that
//!    an earlier recovery cut, an append that failed) are no part of the log, however valid they
//!    look. [`Predecessor`] can only be had from the two functions that ensure this:
//!    [`WalWriter::finish`] and [`ReplayReport::predecessors`].
//! 3. Sequence numbers rise from batch to batch, over all files.
//!
//! One thread at a time writes; the engine's write queue sees to it.

mod batch;
mod replay;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use self::batch::{BatchEncoder, WalOp, decode_batch};
pub(crate) use self::replay::{ReplayReport, replay};
pub(crate) use self::writer::WalWriter;
use crate::coding::{Cursor, put_u32, put_u64, put_varint};
use crate::error::{Error, Result};
use crate::manifest::ClosedLog;
use crate::types::{FileNumber, SeqNo};

/// A file of the log that is complete and durable up to a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Predecessor {
    number: FileNumber,
    len: u64,
}

impl Predecessor {
    pub(crate) fn number(self) -> FileNumber {
        self.number
    }

    /// The same, for `CURRENT` to name.
    pub(crate) fn closed(self) -> ClosedLog {
        ClosedLog {
            number: self.number,
            len: self.len,
        }
    }
}

/// A record of a batch, ahead of its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchHeader {
    first_seq: SeqNo,
    count: u32,
}

impl BatchHeader {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        put_u64(&mut out, self.first_seq.0);
        put_u32(&mut out, self.count);
        out
    }

    fn take(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            first_seq: SeqNo(cursor.u64("first sequence number")?),
            count: cursor.u32("operation count")?,
        })
    }

    /// The last sequence number of a batch that begins after `previous`.
    fn last_seq(self, previous: SeqNo) -> Result<SeqNo> {
        let first = self.first_seq;
        if first <= previous {
            return Err(Error::corruption(format!(
                "sequence number {first} follows {previous}"
            )));
        }
        let last = first
            .0
            .saturating_add(u64::from(self.count).saturating_sub(1));
        if self.count == 0 || last > SeqNo::MAX.0 {
            let count = self.count;
            return Err(Error::corruption(format!(
                "batch of {count} operations at sequence number {first} is impossible"
            )));
        }
        Ok(SeqNo(last))
    }
}

fn encode_predecessors(predecessors: &[Predecessor]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, predecessors.len() as u64);
    for predecessor in predecessors {
        put_varint(&mut out, predecessor.number.0);
        put_varint(&mut out, predecessor.len);
    }
    out
}

fn decode_predecessors(payload: &[u8]) -> Result<Vec<Predecessor>> {
    let mut cursor = Cursor::new(payload);
    let count = cursor.varint("predecessor count")?;
    let mut predecessors = Vec::new();
    for _ in 0..count {
        predecessors.push(Predecessor {
            number: FileNumber(cursor.varint("predecessor number")?),
            len: cursor.varint("predecessor length")?,
        });
    }
    cursor.finish("predecessors")?;
    Ok(predecessors)
}
