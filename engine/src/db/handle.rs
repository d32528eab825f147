//! The handle of an open store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::batch::Batch;
use super::inner::DbInner;
use super::keyspace::Keyspace;
use super::open::{open_reader, open_writer};
use super::snapshot::Snapshot;
use super::space::Space;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Edit;
use crate::options::{DbOptions, Durability, KeyspaceOptions};
use crate::stats::DbStats;
use crate::types::KeyspaceId;

/// Longest name of a keyspace, in bytes.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 255;

/// An open store: named ordered maps that share one write-ahead log.
///
/// A `Db` is a handle: clones share the store, and it is closed when the last of them, and the last
/// [`Keyspace`] and [`Snapshot`] made from them, is dropped, or by [`Db::close`]. All calls may be
/// made from any thread; they block, so call them from a blocking pool in asynchronous programs.
#[derive(Debug, Clone)]
pub struct Db {
    core: Arc<Core>,
}

/// Closes the store when the last handle goes.
#[derive(Debug)]
struct Core {
    inner: Arc<DbInner>,
}

impl Drop for Core {
    fn drop(&mut self) {
        // Nobody is left to tell of an error; what was acknowledged is as durable as it was.
        let _ = self.close();
    }
}

impl Core {
    fn close(&self) -> Result<()> {
        if self.inner.scheduler.is_in_callback() {
            let message = "the store cannot be closed from a callback of its own work";
            return Err(Error::invalid_input(message)
                .at_path(&self.inner.dir)
                .with_remedy("cancel the work, and close the store once it has returned"));
        }
        // Needs the background threads, so it comes first.
        let saved = self.inner.save_from_doubtful_logs();
        if self.inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.inner.pipeline.close();
        self.inner.scheduler.shut_down();
        let closed = self.inner.close_log();
        // The last jobs and iterators may have let go of files when the store no longer was open.
        self.inner.purge_before_unlocking();
        let mut manifest = self.inner.manifest.lock();
        let closed = match (closed, !self.inner.failed.load(Ordering::Acquire)) {
            (Ok(logs), true) => {
                manifest.name_logs(logs);
                Ok(())
            }
            (closed, _) => closed.map(|_| ()),
        };
        manifest.catch_up();
        drop(manifest);
        *self.inner.lock.lock() = None;
        saved.and(closed)
    }
}

impl Db {
    /// Opens the store in a directory for reading and writing, or creates one there.
    ///
    /// Replays the write-ahead log. Fails if another process writes to the store
    /// ([`ErrorKind::Locked`]), if the directory holds something else
    /// ([`ErrorKind::InvalidInput`]), or a store of another format ([`ErrorKind::Unsupported`]).
    pub fn open(path: impl AsRef<Path>, options: DbOptions) -> Result<Self> {
        let inner = open_writer(path.as_ref(), options)?;
        // From here on, dropping the handle ends the threads.
        let db = Self::from_parts(inner);
        db.inner().scheduler.start(db.inner())?;
        Ok(db)
    }

    /// Opens a store for reading, beside a writer and other readers. Sees what had reached the disk
    /// when it was opened; never writes to the directory, nor removes anything from it.
    ///
    /// What the log holds and no table yet is kept in memory.
    pub fn open_read_only(path: impl AsRef<Path>, options: DbOptions) -> Result<Self> {
        let inner = open_reader(path.as_ref(), options)?;
        Ok(Self::from_parts(inner))
    }

    fn from_parts(inner: Arc<DbInner>) -> Self {
        Self {
            core: Arc::new(Core { inner }),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        &self.core.inner
    }

    /// The directory of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner().dir()
    }

