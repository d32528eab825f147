use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use ppc_engine::ErrorKind;

use super::super::testing::{Collected, collect};
use super::*;
use crate::hash::{ContentHash, Sha1, Sha1Git};
use crate::source::StatedHash;

/// A column's values in one row group; null where `None`.
enum Cells {
    Bytes(Vec<Option<Vec<u8>>>),
    Fixed(Vec<Option<Vec<u8>>>),
    Integers(Vec<i64>),
}

impl Cells {
    fn text<T: AsRef<[u8]>>(cells: impl IntoIterator<Item = T>) -> Self {
        let cells = cells.into_iter();
        Self::Bytes(cells.map(|cell| Some(cell.as_ref().to_vec())).collect())
    }
}

/// A Parquet file with these row groups, all columns optional where `schema` says so.
fn file(schema: &str, properties: WriterProperties, groups: Vec<Vec<Cells>>) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    for columns in groups {
        let mut group = writer.next_row_group().unwrap();
        for cells in columns {
            let mut column = group.next_column().unwrap().unwrap();
            let levels = |cells: &[Option<Vec<u8>>]| -> Vec<i16> {
                cells.iter().map(|cell| i16::from(cell.is_some())).collect()
            };
            match cells {
                Cells::Bytes(cells) => {
                    let levels = levels(&cells);
                    let values: Vec<_> = cells.into_iter().flatten().map(ByteArray::from).collect();
                    let column = column.typed::<ByteArrayType>();
                    column.write_batch(&values, Some(&levels), None).unwrap();
                }
                Cells::Fixed(cells) => {
                    let levels = levels(&cells);
                    let values = cells.into_iter().flatten();
                    let values: Vec<_> = values.map(FixedLenByteArray::from).collect();
                    let column = column.typed::<FixedLenByteArrayType>();
                    column.write_batch(&values, Some(&levels), None).unwrap();
                }
                Cells::Integers(values) => {
                    let column = column.typed::<Int64Type>();
                    column.write_batch(&values, None, None).unwrap();
                }
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

const TWO_COLUMNS: &str = "message m { optional binary name; optional binary content (UTF8); }";

fn plain() -> WriterProperties {
    WriterProperties::new()
}

fn two_columns(files: &[(Vec<u8>, Vec<u8>)], properties: WriterProperties) -> Vec<u8> {
    let columns = vec![
        Cells::text(files.iter().map(|(name, _)| name)),
        Cells::text(files.iter().map(|(_, content)| content)),
    ];
    file(TWO_COLUMNS, properties, vec![columns])
}

fn awkward_files() -> Vec<(Vec<u8>, Vec<u8>)> {
    let contents = crate::testing::awkward_contents();
    let small: Vec<_> = contents
        .iter()
        .filter(|c| c.len() < 2_000)
        .cloned()
        .collect();
    let contents = contents.into_iter().chain(small.into_iter().cycle());
    crate::testing::awkward_names()
        .into_iter()
        .zip(contents)
        .collect()
}

fn write(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.parquet");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn read_with(bytes: &[u8], options: &SourceOptions) -> Result<Collected> {
    let (_dir, path) = write(bytes);
    let mut source = ParquetSource::open(&path, options)?;
    let mut collected = Collected::default();
    source.read(&mut |item| {
        collected.push(item);
        Ok(())
    })?;
    Ok(collected)
}

fn read(bytes: &[u8]) -> Result<Collected> {
    read_with(bytes, &SourceOptions::default())
}

fn mapped(columns: &str) -> SourceOptions {
    SourceOptions {
        columns: Some(columns.parse().unwrap()),
        ..SourceOptions::default()
    }
}

fn assert_same(collected: &Collected, files: &[(Vec<u8>, Vec<u8>)], what: &str) {
    assert!(collected.problems.is_empty(), "{what}");
    assert_eq!(collected.files.len(), files.len(), "{what}");
    for (file, (name, content)) in collected.files.iter().zip(files) {
        assert!(file.name == *name, "{what}: {name:?}");
        assert!(file.content == *content, "{what}: content of {name:?}");
    }
}

#[test]
fn awkward_names_and_contents_come_through_every_codec_and_encoding() {
    let files = awkward_files();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::try_new(1).unwrap()),
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::try_new(1).unwrap()),
    ];
    let encodings = [
        Encoding::PLAIN,
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY,
    ];
    for (index, codec) in codecs.into_iter().enumerate() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_compression(codec)
                .set_writer_version(version)
                .set_dictionary_enabled(index % 2 == 0)
                .set_encoding(encodings[index % 3])
                .set_data_page_row_count_limit(7)
                .set_write_batch_size(3)
                .build();
            let collected = read(&two_columns(&files, properties)).unwrap();
            assert_same(&collected, &files, &format!("{codec} {version:?}"));
        }
    }
    for encoding in encodings {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(encoding)
            .build();
        let collected = read(&two_columns(&files, properties)).unwrap();
        assert_same(&collected, &files, &format!("{encoding}"));
    }
}

