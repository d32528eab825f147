//! The store directory: which names belong to a store, and what they mean.
//!
//! ```text
//! LOCK             held exclusively by the writer
//! READERS          held shared by read-only openers; the writer removes files only while it can
//!                  take it exclusively
//! CURRENT          one line: the name of the manifest in force, and its least length
//! 000001.manifest  edit log with snapshots
//! 000002.wal       write-ahead log
//! 000003.table     table
//! 000004.table.lost  table that no manifest lists and that is kept
//! ```
//!
//! Any other name is a stranger's file: ignored, never deleted. The part before the first dot is a
//! decimal number of at least six digits, written without sign and without needless zeros, so that
//! every file of ours has exactly one name.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::types::FileNumber;
use crate::vfs::Vfs;

/// Held exclusively by the writer.
pub(crate) const LOCK: &str = "LOCK";
/// Held shared by read-only openers.
pub(crate) const READERS: &str = "READERS";
/// Names the manifest in force.
pub(crate) const CURRENT: &str = "CURRENT";

/// No store ever counts this far; a larger number is damage, or a stranger's.
pub(crate) const FILE_NUMBER_MAX: u64 = 1 << 56;

/// What a numbered file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    Manifest,
    Wal,
    Table,
    /// A table that no manifest lists, and that may be all that is left of what one listed.
    SetAside,
}

impl FileKind {
    const ALL: [Self; 4] = [Self::Manifest, Self::Wal, Self::Table, Self::SetAside];

    fn suffix(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Wal => "wal",
            Self::Table => "table",
            Self::SetAside => "table.lost",
        }
    }
}

/// The name of a numbered file.
pub(crate) fn file_name(kind: FileKind, number: FileNumber) -> String {
    format!("{number}.{}", kind.suffix())
}

/// The path of a numbered file.
pub(crate) fn file_path(dir: &Path, kind: FileKind, number: FileNumber) -> PathBuf {
    dir.join(file_name(kind, number))
}

/// What a name says, if it is one that [`file_name`] makes.
pub(crate) fn parse_file_name(name: &str) -> Option<(FileKind, FileNumber)> {
    let (digits, suffix) = name.split_once('.')?;
    let mut kinds = FileKind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.suffix() == suffix)?;
    let number = FileNumber(digits.parse().ok()?);
    let ours = number.0 <= FILE_NUMBER_MAX && file_name(kind, number) == name;
    ours.then_some((kind, number))
}

/// A numbered file found in a store directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreFile {
    pub(crate) kind: FileKind,
    pub(crate) number: FileNumber,
    pub(crate) len: u64,
}

/// Every numbered file of the directory, by kind and number.
pub(crate) fn list_files(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<StoreFile>> {
    let entries = vfs
        .read_dir(dir)
        .map_err(|error| Error::io("list", dir, error))?;
    let mut files: Vec<StoreFile> = entries
        .iter()
        .filter(|entry| !entry.is_dir)
        .filter_map(|entry| {
            let (kind, number) = parse_file_name(&entry.name)?;
            let len = entry.len;
            Some(StoreFile { kind, number, len })
        })
        .collect();
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strangers_names_do_not_parse() {
        for name in [
            "",
            "LOCK",
            "1.table",
            "+00001.table",
            "0000001.table",
            "000001.table.tmp",
            "000001.sst",
            "._000001.table",
            "000001.TABLE",
            "18446744073709551615.wal",
            "99999999999999999999999.wal",
        ] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_round_trip(number in 0..=FILE_NUMBER_MAX) {
            for kind in FileKind::ALL {
                let number = FileNumber(number);
                let name = file_name(kind, number);
                prop_assert_eq!(parse_file_name(&name), Some((kind, number)));
            }
        }
    }
}
