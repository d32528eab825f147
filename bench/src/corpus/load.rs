//! Reading a corpus from a Parquet file.
//!
//! Memory: the corpus, and a batch of rows. To choose a sample, sizes and names are read first;
//! contents that are not in the sample are decoded, but not kept.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ppc_store::source::{ParquetSource, Source, SourceItem, SourceOptions, StatedHash};
use ppc_store::{ContentHash, Error, PpcKey, Result};

use super::sample::{self, Row};
use super::{Builder, Corpus};

/// Rows of the small columns read at once.
const BATCH_ROWS: usize = 8_192;

impl Corpus {
    /// Reads the Parquet file at `path`, which `ppc-bench corpus` or `ppc export` wrote. The
    /// corpus is named like the file, without its ending.
    ///
    /// Fails on a file whose rows are not in key order, on a null or unreadable row, and on a
    /// content whose stated hash is another one's.
    pub fn load(path: &Path) -> Result<Self> {
        read(path, std::slice::from_ref(&(0..u64::MAX)))
    }

    /// Reads a sample of about `raw_bytes` bytes of values, within a sixteenth if the runs allow;
    /// all if there are no more.
    ///
    /// The sample is made of runs of neighbouring keys, spread evenly over the file, so that
    /// near-duplicates stay together. A run has at least 1 MiB and ends with the last file of a
    /// name, unless that would make it longer than 16 MiB. The same file and size always give the
    /// same sample, and a larger sample holds most of a smaller one.
    pub fn load_prefix(path: &Path, raw_bytes: u64) -> Result<Self> {
        let rows = rows(path).map_err(|error| {
            Error::invalid_input("cannot read the columns `name` and `size`")
                .at_path(path)
                .with_source(error)
                .with_remedy("convert it with `ppc-bench corpus from-parquet`")
        })?;
        read(path, &sample::choose(&rows, raw_bytes))
    }
}

/// Reads the rows in `chosen`, which are ascending and apart from each other.
fn read(path: &Path, chosen: &[Range<u64>]) -> Result<Corpus> {
    let mut source = ParquetSource::open(path, &SourceOptions::default())?;
    let mut builder = Builder::new();
    let mut chosen = chosen.iter().peekable();
    let mut row = 0;
    source.read(&mut |item| {
        let at = row;
        row += 1;
        while chosen.next_if(|range| range.end <= at).is_some() {}
        if chosen.peek().is_none_or(|range| at < range.start) {
            return Ok(());
        }
        take(&mut builder, item).map_err(|error| error.at_path(path))
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(builder.finish(name))
}

/// Adds what a row holds.
fn take(builder: &mut Builder, item: SourceItem) -> Result<()> {
    let file = match item {
        SourceItem::File(file) => file,
        SourceItem::Problem(problem) => {
            return Err(Error::invalid_input(problem.to_string())
                .with_remedy("convert the file with `ppc-bench corpus from-parquet`"));
        }
    };
    let key = PpcKey::of(file.name, &file.content)?;
    let is_other = |stated: &&StatedHash| {
        matches!(stated, StatedHash::Known(hash @ ContentHash::Sha1Git(_))
            if *hash != ContentHash::Sha1Git(key.hash()))
    };
    if let Some(stated) = file.stated.iter().find(is_other) {
        return Err(Error::corruption(format!(
            "{}: stated {stated}, but the content has {}",
            file.origin,
            key.swhid()
        ))
        .with_remedy("gather the corpus again"));
    }
    builder.push(&key, &file.content).map_err(|error| {
        error.with_remedy("sort and de-duplicate the file with `ppc-bench corpus from-parquet`")
    })
}

/// Name and size of every row.
fn rows(path: &Path) -> Result<Vec<Row>, ParquetError> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let position = |name: &str| {
        let mut columns = schema.columns().iter();
        let found = columns.position(|column| column.path().string() == name);
        found.ok_or_else(|| ParquetError::General(format!("there is no column `{name}`")))
    };
    let (name_column, size_column) = (position("name")?, position("size")?);
    let mut rows = Vec::new();
    let mut last_name = Vec::new();
    let mut name_ordinal = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let names = match group.get_column_reader(name_column)? {
            ColumnReader::ByteArrayColumnReader(column) => all::<ByteArrayType>(column, &*group)?,
            _ => return Err(other_type("name")),
        };
        let sizes = match group.get_column_reader(size_column)? {
            ColumnReader::Int64ColumnReader(column) => all::<Int64Type>(column, &*group)?,
            _ => return Err(other_type("size")),
        };
        for (name, size) in names.iter().zip(sizes) {
            if name.data() != last_name {
                last_name = name.data().to_vec();
                name_ordinal += 1;
            }
            let bytes = u64::try_from(size).unwrap_or_default();
            rows.push(Row {
                name_ordinal,
                bytes,
            });
        }
    }
    Ok(rows)
}

fn other_type(column: &str) -> ParquetError {
    ParquetError::General(format!("column `{column}` has another type"))
}

/// All values of a column in one row group; none of them may be null.
fn all<T: DataType>(
    mut column: ColumnReaderImpl<T>,
    group: &dyn RowGroupReader,
) -> Result<Vec<T::T>, ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
    let mut values = Vec::new();
    while values.len() < rows {
        let (_, read, _) = column.read_records(BATCH_ROWS, None, None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General(format!(
                "a column ends after {} of {rows} rows, or has nulls",
                values.len()
            )));
        }
    }
    Ok(values)
}