#[test]
fn rows_are_numbered_through_the_row_groups_and_progress_ends_at_its_total() {
    let group = |names: [&str; 3]| vec![Cells::text(names), Cells::text(["x", "y", "z"])];
    let groups = vec![group(["a", "b", "c"]), group(["d", "e", "f"])];
    let (_dir, path) = write(&file(TWO_COLUMNS, plain(), groups));
    let mut source = ParquetSource::open(&path, &SourceOptions::default()).unwrap();
    let collected = collect(&mut source);
    let rows = collected.files.iter().map(|file| file.origin.place.clone());
    assert!(rows.eq((0..6).map(Place::Row)));
    let names: Vec<_> = collected.files.iter().map(|file| &file.name[..]).collect();
    assert_eq!(names, [b"a", b"b", b"c", b"d", b"e", b"f"]);
    let progress = source.progress();
    assert!(progress.read_bytes() > 0);
    assert_eq!(Some(progress.read_bytes()), progress.total_bytes());
    assert_eq!(Some(6), progress.total_files());
    assert_eq!(collect(&mut source).files.len(), 6, "read twice");
}

#[test]
fn null_contents_are_reported_and_null_names_are_empty() {
    let rows = 700;
    let contents = (0..rows).map(|row| (row % 3 == 0).then(|| vec![b'x'; row]));
    let names = (0..rows).map(|row| (row % 2 == 0).then(|| b"n.c".to_vec()));
    let columns = vec![
        Cells::Bytes(names.collect()),
        Cells::Bytes(contents.collect()),
    ];
    let collected = read(&file(TWO_COLUMNS, plain(), vec![columns])).unwrap();
    assert_eq!(collected.files.len(), 234);
    assert_eq!(collected.problems.len(), 466);
    for file in &collected.files {
        let Place::Row(row) = file.origin.place else {
            panic!()
        };
        assert_eq!(file.content.len() as u64, row);
        assert_eq!(file.name.is_empty(), row % 2 == 1);
    }
    let problem = &collected.problems[0];
    assert_eq!(problem.kind, ProblemKind::NullContent);
    assert!(
        problem
            .to_string()
            .ends_with("data.parquet row 1: the content is null")
    );

    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(Compression::SNAPPY)
            .build();
        let columns = vec![Cells::Bytes(vec![None; 9]), Cells::Bytes(vec![None; 9])];
        let collected = read(&file(TWO_COLUMNS, properties, vec![columns])).unwrap();
        assert_eq!(collected.problems.len(), 9);
    }
}

#[test]
fn the_columns_of_the_stack_are_known_and_its_hashes_are_gits() {
    let schema = "message m {
        optional binary hexsha (UTF8); required int64 size;
        optional binary max_stars_repo_path (UTF8); optional binary max_stars_repo_name (UTF8);
        optional binary max_issues_repo_path (UTF8); optional binary max_forks_repo_path (UTF8);
        optional binary content (UTF8); }";
    let contents: [&[u8]; 3] = [b"one", b"two", b"three"];
    let path = |text: &str| Some(text.as_bytes().to_vec());
    let columns = || {
        vec![
            Cells::text(contents.map(|content| Sha1Git::of(content).to_string())),
            Cells::Integers(vec![3, 3, 5]),
            Cells::Bytes(vec![path("src/a.c"), None, None]),
            Cells::text(["repo", "repo", "repo"]),
            Cells::Bytes(vec![path("other/x.c"), path("src/b.c"), None]),
            Cells::Bytes(vec![None, None, path("c.h")]),
            Cells::text(contents),
        ]
    };
    let collected = read(&file(schema, plain(), vec![columns()])).unwrap();
    assert_eq!(collected.paths(), ["src/a.c", "src/b.c", "c.h"]);
    for (file, (name, content)) in collected.files.iter().zip([
        ("a.c", b"one".as_slice()),
        ("b.c", b"two"),
        ("c.h", b"three"),
    ]) {
        assert_eq!(
            (&file.name[..], &file.content[..]),
            (name.as_bytes(), content)
        );
        let hash = ContentHash::Sha1Git(Sha1Git::of(content));
        assert_eq!(file.stated, [StatedHash::Known(hash)]);
    }

    // The paper's files have the same columns, but there hexsha is the plain SHA-1.
    let mut columns = columns();
    columns[0] = Cells::text(contents.map(|content| Sha1::of(content).to_string()));
    let collected = read(&file(schema, plain(), vec![columns])).unwrap();
    let hash = ContentHash::Sha1(Sha1::of(b"one"));
    assert_eq!(collected.files[0].stated, [StatedHash::Known(hash)]);
}

