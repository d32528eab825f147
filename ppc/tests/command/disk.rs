//! Disks that are full or read-only: one line that says so, the store as it was, and the same
//! command succeeds once there is room.
//!
//! The disks are small file systems in memory, mounted in a namespace of the test's own, which
//! nobody else sees and which ends with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Scene, args, borrowed, fail, noise, snapshot, succeed, succeed_json};

/// Set for the test in the namespace.
const INSIDE_VARIABLE: &str = "PPC_TEST_OWN_MOUNTS";

/// A small disk that is the test's own.
struct Disk {
    mount_point: PathBuf,
}

impl Disk {
    /// A disk of so many KiB. None in the test that everybody sees: it runs itself once more in a
    /// namespace, where it gets the disk. Where that is not permitted it says so.
    fn own(test: &str, kib: u32) -> Option<Self> {
        if std::env::var_os(INSIDE_VARIABLE).is_none() {
            run_inside(test);
            return None;
        }
        let mount_point = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let disk = Self { mount_point };
        disk.mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"]);
        Some(disk)
    }

    fn mount(&self, words: &[&str]) {
        let mut mount = Command::new("mount");
        let status = mount.args(words).arg(&self.mount_point).status().unwrap();
        assert!(status.success(), "mount {words:?}: {status}");
    }

    fn remount(&self, option: &str) {
        // With a source, or mount would repeat options that only the disk's maker may give.
        self.mount(&["-o", &format!("remount,{option}"), "none"]);
    }
}

/// Runs one test of this program in a mount namespace.
fn run_inside(test: &str) {
    let namespaces: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];
    let mount_point = env!("CARGO_TARGET_TMPDIR");
    std::fs::create_dir_all(mount_point).unwrap();
    let can_mount = |words: &&&[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(**words);
        unshare.args(["mount", "-t", "tmpfs", "none", mount_point]);
        unshare.output().is_ok_and(|output| output.status.success())
    };
    let Some(words) = namespaces.iter().find(can_mount) else {
        println!("{test}: not possible here, nothing may be mounted");
        return;
    };
    let output = Command::new("unshare")
        .args(*words)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE_VARIABLE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    assert!(printed.contains("1 passed"), "{printed}{errors}");
}

