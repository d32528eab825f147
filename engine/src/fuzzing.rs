//! Entries for the fuzz targets: every decoder of bytes from disk, by itself and behind recomputed
//! checksums. Not part of the API.
//!
//! Random bytes never pass a checksum, so a target that only opened files would test the checksum
//! alone. Each function here takes what a checksum would have let through.

mod tables;

pub use tables::{
    filter, frame, frame_directory, header_and_footer, key_block, key_index, properties,
    range_tombstones, section_table, table, unit,
};
