//! What an import did, in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::progress::ProblemKind;

/// The account of one import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImportReport {
    /// Files read from the sources, whatever became of them.
    pub files_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Files whose content was new and is now stored.
    pub files_stored: u64,
    /// Their bytes.
    pub raw_bytes_stored: u64,
    /// Those of them whose name came from [`super::ImportOptions::names`].
    pub files_named: u64,
    /// Files whose content came earlier in this import.
    pub duplicates: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// Files whose content the archive had already: from earlier imports, or from an earlier commit
    /// of this one.
    pub present: u64,
    /// Their bytes.
    pub present_bytes: u64,
    /// Files whose stated hash is not the content's.
    pub mismatches: u64,
    /// Those of them that were left out.
    pub rejected: u64,
    /// Items that could not be read or stored, by sort; not counted as read.
    pub problems: BTreeMap<ProblemKind, u64>,
    /// Commits made.
    pub commits: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether it was asked to finish early.
    pub is_interrupted: bool,
    /// Whether a source failed, at which it ended; what was read before is committed.
    pub has_failed_source: bool,
    /// Stored bytes of all tables before the import.
    pub stored_bytes_before: u64,
    /// Stored bytes of all tables after it.
    pub stored_bytes_after: u64,
    /// Bytes of tables, sorted runs and logs written to the disk.
    pub written_bytes: u64,
    /// Most memory the process ever had resident, where the system tells.
    pub peak_memory_bytes: Option<u64>,
}

impl ImportReport {
    /// Stored bytes the import added.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes_after
            .saturating_sub(self.stored_bytes_before)
    }

    /// Raw bytes read a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        (self.bytes_read as f64 / self.elapsed.as_secs_f64().max(1e-9)) as u64
    }

    /// Bytes written to the disk for each byte that stays there; none if nothing was stored.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let stored = self.stored_bytes();
        (stored > 0).then(|| self.written_bytes as f64 / stored as f64)
    }
}

/// Most memory this process ever had resident, where the system tells.
#[must_use]
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
