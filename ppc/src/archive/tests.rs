use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use ppc_engine::vfs::{FaultPlan, FaultVfs, MemVfs};
use ppc_engine::{Durability, ErrorKind, IterOptions, KeyRange};

use super::*;
use crate::hash::{ContentHash, HashKind, Hashes, Sha1Git};
use crate::key::PpcKey;
use crate::progress::{Observer, Problem, ProblemKind, Unobserved};
use crate::testing::{awkward_contents, awkward_names};

fn options(vfs: &MemVfs, indexes: HashKinds) -> ArchiveOptions {
    let mut options = ArchiveOptions {
        indexes: Some(indexes),
        ..ArchiveOptions::default()
    };
    options.db.vfs = Arc::new(vfs.clone());
    options
}

fn archive(indexes: HashKinds) -> Archive {
    Archive::open("/archive", options(&MemVfs::new(), indexes)).unwrap()
}

fn entries(archive: &Archive, keyspace: &str) -> usize {
    let keyspace = archive.db().existing_keyspace(keyspace).unwrap().unwrap();
    keyspace
        .iter(KeyRange::all(), IterOptions::keys_only())
        .unwrap()
        .count()
}

#[test]
fn a_content_under_several_names_is_stored_once_and_found_by_each() {
    let archive = archive(HashKinds::NONE);
    let first = archive.put(b"a.c", b"same", Durability::None).unwrap();
    assert!(first.is_new);
    let second = archive.put(b"b.py", b"same", Durability::None).unwrap();
    assert!(!second.is_new);
    assert_eq!(second.key, first.key);
    let other_name = PpcKey::of(&b"b.py"[..], b"same").unwrap();
    let stored = archive.get(&other_name.into()).unwrap().unwrap();
    assert_eq!((stored.key, &stored.content[..]), (first.key, &b"same"[..]));
    assert_eq!(entries(&archive, "contents"), 1);
}

#[test]
fn every_awkward_name_and_content_comes_back_by_every_hash() {
    let archive = archive(HashKinds::ALL);
    let names = awkward_names();
    for (name, content) in names.iter().cycle().zip(awkward_contents()) {
        let put = archive.put(name, &content, Durability::None).unwrap();
        assert_eq!(put.key.name(), name);
        for kind in HashKind::ALL {
            let stored = archive.get(&kind.of(&content).into()).unwrap().unwrap();
            assert_eq!(stored.content, content);
            assert_eq!(stored.key, put.key);
        }
    }
}

#[test]
fn a_delete_takes_every_index_entry_with_it() {
    let archive = archive(HashKinds::ALL);
    archive.put(b"a.c", b"goes", Durability::None).unwrap();
    archive.put(b"b.c", b"stays", Durability::None).unwrap();
    let id = Id::Hash(HashKind::Sha256.of(b"goes"));
    assert!(archive.delete(&id, Durability::None).unwrap().is_some());
    assert!(archive.delete(&id, Durability::None).unwrap().is_none());
    for keyspace in ["contents", "sha1_git", "sha1", "sha256", "blake2s256"] {
        assert_eq!(entries(&archive, keyspace), 1, "{keyspace}");
    }
    assert!(!archive.has(&id).unwrap());
    let check = archive.check_contents(2, None, &Unobserved).unwrap();
    assert_eq!((check.files, check.damages), (1, 0));
}

#[test]
fn a_batch_is_answered_in_its_own_order_with_a_status_each() {
    let archive = archive(HashKinds::NONE.with(HashKind::Sha1));
    for number in 0..20_u32 {
        let name = format!("{number}.c");
        let content = number.to_le_bytes();
        archive
            .put(name.as_bytes(), &content, Durability::None)
            .unwrap();
    }
    let git = |number: u32| Id::from(Sha1Git::of(&number.to_le_bytes()));
    let ids = [
        git(7),
        Id::Hash(HashKind::Sha1.of(&3_u32.to_le_bytes())),
        git(99),
        Id::Key(PpcKey::of(&b"other.name"[..], &5_u32.to_le_bytes()).unwrap()),
        Id::Hash(HashKind::Sha256.of(&1_u32.to_le_bytes())),
        git(7),
    ];
    let answers = archive.get_many(&ids);
    let number = |at: usize| {
        let stored = answers[at].as_ref().unwrap().as_ref().unwrap();
        u32::from_le_bytes(stored.content[..].try_into().unwrap())
    };
    assert_eq!(answers.len(), ids.len());
    assert_eq!((number(0), number(1), number(3), number(5)), (7, 3, 5, 7));
    assert!(matches!(answers[2], Ok(None)));
    let message = answers[4].as_ref().unwrap_err().to_string();
    assert!(message.contains("no index by sha256"), "{message}");
    assert!(message.contains("sha1_git or sha1"), "{message}");
}

