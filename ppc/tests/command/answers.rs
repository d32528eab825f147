//! What commands answer: lists, statuses, exit codes, JSON, and what they do when nobody listens.

use std::io::Read;
use std::process::Stdio;

use crate::support::{
    Scene, args, fail, ppc, run, run_with_input, source_text, succeed, succeed_json,
};

const ABSENT: &str = "0000000000000000000000000000000000000000";

fn lines(bytes: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn small_store() -> Scene {
    let scene = Scene::new();
    let folder = scene.folder(
        "in",
        [
            (&b"setup.py"[..], &b"import os\n"[..]),
            (b"lib/setup.py", b"import sys\n"),
            (b"lib/settings.py", b"DEBUG = True\n"),
            (b"main.c", b"int main() {}\n"),
            (b"Makefile", b"all:\n"),
        ],
    );
    succeed(args([&"import", &scene.store(), &folder]));
    scene
}

#[test]
fn lists_are_by_extension_name_and_prefix_in_key_order() {
    let scene = small_store();
    let list = |more: &[&str]| {
        let store = scene.store();
        let mut all = args([&"ls", &store]).to_vec();
        all.extend(more.iter().map(Into::into));
        lines(succeed(all))
    };
    let everything = list(&[]);
    assert_eq!(everything.len(), 5);
    assert!(everything[0].starts_with(".Makefile.swh:1:cnt:"));
    assert!(everything[1].starts_with("c.main."));
    assert_eq!(list(&["--ext", "py"]).len(), 3);
    assert_eq!(list(&["--ext", ".py"]).len(), 3);
    assert_eq!(list(&["--ext", ""]).len(), 1);
    assert_eq!(list(&["--name", "setup.py"]).len(), 2);
    assert_eq!(list(&["--prefix", "py.set"]).len(), 3);
    assert_eq!(list(&["--prefix", "py.setu"]).len(), 2);
    assert_eq!(list(&["--limit", "2"]), everything[..2]);
    assert_eq!(list(&["--limit", "0"]), everything[..0]);
    let mut backwards = list(&["--reverse"]);
    backwards.reverse();
    assert_eq!(backwards, everything);
}

#[test]
fn missing_contents_are_told_one_by_one_and_by_the_exit_code() {
    let scene = small_store();
    let known = lines(succeed(args([&"ls", &scene.store(), &"--name", &"main.c"]))).remove(0);
    let asked = format!("{known}\n{ABSENT}\nnonsense\n\n");
    let output = run_with_input(args([&"has", &scene.store(), &"--batch"]), asked.as_bytes());
    assert_eq!(output.status.code(), Some(3));
    let answers = lines(output.stdout);
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0], format!("{known} found"));
    assert_eq!(answers[1], format!("{ABSENT} missing"));
    assert!(answers[2].starts_with("nonsense error "), "{}", answers[2]);

    let output = run_with_input(args([&"get", &scene.store(), &"--batch"]), asked.as_bytes());
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!(
        "{known} found 14\nint main() {{}}\n\n{ABSENT} missing\n"
    )));

    let line = fail(3, args([&"get", &scene.store(), &ABSENT]));
    assert_eq!(line, format!("ppc: {ABSENT} is not in the store"));
}

