//! Reads of a damaged log what is readable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::{LostPart, SalvageLoss};
use crate::db::{insert_op, keyspace_of};
use crate::dir::{FileKind, file_path};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::memtable::Memtable;
use crate::types::{FileNumber, KeyspaceId, SeqNo};
use crate::vfs::Vfs;
use crate::wal::{decode_batch, replay};

/// What the log holds that tables do not.
#[derive(Debug, Default)]
pub(super) struct SalvagedLog {
    pub(super) memtables: BTreeMap<KeyspaceId, Arc<Memtable>>,
    pub(super) writes: u64,
    pub(super) losses: Vec<SalvageLoss>,
}

/// Reads all files as one log, as an opening does. Where that fails, each by itself, up to the first
/// damage.
pub(super) fn read_log(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    files: &[FileNumber],
    wants: &mut dyn FnMut(KeyspaceId, SeqNo) -> bool,
) -> Result<SalvagedLog> {
    let mut whole = SalvagedLog::default();
    let closed = Manifest::logs_by_current(&**vfs, dir);
    let replayed = replay(&**vfs, dir, files, &closed, &mut |first, payload| {
        whole.apply(first, payload, wants)
    });
    if replayed.is_ok() {
        return Ok(whole);
    }
    let mut parts = SalvagedLog::default();
    for &number in files {
        let replayed = replay(&**vfs, dir, &[number], &[], &mut |first, payload| {
            parts.apply(first, payload, wants)
        });
        if let Err(error) = replayed {
            parts.losses.push(SalvageLoss {
                path: file_path(dir, FileKind::Wal, number),
                keyspace: None,
                part: LostPart::Log(error),
            });
        }
    }
    if let (true, Err(error)) = (parts.losses.is_empty(), replayed) {
        // Each is sound by itself: what is lost is a file, or a part that a later one vouches for.
        parts.losses.push(SalvageLoss {
            path: error.path().unwrap_or(dir).to_path_buf(),
            keyspace: None,
            part: LostPart::Log(error),
        });
    }
    Ok(parts)
}

impl SalvagedLog {
    fn apply(
        &mut self,
        first: SeqNo,
        payload: &[u8],
        wants: &mut dyn FnMut(KeyspaceId, SeqNo) -> bool,
    ) -> Result<()> {
        let payload = Bytes::copy_from_slice(payload);
        for (seq, op) in (first.0..).map(SeqNo).zip(decode_batch(&payload)) {
            let op = op?;
            let id = keyspace_of(&op);
            if wants(id, seq) {
                insert_op(self.memtables.entry(id).or_default(), &op, seq, &payload);
                self.writes += 1;
            }
        }
        Ok(())
    }
}
