//! A whole table file: opened both ways, walked, searched, verified and salvaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_engine::fuzzing::tables;

fuzz_target!(|data: &[u8]| tables::table(data));
