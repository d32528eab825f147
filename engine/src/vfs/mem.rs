//! A file system in memory that can be cloned as after a power cut.
//!
//! It keeps apart what a program has been told is durable from what it only sees: a file has a
//! synced length, a directory a synced list of entries plus the changes made since. A power cut
//! keeps the first and rolls dice for the second (see [`PowerCut`]). Bytes that a failed sync gave
//! up are still seen, and no later sync saves them, as on Linux. It can be given a size, and is full
//! then when its files' bytes add up to that.
//!
//! Files hold their bytes in one shared allocation: opening is free, and a reader keeps what it
//! opened while the writer goes on in a copy.

mod cut;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

pub use self::cut::PowerCut;
use super::{Advice, DirEntry, FileLock, LockKind, ReadableFile, Vfs, WritableFile};
use crate::options::ReadMode;

/// A file system in memory. Clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct MemVfs {
    tree: Arc<Mutex<Tree>>,
    locks: Arc<Mutex<HashMap<PathBuf, Holders>>>,
}

/// Directories are durable once made, as [`Vfs::create_dir_all`] promises, and, which no disk
/// promises, once renamed or removed; files are not.
#[derive(Debug, Default)]
struct Tree {
    dirs: BTreeMap<PathBuf, Dir>,
    /// Bytes that all files together may have; none is without bound.
    capacity_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct Dir {
    entries: BTreeMap<String, Inode>,
    synced: BTreeMap<String, Inode>,
    /// What turned `synced` into `entries`, in order.
    changes: Vec<Change>,
}

/// A change of a directory that no sync has made durable yet.
#[derive(Debug, Clone)]
enum Change {
    Add { name: String, inode: Inode },
    Remove { name: String },
    Rename { from: String, to: String },
}

/// A file, under any number of names.
type Inode = Arc<Mutex<Content>>;

#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Arc<Vec<u8>>,
    /// No later sync writes the bytes before it: they were synced, or are in `lost`.
    synced_len: usize,
    /// Bytes whose sync failed, ascending.
    lost: Vec<Range<usize>>,
    /// What the file was before it was truncated, which may come back as long as that is not synced.
    before_cut: Option<Box<Content>>,
}

#[derive(Debug, Default)]
struct Holders {
    exclusive: bool,
    shared: usize,
}

impl MemVfs {
    /// An empty file system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the disk holds after a power cut now. This file system goes on undisturbed; locks are
    /// not carried over.
    #[must_use]
    pub fn power_cut(&self, cut: PowerCut) -> Self {
        let tree = cut.apply(&self.tree.lock());
        Self {
            tree: Arc::new(Mutex::new(tree)),
            locks: Arc::default(),
        }
    }

    /// What the next process finds if this one is killed now: everything that was handed over, and
    /// as durable as it was. This file system goes on undisturbed; locks are not carried over.
    #[must_use]
    pub fn kill(&self) -> Self {
        Self {
            tree: Arc::new(Mutex::new(self.tree.lock().duplicate())),
            locks: Arc::default(),
        }
    }

    /// Leaves a file as a failed sync does: what was not synced can still be read, but the system
    /// takes it for written, so that the next sync succeeds and saves nothing of it.
    pub(super) fn fail_sync(&self, path: &Path) -> io::Result<()> {
        let inode = self.inode(path)?;
        inode.lock().fail_sync();
        Ok(())
    }

    /// Gives the file system a size: appends and new files are refused from here on once all files
    /// together have this many bytes. None takes the bound away. Files removed count no more.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.tree.lock().capacity_bytes = bytes;
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.tree.lock().used_bytes()
    }

    /// Every file's path, in order.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let tree = self.tree.lock();
        let dirs = tree.dirs.iter();
        dirs.flat_map(|(path, dir)| dir.entries.keys().map(|name| path.join(name)))
            .collect()
    }

    fn inode(&self, path: &Path) -> io::Result<Inode> {
        let (dir, name) = split(path)?;
        let mut tree = self.tree.lock();
        let entry = tree.dir(&dir)?.entries.get(&name).cloned();
        entry.ok_or_else(|| missing(path))
    }
}

impl Content {
    fn sync(&mut self) {
        self.synced_len = self.bytes.len();
        // Whoever lost a sync cannot know what a later one makes certain.
        if self.lost.is_empty() {
            self.before_cut = None;
        }
    }

    fn fail_sync(&mut self) {
        let unsynced = self.synced_len..self.bytes.len();
        self.synced_len = unsynced.end;
        self.lost.push(unsynced);
    }

    fn truncate(&mut self, len: usize) {
        if self.before_cut.is_none() {
            self.before_cut = Some(Box::new(self.clone()));
        }
        Arc::make_mut(&mut self.bytes).truncate(len);
        self.synced_len = self.synced_len.min(len);
        for range in &mut self.lost {
            *range = range.start.min(len)..range.end.min(len);
        }
    }
}

