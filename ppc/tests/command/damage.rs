//! Damaged stores: what verify finds, what salvage gets out, and what the other tools show.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{
    Scene, args, borrowed, fail, noise, run, run_with_input, source_text, succeed, succeed_json,
};

const FILES: u64 = 400;

fn store_with_many_files() -> Scene {
    let scene = Scene::new();
    let mut files: Vec<(Vec<u8>, Vec<u8>)> = (0..FILES - 1)
        .map(|number| {
            (
                format!("m{number}.py").into_bytes(),
                source_text(number, 60),
            )
        })
        .collect();
    files.push((b"z.zzz".to_vec(), noise(5, 400_000)));
    let folder = scene.folder("in", borrowed(&files));
    let index = "sha256";
    succeed(args([
        &"import",
        &scene.store(),
        &folder,
        &"--index",
        &index,
    ]));
    scene
}

/// The largest table, which is that of the contents.
fn contents_table(scene: &Scene) -> PathBuf {
    let files = fs::read_dir(scene.store())
        .unwrap()
        .map(|it| it.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|ext| ext == "table"));
    tables
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap()
}

/// The JSON documents of an output: those before the last, and the last.
fn documents(stdout: &[u8]) -> (Vec<serde_json::Value>, serde_json::Value) {
    let text = String::from_utf8(stdout.to_vec()).unwrap();
    let lines = text.lines();
    let mut all: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = all.pop().unwrap();
    (all, last)
}

fn of_kind<'a>(
    problems: &'a [serde_json::Value],
    kind: &'a str,
) -> impl Iterator<Item = &'a serde_json::Value> {
    problems.iter().filter(move |it| it["kind"] == kind)
}

fn flip_a_byte(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x55;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_store_verifies() {
    let scene = store_with_many_files();
    let report = succeed_json(args([&"verify", &scene.store()]));
    assert_eq!(report["damages"], 0);
    assert_eq!(report["files"], FILES);
    assert_eq!(report["index_entries"], 2 * FILES);
    assert_eq!(
        succeed_json(args([&"verify", &scene.store(), &"--quick"]))["damages"],
        0
    );
}

#[test]
fn a_damaged_block_costs_its_contents_only() {
    let scene = store_with_many_files();
    let keys = succeed(args([&"ls", &scene.store()]));
    let table = contents_table(&scene);
    flip_a_byte(&table, 1000);

    let output = run(args([&"verify", &scene.store()]));
    assert_eq!(output.status.code(), Some(4));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains(table.file_name().unwrap().to_str().unwrap()),
        "{errors}"
    );
    assert!(
        errors.lines().last().unwrap().contains("ppc salvage"),
        "{errors}"
    );
    assert_eq!(
        run(args([&"verify", &scene.store(), &"--quick"]))
            .status
            .code(),
        Some(4)
    );

    // The rest is still there.
    let output = run_with_input(args([&"get", &scene.store(), &"--batch"]), &keys);
    assert_eq!(output.status.code(), Some(4));
    let found = output
        .stdout
        .windows(7)
        .filter(|bytes| bytes == b" found ")
        .count();
    assert!(
        found > FILES as usize / 2 && found < FILES as usize,
        "{found}"
    );

    // So is it in an export, and in a salvaged store, which verifies.
    let export = scene.path("rest.tar");
    let output = run(args([&"export", &scene.store(), &export, &"--json"]));
    assert_eq!(output.status.code(), Some(4));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["files"], found);

    let rescued = scene.path("rescued");
    let output = run(args([&"salvage", &scene.store(), &rescued, &"--json"]));
    assert_eq!(output.status.code(), Some(4));
    let (problems, report) = documents(&output.stdout);
    assert_eq!(report["files"], found);
    assert_eq!(report["lost"], FILES - found as u64);
    assert_eq!(report["lost_list_complete"], true);
    // The lost are those that get did not find, by name.
    let lost: Vec<&str> = of_kind(&problems, "lost")
        .map(|it| it["key"].as_str().unwrap())
        .collect();
    let all = String::from_utf8(keys.clone()).unwrap();
    let kept = String::from_utf8(succeed(args([&"ls", &rescued]))).unwrap();
    let gone: Vec<&str> = all
        .lines()
        .filter(|key| !kept.lines().any(|it| it == *key))
        .collect();
    assert_eq!(lost, gone);
    let damage: Vec<_> = of_kind(&problems, "damage").collect();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0]["keyspace"], "contents");
    let (from, to) = (&damage[0]["from"], &damage[0]["to"]);
    assert!(from.as_u64() <= Some(1000) && to.as_u64() > Some(1000));
    let report = succeed_json(args([&"verify", &rescued]));
    assert_eq!(
        (&report["files"], &report["damages"]),
        (&found.into(), &0.into())
    );
    assert_eq!(report["index_entries"], 2 * found);
}

