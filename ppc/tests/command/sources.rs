//! Sources that are wrong, or go wrong, or hold what is no file.

use std::fs;

use crate::support::{Scene, args, fail, noise, run, succeed};

/// A plain tar archive of these members.
fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn all_wrong_sources_are_named_at_once_before_anything_is_stored() {
    let scene = Scene::new();
    let folder = scene.folder("good", [(&b"hello.c"[..], &b"hello"[..])]);
    let [absent, tar, parquet, git] =
        ["absent", "text.tar", "text.parquet", "norepo"].map(|name| scene.path(name));
    fs::write(&tar, "no archive at all").unwrap();
    fs::write(&parquet, "no Parquet file at all").unwrap();
    fs::create_dir(&git).unwrap();
    let git = format!("git:{}", git.display());
    let sources = args([
        &"import",
        &scene.store(),
        &folder,
        &absent,
        &tar,
        &parquet,
        &git,
    ]);
    let line = fail(1, sources);
    assert!(line.contains("4 of 5 sources"), "{line}");
    for name in ["absent", "text.tar", "text.parquet", "norepo"] {
        assert!(line.contains(name), "{name}: {line}");
    }
    assert!(!line.contains("good"), "{line}");
    assert!(!scene.store().exists());
}

/// What was read from the sources before the one that failed was undone, back to the last commit.
#[test]
fn a_source_that_fails_midway_keeps_what_was_read_before() {
    let scene = Scene::new();
    let folder = scene.folder("first", [(&b"hello.c"[..], &b"hello"[..])]);
    let last = scene.folder("last", [(&b"world.c"[..], &b"world"[..])]);
    let whole = tar_of(&[("a.py", b"import os\n"), ("b.bin", &noise(1, 9_000))]);
    let tar = scene.path("second.tar");
    fs::write(&tar, &whole[..3_000]).unwrap();
    let import = args([&"import", &scene.store(), &folder, &tar, &last]);
    let output = run(&import);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{errors}");
    let line = errors.lines().last().unwrap();
    assert!(
        line.contains("second.tar") && line.contains("2 new files") && line.contains("again"),
        "{line}"
    );
    let list = || String::from_utf8(succeed(args([&"ls", &scene.store()]))).unwrap();
    assert_eq!(list().lines().count(), 2);
    assert!(list().contains("c.hello.") && list().contains("py.a."));

    let json = run(import.iter().cloned().chain(["--json".into()]));
    assert_eq!(json.status.code(), Some(5));
    let error: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    let kept = error["error"]["kept"].as_str().unwrap();
    assert!(kept.contains("0 new files"), "{kept}");
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["source_failed"], true);
    assert_eq!(report["present"], 2);

    // Mended, it goes on.
    fs::write(&tar, &whole).unwrap();
    succeed(&import);
    assert_eq!(list().lines().count(), 4);
}
