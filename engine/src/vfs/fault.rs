//! A file system that fails on purpose.
//!
//! Wraps one in memory and fails the n-th call that a [`FaultPlan`] describes, once or from then on.
//! The plan can be changed while files are open. A sync that failed leaves its file as Linux does:
//! what it should have saved can be read, and later syncs succeed without saving it, from whichever
//! handle or process they come. Whoever retries a failed sync, or trusts what a killed process left
//! to be read, loses data in the next power cut.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Advice, DirEntry, FileLock, LockKind, MemVfs, ReadableFile, Vfs, WritableFile};
use crate::options::ReadMode;

/// A kind of call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultOp {
    /// [`Vfs::create_dir_all`].
    CreateDir,
    /// [`Vfs::create`].
    Create,
    /// [`WritableFile::append`].
    Append,
    /// [`WritableFile::sync`] and [`Vfs::sync_file`].
    Sync,
    /// [`WritableFile::truncate`].
    Truncate,
    /// [`Vfs::open`].
    Open,
    /// [`ReadableFile::read_exact_at`]. Reads of a mapping make no call and cannot fail.
    Read,
    /// [`Vfs::rename`]; its path is the old name.
    Rename,
    /// [`Vfs::remove`] and [`Vfs::remove_dir`].
    Remove,
    /// [`Vfs::hard_link`]; its path is the new name.
    HardLink,
    /// [`Vfs::read_dir`].
    ReadDir,
    /// [`Vfs::sync_dir`].
    SyncDir,
    /// [`Vfs::exists`].
    Exists,
    /// [`Vfs::lock`].
    Lock,
    /// [`Vfs::free_bytes`].
    FreeBytes,
}

/// Calls that change what the disk holds.
const WRITE_OPS: [FaultOp; 9] = [
    FaultOp::CreateDir,
    FaultOp::Create,
    FaultOp::Append,
    FaultOp::Sync,
    FaultOp::Truncate,
    FaultOp::Rename,
    FaultOp::Remove,
    FaultOp::HardLink,
    FaultOp::SyncDir,
];

/// Which call fails, and how. The default plan counts every call and fails none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// The kinds of call that count; empty stands for every kind.
    pub ops: Vec<FaultOp>,
    /// Only calls on paths that end in this text count.
    pub path_suffix: String,
    /// The how-manieth matching call fails, from 1; 0 for none.
    pub nth: u64,
    /// Every matching call after it fails too, as on a disk that stays full.
    pub stays: bool,
    /// The error given.
    pub error: io::ErrorKind,
    /// A failing append first appends half of its bytes.
    pub partial_append: bool,
    /// Instead of returning the error the call panics, as where there is a bug.
    pub panics: bool,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            ops: Vec::new(),
            path_suffix: String::new(),
            nth: 0,
            stays: false,
            error: io::ErrorKind::Other,
            partial_append: false,
            panics: false,
        }
    }
}

impl FaultPlan {
    /// Fails the `nth` call that changes what the disk holds, and all after it.
    #[must_use]
    pub fn writes_from(nth: u64, error: io::ErrorKind) -> Self {
        Self {
            ops: WRITE_OPS.to_vec(),
            nth,
            stays: true,
            error,
            ..Self::default()
        }
    }

    /// Fails the `nth` call of one kind, once.
    #[must_use]
    pub fn once(op: FaultOp, nth: u64, error: io::ErrorKind) -> Self {
        Self {
            ops: vec![op],
            nth,
            error,
            ..Self::default()
        }
    }

    /// Counts only calls on paths that end in `suffix`.
    #[must_use]
    pub fn on(mut self, suffix: impl Into<String>) -> Self {
        self.path_suffix = suffix.into();
        self
    }

    /// Lets a failing append write half of its bytes first.
    #[must_use]
    pub fn with_partial_append(mut self) -> Self {
        self.partial_append = true;
        self
    }

