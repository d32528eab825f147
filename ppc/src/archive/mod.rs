//! The archive: contents of files under PPC keys, found by any indexed hash, over the engine.
//!
//! An archive is an engine store with these keyspaces:
//!
//! ```text
//! meta         "archive" -> format version, indexes         (see `meta`)
//! contents     PPC key   -> content
//! sha1_git     sha1_git  -> PPC key without its last 20 bytes, which are that hash
//! sha1         sha1      -> PPC key                          \
//! sha256       sha256    -> PPC key                           | those chosen at creation
//! blake2s256   blake2s256 -> PPC key                         /
//! ```
//!
//! Invariants:
//! 1. A content and its index entries are written, and deleted, in one batch or one bulk load:
//!    each is there if all are.
//! 2. A content is stored once, under the name it was first stored with; `sha1_git` has one entry
//!    a content. Every other name for it finds that one.
//! 3. The hash in a key is the content's: it is computed here, never taken from a caller.
//!
//! An [`Archive`] is a cheap handle for use from any number of threads. Puts and deletes of one
//! content exclude each other; those of different contents hardly ever wait.

mod bulk;
mod id;
mod index;
mod meta;
mod missing;
mod read;
mod repair;
mod selection;
mod stats;
#[cfg(test)]
mod tests;
mod verify;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use ppc_engine::{
    CancelToken, CompactOptions, CompactionReport, Db, DbOptions, Keyspace, KeyspaceOptions,
    TableOptions, WhatIfOptions, WhatIfResult,
};

use crate::hash::HashKinds;
use crate::progress::{Observer, Phase, Progress, Wish};
use crate::{Error, Result};

pub use bulk::{BulkSummary, ContentLoader, LoaderOptions};
pub use id::Id;
pub use read::{Contents, Keys, Stored};
pub use repair::RepairReport;
pub use selection::Selection;
pub use stats::{ArchiveStats, ExtensionStats};
pub use verify::{ContentCheck, check_files};

pub(crate) use meta::restore as restore_record;
pub(crate) use missing::Missing;
#[cfg(test)]
pub(crate) use verify::check_files_in;
#[cfg(feature = "transfer")]
pub(crate) use write::check_length;
pub use write::{Deleted, Put};

use index::{Index, indexes_of};

/// Keyspace of the contents.
pub const CONTENTS: &str = "contents";

/// zstd level of contents where none is chosen.
pub const ZSTD_LEVEL_DEFAULT: i32 = 6;
/// Raw bytes of a block of contents where none are chosen.
pub const BLOCK_BYTES_DEFAULT: u32 = 64 << 10;

/// Locks that puts and deletes of one content share; more than the threads that commonly write.
const CONTENT_LOCKS: usize = 64;

/// How to open an archive.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ArchiveOptions {
    /// Indexes beside `sha1_git`. None takes what the archive has, and no further one when it is
    /// created. Opening an archive that has others fails: indexes are chosen at creation.
    pub indexes: Option<HashKinds>,
    /// How the last tree level stores contents. None keeps what the archive has, and takes
    /// [`ZSTD_LEVEL_DEFAULT`] with [`BLOCK_BYTES_DEFAULT`] when it is created. What is stored
    /// already stays as it is until a compaction rewrites it.
    pub contents: Option<TableOptions>,
    /// Options of the engine.
    pub db: DbOptions,
}

/// An open archive.
#[derive(Clone)]
pub struct Archive {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    path: PathBuf,
    contents: Keyspace,
    /// `sha1_git` first, then the others in [`crate::HashKind`]'s order.
    indexes: Vec<Index>,
    content_locks: [Mutex<()>; CONTENT_LOCKS],
}

impl Archive {
    /// Opens the archive in directory `path` for reading and writing, excluding other writers.
    /// Creates it where [`DbOptions::create_if_missing`] says so.
    pub fn open(path: impl AsRef<Path>, options: ArchiveOptions) -> Result<Self> {
        let path = path.as_ref();
        let db = Db::open(path, options.db.clone())?;
        let meta::Indexes { kinds, is_new } = meta::open_or_begin(&db, path, options.indexes)?;
        let contents = match (db.existing_keyspace(CONTENTS)?, options.contents) {
            (Some(existing), None) => existing,
            (_, chosen) => db.keyspace(CONTENTS, contents_options(chosen))?,
        };
        let indexes = indexes_of(kinds)
            .map(|kind| Index::open_or_create(&db, kind))
            .collect::<Result<_>>()?;
        if is_new {
            meta::complete(&db, kinds)?;
        }
        Ok(Self::assemble(db, path, contents, indexes))
    }