#[test]
fn a_mapping_names_nested_columns_fixed_hashes_and_hash_kinds() {
    let schema = "message m {
        optional group file { optional binary where (UTF8); required binary body; }
        optional fixed_len_byte_array(20) digest; optional binary sum (UTF8); }";
    // A required field of an optional group is present exactly when the group is, so both levels
    // are 1 and the group's null rows are the field's.
    let columns = vec![
        Cells::Bytes(vec![]),
        Cells::Bytes(vec![Some(b"x".to_vec()), None]),
        Cells::Fixed(vec![Some(Sha1::of(b"x").0.to_vec()), None]),
        Cells::text(["not a hash", ""]),
    ];
    let schema_type = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema_type, Arc::new(plain())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (index, cells) in columns.into_iter().enumerate() {
        let mut column = group.next_column().unwrap().unwrap();
        match cells {
            Cells::Bytes(_) if index == 0 => {
                let values = [ByteArray::from("d/a.c")];
                let typed = column.typed::<ByteArrayType>();
                typed.write_batch(&values, Some(&[2, 0]), None).unwrap();
            }
            Cells::Bytes(cells) => {
                let levels: Vec<_> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                let values: Vec<_> = cells.into_iter().flatten().map(ByteArray::from).collect();
                let typed = column.typed::<ByteArrayType>();
                typed.write_batch(&values, Some(&levels), None).unwrap();
            }
            Cells::Fixed(cells) => {
                let values = cells.into_iter().flatten();
                let values: Vec<_> = values.map(FixedLenByteArray::from).collect();
                let typed = column.typed::<FixedLenByteArrayType>();
                typed.write_batch(&values, Some(&[1, 0]), None).unwrap();
            }
            Cells::Integers(_) => unreachable!(),
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();

    let options = mapped("content=file.body,path=file.where,hash=digest:sha1,hash=sum:sha256");
    let collected = read_with(&bytes, &options).unwrap();
    assert_eq!(collected.problem_kinds(), [ProblemKind::NullContent]);
    let file = &collected.files[0];
    assert_eq!(
        (&file.name[..], &file.content[..]),
        (&b"a.c"[..], &b"x"[..])
    );
    let known = StatedHash::Known(ContentHash::Sha1(Sha1::of(b"x")));
    let malformed = StatedHash::Malformed("\"not a hash\"".to_owned());
    assert_eq!(file.stated, [known, malformed]);
}

#[test]
fn unknown_and_unusable_columns_are_named_with_those_there_are() {
    let refused = |bytes: &[u8], options: &SourceOptions| {
        let error = read_with(bytes, options).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    let bytes = two_columns(&[(b"a".to_vec(), b"b".to_vec())], plain());
    let message = refused(&bytes, &mapped("content=body"));
    assert!(
        message.starts_with("no column \"body\"; there are name, content: "),
        "{message}"
    );

    let schema = "message m { required int64 content; optional binary path; }";
    let bytes = file(
        schema,
        plain(),
        vec![vec![Cells::Integers(vec![]), Cells::text([""; 0])]],
    );
    let message = refused(&bytes, &SourceOptions::default());
    assert!(
        message.contains("known to hold content; there are content, path"),
        "{message}"
    );
    let message = refused(&bytes, &mapped("content=content"));
    assert!(
        message.contains("holds INT64, not text or bytes"),
        "{message}"
    );

    let schema = "message m { repeated binary content; optional binary path; }";
    let bytes = file(schema, plain(), vec![]);
    assert!(refused(&bytes, &mapped("content=content")).contains("is a list"));

    let ids = "message m { required binary repo_name; optional group files (LIST) { repeated group \
               list { optional group element { optional binary blob_id; optional binary path; } } } }";
    let message = refused(&file(ids, plain(), vec![]), &SourceOptions::default());
    assert!(
        message.contains("\"files\" is a list of files without their contents"),
        "{message}"
    );

    let schema = "message m { optional binary content; }";
    let bytes = file(schema, plain(), vec![vec![Cells::text(["x"])]]);
    assert!(refused(&bytes, &SourceOptions::default()).contains("path or name"));
    let nameless = read_with(&bytes, &mapped("content=content")).unwrap();
    assert_eq!(nameless.files[0].name, "");
}

#[test]
fn malformed_mappings_are_refused() {
    for text in [
        "",
        "content",
        "content=",
        "path=a",
        "content=a,content=b",
        "content=a,x=b",
    ] {
        assert!(text.parse::<ColumnMapping>().is_err(), "{text}");
    }
    assert!("content=a,hash=b:md5".parse::<ColumnMapping>().is_err());
}

#[test]
fn a_content_above_the_limit_is_reported() {
    let files = [
        (b"a".to_vec(), vec![b'x'; 11]),
        (b"b".to_vec(), vec![b'x'; 10]),
    ];
    let options = SourceOptions {
        file_bytes_max: 10,
        ..SourceOptions::default()
    };
    let collected = read_with(&two_columns(&files, plain()), &options).unwrap();
    assert_eq!(collected.problem_kinds(), [ProblemKind::TooLarge]);
    assert_eq!(collected.files.len(), 1);
}

#[test]
fn no_parquet_and_files_cut_anywhere_are_one_clear_error() {
    let refused = |bytes: &[u8]| {
        let message = read(bytes).map(|_| ()).unwrap_err().to_string();
        assert!(
            message.contains("data.parquet") && !message.contains('\n'),
            "{message}"
        );
        message
    };
    assert!(refused(b"").contains("not a Parquet file"));
    assert!(refused(b"fn main() {}\n").contains("not a Parquet file"));
    assert!(refused(b"PAREzzzzzzzzPARE").contains("encrypted"));
    let whole = two_columns(&[(b"a".to_vec(), b"b".to_vec())], plain());
    for end in 12..whole.len() {
        assert!(refused(&whole[..end]).contains("cut short"));
    }
    let mut no_footer = whole[..20].to_vec();
    no_footer.extend(b"\xff\xff\xff\x7fPAR1");
    assert!(refused(&no_footer).contains("footer"));
}

#[test]
fn damage_anywhere_never_panics() {
    let files: Vec<_> = (0..9_u8).map(|i| (vec![b'a' + i], vec![i; 90])).collect();
    for (version, encoding) in [
        (WriterVersion::PARQUET_1_0, Encoding::PLAIN),
        (WriterVersion::PARQUET_2_0, Encoding::DELTA_BYTE_ARRAY),
    ] {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(encoding == Encoding::PLAIN)
            .set_encoding(encoding)
            .set_compression(Compression::SNAPPY)
            .build();
        let whole = two_columns(&files, properties);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= if at % 2 == 0 { 0x80 } else { 0xff };
            let _ = read(&damaged);
        }
    }
}

#[test]
fn a_page_that_claims_to_expand_beyond_its_codec_is_refused_unread() {
    let files = [(b"a".to_vec(), vec![0; 300_000])];
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled(ColumnPath::from("content"), false)
        .build();
    let mut bytes = two_columns(&files, properties);
    assert!(read(&bytes).is_ok());
    // The content page's header states 300,008 bytes as a zigzag varint of three bytes.
    let stated = 2 * (300_000 + 4 + 6);
    let found = (0..bytes.len() - 3).find(|&at| {
        let size = &bytes[at..at + 3];
        let value = size
            .iter()
            .rev()
            .fold(0, |v, byte| v << 7 | u32::from(byte & 0x7f));
        value.abs_diff(stated) < 40 && bytes[at - 1] == 0x15
    });
    let at = found.unwrap();
    bytes[at..at + 3].copy_from_slice(&[0xfe, 0xff, 0x7f]);
    let message = read(&bytes).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("claims to expand"), "{message}");
}