    /// Lets the failing call panic.
    #[must_use]
    pub fn with_panic(mut self) -> Self {
        self.panics = true;
        self
    }

    fn matches(&self, op: FaultOp, path: &Path) -> bool {
        let kind_matches = self.ops.is_empty() || self.ops.contains(&op);
        kind_matches && path.to_string_lossy().ends_with(&self.path_suffix)
    }

    fn fails(&self, call: u64) -> bool {
        self.nth != 0 && (call == self.nth || (self.stays && call > self.nth))
    }
}

/// Fails calls to a file system in memory on purpose. Clones share the plan.
#[derive(Debug, Clone)]
pub struct FaultVfs {
    inner: MemVfs,
    injector: Arc<Mutex<Injector>>,
}

#[derive(Debug)]
struct Injector {
    plan: FaultPlan,
    calls: u64,
    failed: u64,
}

impl FaultVfs {
    /// Wraps a file system.
    #[must_use]
    pub fn new(inner: MemVfs, plan: FaultPlan) -> Self {
        let injector = Injector {
            plan,
            calls: 0,
            failed: 0,
        };
        Self {
            inner,
            injector: Arc::new(Mutex::new(injector)),
        }
    }

    /// Puts another plan in force and counts from zero.
    pub fn arm(&self, plan: FaultPlan) {
        *self.injector.lock() = Injector {
            plan,
            calls: 0,
            failed: 0,
        };
    }

    /// Lets every call through again. The counts stay.
    pub fn disarm(&self) {
        self.injector.lock().plan.nth = 0;
    }

    /// Calls so far that matched the plan, failed ones among them.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.injector.lock().calls
    }

    /// Calls so far that were made to fail.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.injector.lock().failed
    }

    fn call(&self, op: FaultOp, path: &Path) -> io::Result<()> {
        let mut injector = self.injector.lock();
        if !injector.plan.matches(op, path) {
            return Ok(());
        }
        injector.calls += 1;
        if !injector.plan.fails(injector.calls) {
            return Ok(());
        }
        injector.failed += 1;
        let message = format!("injected into call {} ({op:?})", injector.calls);
        if injector.plan.panics {
            drop(injector);
            std::panic::resume_unwind(Box::new(message));
        }
        Err(io::Error::new(injector.plan.error, message))
    }

    /// A call that syncs a file.
    fn call_sync(&self, path: &Path) -> io::Result<()> {
        self.call(FaultOp::Sync, path).inspect_err(|_| {
            // A file that has another name by now is none that anyone will read again.
            let _ = self.inner.fail_sync(path);
        })
    }

    fn partial_append(&self) -> bool {
        self.injector.lock().plan.partial_append
    }
}

