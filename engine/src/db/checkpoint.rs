//! A copy of the store as it is at one moment, without copying its tables.
//!
//! What is in memory is flushed first; from then on the store at that moment is a list of immutable
//! tables. They get a second name in another directory (a hard link), next to a manifest of their
//! own. The state that lists them keeps them from being removed meanwhile; writers wait for the
//! flush only.
//!
//! The directory is built under another name, synced, and renamed at the end: under its own name
//! there is a whole checkpoint or none, also after a power cut. Whoever creates `LOCK` in the
//! directory being built owns it, and alone removes it after an error. What a process leaves that
//! died is for its user to delete: nothing tells it from the work of one that lives.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::flush::table_meta;
use super::handle::Db;
use super::inner::DbInner;
use crate::dir::{FileKind, LOCK, file_path};
use crate::error::{Error, Result};
use crate::manifest::{Edit, Manifest, ManifestState, TableMeta};
use crate::options::ReadMode;
use crate::types::{FileId, FileNumber, SeqNo};
use crate::vfs::{Advice, Vfs, durable_rename};

/// Added to the name of a checkpoint that is being built.
const PARTIAL_SUFFIX: &str = ".partial";

/// Bytes copied at once, where tables cannot be linked.
const COPY_BYTES: usize = 1 << 20;

/// What a checkpoint consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Tables that the checkpoint shares with the store, as hard links.
    pub linked: u64,
    /// Tables that were copied, because the file system would not link them: the target lies on
    /// another device, above all. Of a store opened read-only, also those written from its log.
    pub copied: u64,
    /// Bytes of all tables.
    pub bytes: u64,
    /// Of these, the bytes that were copied, and take room of their own.
    pub bytes_copied: u64,
    /// The newest write that the checkpoint holds.
    pub seq: SeqNo,
}

impl Db {
    /// Makes a copy of the store as it is now, across all keyspaces, which opens as a store of its
    /// own. Returns once the copy would survive a power cut.
    ///
    /// Tables are hard-linked where the file system can, so a checkpoint beside the store takes
    /// hardly any time or room; the report tells what had to be copied instead. Writes go on
    /// meanwhile, after a flush of what is in memory. A checkpoint of a store opened read-only holds
    /// what that handle sees.
    ///
    /// Fails with [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if there is anything
    /// at `path`, and leaves nothing there on an error.
    ///
    /// ```
    /// use ppc_engine::{Db, DbOptions, Durability, KeyspaceOptions};
    ///
    /// # fn main() -> ppc_engine::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (dir.path().join("store"), dir.path().join("backup"));
    /// let db = Db::open(&path, DbOptions::default())?;
    /// let files = db.keyspace("files", KeyspaceOptions::default())?;
    /// files.put("a", "before", Durability::Buffered)?;
    /// let report = db.checkpoint(&backup)?;
    /// assert_eq!((report.linked, report.copied), (1, 0));
    ///
    /// files.put("a", "after", Durability::Buffered)?;
    /// let copy = Db::open(&backup, DbOptions::default())?;
    /// let copied = copy.keyspace("files", KeyspaceOptions::default())?;
    /// assert_eq!(copied.get("a")?.as_deref(), Some(&b"before"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<CheckpointReport> {
        let inner = self.inner();
        let path = path.as_ref();
        inner.check_open()?;
        let partial = partial_path(path)?;
        refuse_existing(
            &**inner.vfs(),
            path,
            "there is something at this path already",
        )?;
        let built = Partial::claim(inner.vfs(), &partial)?.build(inner, path);
        // Tables that were compacted away meanwhile were kept for this.
        inner.wake_to_purge();
        built
    }
}

fn partial_path(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::invalid_input("the path names no directory to create").at_path(path));
    };
    let mut name = name.to_owned();
    name.push(PARTIAL_SUFFIX);
    Ok(path.with_file_name(name))
}

fn refuse_existing(vfs: &dyn Vfs, path: &Path, message: &str) -> Result<()> {
    match vfs.exists(path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Error::invalid_input(message)
            .at_path(path)
            .with_remedy("choose another path, or remove what is there")),
        Err(error) => Err(Error::io("look for", path, error)),
    }
}

/// A checkpoint being built. Dropped before it is whole, it removes itself.
struct Partial {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    report: CheckpointReport,
    is_whole: bool,
}

