//! What an output is called until it is complete, `.NAME.XXXXXX.partial` beside it, and the removal of
//! what killed exports left under such names.
//!
//! A file that is being written is locked, a directory by the lock of its map; what nobody has locked
//! was left behind. Between the making and the locking of a file lies a moment in which another export
//! to the same output would take it away; then the first fails when it completes, as the second would
//! otherwise.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use ppc_engine::{Error, ErrorKind, Result};

use super::directory::MAP_FILE;
use super::output::parent;

/// How temporary names end.
pub(super) const SUFFIX: &str = ".partial";
/// Letters and digits between beginning and end.
const RANDOM_BYTES: usize = 6;

/// How the temporary names of an output begin.
pub(super) fn prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// Fails if the directory that would hold the output is not there. Removes from it what earlier
/// exports to the same output left.
pub(super) fn prepare(path: &Path) -> Result<()> {
    let directory = parent(path);
    if !directory.is_dir() {
        return Err(
            Error::new(ErrorKind::NotFound, "no such folder to write into")
                .at_path(directory)
                .with_remedy("make it first, or check the path"),
        );
    }
    let prefix = prefix(path);
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_temporary(&entry.file_name(), &prefix)) {
        // What cannot be removed is in nobody's way.
        let _ = remove_if_left(&entry.path());
    }
    Ok(())
}

/// Keeps other exports from taking a file for one that was left behind. Where files cannot be locked,
/// none is ever taken for that.
pub(super) fn hold(file: &File) {
    let _ = file.try_lock();
}

/// The error for an output that could not be started, without the temporary name that `tempfile` adds.
pub(super) fn cannot_create(path: &Path, error: &io::Error) -> Error {
    let text = error.to_string();
    let cause = text.split(" at path ").next().unwrap_or(&text);
    Error::io("create", path, io::Error::new(error.kind(), cause))
}

fn is_temporary(name: &OsStr, prefix: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let random = name
        .strip_prefix(prefix.as_encoded_bytes())
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    random.is_some_and(|random| {
        random.len() == RANDOM_BYTES && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

fn remove_if_left(path: &Path) -> io::Result<()> {
    let is_directory = path.symlink_metadata()?.is_dir();
    let locked = if is_directory {
        path.join(MAP_FILE)
    } else {
        path.to_path_buf()
    };
    if !locked.symlink_metadata()?.is_file() {
        return Ok(());
    }
    let file = File::open(&locked)?;
    match file.try_lock() {
        Ok(()) if is_directory => std::fs::remove_dir_all(path),
        Ok(()) => std::fs::remove_file(path),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
