//! A store's files: their bytes, copies of them, and the page cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ppc_store::{Error, Result};

/// Every file below `dir`.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let entries = fs::read_dir(&dir).map_err(|error| Error::io("list", &dir, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("list", &dir, error))?;
            let kind = entry.file_type();
            let kind = kind.map_err(|error| Error::io("inspect", &entry.path(), error))?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// Bytes of all files below `dir`, by their lengths.
pub(crate) fn directory_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files_below(dir)? {
        let metadata = fs::metadata(&path).map_err(|error| Error::io("inspect", &path, error))?;
        bytes += metadata.len();
    }
    Ok(bytes)
}

/// Writes back what is dirty of the files below `dir` and drops them from the page cache. What a
/// process has mapped stays: close the store first.
pub(crate) fn drop_from_page_cache(dir: &Path) -> Result<()> {
    for path in files_below(dir)? {
        let failed = |error| Error::io("drop from the page cache", &path, error);
        let file = File::open(&path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

/// Copies a closed store into a new directory.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    for path in files_below(from)? {
        let Ok(relative) = path.strip_prefix(from) else {
            continue;
        };
        let target = to.join(relative);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
        }
        fs::copy(&path, &target).map_err(|error| Error::io("copy to", &target, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_count_and_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("one"), b"1").unwrap();
        fs::write(from.join("a/b/two"), b"22").unwrap();
        assert_eq!(directory_bytes(&from).unwrap(), 3);
        drop_from_page_cache(&from).unwrap();
        let to = dir.path().join("to");
        copy_directory(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("a/b/two")).unwrap(), b"22");
        assert_eq!(directory_bytes(&to).unwrap(), 3);
    }
}
