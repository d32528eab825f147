//! An export as a Parquet file, one file in each row, in key order.
//!
//! | column | type | what |
//! |---|---|---|
//! | `swhid` | string | `swh:1:cnt:<40 hex>` |
//! | `name` | bytes | file name |
//! | `ext` | bytes | its extension, empty if it has none |
//! | `size` | int64 | length of the content |
//! | `content` | bytes | the content |
//!
//! Names and contents are declared as bytes, not as text, because they may be anything; nothing is
//! null. Row groups close at a number of rows or of content bytes, whichever comes first, and are
//! held in memory until then. Pages carry checksums. `content` has neither dictionary nor
//! statistics: contents are distinct, and their first bytes tell a reader nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use ppc_engine::{Error, ErrorKind, Result};

use super::output::Output;
use super::{ParquetCompression, Sink, SinkOptions, SinkReport};
use crate::key::PpcKey;

const SCHEMA: &str = "message ppc {
    required binary swhid (UTF8);
    required binary name;
    required binary ext;
    required int64 size;
    required binary content;
}";

/// Writes a Parquet file.
pub struct ParquetSink {
    path: PathBuf,
    writer: SerializedFileWriter<Output>,
    rows: Rows,
    rows_max: usize,
    group_bytes: usize,
    report: SinkReport,
}

/// The row group being gathered, column by column.
#[derive(Default)]
struct Rows {
    swhids: Vec<ByteArray>,
    names: Vec<ByteArray>,
    exts: Vec<ByteArray>,
    sizes: Vec<i64>,
    contents: Vec<ByteArray>,
    content_bytes: usize,
}

impl ParquetSink {
    /// Starts a file that will be called `path`.
    pub fn create(path: &Path, options: &SinkOptions) -> Result<Self> {
        let compression = match options.parquet_compression {
            ParquetCompression::Snappy => Compression::SNAPPY,
            ParquetCompression::Zstd => Compression::ZSTD(
                ZstdLevel::try_new(options.zstd_level)
                    .map_err(|error| Error::invalid_input(error.to_string()))?,
            ),
        };
        let content = || ColumnPath::from("content");
        let properties = WriterProperties::builder()
            .set_created_by(concat!("ppc ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(compression)
            .set_max_row_group_row_count(None)
            .set_column_dictionary_enabled(content(), false)
            .set_column_statistics_enabled(content(), EnabledStatistics::None)
            .build();
        let output = Output::create(path, options.overwrite)?;
        let failed = |error| failure(path, error);
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
        Ok(Self {
            path: path.to_path_buf(),
            writer: SerializedFileWriter::new(output, schema, Arc::new(properties))
                .map_err(failed)?,
            rows: Rows::default(),
            rows_max: options.row_group_rows_max.max(1),
            group_bytes: options.row_group_bytes,
            report: SinkReport::default(),
        })
    }

    fn write_group(&mut self) -> Result<()> {
        if self.rows.sizes.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let written = self.writer.next_row_group().and_then(|mut group| {
            write_column::<ByteArrayType>(&mut group, &rows.swhids)?;
            write_column::<ByteArrayType>(&mut group, &rows.names)?;
            write_column::<ByteArrayType>(&mut group, &rows.exts)?;
            write_column::<Int64Type>(&mut group, &rows.sizes)?;
            write_column::<ByteArrayType>(&mut group, &rows.contents)?;
            group.close().map(|_| ())
        });
        written.map_err(|error| failure(&self.path, error))
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, key: &PpcKey, content: &[u8]) -> Result<()> {
        let rows = &mut self.rows;
        rows.swhids
            .push(ByteArray::from(key.swhid().to_string().into_bytes()));
        rows.names.push(ByteArray::from(key.name().clone()));
        rows.exts.push(ByteArray::from(key.ext().to_vec()));
        // A value of the engine has at most 1 GiB.
        rows.sizes
            .push(i64::try_from(content.len()).unwrap_or(i64::MAX));
        rows.contents.push(ByteArray::from(content.to_vec()));
        rows.content_bytes += content.len();
        self.report.count(content);
        if rows.content_bytes >= self.group_bytes || rows.sizes.len() >= self.rows_max {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkReport> {
        self.write_group()?;
        let output = self
            .writer
            .into_inner()
            .map_err(|error| failure(&self.path, error))?;
        Ok(SinkReport {
            output_bytes: output.finish()?,
            ..self.report
        })
    }
}

fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Output>,
    values: &[T::T],
) -> std::result::Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has no further column".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// A failure to write, told apart from others of the crate by the I/O error inside.
fn failure(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(error) => Error::io("write", path, *error),
            Err(cause) => cannot_write(path).with_source(cause),
        },
        error => cannot_write(path).with_source(error),
    }
}

fn cannot_write(path: &Path) -> Error {
    Error::new(ErrorKind::Io, "cannot write the Parquet file").at_path(path)
}
