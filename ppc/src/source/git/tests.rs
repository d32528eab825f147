use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use gix::objs::{Kind, Write};

use super::super::testing::{Collected, collect};
use super::*;

/// A bare repository, filled with raw objects.
struct Repo {
    _dir: tempfile::TempDir,
    path: PathBuf,
    repository: gix::Repository,
}

impl Repo {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("repo.git");
        let repository = gix::init_bare(&path).unwrap();
        Self {
            _dir: dir,
            path,
            repository,
        }
    }

    fn write(&self, kind: Kind, data: &[u8]) -> ObjectId {
        self.repository.objects.write_buf(kind, data).unwrap()
    }

    fn blob(&self, content: &[u8]) -> ObjectId {
        self.write(Kind::Blob, content)
    }

    fn tree(&self, entries: &[(&str, &[u8], ObjectId)]) -> ObjectId {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(_, name, _)| name.to_vec());
        let mut data = Vec::new();
        for (mode, name, id) in entries {
            data.extend([mode.as_bytes(), b" ", name, b"\0", id.as_slice()].concat());
        }
        self.write(Kind::Tree, &data)
    }

    fn commit(&self, tree: ObjectId, parents: &[ObjectId]) -> ObjectId {
        let mut text = format!("tree {tree}\n");
        for parent in parents {
            text += &format!("parent {parent}\n");
        }
        text += "author a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\nmessage\n";
        self.write(Kind::Commit, text.as_bytes())
    }

    fn set_ref(&self, name: &str, id: ObjectId) {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{id}\n")).unwrap();
    }

    fn read(&self, options: &SourceOptions) -> Collected {
        collect(&mut GitSource::open(&self.path, options).unwrap())
    }
}

/// Names and contents, and a check that each stated hash is that of its content.
fn files(collected: &Collected) -> Vec<(&[u8], &[u8])> {
    let files = collected.files.iter();
    files
        .map(|file| {
            let hash = ContentHash::Sha1Git(Sha1Git::of(&file.content));
            assert_eq!(file.stated, [StatedHash::Known(hash)]);
            (&file.name[..], &file.content[..])
        })
        .collect()
}

