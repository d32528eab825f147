//! The package clients of the machine: what downloads one version of a package.
//!
//! Clients are asked by name and version only, with the machine's own configuration: which registry
//! or mirror answers is theirs to know. No command here runs code of a package, neither to build
//! it nor to read its metadata.

mod apt;
mod cargo;
mod npm;
mod pip;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ppc_store::{Error, ErrorKind, Result};
use serde::Deserialize;

use super::list::PinnedArchive;
use super::scratch::Scratch;

/// A package client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Client {
    /// Python's pip: wheels.
    Pip,
    /// Node's npm: packed packages.
    Npm,
    /// Rust's cargo: crates, for the C sources that many of them bundle.
    Cargo,
    /// Debian's apt: the original archives of source packages.
    Apt,
}

impl Client {
    /// The command's name, as lists write it.
    #[must_use]
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Cargo => "cargo",
            Self::Apt => "apt",
        }
    }
}

/// What clients keep between downloads of one run. May be used from several threads.
#[derive(Debug)]
pub(super) struct Clients {
    cargo: cargo::Cargo,
    apt: apt::Apt,
}

impl Clients {
    /// Clients that keep what they must in `dir`, and ask for source packages of these Debian
    /// releases.
    pub(super) fn new(dir: &Path, suites: &[String]) -> Self {
        Self {
            cargo: cargo::Cargo::new(dir),
            apt: apt::Apt::new(dir, suites),
        }
    }

    /// Downloads an archive into `scratch`, an empty directory, and returns its path there.
    pub(super) fn fetch(&self, archive: &PinnedArchive, scratch: &Scratch) -> Result<PathBuf> {
        let dir = scratch.path();
        let fetched = match archive.client {
            Client::Pip => pip::fetch(archive, dir),
            Client::Npm => npm::fetch(archive, dir),
            Client::Cargo => self.cargo.fetch(archive, dir),
            Client::Apt => self.apt.fetch(archive, dir),
        };
        fetched.map_err(|error| {
            Error::new(error.kind(), format!("cannot download {archive}"))
                .with_source(error.to_string())
        })
    }
}

/// Runs a client to its end and returns what it printed. A failure quotes the end of its messages.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot start `{program}`"))
            .with_source(error)
            .with_remedy("install it, or choose a list that does without it")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::new(
        ErrorKind::Io,
        format!(
            "`{program}` failed: {}",
            last_words(&String::from_utf8_lossy(&said))
        ),
    ))
}

/// The last few lines with something in them, in one.
fn last_words(text: &str) -> String {
    const LINES_MAX: usize = 3;
    const CHARS_MAX: usize = 200;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines
        .rev()
        .take(LINES_MAX)
        .map(|line| {
            line.chars()
                .filter(|c| !c.is_control())
                .take(CHARS_MAX)
                .collect()
        })
        .collect();
    if lines.is_empty() {
        return "it said nothing".to_owned();
    }
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// The only file in `dir` that `is_wanted` by name.
fn only_file(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let failed = |error| Error::io("list", dir, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name.to_str().is_some_and(&is_wanted) && entry.path().is_file() {
            found.push(entry.path());
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(Error::new(
            ErrorKind::Io,
            format!("{} archives came where one was expected", found.len()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_client_is_quoted_and_a_missing_one_named() {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "echo first; echo 'no such version' >&2; echo >&2; exit 3",
        ]);
        let error = run(&mut shell).unwrap_err().to_string();
        assert!(error.contains("`sh` failed: "), "{error}");
        assert!(error.contains("no such version"), "{error}");
        let error = run(&mut Command::new("no-such-client")).unwrap_err();
        assert!(error.to_string().contains("cannot start `no-such-client`"));
        assert_eq!(last_words("\n \n"), "it said nothing");
    }

    #[test]
    fn only_the_wanted_file_is_taken() {
        let dir = tempfile::TempDir::new().unwrap();
        for name in ["a.tar.gz", "b.dsc"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let path = only_file(dir.path(), |name| name.ends_with(".gz")).unwrap();
        assert_eq!(path, dir.path().join("a.tar.gz"));
        assert!(only_file(dir.path(), |_| true).is_err());
        assert!(only_file(dir.path(), |name| name.ends_with(".zip")).is_err());
    }
}
