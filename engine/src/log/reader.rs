//! Reads a log file record by record and judges what it finds at its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    CREATION_BYTES_MAX, FileHeader, HEADER_BYTES, LogKind, RECORD_HEADER_BYTES, RecordHeader,
    UNIT_RECORD_PAYLOAD,
};
use crate::checksum::unit_checksum;
use crate::error::{Error, Result};
use crate::options::ReadMode;
use crate::types::FileNumber;
use crate::vfs::{ReadableFile, Vfs};

/// Read at once, so that small records cost no call each.
const WINDOW_BYTES: u64 = 1 << 20;

/// A log file as [`LogReader::open`] finds it.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Its header is whole.
    Log(LogReader),
    /// A power cut came before its header was durable: it never held an acknowledged record.
    Unfinished,
}

/// Walks over the records of a log file.
#[derive(Debug)]
pub(crate) struct LogReader {
    file: Arc<dyn ReadableFile>,
    path: PathBuf,
    header: FileHeader,
    /// Where the log ends: the file's length, or what [`LogReader::trust`] set.
    end: u64,
    /// Every byte before `end` is known to have been valid once.
    trusted: bool,
    /// So is every byte before this: what [`LogReader::expect`] set.
    expected_len: u64,
    /// Offset of the next record.
    offset: u64,
    /// Where the last record with a payload ends.
    payloads_end: u64,
    /// The largest offset that a record said was synced.
    synced_to: u64,
    torn: bool,
    window: Vec<u8>,
    window_start: u64,
}

/// A record's place and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) offset: u64,
    pub(crate) payload: &'a [u8],
}

impl LogReader {
    /// Opens a log and checks its header.
    pub(crate) fn open(vfs: &dyn Vfs, path: &Path, kind: LogKind) -> Result<Opened> {
        let file = vfs
            .open(path, ReadMode::Pread)
            .map_err(|error| Error::io("open", path, error))?;
        let mut bytes = [0; HEADER_BYTES];
        let header_len = file.len().min(HEADER_BYTES as u64) as usize;
        if let Some(present) = bytes.get_mut(..header_len) {
            let read = file.read_exact_at(present, 0);
            read.map_err(|error| Error::io("read", path, error))?;
        }
        // The header's last byte is never 0 once it is written.
        if bytes.last() == Some(&0) && file.len() <= CREATION_BYTES_MAX as u64 {
            return Ok(Opened::Unfinished);
        }
        let header = FileHeader::decode(kind, &bytes).map_err(|error| error.at_path(path))?;
        Ok(Opened::Log(Self {
            end: file.len(),
            file,
            path: path.to_path_buf(),
            header,
            trusted: false,
            expected_len: 0,
            offset: HEADER_BYTES as u64,
            payloads_end: 0,
            synced_to: 0,
            torn: false,
            window: Vec::new(),
            window_start: 0,
        }))
    }

    /// The number in the header.
    pub(crate) fn number(&self) -> FileNumber {
        self.header.number
    }

    /// Ends the log at `end`, up to which its writer or an earlier recovery vouched for it: an
    /// invalid record before is an error, and what lies beyond is no part of the log.
    pub(crate) fn trust(&mut self, end: u64) -> Result<()> {
        if end > self.end {
            let found = self.end;
            return Err(Error::corruption(format!(
                "log is cut short: {found} of {end} bytes are left"
            ))
            .at_path(&self.path)
            .at_offset(found));
        }
        self.end = end;
        self.trusted = true;
        Ok(())
    }

    /// Takes it that the log was durable up to `len` once: an invalid record before is an error. Other
    /// than with [`LogReader::trust`] what lies beyond is part of the log, and nothing is known of it.
    pub(crate) fn expect(&mut self, len: u64) {
        self.expected_len = len;
    }