impl Vfs for FaultVfs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.call(FaultOp::CreateDir, path)?;
        self.inner.create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.call(FaultOp::Create, path)?;
        let inner = self.inner.create(path)?;
        Ok(Box::new(FaultWriter {
            vfs: self.clone(),
            path: path.to_path_buf(),
            inner,
        }))
    }

    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn ReadableFile>> {
        self.call(FaultOp::Open, path)?;
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(FaultReader {
            vfs: self.clone(),
            path: path.to_path_buf(),
            inner,
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.call_sync(path)?;
        self.inner.sync_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(FaultOp::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(FaultOp::Remove, path)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call(FaultOp::Remove, path)?;
        self.inner.remove_dir(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(FaultOp::HardLink, to)?;
        self.inner.hard_link(from, to)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.call(FaultOp::ReadDir, path)?;
        self.inner.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(FaultOp::SyncDir, path)?;
        self.inner.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call(FaultOp::Exists, path)?;
        self.inner.exists(path)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn FileLock>>> {
        self.call(FaultOp::Lock, path)?;
        self.inner.lock(path, kind)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.call(FaultOp::FreeBytes, path)?;
        self.inner.free_bytes(path)
    }
}

#[derive(Debug)]
struct FaultWriter {
    vfs: FaultVfs,
    path: PathBuf,
    inner: Box<dyn WritableFile>,
}

impl WritableFile for FaultWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Err(error) = self.vfs.call(FaultOp::Append, &self.path) else {
            return self.inner.append(bytes);
        };
        if self.vfs.partial_append() {
            let half = bytes.split_at(bytes.len() / 2).0;
            self.inner.append(half)?;
        }
        Err(error)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.vfs.call_sync(&self.path)?;
        self.inner.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.vfs.call(FaultOp::Truncate, &self.path)?;
        self.inner.truncate(len)
    }
}

#[derive(Debug)]
struct FaultReader {
    vfs: FaultVfs,
    path: PathBuf,
    inner: Arc<dyn ReadableFile>,
}

impl ReadableFile for FaultReader {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.vfs.call(FaultOp::Read, &self.path)?;
        self.inner.read_exact_at(buffer, offset)
    }

    fn mapping(&self) -> Option<&[u8]> {
        self.inner.mapping()
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.inner.advise(advice, range);
    }
}

#[cfg(test)]
mod tests {
    use super::super::PowerCut;
    use super::*;

    fn mounted(plan: FaultPlan) -> (MemVfs, FaultVfs) {
        let memory = MemVfs::new();
        let vfs = FaultVfs::new(memory.clone(), plan);
        (memory, vfs)
    }

    #[test]
    fn the_nth_matching_call_fails_once_or_for_good() {
        let full = io::ErrorKind::StorageFull;
        let (_, vfs) = mounted(FaultPlan::once(FaultOp::Append, 2, full).on(".wal"));
        let mut other = vfs.create(Path::new("a.table")).unwrap();
        let mut file = vfs.create(Path::new("a.wal")).unwrap();
        other.append(b"x").unwrap();
        file.append(b"x").unwrap();
        assert_eq!(file.append(b"x").unwrap_err().kind(), full);
        file.append(b"x").unwrap();
        assert_eq!((vfs.calls(), vfs.failed()), (3, 1));

        vfs.arm(FaultPlan::writes_from(2, full));
        file.append(b"x").unwrap();
        assert!(file.append(b"x").is_err());
        assert!(vfs.sync_dir(Path::new("")).is_err());
        vfs.disarm();
        file.append(b"x").unwrap();
    }

    #[test]
    fn a_failing_append_can_write_half() {
        let plan = FaultPlan::once(FaultOp::Append, 1, io::ErrorKind::StorageFull);
        let (memory, vfs) = mounted(plan.with_partial_append());
        let mut file = vfs.create(Path::new("a")).unwrap();
        assert!(file.append(b"1234").is_err());
        let reader = memory.open(Path::new("a"), ReadMode::Mmap).unwrap();
        assert_eq!(reader.mapping(), Some(b"12".as_slice()));
    }

    #[test]
    fn retrying_a_failed_sync_saves_nothing() {
        let plan = FaultPlan::once(FaultOp::Sync, 1, io::ErrorKind::Other);
        let (memory, vfs) = mounted(plan);
        let mut file = vfs.create(Path::new("a")).unwrap();
        vfs.sync_dir(Path::new("")).unwrap();
        file.append(b"1234").unwrap();
        assert!(file.sync().is_err());
        file.sync().unwrap();
        // Nor does a sync by the next process, which can read it.
        let memory = memory.kill();
        let seen = memory.open(Path::new("a"), ReadMode::Mmap).unwrap();
        assert_eq!(seen.mapping(), Some(b"1234".as_slice()));
        memory.sync_file(Path::new("a")).unwrap();
        let after = memory.power_cut(PowerCut {
            seed: 0,
            keep_percent: 0,
        });
        assert_eq!(after.open(Path::new("a"), ReadMode::Mmap).unwrap().len(), 0);
    }
}
