//! A batch as the bytes that one log record carries.
//!
//! ```text
//! batch = op*
//! op    = 1 keyspace v | key bytes | value bytes      put
//!       | 2 keyspace v | key bytes                    delete
//!       | 3 keyspace v | start bytes | end bytes      delete range, end exclusive
//!       | 4 keyspace v | start bytes                  delete range to the keyspace's end
//! ```
//!
//! `v` is a varint, `bytes` a varint length and that many bytes. The n-th operation has the
//! batch's first sequence number plus n.

use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{BATCH_BYTES_MAX, KEY_BYTES_MAX, KeyspaceId, VALUE_BYTES_MAX};

const OP_PUT: u8 = 1;
const OP_DELETE: u8 = 2;
const OP_DELETE_RANGE: u8 = 3;
const OP_DELETE_RANGE_TO_END: u8 = 4;

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalOp<'a> {
    Put {
        keyspace: KeyspaceId,
        key: &'a [u8],
        value: &'a [u8],
    },
    Delete {
        keyspace: KeyspaceId,
        key: &'a [u8],
    },
    DeleteRange {
        keyspace: KeyspaceId,
        start: &'a [u8],
        /// Exclusive; none reaches to the keyspace's end.
        end: Option<&'a [u8]>,
    },
}

/// Builds a batch's bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchEncoder {
    payload: Vec<u8>,
    count: u32,
    user_bytes: usize,
}

impl BatchEncoder {
    /// Adds an operation. On an error, which names the limit, the batch is as it was.
    pub(crate) fn push(&mut self, op: &WalOp<'_>) -> Result<()> {
        let op_bytes = check_limits(op)?;
        let user_bytes = self.user_bytes + op_bytes;
        let count = self.count.checked_add(1);
        let (Some(count), true) = (count, user_bytes <= BATCH_BYTES_MAX) else {
            return Err(Error::limit(format!(
                "batch of {user_bytes} bytes exceeds the limit of {BATCH_BYTES_MAX}"
            ))
            .with_remedy("split the batch"));
        };
        self.encode(op);
        self.count = count;
        self.user_bytes = user_bytes;
        Ok(())
    }

    /// The encoded operations, which [`decode_batch`] reads.
    pub(crate) fn into_payload(self) -> Vec<u8> {
        self.payload
    }

    /// Number of operations, and of sequence numbers that the batch takes.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of keys and values.
    pub(crate) fn user_bytes(&self) -> usize {
        self.user_bytes
    }

    fn encode(&mut self, op: &WalOp<'_>) {
        let out = &mut self.payload;
        let mut start = |tag: u8, keyspace: KeyspaceId| {
            out.push(tag);
            put_varint(out, u64::from(keyspace.0));
        };
        match *op {
            WalOp::Put {
                keyspace,
                key,
                value,
            } => {
                start(OP_PUT, keyspace);
                put_bytes(out, key);
                put_bytes(out, value);
            }
            WalOp::Delete { keyspace, key } => {
                start(OP_DELETE, keyspace);
                put_bytes(out, key);
            }
            WalOp::DeleteRange {
                keyspace,
                start: first,
                end: Some(end),
            } => {
                start(OP_DELETE_RANGE, keyspace);
                put_bytes(out, first);
                put_bytes(out, end);
            }
            WalOp::DeleteRange {
                keyspace,
                start: first,
                end: None,
            } => {
                start(OP_DELETE_RANGE_TO_END, keyspace);
                put_bytes(out, first);
            }
        }
    }
}

/// Bytes of the operation's keys and value, if each is within its limit.
fn check_limits(op: &WalOp<'_>) -> Result<usize> {
    let within = |what: &str, len: usize, max: usize| {
        if len <= max {
            return Ok(len);
        }
        Err(Error::limit(format!(
            "{what} of {len} bytes exceeds the limit of {max}"
        )))
    };
    match *op {
        WalOp::Put { key, value, .. } => {
            let key = within("key", key.len(), KEY_BYTES_MAX)?;
            Ok(key + within("value", value.len(), VALUE_BYTES_MAX)?)
        }
        WalOp::Delete { key, .. } => within("key", key.len(), KEY_BYTES_MAX),
        WalOp::DeleteRange { start, end, .. } => {
            let start = within("range start", start.len(), KEY_BYTES_MAX)?;
            Ok(start + within("range end", end.map_or(0, <[u8]>::len), KEY_BYTES_MAX)?)
        }
    }
}

/// The operations of a batch, in order. After an error there are no more.
pub(crate) fn decode_batch(payload: &[u8]) -> BatchOps<'_> {
    BatchOps {
        cursor: Cursor::new(payload),
        failed: false,
    }
}

/// Iterator of [`decode_batch`].
#[derive(Debug, Clone)]
pub(crate) struct BatchOps<'a> {
    cursor: Cursor<'a>,
    failed: bool,
}

impl<'a> Iterator for BatchOps<'a> {
    type Item = Result<WalOp<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.cursor.is_empty() {
            return None;
        }
        let op = take_op(&mut self.cursor);
        self.failed = op.is_err();
        Some(op)
    }
}

fn take_op<'a>(cursor: &mut Cursor<'a>) -> Result<WalOp<'a>> {
    let tag = cursor.u8("operation")?;
    let keyspace = KeyspaceId(cursor.varint_u32("keyspace id")?);
    let op = match tag {
        OP_PUT => WalOp::Put {
            keyspace,
            key: cursor.bytes("key")?,
            value: cursor.bytes("value")?,
        },
        OP_DELETE => WalOp::Delete {
            keyspace,
            key: cursor.bytes("key")?,
        },
        OP_DELETE_RANGE => WalOp::DeleteRange {
            keyspace,
            start: cursor.bytes("range start")?,
            end: Some(cursor.bytes("range end")?),
        },
        OP_DELETE_RANGE_TO_END => WalOp::DeleteRange {
            keyspace,
            start: cursor.bytes("range start")?,
            end: None,
        },
        unknown => {
            let message = format!("log operation {unknown} is not known to this build");
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_remedy("open the store with the release that wrote it, or a newer one"));
        }
    };
    check_limits(&op).map_err(|error| Error::corruption(error.message()))?;
    Ok(op)
}
