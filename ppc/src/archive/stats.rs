//! What an archive holds, by extension and by tree level.

use std::collections::HashMap;

use ppc_engine::{DbStats, FrameCensus, IterOptions, KeyRange};

use super::{Archive, CONTENTS};
use crate::key::PpcKey;
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
    /// The frames of the contents' tables.
    pub frames: FrameCensus,
    /// The contents' tables that do not tell of their frames, for an older build wrote them.
    pub tables_without_census: u64,
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
    /// Stored bytes of these contents in tables, of deleted ones too until compaction drops them.
    /// A block that holds contents of several extensions is shared out as their bytes are. Keys and
    /// filters do not count.
    pub stored_bytes: u64,
}

impl ArchiveStats {
    /// Bytes of all contents.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.extensions.iter().map(|it| it.raw_bytes).sum()
    }

    /// Stored bytes of all contents alone, without their keys and filters.
    #[must_use]
    pub fn value_stored_bytes(&self) -> u64 {
        self.extensions.iter().map(|it| it.stored_bytes).sum()
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
        let (frames, tables_without_census) = self.inner.contents.frame_census()?;
        let (content_stored_bytes, index_stored_bytes) = stored_bytes(&engine);
        Ok(ArchiveStats {
            files: extensions.iter().map(|it| it.files).sum(),
            content_stored_bytes,
            index_stored_bytes,
            extensions,
            frames,
            tables_without_census,
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
                    return Err(cancelled());
                }
            }
        }
        self.add_stored_bytes(&mut extensions, observer)?;
        extensions.sort_by(|a, b| {
            b.raw_bytes
                .cmp(&a.raw_bytes)
                .then_with(|| a.ext.cmp(&b.ext))
        });
        Ok(extensions)
    }

    /// Fills in what the contents of each extension take. Appends those of which there is none left.
    fn add_stored_bytes(
        &self,
        extensions: &mut Vec<ExtensionStats>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let mut groups: HashMap<Vec<u8>, usize> = HashMap::new();
        for (group, extension) in extensions.iter().enumerate() {
            groups.insert(extension.ext.clone(), group);
        }
        // Keys of one extension stand together, in every table.
        let mut last: Option<(Vec<u8>, usize)> = None;
        let mut keys = 0_u64;
        let sums = self.inner.contents.value_bytes_by_group(&mut |key| {
            keys += 1;
            if keys.is_multiple_of(PROGRESS_KEYS) && observer.wish() != Wish::GoOn {
                return Err(cancelled());
            }
            let key = PpcKey::decode(key)?;
            match &last {
                Some((ext, group)) if ext == key.ext() => Ok(*group),
                _ => {
                    let next = groups.len();
                    let group = *groups.entry(key.ext().to_vec()).or_insert(next);
                    last = Some((key.ext().to_vec(), group));
                    Ok(group)
                }
            }
        })?;
        let mut gone: Vec<_> = groups.into_iter().collect();
        gone.retain(|(_, group)| *group >= extensions.len());
        gone.sort_unstable_by_key(|(_, group)| *group);
        extensions.extend(gone.into_iter().map(|(ext, _)| ExtensionStats {
            ext,
            files: 0,
            raw_bytes: 0,
            stored_bytes: 0,
        }));
        for (extension, stored_bytes) in extensions.iter_mut().zip(sums) {
            extension.stored_bytes = stored_bytes;
        }
        Ok(())
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

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the count was stopped")
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
