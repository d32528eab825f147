//! The tuner as a user meets it: what it finds, what it changes, and what it leaves behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ppc_engine::{Compression, Layout, TableOptions, describe_store};

use crate::support::{
    Scene, args, borrowed, fail, ppc, snapshot, source_text, succeed, succeed_json,
};

/// Four versions each of 60 files, apart from each other in the order in which they are imported.
fn versions() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut files = Vec::new();
    for version in 0..4 {
        for number in 0..60 {
            let mut text = format!("# version {version}\n").into_bytes();
            text.extend(source_text(number, 60));
            files.push((format!("v{version}/m{number}.py").into_bytes(), text));
        }
    }
    files
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.folder("in", borrowed(&versions()));
    succeed(args([&"import", &scene.store(), &scene.path("in")]));
    scene
}

/// Few candidates, and time for all of them on any machine.
fn briefly(parts: &[&dyn AsRef<std::ffi::OsStr>]) -> Vec<std::ffi::OsString> {
    let mut all = args([&"tune"]).to_vec();
    all.extend(parts.iter().map(|part| part.as_ref().to_owned()));
    all.extend(
        [
            "--levels=1,9",
            "--block-sizes=4KiB,128KiB",
            "--rounds=2",
            "--seconds=3600",
            // A slow machine would print progress where one line is expected.
            "--quiet",
        ]
        .map(Into::into),
    );
    all
}