/// A store of a few files on the disk, and what `ppc ls` says of it.
fn store_on(disk: &Disk) -> (Scene, Vec<u8>) {
    let scene = Scene::below(&disk.mount_point);
    let files: Vec<(Vec<u8>, Vec<u8>)> = (0..20)
        .map(|number| (format!("f{number}.bin").into_bytes(), noise(number, 30_000)))
        .collect();
    let elsewhere = Scene::new();
    let folder = elsewhere.folder("in", borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    let listed = succeed(args([&"ls", &scene.store()]));
    (scene, listed)
}

fn assert_as_it_was(scene: &Scene, listed: &[u8]) {
    let verified = succeed_json(args([&"verify", &scene.store()]));
    assert_eq!(verified["damages"], 0);
    assert_eq!(succeed(args([&"ls", &scene.store()])), listed);
}

/// Bytes of the files in a directory.
fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

/// What failed took no room that it did not give back; the manifest may have grown.
fn assert_as_long(store: &Path, bytes_before: u64) {
    let bytes = bytes_in(store);
    assert!(
        bytes < bytes_before + 4096,
        "{bytes} bytes, {bytes_before} before"
    );
}

/// One line that names the store, says that the disk is full, and what to do.
fn assert_says_full(line: &str, store: &Path) {
    assert!(line.contains(store.to_str().unwrap()), "{line}");
    assert!(line.to_lowercase().contains("no space left"), "{line}");
    assert!(line.contains("free some space"), "{line}");
}

#[test]
fn an_import_that_fills_the_disk_leaves_the_store_as_it_was() {
    let test = "disk::an_import_that_fills_the_disk_leaves_the_store_as_it_was";
    let Some(disk) = Disk::own(test, 6 << 10) else {
        return;
    };
    let (scene, listed) = store_on(&disk);
    let files: Vec<(Vec<u8>, Vec<u8>)> = (0..80)
        .map(|number| {
            let content = noise(1_000 + number, 150_000);
            (format!("g{number}.bin").into_bytes(), content)
        })
        .collect();
    let elsewhere = Scene::new();
    let folder = elsewhere.folder("in", borrowed(&files));
    let bytes_before = bytes_in(&scene.store());
    // Nothing piles up.
    for _ in 0..3 {
        let line = fail(1, args([&"import", &scene.store(), &folder]));
        assert_says_full(&line, &scene.store());
        assert_as_long(&scene.store(), bytes_before);
    }
    assert_as_it_was(&scene, &listed);

    // A store that could not even be begun is no obstacle later.
    let other = Scene::below(&disk.mount_point);
    let line = fail(1, args([&"import", &other.store(), &folder]));
    assert_says_full(&line, &other.store());

    disk.remount("size=64m");
    for store in [scene.store(), other.store()] {
        let report = succeed_json(args([&"import", &store, &folder]));
        assert_eq!(report["files_stored"], 80);
        assert_eq!(succeed_json(args([&"verify", &store]))["damages"], 0);
    }
}

#[test]
fn a_put_that_fills_the_disk_leaves_the_store_as_it_was() {
    let test = "disk::a_put_that_fills_the_disk_leaves_the_store_as_it_was";
    let Some(disk) = Disk::own(test, 6 << 10) else {
        return;
    };
    let (scene, listed) = store_on(&disk);
    let elsewhere = Scene::new();
    let file = elsewhere
        .folder("in", [(&b"large.bin"[..], &noise(77, 8 << 20)[..])])
        .join("large.bin");
    let bytes_before = bytes_in(&scene.store());
    for _ in 0..3 {
        let line = fail(1, args([&"put", &scene.store(), &file]));
        assert_says_full(&line, &scene.store());
        assert_as_long(&scene.store(), bytes_before);
    }
    assert_as_it_was(&scene, &listed);

    // Not a byte left: nothing can be written, and reading works.
    let filler = disk.mount_point.join("filler");
    let is_full = std::fs::write(&filler, vec![1; 8 << 20]).is_err();
    assert!(is_full);
    let small = elsewhere
        .folder("small", [(&b"small.c"[..], &b"small"[..])])
        .join("small.c");
    let line = fail(1, args([&"put", &scene.store(), &small]));
    assert_says_full(&line, &scene.store());
    // Where the store opens, a compaction tells how much room it needs before it begins.
    let line = fail(1, args([&"compact", &scene.store(), &"--rewrite"]));
    assert!(line.contains(scene.store().to_str().unwrap()), "{line}");
    assert!(line.contains("free some space"), "{line}");
    assert_as_it_was(&scene, &listed);

    std::fs::remove_file(&filler).unwrap();
    disk.remount("size=64m");
    succeed(args([&"put", &scene.store(), &small, &file]));
    let verified = succeed_json(args([&"verify", &scene.store()]));
    assert_eq!(verified["files"], 22);
    assert_eq!(verified["damages"], 0);
}

#[test]
fn a_read_only_disk_is_read_and_named_when_it_should_be_written() {
    let test = "disk::a_read_only_disk_is_read_and_named_when_it_should_be_written";
    let Some(disk) = Disk::own(test, 8 << 10) else {
        return;
    };
    let (scene, listed) = store_on(&disk);
    let elsewhere = Scene::new();
    let folder = elsewhere.folder("in", [(&b"small.c"[..], &b"small"[..])]);
    let file = folder.join("small.c");
    let swhid = succeed(args([&"ls", &scene.store(), &"--swhid", &"--limit", &"1"]));
    let swhid = String::from_utf8(swhid).unwrap();
    let before = snapshot(&scene.store());
    disk.remount("ro");
    for line in [
        fail(1, args([&"put", &scene.store(), &file])),
        fail(1, args([&"rm", &scene.store(), &swhid.trim()])),
        fail(1, args([&"import", &scene.store(), &folder])),
        fail(1, args([&"compact", &scene.store()])),
        fail(1, args([&"import", &scene.path("new"), &folder])),
    ] {
        assert!(line.contains(disk.mount_point.to_str().unwrap()), "{line}");
        assert!(line.to_lowercase().contains("read-only"), "{line}");
        assert!(line.contains("make the file system writable"), "{line}");
    }
    assert_as_it_was(&scene, &listed);
    succeed(args([&"cat", &scene.store(), &swhid.trim()]));
    assert_eq!(snapshot(&scene.store()), before);
    disk.remount("rw");
    succeed(args([&"put", &scene.store(), &file]));
}
