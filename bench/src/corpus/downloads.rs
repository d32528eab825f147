//! Downloaded archives, kept so that no run asks for one twice.
//!
//! ```text
//! DIR/pip/requests/2.8.1/requests-2.8.1-py2.py3-none-any.whl
//! DIR/npm/@babel+core/7.0.1/babel-core-7.0.1.tgz
//! ```
//!
//! Invariant: a version's directory holds one whole archive. It is filled under another name and
//! renamed, so a run that was cut off leaves nothing that could be taken for one.
//!
//! May be used from several threads.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ppc_store::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

use super::client::Clients;
use super::list::PinnedArchive;
use super::scratch::{self, Scratch};

/// What an archive is, once it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Download {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Lowercase hexadecimal.
    pub(super) sha256: String,
}

/// The cache and the clients that fill it.
#[derive(Debug)]
pub(super) struct Downloads {
    dir: PathBuf,
    clients: Clients,
}

impl Downloads {
    /// Opens the cache in `dir`, which is made if it is missing.
    pub(super) fn open(dir: &Path, suites: &[String]) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|error| Error::io("create", dir, error))?;
        // Clients are started in other directories.
        let dir = std::fs::canonicalize(dir).map_err(|error| Error::io("open", dir, error))?;
        scratch::remove_left_over(&dir);
        Ok(Self {
            clients: Clients::new(&dir, suites),
            dir,
        })
    }

    /// The archive, from the cache or through its client, checked against its pin.
    pub(super) fn get(&self, archive: &PinnedArchive) -> Result<Download> {
        if archive.pin.sha256.is_none() {
            return Err(Error::invalid_input(format!("{archive} has no checksum"))
                .with_remedy("fill the list in with `ppc-bench corpus pin`"));
        }
        let download = self.get_unchecked(archive)?;
        check(archive, &download)?;
        Ok(download)
    }

    /// The archive, whatever its pin says.
    pub(super) fn get_unchecked(&self, archive: &PinnedArchive) -> Result<Download> {
        let dir = self.dir_of(archive);
        let path = match only_entry(&dir)? {
            Some(path) => path,
            None => self.fetch(archive, &dir)?,
        };
        let (bytes, sha256) = measure(&path)?;
        Ok(Download {
            path,
            bytes,
            sha256,
        })
    }

    fn dir_of(&self, archive: &PinnedArchive) -> PathBuf {
        let dir = self.dir.join(archive.client.name());
        dir.join(archive.name.replace('/', "+"))
            .join(archive.pin.version.replace(':', "_"))
    }

    fn fetch(&self, archive: &PinnedArchive, dir: &Path) -> Result<PathBuf> {
        let work = Scratch::create(&self.dir)?;
        let fetched = self.clients.fetch(archive, &work)?;
        // Beside the archive may lie what the client needed to get it.
        let ready = Scratch::create(&self.dir)?;
        let name = fetched.file_name().unwrap_or_default();
        let moved = ready.path().join(name);
        std::fs::rename(&fetched, &moved).map_err(|error| Error::io("rename", &fetched, error))?;
        if let Some(parent) = dir.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
        }
        // Another run may have been faster; then its archive serves as well.
        if std::fs::rename(ready.path(), dir).is_err() && only_entry(dir)?.is_none() {
            return Err(Error::new(ErrorKind::Io, "cannot keep the download").at_path(dir));
        }
        Ok(dir.join(name))
    }
}

/// Refuses an archive that is not the pinned one.
fn check(archive: &PinnedArchive, download: &Download) -> Result<()> {
    let expected = archive.pin.sha256.as_deref().unwrap_or_default();
    if download.sha256 == expected {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "{archive} is not the pinned archive: expected sha256 {expected}, found {}",
        download.sha256
    ))
    .at_path(&download.path)
    .with_remedy("delete the file to download it again; if it stays so, the list is out of date"))
}

/// The file in a version's directory; none if there is no such directory.
fn only_entry(dir: &Path) -> Result<Option<PathBuf>> {
    let mut entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("list", dir, error)),
    };
    let entry = entries.next().transpose();
    let entry = entry.map_err(|error| Error::io("list", dir, error))?;
    Ok(entry.map(|entry| entry.path()))
}

/// Length and SHA-256 of a file.
fn measure(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(|error| Error::io("open", path, error))?;
    let mut buffer = vec![0; 256 << 10];
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    loop {
        let count = file
            .read(&mut buffer)
            .map_err(|error| Error::io("read", path, error))?;
        if count == 0 {
            return Ok((bytes, super::hex(&hasher.finalize())));
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::client::Client;
    use super::super::list::Pin;
    use super::*;

    const SHA256_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn archive(sha256: Option<&str>) -> PinnedArchive {
        PinnedArchive {
            client: Client::Npm,
            name: "@scope/name".to_owned(),
            python: None,
            pin: Pin {
                version: "1.0.0".to_owned(),
                bytes: None,
                sha256: sha256.map(str::to_owned),
            },
        }
    }

    /// A cache that holds the archive already, so that no client is asked.
    fn filled() -> (TempDir, Downloads) {
        let dir = TempDir::new().unwrap();
        let version = dir.path().join("npm/@scope+name/1.0.0");
        std::fs::create_dir_all(&version).unwrap();
        std::fs::write(version.join("name.tgz"), "abc").unwrap();
        let downloads = Downloads::open(dir.path(), &[]).unwrap();
        (dir, downloads)
    }

    #[test]
    fn a_kept_archive_is_checked_and_used() {
        let (_dir, downloads) = filled();
        let download = downloads.get(&archive(Some(SHA256_OF_ABC))).unwrap();
        assert_eq!(download.bytes, 3);
        assert_eq!(std::fs::read(download.path).unwrap(), b"abc");
    }

    #[test]
    fn another_archive_than_the_pinned_is_refused_by_name() {
        let (_dir, downloads) = filled();
        let expected = "0f".repeat(32);
        let error = downloads.get(&archive(Some(&expected))).unwrap_err();
        let message = error.to_string();
        for part in [
            "npm @scope/name 1.0.0",
            &expected,
            SHA256_OF_ABC,
            "name.tgz",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_archive_without_checksum_is_not_gathered() {
        let (_dir, downloads) = filled();
        let message = downloads.get(&archive(None)).unwrap_err().to_string();
        assert!(message.contains("corpus pin"), "{message}");
        let download = downloads.get_unchecked(&archive(None)).unwrap();
        assert_eq!(download.sha256, SHA256_OF_ABC);
    }
}
