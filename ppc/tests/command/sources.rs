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

    // The second time it reads the same and stores nothing new.
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

/// An import of the folder that holds the store imported the store's own files, and its own list of
/// problems.
#[test]
fn the_store_in_an_imported_folder_is_left_out() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    let store = folder.join("code.ppc");
    let problems = folder.join("problems.jsonl");
    for round in 0..3 {
        let command = args([&"import", &store, &folder, &"--problems", &problems]);
        let output = run(command);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        assert_eq!(
            errors.matches("the store itself").count(),
            1,
            "round {round}: {errors}"
        );
        let listed = String::from_utf8(succeed(args([&"ls", &store]))).unwrap();
        assert_eq!(listed.lines().count(), 1, "{listed}");
    }
    // Named in another way, it is the same store.
    let output = crate::support::ppc()
        .current_dir(&folder)
        .args(["import", "code.ppc", "."])
        .output()
        .unwrap();
    assert!(output.status.success());
    let listed = String::from_utf8(succeed(args([&"ls", &store]))).unwrap();
    assert!(
        !listed.contains("CURRENT") && !listed.contains(".table"),
        "{listed}"
    );
    let line = fail(1, args([&"import", &store, &store]));
    assert!(line.contains("the store itself"), "{line}");
}

#[test]
fn a_folder_that_an_export_wrote_and_that_changed_is_told_about() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"con.c"[..], &b"one"[..]), (b"nul.c", b"two")]);
    succeed(args([&"import", &scene.store(), &folder]));
    let exported = scene.path("out");
    succeed(args([&"export", &scene.store(), &exported]));
    let map = fs::read_to_string(exported.join("ppc-map.tsv")).unwrap();
    let place = map
        .lines()
        .find_map(|line| line.split('\t').nth(2).filter(|it| it.ends_with("on.c")))
        .unwrap();
    fs::write(exported.join(place), "changed").unwrap();
    let again = scene.path("again");
    let report = crate::support::succeed_json(args([&"import", &again, &exported]));
    assert_eq!(
        (&report["files_stored"], &report["mismatches"]),
        (&2.into(), &1.into())
    );
    let listed = String::from_utf8(succeed(args([&"ls", &again]))).unwrap();
    assert!(
        listed.contains("c.%2563on.") && listed.contains("c.nul."),
        "{listed}"
    );
}

/// Links in a circle, pipes and devices are no files, and nothing waits for them.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_named_and_never_waited_for() {
    use std::os::unix::fs::symlink;
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"a.c"[..], &b"x"[..])]);
    symlink("b", folder.join("a")).unwrap();
    symlink("a", folder.join("b")).unwrap();
    symlink(".", folder.join("self")).unwrap();
    symlink("/dev/zero", folder.join("zero")).unwrap();
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let report = crate::support::succeed_json(args([&"import", &scene.store(), &folder]));
    assert_eq!(report["files_stored"], 1);
    assert_eq!(report["problems"]["not-a-file"], 5);
    // What is said of them is for machines where the result is.
    let output = run(args([&"import", &scene.store(), &folder, &"--json"]));
    let said = String::from_utf8(output.stderr).unwrap();
    let said: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(said.len(), 5);
    assert!(said.iter().all(|it| it["problem"]["kind"] == "not-a-file"));
    for special in [&pipe, std::path::Path::new("/dev/zero")] {
        let line = fail(1, args([&"import", &scene.store(), &special]));
        assert!(line.contains("neither a file nor a directory"), "{line}");
    }
    fail(1, args([&"import", &scene.store(), &folder.join("a")]));
}

#[cfg(unix)]
#[test]
fn files_without_permission_are_named_counted_and_passed_over() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    let folder = scene.folder(
        "in",
        [(&b"a.c"[..], &b"x"[..]), (b"b.c", b"y"), (b"d/c.c", b"z")],
    );
    let mode = |path: &str, mode| {
        fs::set_permissions(folder.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("b.c", 0o000);
    mode("d", 0o000);
    let can_read_anyway = fs::read(folder.join("b.c")).is_ok();
    let output = run(args([&"import", &scene.store(), &folder, &"--json"]));
    let root = scene.folder("closed", [(&b"a.c"[..], &b"x"[..])]);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o000)).unwrap();
    let of_root = run(args([&"import", &scene.path("other"), &root]));
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    mode("d", 0o755);
    // Root may read what nobody may.
    if can_read_anyway {
        assert!(output.status.success());
    } else {
        assert_eq!(output.status.code(), Some(5));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["files_stored"], 1);
        assert_eq!(report["problems"]["unreadable"], 2);
        let errors = String::from_utf8(output.stderr).unwrap();
        // Each by its path, once.
        for place in ["in/b.c: cannot read: ", "in/d: cannot list: "] {
            assert_eq!(errors.matches(place).count(), 1, "{errors}");
        }
        assert_eq!(errors.matches("in/d").count(), 1, "{errors}");
        assert_eq!(of_root.status.code(), Some(1));
        assert!(!scene.path("other").exists());
    }
}

#[test]
fn an_archive_is_read_from_standard_input() {
    use crate::support::run_with_input;
    let scene = Scene::new();
    let tar = tar_of(&[("a.py", b"import os\n"), ("b.c", b"int x;\n")]);
    let zst = zstd::encode_all(&tar[..], 3).unwrap();
    for (store, input) in [("plain", &tar), ("zst", &zst)] {
        let output = run_with_input(args([&"import", &scene.path(store), &"-"]), input);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        let listed = String::from_utf8(succeed(args([&"ls", &scene.path(store)]))).unwrap();
        assert_eq!(listed.lines().count(), 2);
    }
    let output = run_with_input(args([&"import", &scene.path("none"), &"-"]), &[b'x'; 2000]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("tar archive cannot be read on"), "{errors}");
}

#[test]
fn sources_without_files_are_told() {
    let scene = Scene::new();
    let empty = scene.path("empty");
    fs::create_dir(&empty).unwrap();
    let output = run(args([&"import", &scene.store(), &empty]));
    assert!(output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "ppc: the sources hold no files\n");
}

#[cfg(unix)]
#[test]
fn paths_of_any_bytes_are_taken() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let name = OsStr::from_bytes(b"caf\xe9 \n");
    let base = scene.path("").join(name);
    fs::create_dir(&base).unwrap();
    let folder = base.join(OsStr::from_bytes(b"in\xff"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"\xfe.c")), "x").unwrap();
    let store = base.join("store");
    succeed(args([&"import", &store, &folder]));
    let dest = base.join(OsStr::from_bytes(b"out\xff.tar"));
    succeed(args([&"export", &store, &dest]));
    let mut spec = b"tar:".to_vec();
    spec.extend(dest.as_os_str().as_bytes());
    let again = base.join("again");
    succeed(args([&"import", &again, &OsStr::from_bytes(&spec)]));
    assert_eq!(
        succeed(args([&"ls", &again])),
        succeed(args([&"ls", &store]))
    );
    let line = fail(1, args([&"import", &again, &base.join("absent")]));
    assert!(line.contains("absent"), "{line}");
}
