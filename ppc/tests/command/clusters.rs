//! Stores of clusters: what the command tells of them.

use std::fs;

use super::support::*;

/// Versions of a few files, of which each is some KiB, and one like nothing else.
fn write_versions(dir: &std::path::Path) {
    for number in 0..40u64 {
        let (subject, version) = (number % 5, number / 5);
        let line = |line: u64| match line {
            50 => format!("VERSION = {version}\n"),
            _ => format!("f{}_{subject} = call({line})\n", subject * 7919 + line * 31),
        };
        let text: String = (0..200).map(line).collect();
        let folder = dir.join(format!("v{version}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file{subject}.py")), text).unwrap();
    }
    fs::write(
        dir.join("other.md"),
        "Nothing else is like this.\n".repeat(3),
    )
    .unwrap();
}

#[test]
fn whatif_tells_what_each_profile_would_make_of_the_store() {
    let scene = Scene::new();
    let sources = scene.path("sources");
    write_versions(&sources);
    let store = scene.store();
    succeed(args([&"import", &store, &sources]));
    let line = args([
        &"whatif",
        &store,
        &"--levels",
        &"3",
        &"--block-sizes",
        &"4KiB",
    ]);
    let json = succeed(line.iter().cloned().chain(["--json".into()]));
    let results: Vec<serde_json::Value> = String::from_utf8(json)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let profiles: Vec<_> = results.iter().map(|it| it["profile"].as_str()).collect();
    let named = [Some("fast"), Some("balanced"), Some("dense"), None];
    assert_eq!(profiles, named);
    let ratio = |at: usize| results[at]["ratio"].as_f64().unwrap();
    // Of so little data the dictionary is the larger part.
    assert!(ratio(1) < ratio(0) && ratio(2) < ratio(1), "{results:?}");
    // A follower and its base.
    let decoded = results[1]["get_decoded_per_returned"].as_f64().unwrap();
    assert!((1.5..4.0).contains(&decoded), "{decoded}");
    let text = String::from_utf8(succeed(line)).unwrap();
    assert!(
        text.contains("balanced") && text.contains("clusters"),
        "{text}"
    );
    let none = args([&"whatif", &store, &"--profiles", &"none"]);
    assert!(!String::from_utf8(succeed(none)).unwrap().contains("fast"));
}

#[test]
fn stats_tell_kinds_of_frames_likeness_and_depth() {
    let scene = Scene::new();
    let sources = scene.path("sources");
    write_versions(&sources);
    let store = scene.store();
    succeed(args([
        &"import",
        &store,
        &sources,
        &"--layout",
        &"clustered",
    ]));
    let stats = succeed_json(args([&"stats", &store]));
    let frames = &stats["frames"];
    let kind = |name: &str| {
        let kinds = frames["kinds"].as_array().unwrap();
        let kind = kinds.iter().find(|kind| kind["kind"] == name).unwrap();
        kind["frames"].as_u64().unwrap()
    };
    assert_eq!((kind("base"), kind("follower")), (5, 35));
    let count = |field: &str| -> u64 {
        let counts = frames[field].as_array().unwrap().iter();
        counts.map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!(count("followers_by_stored_tenth"), 35);
    assert_eq!(count("clusters_by_frames_log2"), 5);
    assert_eq!(frames["tables_without_census"], 0);
    let text = String::from_utf8(succeed(args([&"stats", &store]))).unwrap();
    for part in [
        "followers of a base",
        "followers stored in",
        "bases to decode before",
        "frames in a cluster",
        "5 to 8",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
