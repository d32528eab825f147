//! Crates, through `cargo fetch` of a package that depends on nothing else.
//!
//! Cargo has a home of its own for the run, with the user's configuration, so that the user's cache
//! does not grow by what only a corpus needs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use parking_lot::Mutex;
use ppc_store::{Error, ErrorKind, Result};

use super::super::list::PinnedArchive;
use super::super::scratch::Scratch;
use super::{only_file, run};

/// Some target, the same on every machine.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug)]
pub(super) struct Cargo {
    dir: PathBuf,
    home: OnceLock<Scratch>,
    making_home: Mutex<()>,
}

impl Cargo {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            home: OnceLock::new(),
            making_home: Mutex::new(()),
        }
    }

    pub(super) fn fetch(&self, archive: &PinnedArchive, dir: &Path) -> Result<PathBuf> {
        let home = self.home()?;
        let (name, version) = (&archive.name, &archive.pin.version);
        let manifest = dir.join("Cargo.toml");
        write(&manifest, &manifest_of(name, version))?;
        let src = dir.join("src");
        std::fs::create_dir(&src).map_err(|error| Error::io("create", &src, error))?;
        write(&src.join("lib.rs"), "")?;
        let mut command = Command::new("cargo");
        command
            .current_dir(dir)
            .env("CARGO_HOME", home)
            // What the crate needs elsewhere would come along, and be unpacked.
            .args(["fetch", "--quiet", "--target", TARGET])
            .arg("--manifest-path")
            .arg(&manifest);
        run(&mut command)?;

        let cached = find_in_cache(home, name, version)?;
        let path = dir.join(cached.file_name().unwrap_or_default());
        std::fs::copy(&cached, &path).map_err(|error| Error::io("copy", &cached, error))?;
        Ok(path)
    }

    /// The run's own home of cargo.
    fn home(&self) -> Result<&Path> {
        let _alone = self.making_home.lock();
        if let Some(home) = self.home.get() {
            return Ok(home.path());
        }
        let home = Scratch::create(&self.dir)?;
        if let Some(users) = users_home() {
            let config = users.join("config.toml");
            if config.is_file() {
                let copy = home.path().join("config.toml");
                std::fs::copy(&config, &copy).map_err(|error| Error::io("copy", &config, error))?;
            }
        }
        Ok(self.home.get_or_init(|| home).path())
    }
}

/// The home that cargo would use by itself.
fn users_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// The manifest of a package with nothing but this dependency, in no workspace.
fn manifest_of(name: &str, version: &str) -> String {
    format!(
        "[package]\nname = \"fetch-only\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies.wanted]\npackage = \"{name}\"\nversion = \"={version}\"\n\
         default-features = false\n\n[workspace]\n"
    )
}

/// The crate in whichever registry's cache it is. Its version may go on with what was built, as in
/// `0.17.0+1.8.1`; requirements leave that out.
fn find_in_cache(home: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let caches = home.join("registry").join("cache");
    let failed = |error| Error::io("list", &caches, error);
    let is_wanted = |file: &str| {
        let version_found = file
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".crate"));
        version_found.is_some_and(|found| {
            let built = found.strip_prefix(version);
            built.is_some_and(|built| built.is_empty() || built.starts_with('+'))
        })
    };
    for registry in std::fs::read_dir(&caches).map_err(failed)? {
        let registry = registry.map_err(failed)?.path();
        if let Ok(path) = only_file(&registry, is_wanted) {
            return Ok(path);
        }
    }
    Err(Error::new(
        ErrorKind::Io,
        format!("cargo fetched the crate, but {name} {version} is not in its cache"),
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io("write", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_one_exact_version() {
        let manifest: toml::Table = manifest_of("libz-sys", "1.1.20").parse().unwrap();
        let wanted = &manifest["dependencies"]["wanted"];
        assert_eq!(wanted["package"].as_str(), Some("libz-sys"));
        assert_eq!(wanted["version"].as_str(), Some("=1.1.20"));
        assert!(manifest["workspace"].is_table());
    }

    #[test]
    fn a_crate_is_found_in_any_registrys_cache() {
        let home = tempfile::TempDir::new().unwrap();
        let cache = home.path().join("registry/cache/mirror-1");
        std::fs::create_dir_all(&cache).unwrap();
        for file in ["a-1.0.0.crate", "a-1.0.10.crate", "a-b-1.0.1+2.3.crate"] {
            std::fs::write(cache.join(file), "").unwrap();
        }
        let find = |name, version| find_in_cache(home.path(), name, version);
        assert_eq!(find("a", "1.0.0").unwrap(), cache.join("a-1.0.0.crate"));
        let built = cache.join("a-b-1.0.1+2.3.crate");
        assert_eq!(find("a-b", "1.0.1").unwrap(), built);
        assert!(find("a", "1.0.1").is_err());
        assert!(find("b", "1.0.1").is_err());
    }
}
