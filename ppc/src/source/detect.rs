//! What kind of input a path is, and the source that reads it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ppc_engine::Result;

use super::{DirectorySource, Source, SourceFormat, SourceOptions};

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
    /// exists as it is written is plain, so a file called `git:x` can be named.
    #[must_use]
    pub fn parse(text: &OsStr) -> Self {
        let plain = Self {
            format: None,
            path: PathBuf::from(text),
        };
        if plain.path.symlink_metadata().is_ok() {
            return plain;
        }
        for format in SourceFormat::ALL {
            if let Some(path) = strip_prefix(text, format.name()) {
                return Self {
                    format: Some(format),
                    path: PathBuf::from(path),
                };
            }
        }
        plain
    }
}

/// What follows `name:` in `text`.
fn strip_prefix(text: &OsStr, name: &str) -> Option<OsString> {
    let text = text.to_str()?;
    let rest = text.strip_prefix(name)?.strip_prefix(':')?;
    Some(OsString::from(rest))
}

/// Opens the input that `spec` names.
pub fn open_source(spec: &SourceSpec, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let path: &Path = &spec.path;
    Ok(Box::new(DirectorySource::open(path, options)?))
}
