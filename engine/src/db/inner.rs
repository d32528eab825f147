//! What an open store consists of, shared by every handle, job and iterator.
//!
//! Lock order, outermost first; a thread that holds one takes only later ones:
//!
//! 1. `write.queue` — who leads the next group commit; held for moments.
//! 2. `write.state` — the log, the active memtables, the next sequence number; held by a leader for
//!    a whole group commit, even while it waits for room. Background jobs therefore never take it.
//! 3. `flushing` — one flush at a time.
//! 4. `manifest` — the durable state; held over the manifest's sync.
//! 5. `spaces`, `pipeline`, `snapshots`, `obsolete` — held for moments.
//!
//! Readers take none of 1 to 4: they load a keyspace's [`View`](super::space::View) and the visible
//! sequence number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::commit::Obsolete;
use super::pipeline::{Pipeline, Stage, closed};
use super::snapshots::SnapshotList;
use super::space::Space;
use super::tables::TableCache;
use super::work::WorkSignal;
use super::write::WritePath;
use crate::cache::FrameCache;
use crate::codec::CompressionPool;
use crate::compaction::Scheduler;
use crate::dir::{FileKind, file_path};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{FileNumbers, Manifest};
use crate::options::DbOptions;
use crate::read::WorkerPool;
use crate::stats::{Latencies, Stats};
use crate::types::{FileNumber, KeyspaceId, SeqNo};
use crate::vfs::{FileLock, Vfs};

/// See the module's head.
pub(crate) struct DbInner {
    pub(super) dir: PathBuf,
    pub(super) options: DbOptions,
    pub(super) read_only: bool,
    pub(super) numbers: Arc<FileNumbers>,
    /// By name.
    pub(super) spaces: RwLock<BTreeMap<String, Arc<Space>>>,
    pub(super) manifest: Mutex<Manifest>,
    pub(super) write: WritePath,
    pub(super) flushing: Mutex<()>,
    pub(super) pipeline: Pipeline,
    pub(super) snapshots: SnapshotList,
    /// Every write up to here is in memtables or tables.
    pub(super) visible: AtomicU64,
    pub(super) tables: TableCache,
    pub(super) frames: Option<Arc<FrameCache>>,
    pub(super) compression: Arc<CompressionPool>,
    pub(super) stats: Arc<Stats>,
    pub(super) latencies: Latencies,
    pub(super) workers: WorkerPool,
    pub(super) obsolete: Mutex<Obsolete>,
    pub(super) work: Arc<WorkSignal>,
    pub(super) scheduler: Scheduler,
    pub(super) closed: AtomicBool,
    /// The failure after which nothing may be written until the store is opened again.
    pub(super) failure: Mutex<Option<Error>>,
    pub(super) failed: AtomicBool,
    /// `LOCK` for the writer, `READERS` for a reader; none for a reader of a read-only directory.
    pub(super) lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl DbInner {
    pub(crate) fn options(&self) -> &DbOptions {
        &self.options
    }

    pub(crate) fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.options.vfs
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(crate) fn compression_pool(&self) -> &Arc<CompressionPool> {
        &self.compression
    }

    /// What background threads wait on.
    pub(crate) fn work(&self) -> &WorkSignal {
        &self.work
    }

    /// Who compacts what.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// A number that no file of this store ever had.
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.numbers.allocate()
    }

    pub(crate) fn table_path(&self, number: FileNumber) -> PathBuf {
        file_path(&self.dir, FileKind::Table, number)
    }

    /// Every write up to here is visible to readers.
    pub(crate) fn visible_seq(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// The numbers that live snapshots read at, ascending. A job asks **after** it has fixed its
    /// inputs; see [`SnapshotList`].
    pub(crate) fn snapshots(&self) -> Vec<SeqNo> {
        self.snapshots.live()
    }

    /// The keyspaces that exist at this moment.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        self.spaces.read().values().cloned().collect()
    }

    pub(crate) fn space(&self, id: KeyspaceId) -> Option<Arc<Space>> {
        let spaces = self.spaces.read();
        spaces.values().find(|space| space.id == id).cloned()
    }

    /// Fails once the store is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Ok(())
    }

    /// Fails unless the store takes writes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            let error = Error::new(ErrorKind::ReadOnly, "the store was opened read-only");
            return Err(error.at_path(&self.dir).with_remedy("open it for writing"));
        }
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = self.failure.lock();
        let error = Error::new(ErrorKind::Failed, "an earlier failure stopped all writes");
        let error = error.at_path(&self.dir).with_remedy("open the store again");
        Err(match failure.as_ref() {
            Some(failure) => error.with_source(failure.to_string()),
            None => error,
        })
    }

    /// Refuses every write from here on: what is on disk may not be what memory says.
    pub(crate) fn latch_failure(&self, error: &Error) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            tracing::error!(%error, "the store refuses writes from here on");
            *failure = Some(error.duplicate());
        }
        self.failed.store(true, Ordering::Release);
        drop(failure);
        self.pipeline.fail_all(Stage::Flush, error);
        self.pipeline.fail_all(Stage::Compaction, error);
    }

    /// Tells writers that wait for compaction that it failed.
    pub(crate) fn compaction_failed(&self, error: &Error) {
        self.pipeline.fail_all(Stage::Compaction, error);
    }
}

impl std::fmt::Debug for DbInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbInner")
            .field("dir", &self.dir)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
