//! Directories for the time of a run.
//!
//! Their names tell the process that made them, so that what a killed run left behind goes when the
//! next one begins.

use std::path::Path;

use ppc_store::{Error, Result};
use tempfile::TempDir;

const PREFIX: &str = ".ppc-bench-";

/// A directory that goes when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// Makes an empty one in `parent`, which is made if it is missing.
    pub(super) fn create(parent: &Path) -> Result<Self> {
        std::fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = TempDir::with_prefix_in(prefix, parent);
        let dir = dir.map_err(|error| Error::io("create", parent, error))?;
        Ok(Self { dir })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what dead processes left in `parent`, as far as the system tells which are dead. What
/// cannot be removed stays: it is in nobody's way.
pub(super) fn remove_left_over(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            let (process, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
            process.parse::<u32>().ok()
        });
        if process.is_some_and(is_dead) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_dead(process: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_left_is_removed() {
        let parent = TempDir::new().unwrap();
        let own = Scratch::create(parent.path()).unwrap();
        // Larger than any process number of Linux.
        let left = parent.path().join(".ppc-bench-4194305-abc");
        let other = parent.path().join("notes");
        for dir in [&left, &other] {
            std::fs::create_dir(dir).unwrap();
        }
        remove_left_over(parent.path());
        assert!(own.path().is_dir());
        assert!(other.is_dir());
        assert_eq!(left.exists(), !Path::new("/proc/self").exists());
    }
}
