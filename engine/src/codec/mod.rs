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

mod decode;
mod dictionary;
mod pool;
mod room;
mod zstd;

pub(crate) use decode::{Prefix, decode_onto, decode_prefix, with_scratch};
pub(crate) use dictionary::{Dictionary, train, train_once};
pub(crate) use pool::{CompressionPool, Job};

use std::sync::Arc;

use bytes::Bytes;

use self::zstd::{FarMatches, Help};
use crate::error::Result;
use crate::options::{ClusterOptions, Compression, Layout, TableOptions};
use crate::table::{BASE_ORDINAL_BYTES, UnitCodec};

/// The frame whose raw bytes are the prefix of another.
#[derive(Debug, Clone)]
pub(crate) struct BaseFrame {
    pub(crate) ordinal: u32,
    pub(crate) bytes: Bytes,
    /// Raw bytes that are decoded before a follower: its own, and those of the bases before it.
    pub(crate) decoded_bytes: u64,
}

/// How the frames of one table are compressed.
#[derive(Debug, Clone)]
pub(crate) struct FrameCodec {
    pub(crate) compression: Compression,
    pub(crate) followers: FollowerCodec,
    pub(crate) large: LargeCodec,
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

/// How frames that have a base are compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FollowerCodec {
    /// Never above the level of other frames.
    level_max: i32,
    /// Share of its raw bytes above which a frame is compressed without its base as well.
    doubt_per_mille: u64,
    /// Stored bytes that a base must save for each 2000 bytes that are decoded for it; else the
    /// frame does without. Half of what was asked for when it was chosen: by then it was a guess.
    saved_bytes_per_2000_decoded: u32,
    /// Bytes of base and frame from which on far matches are looked for.
    far_bytes_min: usize,
    far_matches: FarMatches,
}

impl FollowerCodec {
    fn new(options: &ClusterOptions) -> Self {
        Self {
            level_max: options.follower_level,
            doubt_per_mille: options.doubt_per_mille.into(),
            saved_bytes_per_2000_decoded: options.saved_bytes_per_1000_decoded,
            far_bytes_min: options.long_distance_bytes as usize,
            far_matches: FarMatches::of_at_least(options.long_distance_match_bytes),
        }
    }

    fn help<'a>(&self, base: &'a BaseFrame, raw_len: usize) -> Help<'a> {
        let is_far = base.bytes.len().saturating_add(raw_len) >= self.far_bytes_min;
        Help::Base(&base.bytes, is_far.then_some(self.far_matches))
    }

    fn is_in_doubt(&self, raw_len: usize, stored_len: usize) -> bool {
        stored_len as u64 * 1000 > raw_len as u64 * self.doubt_per_mille
    }

    /// Whether a frame that takes `with` bytes with its base had better take `without`.
    fn does_without(&self, base: &BaseFrame, with: usize, without: usize) -> bool {
        let due = base.decoded_bytes * u64::from(self.saved_bytes_per_2000_decoded) / 2000;
        without as u64 <= (with as u64).saturating_add(due)
    }
}

/// A frame's stored bytes and how they came to be.
#[derive(Debug, Clone)]
pub(crate) struct EncodedFrame {
    pub(crate) codec: UnitCodec,
    pub(crate) stored: Bytes,
    pub(crate) raw_len: u32,
}

/// How long frames without a base are compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargeCodec {
    bytes_min: usize,
    levels_up: u32,
}

impl LargeCodec {
    /// The level, in a table of `level`. 0 is not one of zstd's.
    fn level(&self, level: i32) -> i32 {
        const LEVEL_MAX: i32 = 22;
        match level.saturating_add_unsigned(self.levels_up).min(LEVEL_MAX) {
            0 => 1,
            level => level,
        }
    }
}

impl FrameCodec {
    /// As the options say, without a dictionary yet.
    pub(crate) fn new(options: &TableOptions) -> Self {
        let (clusters, large_bytes_min) = match options.layout {
            Layout::Clustered(clusters) => (clusters, clusters.large_value_bytes as usize),
            Layout::Blocks { .. } => (ClusterOptions::default(), usize::MAX),
        };
        Self {
            compression: options.compression,
            followers: FollowerCodec::new(&clusters),
            large: LargeCodec {
                bytes_min: large_bytes_min,
                levels_up: clusters.large_value_levels_up,
            },
            dictionary: None,
        }
    }

    /// Compresses `raw`, or keeps it as it is where that saves less than an eighth.
    pub(crate) fn encode(&self, raw: Bytes) -> Result<EncodedFrame> {
        let raw_len = u32::try_from(raw.len())
            .map_err(|_| crate::error::Error::limit("frame exceeds 4 GiB"))?;
        let stored_max = raw.len() - raw.len() / 8;
        let is_large = raw.len() >= self.large.bytes_min;
        let dictionary = self.dictionary.as_deref().filter(|_| !is_large);
        let compressed = match self.compression {
            Compression::None => None,
            Compression::Zstd { level } => {
                let level = if is_large {
                    self.large.level(level)
                } else {
                    level
                };
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

    /// Compresses `raw` with `base` as its prefix; without, where the base saves too little for what
    /// it costs to decode.
    pub(crate) fn encode_follower(&self, raw: Bytes, base: &BaseFrame) -> Result<EncodedFrame> {
        let Compression::Zstd { level } = self.compression else {
            return self.encode(raw);
        };
        let stored_max = raw.len() - raw.len() / 8;
        let Some(compressed_max) = stored_max.checked_sub(BASE_ORDINAL_BYTES) else {
            return self.encode(raw);
        };
        let head = base.ordinal.to_le_bytes();
        let help = self.followers.help(base, raw.len());
        let level = level.min(self.followers.level_max);
        let Some(stored) = zstd::encode(&raw, level, help, &head, compressed_max)? else {
            return self.encode(raw);
        };
        let raw_len = u32::try_from(raw.len())
            .map_err(|_| crate::error::Error::limit("frame exceeds 4 GiB"))?;
        if self.followers.is_in_doubt(raw.len(), stored.len()) {
            let alone = self.encode(raw)?;
            let lens = (stored.len(), alone.stored.len());
            if self.followers.does_without(base, lens.0, lens.1) {
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
