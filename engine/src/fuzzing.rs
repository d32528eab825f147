//! The decoders of everything on disk, open to a fuzzer.
//!
//! Each function takes any bytes and must return: no panic, no allocation out of proportion, no
//! endless loop. Checksums would stop a fuzzer at the door, so the bytes are given to the decoders
//! behind them, or wrapped in units whose checksums are right.
//!
//! Not part of the crate's interface; behind the feature `fuzzing`.

pub mod tables;

use std::path::Path;
use std::sync::Arc;

use crate::dir::{CURRENT, FileKind, file_path};
use crate::log::{LogKind, LogWriter};
use crate::manifest::Manifest;
use crate::types::FileNumber;
use crate::vfs::{MemVfs, Vfs, durable_write, read_whole};
use crate::{Result, wal as log_files};

const DIR: &str = "/store";

/// Replays a write-ahead log whose records hold these bytes, and one that ends in them.
pub fn wal(bytes: &[u8]) {
    let _ = wal_records(bytes);
    let _ = wal_tail(bytes);
}

/// Recovers a manifest whose records hold these bytes. Whatever is accepted must survive being
/// written as a snapshot and read again.
///
/// # Panics
///
/// If it does not, which is a bug to be found.
pub fn manifest(bytes: &[u8]) {
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    if write_log(&*vfs, LogKind::Manifest, bytes).is_err() {
        return;
    }
    let Ok((mut manifest, state)) = Manifest::recover(&vfs, Path::new(DIR), false) else {
        return;
    };
    if manifest.append(&[]).is_err() {
        return;
    }
    let again = Manifest::recover(&vfs, Path::new(DIR), true);
    let keyspaces = again.map(|(_, again)| again.keyspaces);
    assert!(
        keyspaces.is_ok_and(|keyspaces| keyspaces == state.keyspaces),
        "a snapshot was not read back as it was written"
    );
}

fn wal_records(bytes: &[u8]) -> Result<()> {
    let vfs = MemVfs::new();
    write_log(&vfs, LogKind::Wal, bytes)?;
    replay(&vfs)
}

fn wal_tail(bytes: &[u8]) -> Result<()> {
    let vfs = MemVfs::new();
    write_log(&vfs, LogKind::Wal, &[1, 0, 0])?;
    let path = file_path(Path::new(DIR), FileKind::Wal, FileNumber(1));
    let mut log = read_whole(&vfs, &path)?;
    log.extend_from_slice(bytes);
    durable_write(&vfs, &path, &log)?;
    replay(&vfs)
}

fn replay(vfs: &MemVfs) -> Result<()> {
    log_files::replay(
        vfs,
        Path::new(DIR),
        &[FileNumber(1)],
        &[],
        &mut |_, payload| log_files::decode_batch(payload).try_for_each(|op| op.map(drop)),
    )?;
    Ok(())
}

/// Writes file 1 of a store as a log whose checksums are right. The bytes say how its records are
/// cut: two bytes of length, then that much payload.
fn write_log(vfs: &dyn Vfs, kind: LogKind, mut bytes: &[u8]) -> Result<()> {
    let dir = Path::new(DIR);
    let _ = vfs.create_dir_all(dir);
    let file_kind = match kind {
        LogKind::Manifest => FileKind::Manifest,
        LogKind::Wal => FileKind::Wal,
    };
    let number = FileNumber(1);
    let mut log = LogWriter::create(vfs, &file_path(dir, file_kind, number), kind, number)?;
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (payload, rest) = rest.split_at(len);
        log.push(&[payload])?;
        bytes = rest;
    }
    log.sync()?;
    durable_write(vfs, &dir.join(CURRENT), b"000001.manifest\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_hurt_the_log_decoders(records: Vec<Vec<u8>>) {
            let mut bytes = Vec::new();
            for record in &records {
                bytes.extend_from_slice(&(record.len() as u16).to_le_bytes());
                bytes.extend_from_slice(record);
            }
            super::wal(&bytes);
            super::manifest(&bytes);
        }
    }

    #[test]
    fn the_manifest_target_reaches_past_the_checksums() {
        // A store id and a sequence number: accepted, written as a snapshot, read again.
        super::manifest(&[12, 0, 10, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
        super::manifest(&[13, 0, 10, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 5]);
        super::wal(&[
            1, 0, 0, 15, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, b'k',
        ]);
    }
}
