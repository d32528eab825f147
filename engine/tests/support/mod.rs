//! A file system that tests steer, and helpers to fill and check stores.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate that uses some of it; helpers of tests fail like tests"
)]

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ppc_engine::vfs::{
    Advice, DirEntry, FileLock, LockKind, MemVfs, ReadableFile, Vfs, WritableFile,
};
use ppc_engine::{
    Db, DbOptions, IterOptions, KeyRange, Keyspace, KeyspaceOptions, ReadMode, TableOptions,
};

/// Called at the creation and at each append of a table file.
pub type OnTable = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// Called at each positioned read of a table file, with the bytes asked for.
pub type OnRead = dyn Fn(&Path, Range<u64>) + Send + Sync;

/// Called before a file is opened for reading.
pub type OnOpen = dyn Fn(&Path) + Send + Sync;

/// Files in memory; tables can be watched, slowed and failed, and free space is what the test says.
#[derive(Clone)]
pub struct SteeredVfs {
    pub files: MemVfs,
    free_bytes: Arc<AtomicU64>,
    on_create: Arc<OnTable>,
    on_append: Arc<OnTable>,
    on_read: Arc<OnRead>,
    on_open: Arc<OnOpen>,
}

impl SteeredVfs {
    pub fn new() -> Self {
        Self::over(MemVfs::new())
    }

    pub fn over(files: MemVfs) -> Self {
        Self {
            files,
            free_bytes: Arc::new(AtomicU64::new(u64::MAX)),
            on_create: Arc::new(|_| Ok(())),
            on_append: Arc::new(|_| Ok(())),
            on_read: Arc::new(|_, _| {}),
            on_open: Arc::new(|_| {}),
        }
    }

    /// `act` is given the name of the thread that creates a table.
    pub fn on_create(self, act: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            on_create: Arc::new(act),
            ..self
        }
    }

    /// `act` is given the name of the thread that appends to a table.
    pub fn on_append(self, act: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            on_append: Arc::new(act),
            ..self
        }
    }

    pub fn on_read(self, act: impl Fn(&Path, Range<u64>) + Send + Sync + 'static) -> Self {
        Self {
            on_read: Arc::new(act),
            ..self
        }
    }

    pub fn on_open(self, act: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self {
            on_open: Arc::new(act),
            ..self
        }
    }

    pub fn set_free_bytes(&self, bytes: u64) {
        self.free_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The table files of the store.
    pub fn tables(&self) -> Vec<PathBuf> {
        let files = self.files.files().into_iter();
        files.filter(|path| is_table(path)).collect()
    }

    pub fn table_bytes(&self) -> u64 {
        let tables = self.tables().into_iter();
        // Background threads may remove one meanwhile.
        let open = tables.filter_map(|path| self.files.open(&path, ReadMode::Pread).ok());
        open.map(|file| file.len()).sum()
    }
}

impl std::fmt::Debug for SteeredVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SteeredVfs")
    }
}

fn is_table(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "table")
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[derive(Debug)]
struct SteeredWriter {
    vfs: SteeredVfs,
    inner: Box<dyn WritableFile>,
}

impl WritableFile for SteeredWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.vfs.on_append)(&thread_name())?;
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }
}

#[derive(Debug)]
struct SteeredReader {
    vfs: SteeredVfs,
    path: PathBuf,
    inner: Arc<dyn ReadableFile>,
}

impl ReadableFile for SteeredReader {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (self.vfs.on_read)(&self.path, offset..offset + buffer.len() as u64);
        self.inner.read_exact_at(buffer, offset)
    }

    fn mapping(&self) -> Option<&[u8]> {
        self.inner.mapping()
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.inner.advise(advice, range);
    }
}

impl Vfs for SteeredVfs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.files.create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        if !is_table(path) {
            return self.files.create(path);
        }
        (self.on_create)(&thread_name())?;
        Ok(Box::new(SteeredWriter {
            vfs: self.clone(),
            inner: self.files.create(path)?,
        }))
    }

    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn ReadableFile>> {
        (self.on_open)(path);
        let inner = self.files.open(path, mode)?;
        if !is_table(path) {
            return Ok(inner);
        }
        Ok(Arc::new(SteeredReader {
            vfs: self.clone(),
            path: path.to_path_buf(),
            inner,
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.files.sync_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.files.remove_dir(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.hard_link(from, to)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.files.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.files.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.files.exists(path)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn FileLock>>> {
        self.files.lock(path, kind)
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(Some(self.free_bytes.load(Ordering::Relaxed)))
    }
}

/// Small memtables, so that little data makes many tables.
pub fn db_options(vfs: &SteeredVfs) -> DbOptions {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(vfs.clone());
    options.memtable_bytes = 64 << 10;
    options.compression_threads = 1;
    options.background_threads = 2;
    options
}

/// Small tables and levels.
pub fn keyspace_options() -> KeyspaceOptions {
    let mut options = KeyspaceOptions::uniform(TableOptions::blocks(1, 4 << 10));
    options.table_bytes_target = 32 << 10;
    options.base_level_bytes = 64 << 10;
    options.level_multiplier = 4;
    options
}

pub fn open(options: DbOptions) -> (Db, Keyspace) {
    let db = Db::open("store", options).unwrap();
    let keyspace = db.keyspace("k", keyspace_options()).unwrap();
    (db, keyspace)
}

pub fn key(number: u64) -> Vec<u8> {
    format!("{number:012}").into_bytes()
}

/// Incompressible, so that stored bytes are predictable; the same for the same seed.
pub fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The numbers below `count` in an order that looks random; `count` is a power of two.
pub fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    assert!(count.is_power_of_two());
    (0..count).map(move |at| (at.wrapping_mul(0x9e37_79b1) ^ 0x55) & (count - 1))
}

pub fn dump(keyspace: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = keyspace
        .iter(KeyRange::all(), IterOptions::default())
        .unwrap();
    let entries = entries.map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    entries.collect()
}

/// Tables in a level of the first keyspace.
pub fn tables_in_level(db: &Db, level: usize) -> u64 {
    db.stats().keyspaces[0].levels[level].tables
}

/// Waits for what background threads are to bring about.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
