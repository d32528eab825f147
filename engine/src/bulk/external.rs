//! Table files written anywhere, by any process, for [`Db::ingest`](crate::Db::ingest).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::CompressionPool;
use crate::error::Result;
use crate::options::TableOptions;
use crate::table::TableWriter;
use crate::types::{EntryKind, SeqNo};
use crate::vfs::{DiskVfs, Vfs};

/// Writes one table file outside any store.
///
/// Keys ascend strictly. Dropped before [`ExternalTableWriter::finish`], it removes its file.
pub struct ExternalTableWriter {
    path: PathBuf,
    writer: TableWriter,
}

/// A table file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalTable {
    /// Where it lies.
    pub path: PathBuf,
    /// Entries in it.
    pub entries: u64,
    /// Raw bytes of keys and values.
    pub raw_bytes: u64,
    /// Length of the file.
    pub stored_bytes: u64,
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
}

impl ExternalTableWriter {
    /// Creates the file, which must not exist, on the disk. `compression_threads` compress beside
    /// the caller; 1 means that the caller does it alone.
    pub fn create(
        path: impl AsRef<Path>,
        options: &TableOptions,
        compression_threads: usize,
    ) -> Result<Self> {
        Self::create_in(Arc::new(DiskVfs), path, options, compression_threads)
    }

    /// As [`ExternalTableWriter::create`], in any file system.
    pub fn create_in(
        vfs: Arc<dyn Vfs>,
        path: impl AsRef<Path>,
        options: &TableOptions,
        compression_threads: usize,
    ) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let pool = CompressionPool::new(compression_threads.max(1));
        let mut writer = TableWriter::create(&vfs, path.clone(), options, &pool)?;
        writer.set_outside_history();
        Ok(Self { path, writer })
    }

    /// Adds the next entry. Fails, naming both keys, unless `key` is greater than the one before.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: Bytes) -> Result<()> {
        self.writer
            .add(key.as_ref(), SeqNo::ZERO, EntryKind::Put, value)
    }

    /// Raw bytes of keys and values added so far.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.writer.raw_bytes()
    }

    /// Completes the file and syncs it.
    pub fn finish(self) -> Result<ExternalTable> {
        let summary = self.writer.finish()?;
        Ok(ExternalTable {
            path: self.path,
            entries: summary.entries,
            raw_bytes: summary.raw_bytes,
            stored_bytes: summary.stored_bytes,
            smallest: summary.smallest,
            largest: summary.largest,
        })
    }
}

impl std::fmt::Debug for ExternalTableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalTableWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