#[test]
fn a_store_without_manifest_is_salvaged_whole() {
    let scene = store_with_many_files();
    let keys = succeed(args([&"ls", &scene.store()]));
    for file in fs::read_dir(scene.store()).unwrap() {
        let path = file.unwrap().path();
        let is_manifest = path.extension().is_some_and(|ext| ext == "manifest");
        if is_manifest || path.ends_with("CURRENT") {
            fs::remove_file(path).unwrap();
        }
    }
    let rescued = scene.path("rescued");
    let output = run(args([&"salvage", &scene.store(), &rescued]));
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(succeed(args([&"ls", &rescued])), keys);
    assert_eq!(succeed_json(args([&"verify", &rescued]))["damages"], 0);
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let scene = store_with_many_files();
    let keys = succeed(args([&"ls", &scene.store()]));
    let copy = scene.path("copy");
    let report = succeed_json(args([&"checkpoint", &scene.store(), &copy]));
    assert!(report["linked"].as_u64().unwrap() > 0, "{report}");
    let output = run_with_input(args([&"rm", &scene.store(), &"--batch"]), &keys);
    assert!(output.status.success());
    succeed(args([&"compact", &scene.store()]));
    assert_eq!(succeed(args([&"ls", &copy])), keys);
    assert_eq!(succeed_json(args([&"verify", &copy]))["damages"], 0);
    let line = fail(1, args([&"checkpoint", &scene.store(), &copy]));
    assert!(line.contains("copy"), "{line}");
}

#[test]
fn a_dump_shows_tables_and_their_keys() {
    let scene = store_with_many_files();
    let dump = succeed_json(args([&"dump", &scene.store()]));
    let keyspaces = dump["keyspaces"].as_array().unwrap();
    let names: Vec<&str> = keyspaces
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    for name in ["contents", "meta", "sha1_git", "sha256"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let table = contents_table(&scene);
    let name = table.file_name().unwrap().to_owned();
    let text = succeed(args([
        &"dump",
        &scene.store(),
        &"--table",
        &name,
        &"--keys",
    ]));
    let text = String::from_utf8(text).unwrap();
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("put py.m"))
            .count(),
        FILES as usize - 1
    );
}

