use std::fs;

use super::super::testing::{Collected, collect};
use super::*;

fn open(root: &Path, options: &SourceOptions) -> DirectorySource {
    DirectorySource::open(root, options).unwrap()
}

fn read(root: &Path, options: &SourceOptions) -> Collected {
    collect(&mut open(root, options))
}

#[test]
fn files_come_in_key_order_with_their_bytes() {
    let root = tempfile::tempdir().unwrap();
    let files: [(&str, &[u8]); 6] = [
        ("Makefile", b"all:"),
        (".gitignore", b""),
        ("z/a.c", b"\0\xff"),
        ("a/b.c", b"two"),
        ("b.c", b"three"),
        ("a/x.tar.gz", b"\x1f"),
    ];
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let mut source = open(root.path(), &SourceOptions::default());
    assert_eq!(source.progress().total_files(), Some(6));
    let collected = collect(&mut source);
    assert_eq!(
        collected.paths(),
        [
            "Makefile",
            "z/a.c",
            "a/b.c",
            "b.c",
            ".gitignore",
            "a/x.tar.gz"
        ]
    );
    for (path, content) in files {
        assert_eq!(collected.content(path), content);
    }
    assert!(collected.problems.is_empty());
    let progress = source.progress();
    assert_eq!(Some(progress.read_bytes()), progress.total_bytes());
    assert_eq!(progress.read_files(), 6);
    assert_eq!(
        collect(&mut source).paths(),
        collected.paths(),
        "read twice"
    );
}

#[test]
fn a_single_file_is_a_source_of_one() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("main.rs");
    fs::write(&path, "fn main() {}").unwrap();
    let collected = read(&path, &SourceOptions::default());
    assert_eq!(collected.paths(), ["main.rs"]);
    assert_eq!(
        collected.files[0].origin.to_string(),
        path.display().to_string()
    );
}

#[test]
fn ignore_files_are_honoured_only_on_request() {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in [
        (".gitignore", "*.o\n/build/\n"),
        ("sub/.gitignore", "!keep.o\n"),
        ("a.c", ""),
        ("a.o", ""),
        ("sub/keep.o", ""),
        ("build/b.c", ""),
        (".git/config", ""),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    assert_eq!(read(root.path(), &SourceOptions::default()).files.len(), 7);

    let honour = SourceOptions {
        honour_gitignore: true,
        ..SourceOptions::default()
    };
    assert_eq!(
        read(root.path(), &honour).paths(),
        ["a.c", ".gitignore", "sub/.gitignore", "sub/keep.o"]
    );
    let visible = SourceOptions {
        include_hidden: false,
        ..honour
    };
    assert_eq!(read(root.path(), &visible).paths(), ["a.c", "sub/keep.o"]);
}

#[cfg(unix)]
#[test]
fn links_are_reported_and_never_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.c"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("dir")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.c"), root.path().join("a.c")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let collected = read(root.path(), &SourceOptions::default());
    drop(listener);
    assert!(collected.files.is_empty());
    assert_eq!(collected.problem_kinds(), [ProblemKind::NotAFile; 3]);

    // The root itself is what the user named, link or not.
    let link = root.path().join("dir");
    assert_eq!(read(&link, &SourceOptions::default()).paths(), ["secret.c"]);
}

#[test]
fn what_cannot_be_read_is_reported_and_the_rest_still_comes() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("gone.c"), "x").unwrap();
    fs::write(root.path().join("kept.c"), "y").unwrap();
    fs::write(root.path().join("large.c"), "0123456789").unwrap();
    let options = SourceOptions {
        file_bytes_max: 9,
        ..SourceOptions::default()
    };
    let mut source = open(root.path(), &options);
    fs::remove_file(root.path().join("gone.c")).unwrap();
    let collected = collect(&mut source);
    assert_eq!(collected.paths(), ["kept.c"]);
    assert_eq!(
        collected.problem_kinds(),
        [ProblemKind::Unreadable, ProblemKind::TooLarge]
    );
    let message = collected.problems[1].to_string();
    assert!(
        message.ends_with("large.c: 10 bytes, more than the limit of 9, left out"),
        "{message}"
    );
}

#[test]
fn a_missing_root_is_one_clear_error() {
    let error = DirectorySource::open(Path::new("/no/such"), &SourceOptions::default());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn an_error_of_the_callback_ends_the_reading() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.c"), "x").unwrap();
    fs::write(root.path().join("b.c"), "y").unwrap();
    let mut calls = 0;
    let stop = open(root.path(), &SourceOptions::default()).read(&mut |_| {
        calls += 1;
        Err(Error::new(ErrorKind::Cancelled, "stop"))
    });
    assert_eq!(stop.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(calls, 1);
}

#[cfg(unix)]
#[test]
fn awkward_names_and_contents_come_through_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::tempdir().unwrap();
    let names: Vec<Vec<u8>> = crate::testing::awkward_names()
        .into_iter()
        .filter(|name| !name.is_empty() && name != b"." && name != b"..")
        .collect();
    let contents = crate::testing::awkward_contents();
    let mut expected: Vec<_> = names.iter().zip(contents.iter().cycle()).collect();
    for (name, content) in &expected {
        let path = root.path().join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, content).unwrap();
    }
    let collected = read(root.path(), &SourceOptions::default());
    expected.sort_by_key(|(name, _)| split_name(name));
    assert_eq!(collected.files.len(), expected.len());
    for (file, (name, content)) in collected.files.iter().zip(expected) {
        assert!(file.name == *name && file.content == *content, "{name:?}");
    }
}

