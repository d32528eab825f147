//! A process that is killed at any moment loses nothing that it was told had left it.
//!
//! This test binary starts itself as a child that writes to a store on the disk and says which
//! writes were acknowledged; it is killed without warning, again and again, while it opens, writes,
//! flushes, loads and compacts. Every write follows from its number, so what must be found is known.
//! `PPC_KILLS` sets how many rounds.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use ppc_engine::{
    Batch, BulkOptions, Db, DbOptions, Durability, KeyRange, Keyspace, ReadMode, VerifyOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::common::{Pairs, key, pairs, small_tables, value};

const DIR_VARIABLE: &str = "PPC_KILLED_DIR";
const CHILD: &str = "killed_writers::child";

/// Holds the number of the newest write.
const LAST: &str = "last";

const KEYS: u32 = 400;

/// Puts have a value, deletes none; a range goes first.
#[derive(Default)]
struct Step {
    range: Option<(Vec<u8>, Vec<u8>)>,
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What write `number` does, to both keyspaces alike.
fn step(number: u32) -> Step {
    let mut step = Step::default();
    if is_load(number) {
        let keys = (number % 7..KEYS).step_by(5);
        let puts = keys.map(|at| (key(at), Some(value(at, number))));
        step.writes.extend(puts);
    } else {
        for turn in 0..=number % 4 {
            let at = (number.wrapping_mul(0x9e37_79b1) ^ turn.wrapping_mul(77)) % KEYS;
            let is_put = !(number + turn).is_multiple_of(5);
            step.writes
                .push((key(at), is_put.then(|| value(at, number + turn))));
        }
        if number.is_multiple_of(37) {
            step.range = Some((key(number % KEYS), key(number % KEYS + 20)));
        }
    }
    let last = number.to_string().into_bytes();
    step.writes.push((LAST.into(), Some(last)));
    step
}

fn is_load(number: u32) -> bool {
    number % 50 == 49
}

fn durability(number: u32) -> Durability {
    match number % 3 {
        0 => Durability::Sync,
        1 => Durability::Buffered,
        _ => Durability::None,
    }
}

fn apply(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, number: u32) {
    let step = step(number);
    if let Some((start, end)) = step.range {
        model.retain(|key, _| *key < start || *key >= end);
    }
    for (key, value) in step.writes {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

fn options() -> DbOptions {
    let mut options = DbOptions::default();
    options.memtable_bytes = 32 << 10;
    options.compression_threads = 1;
    options.read_mode = ReadMode::Pread;
    options.l0_compaction_trigger = 2;
    options
}

fn open_for_reading(dir: &Path) -> (Db, [Keyspace; 2]) {
    let db = Db::open_read_only(dir, options()).unwrap();
    let keyspaces = ["a", "b"].map(|name| db.existing_keyspace(name).unwrap().unwrap());
    (db, keyspaces)
}

fn open(dir: &Path) -> (Db, [Keyspace; 2]) {
    let db = Db::open(dir, options()).unwrap();
    let mut tables = small_tables();
    tables.table_bytes_target = 16 << 10;
    tables.base_level_bytes = 32 << 10;
    tables.level_multiplier = 3;
    let keyspaces = ["a", "b"].map(|name| db.keyspace(name, tables.clone()).unwrap());
    (db, keyspaces)
}

fn last(keyspace: &Keyspace) -> u32 {
    let last = keyspace.get(LAST).unwrap();
    last.map_or(0, |last| {
        String::from_utf8(last.to_vec()).unwrap().parse().unwrap()
    })
}

/// Does nothing in an ordinary run of the tests.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else {
        return;
    };
    let (db, keyspaces) = open(Path::new(&dir));
    let mut stdout = std::io::stdout();
    // The harness leaves its line open.
    writeln!(stdout).unwrap();
    let first = last(&keyspaces[0]) + 1;
    for number in first.. {
        let survives = perform(&db, &keyspaces, number);
        if survives {
            writeln!(stdout, "acknowledged {number}").unwrap();
            stdout.flush().unwrap();
        }
        if number.is_multiple_of(31) {
            db.flush().unwrap();
        }
        if number.is_multiple_of(101) {
            db.compact().unwrap();
        }
    }
}

/// Whether the write must survive the process.
fn perform(db: &Db, keyspaces: &[Keyspace; 2], number: u32) -> bool {
    let step = step(number);
    if is_load(number) {
        let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
        for keyspace in keyspaces {
            for (key, value) in &step.writes {
                let value = Bytes::from(value.clone().unwrap());
                loader.put(keyspace, key, value).unwrap();
            }
        }
        loader.finish(&mut |_| {}).unwrap();
        return true;
    }
    let mut batch = Batch::new();
    for keyspace in keyspaces {
        if let Some((start, end)) = &step.range {
            let range = KeyRange {
                start: Bound::Included(start.clone()),
                end: Bound::Excluded(end.clone()),
            };
            batch.delete_range(keyspace, &range);
        }
        for (key, value) in &step.writes {
            match value {
                Some(value) => batch.put(keyspace, key.clone(), value.clone()),
                None => batch.delete(keyspace, key.clone()),
            };
        }
    }
    let durability = durability(number);
    db.write(batch, durability).unwrap();
    durability != Durability::None
}

/// Starts the child; what it says was acknowledged comes through the channel until it ends.
fn start(dir: &Path) -> (Child, Receiver<u32>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let number = line.strip_prefix("acknowledged ");
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                let _ = sender.send(number);
            }
        }
    });
    (child, receiver)
}

#[test]
fn a_killed_process_loses_nothing_that_left_it_and_tears_no_batch() {
    let rounds = std::env::var("PPC_KILLS").ok();
    let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(8);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut model = BTreeMap::new();
    let mut written = 0;
    let mut dice = StdRng::seed_from_u64(rounds);
    for round in 0..rounds {
        let (mut child, acknowledged) = start(dir.path());
        // Sometimes while it opens the store, mostly while it writes.
        if dice.random_range(0..4) > 0 {
            let first = acknowledged.recv_timeout(Duration::from_secs(60));
            first.unwrap_or_else(|_| panic!("round {round}: the child does not write"));
        }
        std::thread::sleep(Duration::from_millis(dice.random_range(0..250)));
        assert_eq!(child.try_wait().unwrap(), None, "the child ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = acknowledged.iter().last().unwrap_or(0);

        // Half of the time the next child finds what this one left, not what recovery made of it.
        let (db, [a, b]) = if written > 0 && dice.random_range(0..2) == 0 {
            open_for_reading(dir.path())
        } else {
            open(dir.path())
        };
        let found = last(&a);
        assert!(
            found >= written.max(acknowledged),
            "round {round}: {acknowledged} was acknowledged, {found} is the newest found"
        );
        (written + 1..=found).for_each(|number| apply(&mut model, number));
        written = found;
        let expected: Pairs = model.clone().into_iter().collect();
        assert_eq!(pairs(&a, KeyRange::all()), expected, "round {round}");
        assert_eq!(pairs(&b, KeyRange::all()), expected, "round {round}");
        let verified = db.verify(&VerifyOptions::default(), &mut |_| {}).unwrap();
        let problems = verified.problems;
        assert!(problems.is_empty(), "round {round}: {problems:?}");
    }
    assert!(written > 0);
    println!("{rounds} kills, {written} writes");
}
