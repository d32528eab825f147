//! What runs cost, about: for the plan's estimate and the time left, never for a result.

use crate::peers::{Codec, StoreSpec};
use crate::results::Load;

/// Bytes a second, per thread, of compression on one core of a small server.
fn compression_rate(codec: Codec) -> f64 {
    let mib = match codec {
        Codec::None => 500.0,
        Codec::Snappy | Codec::Lz4 => 300.0,
        Codec::Zlib(level) if level < 6 => 60.0,
        Codec::Zlib(_) => 35.0,
        Codec::Zstd(level) => match level {
            ..=2 => 250.0,
            3 => 180.0,
            4..=5 => 100.0,
            6 => 65.0,
            7..=9 => 45.0,
            10..=12 => 20.0,
            13..=15 => 8.0,
            _ => 3.0,
        },
    };
    mib * f64::from(1 << 20)
}

/// Bytes a second through log, memtable and flush, on one thread.
const PUT_RATE: f64 = 250.0 * (1 << 20) as f64;
/// Bytes a second of an untimed pass over all keys.
const CHECK_RATE: f64 = 250.0 * (1 << 20) as f64;

/// Seconds of a build.
pub(super) fn build_seconds(spec: &StoreSpec, raw_bytes: u64, threads: u32) -> f64 {
    let bytes = raw_bytes as f64;
    let threads = if spec.peer == "zip" { 1 } else { threads };
    let passes = match spec.load {
        Load::Sorted | Load::Puts => 1.0,
        Load::Shuffled | Load::ShuffledPuts => 2.0,
    };
    let compression = bytes * passes / compression_rate(spec.codec) / f64::from(threads.max(1));
    let putting = match spec.load {
        Load::Puts | Load::ShuffledPuts => bytes / PUT_RATE,
        Load::Sorted | Load::Shuffled => 0.0,
    };
    compression + putting
}

/// Seconds of the untimed pass that checks every answer.
pub(super) fn check_seconds(raw_bytes: u64) -> f64 {
    raw_bytes as f64 / CHECK_RATE
}