/// `ppc compact --zstd-level 12` took the block size back to 64 KiB, whatever the store had.
#[test]
fn what_is_not_said_of_storing_stays_as_it_is() {
    let scene = store_with_many_files();
    let layout = |words: &[&str]| {
        let mut line = args([&"compact", &scene.store(), &"--rewrite"]).to_vec();
        line.extend(words.iter().map(Into::into));
        succeed(line);
        let name = contents_table(&scene).file_name().unwrap().to_owned();
        let table = succeed_json(args([&"dump", &scene.store(), &"--table", &name]));
        let text = |field: &str| table[field].as_str().unwrap().to_owned();
        let has_dictionary = table["dictionary_bytes"] != 0;
        (text("layout"), text("compression"), has_dictionary)
    };
    let expected = |layout: &str, compression: &str, has_dictionary| {
        (layout.to_owned(), compression.to_owned(), has_dictionary)
    };
    assert_eq!(layout(&[]), expected("blocks of 64.0 KiB", "zstd 6", false));
    let small = layout(&["--block-size", "8KiB"]);
    assert_eq!(small, expected("blocks of 8.00 KiB", "zstd 6", false));
    let trained = layout(&["--dictionary", "4KiB"]);
    assert_eq!(trained, expected("blocks of 8.00 KiB", "zstd 6", true));
    let quick = layout(&["--zstd-level", "1"]);
    assert_eq!(quick, expected("blocks of 8.00 KiB", "zstd 1", true));
    let none = layout(&["--dictionary", "0"]);
    assert_eq!(none, expected("blocks of 8.00 KiB", "zstd 1", false));
    let clusters = "clustered in windows of 64.0 MiB";
    let clustered = layout(&["--layout", "clustered"]);
    assert_eq!(clustered, expected(clusters, "zstd 1", false));
    let dense = layout(&["--zstd-level", "3"]);
    assert_eq!(dense, expected(clusters, "zstd 3", false));
    succeed(args([&"verify", &scene.store()]));
    let blocks = layout(&["--layout", "blocks"]);
    assert_eq!(blocks, expected("blocks of 64.0 KiB", "zstd 3", false));
    let balanced = layout(&["--profile", "balanced"]);
    let clusters = "clustered in windows of 256 MiB";
    assert_eq!(balanced, expected(clusters, "zstd 3", true));
    let other = layout(&["--zstd-level", "5", "--dictionary", "0"]);
    assert_eq!(other, expected(clusters, "zstd 5", false));
    let paper = layout(&["--profile", "paper", "--block-size", "4KiB"]);
    assert_eq!(paper, expected("blocks of 4.00 KiB", "zstd 6", false));
    succeed(args([&"verify", &scene.store()]));
}

