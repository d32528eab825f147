//! The manifest: edits, recovery and snapshots.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ppc_engine::fuzzing::manifest(data));
