//! Making an archive whole again after its store was salvaged: contents without their index entries,
//! and entries without their content, are what lost blocks leave behind.
//!
//! Works on an archive that nobody else has open. Only what is wrong is written.

use ppc_engine::{Batch, Durability, IterOptions, KeyRange};

use super::index::Index;
use super::{Archive, Stored};
use crate::hash::{Hashes, Sha1Git};
use crate::key::PpcKey;
use crate::progress::{Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::{Error, ErrorKind, Result};

/// Bytes of writes that are applied together.
const BATCH_BYTES: usize = 1 << 20;
/// Contents between two reports of progress.
const PROGRESS_FILES: u64 = 256;

/// What a repair came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Contents that are sound.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Contents that were removed, because they are not what their key says. Each was told to the
    /// observer.
    pub contents_removed: u64,
    /// Index entries that were added or set right.
    pub entries_added: u64,
    /// Index entries that led nowhere, and were removed.
    pub entries_removed: u64,
}

impl Archive {
    /// Removes contents that are not what their keys say, and makes every index agree with the rest.
    pub fn repair(&self, observer: &dyn Observer) -> Result<RepairReport> {
        let mut repair = Repair {
            archive: self,
            observer,
            batch: Batch::new(),
            report: RepairReport::default(),
        };
        repair.contents()?;
        repair.write()?;
        for index in &self.inner.indexes {
            repair.index(index)?;
            repair.write()?;
        }
        self.sync()?;
        Ok(repair.report)
    }

    /// Stores `content` under `encoded_key` if they fit each other; the index entries are for
    /// [`Archive::repair`] to add.
    pub(crate) fn adopt(&self, encoded_key: &[u8], content: &[u8]) -> Result<bool> {
        let Ok(key) = PpcKey::decode(encoded_key) else {
            return Ok(false);
        };
        if Sha1Git::of(content) != key.hash() {
            return Ok(false);
        }
        self.inner
            .contents
            .put(encoded_key, content, Durability::Buffered)?;
        Ok(true)
    }
}

struct Repair<'a> {
    archive: &'a Archive,
    observer: &'a dyn Observer,
    batch: Batch,
    report: RepairReport,
}

impl Repair<'_> {
    fn contents(&mut self) -> Result<()> {
        let archive = self.archive;
        let contents = &archive.inner.contents;
        let mut progress = Progress::start(Phase::Verifying, Some(archive.raw_bytes_estimate()));
        for entry in contents.iter(KeyRange::all(), IterOptions::default())? {
            self.check_wish()?;
            let (encoded, content) = entry?;
            let Ok(key) = PpcKey::decode(&encoded) else {
                self.remove(&encoded, "this is no PPC key");
                continue;
            };
            self.content(&encoded, &Stored { key, content })?;
            progress.files = self.report.files;
            progress.bytes = self.report.bytes;
            if progress.files.is_multiple_of(PROGRESS_FILES) {
                self.observer.progress(&progress);
            }
            self.write_if_full()?;
        }
        Ok(())
    }

    fn content(&mut self, encoded: &[u8], stored: &Stored) -> Result<()> {
        let archive = self.archive;
        let hashes = Hashes::of(archive.indexes(), &stored.content);
        if hashes.sha1_git != Some(stored.key.hash()) {
            self.remove(encoded, "the content has another hash than its key says");
            return Ok(());
        }
        self.report.files += 1;
        self.report.bytes += stored.content.len() as u64;
        for index in &archive.inner.indexes {
            let Some((hash, value)) = index.entry(&hashes, encoded) else {
                continue;
            };
            if index.keyspace().get(&hash)?.as_deref() != Some(value) {
                self.batch.put(index.keyspace(), &hash, value);
                self.report.entries_added += 1;
            }
        }
        Ok(())
    }

    fn remove(&mut self, encoded: &[u8], why: &str) {
        self.batch.delete(&self.archive.inner.contents, encoded);
        self.report.contents_removed += 1;
        let place = match PpcKey::decode(encoded) {
            Ok(key) => key.to_string(),
            Err(_) => encoded.escape_ascii().to_string(),
        };
        let problem = Problem::new(ProblemKind::Damage, place, why);
        self.observer.problem(&problem);
    }

    /// Removes the entries of an index that lead nowhere.
    fn index(&mut self, index: &Index) -> Result<()> {
        let contents = &self.archive.inner.contents;
        for entry in index
            .keyspace()
            .iter(KeyRange::all(), IterOptions::default())?
        {
            self.check_wish()?;
            let (hash, value) = entry?;
            if !contents.contains(index.encoded_key(&hash, &value))? {
                self.batch.delete(index.keyspace(), &hash);
                self.report.entries_removed += 1;
                self.write_if_full()?;
            }
        }
        Ok(())
    }

    fn check_wish(&self) -> Result<()> {
        match self.observer.wish() {
            Wish::GoOn => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "the repair was stopped")),
        }
    }

    fn write_if_full(&mut self) -> Result<()> {
        match self.batch.bytes() >= BATCH_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.archive.inner.db.write(batch, Durability::Buffered)
    }
}
