//! `CURRENT`: which manifest is in force, how long it is at least, and so for the logs of a store that
//! was closed.
//!
//! ```text
//! 000001.manifest 4711 0d76b090\n      name, bytes that were synced, CRC-32 in hex of what is before
//! 000001.manifest 4711 000002.wal 121 625c4923\n         the same, with a log that holds writes
//! 000001.manifest\n                    as older builds wrote it, or somebody by hand: no length
//! ```
//!
//! The length is the witness for the manifest's end. Nothing in a log tells a last record that was
//! lost to damage from one that was never written; that it was synced must be said outside of it. A
//! manifest only grows, so a length once true stays true: `CURRENT` may lag behind, and never needs
//! to be taken back. Readers read it before the manifest, and so never meet a shorter one by right.
//!
//! The logs are the witness for the writes that tables do not hold yet: without it, a last log that is
//! lost, or cut short, is none that there ever was. They are named when the store is closed. They stay
//! true until a log is removed, which takes a flush, and hence a new manifest in force: naming that
//! drops them.

use std::path::Path;

use crate::checksum::unit_checksum;
use crate::dir::{CURRENT, FileKind, file_name, parse_file_name};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{FileId, FileNumber};
use crate::vfs::{Vfs, durable_rename, read_whole, write_temporary};

/// Longest `CURRENT` that can be one of ours.
const BYTES_MAX: usize = 4096;

/// Most logs that it names, the newest ones; of the others these name the lengths.
const LOGS_MAX: usize = 64;

/// The unit's kind in the checksum; file id and offset are 0.
const UNIT_CURRENT: u8 = 0x43;

/// How far a failed step may have got.
pub(super) enum StepError {
    /// The disk holds what it held before.
    Undone(Error),
    /// Unknown.
    Unclear(Error),
}

impl StepError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Undone(error) | Self::Unclear(error) => error,
        }
    }
}

/// A log that was complete and synced when the store was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedLog {
    pub(crate) number: FileNumber,
    /// Bytes that were synced.
    pub(crate) len: u64,
}

/// What `CURRENT` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Current {
    pub(super) manifest: FileNumber,
    /// Bytes of the manifest that were synced; none if it does not say.
    pub(super) synced_len: Option<u64>,
    /// Logs that must be there, in order; none if it does not say, or no length.
    pub(super) logs: Vec<ClosedLog>,
}

