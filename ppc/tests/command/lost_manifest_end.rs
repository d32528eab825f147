//! A store whose manifest lost its end is refused by every command, and by none changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Scene, args, borrowed, run, source_text, succeed};

fn store() -> (Scene, PathBuf) {
    let scene = Scene::new();
    let files: Vec<(Vec<u8>, Vec<u8>)> = (0..40)
        .map(|number| {
            let name = format!("m{number}.py").into_bytes();
            (name, source_text(number, 60))
        })
        .collect();
    let folder = scene.folder("in", borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    (scene, folder)
}

/// Name and length of the manifest, as `CURRENT` tells.
fn current(store: &Path) -> (String, usize) {
    let line = fs::read_to_string(store.join("CURRENT")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[0].to_owned(), words[1].parse().unwrap())
}

/// Every file but the locks, which whoever opens a store may leave.
fn contents(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(store).unwrap().map(|it| it.unwrap().path());
    files
        .filter(|path| !path.ends_with("LOCK") && !path.ends_with("READERS"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// `verify` used to call the rest sound, and the next import removed the tables that the lost end
/// named, or began a new archive.
#[test]
fn a_manifest_that_lost_its_end_is_named_and_nothing_is_removed() {
    let (scene, folder) = store();
    let store = scene.store();
    let (name, length) = current(&store);
    let manifest = store.join(name);
    let whole = fs::read(&manifest).unwrap();
    for len in [0, 20, length / 4, length / 2, length - 1] {
        fs::write(&manifest, &whole[..len]).unwrap();
        let before = contents(&store);
        for command in [
            args([&"verify", &store]).to_vec(),
            args([&"ls", &store]).to_vec(),
            args([&"import", &store, &folder]).to_vec(),
            args([&"compact", &store]).to_vec(),
        ] {
            let output = run(command);
            assert_eq!(output.status.code(), Some(4));
            let line = String::from_utf8(output.stderr).unwrap();
            for word in [&len.to_string(), &length.to_string(), "salvage"] {
                assert!(line.contains(word), "{len} bytes: {line}");
            }
        }
        assert!(contents(&store) == before, "{len} bytes: files changed");
    }
    fs::write(&manifest, &whole).unwrap();
    assert_eq!(
        succeed(args([&"ls", &store]))
            .split(|it| *it == b'\n')
            .count(),
        41
    );
}

/// Of a store of an older build nobody knows how long its manifest was. Cut to where the archive
/// was being created, it used to pass for one whose creation was cut off: "import into it".
#[test]
fn an_archive_with_tables_never_passes_for_one_that_is_not_yet_made() {
    let (scene, folder) = store();
    let store = scene.store();
    let (name, length) = current(&store);
    let manifest = store.join(&name);
    let whole = fs::read(&manifest).unwrap();
    let tables = |store: &Path| -> Vec<Vec<u8>> {
        let is_table = |path: &PathBuf| path.to_string_lossy().contains(".table");
        let files = contents(store).into_iter();
        files
            .filter(|(path, _)| is_table(path))
            .map(|it| it.1)
            .collect()
    };
    let expected = tables(&store);
    let mut refused = 0;
    for len in (60..length).step_by(23) {
        let damaged = scene.path("damaged");
        fs::create_dir(&damaged).unwrap();
        for (path, bytes) in contents(&store) {
            fs::write(damaged.join(path.file_name().unwrap()), bytes).unwrap();
        }
        fs::write(damaged.join(&name), &whole[..len]).unwrap();
        fs::write(damaged.join("CURRENT"), format!("{name}\n")).unwrap();
        for command in [
            args([&"ls", &damaged]).to_vec(),
            args([&"import", &damaged, &folder]).to_vec(),
        ] {
            let output = run(&command);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(!errors.contains("cut off"), "{len} bytes: {errors}");
            if errors.contains("lost its end") {
                assert_eq!(output.status.code(), Some(4), "{len} bytes: {errors}");
                assert!(errors.contains("salvage"), "{len} bytes: {errors}");
                refused += 1;
            }
        }
        let left = tables(&damaged);
        for table in &expected {
            assert!(left.contains(table), "{len} bytes: a table is gone");
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
    assert!(refused > 10, "{refused}");
}
