//! The rows of a Parquet file, each a file.
//!
//! The columns are read below the level of Arrow: values are the physical column's bytes whatever
//! logical type is declared, row by row, so that neither invalid UTF-8 nor a row group with more
//! content than 2 GiB is any trouble. Every codec and encoding that the `parquet` crate knows is
//! read, page checksums are checked, null contents are reported.
//!
//! Memory: one compressed and one decoded page of each column in use (pages are small, unless the
//! writer made them large), and a batch of rows bounded by bytes and by number.

mod column;
mod guard;
mod mapping;
mod stated;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use ppc_engine::{Error, Result};

use super::{Input, Place, ProblemKind, Progress, Source, SourceFile, SourceItem, SourceOptions};
use crate::key::file_name;
use column::ColumnReader;
use guard::{GuardedFile, guarded};
use mapping::ResolvedColumns;
use stated::HashColumn;

pub use guard::panics_become_errors;
pub use mapping::ColumnMapping;

const MAGIC: &[u8; 4] = b"PAR1";
/// Magic of files whose footer is encrypted.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// Magic at both ends, and the footer's length.
const FILE_BYTES_MIN: u64 = 12;

/// Content that a batch of rows aims at.
const BATCH_BYTES: u64 = 4 << 20;
/// Rows in the first batch of a row group, when nothing is known of their size.
const BATCH_ROWS_FIRST: u64 = 4;
/// Most rows of a batch: what bounds it when sizes jump.
const BATCH_ROWS_MAX: u64 = 256;

/// Reads the rows of a Parquet file.
pub struct ParquetSource {
    input: Input,
    progress: Progress,
    file_bytes_max: u64,
    file: GuardedFile,
    metadata: ParquetMetaData,
    columns: ResolvedColumns,
}

impl ParquetSource {
    /// Opens the file at `path`, reads its footer and finds the columns.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        let at_path = |error: Error| error.at_path(path);
        let mut file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        check_magic(&mut file).map_err(at_path)?;
        let file = GuardedFile::new(file).map_err(|error| Error::io("open", path, error))?;
        let failed = || "cannot read the footer of the Parquet file".to_owned();
        let metadata = guarded(&failed, || {
            ParquetMetaDataReader::new().parse_and_finish(&file)
        })
        .map_err(at_path)?;
        let schema = metadata.file_metadata().schema_descr();
        let columns =
            ResolvedColumns::resolve(schema, options.columns.as_ref()).map_err(at_path)?;
        let source = Self {
            input: Input::new(path.to_path_buf()),
            progress: Progress::new(),
            file_bytes_max: options.file_bytes_max,
            file,
            metadata,
            columns,
        };
        let groups = source.metadata.row_groups();
        let total_bytes = groups.iter().map(|group| source.group_bytes(group)).sum();
        source.progress.set_total_bytes(total_bytes);
        let total_rows = groups.iter().map(group_rows).sum();
        source.progress.set_total_files(total_rows);
        Ok(source)
    }

    /// Stored bytes of the columns in use.
    fn group_bytes(&self, group: &RowGroupMetaData) -> u64 {
        let columns = self.columns.all().into_iter();
        let chunks = columns.filter_map(|column| group.columns().get(column));
        chunks
            .map(|chunk| u64::try_from(chunk.compressed_size()).unwrap_or_default())
            .sum()
    }

    fn read_group(
        &self,
        index: usize,
        first_row: u64,
        hashes: &mut [HashColumn],
        each: &mut dyn FnMut(SourceItem) -> Result<()>,
    ) -> Result<()> {
        let Some(group) = self.metadata.row_groups().get(index) else {
            return Ok(());
        };
        let open = |column: &usize| ColumnReader::open(&self.file, group, index, *column);
        let mut content = open(&self.columns.content)?;
        let mut paths = self
            .columns
            .paths
            .iter()
            .map(open)
            .collect::<Result<Vec<_>>>()?;
        let mut name = self.columns.name.as_ref().map(open).transpose()?;
        let mut stated = hashes
            .iter()
            .map(|hash| open(&hash.column))
            .collect::<Result<Vec<_>>>()?;

        let (rows, group_bytes) = (group_rows(group), self.group_bytes(group));
        let mut done_rows = 0;
        let mut batch_rows = BATCH_ROWS_FIRST;
        while done_rows < rows {
            let count = batch_rows.min(rows - done_rows);
            // At most BATCH_ROWS_MAX, which fits.
            let count_rows = count as usize;
            let mut batch = Batch {
                contents: content.read(count_rows)?,
                paths: paths
                    .iter_mut()
                    .map(|c| c.read(count_rows))
                    .collect::<Result<_>>()?,
                names: name.as_mut().map(|c| c.read(count_rows)).transpose()?,
                hashes: stated
                    .iter_mut()
                    .map(|c| c.read(count_rows))
                    .collect::<Result<_>>()?,
            };
            batch_rows = next_batch_rows(&batch.contents);
            for offset in 0..count_rows {
                let item = self.item(&mut batch, offset, first_row + done_rows, hashes);
                done_rows += 1;
                self.progress.add_file();
                let done_bytes = share(group_bytes, done_rows, rows);
                let before_bytes = share(group_bytes, done_rows - 1, rows);
                self.progress.add_bytes(done_bytes - before_bytes);
                each(item)?;
            }
        }
        Ok(())
    }

    /// The item that a row of the batch becomes; takes the row's content out of the batch.
    fn item(
        &self,
        batch: &mut Batch,
        offset: usize,
        row: u64,
        hashes: &mut [HashColumn],
    ) -> SourceItem {
        let place = Place::Row(row);
        let content = batch.contents.get_mut(offset).and_then(Option::take);
        let Some(content) = content else {
            let message = "the content is null";
            return self.input.problem(place, ProblemKind::NullContent, message);
        };
        if content.len() as u64 > self.file_bytes_max {
            return self
                .input
                .too_large(place, content.len() as u64, self.file_bytes_max);
        }
        let cell = |cells: &[Option<ByteArray>]| {
            let cell = cells.get(offset).and_then(Option::as_ref);
            cell.map(|cell| Bytes::copy_from_slice(cell.data()))
        };
        let path = batch.paths.iter().find_map(|cells| cell(cells));
        let name = batch.names.as_deref().and_then(cell);
        let name = name.or_else(|| path.as_ref().map(|path| path.slice_ref(file_name(path))));
        let mut stated = Vec::with_capacity(hashes.len());
        for (column, cells) in hashes.iter_mut().zip(&batch.hashes) {
            if let Some(cell) = cells.get(offset).and_then(Option::as_ref) {
                stated.push(column.stated(cell, content.data()));
            }
        }
        SourceItem::File(SourceFile {
            name: name.unwrap_or_default(),
            path,
            // A copy, so that keeping a small file does not keep the page that it lay in.
            content: Bytes::copy_from_slice(content.data()),
            stated,
            origin: self.input.origin(place),
        })
    }
}

