//! How far the reading of a source is, for a progress bar on another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stands for a total that is not known (yet).
const UNKNOWN: u64 = u64::MAX;

/// Shared counters. All are statistics: relaxed, and possibly a moment apart from each other.
///
/// Bytes are those of the input as it lies on disk where the source can tell (compressed bytes of
/// a tar or Parquet file), else those of the contents. `read_bytes` ends at `total_bytes`.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    read_bytes: AtomicU64,
    read_files: AtomicU64,
    total_bytes: AtomicU64,
    total_files: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Nothing read, and totals unknown. The methods that count are for sources to call.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Counters {
            read_bytes: AtomicU64::new(0),
            read_files: AtomicU64::new(0),
            total_bytes: AtomicU64::new(UNKNOWN),
            total_files: AtomicU64::new(UNKNOWN),
        }))
    }

    /// Bytes read so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.0.read_bytes.load(Ordering::Relaxed)
    }

    /// Files and problems yielded so far.
    #[must_use]
    pub fn read_files(&self) -> u64 {
        self.0.read_files.load(Ordering::Relaxed)
    }

    /// Bytes there are to read, once known.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        Some(self.0.total_bytes.load(Ordering::Relaxed)).filter(|total| *total != UNKNOWN)
    }

    /// Files there are to yield, once known.
    #[must_use]
    pub fn total_files(&self) -> Option<u64> {
        Some(self.0.total_files.load(Ordering::Relaxed)).filter(|total| *total != UNKNOWN)
    }

    /// Counts from the beginning again, with the totals as they are.
    pub fn restart(&self) {
        self.0.read_bytes.store(0, Ordering::Relaxed);
        self.0.read_files.store(0, Ordering::Relaxed);
    }

    /// Counts bytes that were read.
    pub fn add_bytes(&self, bytes: u64) {
        self.0.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a file or problem that was yielded.
    pub fn add_file(&self) {
        self.0.read_files.fetch_add(1, Ordering::Relaxed);
    }

    /// Says how many bytes there are.
    pub fn set_total_bytes(&self, bytes: u64) {
        self.0.total_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Says how many files and problems there are.
    pub fn set_total_files(&self, files: u64) {
        self.0.total_files.store(files, Ordering::Relaxed);
    }
}
