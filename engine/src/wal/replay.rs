//! Reads the log back after a crash or a close.

use std::collections::BTreeMap;
use std::path::Path;

use super::{BatchHeader, Predecessor, decode_batch, decode_predecessors};
use crate::coding::Cursor;
use crate::dir::{FileKind, file_path};
use crate::error::{Error, Result};
use crate::log::{LogKind, LogReader, Opened};
use crate::manifest::ClosedLog;
use crate::options::ReadMode;
use crate::types::{FileNumber, SeqNo};
use crate::vfs::Vfs;

/// What a replay found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayReport {
    /// In order.
    pub(crate) files: Vec<ReplayedFile>,
    /// Torn tails.
    pub(crate) cut: Vec<Cut>,
    /// The largest sequence number of all; zero if there are no batches.
    pub(crate) last_seq: SeqNo,
}

/// A file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayedFile {
    pub(crate) number: FileNumber,
    /// Where its part of the log ends; 0 for one without a batch.
    pub(crate) len: u64,
    /// That part is known to be on the disk, not only to be readable.
    pub(crate) is_witnessed: bool,
}

/// A torn tail that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) number: FileNumber,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl ReplayReport {
    /// The files as predecessors of a new one that continues the log; none if the log must not be
    /// continued, because it is not known that all of it is on the disk.
    ///
    /// Bytes that a killed process had only handed to the operating system are read back like any
    /// others; a successor that named them would, after a power cut, turn a harmless torn tail into
    /// a hole. Syncing them now does not help: if a sync of theirs failed before, the system takes
    /// them for written, and the next sync succeeds without saving them.
    pub(crate) fn predecessors(&self) -> Option<Vec<Predecessor>> {
        let named = self.files.iter().map(|file| {
            let ReplayedFile { number, len, .. } = *file;
            file.is_witnessed.then_some(Predecessor { number, len })
        });
        named.collect()
    }
}

/// A file whose first record has been read.
struct Opening {
    number: FileNumber,
    /// None for a file whose creation was interrupted.
    log: Option<LogReader>,
}

/// Gives every batch of the store's log files to `on_batch`, in order, as its first sequence
/// number and the payload that [`decode_batch`] reads. Writes nothing.
///
/// A torn tail is cut from a file that no successor names; anything else that is not what was
/// written is an error, and so is what `on_batch` returns. `closed` are the logs, if any, that are
/// known to have been whole: one that is not there is an error, and a tail torn before its end.
pub(crate) fn replay(
    vfs: &dyn Vfs,
    dir: &Path,
    files: &[FileNumber],
    closed: &[ClosedLog],
    on_batch: &mut dyn FnMut(SeqNo, &[u8]) -> Result<()>,
) -> Result<ReplayReport> {
    for log in closed {
        check_closed(vfs, dir, files, *log)?;
    }
    let mut files = files.to_vec();
    files.sort_unstable();
    files.dedup();
    let mut named = BTreeMap::new();
    let mut openings = Vec::with_capacity(files.len());
    for number in files {
        openings.push(open(vfs, dir, number, &mut named)?);
    }
    let mut report = ReplayReport::default();
    for mut opening in openings {
        let closed = closed.iter().find(|log| log.number == opening.number);
        match (&mut opening.log, closed) {
            (Some(log), Some(closed)) => log.expect(closed.len),
            (None, Some(_)) => {
                let path = &file_path(dir, FileKind::Wal, opening.number);
                let error = Error::corruption(
                    "the write-ahead log is empty, and was not when the store was closed",
                );
                return Err(error
                    .at_path(path)
                    .with_remedy("run salvage to keep what is readable"));
            }
            (_, None) => {}
        }
        let named_len = named.get(&opening.number).copied();
        replay_file(opening, named_len, on_batch, &mut report)?;
    }
    Ok(report)
}

/// Fails if a log is not there, or shorter than it was when the store was closed.
fn check_closed(vfs: &dyn Vfs, dir: &Path, files: &[FileNumber], log: ClosedLog) -> Result<()> {
    let ClosedLog { number, len } = log;
    let path = file_path(dir, FileKind::Wal, number);
    let damage = |message: String| {
        let error = Error::corruption(message).at_path(&path);
        error.with_remedy("restore the file from a copy, or run salvage to keep what is readable")
    };
    if !files.contains(&number) {
        return Err(damage(format!(
            "a write-ahead log is missing: {len} bytes of it, when the store was closed"
        )));
    }
    let file = vfs
        .open(&path, ReadMode::Pread)
        .map_err(|error| Error::io("open", &path, error))?;
    let found = file.len();
    if found < len {
        return Err(damage(format!(
            "the write-ahead log has lost its end: {found} bytes are left of {len} that were \
             there when the store was closed"
        )));
    }
    Ok(())
}

