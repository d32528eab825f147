//! Wheels, through `pip download`.
//!
//! Of source distributions pip would run the build backend, to learn what they depend on; wheels
//! are only unpacked. Interpreter and platform are named, so that every machine is given the same
//! wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use ppc_store::Result;

use super::super::list::PinnedArchive;
use super::{only_file, run};

/// Where a package says nothing else.
const PYTHON_DEFAULT: &str = "3.9";
const PLATFORMS: [&str; 5] = [
    "manylinux_2_28_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
];

pub(super) fn fetch(archive: &PinnedArchive, dir: &Path) -> Result<PathBuf> {
    let python = archive.python.as_deref().unwrap_or(PYTHON_DEFAULT);
    let mut command = Command::new("pip");
    command
        .current_dir(dir)
        .args([
            "download",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ])
        .args(["--no-deps", "--only-binary", ":all:", "--no-cache-dir"])
        .args(["--implementation", "cp", "--python-version", python])
        // Nothing is installed, so it may be as old or new as it likes.
        .arg("--ignore-requires-python");
    for platform in PLATFORMS {
        command.args(["--platform", platform]);
    }
    command
        .args(["--dest", "."])
        .arg(format!("{}=={}", archive.name, archive.pin.version));
    run(&mut command)?;
    only_file(dir, |name| name.ends_with(".whl"))
}