#[test]
fn a_dump_lists_frames_and_key_blocks_of_sound_and_damaged_tables() {
    let scene = store_with_many_files();
    let table = contents_table(&scene);
    let name = table.file_name().unwrap().to_owned();
    let dump = |json: bool| {
        let words: [&dyn AsRef<std::ffi::OsStr>; 6] = [
            &"dump",
            &scene.store(),
            &"--table",
            &name,
            &"--frames",
            &"--key-blocks",
        ];
        let mut line = args(words).to_vec();
        line.extend(json.then(|| "--json".into()));
        String::from_utf8(succeed(line)).unwrap()
    };
    let documents = |text: &str| -> Vec<serde_json::Value> {
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let sum = |documents: &[serde_json::Value], kind: &str, field: &str| -> u64 {
        let of_kind = documents.iter().filter(|it| it.get(kind).is_some());
        of_kind.map(|it| it[field].as_u64().unwrap()).sum()
    };
    let sound = documents(&dump(true));
    assert!(sound[0]["sections"].as_array().unwrap().len() > 3);
    assert_eq!(sum(&sound, "frame", "values"), FILES);
    assert_eq!(sum(&sound, "key_block", "entries"), FILES);
    assert_eq!(
        sum(&sound, "frame", "raw_bytes"),
        sound[0]["raw_value_bytes"]
    );
    assert_eq!(
        sum(&sound, "frame", "stored_bytes"),
        sound[0]["stored_value_bytes"]
    );
    let text = dump(false);
    let starting = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(starting("frame "), sound[0]["frames"]);
    assert_eq!(starting("key block "), sound[0]["key_blocks"]);
    assert!(text.contains("raw, 1 values"), "{text}");

    // The head of the second frame, and the first key block.
    let offset = |kind: &str, number: u64| {
        let found = sound.iter().find(|it| it[kind] == number).unwrap();
        found["offset"].as_u64().unwrap() as usize
    };
    flip_a_byte(&table, offset("frame", 1));
    flip_a_byte(&table, offset("key_block", 0) + 30);
    let output = run(args([
        &"dump",
        &scene.store(),
        &"--table",
        &name,
        &"--frames",
    ]));
    assert_eq!(output.status.code(), Some(4));
    let text = String::from_utf8(output.stdout).unwrap();
    let frames = || text.lines().filter(|line| line.starts_with("frame "));
    assert_eq!(frames().count(), sound[0]["frames"]);
    assert_eq!(frames().filter(|line| line.contains("damaged")).count(), 1);
    let output = run(args([
        &"dump",
        &scene.store(),
        &"--table",
        &name,
        &"--key-blocks",
    ]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(text.contains("key block 0 at"), "{text}");
    assert_eq!(text.matches("damaged").count(), 1, "{text}");
}

#[test]
fn what_if_measures_every_combination() {
    let scene = store_with_many_files();
    let text = succeed(args([
        &"whatif",
        &scene.store(),
        &"--levels",
        &"1,6",
        &"--block-sizes",
        &"4KiB,64KiB",
        &"--profiles",
        &"none",
        &"--sample",
        &"1MiB",
        &"--json",
    ]));
    let text = String::from_utf8(text).unwrap();
    let results: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(results.len(), 4);
    assert!(
        results.iter().all(|it| it["ratio"].as_f64().unwrap() < 1.0),
        "{text}"
    );
}

/// Where the units of a table's kind lie, in order.
fn offsets(scene: &Scene, table: &Path, list: &str, kind: &str) -> Vec<usize> {
    let name = table.file_name().unwrap().to_owned();
    let text = succeed(args([
        &"dump",
        &scene.store(),
        &"--table",
        &name,
        &list,
        &"--json",
    ]));
    let text = String::from_utf8(text).unwrap();
    let documents = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    documents
        .filter(|it| it.get(kind).is_some())
        .map(|it| it["offset"].as_u64().unwrap() as usize)
        .collect()
}

/// Salvage gave up sound contents when the keys beside them were lost.
#[test]
fn contents_whose_keys_are_lost_are_found_again_by_their_hashes() {
    let scene = store_with_many_files();
    let keys = succeed(args([&"ls", &scene.store()]));
    let table = contents_table(&scene);
    let blocks = offsets(&scene, &table, "--key-blocks", "key_block");
    flip_a_byte(&table, blocks[1] + 30);
    let rescued = scene.path("rescued");
    let report = succeed_json(args([&"salvage", &scene.store(), &rescued]));
    assert_eq!(
        (&report["files"], &report["lost"]),
        (&FILES.into(), &0.into())
    );
    assert!(report["found_again"].as_u64() > Some(5), "{report}");
    assert_eq!(succeed(args([&"ls", &rescued])), keys);
    assert_eq!(succeed_json(args([&"verify", &rescued]))["damages"], 0);

    // All keys are gone, with the table's end.
    let bytes = fs::read(&table).unwrap();
    fs::write(&table, &bytes[..blocks[0]]).unwrap();
    let rescued = scene.path("rescued without any key");
    let report = succeed_json(args([&"salvage", &scene.store(), &rescued]));
    assert_eq!(report["found_again"], FILES);
    assert_eq!(succeed(args([&"ls", &rescued])), keys);
    assert_eq!(succeed_json(args([&"verify", &rescued]))["damages"], 0);
}

/// Verify stopped at a damaged key block and at a table cut short, with neither count nor hint.
#[test]
fn verify_goes_on_behind_damage_and_names_what_it_takes_along() {
    let scene = store_with_many_files();
    let table = contents_table(&scene);
    let name = table.file_name().unwrap().to_str().unwrap();
    let verify = |words: &[&str]| {
        let mut line = args([&"verify", &scene.store(), &"--json"]).to_vec();
        line.extend(words.iter().map(Into::into));
        let output = run(line);
        assert_eq!(output.status.code(), Some(4));
        let errors = String::from_utf8(output.stderr).unwrap();
        let last = errors.lines().last().unwrap_or_default();
        assert!(last.contains("ppc salvage"), "{errors}");
        assert!(!errors.contains("checksum"), "{errors}");
        documents(&output.stdout)
    };
    let blocks = offsets(&scene, &table, "--key-blocks", "key_block");
    flip_a_byte(&table, 1000);
    flip_a_byte(&table, blocks[1] + 30);
    let (problems, report) = verify(&[]);
    assert_eq!(report["damages"], 2, "{problems:?}");
    let damages: Vec<_> = of_kind(&problems, "damage").collect();
    assert!(damages.iter().all(|it| it["keyspace"] == "contents"));
    assert!(damages[0]["file"].as_str().unwrap().ends_with(name));
    assert_eq!(damages[1]["from"], blocks[1]);
    assert_eq!(damages[1]["to"], blocks[2]);
    assert!(report["remedy"].as_str().unwrap().contains("import"));
    // All the rest was checked, and every file is either sound or named.
    let unreadable = of_kind(&problems, "lost").count() as u64;
    assert_eq!(report["files_unreadable"], unreadable);
    assert_eq!(report["files"].as_u64(), Some(FILES - unreadable));
    let ids: Vec<&str> = of_kind(&problems, "lost")
        .map(|it| it["swhid"].as_str().unwrap())
        .collect();
    assert!(ids.len() > 10);
    for id in [ids[0], ids[ids.len() - 1]] {
        assert_eq!(
            run(args([&"cat", &scene.store(), &id])).status.code(),
            Some(4)
        );
    }
    let (problems, report) = verify(&["--quick"]);
    assert_eq!((&report["damages"], problems.len()), (&2.into(), 2));
    assert!(
        problems[0]["message"]
            .as_str()
            .unwrap()
            .contains("files cannot be read")
    );

    let bytes = fs::read(&table).unwrap();
    fs::write(&table, &bytes[..bytes.len() - 100]).unwrap();
    let (problems, report) = verify(&[]);
    assert_eq!(report["files_unreadable"], FILES);
    let damages: Vec<_> = of_kind(&problems, "damage").collect();
    assert_eq!(damages.len(), 3, "{damages:?}");
    assert!(
        damages[2]["message"]
            .as_str()
            .unwrap()
            .contains("cut short")
    );
    assert_eq!(report["index_entries"], 2 * FILES);

    // A person reads the same on standard error, and how to go on in its last line.
    let output = run(args([&"verify", &scene.store()]));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("cut short"), "{errors}");
    let last = errors.lines().last().unwrap();
    assert!(
        last.contains("3 parts damaged, 400 files cannot be read"),
        "{last}"
    );
}

#[test]
fn a_store_that_does_not_open_is_verified_all_the_same() {
    let scene = store_with_many_files();
    let sound = succeed_json(args([&"verify", &scene.store(), &"--quick"]));
    fs::write(scene.store().join("CURRENT"), "nonsense").unwrap();
    for quick in [false, true] {
        let mut line = args([&"verify", &scene.store(), &"--json"]).to_vec();
        line.extend(quick.then(|| "--quick".into()));
        let output = run(line);
        assert_eq!(output.status.code(), Some(4));
        let (problems, report) = documents(&output.stdout);
        assert_eq!((&report["damages"], problems.len()), (&1.into(), 1));
        assert_eq!(report["units"], sound["units"]);
        assert_eq!(report["contents_checked"], false);
    }
    fs::remove_file(scene.store().join("CURRENT")).unwrap();
    let output = run(args([&"verify", &scene.store()]));
    assert_eq!(output.status.code(), Some(4));
    let nowhere = scene.path("nowhere");
    let line = fail(1, args([&"verify", &nowhere]));
    assert!(line.contains("no store"), "{line}");
}

#[test]
fn tables_that_no_manifest_names_are_told_and_are_no_damage() {
    let scene = store_with_many_files();
    let table = contents_table(&scene);
    let stray = scene.store().join("900000.table");
    fs::copy(&table, &stray).unwrap();
    let output = run(args([&"verify", &scene.store(), &"--json"]));
    assert!(output.status.success());
    let (problems, report) = documents(&output.stdout);
    assert_eq!(
        (&report["damages"], &report["tables_unlisted"]),
        (&0.into(), &1.into())
    );
    assert_eq!(of_kind(&problems, "finding").count(), 1, "{problems:?}");
    let rescued = scene.path("rescued");
    let report = succeed_json(args([&"salvage", &scene.store(), &rescued]));
    assert_eq!(
        (&report["tables_unlisted"], &report["files"]),
        (&1.into(), &FILES.into())
    );
    // One that a writer set aside is nobody's to remove but the user's, who is told what to do.
    fs::rename(&stray, scene.store().join("900000.table.lost")).unwrap();
    let output = run(args([&"verify", &scene.store(), &"--json"]));
    assert!(output.status.success());
    let (problems, _) = documents(&output.stdout);
    let finding = of_kind(&problems, "finding").next().unwrap()["message"].to_string();
    assert!(
        finding.contains("set aside") && finding.contains("ppc salvage"),
        "{finding}"
    );
}

#[test]
fn damaged_indexes_are_made_anew_and_cost_nothing() {
    let scene = store_with_many_files();
    let keys = succeed(args([&"ls", &scene.store()]));
    let contents = contents_table(&scene);
    let mut damaged = 0;
    for file in fs::read_dir(scene.store()).unwrap() {
        let path = file.unwrap().path();
        let len = fs::metadata(&path).unwrap().len();
        let is_table = path.extension().is_some_and(|ext| ext == "table");
        if is_table && path != contents && len > 5000 {
            flip_a_byte(&path, 500);
            damaged += 1;
        }
    }
    assert_eq!(damaged, 2);
    let rescued = scene.path("rescued");
    let report = succeed_json(args([&"salvage", &scene.store(), &rescued]));
    assert_eq!(
        (&report["files"], &report["lost"]),
        (&FILES.into(), &0.into())
    );
    assert!(report["entries_added"].as_u64() > Some(0), "{report}");
    assert_eq!(succeed(args([&"ls", &rescued])), keys);
    assert_eq!(succeed_json(args([&"verify", &rescued]))["damages"], 0);
}

/// What a damaged store lost came back by no import: what is damaged counts as stored.
#[test]
fn a_salvage_and_an_import_of_the_sources_bring_everything_back() {
    let scene = store_with_many_files();
    let whole = succeed(args([&"ls", &scene.store()]));
    let table = contents_table(&scene);
    // A frame, a key block and the table's end.
    flip_a_byte(&table, 1000);
    let blocks = offsets(&scene, &table, "--key-blocks", "key_block");
    flip_a_byte(&table, blocks[0] + 30);
    let len = fs::metadata(&table).unwrap().len() as usize;
    flip_a_byte(&table, len - 20);
    let rescued = scene.path("rescued");
    let output = run(args([&"salvage", &scene.store(), &rescued]));
    assert_eq!(output.status.code(), Some(4));
    let errors = String::from_utf8(output.stderr).unwrap();
    let last = errors.lines().last().unwrap();
    assert!(last.contains("ppc import"), "{last}");
    assert_ne!(succeed(args([&"ls", &rescued])), whole);
    let folder = scene.path("in");
    succeed(args([&"import", &rescued, &folder]));
    assert_eq!(succeed(args([&"ls", &rescued])), whole);
    let report = succeed_json(args([&"verify", &rescued]));
    assert_eq!(
        (&report["files"], &report["damages"]),
        (&FILES.into(), &0.into())
    );
}

#[test]
fn a_salvage_into_or_around_the_store_or_onto_another_is_refused() {
    let scene = store_with_many_files();
    let inside = scene.store().join("rescued");
    let line = fail(1, args([&"salvage", &scene.store(), &inside]));
    assert!(line.contains("would lie in"), "{line}");
    let around = scene.store().parent().unwrap().to_owned();
    let line = fail(1, args([&"salvage", &scene.store(), &around]));
    assert!(line.contains("lies in the directory"), "{line}");
    let line = fail(1, args([&"salvage", &scene.store(), &scene.store()]));
    assert!(line.contains("into itself"), "{line}");
    #[cfg(unix)]
    {
        let link = scene.path("link");
        std::os::unix::fs::symlink(scene.store(), &link).unwrap();
        let line = fail(1, args([&"salvage", &scene.store(), &link.join("new")]));
        assert!(line.contains("would lie in"), "{line}");
    }
    let other = scene.path("other");
    let folder = scene.path("in");
    succeed(args([&"import", &other, &folder]));
    let line = fail(1, args([&"salvage", &scene.store(), &other]));
    assert!(line.contains("a salvage makes a new store"), "{line}");
    assert_eq!(succeed_json(args([&"verify", &other]))["files"], FILES);
    assert_eq!(
        succeed_json(args([&"verify", &scene.store()]))["damages"],
        0
    );
}
