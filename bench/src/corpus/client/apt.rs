//! The original archives of Debian's source packages, through `apt-get source --download-only`.
//!
//! Most machines have no `deb-src` lines, and those of one release only. So apt is given lists of
//! sources of its own, in the downloads directory: the mirror that the machine's configuration
//! names, for the releases that the package list names. The machine's own lists stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use parking_lot::Mutex;
use ppc_store::{Error, ErrorKind, Result};

use super::super::list::PinnedArchive;
use super::{only_file, run};

/// Where the package `debian-archive-keyring` puts the keys of all releases.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What the machine's apt tells of each list it has.
const TARGET_FORMAT: &str = "$(REPO_URI)|$(ORIGIN)|$(LABEL)|$(COMPONENT)";

#[derive(Debug)]
pub(super) struct Apt {
    dir: PathBuf,
    suites: Vec<String>,
    is_ready: OnceLock<()>,
    preparing: Mutex<()>,
}

impl Apt {
    pub(super) fn new(dir: &Path, suites: &[String]) -> Self {
        Self {
            dir: dir.join("apt-lists"),
            suites: suites.to_vec(),
            is_ready: OnceLock::new(),
            preparing: Mutex::new(()),
        }
    }

    pub(super) fn fetch(&self, archive: &PinnedArchive, dir: &Path) -> Result<PathBuf> {
        self.prepare()?;
        let wanted = format!("{}={}", archive.name, archive.pin.version);
        let mut command = self.command("apt-get");
        command
            .current_dir(dir)
            .args(["source", "--quiet", "--download-only", "--only-source"])
            // Debian's own changes are not wanted, and mirrors lose some of them.
            .arg("--tar-only")
            .arg(wanted);
        run(&mut command)?;
        only_file(dir, is_original)
    }

    /// Brings apt's own lists up to date, once a run.
    fn prepare(&self) -> Result<()> {
        let _alone = self.preparing.lock();
        if self.is_ready.get().is_some() {
            return Ok(());
        }
        if self.suites.is_empty() {
            return Err(Error::invalid_input("the list names no suites for apt")
                .with_remedy("add a line like: suites = [\"bookworm\"]"));
        }
        let targets = run(Command::new("apt-get")
            .args(["indextargets", "--format", TARGET_FORMAT])
            .arg("Created-By: Packages"))?;
        let mirror = mirror_of(&targets).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "apt on this machine knows no Debian mirror",
            )
            .with_remedy("run `apt-get update` once; on another system, choose other lists")
        })?;
        for dir in ["lists/partial", "cache/archives/partial"] {
            let dir = self.dir.join(dir);
            std::fs::create_dir_all(&dir).map_err(|error| Error::io("create", &dir, error))?;
        }
        let sources = self.dir.join("sources.list");
        let signed_by = Path::new(KEYRING).is_file().then_some(KEYRING);
        std::fs::write(&sources, sources_of(mirror, signed_by, &self.suites))
            .map_err(|error| Error::io("write", &sources, error))?;
        run(self.command("apt-get").args(["update", "--quiet"]))?;
        let _ = self.is_ready.set(());
        Ok(())
    }

    /// `program` with lists and cache of its own.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (option, path) in [
            ("Dir::Etc::sourcelist", self.dir.join("sources.list")),
            ("Dir::State::lists", self.dir.join("lists")),
            ("Dir::Cache", self.dir.join("cache")),
        ] {
            command
                .arg("-o")
                .arg(format!("{option}={}", path.display()));
        }
        command.args(["-o", "Dir::Etc::sourceparts=-"]);
        // Run by root, apt would download as another user, who may not write here, and say so.
        command.args(["-o", "APT::Sandbox::User=root"]);
        command.args(["-o", "Acquire::Retries=3"]);
        command
    }
}

/// The mirror of Debian's main archive, from what apt told of its lists.
fn mirror_of(targets: &str) -> Option<&str> {
    targets.lines().find_map(|line| {
        let (uri, rest) = line.split_once('|')?;
        (rest == "Debian|Debian|main").then_some(uri)
    })
}

fn sources_of(mirror: &str, signed_by: Option<&str>, suites: &[String]) -> String {
    let options = signed_by.map_or_else(String::new, |path| format!("[signed-by={path}] "));
    let lines = suites
        .iter()
        .map(|suite| format!("deb-src {options}{mirror} {suite} main\n"));
    lines.collect()
}

/// Whether a file of a source package is the upstream's own archive, or the package's only one.
fn is_original(name: &str) -> bool {
    let Some((stem, compression)) = name.rsplit_once(".tar.") else {
        return false;
    };
    let is_archive = ["gz", "xz", "bz2", "zst"].contains(&compression);
    is_archive && !stem.ends_with(".debian") && !stem.contains(".orig-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_mirror_is_used_for_the_lists_suites() {
        let targets = "http://security.test/debian/|Debian|Debian-Security|main\n\
                       http://tools.test/|tools|tools|main\n\
                       http://mirror.test/debian/|Debian|Debian|contrib\n\
                       http://mirror.test/debian/|Debian|Debian|main\n";
        let mirror = mirror_of(targets).unwrap();
        let suites = ["bookworm".to_owned(), "trixie".to_owned()];
        assert_eq!(
            sources_of(mirror, Some("/keys"), &suites),
            "deb-src [signed-by=/keys] http://mirror.test/debian/ bookworm main\n\
             deb-src [signed-by=/keys] http://mirror.test/debian/ trixie main\n"
        );
        assert_eq!(mirror_of("http://ports.test/|Ubuntu|Ubuntu|main\n"), None);
    }

    #[test]
    fn the_original_archive_is_told_from_debians_own() {
        for name in ["zlib_1.2.13.dfsg.orig.tar.gz", "debhelper_13.11.4.tar.xz"] {
            assert!(is_original(name), "{name}");
        }
        for name in [
            "zlib_1.2.13.dfsg-1.dsc",
            "zlib_1.2.13.dfsg-1.debian.tar.xz",
            "gcc_1.orig-newlib.tar.xz",
            "zlib_1.2.13.orig.tar.gz.asc",
        ] {
            assert!(!is_original(name), "{name}");
        }
    }
}
