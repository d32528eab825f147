//! The write-ahead log: records and a torn tail.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ppc_engine::fuzzing::wal(data));
