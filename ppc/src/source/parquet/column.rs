//! One column chunk, read as byte strings in step with the others.

use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use ppc_engine::{Error, Result};

use super::guard::{GuardedFile, guarded};

/// Reads one column of a row group from its start to its end.
///
/// The values are taken from the physical column, below any logical type: a column declared as
/// UTF-8 text is not checked, so no content is refused or changed for its encoding.
pub(super) struct ColumnReader {
    name: String,
    row_group: usize,
    values: Values,
    /// Level at which a value is present; below it, it or a structure around it is null.
    max_def_level: i16,
    def_levels: Vec<i16>,
}

enum Values {
    Variable(ColumnReaderImpl<ByteArrayType>, Vec<ByteArray>),
    Fixed(
        ColumnReaderImpl<FixedLenByteArrayType>,
        Vec<FixedLenByteArray>,
    ),
}

impl ColumnReader {
    pub(super) fn open(
        file: &GuardedFile,
        metadata: &RowGroupMetaData,
        row_group: usize,
        column: usize,
    ) -> Result<Self> {
        let failed = || format!("cannot open column {column} of row group {row_group}");
        guarded(&failed, || {
            let chunk = metadata
                .columns()
                .get(column)
                .ok_or_else(|| ParquetError::General("the column chunk is missing".to_owned()))?;
            let descriptor = chunk.column_descr_ptr();
            let file = Arc::new(file.for_column(chunk.compression()));
            let rows = usize::try_from(metadata.num_rows()).unwrap_or_default();
            let pages = Box::new(SerializedPageReader::new(file, chunk, rows, None)?);
            let is_fixed = descriptor.physical_type() == parquet::basic::Type::FIXED_LEN_BYTE_ARRAY;
            Ok(Self {
                name: descriptor.path().string(),
                row_group,
                max_def_level: descriptor.max_def_level(),
                def_levels: Vec::new(),
                values: if is_fixed {
                    Values::Fixed(ColumnReaderImpl::new(descriptor, pages), Vec::new())
                } else {
                    Values::Variable(ColumnReaderImpl::new(descriptor, pages), Vec::new())
                },
            })
        })
    }

    /// The values of the next `rows` rows, which must exist; none where null.
    pub(super) fn read(&mut self, rows: usize) -> Result<Vec<Option<ByteArray>>> {
        let Self {
            name,
            row_group,
            values,
            max_def_level,
            def_levels,
        } = self;
        let failed = || format!("cannot read column {name:?} of row group {row_group}");
        def_levels.clear();
        let (read, values) = guarded(&failed, || match values {
            Values::Variable(reader, buffer) => {
                let (read, ..) = reader.read_records(rows, Some(def_levels), None, buffer)?;
                Ok((read, std::mem::take(buffer)))
            }
            Values::Fixed(reader, buffer) => {
                let (read, ..) = reader.read_records(rows, Some(def_levels), None, buffer)?;
                Ok((read, buffer.drain(..).map(ByteArray::from).collect()))
            }
        })?;
        if read != rows {
            return Err(Error::corruption(format!(
                "column {name:?} of row group {row_group} ends before the row group does"
            )));
        }
        let mut values = values.into_iter();
        if *max_def_level == 0 {
            return Ok(values.map(Some).collect());
        }
        let is_present = |level: &i16| level == max_def_level;
        let levels = def_levels.iter();
        Ok(levels
            .map(|level| is_present(level).then(|| values.next()).flatten())
            .collect())
    }
}
