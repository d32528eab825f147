//! Compression: one frame at a time, by contexts that each thread keeps.
//!
//! A zstd context takes a quarter of a megabyte and more to set up; made per call it would cost
//! more than small frames do. So each thread keeps one context for either direction and one
//! scratch buffer. Frames carry no magic, no checksum, no content size and no dictionary id: the
//! unit header around them (see `table::unit`) says all of it once.
//!
//! Invariants: (1) compression is a function of raw bytes and [`FrameCodec`] alone, on whatever
//! thread and after whatever other work; (2) decoding is total, and yields exactly the raw length
//! asked for or an error; (3) no reference to a dictionary or a base outlives the call it was made for.

mod dictionary;
mod pool;
mod zstd;

pub(crate) use dictionary::{Dictionary, train};
pub(crate) use pool::{CompressionPool, Job};
pub(crate) use zstd::{decode, decode_behind, decode_prefix, decode_with_base, with_scratch};

use std::sync::Arc;

use bytes::Bytes;

use self::zstd::Help;
use crate::error::Result;
use crate::options::Compression;
use crate::table::{BASE_ORDINAL_BYTES, UnitCodec};

/// A follower that takes no more than this share of its raw bytes is not compressed without its
/// base as well: source code alone takes more than that and an eighth.
const FOLLOWER_SURE_SHARE: usize = 6;

/// The frame whose raw bytes are the prefix of another.
#[derive(Debug, Clone)]
pub(crate) struct BaseFrame {
    pub(crate) ordinal: u32,
    pub(crate) bytes: Bytes,
}

/// How the frames of one table are compressed.
#[derive(Debug, Clone)]
pub(crate) struct FrameCodec {
    pub(crate) compression: Compression,
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

/// A frame's stored bytes and how they came to be.
#[derive(Debug, Clone)]
pub(crate) struct EncodedFrame {
    pub(crate) codec: UnitCodec,
    pub(crate) stored: Bytes,
    pub(crate) raw_len: u32,
}

impl FrameCodec {
    /// Compresses `raw`, or keeps it as it is where that saves less than an eighth.
    pub(crate) fn encode(&self, raw: Bytes) -> Result<EncodedFrame> {
        let raw_len = u32::try_from(raw.len())
            .map_err(|_| crate::error::Error::limit("frame exceeds 4 GiB"))?;
        let stored_max = raw.len() - raw.len() / 8;
        let dictionary = self.dictionary.as_deref();
        let compressed = match self.compression {
            Compression::None => None,
            Compression::Zstd { level } => {
                let help = dictionary.map_or(Help::None, Help::Dictionary);
                zstd::encode(&raw, level, help, &[], stored_max)?
            }
        };
        Ok(match compressed {
            Some(stored) => EncodedFrame {
                codec: match dictionary {
                    Some(_) => UnitCodec::ZstdDictionary,
                    None => UnitCodec::Zstd,
                },
                stored: stored.into(),
                raw_len,
            },
            None => EncodedFrame {
                codec: UnitCodec::Raw,
                stored: raw,
                raw_len,
            },
        })
    }

    /// Compresses `raw` with `base` as its prefix; without, where that is no more than an eighth
    /// longer. Whoever reads the frame then has one less to decode.
    pub(crate) fn encode_follower(&self, raw: Bytes, base: &BaseFrame) -> Result<EncodedFrame> {
        let Compression::Zstd { level } = self.compression else {
            return self.encode(raw);
        };
        let stored_max = raw.len() - raw.len() / 8;
        let Some(compressed_max) = stored_max.checked_sub(BASE_ORDINAL_BYTES) else {
            return self.encode(raw);
        };
        let head = base.ordinal.to_le_bytes();
        let help = Help::Base(&base.bytes);
        let Some(stored) = zstd::encode(&raw, level, help, &head, compressed_max)? else {
            return self.encode(raw);
        };
        let raw_len = u32::try_from(raw.len())
            .map_err(|_| crate::error::Error::limit("frame exceeds 4 GiB"))?;
        if stored.len() > raw.len() / FOLLOWER_SURE_SHARE {
            let alone = self.encode(raw)?;
            if alone.stored.len() - alone.stored.len() / 8 <= stored.len() {
                return Ok(alone);
            }
        }
        Ok(EncodedFrame {
            codec: UnitCodec::ZstdBase,
            stored: stored.into(),
            raw_len,
        })
    }
}

#[cfg(test)]
mod tests;
