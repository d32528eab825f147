//! Tables in the directory that the manifest does not list: work that was never finished, or tables
//! whose removal was not, or what is left of a store whose manifest lost its end.
//!
//! Where `CURRENT` bears witness to the manifest's length, they are one of the first two, and the
//! next writer removes them. Without that witness nobody can tell, so a writer renames them to
//! `NNNNNN.table.lost` before it changes anything else. Nothing of ours removes those; salvage
//! reads them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::state::ManifestState;
use crate::dir::{FileKind, READERS, StoreFile, file_path};
use crate::error::{Error, ErrorKind, Result};
use crate::types::FileNumber;
use crate::vfs::{LockKind, Vfs};

/// Those of `files` that hold tables which `state` does not list, ascending; those that were set
/// aside come last.
pub(crate) fn unlisted_tables(files: &[StoreFile], state: &ManifestState) -> Vec<StoreFile> {
    let listed: HashSet<FileNumber> = state.table_numbers().collect();
    let is_unlisted = |file: &&StoreFile| match file.kind {
        FileKind::Table => !listed.contains(&file.number),
        FileKind::SetAside => true,
        FileKind::Manifest | FileKind::Wal => false,
    };
    files.iter().filter(is_unlisted).copied().collect()
}

/// Fails if the store is one in which no keyspace was ever created, and has tables all the same:
/// a keyspace is in the manifest before its first table is begun. Left alone, the store would pass
/// for a new one. `files` must have been listed before the manifest was read.
pub(super) fn check_origin(dir: &Path, files: &[StoreFile], state: &ManifestState) -> Result<()> {
    if state.next_keyspace > 0 {
        return Ok(());
    }
    let unlisted = unlisted_tables(files, state);
    let Some(table) = unlisted.first() else {
        return Ok(());
    };
    let path = file_path(dir, table.kind, table.number);
    Err(lost_end("there is a table, and the manifest knows of no keyspace").at_path(&path))
}

/// The error about what shows that the manifest was longer once.
pub(crate) fn lost_end(what: &str) -> Error {
    Error::corruption(format!("{what}: the manifest has lost its end"))
        .with_remedy("restore the manifest from a copy, or run salvage to keep what is readable")
}

/// Renames tables that `state` does not list, so that no writer removes them.
pub(super) fn set_aside(
    vfs: &dyn Vfs,
    dir: &Path,
    files: &[StoreFile],
    state: &ManifestState,
) -> Result<()> {
    let mut tables = unlisted_tables(files, state);
    tables.retain(|file| file.kind == FileKind::Table);
    if tables.is_empty() {
        return Ok(());
    }
    // A reader of an older state may be about to open one.
    let readers = dir.join(READERS);
    let lock = vfs.lock(&readers, LockKind::Exclusive);
    let _alone = lock
        .map_err(|error| Error::io("lock", &readers, error))?
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Locked,
                "there are tables to set aside, and the store is open for reading elsewhere",
            )
            .at_path(dir)
            .with_remedy("close it there first; this is needed once")
        })?;
    for table in tables {
        // No table was ever set aside under this number: both names take it for used.
        let (from, to) = rename_paths(dir, table.number);
        vfs.rename(&from, &to)
            .map_err(|error| Error::io("rename", &from, error))?;
        tracing::warn!(
            path = %to.display(),
            "set aside a table that the manifest does not list; without a length in CURRENT it is \
             not known whether the manifest lost it"
        );
    }
    vfs.sync_dir(dir)
        .map_err(|error| Error::io("sync directory", dir, error))
}

fn rename_paths(dir: &Path, number: FileNumber) -> (PathBuf, PathBuf) {
    let from = file_path(dir, FileKind::Table, number);
    (from, file_path(dir, FileKind::SetAside, number))
}
