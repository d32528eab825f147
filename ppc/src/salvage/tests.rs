//! Whatever byte of a store is damaged: verify finds it or it is harmless, salvage loses only what it
//! says, and the lists of both are right.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use ppc_engine::vfs::{MemVfs, Vfs};
use ppc_engine::{Durability, ReadMode, TableOptions};

use super::*;
use crate::archive::{LoaderOptions, check_files_in};
use crate::hash::{Hashes, Sha1Git};
use crate::progress::Unobserved;

const STORE: &str = "/store";
const RESCUED: &str = "/rescued";
/// Damaged bytes of each file.
const DAMAGES_PER_FILE: usize = 16;

type Files = BTreeMap<PathBuf, Vec<u8>>;
type Contents = BTreeMap<PpcKey, Vec<u8>>;

fn db_options(vfs: &MemVfs) -> DbOptions {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(vfs.clone());
    options.compression_threads = 1;
    options
}

fn archive_options(vfs: &MemVfs) -> ArchiveOptions {
    let mut table = TableOptions::blocks(3, 2048);
    table.key_block_bytes = 512;
    ArchiveOptions {
        contents: Some(table),
        db: db_options(vfs),
        ..ArchiveOptions::default()
    }
}

/// Lines that do not compress away, as many bytes as the number asks for.
fn content(number: usize) -> Vec<u8> {
    let mut content = format!("{number}\n").into_bytes();
    while content.len() < number * 37 % 1500 {
        let line = Sha1Git::of(&content);
        content.extend_from_slice(format!("{line}\n").as_bytes());
    }
    content
}

/// A store with a bulk load, flushed puts and puts in its log, and what it holds.
fn store() -> (Files, Contents) {
    let vfs = MemVfs::new();
    let archive = Archive::open(STORE, archive_options(&vfs)).unwrap();
    let mut contents = Contents::new();
    let mut loader = archive.loader(&LoaderOptions::default()).unwrap();
    for number in 0..60 {
        let content = content(number);
        let key = PpcKey::of(format!("f{}.c", number % 7).into_bytes(), &content).unwrap();
        let hashes = Hashes::of(archive.indexes(), &content);
        let bytes = Bytes::from(content.clone());
        loader.put(&key, &hashes, bytes).unwrap();
        contents.insert(key, content);
    }
    loader.finish(&Unobserved).unwrap();
    for number in 60..70 {
        let content = content(number);
        let put = archive.put(b"put.py", &content, Durability::Sync).unwrap();
        contents.insert(put.key, content);
        if number == 65 {
            archive.db().flush().unwrap();
        }
    }
    archive.close().unwrap();
    drop(archive);
    let files = vfs
        .files()
        .into_iter()
        .map(|path| {
            let file = vfs.open(&path, ReadMode::Pread).unwrap();
            let mut bytes = vec![0; file.len() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            (path, bytes)
        })
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    (files, contents)
}

fn write(files: &Files) -> MemVfs {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new(STORE)).unwrap();
    for (path, bytes) in files {
        let mut file = vfs.create(path).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
    }
    vfs
}

/// Remembers which contents it was told of.
#[derive(Default)]
struct Listener {
    lost: Mutex<Vec<PpcKey>>,
}

impl Observer for Listener {
    fn problem(&self, problem: &Problem) {
        if problem.kind == ProblemKind::Lost {
            self.lost.lock().extend(problem.key.clone());
        }
    }
}

fn check(files: &Files, contents: &Contents, what: &str) {
    let vfs = write(files);
    let is_noticed = check_verify(&vfs, contents, what);
    let listener = Listener::default();
    let options = db_options(&vfs);
    let (store, rescued) = (Path::new(STORE), Path::new(RESCUED));
    let salvaged = salvage_with(&options, store, rescued, &listener)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(listener.lost.into_inner(), salvaged.lost, "{what}");
    let archive = Archive::open(RESCUED, archive_options(&vfs)).unwrap();
    let sound = archive.check_contents(1, None, &Unobserved).unwrap();
    assert_eq!((sound.damages, sound.unreadable), (0, 0), "{what}");
    let mut kept = 0;
    for (key, content) in contents {
        let is_told = salvaged.lost.contains(key);
        match archive.get(&key.clone().into()).unwrap() {
            Some(stored) => {
                assert_eq!(stored.content, content, "{what}: {key}");
                assert!(!is_told, "{what}: {key} is there");
                kept += 1;
            }
            None => assert!(is_told || !salvaged.is_list_complete, "{what}: {key}"),
        }
    }
    assert_eq!(sound.files, kept, "{what}");
    let is_whole = kept as usize == contents.len();
    assert!(is_whole || salvaged.has_losses(), "{what}");
    assert!(is_whole || is_noticed, "{what}: verify found nothing");
}