    /// Whether the store was opened read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.inner().read_only
    }

    /// The keyspace with this name, created with `options` if there is none.
    ///
    /// Where there is one, `options` replace its own: they change how tables are written from now
    /// on, never how existing ones are read. To keep what is there, use
    /// [`Db::existing_keyspace`].
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        options
            .validate()
            .map_err(|error| error.in_keyspace(name))?;
        let space = self.inner().ensure_keyspace(name, options)?;
        Ok(Keyspace::new(self.clone(), space))
    }

    /// The keyspace with this name, as it is.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        self.inner().check_open()?;
        let space = self.inner().spaces.read().get(name).cloned();
        Ok(space.map(|space| Keyspace::new(self.clone(), space)))
    }

    /// The names of all keyspaces, ascending.
    #[must_use]
    pub fn keyspace_names(&self) -> Vec<String> {
        self.inner().spaces.read().keys().cloned().collect()
    }

    /// Removes a keyspace and everything in it, durably. False if there is none of this name.
    ///
    /// Iterators over it go on; the files go when the last of them is dropped.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.inner().drop_keyspace(name)
    }

    /// Applies a batch: all of it, or on an error nothing. On return it is visible to every reader
    /// and as durable as asked.
    pub fn write(&self, batch: Batch, durability: Durability) -> Result<()> {
        let inner = self.inner();
        let batch = batch.encode()?;
        if batch.count == 0 {
            return inner.check_writable();
        }
        let timer = inner.latencies.start(&inner.latencies.writes);
        inner.write_batch(batch, durability)?;
        timer.stop();
        Ok(())
    }

    /// Writes everything in memory to tables, and waits for it.
    pub fn flush(&self) -> Result<()> {
        let inner = self.inner();
        inner.check_writable()?;
        let mut state = inner.write.state.lock();
        inner.seal(&mut state);
        drop(state);
        inner.wait_for_flushes()
    }

    /// Makes every write that was acknowledged so far survive a power cut.
    pub fn sync(&self) -> Result<()> {
        self.inner().sync_log()
    }

    /// Closes the store for all its handles: cancels compactions, waits for running flushes, syncs
    /// the log and releases the lock. Later calls fail with [`ErrorKind::Closed`].
    ///
    /// From a progress callback of a compaction or bulk load of this store it fails with
    /// [`ErrorKind::InvalidInput`] and does nothing: it would wait for the end of that work. Let no
    /// such callback wait for another thread that closes the store.
    pub fn close(&self) -> Result<()> {
        self.core.close()
    }

    /// All keyspaces as they are at this moment, for any number of reads. Old versions of what is
    /// overwritten or deleted meanwhile stay on disk until the snapshot is dropped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.inner().check_open()?;
        Ok(Snapshot::new(self.clone()))
    }

    /// What the store has done and what it holds.
    #[must_use]
    pub fn stats(&self) -> DbStats {
        self.inner().collect_stats()
    }
}

impl DbInner {
    fn ensure_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<Space>> {
        if let Some(space) = self.existing_with(name, &options)? {
            return Ok(space);
        }
        check_keyspace_name(name)?;
        self.check_writable()?;
        // Holding the write state keeps two callers from creating the same keyspace.
        let mut state = self.write.state.lock();
        let existing = self.spaces.read().get(name).cloned();
        if let Some(space) = existing {
            if *space.options() != options {
                let id = space.id;
                self.commit(vec![Edit::SetKeyspaceOptions { id, options }])?;
            }
            return Ok(space);
        }
        let mut created = None;
        self.commit_planned(
            |manifest| {
                let id = KeyspaceId(manifest.next_keyspace);
                created = Some(id);
                Ok(vec![Edit::CreateKeyspace {
                    id,
                    name: name.to_owned(),
                    options: options.clone(),
                }])
            },
            &[],
        )?;
        let id = created.unwrap_or_else(|| unreachable!("the commit ran its plan"));
        let space = Arc::new(Space::new(id, name.to_owned(), options, Arc::default()));
        state.add_space(&space);
        self.spaces
            .write()
            .insert(name.to_owned(), Arc::clone(&space));
        Ok(space)
    }

    /// The keyspace, if it exists and nothing has to be written for it to have these options.
    fn existing_with(&self, name: &str, options: &KeyspaceOptions) -> Result<Option<Arc<Space>>> {
        self.check_open()?;
        let space = self.spaces.read().get(name).cloned();
        if self.read_only && space.is_none() {
            let error = Error::new(
                ErrorKind::NotFound,
                format!("there is no keyspace {name:?}"),
            );
            return Err(error
                .at_path(&self.dir)
                .with_remedy("open the store for writing to create it"));
        }
        let same = |space: &Arc<Space>| self.read_only || *space.options() == *options;
        Ok(space.filter(same))
    }

    fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.check_writable()?;
        let mut state = self.write.state.lock();
        let Some(space) = self.spaces.read().get(name).cloned() else {
            return Ok(false);
        };
        self.commit(vec![Edit::DropKeyspace { id: space.id }])?;
        state.active.remove(&space.id);
        Ok(true)
    }
}

fn check_keyspace_name(name: &str) -> Result<()> {
    if (1..=KEYSPACE_NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "keyspace name of {} bytes; it must have 1 to {KEYSPACE_NAME_BYTES_MAX}",
        name.len()
    )))
}