impl Partial {
    fn claim(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Self> {
        let taken = "a checkpoint is being built here, or was when its process died";
        refuse_existing(&**vfs, dir, taken)?;
        vfs.create_dir_all(dir)
            .map_err(|error| Error::io("create directory for", dir, error))?;
        let lock = dir.join(LOCK);
        match vfs.create(&lock) {
            Ok(_) => Ok(Self {
                vfs: Arc::clone(vfs),
                dir: dir.to_path_buf(),
                report: CheckpointReport::default(),
                is_whole: false,
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::invalid_input(taken).at_path(dir))
            }
            Err(error) => {
                // Empty, unless another owns it by now; then it stays.
                let _ = vfs.remove_dir(dir);
                Err(Error::io("create", &lock, error))
            }
        }
    }

    fn build(mut self, db: &DbInner, path: &Path) -> Result<CheckpointReport> {
        let mut state = db.state_in_tables()?;
        for keyspace in state.keyspaces.values() {
            for (_, table) in keyspace.version.tables() {
                self.take(db, table)?;
            }
        }
        if db.read_only {
            self.write_memtables(db, &mut state)?;
        }
        // The two histories part here.
        state.store_id = FileId::random();
        Manifest::write_new(&self.vfs, &self.dir, &state)?;
        self.report.seq = state.last_seq;
        refuse_existing(
            &*self.vfs,
            path,
            "something appeared at this path meanwhile",
        )?;
        let renamed = durable_rename(&*self.vfs, &self.dir, path);
        if renamed.is_err() && self.vfs.exists(path).unwrap_or(false) {
            // Whole, but it may be gone after a power cut: not what was asked for.
            path.clone_into(&mut self.dir);
        }
        renamed?;
        self.is_whole = true;
        Ok(self.report)
    }

    /// Gives the table a name in the checkpoint.
    fn take(&mut self, db: &DbInner, table: &TableMeta) -> Result<()> {
        let from = db.table_path(table.number);
        let to = file_path(&self.dir, FileKind::Table, table.number);
        match self.vfs.hard_link(&from, &to) {
            Ok(()) => self.report.linked += 1,
            Err(error) if is_unable_to_link(&error) => {
                tracing::debug!(path = %from.display(), %error, "cannot link, copies");
                self.add_copied(copy_file(&*self.vfs, &from, &to)?);
            }
            Err(error) => return Err(Error::io("link", &from, error)),
        }
        self.report.bytes += table.stored_bytes;
        Ok(())
    }

    /// Writes what a reader replayed from the log, and no table holds, to tables.
    fn write_memtables(&mut self, db: &DbInner, state: &mut ManifestState) -> Result<()> {
        for space in db.spaces() {
            let memtable = Arc::clone(&space.view().memtable);
            if memtable.is_empty() {
                continue;
            }
            let number = FileNumber(state.next_file.0);
            let path = file_path(&self.dir, FileKind::Table, number);
            let summary = db.write_table_at(&space, &memtable, path)?;
            self.report.bytes += summary.stored_bytes;
            self.add_copied(summary.stored_bytes);
            state.apply(&Edit::AddTable {
                keyspace: space.id,
                level: 0,
                table: Arc::new(table_meta(summary, number)),
            })?;
        }
        state.check()
    }

    fn add_copied(&mut self, bytes: u64) {
        self.report.copied += 1;
        self.report.bytes_copied += bytes;
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.is_whole {
            return;
        }
        let Ok(entries) = self.vfs.read_dir(&self.dir) else {
            return;
        };
        // `LOCK` last: it keeps others out. What cannot be removed stays, and is refused next time.
        let (lock, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.name == LOCK);
        for entry in others.into_iter().chain(lock) {
            let _ = self.vfs.remove(&self.dir.join(&entry.name));
        }
        let _ = self.vfs.remove_dir(&self.dir);
    }
}

impl DbInner {
    /// The durable state at a moment when every write that is visible is in tables. A reader's
    /// memtables are not; they never change either.
    fn state_in_tables(&self) -> Result<ManifestState> {
        if self.read_only {
            let mut state = self.manifest.lock().state().clone();
            state.last_seq = self.visible_seq();
            return Ok(state);
        }
        let mut write = self.write.state.lock();
        self.check_writable()?;
        self.seal(&mut write);
        self.wait_for_flushes()?;
        let mut state = self.manifest.lock().state().clone();
        state.last_seq = state.last_seq.max(write.last_seq);
        Ok(state)
    }
}

/// Whether a copy may succeed where a link did not: another device, a file system without links
/// or with too many of this file, a file whose owner is another.
fn is_unable_to_link(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    [CrossesDevices, PermissionDenied, TooManyLinks, Unsupported].contains(&error.kind())
}

/// Copies and syncs a file; returns its length.
fn copy_file(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<u64> {
    let source = vfs
        .open(from, ReadMode::Pread)
        .map_err(|error| Error::io("open", from, error))?;
    source.advise(Advice::Sequential, 0..source.len());
    let mut target = vfs
        .create(to)
        .map_err(|error| Error::io("create", to, error))?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < source.len() {
        let left = usize::try_from(source.len() - offset).unwrap_or(usize::MAX);
        buffer.truncate(left);
        source
            .read_exact_at(&mut buffer, offset)
            .map_err(|error| Error::io("read", from, error).at_offset(offset))?;
        target
            .append(&buffer)
            .map_err(|error| Error::io("write", to, error))?;
        offset += buffer.len() as u64;
    }
    target
        .sync()
        .map_err(|error| Error::io("sync", to, error))?;
    Ok(source.len())
}