#[test]
fn batches_follow_the_size_of_the_rows() {
    let rows = |bytes: usize, count: usize| {
        next_batch_rows(&vec![Some(ByteArray::from(vec![0; bytes])); count])
    };
    assert_eq!(rows(0, 4), BATCH_ROWS_MAX);
    assert_eq!(rows(1 << 20, 4), 4);
    assert_eq!(rows(100 << 20, 1), 1);
    assert_eq!(next_batch_rows(&[]), BATCH_ROWS_MAX);
}

#[test]
#[ignore = "writes and decodes a row group of 3 GiB: some ten seconds"]
fn a_row_group_beyond_two_gib_is_read() {
    let schema = Arc::new(parse_message_type(TWO_COLUMNS).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_dictionary_enabled(false)
        .build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let rows = 3_072;
    for (column_bytes, value) in [(1, 1), (1 << 20, 2)] {
        let value = ByteArray::from(vec![value; column_bytes]);
        let mut column = group.next_column().unwrap().unwrap();
        for _ in 0..rows {
            let values = std::slice::from_ref(&value);
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(values, Some(&[1]), None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();

    let (_dir, path) = write(&bytes);
    let mut source = ParquetSource::open(&path, &SourceOptions::default()).unwrap();
    let mut content_bytes = 0;
    source
        .read(&mut |item| {
            let SourceItem::File(file) = item else {
                panic!()
            };
            content_bytes += file.content.len() as u64;
            Ok(())
        })
        .unwrap();
    assert_eq!(content_bytes, rows << 20);
}
