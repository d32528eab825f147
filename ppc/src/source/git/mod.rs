//! The blobs of a git repository: every version of every file that any ref reaches, or every blob
//! there is.
//!
//! First all trees are walked, each distinct one once however many commits hold it, to learn the
//! file names that each blob goes by. Then the blobs are read in the order of the keys they will
//! have, each once, under the name that most of those trees give it. Packed and loose objects,
//! bare repositories, worktrees and alternates are read through `gix`, with the repository's own
//! configuration only; nothing is run, nothing written.
//!
//! Each blob's id is passed on as its stated hash, so the importer checks what git does not check
//! when it reads. Targets of symbolic links are blobs to git but no files: they are reported, like
//! submodules they are no content of this source. Objects that are missing (a partial clone) are
//! reported; the missing parents at the boundary of a shallow clone are expected.
//!
//! Memory: about 60 bytes for each distinct commit and tree during the walk, 80 for each blob until
//! the end, each distinct file name once, and one content with the deltas that it is made from.

#[cfg(test)]
mod tests;
mod walk;

use std::path::Path;

use bytes::Bytes;
use gix::ObjectId;
use ppc_engine::{Error, ErrorKind, Result};

use super::{
    Input, Place, ProblemKind, Progress, Source, SourceFile, SourceItem, SourceOptions, StatedHash,
};
use crate::hash::{ContentHash, Sha1Git};
use walk::{NamedBlob, Walk};

/// Decoded delta bases kept for the objects that follow.
const OBJECT_CACHE_BYTES: usize = 32 << 20;

/// Reads the blobs of a git repository.
pub struct GitSource {
    input: Input,
    progress: Progress,
    file_bytes_max: u64,
    all_objects: bool,
    repository: gix::ThreadSafeRepository,
}

impl GitSource {
    /// Opens the repository at `path`: a bare one, or the directory that holds `.git`.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        std::fs::metadata(path).map_err(|error| Error::io("open", path, error))?;
        let isolated = gix::open::Options::isolated();
        let repository = isolated.open(path).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "cannot open the git repository")
                .at_path(path)
                .with_source(one_line(&error))
                .with_remedy("give a bare repository, or the directory that holds .git")
        })?;
        Ok(Self {
            input: Input::new(path.to_path_buf()),
            progress: Progress::new(),
            file_bytes_max: options.file_bytes_max,
            all_objects: options.git_all_objects,
            repository,
        })
    }

    fn read_blob(&self, repository: &gix::Repository, blob: &NamedBlob) -> SourceItem {
        let place = Place::Object(blob.id.to_string());
        let unreadable = |message: String| {
            self.input
                .problem(place.clone(), ProblemKind::Unreadable, message)
        };
        // The header first: it costs little, and tells a blob too large before it is decoded.
        match repository.try_find_header(blob.id) {
            Ok(Some(header)) if header.size() > self.file_bytes_max => {
                return self
                    .input
                    .too_large(place, header.size(), self.file_bytes_max);
            }
            Ok(Some(_)) => {}
            Ok(None) => return unreadable("the blob is missing".to_owned()),
            Err(error) => return unreadable(one_line(&error)),
        }
        let content = match repository.find_object(blob.id) {
            Ok(object) if object.kind == gix::objs::Kind::Blob => object.detach().data,
            Ok(object) => return unreadable(format!("a {}, not a blob", object.kind)),
            Err(error) => return unreadable(one_line(&error)),
        };
        self.progress.add_bytes(content.len() as u64);
        let stated = Sha1Git::from_slice(blob.id.as_slice())
            .map(|hash| StatedHash::Known(ContentHash::Sha1Git(hash)));
        SourceItem::File(SourceFile {
            name: Bytes::copy_from_slice(&blob.name),
            path: None,
            content: Bytes::from(content),
            stated: stated.into_iter().collect(),
            origin: self.input.origin(place),
        })
    }
}

impl Source for GitSource {
    fn label(&self) -> &str {
        &self.input.label
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        let mut repository = self.repository.to_thread_local();
        repository.object_cache_size(OBJECT_CACHE_BYTES);
        let mut walk = Walk::new(&repository);
        let walked = if self.all_objects {
            walk.all_objects()
        } else {
            walk.reachable()
        };
        walked.map_err(|error| {
            Error::corruption("cannot walk the git repository")
                .at_path(&self.input.path)
                .with_source(one_line(&error))
                .with_remedy("run git fsck in it")
        })?;
        let found = walk.finish();
        let items = found.problems.len() + found.blobs.len();
        self.progress.set_total_files(items as u64);
        for problem in found.problems {
            self.progress.add_file();
            let place = Place::Object(problem.id.to_string());
            each(self.input.problem(place, problem.kind, problem.message))?;
        }
        for blob in &found.blobs {
            let item = self.read_blob(&repository, blob);
            self.progress.add_file();
            each(item)?;
        }
        Ok(())
    }
}

/// An object that the walk could not take.
struct ObjectProblem {
    id: ObjectId,
    kind: ProblemKind,
    message: String,
}

/// gix's errors, with their causes, on one line.
fn one_line(error: &gix::Error) -> String {
    error.to_string().replace(char::is_control, " ")
}
