//! What kind of input a path is, and the source that reads it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use ppc_engine::{Error, Result};

use super::tar::{STDIN, looks_like_tar};
use super::{DirectorySource, ParquetSource, Source, SourceFormat, SourceOptions, TarSource};

/// How Parquet files begin: readable ones, and those with an encrypted footer.
const PARQUET_MAGICS: &[&[u8; 4]] = &[b"PAR1", b"PARE"];
const PARQUET_ENDINGS: &[&str] = &[".parquet"];
/// Endings by which a damaged archive is still an archive rather than a single file.
const TAR_ENDINGS: &[&str] = &[
    ".tar",
    ".tar.gz",
    ".tgz",
    ".crate",
    ".tar.zst",
    ".tar.zstd",
    ".tzst",
    ".tar.xz",
    ".txz",
    ".tar.bz2",
    ".tbz2",
    ".tbz",
];

/// An input as a user names it: a path, or `format:path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The format, if one was named.
    pub format: Option<SourceFormat>,
    /// The path.
    pub path: PathBuf,
}

impl SourceSpec {
    /// Reads `git:repo`, `tar:file`, `parquet:file`, `dir:path`, or a plain path. A path that
    /// exists as it is written is plain, so a file called `git:x` can be named. `-` is a tar archive
    /// on standard input.
    #[must_use]
    pub fn parse(text: &OsStr) -> Self {
        let plain = Self {
            format: None,
            path: PathBuf::from(text),
        };
        if text == STDIN {
            return Self {
                format: Some(SourceFormat::Tar),
                ..plain
            };
        }
        if plain.path.symlink_metadata().is_ok() {
            return plain;
        }
        for format in SourceFormat::ALL {
            if let Some(path) = strip_prefix(text, format.name()) {
                return Self {
                    format: Some(format),
                    path,
                };
            }
        }
        plain
    }
}

/// What follows `name:` in `text`.
#[cfg(unix)]
fn strip_prefix(text: &OsStr, name: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let rest = text.as_bytes().strip_prefix(name.as_bytes())?;
    Some(PathBuf::from(OsStr::from_bytes(rest.strip_prefix(b":")?)))
}

/// What follows `name:` in `text`; none where that is no Unicode.
#[cfg(not(unix))]
fn strip_prefix(text: &OsStr, name: &str) -> Option<PathBuf> {
    let rest = text.to_str()?.strip_prefix(name)?;
    Some(PathBuf::from(rest.strip_prefix(':')?))
}

/// Opens the input that `spec` names, as the format it names, else the options name, else the input
/// has:
/// - a directory is read as files, even if it holds a git repository;
/// - a file that begins like Parquet, or is called so, is read as Parquet;
/// - one that begins like a tar archive once decompressed, or is called so, as tar;
/// - any other as the single file that it is.
pub fn open_source(spec: &SourceSpec, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let path: &Path = &spec.path;
    let format = match spec.format.or(options.format) {
        Some(format) => format,
        None => detect(path)?,
    };
    Ok(match format {
        SourceFormat::Directory => Box::new(DirectorySource::open(path, options)?),
        SourceFormat::Tar => Box::new(TarSource::open(path, options)?),
        SourceFormat::Parquet => Box::new(ParquetSource::open(path, options)?),
        SourceFormat::Git => open_git(path, options)?,
    })
}

#[cfg(feature = "git")]
fn open_git(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    Ok(Box::new(super::GitSource::open(path, options)?))
}

#[cfg(not(feature = "git"))]
fn open_git(path: &Path, _: &SourceOptions) -> Result<Box<dyn Source>> {
    Err(Error::new(
        ppc_engine::ErrorKind::Unsupported,
        "this build cannot read git repositories",
    )
    .at_path(path)
    .with_remedy("build with the feature \"git\""))
}

fn detect(path: &Path) -> Result<SourceFormat> {
    let cannot_open = |error| Error::io("open", path, error);
    if !std::fs::metadata(path).map_err(cannot_open)?.is_file() {
        return Ok(SourceFormat::Directory);
    }
    let mut file = File::open(path).map_err(cannot_open)?;
    let mut start = [0_u8; 4];
    let is_parquet = file.read_exact(&mut start).is_ok() && PARQUET_MAGICS.contains(&&start);
    file.rewind().map_err(cannot_open)?;
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_called = |endings: &[&str]| {
        let mut endings = endings.iter();
        endings.any(|ending| name.to_ascii_lowercase().ends_with(ending.as_bytes()))
    };
    if is_parquet || is_called(PARQUET_ENDINGS) {
        return Ok(SourceFormat::Parquet);
    }
    if is_called(TAR_ENDINGS) || looks_like_tar(file) {
        return Ok(SourceFormat::Tar);
    }
    Ok(SourceFormat::Directory)
}

#[cfg(test)]
mod tests {
    use ppc_engine::ErrorKind;

    use super::*;

    fn opened(name: &str, content: &[u8]) -> Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let spec = SourceSpec::parse(path.as_os_str());
        let mut source = open_source(&spec, &SourceOptions::default())?;
        let mut names = Vec::new();
        source.read(&mut |item| {
            if let crate::source::SourceItem::File(file) = item {
                names.push(String::from_utf8_lossy(&file.name).into_owned());
            }
            Ok(())
        })?;
        Ok(names.join(" "))
    }

    #[test]
    fn files_are_read_as_what_they_begin_with_or_are_called() {
        let mut header = ::tar::Header::new_ustar();
        header.set_size(1);
        let mut builder = ::tar::Builder::new(Vec::new());
        builder
            .append_data(&mut header, "d/inner.c", &b"x"[..])
            .unwrap();
        let tar = builder.into_inner().unwrap();
        assert_eq!(opened("x", &tar).unwrap(), "inner.c");
        assert_eq!(opened("main.rs", b"fn main() {}").unwrap(), "main.rs");
        assert_eq!(opened("PAR", b"PAR").unwrap(), "PAR");
        assert_eq!(opened("empty", b"").unwrap(), "empty");
        for (name, expected) in [
            ("broken.tar.GZ", "tar archive"),
            ("broken.crate", "tar archive"),
            ("broken.parquet", "Parquet"),
        ] {
            let message = opened(name, b"something else").unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        assert!(
            opened("x", b"PAR1 and no more")
                .unwrap_err()
                .to_string()
                .contains("cut short")
        );
    }

    #[test]
    fn a_spec_names_a_format_unless_it_is_a_path() {
        let spec = SourceSpec::parse(OsStr::new("git:some/repo"));
        assert_eq!(spec.format, Some(SourceFormat::Git));
        assert_eq!(spec.path, Path::new("some/repo"));
        assert_eq!(SourceSpec::parse(OsStr::new("svn:x")).format, None);
        assert_eq!(
            SourceSpec::parse(OsStr::new("-")).format,
            Some(SourceFormat::Tar)
        );
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let spec = SourceSpec::parse(OsStr::from_bytes(b"tar:\xff"));
            assert_eq!(spec.format, Some(SourceFormat::Tar));
            assert_eq!(spec.path, Path::new(OsStr::from_bytes(b"\xff")));
        }
        let missing = SourceSpec::parse(OsStr::new("no/such/file"));
        let error = open_source(&missing, &SourceOptions::default()).map(|_| ());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
