//! Pinned lists: the packages that a corpus is gathered from, each version with the SHA-256 of its
//! archive, so that a list means the same files wherever and whenever it is gathered.
//!
//! A list is TOML:
//!
//! ```toml
//! language = "python"
//!
//! [[package]]
//! client = "pip"
//! name = "requests"
//! archives = [
//!     { version = "2.8.1", bytes = 466667, sha256 = "89f1…" },
//! ]
//! ```
//!
//! `ppc-bench corpus pin` fills `bytes` and `sha256` in. Names and versions end in command lines
//! and paths, so they are checked when a list is read.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use ppc_store::{Error, Result};
use serde::Deserialize;

use super::client::Client;
use super::language::Language;

/// Versions of a package that are gathered before the next package's: enough that a small corpus
/// has near-duplicates too.
const VERSIONS_A_ROUND: usize = 3;

/// The packages of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackageList {
    /// The language whose files are kept.
    pub(super) language: Language,
    /// Debian releases whose source packages are asked for.
    #[serde(default)]
    pub(super) suites: Vec<String>,
    /// The packages, in the order in which they are gathered.
    #[serde(rename = "package")]
    pub(super) packages: Vec<Package>,
}

/// A package in some versions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Package {
    /// The client that knows it.
    pub(super) client: Client,
    /// Its name there.
    pub(super) name: String,
    /// pip only: the Python version whose wheels are taken, as in `3.9`.
    pub(super) python: Option<String>,
    /// Its versions.
    pub(super) archives: Vec<Pin>,
}

/// A version and what its archive must be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    /// The version.
    pub(super) version: String,
    /// Length of the archive, once pinned.
    pub(super) bytes: Option<u64>,
    /// SHA-256 of the archive in lowercase hexadecimal, once pinned.
    pub(super) sha256: Option<String>,
}

/// One archive of a list, with all that is needed to fetch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PinnedArchive {
    /// The client that knows the package.
    pub(super) client: Client,
    /// The package's name.
    pub(super) name: String,
    /// pip only: the Python version whose wheel is taken.
    pub(super) python: Option<String>,
    /// Its version, and what the archive must be.
    pub(super) pin: Pin,
}

impl fmt::Display for PinnedArchive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.client.name(),
            self.name,
            self.pin.version
        )
    }
}

impl PackageList {
    /// Reads a list from its text, and checks it.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)
            .map_err(|error| Error::invalid_input("not a list of packages").with_source(error))?;
        list.check()?;
        Ok(list)
    }

    /// Reads the list at `path`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, error))?;
        Self::parse(&text).map_err(|error| error.at_path(path))
    }

    fn check(&self) -> Result<()> {
        let mut met = HashSet::new();
        for suite in &self.suites {
            check_word("suite", suite, "-")?;
        }
        for package in &self.packages {
            check_word("package name", &package.name, "@/._+-")?;
            if let Some(python) = &package.python {
                check_word("Python version", python, ".")?;
            }
            for pin in &package.archives {
                check_word("version", &pin.version, ".+~:_-")?;
                if let Some(sha256) = &pin.sha256
                    && !is_sha256(sha256)
                {
                    return Err(Error::invalid_input(format!(
                        "the sha256 of {} {} is not 64 lowercase hexadecimal digits",
                        package.name, pin.version
                    )));
                }
                if !met.insert((package.client, &package.name, &pin.version)) {
                    return Err(Error::invalid_input(format!(
                        "{} {} is listed twice",
                        package.name, pin.version
                    )));
                }
            }
        }
        Ok(())
    }

    /// Every archive, in the order in which they are gathered: the first three versions of each
    /// package in list order, then the next three. So a corpus of any size holds several versions
    /// of several packages.
    #[must_use]
    pub(super) fn archives(&self) -> Vec<PinnedArchive> {
        let versions_max = self
            .packages
            .iter()
            .map(|package| package.archives.len())
            .max();
        let rounds = versions_max.unwrap_or_default().div_ceil(VERSIONS_A_ROUND);
        let mut archives = Vec::new();
        for round in 0..rounds {
            for package in &self.packages {
                let pins = package.archives.chunks(VERSIONS_A_ROUND).nth(round);
                archives.extend(pins.unwrap_or_default().iter().map(|pin| PinnedArchive {
                    client: package.client,
                    name: package.name.clone(),
                    python: package.python.clone(),
                    pin: pin.clone(),
                }));
            }
        }
        archives
    }
}

