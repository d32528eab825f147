//! What an archive holds, by extension and by tree level.

use ppc_engine::{DbStats, IterOptions, KeyRange};

use super::{Archive, CONTENTS};
use crate::key::{PpcKey, prefix_of_ext};
use crate::progress::{Observer, Phase, Progress, Wish};
use crate::{Error, ErrorKind, Result};

/// Keys between two reports of progress.
const PROGRESS_KEYS: u64 = 4096;

/// What an archive holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ArchiveStats {
    /// Contents.
    pub files: u64,
    /// Stored bytes of the contents' tables.
    pub content_stored_bytes: u64,
    /// Stored bytes of the tables of all indexes.
    pub index_stored_bytes: u64,
    /// By extension, the one with most bytes first.
    pub extensions: Vec<ExtensionStats>,
    /// Everything the engine tells.
    pub engine: DbStats,
}

/// The contents with one extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionStats {
    /// The extension; empty for names without one.
    pub ext: Vec<u8>,
    /// Contents.
    pub files: u64,
    /// Their bytes.
    pub raw_bytes: u64,
    /// Stored bytes, estimated from the tables' directories.
    pub stored_bytes: u64,
}

impl ArchiveStats {
    /// Bytes of all contents.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.extensions.iter().map(|it| it.raw_bytes).sum()
    }

    /// Stored bytes of all tables.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.content_stored_bytes + self.index_stored_bytes
    }
}

impl Archive {
    /// Counts what the archive holds: walks all keys, and reads no content.
    pub fn stats(&self, observer: &dyn Observer) -> Result<ArchiveStats> {
        let extensions = self.extensions(observer)?;
        let engine = self.inner.db.stats();
        let (content_stored_bytes, index_stored_bytes) = stored_bytes(&engine);
        Ok(ArchiveStats {
            files: extensions.iter().map(|it| it.files).sum(),
            content_stored_bytes,
            index_stored_bytes,
            extensions,
            engine,
        })
    }

    fn extensions(&self, observer: &dyn Observer) -> Result<Vec<ExtensionStats>> {
        let contents = &self.inner.contents;
        let mut entries = contents.iter(KeyRange::all(), IterOptions::keys_only())?;
        let mut extensions: Vec<ExtensionStats> = Vec::new();
        let mut progress = Progress::start(Phase::Counting, None);
        while let Some(entry) = entries.next() {
            let (key, _) = entry?;
            let key = PpcKey::decode(&key)?;
            let bytes = entries.value_len() as u64;
            progress.files += 1;
            progress.bytes += bytes;
            // Keys of one extension stand together.
            match extensions.last_mut() {
                Some(last) if last.ext == key.ext() => {
                    last.files += 1;
                    last.raw_bytes += bytes;
                }
                _ => extensions.push(ExtensionStats {
                    ext: key.ext().to_vec(),
                    files: 1,
                    raw_bytes: bytes,
                    stored_bytes: 0,
                }),
            }
            if progress.files.is_multiple_of(PROGRESS_KEYS) {
                observer.progress(&progress);
                if observer.wish() != Wish::GoOn {
                    return Err(Error::new(ErrorKind::Cancelled, "the count was stopped"));
                }
            }
        }
        for extension in &mut extensions {
            let range = KeyRange::prefix(&prefix_of_ext(&extension.ext)?);
            extension.stored_bytes = contents.approximate_bytes(&range)?;
        }
        extensions.sort_by_key(|extension| std::cmp::Reverse(extension.raw_bytes));
        Ok(extensions)
    }

    /// Raw bytes of all contents and their keys, about: deleted ones may count until compaction.
    #[must_use]
    pub fn raw_bytes_estimate(&self) -> u64 {
        let engine = self.inner.db.stats();
        let mut keyspaces = engine.keyspaces.iter();
        let contents = keyspaces.find(|keyspace| keyspace.name == CONTENTS);
        contents.map_or(0, |contents| {
            contents.total().raw_bytes + contents.memtable_raw_bytes
        })
    }

    /// Stored bytes of all tables, of contents and indexes.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let (contents, indexes) = stored_bytes(&self.inner.db.stats());
        contents + indexes
    }
}

/// Stored bytes of the contents, and of everything else.
fn stored_bytes(engine: &DbStats) -> (u64, u64) {
    let mut sums = (0, 0);
    for keyspace in &engine.keyspaces {
        let bytes = keyspace.total().stored_bytes;
        if keyspace.name == CONTENTS {
            sums.0 += bytes;
        } else {
            sums.1 += bytes;
        }
    }
    sums
}
