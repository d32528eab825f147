use std::collections::BTreeSet;
use std::path::PathBuf;

use ppc_engine::ErrorKind;

use super::*;
use crate::source::{SourceItem, SourceOptions, SourceSpec, open_source};

/// Files with awkward names and contents, and with names that only odd inputs have.
fn awkward_files() -> Vec<(PpcKey, Vec<u8>)> {
    let mut names = crate::testing::awkward_names();
    names.extend([
        b"with/slash.c".to_vec(),
        b"../../etc/passwd".to_vec(),
        b"nul\0.c".to_vec(),
        vec![b'x'; 5_000],
        [&[b'y'; 3_000][..], b"/."].concat(),
        // The same content under another name, and the same name with another content.
        b"twin.c".to_vec(),
        b"TWIN.c".to_vec(),
    ]);
    let contents = crate::testing::awkward_contents();
    let mut files: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let content = contents
                .get(index)
                .cloned()
                .unwrap_or_else(|| b"same".to_vec());
            (PpcKey::of(name.clone(), &content).unwrap(), content)
        })
        .collect();
    files.push((PpcKey::of("twin.c", b"other").unwrap(), b"other".to_vec()));
    files.sort();
    files
}

fn export(path: &Path, files: &[(PpcKey, Vec<u8>)], options: &SinkOptions) -> Result<SinkReport> {
    let mut sink = open_sink(path, options)?;
    for (key, content) in files {
        sink.write(key, content)?;
    }
    sink.finish()
}

/// What the source of the same format reads back, as keys and contents.
fn import(path: &Path) -> Vec<(PpcKey, Vec<u8>)> {
    let spec = SourceSpec::parse(path.as_os_str());
    let mut source = open_source(&spec, &SourceOptions::default()).unwrap();
    let mut files = Vec::new();
    source
        .read(&mut |item| {
            let SourceItem::File(file) = item else {
                panic!("{item:?}")
            };
            let key = PpcKey::of(file.name, &file.content).unwrap();
            for stated in &file.stated {
                let hashes = crate::hash::Hashes::of(stated.kinds(), &file.content);
                assert!(stated.is_confirmed_by(&hashes), "{stated}");
            }
            files.push((key, file.content.to_vec()));
            Ok(())
        })
        .unwrap();
    files
}

fn assert_same(found: &[(PpcKey, Vec<u8>)], expected: &[(PpcKey, Vec<u8>)]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!(found.1 == expected.1, "content of {:?}", expected.0);
    }
}

#[test]
fn parquet_and_tar_bring_back_every_name_and_content_in_order() {
    let files = awkward_files();
    let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.tar", "a.tar.zst", "snappy.parquet"] {
        let path = directory.path().join(name);
        let options = SinkOptions {
            parquet_compression: if name.starts_with('s') {
                ParquetCompression::Snappy
            } else {
                ParquetCompression::Zstd
            },
            row_group_rows_max: 20,
            row_group_bytes: 100_000,
            ..SinkOptions::default()
        };
        let report = export(&path, &files, &options).unwrap();
        assert_eq!(report.files, files.len() as u64);
        assert_eq!(report.content_bytes, bytes as u64);
        assert_eq!(report.output_bytes, path.metadata().unwrap().len());
        assert_same(&import(&path), &files);
    }
}

#[test]
fn an_export_of_nothing_is_read_back_as_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.tar", "a.tar.zst", "a"] {
        let path = directory.path().join(name);
        export(&path, &[], &SinkOptions::default()).unwrap();
        assert!(import(&path).is_empty(), "{name}");
    }
}

#[test]
fn row_groups_are_bounded_by_rows_and_by_bytes() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let options = SinkOptions {
        row_group_rows_max: 4,
        row_group_bytes: 1_000,
        ..SinkOptions::default()
    };
    let sizes = [1, 2, 3, 4, 5, 2_000, 600, 600, 7];
    let files: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(index, size)| {
            let content = vec![b'a' + index as u8; *size];
            (PpcKey::of("n.c", &content).unwrap(), content)
        })
        .collect();
    export(&path, &files, &options).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let groups = reader.metadata().row_groups().iter();
    let rows: Vec<_> = groups.map(|group| group.num_rows()).collect();
    assert_eq!(rows, [4, 2, 2, 1]);
}