#[test]
fn threads_that_put_one_content_under_many_names_store_it_once() {
    let archive = archive(HashKinds::NONE);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let archive = &archive;
            scope.spawn(move || {
                for number in 0..100_u32 {
                    let name = format!("{thread}-{number}.c");
                    let content = number.to_le_bytes();
                    archive
                        .put(name.as_bytes(), &content, Durability::None)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(entries(&archive, "contents"), 100);
    assert_eq!(entries(&archive, "sha1_git"), 100);
    assert_eq!(
        archive
            .check_contents(2, None, &Unobserved)
            .unwrap()
            .damages,
        0
    );
}

#[test]
fn indexes_are_chosen_at_creation_and_kept() {
    let vfs = MemVfs::new();
    let chosen = HashKinds::NONE.with(HashKind::Sha256);
    drop(Archive::open("/archive", options(&vfs, chosen)).unwrap());
    assert!(Archive::open("/archive", options(&vfs, HashKinds::NONE)).is_err());
    let mut whatever = options(&vfs, HashKinds::NONE);
    whatever.indexes = None;
    let archive = Archive::open("/archive", whatever.clone()).unwrap();
    assert_eq!(archive.indexes(), chosen.with(HashKind::Sha1Git));
    archive.put(b"a.c", b"content", Durability::Sync).unwrap();
    let reader = Archive::open_read_only("/archive", whatever).unwrap();
    assert!(reader.has(&HashKind::Sha256.of(b"content").into()).unwrap());
    assert!(reader.put(b"b.c", b"other", Durability::None).is_err());
}

/// Reading a store that was cut off between two steps of its creation called it somebody else's,
/// or damaged. Now it is an archive once everything is there, and no archive yet before.
#[test]
fn a_creation_cut_off_anywhere_is_no_archive_yet_and_can_be_begun_anew() {
    let with_sha256 = HashKinds::NONE.with(HashKind::Sha256);
    let mut cuts = 0;
    for call in 1.. {
        let vfs = MemVfs::new();
        let plan = FaultPlan::writes_from(call, std::io::ErrorKind::StorageFull);
        let mut faulty = options(&vfs, with_sha256);
        faulty.db.vfs = Arc::new(FaultVfs::new(vfs.clone(), plan));
        if Archive::open("/archive", faulty).is_ok() {
            break;
        }
        match Archive::open_read_only("/archive", options(&vfs, with_sha256)) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{call}: {error}"),
            Ok(archive) => assert!(archive.keys(&Selection::All).unwrap().next().is_none()),
        }
        let Ok(archive) = Archive::open("/archive", options(&vfs, HashKinds::NONE)) else {
            // It was complete, and has its indexes.
            Archive::open("/archive", options(&vfs, with_sha256)).unwrap();
            continue;
        };
        assert_eq!(
            archive.db().keyspace_names(),
            ["contents", "meta", "sha1_git"],
            "{call}"
        );
        cuts += 1;
    }
    assert!(cuts > 5, "{cuts}");
}

#[test]
fn a_dropped_load_leaves_nothing_and_a_finished_one_everything() {
    let archive = archive(HashKinds::ALL);
    let load = |finish: bool| {
        let mut loader = archive.loader(&LoaderOptions::default()).unwrap();
        for number in 0..50_u32 {
            let content = Bytes::copy_from_slice(&number.to_be_bytes());
            let hashes = Hashes::of(HashKinds::ALL, &content);
            let key = PpcKey::new(format!("{}.c", number % 7), hashes.sha1_git.unwrap()).unwrap();
            loader.put(&key, &hashes, content).unwrap();
        }
        if finish {
            assert_eq!(loader.finish(&Unobserved).unwrap().files, 50);
        }
    };
    load(false);
    assert_eq!(entries(&archive, "contents"), 0);
    load(true);
    let check = archive.check_contents(2, None, &Unobserved).unwrap();
    assert_eq!(
        (check.files, check.index_entries, check.damages),
        (50, 200, 0)
    );
    let names: BTreeSet<Bytes> = archive
        .keys(&Selection::Ext(b"c".to_vec()))
        .unwrap()
        .map(|key| key.unwrap().name().clone())
        .collect();
    assert_eq!(names.len(), 7);
}

/// Remembers what it is told.
#[derive(Default)]
struct Listener {
    problems: Mutex<Vec<Problem>>,
}

impl Observer for Listener {
    fn problem(&self, problem: &Problem) {
        self.problems.lock().push(problem.clone());
    }
}

#[test]
fn a_check_finds_what_contents_and_indexes_disagree_about() {
    let archive = archive(HashKinds::NONE.with(HashKind::Sha1));
    for number in 0..5_u32 {
        let name = format!("{number}.c");
        archive
            .put(name.as_bytes(), &[number as u8], Durability::None)
            .unwrap();
    }
    let keyspace = |name: &str| archive.db().existing_keyspace(name).unwrap().unwrap();
    let (contents, git, sha1) = (keyspace("contents"), keyspace("sha1_git"), keyspace("sha1"));
    let durability = Durability::None;
    // A content that is not what its key says.
    let lie = PpcKey::new("0.c", Sha1Git::of(&[0])).unwrap().encode();
    contents.put(&lie, b"not zero", durability).unwrap();
    // An index entry that is missing, one that leads elsewhere, one that leads nowhere.
    git.delete(Sha1Git::of(&[1]).as_bytes(), durability)
        .unwrap();
    let elsewhere = PpcKey::of(&b"elsewhere.c"[..], &[2]).unwrap().encode();
    sha1.put(HashKind::Sha1.of(&[2]).as_bytes(), &elsewhere, durability)
        .unwrap();
    for number in 90..93_u8 {
        let nowhere = PpcKey::of(&b"nowhere.c"[..], &[number]).unwrap().encode();
        sha1.put(
            HashKind::Sha1.of(&[number]).as_bytes(),
            &nowhere,
            durability,
        )
        .unwrap();
    }

    let listener = Listener::default();
    let check = archive.check_contents(2, None, &listener).unwrap();
    let problems = listener.problems.into_inner();
    assert_eq!(check.damages as usize, problems.len());
    assert!(
        problems
            .iter()
            .all(|problem| problem.kind == ProblemKind::Damage)
    );
    let told = |text: &str| {
        problems
            .iter()
            .filter(|it| it.message.contains(text))
            .count()
    };
    assert_eq!(told("the content's hash is"), 1);
    assert_eq!(told("index sha1_git lacks it"), 1);
    assert_eq!(told("index sha1 leads to"), 1);
    // The entry for content 2 leads nowhere as well, since its key was changed.
    assert_eq!(told("which is not there"), 4);
}

#[test]
fn ids_are_read_in_every_form() {
    let hash = Sha1Git::of(b"hello");
    let key = PpcKey::new("hello.c", hash).unwrap();
    for text in [
        hash.to_string(),
        hash.to_string().to_uppercase(),
        format!("  {hash}\n"),
        format!("sha1_git:{hash}"),
        format!("swh:1:cnt:{hash}"),
        format!("swh:1:cnt:{hash};origin=https://example.org/;lines=3"),
    ] {
        let id: Id = text.parse().unwrap();
        assert_eq!(id, Id::Hash(ContentHash::Sha1Git(hash)), "{text}");
    }
    assert_eq!(key.to_string().parse::<Id>().unwrap(), Id::Key(key.clone()));
    assert_eq!(Id::from(key.clone()).to_string(), key.to_string());
    for text in ["", "hello.c", "swh:1:dir:0", "sha256:0", &"0".repeat(39)] {
        assert!(text.parse::<Id>().is_err(), "{text}");
    }
}
