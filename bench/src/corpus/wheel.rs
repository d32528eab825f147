//! The files of a zip archive, as which wheels come.
//!
//! Members are read in the order of the archive's directory, each decompressed once, its CRC
//! checked. Memory: one content, and the archive's directory.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ppc_store::source::{
    Origin, Place, Problem, ProblemKind, Progress, Source, SourceFile, SourceItem,
};
use ppc_store::{Error, Result};
use zip::ZipArchive;

/// First guess of a member's size: its header is not believed beyond this.
const RESERVE_BYTES_MAX: u64 = 16 << 20;

/// Reads the regular files of a zip archive.
pub(super) struct ZipSource {
    path: PathBuf,
    label: Arc<str>,
    progress: Progress,
    file_bytes_max: u64,
}

impl ZipSource {
    pub(super) fn open(path: &Path, file_bytes_max: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            label: path.display().to_string().into(),
            progress: Progress::new(),
            file_bytes_max,
        }
    }

    fn broken(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::corruption("zip archive cannot be read")
            .at_path(&self.path)
            .with_source(error)
            .with_remedy("it may be damaged or cut short; fetch it again")
    }

    fn problem(&self, place: Place, kind: ProblemKind, message: String) -> SourceItem {
        SourceItem::Problem(Problem {
            kind,
            origin: self.origin(place),
            message,
        })
    }

    fn origin(&self, place: Place) -> Origin {
        Origin {
            source: self.label.clone(),
            place,
        }
    }

    /// The item that a member becomes; none for a directory.
    fn member(&self, archive: &mut ZipArchive<File>, index: usize) -> Result<Option<SourceItem>> {
        let mut member = archive
            .by_index(index)
            .map_err(|error| self.broken(error))?;
        let path = member.name_raw().to_vec();
        let place = Place::Member(path.clone().into());
        if member.is_dir() {
            return Ok(None);
        }
        if member.is_symlink() {
            let message = "a symbolic link".to_owned();
            return Ok(Some(self.problem(place, ProblemKind::NotAFile, message)));
        }
        let (file_bytes, limit) = (member.size(), self.file_bytes_max);
        let mut content = Vec::new();
        if file_bytes <= limit {
            let reserved = file_bytes.min(RESERVE_BYTES_MAX);
            content.reserve(usize::try_from(reserved).unwrap_or_default());
            // One byte more than may be, so that a header that lies is found out.
            let mut limited = member.by_ref().take(limit + 1);
            limited
                .read_to_end(&mut content)
                .map_err(|error| self.broken(error))?;
        }
        if file_bytes > limit || content.len() as u64 > limit {
            let message = format!("more bytes than the limit of {limit}");
            return Ok(Some(self.problem(place, ProblemKind::TooLarge, message)));
        }
        let file = SourceFile::from_path(path.into(), content.into(), self.origin(place));
        Ok(Some(SourceItem::File(file)))
    }
}

impl Source for ZipSource {
    fn label(&self) -> &str {
        &self.label
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        let file = File::open(&self.path).map_err(|error| Error::io("open", &self.path, error))?;
        let mut archive = ZipArchive::new(file).map_err(|error| self.broken(error))?;
        for index in 0..archive.len() {
            if let Some(item) = self.member(&mut archive, index)? {
                if let SourceItem::File(file) = &item {
                    self.progress.add_bytes(file.content.len() as u64);
                }
                self.progress.add_file();
                each(item)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::TempDir;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn wheel(dir: &Path) -> PathBuf {
        let path = dir.join("a-1-py3-none-any.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        let options = SimpleFileOptions::default();
        writer.add_directory("a/", options).unwrap();
        for (name, content) in [
            ("a/__init__.py", "x = 1\n".repeat(50)),
            ("a/b.py", "y".into()),
        ] {
            writer.start_file(name, options).unwrap();
            writer.write_all(content.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    fn read(source: &mut ZipSource) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        source.read(&mut |item| {
            seen.push(match item {
                SourceItem::File(file) => {
                    let name = String::from_utf8_lossy(&file.name).into_owned();
                    format!("{name} {}", file.content.len())
                }
                SourceItem::Problem(problem) => problem.kind.name().to_owned(),
            });
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn files_are_read_and_large_ones_reported() {
        let dir = TempDir::new().unwrap();
        let path = wheel(dir.path());
        let mut source = ZipSource::open(&path, 1 << 20);
        let all = ["__init__.py 300", "b.py 1"];
        assert_eq!(read(&mut source).unwrap(), all);
        assert_eq!(read(&mut source).unwrap(), all);
        let mut source = ZipSource::open(&path, 10);
        assert_eq!(read(&mut source).unwrap(), ["too-large", "b.py 1"]);
    }

    #[test]
    fn a_damaged_archive_is_an_error_that_names_it() {
        let dir = TempDir::new().unwrap();
        let path = wheel(dir.path());
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = read(&mut ZipSource::open(&path, 1 << 20)).unwrap_err();
        assert!(
            error.to_string().contains("a-1-py3-none-any.whl"),
            "{error}"
        );
        // A changed content is found by its CRC.
        let mut changed = whole;
        let at = changed.windows(4).position(|w| w == b"b.py").unwrap() + 4;
        changed[at] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        assert!(read(&mut ZipSource::open(&path, 1 << 20)).is_err());
    }
}