#[test]
fn each_answer_of_a_batch_comes_before_the_next_question() {
    use std::io::{BufRead, BufReader, Write};
    let scene = small_store();
    let mut child = ppc()
        .args(args([&"has", &scene.store(), &"--batch"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        writeln!(stdin, "{ABSENT}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert_eq!(answer, format!("{ABSENT} missing\n"));
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// A key whose extension begins with `swh:` was listed in a form that no command took back.
#[test]
fn every_listed_key_is_taken_back_by_every_command() {
    let scene = Scene::new();
    let names: [&[u8]; 6] = [
        b"x.swh:1",
        b"x.swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        b"x.swh:",
        b"x. c",
        b"x.%41",
        b"swh:1:cnt:0",
    ];
    let folder = scene.folder("in", names.map(|name| (name, name)));
    succeed(args([&"import", &scene.store(), &folder]));
    let listed = succeed(args([&"ls", &scene.store()]));
    let keys = lines(listed.clone());
    assert_eq!(keys.len(), names.len());
    let contents: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| {
            let told = lines(succeed(args([&"has", &scene.store(), key])));
            assert_eq!(told, [format!("{key} found")]);
            let content = succeed(args([&"get", &scene.store(), key]));
            assert_eq!(succeed(args([&"cat", &scene.store(), key])), content);
            content
        })
        .collect();
    let mut sorted = contents.clone();
    sorted.sort();
    let mut expected = names.map(<[u8]>::to_vec);
    expected.sort();
    assert_eq!(sorted, expected);

    let list = scene.path("ids");
    std::fs::write(&list, &listed).unwrap();
    let dest = scene.path("out.tar");
    let report = succeed_json(args([&"export", &scene.store(), &dest, &"--ids", &list]));
    assert_eq!(report["files"], names.len());
    assert_eq!(report["missing"], 0);
    let output = run_with_input(args([&"rm", &scene.store(), &"--batch"]), &listed);
    assert!(output.status.success());
    assert!(succeed(args([&"ls", &scene.store()])).is_empty());
}

#[test]
fn deleted_contents_are_gone_and_others_stay() {
    let scene = small_store();
    let python = succeed(args([&"ls", &scene.store(), &"--ext", &"py"]));
    let output = run_with_input(args([&"rm", &scene.store(), &"--batch"]), &python);
    assert!(output.status.success());
    assert!(
        lines(output.stdout)
            .iter()
            .all(|line| line.contains(" deleted "))
    );
    assert_eq!(lines(succeed(args([&"ls", &scene.store()]))).len(), 2);
    let output = run_with_input(args([&"rm", &scene.store(), &"--batch"]), &python);
    assert_eq!(output.status.code(), Some(3));
    succeed(args([&"compact", &scene.store()]));
    assert_eq!(lines(succeed(args([&"ls", &scene.store()]))).len(), 2);
}

#[test]
fn statistics_count_files_and_bytes_by_extension() {
    let scene = small_store();
    let stats = succeed_json(args([&"stats", &scene.store()]));
    assert_eq!(stats["files"], 5);
    assert_eq!(stats["raw_bytes"], 10 + 11 + 13 + 14 + 5);
    let extensions = stats["extensions"].as_array().unwrap();
    let python = extensions.iter().find(|it| it["ext"] == "py").unwrap();
    assert_eq!(python["files"], 3);
    assert_eq!(python["raw_bytes"], 34);
    let text = String::from_utf8(succeed(args([&"stats", &scene.store()]))).unwrap();
    assert!(
        text.contains("(none)") && text.contains("contents"),
        "{text}"
    );
}

/// What an extension takes was estimated, and could be nearly twice what it takes: a long file is
/// stored while a block of others is still open.
#[test]
fn extensions_take_exactly_what_all_contents_take() {
    let scene = Scene::new();
    let mut files = Vec::new();
    for number in 0..60_u64 {
        let name = |ext: &str| format!("f{number}.{ext}").into_bytes();
        files.push((name("c"), source_text(number, 40)));
        files.push((
            name("pdf"),
            crate::support::noise(number, 30_000 + 100_000 * (number % 2) as usize),
        ));
        files.push((name("py"), source_text(100 + number, 40)));
        files.push((
            name("txt"),
            vec![b'a' + (number % 26) as u8; 1 + number as usize / 26],
        ));
    }
    let folder = scene.folder("in", crate::support::borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    let stats = succeed_json(args([&"stats", &scene.store()]));
    let extensions = stats["extensions"].as_array().unwrap();
    let stored = |it: &serde_json::Value| it["stored_bytes"].as_u64().unwrap();
    let all: u64 = extensions.iter().map(stored).sum();
    assert_eq!(stats["value_stored_bytes"], all);
    assert!(all < stats["content_stored_bytes"].as_u64().unwrap());
    // Noise does not shrink, and nothing else grows.
    for extension in extensions {
        let raw = extension["raw_bytes"].as_u64().unwrap();
        let stored = stored(extension);
        let is_noise = extension["ext"] == "pdf";
        assert!(stored <= raw + raw / 100, "{extension}");
        assert!(
            stored * 2 < raw || is_noise || extension["ext"] == "txt",
            "{extension}"
        );
        assert!(!is_noise || stored > raw - raw / 100, "{extension}");
    }

    // What was deleted goes on taking its bytes until it is compacted.
    let noise = succeed(args([&"ls", &scene.store(), &"--ext", &"pdf"]));
    run_with_input(args([&"rm", &scene.store(), &"--batch"]), &noise);
    let pdf = |stats: &serde_json::Value| {
        let mut extensions = stats["extensions"].as_array().unwrap().iter();
        extensions.find(|it| it["ext"] == "pdf").cloned()
    };
    let deleted = pdf(&succeed_json(args([&"stats", &scene.store()]))).unwrap();
    assert_eq!(deleted["files"], 0);
    assert!(stored(&deleted) > 1_000_000);
    succeed(args([&"compact", &scene.store()]));
    assert_eq!(pdf(&succeed_json(args([&"stats", &scene.store()]))), None);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scene = Scene::new();
    let files: Vec<(Vec<u8>, Vec<u8>)> = (0..3000)
        .map(|number| (format!("{number}.py").into_bytes(), source_text(number, 8)))
        .collect();
    let folder = scene.folder("in", crate::support::borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    let keys = scene.path("keys");
    std::fs::write(&keys, succeed(args([&"ls", &scene.store()]))).unwrap();
    for words in [
        &["ls"][..],
        &["stats"],
        &["cat", "--batch"],
        &["get", "--batch"],
        &["has", "--batch"],
    ] {
        let command = words.join(" ");
        let mut child = ppc()
            .arg(words[0])
            .arg(scene.store())
            .args(&words[1..])
            .arg("--json")
            .stdin(std::fs::File::open(&keys).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{command}: {}", output.status);
        assert!(output.stderr.is_empty(), "{command}");
    }
}

#[test]
fn without_a_terminal_there_are_no_colours_and_no_bars() {
    let scene = small_store();
    let output = run(args([&"stats", &scene.store()]));
    assert!(!output.stdout.contains(&0x1b) && output.stderr.is_empty());
    let output = run(["--help"]);
    assert!(!output.stdout.contains(&0x1b));
}

#[test]
fn errors_are_json_where_results_are() {
    let output = run(["get", "/nowhere", ABSENT, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "not-found");
    assert_eq!(error["error"]["exit_code"], 1);
    let output = run(["get", "--json", "--frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
    // What is missing was cut off.
    let output = run(["import", "code.ppc", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("<SOURCE>..."), "{message}");
}

#[test]
fn help_teaches_with_examples_for_every_command() {
    let help = String::from_utf8(succeed(["--help"])).unwrap();
    assert!(help.contains("Exit codes:"));
    let listed = help.split("Commands:\n").nth(1).unwrap();
    let commands = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with("   "));
    let names: Vec<&str> = commands
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let help = String::from_utf8(succeed([name, "--help"])).unwrap();
        assert!(help.contains("Examples:"), "{name}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{name}"
        );
    }
}

#[test]
fn completions_and_man_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(!succeed(["completions", shell]).is_empty());
    }
    let page = String::from_utf8(succeed(["man"])).unwrap();
    assert!(
        page.starts_with(".ie") || page.contains(".TH ppc"),
        "{page}"
    );
    let scene = Scene::new();
    succeed(args([&"man", &"--into", &scene.path("man")]));
    assert!(scene.path("man").join("ppc-import.1").is_file());
}

/// Prefixes were taken as bytes, so what `ls` prints with escapes found nothing.
#[test]
fn a_prefix_is_written_as_keys_are_listed() {
    let scene = Scene::new();
    let names: [&[u8]; 3] = [b"100%a.c", b"\xff.c", b"x.swh:1"];
    let folder = scene.folder("in", names.map(|name| (name, name)));
    succeed(args([&"import", &scene.store(), &folder]));
    for key in lines(succeed(args([&"ls", &scene.store()]))) {
        let prefix = key.split_once(".swh:1:cnt:").unwrap().0;
        let found = succeed(args([&"ls", &scene.store(), &"--prefix", &prefix]));
        assert_eq!(lines(found).join("\n"), key, "{prefix}");
    }
}

#[test]
fn a_dash_is_standard_output_where_one_content_is_got() {
    let scene = small_store();
    let key = lines(succeed(args([&"ls", &scene.store(), &"--name", &"main.c"]))).remove(0);
    let output = ppc()
        .current_dir(scene.path(""))
        .args(args([&"get", &scene.store(), &key, &"-o", &"-"]))
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"int main() {}\n");
    assert!(!scene.path("-").exists());
}

#[test]
fn counts_of_one_are_no_plurals() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"a.c"[..], &b"x"[..])]);
    let text = |command: &[std::ffi::OsString]| String::from_utf8(succeed(command)).unwrap();
    let report = text(&args([&"import", &scene.store(), &folder]));
    assert!(report.contains(" 1 file, 1 B"), "{report}");
    let report = text(&args([&"export", &scene.store(), &scene.path("x.tar")]));
    assert!(report.starts_with("1 file, "), "{report}");
    let line = fail(3, args([&"has", &scene.store(), &ABSENT]));
    assert_eq!(line, "ppc: 1 of 1 is not in the store");
}
