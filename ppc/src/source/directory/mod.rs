//! The files below a directory, in the order of the keys they will have.
//!
//! The walk comes first and keeps only paths; contents are then read one at a time, ordered by
//! (extension, stem, path), so that an import of a directory is sorted but for files of one name.
//! Memory: the paths (about 100 bytes a file) and one content.
//!
//! Symbolic links are not followed, neither to files nor to directories, so nothing outside the
//! directory is read; they and special files are reported as [`ProblemKind::NotAFile`]. What the
//! walk or a read cannot open is reported and passed over.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ignore::WalkBuilder;
use ppc_engine::{Error, ErrorKind, Result};

use super::{Input, Place, ProblemKind, Progress, Source, SourceFile, SourceItem, SourceOptions};
use crate::key::{file_name, split_name};

/// Reads the files below a directory, or a single file.
#[derive(Debug)]
pub struct DirectorySource {
    input: Input,
    progress: Progress,
    file_bytes_max: u64,
    /// Paths below the root, sorted; a single empty one if the root is a file.
    files: Vec<PathBuf>,
    /// What the walk could not take.
    problems: Vec<(Place, ProblemKind, String)>,
}

impl DirectorySource {
    /// Walks the directory at `path`, reading no content yet.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|error| Error::io("open", path, error))?;
        let mut source = Self {
            input: Input::new(path.to_path_buf()),
            progress: Progress::new(),
            file_bytes_max: options.file_bytes_max,
            files: Vec::new(),
            problems: Vec::new(),
        };
        if metadata.is_file() {
            source.files.push(PathBuf::new());
            source.progress.set_total_bytes(metadata.len());
        } else if metadata.is_dir() {
            source.walk(options)?;
        } else {
            return Err(
                Error::new(ErrorKind::InvalidInput, "neither a file nor a directory")
                    .at_path(path)
                    .with_remedy("give a directory or a regular file"),
            );
        }
        let items = source.files.len() + source.problems.len();
        source.progress.set_total_files(items as u64);
        Ok(source)
    }

    fn walk(&mut self, options: &SourceOptions) -> Result<()> {
        // A root that is a link is followed: the user named it. Links below are not.
        let root = std::fs::canonicalize(&self.input.path)
            .map_err(|error| Error::io("open", &self.input.path, error))?;
        let mut builder = WalkBuilder::new(&root);
        builder
            .standard_filters(false)
            .hidden(!options.include_hidden)
            .follow_links(false);
        if options.honour_gitignore {
            builder.git_ignore(true).git_exclude(true).parents(true);
            builder.require_git(false);
            builder.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        }
        let mut total_bytes = 0;
        for entry in builder.build() {
            match entry {
                Ok(entry) if entry.depth() == 0 => {
                    // A broken ignore file is told, and what it holds otherwise is honoured.
                    if let Some(error) = entry.error() {
                        self.report(Place::Whole, ProblemKind::Unreadable, error.to_string());
                    }
                }
                Ok(entry) => total_bytes += self.take_entry(&root, &entry),
                Err(error) => {
                    self.report(Place::Whole, ProblemKind::Unreadable, error.to_string());
                }
            }
        }
        self.files.sort_by(|a, b| compare_paths(a, b));
        self.progress.set_total_bytes(total_bytes);
        Ok(())
    }

    /// Notes one entry of the walk; returns the bytes that it adds.
    fn take_entry(&mut self, root: &Path, entry: &ignore::DirEntry) -> u64 {
        let below_root = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let place = || Place::Path(path_bytes(below_root));
        if let Some(error) = entry.error() {
            self.report(place(), ProblemKind::Unreadable, error.to_string());
        }
        let Some(file_type) = entry.file_type() else {
            return 0;
        };
        if file_type.is_dir() {
            return 0;
        }
        if !file_type.is_file() {
            let what = if file_type.is_symlink() {
                "a symbolic link"
            } else {
                "a special file"
            };
            self.report(place(), ProblemKind::NotAFile, what.to_owned());
            return 0;
        }
        self.files.push(below_root.to_path_buf());
        // A file that vanishes between the walk and the read is reported when read.
        entry.metadata().map_or(0, |metadata| metadata.len())
    }

    fn report(&mut self, place: Place, kind: ProblemKind, message: String) {
        // Messages of the operating system and of ignore files may hold anything.
        let message = message.replace(char::is_control, " ");
        self.problems.push((place, kind, message));
    }

    fn read_file(&self, below_root: &Path) -> SourceItem {
        let is_single_file = below_root.as_os_str().is_empty();
        let (place, full_path) = if is_single_file {
            (Place::Whole, self.input.path.clone())
        } else {
            let place = Place::Path(path_bytes(below_root));
            (place, self.input.path.join(below_root))
        };
        let content = match read_bounded(&full_path, self.file_bytes_max) {
            Ok(Content::Whole(content)) => content,
            Ok(Content::TooLarge(file_bytes)) => {
                return self.input.too_large(place, file_bytes, self.file_bytes_max);
            }
            Err(error) => {
                return self.input.problem(
                    place,
                    ProblemKind::Unreadable,
                    format!("cannot read: {error}"),
                );
            }
        };
        self.progress.add_bytes(content.len() as u64);
        let path = if is_single_file {
            path_bytes(Path::new(full_path.file_name().unwrap_or_default()))
        } else {
            path_bytes(below_root)
        };
        SourceItem::File(SourceFile::from_path(
            path,
            content,
            self.input.origin(place),
        ))
    }
}

impl Source for DirectorySource {
    fn label(&self) -> &str {
        &self.input.label
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        for (place, kind, message) in &self.problems {
            self.progress.add_file();
            each(self.input.problem(place.clone(), *kind, message.clone()))?;
        }
        for below_root in &self.files {
            let item = self.read_file(below_root);
            self.progress.add_file();
            each(item)?;
        }
        Ok(())
    }
}

enum Content {
    Whole(Bytes),
    TooLarge(u64),
}

/// The file's bytes, unless there are more than `bytes_max`. Its length is not trusted: it may grow
/// while it is read.
fn read_bounded(path: &Path, bytes_max: u64) -> std::io::Result<Content> {
    let file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    if file_bytes > bytes_max {
        return Ok(Content::TooLarge(file_bytes));
    }
    let mut content = Vec::new();
    let expected = usize::try_from(file_bytes).unwrap_or(usize::MAX);
    content.try_reserve_exact(expected)?;
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Ok(Content::TooLarge(content.len() as u64));
    }
    Ok(Content::Whole(Bytes::from(content)))
}

/// A relative path as bytes with `/` between its parts: on Unix exactly the path's bytes.
fn path_bytes(path: &Path) -> Bytes {
    let mut bytes = Vec::with_capacity(path.as_os_str().len());
    for (index, part) in path.iter().enumerate() {
        if index > 0 {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(part.as_encoded_bytes());
    }
    Bytes::from(bytes)
}

fn compare_paths(a: &Path, b: &Path) -> Ordering {
    let (a_bytes, b_bytes) = (
        a.as_os_str().as_encoded_bytes(),
        b.as_os_str().as_encoded_bytes(),
    );
    split_name(file_name(a_bytes))
        .cmp(&split_name(file_name(b_bytes)))
        .then_with(|| a_bytes.cmp(b_bytes))
}
