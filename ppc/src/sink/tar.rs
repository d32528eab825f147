//! An export as a tar archive, plain or compressed with zstd.
//!
//! A member's path is `b6/b6fc4c62...b0/main.c`: the hash keeps apart files of one name, the last
//! part is the file's own name, as bytes. A name that no path can end in (empty, `.`, `..`, or with
//! `/` or NUL in it, which only odd inputs have) is made safe there and given exactly in a pax
//! record, [`PAX_NAME`], which our own reader honours. Members carry no time, owner or other trace
//! of the machine, so the same files make the same archive. Paths beyond a header's 100 bytes go
//! into GNU long-name members before it.

use std::io::Write;
use std::path::Path;

use ppc_engine::{Error, Result};
use tar::{Builder, EntryType, Header};

use super::output::Output;
use super::{Sink, SinkOptions, SinkReport, safe_file_name};
use crate::key::PpcKey;

/// Key of the pax record that holds a member's exact file name where its path cannot.
pub const PAX_NAME: &str = "PPC.name";

/// Writes a tar archive.
pub struct TarSink {
    /// None once it is finished.
    builder: Option<Builder<Stream>>,
    report: SinkReport,
}

/// The archive's bytes on their way to the file.
enum Stream {
    Plain(Output),
    Zstd(zstd::Encoder<'static, Output>),
}

impl TarSink {
    /// Starts a plain archive that will be called `path`.
    pub fn create(path: &Path, options: &SinkOptions) -> Result<Self> {
        let output = Output::create(path, options.overwrite)?;
        Ok(Self::new(Stream::Plain(output)))
    }

    /// Starts an archive compressed with zstd that will be called `path`.
    pub fn create_zst(path: &Path, options: &SinkOptions) -> Result<Self> {
        let output = Output::create(path, options.overwrite)?;
        let mut encoder = zstd::Encoder::new(output, options.zstd_level)
            .map_err(|error| Error::io("compress", path, error))?;
        encoder
            .include_checksum(true)
            .map_err(|error| Error::io("compress", path, error))?;
        Ok(Self::new(Stream::Zstd(encoder)))
    }

    fn new(stream: Stream) -> Self {
        Self {
            builder: Some(Builder::new(stream)),
            report: SinkReport::default(),
        }
    }
}

impl Sink for TarSink {
    fn write(&mut self, key: &PpcKey, content: &[u8]) -> Result<()> {
        if let Some(builder) = &mut self.builder {
            append(builder, key, content)
                .map_err(|error| Error::io("write", builder.get_ref().path(), error))?;
        }
        self.report.count(content);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkReport> {
        let mut report = self.report;
        if let Some(mut builder) = self.builder.take() {
            let path = builder.get_ref().path().to_path_buf();
            let cannot_write = |error| Error::io("write", &path, error);
            builder.finish().map_err(cannot_write)?;
            let output = match builder.into_inner().map_err(cannot_write)? {
                Stream::Plain(output) => output,
                Stream::Zstd(encoder) => encoder.finish().map_err(cannot_write)?,
            };
            report.output_bytes = output.finish()?;
        }
        Ok(report)
    }
}

impl Drop for TarSink {
    fn drop(&mut self) {
        // The builder would write an end mark, and a part would pass for the whole.
        if let Some(builder) = &mut self.builder {
            builder.get_mut().abandon();
        }
    }
}

fn append(builder: &mut Builder<Stream>, key: &PpcKey, content: &[u8]) -> std::io::Result<()> {
    let name = key.name();
    let hash = key.hash().to_string();
    let mut path = format!("{}/{hash}/", hash.get(..2).unwrap_or_default()).into_bytes();
    if can_end_a_path(name) {
        path.extend_from_slice(name);
    } else {
        path.extend_from_slice(safe_file_name(name).as_bytes());
        builder.append_pax_extensions([(PAX_NAME, name.as_ref())])?;
    }
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    append_member(builder, &mut header, &path, content)
}

fn can_end_a_path(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Appends a member whose path is any bytes but NUL.
fn append_member(
    builder: &mut Builder<Stream>,
    header: &mut Header,
    path: &[u8],
    content: &[u8],
) -> std::io::Result<()> {
    let field_bytes = header.as_old().name.len();
    if path.len() > field_bytes {
        let mut long = Header::new_gnu();
        long.set_entry_type(EntryType::GNULongName);
        set_path(&mut long, b"././@LongLink");
        long.set_size(path.len() as u64 + 1);
        long.set_mode(0o644);
        long.set_cksum();
        builder.append(&long, [path, &[0]].concat().as_slice())?;
    }
    set_path(header, path);
    header.set_cksum();
    builder.append(header, content)
}

/// Fills the path field, with as much as fits.
fn set_path(header: &mut Header, path: &[u8]) {
    let field = &mut header.as_old_mut().name;
    for (to, from) in field.iter_mut().zip(path) {
        *to = *from;
    }
}

impl Stream {
    fn abandon(&mut self) {
        match self {
            Self::Plain(output) => output.abandon(),
            Self::Zstd(encoder) => encoder.get_mut().abandon(),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Plain(output) => output.path(),
            Self::Zstd(encoder) => encoder.get_ref().path(),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(buffer),
            Self::Zstd(encoder) => encoder.write(buffer),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
