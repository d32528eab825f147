//! The regular files of a tar archive: plain, or compressed with gzip (as `.crate` files are),
//! zstd, xz or bzip2, told apart by their first bytes.
//!
//! The archive is streamed once, so its order is the order of the files. GNU long names and pax
//! paths are understood; links, devices and pax sparse files are reported as
//! [`ProblemKind::NotAFile`]. A damaged header ends the reading, because nothing says where the
//! next member begins; so does an archive that ends within a member. One that ends between members
//! but without the end mark is reported as a problem, since it may have been cut there.
//!
//! Memory: one content, and the decompressor's window: 1 GiB for zstd archives made with
//! `--long=30` or level 22 on large input, up to 2 GiB where the archive asks for more.

mod input;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use ppc_engine::{Error, Result};
use tar::{Archive, Entry};

use super::compressed::decompress;
use super::{Input, Place, ProblemKind, Progress, Source, SourceFile, SourceItem, SourceOptions};
use crate::sink::PAX_NAME;
pub(super) use input::looks_like_tar;
use input::{EndMark, check_beginning};

/// The path that stands for standard input.
pub(super) const STDIN: &str = "-";
/// First guess of a member's size: its header is not believed beyond this.
const RESERVE_BYTES_MAX: u64 = 16 << 20;
/// How much may follow the end mark: tar pads to its blocking factor.
const PADDING_BYTES_MAX: u64 = 16 << 20;

/// Reads the regular files of a tar archive.
#[derive(Debug)]
pub struct TarSource {
    input: Input,
    progress: Progress,
    file_bytes_max: u64,
    /// Whether standard input, which cannot be read twice, was read.
    is_used_up: bool,
}

impl TarSource {
    /// Opens the archive at `path`, reading no member yet. Fails if a file does not begin as an
    /// archive does; from a pipe nothing is read. The path `-` is standard input.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        if path == Path::new(STDIN) {
            let mut input = Input::new(path.to_path_buf());
            input.label = "standard input".into();
            return Ok(Self {
                input,
                progress: Progress::new(),
                file_bytes_max: options.file_bytes_max,
                is_used_up: false,
            });
        }
        let metadata = std::fs::metadata(path).map_err(|error| Error::io("open", path, error))?;
        if metadata.is_dir() {
            return Err(Error::invalid_input("a directory, no tar archive").at_path(path));
        }
        let progress = Progress::new();
        if metadata.is_file() {
            progress.set_total_bytes(metadata.len());
            let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
            check_beginning(file).map_err(|error| no_archive(path, error))?;
        }
        Ok(Self {
            input: Input::new(path.to_path_buf()),
            progress,
            file_bytes_max: options.file_bytes_max,
            is_used_up: false,
        })
    }

    /// The archive's bytes, from their beginning.
    fn start(&mut self) -> Result<Box<dyn Read>> {
        let path = &self.input.path;
        if path != Path::new(STDIN) {
            let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
            return Ok(Box::new(file));
        }
        if std::mem::replace(&mut self.is_used_up, true) {
            return Err(Error::invalid_input("standard input can be read only once")
                .with_remedy("put the archive into a file first"));
        }
        Ok(Box::new(std::io::stdin()))
    }

    /// The error for what cannot be read on, naming the last member that was seen.
    fn broken(&self, error: std::io::Error, last_member: Option<&[u8]>) -> Error {
        let after = last_member.map_or_else(String::new, |path| {
            format!(" after member {}", crate::text::quote(path))
        });
        Error::corruption(format!("tar archive cannot be read on{after}"))
            .at_path(&self.input.path)
            .with_source(error)
            .with_remedy("it may be damaged or cut short; fetch it again")
    }

    /// The item that a member becomes; none for a directory.
    fn member<R: Read>(&self, entry: &mut Entry<'_, R>) -> std::io::Result<Option<SourceItem>> {
        let path = Bytes::from(entry.path_bytes().into_owned());
        let place = Place::Member(path.clone());
        let records = PaxRecords::of(entry)?;
        let entry_type = entry.header().entry_type();
        let kind = if entry_type.is_dir() || entry_type.is_pax_global_extensions() {
            return Ok(None);
        } else if entry_type.is_symlink() {
            Some("a symbolic link, not followed")
        } else if entry_type.is_hard_link() {
            Some("a hard link to another member, left out")
        } else if records.is_sparse {
            Some("a sparse file in the pax form, which is not supported")
        } else if entry_type.is_file() || entry_type.is_contiguous() || entry_type.is_gnu_sparse() {
            None
        } else {
            Some("a special file, left out")
        };
        if let Some(kind) = kind {
            return Ok(Some(self.input.problem(place, ProblemKind::NotAFile, kind)));
        }
        let file_bytes = entry.size();
        if file_bytes > self.file_bytes_max {
            return Ok(Some(self.input.too_large(
                place,
                file_bytes,
                self.file_bytes_max,
            )));
        }
        let reserved = usize::try_from(file_bytes.min(RESERVE_BYTES_MAX)).unwrap_or_default();
        let mut content = Vec::with_capacity(reserved);
        entry.read_to_end(&mut content)?;
        if content.len() as u64 != file_bytes {
            // The tar reader takes the end of its input for the end of the member.
            return Err(std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!(
                    "the archive ends {} bytes into a member of {file_bytes}",
                    content.len()
                ),
            ));
        }
        let origin = self.input.origin(place);
        let content = Bytes::from(content);
        let mut file = SourceFile::from_path(path, content, origin);
        if let Some(name) = records.name {
            file.name = name;
        }
        Ok(Some(SourceItem::File(file)))
    }

    /// Reads what follows the end mark, so that the checksums at a compressed file's end count.
    fn read_padding(&self, rest: &mut dyn Read) -> std::io::Result<Option<SourceItem>> {
        let mut padding = rest.take(PADDING_BYTES_MAX);
        std::io::copy(&mut padding, &mut std::io::sink())?;
        let is_all = padding.limit() > 0;
        Ok((!is_all).then(|| {
            self.input.problem(
                Place::Whole,
                ProblemKind::Unreadable,
                "the archive goes on after its end mark; what follows was not read",
            )
        }))
    }
}

