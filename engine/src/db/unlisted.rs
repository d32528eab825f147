//! Tables in the store's directory that are not in the store.

use std::path::PathBuf;

use super::handle::Db;
use crate::dir::{FileKind, file_path, list_files};
use crate::error::Result;
use crate::manifest::unlisted_tables;

/// A table file in a store's directory that the manifest does not list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnlistedTable {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Whether it may have been part of the store: the manifest may have lost its end, since
    /// `CURRENT` does not say how long it was, or did not when the table was set aside. Otherwise it
    /// is work in progress, or a file that the writer will remove.
    pub may_be_lost: bool,
}

impl Db {
    /// Table files in the directory that are not part of the store, by file number; those that were
    /// set aside, as `NNNNNN.table.lost`, come last.
    ///
    /// With a writer at work, in this process or another, the tables that it writes or is about to
    /// remove are among them.
    pub fn unlisted_tables(&self) -> Result<Vec<UnlistedTable>> {
        let db = self.inner();
        db.check_open()?;
        // First: what was listed by then is in the state, unless it was taken out again.
        let files = list_files(&**db.vfs(), db.dir())?;
        let manifest = db.manifest.lock();
        let may_have_lost_its_end = !manifest.has_witness();
        let unlisted = unlisted_tables(&files, manifest.state());
        drop(manifest);
        let describe = |file: &crate::dir::StoreFile| UnlistedTable {
            path: file_path(db.dir(), file.kind, file.number),
            bytes: file.len,
            may_be_lost: may_have_lost_its_end || file.kind == FileKind::SetAside,
        };
        Ok(unlisted.iter().map(describe).collect())
    }
}
