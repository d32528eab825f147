//! From a source to a corpus: a Parquet file as the paper's, in key order, each content once.
//!
//! ```text
//! source ─▶ import into a store of its own, on disk ─▶ export in key order ─▶ Parquet, features
//! ```
//!
//! Hashing, de-duplication and sorting are the import's. Memory: [`MEMORY_BYTES`] for it, then a
//! row group for the export: 100,000 rows as the paper's have, or [`GROUP_BYTES_MAX`] of contents
//! if they are longer. The store takes about a third of the contents' bytes on the disk of the
//! output, for the time of the run.

use std::path::Path;

use ppc_engine::TableOptions;
use ppc_store::archive::{Archive, ArchiveOptions, Selection};
use ppc_store::export::{self, Wanted};
use ppc_store::import::{self, ImportOptions, Sources};
use ppc_store::progress::Observer;
use ppc_store::sink::{ParquetCompression, ParquetSink, Sink, SinkOptions};
use ppc_store::source::Source;
use ppc_store::{Error, ErrorKind, PpcKey, Result};

use super::Corpus;
use super::features::{Features, Tally};
use super::scratch::{self, Scratch};

/// What the import may hold in memory.
const MEMORY_BYTES: u64 = 1 << 30;
/// Contents of a row group that is held in memory until it is written.
const GROUP_BYTES_MAX: usize = 2 << 30;
/// Rows of a row group, as the paper's files have.
const GROUP_ROWS: usize = 100_000;
/// The store is read once, and then deleted.
const STORE_ZSTD_LEVEL: i32 = 1;
const STORE_BLOCK_BYTES: u32 = 64 << 10;

/// Writes what `source` holds to the Parquet file `out`, and its features beside it.
pub(super) fn write(
    source: Box<dyn Source>,
    out: &Path,
    overwrite: bool,
    gathered_from: &str,
    observer: &dyn Observer,
) -> Result<Features> {
    check_out(out, overwrite)?;
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    scratch::remove_left_over(parent);
    let scratch = Scratch::create(parent)?;

    let mut import_options = ImportOptions::default();
    import_options.memory_bytes = MEMORY_BYTES;
    let mut options = ArchiveOptions::default();
    options.contents = Some(TableOptions::blocks(STORE_ZSTD_LEVEL, STORE_BLOCK_BYTES));
    import_options.fit(&mut options.db);
    let archive = Archive::open(scratch.path().join("store"), options)?;
    let sources = Sources::opened(vec![source]);
    let read = import::import(&archive, sources, &import_options, observer)?;
    if read.files_stored == 0 {
        return Err(
            Error::invalid_input(format!("no file was found in {gathered_from}"))
                .with_remedy("check the input, and the language if one was given"),
        );
    }

    let (tally, counts) = Tally::new(ParquetSink::create(out, &sink_options(overwrite))?);
    let wanted = Wanted::Range(Selection::All);
    let written = export::export(&archive, &wanted, Box::new(tally), observer)?;
    archive.close()?;
    if written.damaged > 0 || written.written.files != read.files_stored {
        return Err(Error::new(
            ErrorKind::Corruption,
            format!(
                "{} files were stored, but {} could be read back",
                read.files_stored, written.written.files
            ),
        )
        .at_path(scratch.path())
        .with_remedy("check the disk, and run again"));
    }
    let features = Features {
        files_read: read.files_read,
        bytes_read: read.bytes_read,
        parquet_bytes: written.written.output_bytes,
        ..counts.lock().features(&name_of(out), gathered_from)
    };
    features.write(out)?;
    Ok(features)
}

/// Writes `corpus` to the Parquet file `out`, and its features beside it.
pub(super) fn write_corpus(
    corpus: &Corpus,
    out: &Path,
    overwrite: bool,
    gathered_from: &str,
) -> Result<Features> {
    check_out(out, overwrite)?;
    let (tally, counts) = Tally::new(ParquetSink::create(out, &sink_options(overwrite))?);
    let mut sink = Box::new(tally);
    for (key, value) in corpus.iter() {
        sink.write(&PpcKey::decode(key)?, value)?;
    }
    let features = Features {
        parquet_bytes: sink.finish()?.output_bytes,
        ..counts.lock().features(&name_of(out), gathered_from)
    };
    features.write(out)?;
    Ok(features)
}

/// Finds out before the work is done that its result has no place.
fn check_out(out: &Path, overwrite: bool) -> Result<()> {
    if overwrite || !out.exists() {
        return Ok(());
    }
    Err(Error::invalid_input("the file exists")
        .at_path(out)
        .with_remedy("choose another name, or give --overwrite"))
}

fn sink_options(overwrite: bool) -> SinkOptions {
    SinkOptions {
        overwrite,
        parquet_compression: ParquetCompression::Snappy,
        row_group_rows_max: GROUP_ROWS,
        row_group_bytes: GROUP_BYTES_MAX,
        ..SinkOptions::default()
    }
}