impl Current {
    fn encode(&self) -> String {
        let name = file_name(FileKind::Manifest, self.manifest);
        let Some(len) = self.synced_len else {
            return format!("{name}\n");
        };
        let mut said = format!("{name} {len}");
        let newest = self.logs.len().saturating_sub(LOGS_MAX);
        for log in self.logs.iter().skip(newest) {
            said += &format!(" {} {}", file_name(FileKind::Wal, log.number), log.len);
        }
        let crc = unit_checksum(UNIT_CURRENT, FileId(0), 0, &[said.as_bytes()]);
        format!("{said} {crc:08x}\n")
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes.get(..bytes.len().min(BYTES_MAX))?).ok()?;
        let mut words = text.strip_suffix('\n')?.split(' ');
        let (FileKind::Manifest, manifest) = parse_file_name(words.next()?)? else {
            return None;
        };
        let synced_len = words.next().map(str::parse).transpose().ok()?;
        let mut logs = Vec::new();
        while let (Some(name), Some(len)) = (words.next(), words.next()) {
            let (FileKind::Wal, number) = parse_file_name(name)? else {
                return None;
            };
            let len = len.parse().ok()?;
            logs.push(ClosedLog { number, len });
        }
        let current = Self {
            manifest,
            synced_len,
            logs,
        };
        // Compares the checksum as well, and refuses whatever else the file may hold.
        (current.encode() == text).then_some(current)
    }

    /// What the directory's `CURRENT` says.
    pub(super) fn read(vfs: &dyn Vfs, dir: &Path) -> Result<Self> {
        let path = dir.join(CURRENT);
        let bytes = read_whole(vfs, &path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "there is no store here")
                .at_path(dir)
                .with_remedy("check the path, or create a store there"),
            _ => error,
        })?;
        Self::decode(&bytes).ok_or_else(|| {
            Error::corruption("CURRENT does not name a manifest")
                .at_path(&path)
                .with_remedy("write the name of the newest intact manifest into it, or run salvage")
        })
    }

    /// Replaces the directory's `CURRENT`: after a power cut it is the old or this one, whole.
    pub(super) fn write(&self, vfs: &dyn Vfs, dir: &Path) -> Result<(), StepError> {
        let path = dir.join(CURRENT);
        let temporary = write_temporary(vfs, &path, self.encode().as_bytes());
        let temporary = temporary.map_err(StepError::Undone)?;
        durable_rename(vfs, &temporary, &path).map_err(|error| {
            // If it is still there; the next writing removes it as well.
            let _ = vfs.remove(&temporary);
            StepError::Unclear(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dir::FILE_NUMBER_MAX;

    #[test]
    fn what_older_builds_wrote_names_a_manifest_without_a_length() {
        let expected = Current {
            manifest: FileNumber(1),
            synced_len: None,
            logs: Vec::new(),
        };
        assert_eq!(Current::decode(b"000001.manifest\n"), Some(expected));
    }

    #[test]
    fn the_example_of_the_format_document_is_what_is_written() {
        let mut current = Current {
            manifest: FileNumber(1),
            synced_len: Some(4711),
            logs: Vec::new(),
        };
        assert_eq!(current.encode(), "000001.manifest 4711 0d76b090\n");
        current.logs.push(ClosedLog {
            number: FileNumber(2),
            len: 121,
        });
        assert_eq!(
            current.encode(),
            "000001.manifest 4711 000002.wal 121 625c4923\n"
        );
    }

    #[test]
    fn strangers_lines_do_not_decode() {
        for line in [
            "",
            "\n",
            "000001.manifest",
            "../000001.manifest\n",
            "000001.table\n",
            "000001.manifest\n\n",
            "000001.manifest \n",
            "000001.manifest 4711\n",
            "000001.manifest 4711 00000000\n",
            "000001.manifest 4711 000002.wal 0d76b090\n",
            "000001.manifest 4711 000002.table 121 625c4923\n",
        ] {
            assert_eq!(Current::decode(line.as_bytes()), None, "{line:?}");
        }
    }

    fn logs() -> impl Strategy<Value = Vec<ClosedLog>> {
        let log = (0..=FILE_NUMBER_MAX, any::<u64>()).prop_map(|(number, len)| ClosedLog {
            number: FileNumber(number),
            len,
        });
        proptest::collection::vec(log, 0..=LOGS_MAX)
    }

    proptest! {
        #[test]
        fn lines_round_trip(
            number in 0..=FILE_NUMBER_MAX,
            synced_len: Option<u64>,
            mut logs in logs(),
        ) {
            if synced_len.is_none() {
                logs.clear();
            }
            let manifest = FileNumber(number);
            let current = Current { manifest, synced_len, logs };
            prop_assert!(current.encode().len() <= BYTES_MAX);
            prop_assert_eq!(Current::decode(current.encode().as_bytes()), Some(current));
        }

        #[test]
        fn no_flipped_bit_and_no_cut_changes_what_is_said(
            number in 0..=FILE_NUMBER_MAX,
            len: u64,
            logs in logs(),
            bit in 0_usize..8 * BYTES_MAX,
        ) {
            let manifest = FileNumber(number);
            let synced_len = Some(len);
            let line = Current { manifest, synced_len, logs }.encode().into_bytes();
            let at = bit % (8 * line.len());
            let mut damaged = line.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(Current::decode(&damaged), None);
            prop_assert_eq!(Current::decode(&line[..at / 8]), None);
        }
    }
}