/// Opens a file and notes what it says of its predecessors.
fn open(
    vfs: &dyn Vfs,
    dir: &Path,
    number: FileNumber,
    named: &mut BTreeMap<FileNumber, u64>,
) -> Result<Opening> {
    let path = file_path(dir, FileKind::Wal, number);
    let Opened::Log(mut log) = LogReader::open(vfs, &path, LogKind::Wal)? else {
        return Ok(Opening { number, log: None });
    };
    if log.number() != number {
        let found = log.number();
        let message = format!("log file says it is number {found}, not {number}");
        return Err(Error::corruption(message).at_path(&path));
    }
    let Some(record) = log.next()? else {
        return Ok(Opening { number, log: None });
    };
    let (offset, predecessors) = (record.offset, decode_predecessors(record.payload));
    let predecessors = predecessors.map_err(|error| log.locate(error, offset))?;
    for Predecessor { number: older, len } in predecessors {
        let known = *named.entry(older).or_insert(len);
        if older >= number || known != len {
            let message = format!("log file names {len} bytes of file {older}, another {known}");
            return Err(log.locate(Error::corruption(message), offset));
        }
    }
    let log = Some(log);
    Ok(Opening { number, log })
}

fn replay_file(
    opening: Opening,
    named_len: Option<u64>,
    on_batch: &mut dyn FnMut(SeqNo, &[u8]) -> Result<()>,
    report: &mut ReplayReport,
) -> Result<()> {
    let number = opening.number;
    let log = opening.log.filter(|_| named_len != Some(0));
    let Some(mut log) = log else {
        return note_empty(number, named_len, report);
    };
    if let Some(len) = named_len {
        log.trust(len)?;
    }
    let mut has_batches = false;
    while let Some(record) = log.next()? {
        let (offset, payload) = (record.offset, record.payload);
        let seq = replay_batch(payload, report.last_seq, on_batch);
        let seq = seq.map_err(|error| log.locate(error, offset))?;
        report.last_seq = seq;
        has_batches = true;
    }
    let len = match named_len {
        // All files that name it must agree.
        Some(len) => len,
        None if has_batches => log.payloads_end(),
        None => 0,
    };
    report.files.push(ReplayedFile {
        number,
        len,
        is_witnessed: len == 0 || log.is_witnessed(),
    });
    let offset = log.valid_len();
    let bytes = log.cut_bytes();
    if bytes > 0 {
        report.cut.push(Cut {
            number,
            offset,
            bytes,
        });
    }
    Ok(())
}

/// A file that holds nothing, which is an error if a successor says otherwise.
fn note_empty(number: FileNumber, named_len: Option<u64>, report: &mut ReplayReport) -> Result<()> {
    if let Some(len) = named_len.filter(|&len| len > 0) {
        return Err(Error::corruption(format!(
            "log file {number} is empty, but its successor names {len} bytes of it"
        ))
        .with_remedy("run salvage to keep what is readable"));
    }
    report.files.push(ReplayedFile {
        number,
        len: 0,
        is_witnessed: true,
    });
    Ok(())
}

/// Checks a batch as a whole, then passes it on. Returns its last sequence number.
fn replay_batch(
    payload: &[u8],
    previous: SeqNo,
    on_batch: &mut dyn FnMut(SeqNo, &[u8]) -> Result<()>,
) -> Result<SeqNo> {
    let mut cursor = Cursor::new(payload);
    let header = BatchHeader::take(&mut cursor)?;
    let last_seq = header.last_seq(previous)?;
    let mut count = 0u64;
    for op in decode_batch(cursor.rest()) {
        op?;
        count += 1;
    }
    if count != u64::from(header.count) {
        let expected = header.count;
        let message = format!("batch has {count} operations, its header says {expected}");
        return Err(Error::corruption(message));
    }
    on_batch(header.first_seq, cursor.rest())?;
    Ok(last_seq)
}
