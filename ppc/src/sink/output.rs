//! A file that appears under its name only once it is complete; or standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ppc_engine::{Error, Result};
use tempfile::NamedTempFile;

use super::temporary;

const BUFFER_BYTES: usize = 256 * 1024;

/// The path that stands for standard output.
pub(super) const STDOUT: &str = "-";

/// A file being written under a temporary name in its final directory, or standard output.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    overwrite: bool,
    writer: BufWriter<Target>,
    written_bytes: u64,
    is_abandoned: bool,
}

#[derive(Debug)]
enum Target {
    File(NamedTempFile),
    Stdout(io::Stdout),
}

impl Output {
    pub(super) fn create(path: &Path, overwrite: bool) -> Result<Self> {
        if path == Path::new(STDOUT) {
            let target = Target::Stdout(io::stdout());
            return Ok(Self::new(Path::new("standard output"), overwrite, target));
        }
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        if path.is_dir() {
            return Err(Error::invalid_input("the output is a directory")
                .at_path(path)
                .with_remedy("give the name of a file"));
        }
        temporary::prepare(path)?;
        let prefix = temporary::prefix(path);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(temporary::SUFFIX);
        #[cfg(unix)]
        let builder = {
            use std::os::unix::fs::PermissionsExt;
            // As any program creates files: the umask applies.
            builder.permissions(std::fs::Permissions::from_mode(0o666))
        };
        let file = builder
            .tempfile_in(parent(path))
            .map_err(|error| temporary::cannot_create(path, &error))?;
        temporary::hold(file.as_file());
        Ok(Self::new(path, overwrite, Target::File(file)))
    }

    fn new(path: &Path, overwrite: bool, target: Target) -> Self {
        Self {
            path: path.to_path_buf(),
            overwrite,
            writer: BufWriter::with_capacity(BUFFER_BYTES, target),
            written_bytes: 0,
            is_abandoned: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no more bytes: a format that completes itself when it is dropped must not do so on
    /// standard output, where nothing can be removed.
    pub(super) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Makes the file durable and gives it its name. Returns its length.
    pub(super) fn finish(self) -> Result<u64> {
        let cannot_write = |error| Error::io("write", &self.path, error);
        let target = self
            .writer
            .into_inner()
            .map_err(|error| cannot_write(error.into_error()))?;
        let file = match target {
            Target::File(file) => file,
            Target::Stdout(mut stdout) => {
                stdout.flush().map_err(cannot_write)?;
                return Ok(self.written_bytes);
            }
        };
        file.as_file().sync_all().map_err(cannot_write)?;
        if self.overwrite {
            file.persist(&self.path)
                .map_err(|error| cannot_write(error.error))?;
        } else {
            file.persist_noclobber(&self.path).map_err(|error| {
                if error.error.kind() == io::ErrorKind::AlreadyExists {
                    exists(&self.path)
                } else {
                    cannot_write(error.error)
                }
            })?;
        }
        sync_directory(parent(&self.path));
        Ok(self.written_bytes)
    }
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.is_abandoned {
            return Ok(buffer.len());
        }
        let count = self.writer.write(buffer)?;
        self.written_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Write for Target {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(buffer),
            Self::Stdout(stdout) => stdout.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// The directory that holds `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The error for an output that is already there.
pub(super) fn exists(path: &Path) -> Error {
    Error::invalid_input("the output exists already")
        .at_path(path)
        .with_remedy("remove it or choose another name; --overwrite replaces a file")
}

/// Makes a rename in a directory durable, where the system can. The output is complete in any
/// case, so a failure is not one of the export.
pub(super) fn sync_directory(directory: &Path) {
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
}