impl Tree {
    fn used_bytes(&self) -> u64 {
        let mut counted = HashSet::new();
        let entries = self.dirs.values().flat_map(|dir| dir.entries.values());
        entries
            .filter(|inode| counted.insert(Arc::as_ptr(inode)))
            .map(|inode| inode.lock().bytes.len() as u64)
            .sum()
    }

    /// Bytes that can still be written, where there is a bound.
    fn free_bytes(&self) -> Option<u64> {
        let capacity = self.capacity_bytes?;
        Some(capacity.saturating_sub(self.used_bytes()))
    }

    fn dir(&mut self, path: &Path) -> io::Result<&mut Dir> {
        if is_root(path) {
            return Ok(self.dirs.entry(path.to_path_buf()).or_default());
        }
        self.dirs.get_mut(path).ok_or_else(|| missing(path))
    }

    /// The same tree with files of its own. Several names of one file stay names of one file.
    fn duplicate(&self) -> Self {
        let mut copies: HashMap<*const Mutex<Content>, Inode> = HashMap::new();
        let mut copy = |inode: &Inode| {
            let copied = copies.entry(Arc::as_ptr(inode));
            Arc::clone(copied.or_insert_with(|| Arc::new(Mutex::new(inode.lock().clone()))))
        };
        let dirs = self.dirs.iter().map(|(path, dir)| {
            let mut list = |entries: &BTreeMap<String, Inode>| -> BTreeMap<String, Inode> {
                let entries = entries.iter();
                entries
                    .map(|(name, inode)| (name.clone(), copy(inode)))
                    .collect()
            };
            let (entries, synced) = (list(&dir.entries), list(&dir.synced));
            let changes = dir.changes.iter().map(|change| match change {
                Change::Add { name, inode } => Change::Add {
                    name: name.clone(),
                    inode: copy(inode),
                },
                other => other.clone(),
            });
            let dir = Dir {
                changes: changes.collect(),
                entries,
                synced,
            };
            (path.clone(), dir)
        });
        Self {
            dirs: dirs.collect(),
            capacity_bytes: self.capacity_bytes,
        }
    }

    /// Whether `from` is a directory; it has the other name then, and so has what it holds.
    fn rename_dir(&mut self, from: &Path, to: &Path) -> io::Result<bool> {
        let (from, to) = (normalize(from), normalize(to));
        if !self.dirs.contains_key(&from) {
            return Ok(false);
        }
        let (parent, name) = split(&to)?;
        if self.dirs.contains_key(&to) || self.dir(&parent)?.entries.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let dirs = std::mem::take(&mut self.dirs).into_iter();
        self.dirs = dirs
            .map(|(path, dir)| match path.strip_prefix(&from) {
                Ok(rest) if rest.as_os_str().is_empty() => (to.clone(), dir),
                Ok(rest) => (to.join(rest), dir),
                Err(_) => (path, dir),
            })
            .collect();
        Ok(true)
    }
}

impl Dir {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.entries);
        self.changes.push(change);
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<String, Inode>) {
        match self {
            Self::Add { name, inode } => {
                entries.insert(name.clone(), Arc::clone(inode));
            }
            Self::Remove { name } => {
                entries.remove(name);
            }
            Self::Rename { from, to } => {
                if let Some(inode) = entries.remove(from) {
                    entries.insert(to.clone(), inode);
                }
            }
        }
    }
}

