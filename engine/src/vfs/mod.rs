//! The seam between the engine and the file system. Every byte to or from disk passes it.
//!
//! [`DiskVfs`] is the real thing and the only user of `std::fs` in this crate. [`MemVfs`] keeps
//! files in memory and can clone itself as after a power cut; [`FaultVfs`] wraps another and fails
//! the n-th call. The traits are small on purpose: what they cannot express (rewriting a file in
//! place, truncating one that was finished and may be mapped) the engine never does.

mod disk;
mod fault;
mod mem;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::DiskVfs;
pub use fault::{FaultOp, FaultPlan, FaultVfs};
pub use mem::{MemVfs, PowerCut};

use crate::error::{Error, Result};
use crate::options::ReadMode;

/// A file being written from its start to its end.
pub trait WritableFile: Send + Debug {
    /// Appends all of `bytes`. After an error an unknown part of them stands at the file's end,
    /// but never the whole.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended so far survive a power cut (`fdatasync`; on macOS
    /// `F_FULLFSYNC`). After an error nothing may be assumed of what was appended since the last
    /// success: the file must be abandoned, never synced again.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to its first `len` bytes, no more than it has; durable after the next sync.
    /// Nothing may be appended any more, and nobody may have the file mapped: a mapping of pages
    /// that are gone is undefined behaviour.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// An immutable file open for reading by many threads.
pub trait ReadableFile: Send + Sync + Debug {
    /// Length in bytes at the time of opening.
    fn len(&self) -> u64;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Fills `buffer` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// The whole file, where it is mapped or in memory.
    fn mapping(&self) -> Option<&[u8]>;
    /// A hint of what will be read; never fails.
    fn advise(&self, advice: Advice, range: Range<u64>);
}

/// What a reader is about to do with a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Read it soon.
    WillNeed,
    /// Read it once from start to end.
    Sequential,
    /// Not read it again soon.
    DontNeed,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The file's name, where it is UTF-8; others are no files of ours and are skipped.
    pub name: String,
    /// Length in bytes.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Holds a file lock until dropped.
pub trait FileLock: Send + Sync + Debug {}

/// How [`Vfs::lock`] holds a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Alone.
    Exclusive,
    /// Beside other shared holders.
    Shared,
}

/// A file system.
pub trait Vfs: Send + Sync + Debug {
    /// Creates the directory and its parents where missing, so that they survive a power cut.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Creates a new file for writing; `AlreadyExists` if there is one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;
    /// Opens an existing file.
    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn ReadableFile>>;
    /// Makes everything written to a file so far survive a power cut, by whomever it was written:
    /// a process that was killed leaves bytes that can be read and are not on the disk.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, replacing the target, or a directory to a name that is free. Durable only
    /// after [`Vfs::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Readers that have it open keep it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes `to` another name of `from`; `CrossesDevices` where the file system cannot.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The entries of a directory, in no particular order.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes creations, renames and removals in a directory survive a power cut.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether the path exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Locks a file, created where missing (with `Shared`, opened read-only where it exists);
    /// `None` if another holder excludes it.
    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn FileLock>>>;
    /// Bytes that can still be written under `path`, where the system tells.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>>;
}

/// For tests and fuzz targets: writes `bytes` to `path` so that after a power cut the file holds
/// either its old or its new content, whole: write `path.tmp`, sync it, rename it over, sync the
/// directory.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn durable_write(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = write_temporary(vfs, path, bytes)?;
    durable_rename(vfs, &temporary, path)
}

/// The first half of [`durable_write`]: `path` itself is untouched. Returns the temporary file's
/// path; on an error there is none, unless it cannot be removed either.
pub(crate) fn write_temporary(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let temporary = with_suffix(path, ".tmp");
    let exists = vfs.exists(&temporary);
    if exists.map_err(|error| Error::io("look for", &temporary, error))? {
        vfs.remove(&temporary)
            .map_err(|error| Error::io("remove", &temporary, error))?;
    }
    let mut file = vfs
        .create(&temporary)
        .map_err(|error| Error::io("create", &temporary, error))?;
    let written = file
        .append(bytes)
        .map_err(|error| Error::io("write", &temporary, error))
        .and_then(|()| {
            file.sync()
                .map_err(|error| Error::io("sync", &temporary, error))
        });
    drop(file);
    match written {
        Ok(()) => Ok(temporary),
        Err(error) => {
            // Kept out of the way on a full disk; the next writer of this path removes it too.
            let _ = vfs.remove(&temporary);
            Err(error)
        }
    }
}

/// Renames a file or a directory within one directory, and syncs that one.
pub(crate) fn durable_rename(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<()> {
    vfs.rename(from, to)
        .map_err(|error| Error::io("rename", from, error))?;
    let dir = to.parent().unwrap_or(Path::new("."));
    vfs.sync_dir(dir)
        .map_err(|error| Error::io("sync directory", dir, error))
}

/// Reads a whole small file.
pub(crate) fn read_whole(vfs: &dyn Vfs, path: &Path) -> Result<Vec<u8>> {
    let file = vfs
        .open(path, ReadMode::Pread)
        .map_err(|error| Error::io("open", path, error))?;
    let len = usize::try_from(file.len())
        .map_err(|_| Error::limit("file does not fit in memory").at_path(path))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| Error::io("read", path, error))?;
    Ok(bytes)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
