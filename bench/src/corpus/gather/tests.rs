//! Gathering from downloads that are there: no client is asked.

use std::fs::File;
use std::io::Write;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::super::client::Client;
use super::super::language::Language;
use super::super::list::{Package, Pin};
use super::super::{Corpus, hex};
use super::*;

fn tarball(path: &Path, files: &[(&str, &str)]) {
    let gzip =
        flate2::write::GzEncoder::new(File::create(path).unwrap(), flate2::Compression::default());
    let mut builder = tar::Builder::new(gzip);
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let content = content.as_bytes();
        builder.append_data(&mut header, name, content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap();
}

fn wheel(path: &Path, files: &[(&str, &str)]) {
    let mut writer = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, content) in files {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(*name, options).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

/// Two versions of a package, as if they had been downloaded, and the list that pins them.
fn downloaded() -> (TempDir, DownloadOptions, PackageList) {
    let dir = TempDir::new().unwrap();
    let mut archives = Vec::new();
    for (version, ending, write) in [
        ("1.0", "tgz", tarball as fn(&Path, &[(&str, &str)])),
        ("1.1", "whl", wheel),
    ] {
        let parent = dir.path().join("npm/left-pad").join(version);
        std::fs::create_dir_all(&parent).unwrap();
        let path = parent.join(format!("left-pad.{ending}"));
        let index = format!("module.exports = {version};\n");
        let files = [
            ("package/index.js", index.as_str()),
            ("package/pad.js", "pad();\n"),
            ("package/package.json", "{}\n"),
        ];
        write(&path, &files);
        archives.push(Pin {
            version: version.to_owned(),
            bytes: None,
            sha256: Some(hex(&Sha256::digest(std::fs::read(&path).unwrap()))),
        });
    }
    let list = PackageList {
        language: Language::JavaScript,
        suites: Vec::new(),
        packages: vec![Package {
            client: Client::Npm,
            name: "left-pad".to_owned(),
            python: None,
            archives,
        }],
    };
    let options = DownloadOptions {
        dir: dir.path().to_path_buf(),
        jobs: 2,
    };
    (dir, options, list)
}

#[test]
fn a_list_becomes_a_corpus_of_its_language() {
    let (_dir, options, list) = downloaded();
    let out = TempDir::new().unwrap();
    let path = out.path().join("js.parquet");
    let features = gather(&list, Amount::default(), &options, &path, false).unwrap();
    assert_eq!((features.files_read, features.corpus.files), (4, 3));
    assert_eq!(Corpus::load(&path).unwrap().id(), &features.corpus);

    let amount = Amount {
        raw_bytes_max: Some(10),
        ..Amount::default()
    };
    let features = gather(&list, amount, &options, &path, true).unwrap();
    assert_eq!(features.corpus.files, 1);
}

#[test]
fn an_archive_that_changed_ends_the_gathering_by_name() {
    let (dir, options, list) = downloaded();
    let changed = dir.path().join("npm/left-pad/1.1/left-pad.whl");
    wheel(&changed, &[("package/index.js", "other();\n")]);
    let out = TempDir::new().unwrap();
    let path = out.path().join("js.parquet");
    for skip_missing in [false, true] {
        let amount = Amount {
            skip_missing,
            ..Amount::default()
        };
        let error = gather(&list, amount, &options, &path, false).unwrap_err();
        assert!(error.to_string().contains("npm left-pad 1.1"), "{error}");
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_cannot_be_had_is_left_out_only_if_asked() {
    let (_dir, options, mut list) = downloaded();
    // Without suites, apt is not even asked.
    list.packages.insert(
        0,
        Package {
            client: Client::Apt,
            name: "gone".to_owned(),
            python: None,
            archives: vec![Pin {
                version: "1".to_owned(),
                bytes: None,
                sha256: Some("0f".repeat(32)),
            }],
        },
    );
    let out = TempDir::new().unwrap();
    let path = out.path().join("js.parquet");
    let error = gather(&list, Amount::default(), &options, &path, false).unwrap_err();
    assert!(error.to_string().contains("apt gone 1"), "{error}");
    assert!(error.to_string().contains("--skip-missing"), "{error}");
    let amount = Amount {
        skip_missing: true,
        ..Amount::default()
    };
    let features = gather(&list, amount, &options, &path, false).unwrap();
    assert_eq!(features.corpus.files, 3);
    assert!(features.gathered_from.contains("without 1"));
    assert_eq!(Features::read(&path).unwrap(), features);
}

#[test]
fn pinning_fills_in_what_is_missing_and_keeps_the_head() {
    let (_dir, options, mut list) = downloaded();
    let pinned = list.clone();
    list.packages[0].archives[1].sha256 = None;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("# Of pads.\n\n{list}")).unwrap();
    pin(file.path(), &options, false).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(text.starts_with("# Of pads.\n\nlanguage"), "{text}");
    let read = PackageList::parse(&text).unwrap();
    let sha256 = |list: &PackageList| list.packages[0].archives[1].sha256.clone();
    assert_eq!(sha256(&read), sha256(&pinned));

    list.packages[0].client = Client::Apt;
    std::fs::write(file.path(), list.to_string()).unwrap();
    let error = pin(file.path(), &options, false).unwrap_err();
    assert!(error.to_string().contains("1 of 1 archives"), "{error}");
    pin(file.path(), &options, true).unwrap();
    let read = PackageList::read(file.path()).unwrap();
    assert_eq!(read.packages[0].archives.len(), 1);
}
