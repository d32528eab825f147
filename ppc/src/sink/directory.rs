//! An export as files in a directory, with a map of what they are.
//!
//! ```text
//! out/
//!   ppc-map.tsv                   one line for each file: SWHID, size, place, key
//!   c/b6/b6fc4c62...b0/main.c     extension / first hash byte / hash / name
//!   _/e6/e69de29b...91/Makefile   no extension
//! ```
//!
//! The hash in the path keeps apart files of one name, and names that only case or Unicode
//! normalization tells apart; the last part is the file's own name wherever that is safe (see
//! [`safe_file_name`]). The map is the authority: its keys are exact, and the source that reads the
//! directory back takes the names from it. Everything is written to a directory beside the final one, renamed at the end.
//! Files are not synced one by one: after a power cut, export again.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ppc_engine::{Error, Result};
use tempfile::TempDir;

use super::output::{exists, parent, sync_directory};
use super::{Sink, SinkOptions, SinkReport, safe_file_name, temporary};
use crate::key::PpcKey;

/// Name of the map, in the directory's root.
pub const MAP_FILE: &str = "ppc-map.tsv";
/// First line of the map, without its end: what its columns are.
pub(crate) const MAP_HEADER: &str = "swhid\tsize\tfile\tkey";
/// Directory of files without extension.
const NO_EXT: &str = "_";

/// Writes files to a directory.
#[derive(Debug)]
pub struct DirectorySink {
    path: PathBuf,
    temporary: TempDir,
    map: BufWriter<File>,
    report: SinkReport,
}

impl DirectorySink {
    /// Starts a directory that will be called `path`, which must not exist or be empty.
    pub fn create(path: &Path, _options: &SinkOptions) -> Result<Self> {
        check_free(path)?;
        temporary::prepare(path)?;
        let prefix = temporary::prefix(path);
        let cannot_create = |error| temporary::cannot_create(path, &error);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(temporary::SUFFIX);
        #[cfg(unix)]
        let builder = {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o777))
        };
        let temporary = builder.tempdir_in(parent(path)).map_err(cannot_create)?;
        let map = File::create_new(temporary.path().join(MAP_FILE)).map_err(cannot_create)?;
        temporary::hold(&map);
        let mut map = BufWriter::new(map);
        writeln!(map, "{MAP_HEADER}").map_err(cannot_create)?;
        Ok(Self {
            path: path.to_path_buf(),
            temporary,
            map,
            report: SinkReport::default(),
        })
    }
}

impl Sink for DirectorySink {
    fn write(&mut self, key: &PpcKey, content: &[u8]) -> Result<()> {
        let place = place_of(key);
        let full_path = self.temporary.path().join(&place);
        // No part of the place, nor the key's text, holds a tab or a line's end.
        let line = format!("{}\t{}\t{place}\t{key}\n", key.swhid(), content.len());
        write_file(&full_path, content)
            .and_then(|()| self.map.write_all(line.as_bytes()))
            .map_err(|error| Error::io("write", &self.path.join(&place), error))?;
        self.report.count(content);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<SinkReport> {
        let cannot_write = |error| Error::io("write", &self.path, error);
        let map = self
            .map
            .into_inner()
            .map_err(|error| cannot_write(error.into_error()))?;
        map.sync_all().map_err(cannot_write)?;
        check_free(&self.path)?;
        if self.path.is_dir() {
            std::fs::remove_dir(&self.path).map_err(cannot_write)?;
        }
        std::fs::rename(self.temporary.path(), &self.path).map_err(cannot_write)?;
        // It is no longer under its temporary name, so there is nothing left to remove.
        let _ = self.temporary.keep();
        sync_directory(parent(&self.path));
        Ok(SinkReport {
            output_bytes: self.report.content_bytes,
            ..self.report
        })
    }
}

/// The place of a file below the root, with `/` between its parts.
fn place_of(key: &PpcKey) -> String {
    let ext = match key.ext() {
        [] => NO_EXT.to_owned(),
        ext => safe_file_name(ext),
    };
    let hash = key.hash().to_string();
    let first = hash.get(..2).unwrap_or_default();
    format!("{ext}/{first}/{hash}/{}", safe_file_name(key.name()))
}

fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    match std::fs::write(path, content) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(parent(path))?;
            std::fs::write(path, content)
        }
        outcome => outcome,
    }
}

fn check_free(path: &Path) -> Result<()> {
    match std::fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::invalid_input("the output directory is not empty")
            .at_path(path)
            .with_remedy("give a new directory or an empty one")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(Error::invalid_input(
            "there is a file where the folder would be written",
        )
        .at_path(path)
        .with_remedy("remove it or choose another name")),
        Err(_) => Err(exists(path)),
    }
}