/// The error for a file that does not even begin as an archive does.
fn no_archive(path: &Path, error: std::io::Error) -> Error {
    Error::corruption("tar archive cannot be read from its beginning")
        .at_path(path)
        .with_source(error)
        .with_remedy(
            "it may be damaged or cut short: fetch it again; as dir:PATH it is taken as the file that \
             it is",
        )
}

impl Source for TarSource {
    fn label(&self) -> &str {
        &self.input.label
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        let file = self.start()?;
        let path = &self.input.path;
        let decompressed = decompress(file, &self.progress).map_err(|error| error.at_path(path))?;
        let mut archive = Archive::new(EndMark::new(decompressed));
        let mut last_member = None;
        let entries = archive
            .entries()
            .map_err(|error| self.broken(error, None))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| self.broken(error, last_member.as_deref()))?;
            let item = self
                .member(&mut entry)
                .map_err(|error| self.broken(error, Some(&entry.path_bytes())))?;
            last_member = Some(entry.path_bytes().into_owned());
            if let Some(item) = item {
                self.progress.add_file();
                each(item)?;
            }
        }
        let mut rest = archive.into_inner();
        if last_member.is_none() && !rest.was_seen() {
            // Most likely what should have written it to a pipe has failed.
            let error = Error::corruption("the tar archive is empty, without even an end mark");
            return Err(error
                .at_path(path)
                .with_remedy("see whether the command that makes it fails, or fetch it again"));
        }
        let problem = if rest.was_seen() {
            self.read_padding(&mut rest)
                .map_err(|error| self.broken(error, last_member.as_deref()))?
        } else {
            let message = "the archive has no end mark; it may have been cut short";
            Some(
                self.input
                    .problem(Place::Whole, ProblemKind::Unreadable, message),
            )
        };
        problem.map_or(Ok(()), each)
    }
}

/// What a member's pax records say beyond what the tar reader handles.
#[derive(Default)]
struct PaxRecords {
    /// Its bytes are not the file's but a map of its holes and the rest.
    is_sparse: bool,
    /// Its file name, where our own export could not put it in the path.
    name: Option<Bytes>,
}

impl PaxRecords {
    fn of<R: Read>(entry: &mut Entry<'_, R>) -> std::io::Result<Self> {
        let mut records = Self::default();
        for record in entry.pax_extensions()?.into_iter().flatten() {
            let record = record?;
            let key = record.key_bytes();
            if key.starts_with(b"GNU.sparse.") {
                records.is_sparse = true;
            } else if key == PAX_NAME.as_bytes() {
                records.name = Some(Bytes::copy_from_slice(record.value_bytes()));
            }
        }
        Ok(records)
    }
}