    /// Opens the archive in directory `path` for reading, beside other readers and a writer. What
    /// the writer commits later is not seen.
    pub fn open_read_only(path: impl AsRef<Path>, options: ArchiveOptions) -> Result<Self> {
        let path = path.as_ref();
        let db = Db::open_read_only(path, options.db.clone())?;
        let indexes = meta::open(&db, path, options.indexes)?;
        let missing = |name: &str| {
            Error::corruption(format!("the archive has lost its keyspace {name:?}"))
                .at_path(path)
                .with_remedy("restore the store from a checkpoint")
        };
        let contents = db
            .existing_keyspace(CONTENTS)?
            .ok_or_else(|| missing(CONTENTS))?;
        let indexes = indexes_of(indexes)
            .map(|kind| Index::open(&db, kind)?.ok_or_else(|| missing(kind.name())))
            .collect::<Result<_>>()?;
        Ok(Self::assemble(db, path, contents, indexes))
    }

    fn assemble(db: Db, path: &Path, contents: Keyspace, indexes: Vec<Index>) -> Self {
        Self {
            inner: Arc::new(Inner {
                db,
                path: path.to_path_buf(),
                contents,
                indexes,
                content_locks: std::array::from_fn(|_| Mutex::new(())),
            }),
        }
    }

    /// The engine's handle, for statistics, checkpoints and compaction.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.inner.db
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The hashes by which contents are found, `sha1_git` among them.
    #[must_use]
    pub fn indexes(&self) -> HashKinds {
        self.inner.indexes.iter().map(Index::kind).collect()
    }

    /// Merges every table down to the last level: what was deleted is gone from the disk then. With
    /// `rewrite_all`, tables with nothing to drop are written anew as well, as the options are now.
    ///
    /// An observer that does not want to go on is heard; what was merged stays merged.
    pub fn compact(&self, rewrite_all: bool, observer: &dyn Observer) -> Result<CompactionReport> {
        let mut options = CompactOptions::default();
        options.rewrite_all = rewrite_all;
        let cancel = options.cancel.clone();
        self.inner.db.compact_with(&options, &mut |done| {
            let total = done.raw_bytes_estimate.max(done.raw_bytes);
            let mut progress = Progress::start(Phase::Merging, Some(total));
            progress.files = done.entries;
            progress.bytes = done.raw_bytes;
            observer.progress(&progress);
            if observer.wish() != Wish::GoOn {
                cancel.cancel();
            }
        })
    }

    /// Keys and contents of about `sample_bytes`, never more: stretches of neighbours of about
    /// `stretch_bytes` each, evenly spread, in key order. Contents longer than a stretch are left
    /// out. Keys are as [`crate::PpcKey::encode`] makes them.
    pub fn sample(
        &self,
        sample_bytes: u64,
        stretch_bytes: u64,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<(Bytes, Bytes)>>> {
        let contents = &self.inner.contents;
        contents.sample(sample_bytes, stretch_bytes, cancel)
    }

    /// Writes a sample of the contents with each combination of options, and tells size and speed.
    pub fn what_if(
        &self,
        options: &WhatIfOptions,
        observer: &dyn Observer,
    ) -> Result<Vec<WhatIfResult>> {
        let cancel = options.cancel.clone();
        self.inner.contents.what_if(options, &mut |done, total| {
            let mut progress = Progress::start(Phase::Measuring, None);
            progress.files = done as u64;
            progress.bytes = done as u64 * options.sample_bytes;
            progress.bytes_total = Some(total as u64 * options.sample_bytes);
            observer.progress(&progress);
            if observer.wish() != Wish::GoOn {
                cancel.cancel();
            }
        })
    }

    /// How the last tree level stores contents.
    #[must_use]
    pub fn contents_table(&self) -> TableOptions {
        let [.., last] = self.inner.contents.options().levels;
        last
    }

    /// Changes how contents are stored, durably: `table` is for the last tree level, as
    /// [`ArchiveOptions::contents`] is. Tables written from now on follow it; those that are there
    /// stay as they are until [`Archive::compact`] rewrites them.
    pub fn set_contents_table(&self, table: TableOptions) -> Result<()> {
        let options = contents_options(Some(table));
        self.inner.db.keyspace(CONTENTS, options).map(|_| ())
    }

    /// Waits until all acknowledged writes survive a power cut.
    pub fn sync(&self) -> Result<()> {
        self.inner.db.sync()
    }

    /// Closes the archive for every handle; waits for background work to reach a clean point.
    pub fn close(&self) -> Result<()> {
        self.inner.db.close()
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive")
            .field("path", &self.inner.path)
            .field("indexes", &self.indexes())
            .finish_non_exhaustive()
    }
}

/// How contents are stored: cheap in the upper levels, `last` or the default in the last.
pub(crate) fn contents_options(last: Option<TableOptions>) -> KeyspaceOptions {
    let last =
        last.unwrap_or_else(|| TableOptions::blocks(ZSTD_LEVEL_DEFAULT, BLOCK_BYTES_DEFAULT));
    KeyspaceOptions::tiered(last.light(), last)
}