impl Source for ParquetSource {
    fn label(&self) -> &str {
        &self.input.label
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        let columns = self.columns.hashes.iter();
        let mut hashes: Vec<HashColumn> = columns
            .map(|(column, kind)| HashColumn::new(*column, *kind))
            .collect();
        let mut first_row = 0;
        for (index, group) in self.metadata.row_groups().iter().enumerate() {
            let mut callback_failed = false;
            let outcome = self.read_group(index, first_row, &mut hashes, &mut |item| {
                let outcome = each(item);
                callback_failed = outcome.is_err();
                outcome
            });
            outcome.map_err(|error| {
                // The callback's errors are its own and stay as they are.
                if callback_failed {
                    error
                } else {
                    error.at_path(&self.input.path)
                }
            })?;
            first_row += group_rows(group);
        }
        Ok(())
    }
}

/// Some consecutive rows of the columns in use.
struct Batch {
    contents: Vec<Option<ByteArray>>,
    paths: Vec<Vec<Option<ByteArray>>>,
    names: Option<Vec<Option<ByteArray>>>,
    hashes: Vec<Vec<Option<ByteArray>>>,
}

/// How many rows like these make a batch.
fn next_batch_rows(contents: &[Option<ByteArray>]) -> u64 {
    let sizes = contents
        .iter()
        .flatten()
        .map(|content| content.len() as u64);
    let rows = contents.len().max(1) as u64;
    let average_bytes = (sizes.sum::<u64>() / rows).max(1);
    (BATCH_BYTES / average_bytes).clamp(1, BATCH_ROWS_MAX)
}

fn group_rows(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or_default()
}

/// The part of `bytes` that `done` of `all` rows stand for.
fn share(bytes: u64, done: u64, all: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(done) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(bytes)
}

/// Tells a file that is no Parquet, or is cut short, before its footer is tried.
fn check_magic(file: &mut File) -> Result<()> {
    let cannot_read = |error| {
        Error::new(ppc_engine::ErrorKind::Io, "cannot read the Parquet file").with_source(error)
    };
    let len = file.metadata().map_err(cannot_read)?.len();
    let mut magic = [0_u8; 4];
    if len >= FILE_BYTES_MIN {
        file.read_exact(&mut magic).map_err(cannot_read)?;
    }
    if magic == *MAGIC_ENCRYPTED {
        return Err(Error::new(
            ppc_engine::ErrorKind::Unsupported,
            "the Parquet file is encrypted",
        ));
    }
    if magic != *MAGIC {
        return Err(
            Error::invalid_input("not a Parquet file: it does not begin with PAR1")
                .with_remedy("name another format, or check what was fetched"),
        );
    }
    file.seek(SeekFrom::End(-4)).map_err(cannot_read)?;
    file.read_exact(&mut magic).map_err(cannot_read)?;
    if magic != *MAGIC {
        return Err(
            Error::corruption("the Parquet file is cut short: it does not end with PAR1")
                .with_remedy("fetch it again"),
        );
    }
    Ok(())
}
