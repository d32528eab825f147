//! A store that was closed, and whose write-ahead log lost its end, or a whole file.
//!
//! It used to pass for one that ended there: acknowledged writes were gone, and the store opened and
//! was called sound. Now closing names the logs that hold them in `CURRENT`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ppc_engine::vfs::{MemVfs, PowerCut, Vfs};
use ppc_engine::{Db, Durability, ErrorKind, KeyRange, ReadMode, VerifyOptions, verify_store_in};

use crate::common::{DIR, Pairs, open, options, pairs};

fn read(vfs: &MemVfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, ReadMode::Pread).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn logs(vfs: &MemVfs) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wal");
    vfs.files().into_iter().filter(is_log).collect()
}

/// The logs that `CURRENT` names, and their lengths.
fn named(vfs: &MemVfs) -> Vec<(PathBuf, usize)> {
    let line = String::from_utf8(read(vfs, &Path::new(DIR).join("CURRENT"))).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(2).collect();
    let logs = words.chunks_exact(2);
    logs.map(|log| (Path::new(DIR).join(log[0]), log[1].parse().unwrap()))
        .collect()
}

/// Two sessions, each of which leaves a log with a synced write.
fn store() -> (MemVfs, Pairs) {
    let vfs = MemVfs::new();
    let mut found = Pairs::default();
    for session in ["first", "second"] {
        let (db, keyspace) = open(options(&vfs));
        keyspace.put(session, "1", Durability::Sync).unwrap();
        found = pairs(&keyspace, KeyRange::all());
        db.close().unwrap();
    }
    assert_eq!(named(&vfs).len(), 2);
    (vfs, found)
}

fn assert_refused(vfs: &MemVfs, what: &str) {
    let before = (logs(vfs), named(vfs));
    for outcome in [
        Db::open(DIR, options(vfs)).map(drop),
        Db::open_read_only(DIR, options(vfs)).map(drop),
    ] {
        let Err(error) = outcome else {
            panic!("opened although {what}");
        };
        assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
        assert!(error.to_string().contains(".wal"), "{what}: {error}");
    }
    assert_eq!((logs(vfs), named(vfs)), before, "{what}");
    let disk: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = VerifyOptions::default();
    let report = verify_store_in(&disk, Path::new(DIR), &options, &mut |_| {}).unwrap();
    assert!(!report.problems.is_empty(), "{what}");
}

#[test]
fn a_log_that_was_closed_and_is_gone_or_cut_short_is_missed() {
    let (whole, _) = store();
    for (path, len) in named(&whole) {
        let bytes = read(&whole, &path);
        let vfs = whole.kill();
        vfs.remove(&path).unwrap();
        assert_refused(&vfs, &format!("{} is gone", path.display()));
        for cut in 0..len {
            let vfs = whole.kill();
            vfs.remove(&path).unwrap();
            vfs.create(&path).unwrap().append(&bytes[..cut]).unwrap();
            assert_refused(&vfs, &format!("{} cut at {cut}", path.display()));
            // A cut that some file systems fill with zeros.
            let zeros = vec![0; bytes.len() - cut];
            vfs.remove(&path).unwrap();
            let mut file = vfs.create(&path).unwrap();
            file.append(&[&bytes[..cut], &zeros].concat()).unwrap();
            if bytes[cut..len].iter().any(|byte| *byte != 0) {
                assert_refused(&vfs, &format!("{} zeros from {cut}", path.display()));
            }
        }
    }
}

/// What is named must stay true whatever comes after, or a sound store would be refused.
#[test]
fn logs_may_go_once_tables_hold_what_they_held() {
    let (closed, found) = store();
    for step in ["open", "write", "flush", "compact"] {
        for closes in [true, false] {
            let vfs = closed.kill();
            let (db, keyspace) = open(options(&vfs));
            match step {
                "write" => keyspace.put("first", "1", Durability::Sync).unwrap(),
                "flush" => db.flush().unwrap(),
                "compact" => {
                    db.flush().unwrap();
                    keyspace.compact(&KeyRange::all()).unwrap();
                }
                _ => {}
            }
            if step == "flush" || step == "compact" {
                assert_eq!((logs(&vfs), named(&vfs)), Default::default());
            }
            let now = if closes {
                db.close().unwrap();
                assert!(step != "write" || named(&vfs).len() == 3);
                vfs.power_cut(PowerCut {
                    seed: 1,
                    keep_percent: 0,
                })
            } else {
                vfs.kill()
            };
            drop((keyspace, db));
            let (db, keyspace) = open(options(&now));
            assert_eq!(pairs(&keyspace, KeyRange::all()), found, "{step} {closes}");
            db.close().unwrap();
        }
    }
}
