//! Loading many contents at once, past the write-ahead log: contents and index entries enter one
//! bulk build, and are there together or not at all.

use bytes::Bytes;
use ppc_engine::{BulkLoader, BulkOptions, BulkPhase, BulkProgress, CancelToken};

use super::{Archive, write};
use crate::Result;
use crate::hash::Hashes;
use crate::key::PpcKey;
use crate::progress::{Observer, Phase, Progress, Wish};

/// How to load.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoaderOptions {
    /// Bytes the loader may hold in memory. Default 512 MiB.
    pub memory_bytes: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 512 << 20,
        }
    }
}

/// What a finished load brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkSummary {
    /// Contents.
    pub files: u64,
    /// Their bytes.
    pub raw_bytes: u64,
}

/// Takes contents in any order; [`finish`](Self::finish) commits them durably, dropping the loader
/// leaves nothing behind.
pub struct ContentLoader {
    archive: Archive,
    loader: BulkLoader,
    cancel: CancelToken,
    loaded: BulkSummary,
}

impl Archive {
    /// Begins a bulk load.
    ///
    /// The caller gives each content once, and none that is stored; while the load lasts nobody
    /// puts into the archive.
    pub fn loader(&self, options: &LoaderOptions) -> Result<ContentLoader> {
        let mut bulk = BulkOptions::default();
        bulk.memory_bytes = options.memory_bytes;
        let cancel = bulk.cancel.clone();
        Ok(ContentLoader {
            archive: self.clone(),
            loader: self.inner.db.bulk_loader(bulk)?,
            cancel,
            loaded: BulkSummary::default(),
        })
    }
}

impl ContentLoader {
    /// Adds a content; `hashes` must hold each kind that the archive indexes.
    pub fn put(&mut self, key: &PpcKey, hashes: &Hashes, content: Bytes) -> Result<()> {
        write::check_length(key.name(), content.len())?;
        let inner = &self.archive.inner;
        let encoded = key.encode();
        for index in &inner.indexes {
            if let Some((hash, value)) = index.entry(hashes, &encoded) {
                let value = Bytes::copy_from_slice(value);
                self.loader.put(index.keyspace(), &hash, value)?;
            }
        }
        self.loaded.files += 1;
        self.loaded.raw_bytes += content.len() as u64;
        self.loader.put(&inner.contents, &encoded, content)
    }

    /// Makes everything visible and durable at once, then merges what unsorted input fell into.
    ///
    /// An observer that wants to abandon is heard: before the commit nothing remains, after it only
    /// the merge is left to compaction.
    pub fn finish(self, observer: &dyn Observer) -> Result<BulkSummary> {
        let cancel = self.cancel;
        let files = self.loaded.files;
        self.loader.finish(&mut |done: BulkProgress| {
            let phase = match done.phase {
                BulkPhase::Merge => Phase::Merging,
                _ => Phase::Committing,
            };
            let mut progress = Progress::start(phase, Some(done.raw_bytes_total));
            progress.files = files;
            progress.bytes = done.raw_bytes;
            observer.progress(&progress);
            if observer.wish() == Wish::Abandon {
                cancel.cancel();
            }
        })?;
        Ok(self.loaded)
    }

    /// What was added so far.
    #[must_use]
    pub fn loaded(&self) -> BulkSummary {
        self.loaded
    }
}
