//! Packed packages, through `npm pack`, which for a name and version downloads and runs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use ppc_store::Result;

use super::super::list::PinnedArchive;
use super::{only_file, run};

pub(super) fn fetch(archive: &PinnedArchive, dir: &Path) -> Result<PathBuf> {
    let mut command = Command::new("npm");
    command
        .current_dir(dir)
        .args([
            "pack",
            "--silent",
            "--ignore-scripts",
            "--pack-destination",
            ".",
        ])
        .arg(format!("{}@{}", archive.name, archive.pin.version));
    run(&mut command)?;
    only_file(dir, |name| name.ends_with(".tgz"))
}