/// Says whether something was found.
fn check_verify(vfs: &MemVfs, contents: &Contents, what: &str) -> bool {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let report = check_files_in(&shared, Path::new(STORE), 1, &Unobserved)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut options = archive_options(vfs);
    options.contents = None;
    let archive = match Archive::open_read_only(STORE, options) {
        Ok(archive) => archive,
        Err(_) => {
            assert!(!report.is_sound(), "{what}: does not open");
            return true;
        }
    };
    let listener = Listener::default();
    let found = archive
        .check_contents(1, Some(&report), &listener)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let told = listener.lost.into_inner();
    assert_eq!(told.len() as u64, found.unreadable, "{what}");
    let mut readable = 0;
    for (key, content) in contents {
        let is_told = told.contains(key);
        match archive.get(&key.clone().into()) {
            Ok(Some(stored)) => {
                assert_eq!(stored.content, content, "{what}: {key}");
                readable += 1;
            }
            // Where its index entry is damaged as well, nothing knows its name.
            Ok(None) | Err(_) => assert!(is_told || found.unindexed > 0, "{what}: {key}"),
        }
        if is_told {
            let by_key = archive.get(&key.clone().into());
            assert!(by_key.is_err(), "{what}: {key} can be read");
        }
    }
    let is_sound = report.is_sound() && found.damages == 0;
    assert!(
        !is_sound || readable == contents.len(),
        "{what}: verify found nothing"
    );
    !is_sound
}

#[test]
fn a_store_that_is_sound_is_found_so_and_salvaged_whole() {
    let (files, contents) = store();
    let vfs = write(&files);
    assert!(!check_verify(&vfs, &contents, "sound"));
    let options = db_options(&vfs);
    let (store, rescued) = (Path::new(STORE), Path::new(RESCUED));
    let salvaged = salvage_with(&options, store, rescued, &Unobserved).unwrap();
    assert!(!salvaged.has_losses());
    assert_eq!(salvaged.repair.files as usize, contents.len());
    assert_eq!(salvaged.found_again, 0);
}

#[test]
fn every_damaged_byte_costs_no_more_than_is_told() {
    let (files, contents) = store();
    let mut cases = 0;
    for (path, bytes) in &files {
        let stride = bytes.len().div_ceil(DAMAGES_PER_FILE);
        // Odd, so that fields at even places are all met in some file.
        for at in (0..bytes.len()).step_by(stride | 1) {
            let mut damaged = files.clone();
            damaged.get_mut(path).unwrap()[at] ^= 0x24;
            check(
                &damaged,
                &contents,
                &format!("byte {at} of {}", path.display()),
            );
            cases += 1;
        }
    }
    assert!(cases > 80, "{cases}");
}

#[test]
fn a_table_that_is_cut_or_gone_costs_no_more_than_is_told() {
    let (files, contents) = store();
    for (path, bytes) in &files {
        if path.extension().is_none_or(|ext| ext != "table") {
            continue;
        }
        let mut gone = files.clone();
        gone.remove(path);
        check(&gone, &contents, &format!("without {}", path.display()));
        for part in 0..8 {
            let len = bytes.len() * part / 8;
            let mut cut = files.clone();
            cut.get_mut(path).unwrap().truncate(len);
            check(&cut, &contents, &format!("{} cut to {len}", path.display()));
        }
    }
}

/// Two damages at once: a block of keys of contents, and one of the index that knows them.
#[test]
fn damage_on_both_sides_is_told_as_such() {
    let (files, contents) = store();
    let tables: Vec<&PathBuf> = files
        .keys()
        .filter(|path| path.extension().is_some_and(|ext| ext == "table"))
        .collect();
    let mut pairs = 0;
    for (at, first) in tables.iter().enumerate() {
        for second in &tables[at + 1..] {
            let mut damaged = files.clone();
            for path in [*first, *second] {
                let bytes = damaged.get_mut(path).unwrap();
                let at = bytes.len() * 2 / 3;
                bytes[at] ^= 1;
            }
            let what = format!("{} and {}", first.display(), second.display());
            check(&damaged, &contents, &what);
            pairs += 1;
        }
    }
    assert!(pairs > 2);
}