/// A corpus is named like its file.
fn name_of(out: &Path) -> String {
    let stem = out.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use ppc_store::progress::Unobserved;
    use ppc_store::source::{SourceOptions, SourceSpec, open_source};
    use tempfile::TempDir;

    use super::super::CorpusOptions;
    use super::*;

    fn directory(files: &[(&str, &str)]) -> (TempDir, Box<dyn Source>) {
        let dir = TempDir::new().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let spec = SourceSpec::parse(dir.path().as_os_str());
        let source = open_source(&spec, &SourceOptions::default()).unwrap();
        (dir, source)
    }

    #[test]
    fn a_source_becomes_a_corpus_with_each_content_once() {
        let (_dir, source) = directory(&[
            ("one/b.py", "import os\n"),
            ("two/b.py", "import os\n"),
            ("two/renamed.py", "import os\n"),
            ("a.py", "import sys\n"),
            ("empty.py", ""),
            ("z.c", "int main() {}\n"),
        ]);
        let out = TempDir::new().unwrap();
        let path = out.path().join("mixed.parquet");
        let features = write(source, &path, false, "a test", &Unobserved).unwrap();
        assert_eq!((features.files_read, features.corpus.files), (6, 4));
        assert_eq!((features.bytes_read, features.corpus.raw_bytes), (55, 35));
        let corpus = Corpus::load(&path).unwrap();
        assert_eq!(*corpus.id(), features.corpus);
        assert_eq!(Features::read(&path).unwrap(), features);

        let extensions: Vec<_> = features.extensions.iter().collect();
        assert_eq!(extensions[0].extension, "py");
        assert_eq!(extensions[0].sizes.files, 3);
        assert_eq!(extensions[0].sizes.median_bytes, 10);
        assert_eq!(extensions[1].extension, "c");
        let table = features.to_string();
        assert!(table.contains("mixed"), "{table}");
        assert!(table.contains(".py"), "{table}");

        // Nothing but the corpus and its features is left.
        let left = std::fs::read_dir(out.path()).unwrap().count();
        assert_eq!(left, 2);
    }

    #[test]
    fn a_corpus_in_memory_is_written_as_it_is() {
        let corpus = Corpus::generate(&CorpusOptions {
            families: 20,
            ..CorpusOptions::default()
        });
        let out = TempDir::new().unwrap();
        let path = out.path().join("synthetic.parquet");
        let features = write_corpus(&corpus, &path, false, "a test").unwrap();
        assert_eq!(features.corpus, *corpus.id());
        assert_eq!(features.files_read, corpus.len() as u64);
        assert_eq!(Corpus::load(&path).unwrap(), corpus);
        assert!(write_corpus(&corpus, &path, false, "a test").is_err());
    }

    #[test]
    fn the_same_files_in_another_order_make_the_same_corpus() {
        let out = TempDir::new().unwrap();
        let ids = [["a/x.c", "b/y.c"], ["b/x.c", "a/y.c"]].map(|[x, y]| {
            let (_dir, source) = directory(&[(x, "int x;\n"), (y, "int y;\n")]);
            let path = out.path().join("same.parquet");
            write(source, &path, true, "a test", &Unobserved)
                .unwrap()
                .corpus
        });
        assert_eq!(ids[0], ids[1]);
    }

    #[test]
    fn a_file_that_exists_is_not_replaced_unasked() {
        let (_dir, source) = directory(&[("a.c", "")]);
        let out = TempDir::new().unwrap();
        let path = out.path().join("a.parquet");
        std::fs::write(&path, "mine").unwrap();
        let error = write(source, &path, false, "a test", &Unobserved).unwrap_err();
        assert!(error.to_string().contains("--overwrite"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn a_source_without_files_makes_no_corpus() {
        let (_dir, source) = directory(&[]);
        let out = TempDir::new().unwrap();
        let path = out.path().join("a.parquet");
        let error = write(source, &path, false, "a test", &Unobserved).unwrap_err();
        assert!(error.to_string().contains("a test"), "{error}");
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
    }

    #[test]
    fn rows_have_the_form_of_the_papers_files() {
        use parquet::basic::Compression;
        use parquet::file::reader::{FileReader, SerializedFileReader};

        let (_dir, source) = directory(&[("a.c", "int a;\n"), ("b.c", "int b;\n")]);
        let out = TempDir::new().unwrap();
        let path = out.path().join("c.parquet");
        write(source, &path, false, "a test", &Unobserved).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.num_row_groups(), 1);
        let group = reader.metadata().row_group(0);
        let snappy = |column: &parquet::file::metadata::ColumnChunkMetaData| {
            column.compression() == Compression::SNAPPY
        };
        assert!(group.columns().iter().all(snappy));
    }
}
