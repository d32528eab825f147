//! The rows of one CSV file of names.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use csv::{ByteRecord, Reader, ReaderBuilder};

use crate::hash::Sha1Git;
use crate::key::{PpcKey, file_name};
use crate::source::{Progress, decompress};
use crate::swhid::Swhid;
use crate::text::quote;
use crate::{Error, Result};

const SWHID_COLUMNS: &[&str] = &["swhid"];
const NAME_COLUMNS: &[&str] = &["filename", "file_name", "name"];
const PATH_COLUMNS: &[&str] = &["filepath", "file_path", "path"];
const COUNT_COLUMNS: &[&str] = &["occurrences", "filename_occurrences", "count"];
/// Longest row, decompressed: far beyond the longest name and path, and the bound on what a quote
/// that is never closed swallows.
const ROW_BYTES_MAX: u64 = 1 << 20;
/// How much of a field a message quotes.
const QUOTED_BYTES_MAX: usize = 60;

/// What a row says.
pub(super) enum Row {
    Name {
        hash: Sha1Git,
        /// 0 where the file does not count.
        occurrences: u64,
        name: Bytes,
    },
    /// Nothing, and why.
    Bad(String),
}

/// Reads one file, row by row.
pub(super) struct Rows {
    path: PathBuf,
    total_bytes: u64,
    reader: Reader<Bounded>,
    allowed_bytes: Rc<Cell<u64>>,
    columns: Columns,
    record: ByteRecord,
}

/// Which field is what.
struct Columns {
    swhid: usize,
    name: Option<usize>,
    path: Option<usize>,
    occurrences: Option<usize>,
}

impl Rows {
    /// Opens the file and reads its header. Bytes taken from it are added to `progress`.
    pub(super) fn open(path: &Path, progress: &Progress) -> Result<Self> {
        let cannot_open = |error| Error::io("open", path, error);
        let file = File::open(path).map_err(cannot_open)?;
        let total_bytes = file.metadata().map_err(cannot_open)?.len();
        let allowed_bytes = Rc::new(Cell::new(ROW_BYTES_MAX));
        let bounded = Bounded {
            inner: decompress(file, progress).map_err(|error| error.at_path(path))?,
            allowed_bytes: Rc::clone(&allowed_bytes),
        };
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(bounded);
        let header = reader.byte_headers().map_err(|error| broken(error, path))?;
        let columns = Columns::find(header).map_err(|error| error.at_path(path))?;
        Ok(Self {
            path: path.to_path_buf(),
            total_bytes,
            reader,
            allowed_bytes,
            columns,
            record: ByteRecord::new(),
        })
    }

    /// Bytes of the file.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Where the row read last is, for messages; the first below the header is row 0.
    pub(super) fn place(&self) -> String {
        let position = self.record.position();
        let (row, line) = position.map_or((0, 0), |it| (it.record().saturating_sub(1), it.line()));
        format!("{} row {row} (line {line})", self.path.display())
    }

    /// The next row; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        self.allowed_bytes.set(ROW_BYTES_MAX);
        let read = self.reader.read_byte_record(&mut self.record);
        if !read.map_err(|error| broken(error, &self.path))? {
            return Ok(None);
        }
        Ok(Some(self.columns.row(&self.record)))
    }
}

impl Columns {
    fn find(header: &ByteRecord) -> Result<Self> {
        let titles: Vec<String> = header
            .iter()
            .map(|title| String::from_utf8_lossy(title).trim().to_ascii_lowercase())
            .collect();
        let find = |names: &[&str]| {
            let mut names = names.iter();
            names.find_map(|name| titles.iter().position(|title| title == name))
        };
        let (name, path) = (find(NAME_COLUMNS), find(PATH_COLUMNS));
        match find(SWHID_COLUMNS) {
            Some(swhid) if name.is_some() || path.is_some() => Ok(Self {
                swhid,
                name,
                path,
                occurrences: find(COUNT_COLUMNS),
            }),
            _ => {
                let titles = header.iter().take(20).map(shortened);
                Err(Error::invalid_input(format!(
                    "a list of names needs the columns swhid, and filename or filepath, and this \
                     file's first line has {}",
                    titles.collect::<Vec<_>>().join(", ")
                ))
                .with_remedy("give it a header line, with fields set off by commas"))
            }
        }
    }

    fn row(&self, record: &ByteRecord) -> Row {
        let field = |column: usize| record.get(column).unwrap_or_default();
        let swhid = field(self.swhid);
        let text = String::from_utf8_lossy(swhid);
        let parsed = text.trim().parse::<Swhid>();
        let hash = match parsed.and_then(|swhid| swhid.content_hash()) {
            Ok(hash) => hash,
            Err(_) => return Row::Bad(format!("no SWHID of a content: {}", shortened(swhid))),
        };
        let name = self.name.map(field).unwrap_or_default();
        let name = match name {
            b"" => file_name(self.path.map(field).unwrap_or_default()),
            name => name,
        };
        if name.is_empty() {
            return Row::Bad("no file name".to_owned());
        }
        let occurrences = match self.occurrences.map(field) {
            None => 0,
            Some(text) => match std::str::from_utf8(text).unwrap_or_default().trim().parse() {
                Ok(occurrences) => occurrences,
                Err(_) => {
                    return Row::Bad(format!("no number of occurrences: {}", shortened(text)));
                }
            },
        };
        let name = Bytes::copy_from_slice(name);
        if let Err(error) = PpcKey::new(name.clone(), hash) {
            return Row::Bad(error.to_string());
        }
        Row::Name {
            hash,
            occurrences,
            name,
        }
    }
}

/// A field as a message quotes it.
fn shortened(field: &[u8]) -> String {
    match field.get(..QUOTED_BYTES_MAX) {
        Some(start) if field.len() > QUOTED_BYTES_MAX => format!("{}...", quote(start)),
        _ => quote(field).to_string(),
    }
}

fn broken(error: csv::Error, path: &Path) -> Error {
    let line = error.position().map(csv::Position::line);
    let near = line.map_or_else(String::new, |line| format!(" at line {line}"));
    Error::corruption(format!("list of names cannot be read on{near}"))
        .at_path(path)
        .with_source(error.to_string())
        .with_remedy("it may be damaged or cut short, or a quote in it is never closed")
}

/// Refuses to read on when a row does not end.
struct Bounded {
    inner: Box<dyn Read>,
    allowed_bytes: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.allowed_bytes.get() == 0 {
            return Err(io::Error::other(format!(
                "a row is longer than {ROW_BYTES_MAX} bytes"
            )));
        }
        let count = self.inner.read(buffer)?;
        let left = self.allowed_bytes.get().saturating_sub(count as u64);
        self.allowed_bytes.set(left);
        Ok(count)
    }
}
