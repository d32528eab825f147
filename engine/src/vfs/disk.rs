//! The real file system. The only user of `std::fs` in this crate.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::{Advice, DirEntry, FileLock, LockKind, ReadableFile, Vfs, WritableFile};
use crate::options::ReadMode;

/// The disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskVfs;

#[derive(Debug)]
struct DiskWriter {
    file: File,
}

impl WritableFile for DiskWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

#[derive(Debug)]
struct DiskReader {
    file: File,
    len: u64,
    mapping: Option<Mmap>,
}

impl ReadableFile for DiskReader {
    fn len(&self) -> u64 {
        self.len
    }

    #[cfg(unix)]
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = buffer.split_at_mut(count).1;
            offset += count as u64;
        }
        Ok(())
    }

    fn mapping(&self) -> Option<&[u8]> {
        self.mapping.as_deref()
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        let len = range.end.saturating_sub(range.start);
        #[cfg(unix)]
        if let Some(mapping) = &self.mapping {
            let (Ok(start), Ok(len)) = (usize::try_from(range.start), usize::try_from(len)) else {
                return;
            };
            let advice = match advice {
                Advice::WillNeed => memmap2::Advice::WillNeed,
                Advice::Sequential => memmap2::Advice::Sequential,
                // Dropping pages of a mapping is an unchecked advice in memmap2; the page cache
                // below is told instead.
                Advice::DontNeed => return self.advise_file(advice, range.start, len as u64),
            };
            // A hint: a kernel that refuses it still serves the reads.
            let _ = mapping.advise_range(advice, start, len);
            return;
        }
        self.advise_file(advice, range.start, len);
    }
}

impl DiskReader {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn advise_file(&self, advice: Advice, start: u64, len: u64) {
        let advice = match advice {
            Advice::WillNeed => rustix::fs::Advice::WillNeed,
            Advice::Sequential => rustix::fs::Advice::Sequential,
            Advice::DontNeed => rustix::fs::Advice::DontNeed,
        };
        // A hint: a kernel that refuses it still serves the reads.
        let _ = rustix::fs::fadvise(&self.file, start, std::num::NonZeroU64::new(len), advice);
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn advise_file(&self, _advice: Advice, _start: u64, _len: u64) {}
}

#[derive(Debug)]
struct DiskLock {
    /// Dropping the handle releases the lock.
    _file: File,
}

impl FileLock for DiskLock {}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the disk"
)]
impl Vfs for DiskVfs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for ancestor in path.ancestors() {
            if ancestor.as_os_str().is_empty() || ancestor.try_exists()? {
                break;
            }
            missing.push(ancestor);
        }
        fs::create_dir_all(path)?;
        for created in missing {
            if let Some(parent) = created.parent() {
                self.sync_dir(parent)?;
            }
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(DiskWriter { file }))
    }

    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn ReadableFile>> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        // An empty file cannot be mapped everywhere, and has nothing to map.
        let mapping = if mode == ReadMode::Mmap && len > 0 {
            // SAFETY: the engine maps only tables, which it has finished writing. It never truncates
            // or rewrites them, only unlinks them, which keeps the pages of a mapping alive: only the
            // handle that writes a file can truncate it, and only those of logs do, which are read
            // by position. Another program that truncates files
            // inside a store is outside what any mapping can guard against; `ReadMode::Pread` is
            // there for directories that others can write.
            Some(unsafe { Mmap::map(&file)? })
        } else {
            None
        };
        Ok(Arc::new(DiskReader { file, len, mapping }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        // Windows flushes only handles that may write.
        let file = OpenOptions::new()
            .read(true)
            .write(cfg!(windows))
            .open(path)?;
        file.sync_data()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A file that vanishes between listing and looking is simply not there.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            entries.push(DirEntry {
                name,
                len: metadata.len(),
                is_dir: metadata.is_dir(),
            });
        }
        Ok(entries)
    }

    #[cfg(unix)]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        File::open(path)?.sync_all()
    }

    /// Windows makes directory changes durable with the file's own sync and offers no other way.
    #[cfg(not(unix))]
    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn FileLock>>> {
        let read_write = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
        };
        let (file, attempt) = match kind {
            LockKind::Exclusive => {
                let file = read_write()?;
                let attempt = file.try_lock();
                (file, attempt)
            }
            LockKind::Shared => {
                // Readers may lack the right to write.
                let file = File::open(path).or_else(|_| read_write())?;
                let attempt = file.try_lock_shared();
                (file, attempt)
            }
        };
        match attempt {
            Ok(()) => Ok(Some(Box::new(DiskLock { _file: file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    #[cfg(unix)]
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    #[cfg(not(unix))]
    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }
}
