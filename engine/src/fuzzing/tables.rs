//! Decoders of table files.

use std::path::Path;

use crate::codec::{Prefix, decode_onto, decode_prefix};
use crate::table::fuzzing::{self, repair_checksums};
use crate::types::SeqNo;
use crate::vfs::{MemVfs, Vfs};

pub use fuzzing::{
    filter, frame_directory, header_and_footer, key_block, key_index, properties, range_tombstones,
    section_table, unit,
};

/// A zstd frame, decoded whole, in part, and as follower of a base.
pub fn frame(data: &[u8]) {
    let Some((lens, stored)) = data.split_first_chunk::<4>() else {
        return;
    };
    let [a, b, c, d] = *lens;
    let raw_len = usize::from(u16::from_le_bytes([a, b])) * 8;
    let needed = usize::from(u16::from_le_bytes([c, d])) * 8;
    let mut out = Vec::new();
    let _ = decode_onto(stored, raw_len, Prefix::None, &mut out);
    let _ = decode_prefix(stored, raw_len, needed.min(raw_len), None, &mut out);
    let (base, compressed) = stored.split_at(needed.min(stored.len()));
    out.clear();
    let elsewhere = decode_onto(compressed, raw_len, Prefix::Elsewhere(base), &mut out);
    let mut beside = base.to_vec();
    let behind = decode_onto(compressed, raw_len, Prefix::Behind(0), &mut beside);
    assert_eq!(elsewhere.is_ok(), behind.is_ok());
    if behind.is_ok() {
        assert_eq!(beside.get(base.len()..), Some(out.as_slice()));
    }
}

/// A whole table file, its checksums made right where its structure can be made out: opened both
/// ways, walked, searched, verified and salvaged.
pub fn table(data: &[u8]) {
    let mut bytes = data.to_vec();
    repair_checksums(&mut bytes);
    let vfs = MemVfs::new();
    let path = Path::new("t/000001.table");
    let written = vfs
        .create_dir_all(Path::new("t"))
        .and_then(|()| vfs.create(path))
        .and_then(|mut file| file.append(&bytes));
    if written.is_ok() {
        fuzzing::read_everything(&vfs, path, SeqNo::ZERO);
    }
}