/// A directory as an export writes it, of these files.
fn exported(files: &[(&[u8], &[u8])]) -> (tempfile::TempDir, PathBuf) {
    use crate::sink::{DirectorySink, Sink, SinkOptions};
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("out");
    let mut sink = DirectorySink::create(&root, &SinkOptions::default()).unwrap();
    for (name, content) in files {
        let key = PpcKey::of(name.to_vec(), content).unwrap();
        sink.write(&key, content).unwrap();
    }
    Box::new(sink).finish().unwrap();
    (dir, root)
}

fn names(collected: &Collected) -> Vec<&[u8]> {
    collected.files.iter().map(|file| &file.name[..]).collect()
}

/// A folder that an export wrote came back under the safe names, with the map as a file of it.
#[test]
fn an_exported_directory_has_the_names_of_its_map() {
    let (_dir, root) = exported(&[(b"con.c", b"one"), (b"b?.c", b"two"), (b"c.", b"three")]);
    fs::write(root.join("added.c"), "four").unwrap();
    let collected = read(&root, &SourceOptions::default());
    assert_eq!(
        names(&collected),
        [&b"c."[..], b"added.c", b"b?.c", b"con.c"]
    );
    assert!(collected.problems.is_empty(), "{:?}", collected.problems);
}

#[test]
fn what_changed_since_the_export_is_read_by_its_own_name_and_told() {
    let (_dir, root) = exported(&[(b"con.c", b"one"), (b"nul.c", b"two"), (b"aux.c", b"three")]);
    let place = |content: &[u8], name: &str| {
        let hash = Sha1Git::of(content).to_string();
        root.join(format!("c/{}/{hash}/{name}", &hash[..2]))
    };
    fs::write(place(b"one", "%63on.c"), "changed").unwrap();
    fs::remove_file(place(b"two", "%6Eul.c")).unwrap();
    let collected = read(&root, &SourceOptions::default());
    assert_eq!(names(&collected), [&b"aux.c"[..], b"%63on.c"]);
    let changed = &collected.files[1];
    let kinds = changed.stated[0].kinds();
    let computed = crate::hash::Hashes::of(kinds, &changed.content);
    assert!(!changed.stated[0].is_confirmed_by(&computed));
    assert_eq!(collected.problem_kinds(), [ProblemKind::Unreadable]);
    let message = collected.problems[0].to_string();
    assert!(message.contains("not there"), "{message}");
}

#[test]
fn only_a_map_with_the_right_name_and_first_line_is_one() {
    let (_dir, root) = exported(&[(b"con.c", b"one"), (b"nul.c", b"two")]);
    let map = root.join(MAP_FILE);
    let text = fs::read_to_string(&map).unwrap();
    // One line broken: the other still counts.
    let swhid = Sha1Git::of(b"one").to_string();
    let broken = text.replace(&format!("swh:1:cnt:{swhid}\t3"), "swh:1:cnt:0\t3");
    assert_ne!(broken, text);
    fs::write(&map, broken).unwrap();
    let collected = read(&root, &SourceOptions::default());
    assert_eq!(names(&collected), [&b"%63on.c"[..], b"nul.c"]);
    let message = collected.problems[0].to_string();
    assert!(
        message.contains(MAP_FILE) && message.contains("line 2"),
        "{message}"
    );

    for other in [text.replacen("swhid", "SWHID", 1), String::new()] {
        fs::write(&map, other).unwrap();
        let collected = read(&root, &SourceOptions::default());
        assert_eq!(
            names(&collected),
            [&b"%63on.c"[..], b"%6Eul.c", MAP_FILE.as_bytes()]
        );
        assert!(collected.problems.is_empty());
    }
}

#[test]
fn a_map_says_nothing_of_files_elsewhere_and_is_never_trusted() {
    for line in [
        "",
        "a",
        "a\tb\tc\td",
        "\t\t\t",
        "swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0\t5\t../x\tc.x.swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        "swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0\t5\t/x\tc.x.swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        "swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0\tmany\tx\tc.x.swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        &"x".repeat(1 << 20),
    ] {
        let root = tempfile::tempdir().unwrap();
        fs::write(
            root.path().join(MAP_FILE),
            format!("{}\n{line}\n", crate::sink::MAP_HEADER),
        )
        .unwrap();
        fs::write(root.path().join("x"), "hello").unwrap();
        let collected = read(root.path(), &SourceOptions::default());
        assert_eq!(names(&collected), [&b"x"[..]]);
        assert_eq!(collected.problem_kinds(), [ProblemKind::Unreadable]);
    }
}

#[test]
fn what_is_excluded_is_passed_over_and_named_once() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a.c", "sub/store/CURRENT", "sub/b.c", ".ppc-names-x/LOCK"] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let exclude = |path: PathBuf| SourceOptions {
        exclude: vec![Excluded {
            path,
            what: "the store itself".to_owned(),
        }],
        ..SourceOptions::default()
    };
    let options = exclude(root.path().join("sub/../sub/store"));
    let collected = read(root.path(), &options);
    assert_eq!(collected.paths(), ["a.c", "sub/b.c"]);
    assert_eq!(collected.problem_kinds(), [ProblemKind::NotAFile]);
    let message = collected.problems[0].to_string();
    assert!(
        message.ends_with("sub/store: the store itself, left out"),
        "{message}"
    );

    // It need not be there yet, and it is no source itself.
    let options = exclude(root.path().join("later"));
    assert_eq!(read(root.path(), &options).files.len(), 3);
    for within in ["sub/store", "sub/store/CURRENT"] {
        let options = exclude(root.path().join("sub/store"));
        let error = DirectorySource::open(&root.path().join(within), &options).unwrap_err();
        assert!(error.to_string().contains("the store itself"), "{error}");
    }
}
