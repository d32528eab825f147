//! A table's header, footer and section table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_engine::fuzzing::tables;

fuzz_target!(|data: &[u8]| {
    tables::header_and_footer(data);
    tables::section_table(data);
});
