//! The files below a directory, in the order of the keys they will have.
//!
//! The walk comes first and keeps only paths; contents are then read one at a time, ordered by
//! (extension, stem, path), so that an import of a directory is sorted but for files of one name.
//! Memory: the paths (about 100 bytes a file) and one content.
//!
//! A directory that [`crate::sink::DirectorySink`] wrote is known by its map file, which is not read
//! as a file of it: each file that it names, and whose content still has the hash it states, gets the
//! name it had before the export. One whose content has another is a file like any other, with the
//! hash of the map as its stated hash, so that the importer tells of it. What the map names and is not
//! there is reported.
//!
//! Symbolic links are not followed, neither to files nor to directories, so nothing outside the
//! directory is read; they and special files are reported as [`ProblemKind::NotAFile`]. What the
//! walk or a read cannot open is reported and passed over.

mod exclude;
mod map;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ignore::WalkBuilder;
use ppc_engine::{Error, ErrorKind, Result};

use super::{
    Input, Place, ProblemKind, Progress, Source, SourceFile, SourceItem, SourceOptions, StatedHash,
};
use crate::hash::{ContentHash, Sha1Git};
use crate::key::{PpcKey, file_name, split_name};
use crate::sink::MAP_FILE;
pub use exclude::Excluded;
use exclude::Exclusions;
use map::Map;

/// Reads the files below a directory, or a single file.
#[derive(Debug)]
pub struct DirectorySource {
    input: Input,
    progress: Progress,
    file_bytes_max: u64,
    /// What there is to read, sorted; a single empty path if the root is a file.
    files: Vec<FoundFile>,
    /// What the walk could not take.
    problems: Vec<(Place, ProblemKind, String)>,
}

/// A file that the walk found.
#[derive(Debug)]
struct FoundFile {
    /// Its path below the root.
    path: PathBuf,
    /// Its key, where the map of an export knows it.
    key: Option<PpcKey>,
}

impl FoundFile {
    /// The name by which it is sorted, and which it gets unless its content has changed.
    fn name(&self) -> &[u8] {
        match &self.key {
            Some(key) => key.name(),
            None => file_name(self.path.as_os_str().as_encoded_bytes()),
        }
    }

    /// In the order of the keys that files will have, those of one name by path.
    fn compare(&self, other: &Self) -> Ordering {
        split_name(self.name())
            .cmp(&split_name(other.name()))
            .then_with(|| self.path.as_os_str().cmp(other.path.as_os_str()))
    }
}