impl fmt::Display for PackageList {
    /// The list's text, as `ppc-bench corpus pin` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "language = \"{}\"", self.language.name())?;
        if !self.suites.is_empty() {
            writeln!(f, "suites = [\"{}\"]", self.suites.join("\", \""))?;
        }
        for package in &self.packages {
            writeln!(f, "\n[[package]]\nclient = \"{}\"", package.client.name())?;
            writeln!(f, "name = \"{}\"", package.name)?;
            if let Some(python) = &package.python {
                writeln!(f, "python = \"{python}\"")?;
            }
            writeln!(f, "archives = [")?;
            for pin in &package.archives {
                write!(f, "    {{ version = \"{}\"", pin.version)?;
                if let Some(bytes) = pin.bytes {
                    write!(f, ", bytes = {bytes}")?;
                }
                if let Some(sha256) = &pin.sha256 {
                    write!(f, ", sha256 = \"{sha256}\"")?;
                }
                writeln!(f, " }},")?;
            }
            writeln!(f, "]")?;
        }
        Ok(())
    }
}

/// Refuses what is not ASCII letters, digits and `also`, could be taken for an option, or names a
/// parent directory.
fn check_word(what: &str, word: &str, also: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
    let is_good = !word.is_empty()
        && word.chars().all(is_allowed)
        && !word.starts_with(['-', '/', '.'])
        && !word.contains("..");
    if is_good {
        return Ok(());
    }
    Err(Error::invalid_input(format!("{word:?} is no {what}")))
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(packages: &[(&str, usize)]) -> PackageList {
        let package = |&(name, versions): &(&str, usize)| Package {
            client: Client::Npm,
            name: name.to_owned(),
            python: None,
            archives: (0..versions)
                .map(|version| Pin {
                    version: version.to_string(),
                    bytes: Some(1),
                    sha256: Some("0f".repeat(32)),
                })
                .collect(),
        };
        PackageList {
            language: Language::JavaScript,
            suites: vec!["bookworm".to_owned()],
            packages: packages.iter().map(package).collect(),
        }
    }

    #[test]
    fn a_list_reads_back_as_it_is_written() {
        let mut list = list(&[("react", 4), ("@babel/core", 1)]);
        list.packages[0].archives[2].sha256 = None;
        list.packages[0].archives[2].bytes = None;
        list.packages[1].client = Client::Pip;
        list.packages[1].python = Some("3.9".to_owned());
        assert_eq!(PackageList::parse(&list.to_string()).unwrap(), list);
    }

    #[test]
    fn versions_are_gathered_three_at_a_time() {
        let archives = list(&[("a", 7), ("b", 2), ("c", 4)]).archives();
        let names: Vec<String> = archives
            .iter()
            .map(|archive| format!("{}{}", archive.name, archive.pin.version))
            .collect();
        assert_eq!(names.join(" "), "a0 a1 a2 b0 b1 c0 c1 c2 a3 a4 a5 c3 a6");
    }

    #[test]
    fn the_lists_that_come_along_are_pinned() {
        for language in Language::ALL {
            let list = PackageList::parse(language.pinned_list()).unwrap();
            assert_eq!(list.language, language);
            let archives = list.archives();
            assert!(archives.len() > 20, "{language:?}");
            for archive in &archives {
                assert!(archive.pin.sha256.is_some(), "{archive}");
                assert!(archive.pin.bytes.is_some(), "{archive}");
            }
            let has_apt = archives.iter().any(|archive| archive.client == Client::Apt);
            assert_eq!(has_apt, !list.suites.is_empty());
        }
    }

    #[test]
    fn what_could_do_harm_in_a_command_line_or_path_is_refused() {
        let with = |name: &str, version: &str, sha256: &str| {
            let text = format!(
                "language = \"c\"\n[[package]]\nclient = \"npm\"\nname = {name:?}\n\
                 archives = [{{ version = {version:?}, sha256 = {sha256:?} }}]"
            );
            PackageList::parse(&text)
        };
        let sha256 = "0f".repeat(32);
        assert!(with("a", "1:2.0~rc1+ds-1", &sha256).is_ok());
        for (name, version) in [
            ("--global", "1"),
            ("../a", "1"),
            ("/a", "1"),
            ("a b", "1"),
            ("", "1"),
            ("a", "latest || rm"),
            ("a", "-1"),
            ("a", "../../1"),
        ] {
            let error = with(name, version, &sha256).unwrap_err().to_string();
            assert!(error.contains("is no"), "{error}");
        }
        assert!(with("a", "1", "0F").is_err());
        let twice = list(&[("a", 1), ("a", 1)]).to_string();
        let error = PackageList::parse(&twice).unwrap_err().to_string();
        assert!(error.contains("a 0 is listed twice"), "{error}");
    }
}