    /// The next record with a payload; none at the end and at a torn tail. A hole is an error.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>> {
        while !self.torn && self.offset < self.end {
            let offset = self.offset;
            let RecordHeader { len, synced_to, .. } = match self.check_record(offset)? {
                Ok(header) => header,
                Err(reason) => {
                    self.judge(offset, reason)?;
                    break;
                }
            };
            let payload_start = offset + RECORD_HEADER_BYTES as u64;
            self.offset = payload_start + u64::from(len);
            self.synced_to = self.synced_to.max(synced_to);
            if len > 0 {
                self.payloads_end = self.offset;
                let payload = self.window_at(payload_start, len as usize);
                return Ok(Some(Record { offset, payload }));
            }
        }
        Ok(None)
    }

    /// Where the valid records end, as far as they were read.
    pub(crate) fn valid_len(&self) -> u64 {
        self.offset
    }

    /// Where the last record with a payload ends, as far as they were read; 0 if there is none.
    pub(crate) fn payloads_end(&self) -> u64 {
        self.payloads_end
    }

    /// Whether every record that was read is known to be on the disk. Asked after the last one.
    pub(crate) fn is_witnessed(&self) -> bool {
        self.trusted || self.payloads_end <= self.synced_to
    }

    /// Bytes after the valid records, where the log was cut.
    pub(crate) fn cut_bytes(&self) -> u64 {
        if self.torn { self.end - self.offset } else { 0 }
    }

    /// Names this file in an error about a record's payload.
    pub(crate) fn locate(&self, error: Error, offset: u64) -> Error {
        error.at_path(&self.path).at_offset(offset)
    }

    /// The record's header, or why there is no record at `offset`. Loads it into the window.
    fn check_record(&mut self, offset: u64) -> Result<Result<RecordHeader, &'static str>> {
        let left = self.end - offset;
        if left < RECORD_HEADER_BYTES as u64 {
            return Ok(Err("record header is cut short"));
        }
        self.load(offset, RECORD_HEADER_BYTES as u64)?;
        let bytes = self.window_at(offset, RECORD_HEADER_BYTES);
        let Some(header) = RecordHeader::decode(self.header.id, offset, bytes) else {
            return Ok(Err("record header checksum mismatch"));
        };
        let record_len = RECORD_HEADER_BYTES as u64 + u64::from(header.len);
        if left < record_len {
            return Ok(Err("record payload is cut short"));
        }
        self.load(offset, record_len)?;
        let payload = self.window_at(offset + RECORD_HEADER_BYTES as u64, header.len as usize);
        let crc = unit_checksum(UNIT_RECORD_PAYLOAD, self.header.id, offset, &[payload]);
        if crc != header.payload_crc {
            return Ok(Err("record payload checksum mismatch"));
        }
        Ok(Ok(header))
    }

    /// Cuts the log at an invalid record, or fails if the record was once durable.
    fn judge(&mut self, offset: u64, reason: &str) -> Result<()> {
        let witness = if self.trusted {
            Some(self.end)
        } else if offset < self.expected_len {
            Some(self.expected_len)
        } else {
            self.find_witness(offset)?
        };
        let Some(witness) = witness else {
            self.torn = true;
            return Ok(());
        };
        Err(Error::corruption(format!(
            "{reason}, and the log was intact up to offset {witness} before"
        ))
        .at_path(&self.path)
        .at_offset(offset)
        .with_remedy("run salvage to keep what is readable"))
    }

    /// The offset up to which a valid record after `hole` says that the log was synced, if that
    /// is beyond `hole`.
    fn find_witness(&mut self, hole: u64) -> Result<Option<u64>> {
        let header_len = RECORD_HEADER_BYTES as u64;
        let mut offset = hole + 1;
        while offset + header_len <= self.end {
            let chunk_len = WINDOW_BYTES.min(self.end - offset);
            self.load(offset, chunk_len)?;
            let chunk = self.window_at(offset, chunk_len as usize);
            for (at, bytes) in (offset..).zip(chunk.windows(RECORD_HEADER_BYTES)) {
                let plausible = |synced_to: u64| synced_to > hole && synced_to <= at;
                // The cheap test comes first: almost no bytes pass it.
                if plausible(synced_to_field(bytes))
                    && let Some(header) = RecordHeader::decode(self.header.id, at, bytes)
                {
                    return Ok(Some(header.synced_to));
                }
            }
            offset += chunk_len - (header_len - 1);
        }
        Ok(None)
    }

    /// Makes the window hold `len` bytes from `offset`, which lie before `end`.
    fn load(&mut self, offset: u64, len: u64) -> Result<()> {
        let window_end = self.window_start + self.window.len() as u64;
        if offset >= self.window_start && offset + len <= window_end {
            return Ok(());
        }
        let wanted = len.max(WINDOW_BYTES).min(self.end - offset);
        let wanted = usize::try_from(wanted)
            .map_err(|_| Error::limit("log record does not fit in memory").at_path(&self.path))?;
        self.window.resize(wanted, 0);
        self.window_start = offset;
        let read = self.file.read_exact_at(&mut self.window, offset);
        if let Err(error) = read {
            self.window.clear();
            return Err(Error::io("read", &self.path, error).at_offset(offset));
        }
        Ok(())
    }

    /// Bytes that [`LogReader::load`] has loaded.
    fn window_at(&self, offset: u64, len: usize) -> &[u8] {
        let start = (offset - self.window_start) as usize;
        self.window.get(start..start + len).unwrap_or_default()
    }
}

fn synced_to_field(record_header: &[u8]) -> u64 {
    let field = record_header.last_chunk::<8>();
    field.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
