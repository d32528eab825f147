//! A table's key index.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_engine::fuzzing::tables;

fuzz_target!(|data: &[u8]| tables::key_index(data));
