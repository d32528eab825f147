//! Writes one file of the log.

use std::path::Path;

use super::{BatchHeader, Predecessor, encode_predecessors};
use crate::error::{Error, Result};
use crate::log::{CREATION_BYTES_MAX, LogKind, LogWriter};
use crate::types::{FileNumber, SeqNo};
use crate::vfs::Vfs;

/// One file of the log, being written.
///
/// An append that fails leaves the file with what it held before: [`WalWriter::finish`] it and go
/// on in a new one. After a failed sync the log must not be continued at all.
#[derive(Debug)]
pub(crate) struct WalWriter {
    log: LogWriter,
    number: FileNumber,
    finished: bool,
}

impl WalWriter {
    /// Creates the file, durably, as the successor of every older file that is still needed.
    ///
    /// After an error there may be a file of this number, for the caller to remove. It is harmless:
    /// the predecessors cannot grow any more, whether this file exists or not.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        path: &Path,
        number: FileNumber,
        predecessors: &[Predecessor],
    ) -> Result<Self> {
        let first_record = encode_predecessors(predecessors);
        let mut log = LogWriter::create(vfs, path, LogKind::Wal, number)?;
        log.push(&[&first_record])?;
        if log.pushed_len() > CREATION_BYTES_MAX as u64 {
            let count = predecessors.len();
            return Err(
                Error::limit(format!("{count} log files wait to be flushed"))
                    .at_path(path)
                    .with_remedy("reopen the store and flush it"),
            );
        }
        log.sync()?;
        let dir = path.parent().unwrap_or(Path::new("."));
        vfs.sync_dir(dir)
            .map_err(|error| Error::io("sync directory of", dir, error))?;
        Ok(Self {
            log,
            number,
            finished: false,
        })
    }

    /// Appends a batch of `count` operations in this process only. The payload is what
    /// [`super::BatchEncoder`] made, in any number of parts.
    pub(crate) fn push(&mut self, first_seq: SeqNo, count: u32, payload: &[&[u8]]) -> Result<()> {
        if self.finished {
            let error = Error::new(crate::ErrorKind::Failed, "log file is finished");
            return Err(error.at_path(self.log.path()));
        }
        let header = BatchHeader { first_seq, count }.encode();
        let mut parts = Vec::with_capacity(payload.len() + 1);
        parts.push(header.as_slice());
        parts.extend_from_slice(payload);
        self.log.push(&parts)
    }

    /// Hands everything pushed to the operating system.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        self.log.hand_over()
    }

    /// Makes everything pushed survive a power cut; after a failed append, everything before it.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.log.sync()
    }

    /// After a failure, cuts off what the file holds behind `len`, which [`WalWriter::len`] said
    /// before: batches that were reported as failed, and torn ones. Their writers are told the truth
    /// then also by the next process, and the disk gets the room back.
    ///
    /// Not while the file may be read: a reader that sees it shrink takes that for damage.
    pub(crate) fn cut_back(&mut self, len: u64) -> Result<()> {
        self.finished = true;
        self.log.cut_back(len)
    }

    /// Syncs, and lets nothing be appended any more, so that a successor can name this file's
    /// length. Can be repeated, also after a failed append.
    pub(crate) fn finish(&mut self) -> Result<Predecessor> {
        self.log.sync()?;
        self.finished = true;
        Ok(Predecessor {
            number: self.number,
            len: self.log.len(),
        })
    }

    /// Syncs and leaves a witness to it, by which later damage to the last batches is known from
    /// a torn tail. For the log's last file, when the store is closed. Returns how far it is synced.
    pub(crate) fn close(mut self) -> Result<Predecessor> {
        let is_finished = self.finished;
        let synced = self.finish()?;
        if !is_finished {
            self.log.seal()?;
            self.log.hand_over()?;
        }
        Ok(synced)
    }

    /// Bytes handed over.
    pub(crate) fn len(&self) -> u64 {
        self.log.len()
    }
}