/// How the store keeps contents in its last level.
fn stored_options(store: &Path) -> TableOptions {
    let keyspaces = describe_store(store).unwrap().keyspaces;
    let contents = keyspaces.into_iter().find(|it| it.name == "contents");
    contents.unwrap().options.levels.last().unwrap().clone()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn everything_is_measured_and_nothing_changed() {
    let scene = scene();
    // Every reader leaves the file that it locks.
    succeed(args([&"ls", &scene.store()]));
    let before = snapshot(&scene.store());
    let temporary = scene.folder("tmp", []);
    let command = briefly(&[&scene.store(), &"--objective", &"smallest", &"--json"]);
    let output = ppc()
        .args(command)
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    assert_eq!(found["sample"]["files"], 240);
    assert_eq!(found["rounds"], 2);
    let candidates = found["candidates"].as_array().unwrap();
    // What the store has, then two levels by two block sizes.
    assert_eq!(candidates.len(), 5);
    assert_eq!(candidates[0]["name"], "zstd-6, 64 KiB blocks");
    for candidate in candidates {
        assert_eq!(candidate["rounds"].as_array().unwrap().len(), 2);
        for figure in ["ratio", "build_bytes_per_second", "get_bytes_per_second"] {
            assert!(candidate[figure].as_f64().unwrap() > 0.0, "{candidate}");
        }
    }
    let ratio = |candidate: &serde_json::Value| candidate["ratio"].as_f64().unwrap();
    let least = candidates.iter().map(ratio).fold(f64::INFINITY, f64::min);
    assert_eq!(ratio(&found["recommended"]), least);
    assert_eq!(found["recommended"]["pareto"], true);
    assert_eq!(found["applied"], false);

    assert!(snapshot(&scene.store()) == before);
    assert!(is_empty(&temporary));
}

#[test]
fn the_report_tells_people_what_was_found_and_what_to_do() {
    let scene = scene();
    let text = succeed(briefly(&[&scene.store(), &"--objective=smallest"]));
    let text = String::from_utf8(text).unwrap();
    let table: Vec<&str> = text.lines().filter(|line| line.contains("zstd-")).collect();
    assert!(table.iter().any(|row| row.contains("  now")), "{text}");
    let recommended = table.iter().find(|row| row.contains("recommended"));
    assert!(recommended.unwrap().starts_with('*'), "{text}");
    for part in [
        "CPU-seconds, of a GiB built and got once, stand in",
        "Why: the smallest, ",
        "As options: --zstd-level 9 --block-size 128KiB --dictionary 0",
        "Nothing was changed: --apply",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn applied_options_persist_and_reach_what_is_there_by_a_rewrite() {
    let scene = scene();
    let command = briefly(&[&scene.store(), &"--objective=smallest", &"--apply"]);
    let text = String::from_utf8(succeed(command)).unwrap();
    assert!(text.contains("--rewrite"), "{text}");
    let mut wanted = TableOptions::blocks(9, 128 << 10);
    assert_eq!(stored_options(&scene.store()), wanted);

    let stored = |scene: &Scene| {
        let stats = succeed_json(args([&"stats", &scene.store()]));
        let extensions = stats["extensions"].as_array().unwrap().clone();
        extensions[0]["stored_bytes"].as_u64().unwrap()
    };
    let before = stored(&scene);
    succeed(args([&"compact", &scene.store(), &"--rewrite"]));
    assert!(stored(&scene) < before);
    succeed(args([&"verify", &scene.store()]));

    // A second choice replaces the first, and what the tuner does not try stays.
    wanted.compression = Compression::Zstd { level: 1 };
    wanted.layout = Layout::Blocks { bytes: 4096 };
    let command = args([
        &"tune",
        &scene.store(),
        &"--levels=1",
        &"--block-sizes=4KiB",
        &"--get-min=1B/s",
        &"--objective=fastest-get",
        &"--seconds=3600",
        &"--apply",
        &"--json",
    ]);
    let found: serde_json::Value = serde_json::from_slice(&succeed(command)).unwrap();
    assert_eq!(found["applied"], true);
    let chosen = &found["recommended"];
    let (level, block) = (
        chosen["zstd_level"].as_i64(),
        chosen["block_bytes"].as_u64(),
    );
    let now = stored_options(&scene.store());
    assert_eq!(
        now.compression,
        Compression::Zstd {
            level: level.unwrap() as i32
        }
    );
    assert_eq!(
        now.layout,
        Layout::Blocks {
            bytes: block.unwrap() as u32
        }
    );
    assert_eq!(now.key_block_bytes, wanted.key_block_bytes);
}

#[test]
fn a_new_store_is_made_only_when_asked_for_and_is_empty() {
    let scene = Scene::new();
    let folder = scene.folder("in", borrowed(&versions()));
    let command = briefly(&[&"--new", &scene.store(), &folder, &"--objective=smallest"]);
    let text = String::from_utf8(succeed(command.clone())).unwrap();
    assert!(text.contains("the default"), "{text}");
    assert!(!scene.store().exists());

    let also = ["--apply", "--index=sha256"].map(Into::into);
    succeed(command.iter().cloned().chain(also));
    assert_eq!(
        stored_options(&scene.store()),
        TableOptions::blocks(9, 128 << 10)
    );
    assert!(succeed(args([&"ls", &scene.store()])).is_empty());
    // The import finds options and indexes as they were chosen.
    succeed(args([
        &"import",
        &scene.store(),
        &folder,
        &"--index=sha256",
    ]));
    assert_eq!(
        stored_options(&scene.store()),
        TableOptions::blocks(9, 128 << 10)
    );

    let error = fail(1, command);
    assert!(error.contains("leave --new out"), "{error}");
}

#[test]
fn limits_that_nothing_keeps_have_an_exit_code_and_change_nothing() {
    let scene = scene();
    let before = stored_options(&scene.store());
    let error = fail(
        3,
        briefly(&[&scene.store(), &"--ratio-max=0.01%", &"--apply"]),
    );
    assert!(
        error.contains("closest: zstd-9, 128 KiB blocks: ratio"),
        "{error}"
    );
    assert_eq!(stored_options(&scene.store()), before);
    let output = ppc()
        .args(briefly(&[&scene.store(), &"--ratio-max=0.01%", &"--json"]))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["recommended"], serde_json::Value::Null);
    assert_eq!(found["closest"][0]["misses"][0]["limit"], "ratio-max");
}

#[test]
fn without_time_the_rest_is_named_as_left_out() {
    let scene = scene();
    let found = succeed_json(args([&"tune", &scene.store(), &"--seconds=0"]));
    assert_eq!(found["candidates"].as_array().unwrap().len(), 1);
    assert_eq!(found["left_out"].as_array().unwrap().len(), 15);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    let scene = scene();
    for wrong in [
        "--objective=best",
        "--ratio-max=0.18",
        "--get-min=fast",
        "--levels=99",
        "--block-sizes=1GiB",
        "--index=sha256",
        "--new",
    ] {
        let output = ppc()
            .args(args([&"tune", &scene.store(), &wrong]))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn errors_leave_nothing_behind() {
    let scene = Scene::new();
    let temporary = scene.folder("tmp", []);
    let empty = scene.folder("empty", []);
    succeed(args([&"import", &scene.path("nothing"), &empty]));
    let wrong = [
        briefly(&[&scene.path("nothing")]),
        briefly(&[&scene.path("nowhere")]),
        briefly(&[&scene.path("nothing"), &scene.path("nowhere"), &"--apply"]),
        briefly(&[&"--new", &scene.store(), &scene.path("nowhere"), &"--apply"]),
        briefly(&[&"--new", &scene.store(), &empty, &"--apply"]),
    ];
    for command in wrong {
        let output = ppc()
            .args(&command)
            .env("TMPDIR", &temporary)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {output:?}");
        assert!(is_empty(&temporary), "{command:?}");
    }
    assert!(!scene.store().exists());
}

#[test]
fn an_interrupted_run_takes_its_tables_with_it() {
    let scene = scene();
    let before = stored_options(&scene.store());
    let temporary = scene.folder("tmp", []);
    let child = ppc()
        .args(args([&"tune", &scene.store(), &"--apply"]))
        .args(["--rounds=1000000", "--seconds=3600"])
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while is_empty(&temporary) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(output.stdout.is_empty());
    assert!(is_empty(&temporary));
    assert_eq!(stored_options(&scene.store()), before);
}
