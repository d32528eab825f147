use std::path::Path;

use super::*;

const DIR: &str = "/store";

fn disk() -> MemVfs {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    vfs
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn read(vfs: &MemVfs, name: &str) -> Option<Vec<u8>> {
    let file = vfs.open(&path(name), ReadMode::Mmap).ok()?;
    file.mapping().map(<[u8]>::to_vec)
}

fn cut(vfs: &MemVfs, seed: u64, keep_percent: u8) -> MemVfs {
    vfs.power_cut(PowerCut { seed, keep_percent })
}

#[test]
fn what_was_synced_survives_every_power_cut() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.append(&[7; 10_000]).unwrap();
    for seed in 0..200 {
        let bytes = read(&cut(&vfs, seed, 50), "a").unwrap();
        assert!(bytes.starts_with(b"synced"));
        assert!(bytes.iter().skip(6).all(|&byte| byte == 0 || byte == 7));
    }
    assert_eq!(read(&cut(&vfs, 1, 0), "a").unwrap(), b"synced");
    assert_eq!(read(&cut(&vfs, 1, 100), "a").unwrap().len(), 10_006);
    assert_eq!(read(&vfs, "a").unwrap().len(), 10_006);
}

#[test]
fn a_synced_file_without_a_synced_directory_may_vanish() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    file.append(b"x").unwrap();
    file.sync().unwrap();
    assert_eq!(read(&cut(&vfs, 1, 0), "a"), None);
    let survived = (0..100).filter(|&seed| read(&cut(&vfs, seed, 50), "a").is_some());
    assert!((20..80).contains(&survived.count()));
}

#[test]
fn an_unsynced_rename_leaves_the_old_the_new_or_both() {
    let vfs = disk();
    for (name, bytes) in [("old", b"1"), ("new", b"2")] {
        let mut file = vfs.create(&path(name)).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
    }
    vfs.sync_dir(Path::new(DIR)).unwrap();
    vfs.rename(&path("new"), &path("old")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let after = cut(&vfs, seed, 50);
        seen.insert((read(&after, "old"), read(&after, "new")));
    }
    let old_kept = (Some(b"1".to_vec()), Some(b"2".to_vec()));
    let renamed = (Some(b"2".to_vec()), None);
    let both = (Some(b"2".to_vec()), Some(b"2".to_vec()));
    assert_eq!(seen, [old_kept, renamed, both].into());
}

#[test]
fn gaps_read_as_zeros() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.append(&[9; 5 * 4096]).unwrap();
    let gap = |bytes: &[u8]| bytes.first() == Some(&0) && bytes.last() == Some(&9);
    let mut cuts = (0..100).map(|seed| read(&cut(&vfs, seed, 50), "a").unwrap());
    assert!(cuts.any(|bytes| gap(&bytes)));
}

#[test]
fn what_a_failed_sync_gave_up_is_seen_until_power_fails() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    file.append(&[7; 5000]).unwrap();
    vfs.fail_sync(&path("a")).unwrap();
    file.sync().unwrap();
    vfs.sync_file(&path("a")).unwrap();
    for seed in 0..50 {
        let bytes = read(&cut(&vfs.kill(), seed, 50), "a").unwrap();
        assert!(bytes.starts_with(b"synced"));
        assert!(bytes.iter().skip(6).all(|&byte| byte == 0 || byte == 7));
    }
    assert_eq!(read(&vfs.kill(), "a").unwrap().len(), 5006);
    assert_eq!(read(&cut(&vfs, 1, 0), "a").unwrap(), b"synced");
    // What comes later can be saved, behind the gap.
    file.append(b"later").unwrap();
    file.sync().unwrap();
    let after = read(&cut(&vfs, 1, 0), "a").unwrap();
    assert_eq!(after, [b"synced", &[0; 5000][..], b"later"].concat());
}

#[test]
fn the_next_process_has_a_tree_of_its_own() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    file.append(b"x").unwrap();
    vfs.hard_link(&path("a"), &path("b")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    let _lock = vfs.lock(&path("LOCK"), LockKind::Exclusive).unwrap();
    let next = vfs.kill();
    file.append(b"y").unwrap();
    vfs.remove(&path("b")).unwrap();
    assert_eq!(read(&next, "a").unwrap(), b"x");
    assert!(
        next.lock(&path("LOCK"), LockKind::Exclusive)
            .unwrap()
            .is_some()
    );
    // Nothing became durable by it, and two names still name one file.
    assert_eq!(read(&cut(&next, 1, 0), "b").unwrap(), b"");
    next.sync_file(&path("b")).unwrap();
    assert_eq!(read(&cut(&next, 1, 0), "a").unwrap(), b"x");
}

#[test]
fn a_power_cut_is_repeatable_and_keeps_links_together() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    file.append(&[3; 50_000]).unwrap();
    vfs.hard_link(&path("a"), &path("b")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    for seed in 0..20 {
        let (first, second) = (cut(&vfs, seed, 50), cut(&vfs, seed, 50));
        assert_eq!(read(&first, "a"), read(&second, "a"));
        assert_eq!(read(&first, "a"), read(&first, "b"));
    }
}