impl Vfs for MemVfs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = normalize(path);
        let mut tree = self.tree.lock();
        for ancestor in path.ancestors().filter(|ancestor| !is_root(ancestor)) {
            if let Ok((dir, name)) = split(ancestor)
                && let Some(parent) = tree.dirs.get(&dir)
                && parent.entries.contains_key(&name)
            {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        for ancestor in path.ancestors() {
            tree.dirs.entry(ancestor.to_path_buf()).or_default();
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let (dir, name) = split(path)?;
        let mut tree = self.tree.lock();
        if tree.dirs.contains_key(&normalize(path)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let is_full = tree.free_bytes() == Some(0);
        let dir = tree.dir(&dir)?;
        if dir.entries.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = Inode::default();
        dir.change(Change::Add {
            name,
            inode: Arc::clone(&inode),
        });
        let tree = Arc::clone(&self.tree);
        Ok(Box::new(MemWriter { inode, tree }))
    }

    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn ReadableFile>> {
        let bytes = Arc::clone(&self.inode(path)?.lock().bytes);
        let mapped = mode == ReadMode::Mmap;
        Ok(Arc::new(MemReader { bytes, mapped }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let inode = self.inode(path)?;
        inode.lock().sync();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.tree.lock().rename_dir(from, to)? {
            return Ok(());
        }
        let inode = self.inode(from)?;
        let (from_dir, from) = split(from)?;
        let (to_dir, to) = split(to)?;
        let mut tree = self.tree.lock();
        if from_dir == to_dir {
            if from != to {
                tree.dir(&from_dir)?.change(Change::Rename { from, to });
            }
            return Ok(());
        }
        tree.dir(&to_dir)?.change(Change::Add { name: to, inode });
        tree.dir(&from_dir)?.change(Change::Remove { name: from });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inode(path)?;
        let (dir, name) = split(path)?;
        let mut tree = self.tree.lock();
        tree.dir(&dir)?.change(Change::Remove { name });
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        if !self.read_dir(path)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.tree.lock().dirs.remove(&normalize(path));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.inode(from)?;
        let (dir, name) = split(to)?;
        let mut tree = self.tree.lock();
        let dir = tree.dir(&dir)?;
        if dir.entries.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        dir.change(Change::Add { name, inode });
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = normalize(path);
        let mut tree = self.tree.lock();
        let dir = tree.dir(&path)?;
        let files = dir.entries.iter().map(|(name, inode)| DirEntry {
            name: name.clone(),
            len: inode.lock().bytes.len() as u64,
            is_dir: false,
        });
        let mut entries: Vec<DirEntry> = files.collect();
        let children = tree.dirs.keys().filter(|dir| !is_root(dir));
        let children = children.filter(|dir| dir.parent() == Some(&path));
        entries.extend(children.filter_map(|dir| {
            let name = dir.file_name()?.to_str()?.to_owned();
            Some(DirEntry {
                name,
                len: 0,
                is_dir: true,
            })
        }));
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let dir = tree.dir(&normalize(path))?;
        dir.synced = dir.entries.clone();
        dir.changes.clear();
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let normal = normalize(path);
        if is_root(&normal) || self.tree.lock().dirs.contains_key(&normal) {
            return Ok(true);
        }
        Ok(self.inode(path).is_ok())
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn FileLock>>> {
        match self.create(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let path = normalize(path);
        let mut locks = self.locks.lock();
        let holders = locks.entry(path.clone()).or_default();
        match kind {
            _ if holders.exclusive => return Ok(None),
            LockKind::Exclusive if holders.shared > 0 => return Ok(None),
            LockKind::Exclusive => holders.exclusive = true,
            LockKind::Shared => holders.shared += 1,
        }
        let locks = Arc::clone(&self.locks);
        Ok(Some(Box::new(MemLock { locks, path, kind })))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(self.tree.lock().free_bytes())
    }
}

#[derive(Debug)]
struct MemWriter {
    inode: Inode,
    tree: Arc<Mutex<Tree>>,
}

impl WritableFile for MemWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Held, so that no other writer takes the same room.
        let tree = self.tree.lock();
        let free = tree.free_bytes().map(usize::try_from);
        let free = free.and_then(Result::ok).unwrap_or(usize::MAX);
        let fitting = bytes.get(..free).unwrap_or(bytes);
        Arc::make_mut(&mut self.inode.lock().bytes).extend_from_slice(fitting);
        if fitting.len() < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inode.lock().sync();
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut content = self.inode.lock();
        let len = usize::try_from(len).ok();
        let len = len.filter(|&len| len <= content.bytes.len());
        content.truncate(len.ok_or(io::ErrorKind::InvalidInput)?);
        Ok(())
    }
}

#[derive(Debug)]
struct MemReader {
    bytes: Arc<Vec<u8>>,
    mapped: bool,
}

impl ReadableFile for MemReader {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        let bytes = self.bytes.get(start..end);
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn mapping(&self) -> Option<&[u8]> {
        self.mapped.then_some(self.bytes.as_slice())
    }

    fn advise(&self, _advice: Advice, _range: Range<u64>) {}
}

#[derive(Debug)]
struct MemLock {
    locks: Arc<Mutex<HashMap<PathBuf, Holders>>>,
    path: PathBuf,
    kind: LockKind,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        if let Some(holders) = locks.get_mut(&self.path) {
            match self.kind {
                LockKind::Exclusive => holders.exclusive = false,
                LockKind::Shared => holders.shared -= 1,
            }
        }
    }
}

/// The directory and the file name of a path.
fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let path = normalize(path);
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(dir), Some(name)) => Ok((dir.to_path_buf(), name.to_owned())),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The path without `.`, so that one file has one spelling.
fn normalize(path: &Path) -> PathBuf {
    let components = path.components();
    components
        .filter(|component| *component != Component::CurDir)
        .collect()
}

/// The root and the working directory are always there.
fn is_root(path: &Path) -> bool {
    path.file_name().is_none()
}

fn missing(path: &Path) -> io::Error {
    let message = format!("{} does not exist in memory", path.display());
    io::Error::new(io::ErrorKind::NotFound, message)
}
