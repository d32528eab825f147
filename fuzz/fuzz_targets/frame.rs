//! A zstd frame, decoded whole, in part, and as follower of a base.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_engine::fuzzing::tables;

fuzz_target!(|data: &[u8]| tables::frame(data));
