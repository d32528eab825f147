//! Appends records to a new log file.

use std::path::{Path, PathBuf};

use super::{FileHeader, LogKind, RECORD_HEADER_BYTES, RecordHeader, UNIT_RECORD_PAYLOAD};
use crate::checksum::unit_checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{FileId, FileNumber};
use crate::vfs::{Vfs, WritableFile};

/// Records are gathered up to this many bytes before they are handed to the operating system by
/// themselves; payloads from this size on are not copied.
const BUFFER_BYTES: usize = 64 << 10;

/// A log file being written. Records pass three stages: pushed (in this process), handed over (to
/// the operating system), synced.
///
/// After a failed hand-over nothing can be pushed any more, but what was handed over before can
/// still be synced. After a failed sync nothing can be done at all: the system may have dropped
/// the pages and report success the next time.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    id: FileId,
    buffer: Vec<u8>,
    handed_len: u64,
    synced_len: u64,
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Failure {
    HandOver(Error),
    Sync(Error),
}

impl LogWriter {
    /// Creates the file; its header is pushed, not yet handed over.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        path: &Path,
        kind: LogKind,
        number: FileNumber,
    ) -> Result<Self> {
        let created = vfs.create(path);
        let file = created.map_err(|error| Error::io("create", path, error))?;
        let (header, buffer) = FileHeader::random(kind, number);
        Ok(Self {
            file,
            path: path.to_path_buf(),
            id: header.id,
            buffer,
            handed_len: 0,
            synced_len: 0,
            failure: None,
        })
    }

    /// Pushes one record whose payload is the parts one after another.
    pub(crate) fn push(&mut self, payload: &[&[u8]]) -> Result<()> {
        self.check_usable()?;
        let len: usize = payload.iter().map(|part| part.len()).sum();
        let record_len = u32::try_from(len).map_err(|_| {
            Error::limit(format!("log record of {len} bytes exceeds 4 GiB")).at_path(&self.path)
        })?;
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over()?;
        }
        let offset = self.pushed_len();
        let header = RecordHeader {
            payload_crc: unit_checksum(UNIT_RECORD_PAYLOAD, self.id, offset, payload),
            len: record_len,
            synced_to: self.synced_len,
        };
        header.encode(self.id, offset, &mut self.buffer);
        if len < BUFFER_BYTES {
            payload
                .iter()
                .for_each(|part| self.buffer.extend_from_slice(part));
            return Ok(());
        }
        self.hand_over_large(payload)
    }

    /// Hands everything pushed to the operating system: it survives this process.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        self.check_usable()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let appended = self.file.append(&self.buffer);
        self.note_appended(appended, self.buffer.len())
    }

    /// Makes everything pushed survive a power cut; after a failed hand-over, everything that was
    /// handed over before it.
    pub(crate) fn sync(&mut self) -> Result<()> {
        match &self.failure {
            None => self.hand_over()?,
            Some(Failure::HandOver(_)) => {}
            Some(Failure::Sync(error)) => return Err(self.unusable(error)),
        }
        if self.synced_len == self.handed_len {
            return Ok(());
        }
        self.sync_file()
    }

    /// After a failure, cuts off what lies behind `len`, the end of a record that was handed over:
    /// records that must not come back, and what a failed append left of one. Syncs the cut, unless a
    /// sync has failed before. An error leaves the file as it was, or in doubt like a failed sync.
    ///
    /// Must not be called while the file may be read. Nothing can be pushed any more.
    pub(crate) fn cut_back(&mut self, len: u64) -> Result<()> {
        self.buffer.clear();
        if len < self.synced_len || len > self.handed_len {
            return Err(Error::invalid_input("no place to cut a log at").at_path(&self.path));
        }
        let truncated = self.file.truncate(len);
        truncated.map_err(|error| Error::io("truncate", &self.path, error))?;
        self.handed_len = len;
        if matches!(self.failure, Some(Failure::Sync(_))) {
            return Ok(());
        }
        self.sync_file()
    }

    /// Pushes a record that bears witness to the last sync.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.push(&[])
    }

    /// Bytes in whole records that were handed over: what a reader of the file may rely on.
    pub(crate) fn len(&self) -> u64 {
        self.handed_len
    }

    /// Bytes that survive a power cut; the end of a record.
    pub(crate) fn synced_len(&self) -> u64 {
        self.synced_len
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes pushed, whether handed over or not.
    pub(crate) fn pushed_len(&self) -> u64 {
        self.handed_len + self.buffer.len() as u64
    }

    /// The buffer ends in the header of a record whose payload is too large to copy.
    fn hand_over_large(&mut self, payload: &[&[u8]]) -> Result<()> {
        let mut appended = self.file.append(&self.buffer);
        let mut len = self.buffer.len();
        for part in payload {
            appended = appended.and_then(|()| self.file.append(part));
            len += part.len();
        }
        debug_assert!(len >= RECORD_HEADER_BYTES);
        self.note_appended(appended, len)
    }

    fn sync_file(&mut self) -> Result<()> {
        if let Err(error) = self.file.sync() {
            let error = Error::io("sync", &self.path, error);
            self.failure = Some(Failure::Sync(error.duplicate()));
            return Err(error);
        }
        self.synced_len = self.handed_len;
        Ok(())
    }

    fn note_appended(&mut self, appended: std::io::Result<()>, len: usize) -> Result<()> {
        self.buffer.clear();
        if let Err(error) = appended {
            let error = Error::io("append to", &self.path, error);
            self.failure = Some(Failure::HandOver(error.duplicate()));
            return Err(error);
        }
        self.handed_len += len as u64;
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(Failure::HandOver(error) | Failure::Sync(error)) => Err(self.unusable(error)),
        }
    }

    fn unusable(&self, failure: &Error) -> Error {
        Error::new(
            ErrorKind::Failed,
            "log takes no more records after an earlier failure",
        )
        .at_path(&self.path)
        .with_source(failure.duplicate())
    }
}