#[test]
fn a_removed_file_stays_with_its_readers() {
    let vfs = disk();
    vfs.create(&path("a")).unwrap().append(b"x").unwrap();
    let reader = vfs.open(&path("a"), ReadMode::Pread).unwrap();
    vfs.remove(&path("a")).unwrap();
    let mut byte = [0];
    reader.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"x");
    assert!(reader.read_exact_at(&mut byte, 1).is_err());
    assert!(!vfs.exists(&path("a")).unwrap());
}

#[test]
fn locks_exclude_and_end_with_their_holder() {
    let vfs = disk();
    let lock = |kind| vfs.lock(&path("LOCK"), kind).unwrap();
    let shared = lock(LockKind::Shared);
    let also_shared = lock(LockKind::Shared);
    assert!(shared.is_some() && also_shared.is_some());
    assert!(lock(LockKind::Exclusive).is_none());
    drop((shared, also_shared));
    let exclusive = lock(LockKind::Exclusive);
    assert!(exclusive.is_some());
    assert!(lock(LockKind::Shared).is_none());
    let after = cut(&vfs, 0, 100);
    assert!(
        after
            .lock(&path("LOCK"), LockKind::Exclusive)
            .unwrap()
            .is_some()
    );
}

#[test]
fn paths_have_one_spelling_and_directories_are_listed() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("./a/b")).unwrap();
    vfs.create(Path::new("a/./x")).unwrap();
    let mut entries = vfs.read_dir(Path::new("a/")).unwrap();
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    let names: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.is_dir))
        .collect();
    assert_eq!(names, [("b", true), ("x", false)]);
    assert!(vfs.create(Path::new("nowhere/x")).is_err());
    assert!(vfs.create(Path::new("a/x")).is_err());
    assert!(vfs.create_dir_all(Path::new("a/x/y")).is_err());
}

#[test]
fn a_renamed_directory_takes_its_files_along() {
    let vfs = disk();
    vfs.create_dir_all(&path("deep/deeper")).unwrap();
    let mut file = vfs.create(&path("deep/deeper/a")).unwrap();
    file.append(b"x").unwrap();
    vfs.rename(&path("deep"), &path("moved")).unwrap();
    assert_eq!(read(&vfs, "moved/deeper/a").unwrap(), b"x");
    assert!(!vfs.exists(&path("deep")).unwrap());
    // It does not replace another, and does not go while something is in it.
    vfs.create_dir_all(&path("other")).unwrap();
    assert!(vfs.rename(&path("moved"), &path("other")).is_err());
    assert!(vfs.remove_dir(&path("moved")).is_err());
    assert!(vfs.remove_dir(&path("moved/deeper")).is_err());
    vfs.remove_dir(&path("other")).unwrap();
    assert!(!vfs.exists(&path("other")).unwrap());
}

#[test]
fn a_truncation_is_certain_once_it_is_synced() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.append(b"kept, gone").unwrap();
    file.sync().unwrap();
    file.truncate(4).unwrap();
    assert_eq!(read(&vfs, "a").unwrap(), b"kept");
    assert_eq!(read(&cut(&vfs, 1, 0), "a").unwrap(), b"kept, gone");
    assert_eq!(read(&cut(&vfs, 1, 100), "a").unwrap(), b"kept");
    file.sync().unwrap();
    assert_eq!(read(&cut(&vfs, 1, 0), "a").unwrap(), b"kept");
    assert!(file.truncate(5).is_err());
}

#[test]
fn after_a_failed_sync_no_truncation_is_certain() {
    let vfs = disk();
    let mut file = vfs.create(&path("a")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.append(b"kept").unwrap();
    file.sync().unwrap();
    file.append(b", gone").unwrap();
    vfs.fail_sync(&path("a")).unwrap();
    file.truncate(4).unwrap();
    file.sync().unwrap();
    let after = (0..100).map(|seed| read(&cut(&vfs, seed, 50), "a").unwrap());
    let after: std::collections::BTreeSet<_> = after.collect();
    assert!(after.contains(&b"kept"[..]) && after.contains(&b"kept, gone"[..]));
}

#[test]
fn a_disk_of_a_size_takes_what_fits() {
    let vfs = disk();
    vfs.set_capacity(Some(10));
    let mut file = vfs.create(&path("a")).unwrap();
    file.append(b"1234567").unwrap();
    // Another name takes no room.
    vfs.hard_link(&path("a"), &path("b")).unwrap();
    assert_eq!(vfs.free_bytes(Path::new(DIR)).unwrap(), Some(3));
    let full = io::ErrorKind::StorageFull;
    assert_eq!(file.append(b"89abcdef").unwrap_err().kind(), full);
    assert_eq!(read(&vfs, "a").unwrap(), b"123456789a");
    assert_eq!(vfs.create(&path("c")).unwrap_err().kind(), full);
    let next = vfs.kill();
    assert_eq!(next.create(&path("c")).unwrap_err().kind(), full);
    file.truncate(7).unwrap();
    vfs.create(&path("c")).unwrap().append(b"123").unwrap();
    vfs.remove(&path("c")).unwrap();
    assert_eq!(vfs.used_bytes(), 7);
    vfs.set_capacity(None);
    vfs.create(&path("d")).unwrap().append(&[0; 100]).unwrap();
}