#[test]
fn every_version_on_every_ref_comes_once_in_key_order() {
    let repo = Repo::new();
    let (old, new) = (repo.blob(b"old"), repo.blob(b"new"));
    let side = repo.blob(b"side");
    let first = repo.commit(repo.tree(&[("100644", b"a.c", old)]), &[]);
    let sub = repo.tree(&[("100755", b"z.h", old), ("100644", b"Makefile", side)]);
    let tree = repo.tree(&[("100644", b"a.c", new), ("40000", b"sub", sub)]);
    let second = repo.commit(tree, &[first]);
    repo.set_ref("refs/heads/main", second);
    let tagged = repo.blob(b"tagged blob");
    let tag = format!("object {tagged}\ntype blob\ntag t\ntagger a <a@b> 0 +0000\n\nm\n");
    repo.set_ref("refs/tags/t", repo.write(Kind::Tag, tag.as_bytes()));
    let other = repo.tree(&[("100644", b"only-here.rs", repo.blob(b"branch"))]);
    repo.set_ref("refs/remotes/origin/x", repo.commit(other, &[first]));
    repo.blob(b"unreachable");

    let collected = repo.read(&SourceOptions::default());
    assert!(collected.problems.is_empty(), "{:?}", collected.problems);
    let expected: [(&[u8], &[u8]); 5] = [
        (b"", b"tagged blob"),
        (b"Makefile", b"side"),
        (b"a.c", b"new"),
        (b"a.c", b"old"),
        (b"only-here.rs", b"branch"),
    ];
    let mut found = files(&collected);
    let keys =
        |(name, content): &(&[u8], &[u8])| crate::PpcKey::of(name.to_vec(), content).unwrap();
    assert!(found.is_sorted_by_key(keys));
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn a_blob_goes_by_the_name_that_most_trees_give_it() {
    let repo = Repo::new();
    let licence = repo.blob(b"licence");
    let mut parent: Option<ObjectId> = None;
    for (index, name) in ["COPYING", "LICENSE", "LICENSE", "LICENSE", "LICENCE"]
        .iter()
        .enumerate()
    {
        let change = repo.blob(format!("version {index}").as_bytes());
        let tree = repo.tree(&[
            ("100644", name.as_bytes(), licence),
            ("100644", b"main.c", change),
        ]);
        parent = Some(repo.commit(tree, parent.as_slice()));
    }
    repo.set_ref("refs/heads/main", parent.unwrap());
    let collected = repo.read(&SourceOptions::default());
    assert!(files(&collected).contains(&(b"LICENSE", b"licence")));
    assert_eq!(collected.files.len(), 6);
}

#[test]
fn unreachable_blobs_come_only_on_request_and_are_named_by_unreachable_trees() {
    let repo = Repo::new();
    let reached = repo.tree(&[("100644", b"a.c", repo.blob(b"reached"))]);
    repo.set_ref("refs/heads/main", repo.commit(reached, &[]));
    repo.tree(&[("100644", b"lost.c", repo.blob(b"in a lost tree"))]);
    repo.blob(b"in no tree");
    assert_eq!(
        files(&repo.read(&SourceOptions::default())),
        [(&b"a.c"[..], &b"reached"[..])]
    );
    let options = SourceOptions {
        git_all_objects: true,
        ..SourceOptions::default()
    };
    assert_eq!(
        files(&repo.read(&options)),
        [
            (&b""[..], &b"in no tree"[..]),
            (b"a.c", b"reached"),
            (b"lost.c", b"in a lost tree"),
        ]
    );
}

#[test]
fn links_submodules_and_missing_objects_are_told_apart() {
    let repo = Repo::new();
    let target = repo.blob(b"../elsewhere");
    let missing = ObjectId::from_hex(&[b'1'; 40]).unwrap();
    let tree = repo.tree(&[
        ("120000", b"link", target),
        ("160000", b"submodule", missing),
        ("100644", b"gone.c", missing),
        ("100644", b"here.c", repo.blob(b"here")),
    ]);
    let absent_parent = ObjectId::from_hex(&[b'2'; 40]).unwrap();
    repo.set_ref("refs/heads/main", repo.commit(tree, &[absent_parent]));
    let collected = repo.read(&SourceOptions::default());
    assert_eq!(files(&collected), [(&b"here.c"[..], &b"here"[..])]);
    let problems: Vec<_> = collected.problems.iter().map(ToString::to_string).collect();
    assert_eq!(collected.problems.len(), 3, "{problems:?}");
    assert!(problems[0].contains(&"2".repeat(40)) && problems[0].contains("partial clone"));
    assert_eq!(collected.problems[1].kind, ProblemKind::NotAFile);
    assert!(problems[2].contains(&"1".repeat(40)), "{problems:?}");
}

#[test]
fn malformed_objects_are_reported_and_the_rest_still_comes() {
    let repo = Repo::new();
    let broken = repo.write(Kind::Tree, b"100644 a.c\0short");
    let tree = repo.tree(&[
        ("40000", b"broken", broken),
        ("100644", b"fine.c", repo.blob(b"fine")),
    ]);
    let commit = repo.commit(tree, &[]);
    repo.set_ref("refs/heads/main", commit);
    repo.set_ref("refs/heads/bad", repo.write(Kind::Commit, b"nonsense"));
    let collected = repo.read(&SourceOptions::default());
    assert_eq!(files(&collected), [(&b"fine.c"[..], &b"fine"[..])]);
    assert_eq!(collected.problem_kinds(), [ProblemKind::Unreadable; 2]);
}

#[test]
fn awkward_names_and_contents_come_through_as_they_are() {
    let repo = Repo::new();
    let names = crate::testing::awkward_names();
    let mut expected = BTreeMap::new();
    let mut entries = Vec::new();
    for (index, name) in names.iter().enumerate() {
        // Each content once, so that each name is some blob's only one.
        let contents = crate::testing::awkward_contents();
        let content = match contents.get(index) {
            Some(content) => content.clone(),
            None => format!("content {index}").into_bytes(),
        };
        if name.is_empty() {
            continue;
        }
        entries.push(("100644", name.as_slice(), repo.blob(&content)));
        expected.insert(name.as_slice(), content);
    }
    repo.set_ref("refs/heads/main", repo.commit(repo.tree(&entries), &[]));
    let collected = repo.read(&SourceOptions::default());
    assert!(collected.problems.is_empty(), "{:?}", collected.problems);
    assert_eq!(collected.files.len(), expected.len());
    for (name, content) in files(&collected) {
        assert!(expected[name] == content, "{name:?}");
    }
}

#[test]
fn packed_objects_and_worktrees_are_read_like_loose_ones() {
    let git = |directory: &Path, arguments: &[&str]| {
        let outcome = Command::new("git")
            .arg("-C")
            .arg(directory)
            .args(arguments)
            .output();
        outcome.is_ok_and(|output| output.status.success())
    };
    let repo = Repo::new();
    let mut parent: Option<ObjectId> = None;
    for version in 0..20 {
        let lines: String = (0..300)
            .map(|line| format!("{line} {}\n", line * version))
            .collect();
        let tree = repo.tree(&[("100644", b"grows.txt", repo.blob(lines.as_bytes()))]);
        parent = Some(repo.commit(tree, parent.as_slice()));
    }
    repo.set_ref("refs/heads/main", parent.unwrap());
    let loose = repo.read(&SourceOptions::default());
    assert_eq!(loose.files.len(), 20);

    // Nothing but Rust and a C compiler is promised to be there; without git, this much is tested.
    if !git(&repo.path, &["gc", "--quiet"]) {
        return;
    }
    let objects = repo.path.join("objects");
    assert!(std::fs::read_dir(objects.join("pack")).unwrap().count() >= 2);
    assert_eq!(files(&repo.read(&SourceOptions::default())), files(&loose));

    let clone = repo.path.with_file_name("clone");
    let (from, to) = (repo.path.to_str().unwrap(), clone.to_str().unwrap());
    assert!(git(
        &repo.path,
        &["clone", "--quiet", "--branch", "main", from, to]
    ));
    let mut cloned = GitSource::open(&clone, &SourceOptions::default()).unwrap();
    assert_eq!(files(&collect(&mut cloned)), files(&loose));

    let shallow = repo.path.with_file_name("shallow");
    let (from, to) = (format!("file://{from}"), shallow.to_str().unwrap());
    let depth = [
        "clone", "--quiet", "--depth", "3", "--branch", "main", &from, to,
    ];
    assert!(git(&repo.path, &depth));
    let collected = collect(&mut GitSource::open(&shallow, &SourceOptions::default()).unwrap());
    assert_eq!(collected.files.len(), 3);
    assert!(collected.problems.is_empty(), "{:?}", collected.problems);
}

#[test]
fn a_blob_above_the_limit_is_reported_and_no_repository_is_a_clear_error() {
    let repo = Repo::new();
    let tree = repo.tree(&[("100644", b"a.c", repo.blob(b"0123456789"))]);
    repo.set_ref("refs/heads/main", repo.commit(tree, &[]));
    let options = SourceOptions {
        file_bytes_max: 9,
        ..SourceOptions::default()
    };
    assert_eq!(repo.read(&options).problem_kinds(), [ProblemKind::TooLarge]);

    let empty = tempfile::tempdir().unwrap();
    let error = GitSource::open(empty.path(), &options)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(!error.to_string().contains('\n'), "{error}");
}
