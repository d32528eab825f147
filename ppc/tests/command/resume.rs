//! Imports that are cut off and run again end as if they had never been cut off.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{
    Dice, Scene, args, borrowed, kill_rounds, noise, ppc, run, run_and_kill, source_text, succeed,
    succeed_json,
};

/// Files in no useful order, enough for several commits.
fn many_files() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut files = Vec::new();
    for number in 0..1500_u64 {
        let dir = number * 7919 % 97;
        files.push((
            format!("{dir}/f{}.py", number % 50).into_bytes(),
            source_text(number, 20 + number as usize % 60),
        ));
        files.push((
            format!("{dir}/copy{number}.c").into_bytes(),
            source_text(number / 3, 30),
        ));
    }
    files.push((b"z/large.bin".to_vec(), noise(3, 3 << 20)));
    files
}

fn import(scene: &Scene, folder: &std::path::Path) -> [std::ffi::OsString; 5] {
    args([
        &"import",
        &scene.store(),
        &folder,
        &"--commit-every",
        &"1MiB",
    ])
}

#[test]
fn an_import_killed_at_any_moment_and_run_again_ends_the_same() {
    let calm = Scene::new();
    let files = many_files();
    let folder = calm.folder("in", borrowed(&files));
    let report = succeed_json(import(&calm, &folder));
    assert!(report["commits"].as_u64().unwrap() > 3, "{report}");
    let expected = succeed(args([&"ls", &calm.store()]));

    // The kills come at any moment of an import of everything, whatever was imported before them.
    let mut dice = Dice::new(1);
    let mut rough = Scene::new();
    for round in 0..kill_rounds(12) {
        if round % 12 == 0 {
            rough = Scene::new();
        }
        run_and_kill(
            import(&rough, &folder),
            Duration::from_millis(10 + dice.below(440)),
        );
        let verified = run(args([&"verify", &rough.store()]));
        let errors = String::from_utf8(verified.stderr).unwrap();
        let is_not_yet_a_store = errors.contains("`ppc import` makes a new store");
        assert!(
            verified.status.success() || is_not_yet_a_store,
            "round {round}: {errors}"
        );
    }
    let report = succeed_json(import(&rough, &folder));
    assert_eq!(report["files_read"], files.len());
    assert_eq!(succeed(args([&"ls", &rough.store()])), expected);
}

#[test]
fn what_is_stored_is_skipped_the_second_time() {
    let scene = Scene::new();
    let files = many_files();
    let folder = scene.folder("in", borrowed(&files));
    let first = succeed_json(args([&"import", &scene.store(), &folder]));
    let second = succeed_json(args([&"import", &scene.store(), &folder]));
    assert_eq!(second["files_stored"], 0);
    assert_eq!(second["present"], files.len());
    assert_eq!(second["written_bytes"], 0);
    assert!(first["files_stored"].as_u64().unwrap() > 1500);
}

#[test]
fn an_interrupt_keeps_what_was_read_and_says_how_to_go_on() {
    let calm = Scene::new();
    let files = many_files();
    let folder = calm.folder("in", borrowed(&files));
    succeed(import(&calm, &folder));
    let expected = succeed(args([&"ls", &calm.store()]));

    let rough = Scene::new();
    let mut interrupted = 0;
    // How long an import takes to begin and to end, nobody knows on a busy machine: come later after
    // a signal that came too early, and sooner after one that came too late.
    let mut delay = Duration::from_millis(60);
    for _ in 0..60 {
        let child = ppc()
            .args(import(&rough, &folder))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(delay);
        let pid = child.id().to_string();
        let _ = std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            Some(130) if errors.is_empty() => delay = delay * 3 / 2,
            Some(130) => {
                interrupted += 1;
                let last = errors.lines().last().unwrap();
                assert!(last.contains("run the same command again"), "{errors}");
            }
            Some(0) => {
                std::fs::remove_dir_all(rough.store()).unwrap();
                delay = delay * 2 / 3;
            }
            code => panic!("{code:?}: {errors}"),
        }
        if interrupted == 2 {
            break;
        }
    }
    assert!(interrupted > 0, "no run was interrupted while it imported");
    succeed(import(&rough, &folder));
    assert_eq!(succeed(args([&"ls", &rough.store()])), expected);
}
