//! The framing that the write-ahead log and the manifest share: a file of checksummed records
//! that only ever grows, and a reader that tells a torn tail from a hole.
//!
//! ```text
//! file     = header record*                       all numbers little-endian
//! header   = magic 8 | version 4 | number 8 | id 8 | crc 4                        32 bytes
//! record   = header_crc 4 | payload_crc 4 | length 4 | synced_to 8 | payload      20 bytes + length
//! ```
//!
//! `number` is the one in the file's name, `id` is random. `header_crc` covers the 16 bytes after
//! it; both record checksums are salted with the file's id and the record's offset, so a record
//! copied elsewhere, or left over from a file that had these disk blocks before, is none.
//!
//! `synced_to` is the offset up to which the file was known to be durable when the record was
//! made. That decides what an invalid record at offset *p* is. A power cut can only take bytes that
//! were not synced; so if a record after *p* says `synced_to > p`, the bytes at *p* were once
//! durable and have been damaged since: a **hole**, refused. Without such a witness it is a
//! **torn tail**: it and everything after it were never acknowledged as durable, and are cut.
//!
//! A record without payload is a **seal**: written after a sync, it is the witness for the records
//! before it. Readers skip seals.
//!
//! Only a witness shows that a record that can be read is on the disk. After a failed sync the
//! system takes the pages for written: the next process reads them, syncs them without an error, and
//! still loses them when power fails. So what no witness vouches for must be written anew before
//! anything depends on it ([`LogReader::is_witnessed`]).
//!
//! A file that was reopened is never appended to: whoever continues a log starts a new file.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use self::reader::{LogReader, Opened};
pub(crate) use self::writer::LogWriter;
use crate::checksum::unit_checksum;
use crate::coding::{Cursor, put_u32, put_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{FileId, FileNumber};

/// Bytes of the file header.
pub(crate) const HEADER_BYTES: usize = 32;

/// Bytes of a record before its payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 20;

/// What a new log may write before its first sync. A file whose header never became durable is
/// not longer than this, which tells it from one whose header was damaged later.
pub(crate) const CREATION_BYTES_MAX: usize = 4096;

/// The version of this framing and of the payloads in it.
pub(crate) const FORMAT_VERSION: u32 = 1;

const UNIT_FILE_HEADER: u8 = 0x40;
const UNIT_RECORD_HEADER: u8 = 0x41;
const UNIT_RECORD_PAYLOAD: u8 = 0x42;

/// What a log is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogKind {
    Manifest,
    Wal,
}

impl LogKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Manifest => b"PPCMANIF",
            Self::Wal => b"PPCWALOG",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Wal => "write-ahead log",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileHeader {
    number: FileNumber,
    id: FileId,
}

impl FileHeader {
    /// A header for a new file. Its last byte is never 0, so that a header that ends in zeros is
    /// known to be unfinished.
    fn random(kind: LogKind, number: FileNumber) -> (Self, Vec<u8>) {
        loop {
            let id = FileId::random();
            let header = Self { number, id };
            let bytes = header.encode(kind);
            if bytes.last() != Some(&0) {
                return (header, bytes);
            }
        }
    }

    fn encode(self, kind: LogKind) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(kind.magic());
        put_u32(&mut bytes, FORMAT_VERSION);
        put_u64(&mut bytes, self.number.0);
        put_u64(&mut bytes, self.id.0);
        let crc = unit_checksum(UNIT_FILE_HEADER, FileId(0), 0, &[&bytes]);
        put_u32(&mut bytes, crc);
        bytes
    }

    /// Fails on another format version only once the checksum has shown that it is one, and not
    /// a flipped bit: the 32 bytes of the header keep their meaning in every version.
    fn decode(kind: LogKind, bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.take(8, "magic")?;
        let version = cursor.u32("format version")?;
        let number = FileNumber(cursor.u64("file number")?);
        let id = FileId(cursor.u64("file id")?);
        let covered = bytes.get(..HEADER_BYTES - 4).unwrap_or_default();
        let crc = cursor.u32("header checksum")?;
        if magic != kind.magic() {
            let noun = kind.noun();
            return Err(Error::corruption(format!(
                "not a {noun}: its first bytes are others"
            )));
        }
        if crc != unit_checksum(UNIT_FILE_HEADER, FileId(0), 0, &[covered]) {
            return Err(Error::corruption("file header checksum mismatch"));
        }
        if version != FORMAT_VERSION {
            return Err(unknown_version(kind, version));
        }
        Ok(Self { number, id })
    }
}

fn unknown_version(kind: LogKind, version: u32) -> Error {
    let noun = kind.noun();
    Error::new(
        ErrorKind::Unsupported,
        format!("{noun} has format version {version}, this build knows version {FORMAT_VERSION}"),
    )
    .with_remedy("open the store with the release that wrote it, or a newer one")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordHeader {
    payload_crc: u32,
    len: u32,
    synced_to: u64,
}

impl RecordHeader {
    fn encode(self, id: FileId, offset: u64, out: &mut Vec<u8>) {
        let mut fields = Vec::with_capacity(RECORD_HEADER_BYTES - 4);
        put_u32(&mut fields, self.payload_crc);
        put_u32(&mut fields, self.len);
        put_u64(&mut fields, self.synced_to);
        put_u32(
            out,
            unit_checksum(UNIT_RECORD_HEADER, id, offset, &[&fields]),
        );
        out.extend_from_slice(&fields);
    }

    /// The header at `offset`, if its checksum says that it is one.
    fn decode(id: FileId, offset: u64, bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let crc = cursor.u32("header checksum").ok()?;
        let fields = cursor.rest().get(..RECORD_HEADER_BYTES - 4)?;
        let header = Self {
            payload_crc: cursor.u32("payload checksum").ok()?,
            len: cursor.u32("length").ok()?,
            synced_to: cursor.u64("synced offset").ok()?,
        };
        let expected = unit_checksum(UNIT_RECORD_HEADER, id, offset, &[fields]);
        (crc == expected).then_some(header)
    }
}

/// The bytes of a log with a given id, which the writer would draw at random.
#[cfg(test)]
pub(crate) fn encode_for_tests(
    kind: LogKind,
    number: FileNumber,
    id: FileId,
    payloads: &[&[u8]],
) -> Vec<u8> {
    let mut bytes = FileHeader { number, id }.encode(kind);
    let mut synced_to = 0;
    for payload in payloads {
        let offset = bytes.len() as u64;
        let header = RecordHeader {
            payload_crc: unit_checksum(UNIT_RECORD_PAYLOAD, id, offset, &[payload]),
            len: payload.len() as u32,
            synced_to,
        };
        header.encode(id, offset, &mut bytes);
        bytes.extend_from_slice(payload);
        // Creation syncs the first record; nothing else has been synced here.
        synced_to = if synced_to == 0 {
            bytes.len() as u64
        } else {
            synced_to
        };
    }
    bytes
}
