//! A table's properties and range tombstones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_engine::fuzzing::tables;

fuzz_target!(|data: &[u8]| {
    tables::properties(data);
    tables::range_tombstones(data);
});
