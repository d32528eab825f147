//! Where exports go: a Parquet file, a tar archive, or a directory.
//!
//! A [`Sink`] takes keys and contents, one after the other, and makes its output complete in
//! [`Sink::finish`]: until then everything lies under a temporary name beside the final one, and is
//! removed if the sink is dropped, or by the next sink with that output if the process was killed.
//! Nothing that exists is overwritten unless the options say so,
//! and a directory never is.
//!
//! What a sink writes, the source of the same format reads back with the same names and contents. A
//! directory, whose names must suit every file system, changes some names and says in a map file what
//! they were. A sink is used by one thread.

mod directory;
mod output;
mod parquet;
mod safe_name;
mod tar;
mod temporary;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::str::FromStr;

use ppc_engine::{Error, Result};

use crate::key::PpcKey;
use crate::text::quote;

pub(crate) use directory::MAP_HEADER;
pub use directory::{DirectorySink, MAP_FILE};
pub use parquet::ParquetSink;
pub use safe_name::safe_file_name;
pub use tar::{PAX_NAME, TarSink};

use output::STDOUT;

/// Something that files are exported to.
pub trait Sink {
    /// Adds a file. After an error the sink can only be dropped.
    fn write(&mut self, key: &PpcKey, content: &[u8]) -> Result<()>;

    /// Completes the output and gives it its final name.
    fn finish(self: Box<Self>) -> Result<SinkReport>;
}

/// What an export wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SinkReport {
    /// Files written.
    pub files: u64,
    /// Bytes of their contents.
    pub content_bytes: u64,
    /// Bytes of the output; for a directory, those of the contents.
    pub output_bytes: u64,
}

impl SinkReport {
    fn count(&mut self, content: &[u8]) {
        self.files += 1;
        self.content_bytes += content.len() as u64;
    }
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SinkFormat {
    /// A Parquet file.
    Parquet,
    /// A plain tar archive.
    Tar,
    /// A tar archive compressed with zstd.
    TarZst,
    /// Files in a directory.
    Directory,
}

impl SinkFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Parquet, Self::Tar, Self::TarZst, Self::Directory];

    /// The name by which options call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Tar => "tar",
            Self::TarZst => "tar.zst",
            Self::Directory => "dir",
        }
    }

    /// The format that a path's ending suggests; a directory if it suggests none. Of `-`, standard
    /// output, it is a tar archive.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let name = name.to_ascii_lowercase();
        if name.ends_with(b".parquet") {
            Self::Parquet
        } else if name.ends_with(b".tar") || path == Path::new(STDOUT) {
            Self::Tar
        } else if [&b".tar.zst"[..], b".tar.zstd", b".tzst"]
            .iter()
            .any(|ending| name.ends_with(ending))
        {
            Self::TarZst
        } else {
            Self::Directory
        }
    }
}

impl FromStr for SinkFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            Error::invalid_input(format!("unknown export format {}", quote(text.as_bytes())))
                .with_remedy("use one of parquet, tar, tar.zst, dir")
        })
    }
}

/// How Parquet pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParquetCompression {
    /// Snappy: what The Stack and the paper use, read by everything.
    Snappy,
    /// zstd at [`SinkOptions::zstd_level`].
    Zstd,
}

impl FromStr for ParquetCompression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "snappy" => Ok(Self::Snappy),
            "zstd" => Ok(Self::Zstd),
            _ => Err(Error::invalid_input(format!(
                "unknown Parquet compression {}",
                quote(text.as_bytes())
            ))
            .with_remedy("use snappy or zstd")),
        }
    }
}

/// How sinks write.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// The form; that of [`SinkFormat::of_path`] if `None`.
    pub format: Option<SinkFormat>,
    /// Replace an existing file. A directory must be new or empty in any case.
    pub overwrite: bool,
    /// zstd level of tar archives and Parquet pages: 1 to 22.
    pub zstd_level: i32,
    /// Compression of Parquet pages.
    pub parquet_compression: ParquetCompression,
    /// Most rows of a Parquet row group.
    pub row_group_rows_max: usize,
    /// Content bytes that close a Parquet row group. A group is held in memory until it is written.
    pub row_group_bytes: usize,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            format: None,
            overwrite: false,
            zstd_level: 3,
            parquet_compression: ParquetCompression::Zstd,
            row_group_rows_max: 100_000,
            row_group_bytes: 128 << 20,
        }
    }
}

/// Opens a sink that writes to `path`; `-` is standard output, for the formats that are one file.
pub fn open_sink(path: &Path, options: &SinkOptions) -> Result<Box<dyn Sink>> {
    let format = options.format.unwrap_or_else(|| SinkFormat::of_path(path));
    Ok(match format {
        SinkFormat::Parquet => Box::new(ParquetSink::create(path, options)?),
        SinkFormat::Tar => Box::new(TarSink::create(path, options)?),
        SinkFormat::TarZst => Box::new(TarSink::create_zst(path, options)?),
        SinkFormat::Directory if path == Path::new(STDOUT) => {
            return Err(
                Error::invalid_input("a folder cannot be written to standard output")
                    .with_remedy("write an archive, or name the folder ./-"),
            );
        }
        SinkFormat::Directory => Box::new(DirectorySink::create(path, options)?),
    })
}