#[test]
fn a_directory_has_safe_paths_and_a_map_of_exact_keys() {
    let files = awkward_files();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let report = export(&path, &files, &SinkOptions::default()).unwrap();
    assert_eq!(report.files, files.len() as u64);

    let map = std::fs::read_to_string(path.join(MAP_FILE)).unwrap();
    let mut lines = map.lines();
    assert_eq!(lines.next(), Some("swhid\tsize\tfile\tkey"));
    let mut seen = BTreeSet::new();
    for (line, (key, content)) in lines.zip(&files) {
        let [swhid, size, place, key_text] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert_eq!(swhid, key.swhid().to_string());
        assert_eq!(size, content.len().to_string());
        assert_eq!(key_text.parse::<PpcKey>().unwrap(), *key);
        for part in place.split('/') {
            assert!(part.len() <= 200 && part != "." && part != ".." && !part.is_empty());
        }
        assert!(
            std::fs::read(path.join(place)).unwrap() == *content,
            "{place}"
        );
        // On a file system that ignores case, only files of one content may fall together.
        let lower = place.to_lowercase();
        assert!(
            seen.insert(lower.clone()) || lower.contains("twin"),
            "{place}"
        );
    }
    assert!(map.contains("\tc/"), "extensions are directories");

    // All names come back in order when the directory is imported, those that are not safe too.
    assert_same(&import(&path), &files);
}

fn one_file() -> Vec<(PpcKey, Vec<u8>)> {
    vec![(PpcKey::of("a.c", b"x").unwrap(), b"x".to_vec())]
}

#[test]
fn what_exists_is_kept_unless_overwriting_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let overwrite = SinkOptions {
        overwrite: true,
        ..SinkOptions::default()
    };
    for name in ["a.parquet", "a.tar", "a.tar.zst"] {
        let path = directory.path().join(name);
        std::fs::write(&path, "precious").unwrap();
        let error = export(&path, &one_file(), &SinkOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        export(&path, &one_file(), &overwrite).unwrap();
        assert_same(&import(&path), &one_file());
    }
    let path = directory.path().join("out");
    std::fs::create_dir(&path).unwrap();
    export(&path, &one_file(), &SinkOptions::default()).unwrap();
    assert!(
        export(&path, &one_file(), &overwrite).is_err(),
        "a directory with files in it"
    );
}

#[test]
fn something_put_in_the_way_during_an_export_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.tar", "out"] {
        let path = directory.path().join(name);
        let mut sink = open_sink(&path, &SinkOptions::default()).unwrap();
        sink.write(&one_file()[0].0, b"x").unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(sink.finish().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 3, "temporary files are removed");
}

#[test]
fn an_export_that_is_given_up_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.tar", "a.tar.zst", "out"] {
        let path = directory.path().join(name);
        let mut sink = open_sink(&path, &SinkOptions::default()).unwrap();
        sink.write(&one_file()[0].0, b"x").unwrap();
        assert!(std::fs::read_dir(directory.path()).unwrap().count() > 0);
        drop(sink);
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "{name}"
        );
    }
}

#[test]
fn a_missing_parent_and_a_wrong_level_are_clear_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing/a.parquet");
    let error = open_sink(&path, &SinkOptions::default())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let wrong = SinkOptions {
        zstd_level: 99,
        ..SinkOptions::default()
    };
    let path = directory.path().join("a.parquet");
    let error = open_sink(&path, &wrong).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn formats_follow_from_names() {
    for (name, format) in [
        ("x.Parquet", SinkFormat::Parquet),
        ("x.tar", SinkFormat::Tar),
        ("x.tar.zst", SinkFormat::TarZst),
        ("x.tar.gz", SinkFormat::Directory),
        ("x", SinkFormat::Directory),
    ] {
        assert_eq!(SinkFormat::of_path(&PathBuf::from(name)), format);
    }
}