impl DirectorySource {
    /// Walks the directory at `path`, reading no content yet.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|error| Error::io("open", path, error))?;
        let exclusions = Exclusions::new(&options.exclude);
        exclusions.check_root(path)?;
        let mut source = Self {
            input: Input::new(path.to_path_buf()),
            progress: Progress::new(),
            file_bytes_max: options.file_bytes_max,
            files: Vec::new(),
            problems: Vec::new(),
        };
        if metadata.is_file() {
            source.files.push(FoundFile {
                path: PathBuf::new(),
                key: None,
            });
            source.progress.set_total_bytes(metadata.len());
        } else if metadata.is_dir() {
            source.walk(options, &exclusions)?;
        } else {
            return Err(
                Error::new(ErrorKind::InvalidInput, "neither a file nor a directory")
                    .at_path(path)
                    .with_remedy(
                        "give a directory or a regular file; a tar archive may come from a pipe, as \
                         tar:PATH or, on standard input, as -",
                    ),
            );
        }
        let items = source.files.len() + source.problems.len();
        source.progress.set_total_files(items as u64);
        Ok(source)
    }

    fn walk(&mut self, options: &SourceOptions, exclusions: &Exclusions) -> Result<()> {
        let cannot_list = |error: std::io::Error| {
            Error::new(ErrorKind::Io, "cannot list the folder")
                .at_path(&self.input.path)
                .with_source(error)
        };
        // A root that is a link is followed: the user named it. Links below are not.
        let root = std::fs::canonicalize(&self.input.path).map_err(cannot_list)?;
        // The walk passes over what it cannot list; nothing at all is an error.
        std::fs::read_dir(&root).map_err(cannot_list)?;
        for (place, what) in exclusions.below(&root) {
            let message = format!("{what}, left out");
            let place = Place::Path(path_bytes(place));
            self.report(place, ProblemKind::NotAFile, message);
        }
        let mut map = Map::read(&root);
        for problem in map.iter_mut().flat_map(|map| map.problems.drain(..)) {
            let place = Place::Path(Bytes::from_static(MAP_FILE.as_bytes()));
            self.report(place, ProblemKind::Unreadable, problem);
        }
        let mut builder = WalkBuilder::new(&root);
        builder
            .standard_filters(false)
            .hidden(!options.include_hidden)
            .follow_links(false);
        if options.honour_gitignore {
            builder.git_ignore(true).git_exclude(true).parents(true);
            builder.require_git(false);
        }
        let git = options.honour_gitignore.then_some(OsStr::new(".git"));
        let exclusions = exclusions.clone();
        builder.filter_entry(move |entry| {
            let name = entry.file_name();
            entry.depth() == 0 || (Some(name) != git && !exclusions.hold(entry.path(), name))
        });
        let mut total_bytes = 0;
        for entry in builder.build() {
            match entry {
                Ok(entry) if entry.depth() == 0 => {
                    // A broken ignore file is told, and what it holds otherwise is honoured.
                    if let Some(error) = entry.error() {
                        self.report(Place::Whole, ProblemKind::Unreadable, error.to_string());
                    }
                }
                Ok(entry) => total_bytes += self.take_entry(&root, &entry, map.as_mut()),
                Err(error) => self.report_walk_error(&root, &error),
            }
        }
        for place in map.into_iter().flat_map(|map| map.keys.into_keys()) {
            self.report_if_absent(&root, place);
        }
        self.files.sort_by(FoundFile::compare);
        self.progress.set_total_bytes(total_bytes);
        Ok(())
    }

    /// Reports what the walk could not go into, by its place.
    fn report_walk_error(&mut self, root: &Path, error: &ignore::Error) {
        let path = path_of(error).and_then(|path| path.strip_prefix(root).ok());
        let place = path.map_or(Place::Whole, |path| Place::Path(path_bytes(path)));
        // The whole message would say the path twice more.
        let message = match error.io_error() {
            Some(error) => {
                let cause = error.get_ref().and_then(|wrapper| wrapper.source());
                let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
                format!("cannot list: {cause}")
            }
            None => error.to_string(),
        };
        self.report(place, ProblemKind::Unreadable, message);
    }

    /// Reports a file of the map that the walk did not meet, unless it was told not to.
    fn report_if_absent(&mut self, root: &Path, place: Vec<u8>) {
        let Ok(below_root) = std::str::from_utf8(&place) else {
            return;
        };
        if root.join(below_root).symlink_metadata().is_err() {
            let message = format!("{MAP_FILE} names it, but it is not there");
            let place = Place::Path(Bytes::from(place));
            self.report(place, ProblemKind::Unreadable, message);
        }
    }

    /// Notes one entry of the walk, with the key that the map has for it; returns the bytes that it
    /// adds.
    fn take_entry(&mut self, root: &Path, entry: &ignore::DirEntry, map: Option<&mut Map>) -> u64 {
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
                "a symbolic link, not followed"
            } else {
                "a special file, left out"
            };
            self.report(place(), ProblemKind::NotAFile, what.to_owned());
            return 0;
        }
        let mut key = None;
        if let Some(map) = map {
            if below_root == Path::new(MAP_FILE) {
                return 0;
            }
            key = map.keys.remove(&path_bytes(below_root)[..]);
        }
        self.files.push(FoundFile {
            path: below_root.to_path_buf(),
            key,
        });
        // A file that vanishes between the walk and the read is reported when read.
        entry.metadata().map_or(0, |metadata| metadata.len())
    }

    fn report(&mut self, place: Place, kind: ProblemKind, message: String) {
        // Messages of the operating system and of ignore files may hold anything.
        let message = message.replace(char::is_control, " ");
        self.problems.push((place, kind, message));
    }

    fn read_file(&self, found: &FoundFile) -> SourceItem {
        let below_root = found.path.as_path();
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
        let mut file = SourceFile::from_path(path, content, self.input.origin(place));
        if let Some(key) = &found.key {
            if Sha1Git::of(&file.content) == key.hash() {
                file.name = key.name().clone();
            }
            let stated = ContentHash::Sha1Git(key.hash());
            file.stated.push(StatedHash::Known(stated));
        }
        SourceItem::File(file)
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
        for found in &self.files {
            let item = self.read_file(found);
            self.progress.add_file();
            each(item)?;
        }
        Ok(())
    }
}

/// The path that an error of the walk is about, where it says.
fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        _ => None,
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
