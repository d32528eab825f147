//! A store against a history that knows what was acknowledged, and how durably.
//!
//! A run is a list of operations, decoded from any bytes: a seed's in the tests, a fuzzer's in the
//! fuzz target. It goes through power cuts and failing calls at any place. The history keeps every
//! batch in order; what is found afterwards must be the state after some number of them, no fewer
//! than were durable: no batch half there, none without its predecessors. Errors are excused only
//! while calls fail, or if they latched the store; answers must be right always. A disk that is only
//! full is excused nothing but that it says so: no latched failure, no batch that comes back, no error
//! once there is room.
#![allow(dead_code, unreachable_pub, reason = "each user takes its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a check that fails ends the run"
)]

mod history;
mod ops;
mod setups;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ppc_engine::vfs::{FaultPlan, FaultVfs, MemVfs, PowerCut, Vfs};
use ppc_engine::{
    Batch, BulkOptions, Db, DbOptions, Durability, Error, ErrorKind, IterOptions, KeyRange,
    Keyspace, Result, Snapshot, VerifyOptions, VerifyReport,
};

use self::history::{Ending, History, Maps};
use self::ops::{KEYS, KEYSPACES, Write, key_bytes, range_between, value_bytes};
pub use self::ops::{Op, decode};
pub use self::setups::{Setup, setups};

const DIR: &str = "/store";
const COPIES: &str = "/copies";

/// A store and its model.
struct Run {
    disk: MemVfs,
    faults: FaultVfs,
    is_armed: bool,
    /// Failures go on for as long as they are armed, and hinder removals too.
    failures_stay: bool,
    /// A call has failed since the store was opened.
    had_failure: bool,
    /// The disk has a bound.
    is_full: bool,
    setup: Setup,
    history: History,
    store: Option<Store>,
    checkpoints: usize,
}

struct Store {
    /// With what each must show.
    snapshots: Vec<(Snapshot, Maps)>,
    keyspaces: Vec<Keyspace>,
    db: Db,
}

/// Runs the operations and checks every answer.
pub fn run(setup: &Setup, ops: &[Op]) {
    let mut run = Run::new(setup);
    run.open(Ending::Closed);
    for op in ops {
        run.step(op);
    }
    run.heal();
    run.check_all();
    run.reopen();
    run.check_all();
}

impl Run {
    fn new(setup: &Setup) -> Self {
        let disk = MemVfs::new();
        Self {
            faults: FaultVfs::new(disk.clone(), FaultPlan::default()),
            disk,
            is_armed: false,
            failures_stay: false,
            had_failure: false,
            is_full: false,
            setup: setup.clone(),
            history: History::default(),
            store: None,
            checkpoints: 0,
        }
    }

    /// Opens the store, while calls fail if they are to, and otherwise without; checks that it
    /// holds what it may.
    fn open(&mut self, ending: Ending) {
        let opened = self.try_open();
        let opened = self.excuse(opened);
        self.heal();
        let store = match opened {
            Some(store) => store,
            None => {
                self.had_failure = false;
                self.try_open()
                    .unwrap_or_else(|error| panic!("cannot open after {ending:?}: {error}"))
            }
        };
        self.store = Some(store);
        let found = self.contents().unwrap();
        self.history.settle(&found, ending);
    }

    fn try_open(&self) -> Result<Store> {
        let db = Db::open(DIR, self.options(&self.faults))?;
        let keyspace =
            |index: usize| db.keyspace(&format!("k{index}"), self.setup.keyspace.clone());
        Ok(Store {
            snapshots: Vec::new(),
            keyspaces: (0..KEYSPACES).map(keyspace).collect::<Result<_>>()?,
            db,
        })
    }

    fn options(&self, vfs: &(impl Vfs + Clone + 'static)) -> DbOptions {
        let mut options = self.setup.options.clone();
        options.vfs = Arc::new(vfs.clone());
        options
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    /// The result, if it is one; an error must have a reason.
    #[track_caller]
    fn excuse<T>(&mut self, result: Result<T>) -> Option<T> {
        self.had_failure |= self.faults.failed() > 0;
        result.map_err(|error| self.check_error(&error)).ok()
    }

    #[track_caller]
    fn check_error(&self, error: &Error) {
        if self.is_full && error.kind() == ErrorKind::NoSpace {
            return;
        }
        assert!(self.had_failure, "no call failed, but: {error:?}");
        assert_ne!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(
            self.is_armed || error.kind() == ErrorKind::Failed,
            "calls do not fail any more, but: {error:?}"
        );
    }

    fn arm(&mut self, plan: &FaultPlan) {
        self.heal();
        self.faults.arm(plan.clone());
        self.is_armed = true;
        self.failures_stay = plan.stays;
    }

    fn heal(&mut self) {
        self.faults.disarm();
        self.had_failure |= self.faults.failed() > 0;
        self.is_armed = false;
        self.disk.set_capacity(None);
        self.is_full = false;
    }

    fn fill(&mut self, room_bytes: u64) {
        self.heal();
        let capacity = self.disk.used_bytes() + room_bytes;
        self.disk.set_capacity(Some(capacity));
        self.is_full = true;
    }

    /// Notes a batch that was reported as failed.
    fn note_failed(&mut self, writes: Vec<Write>) {
        if self.had_failure {
            self.history.fail(writes);
        } else {
            self.history.refuse();
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Batch {
                ref writes,
                durability,
            } => self.write(writes, durability),
            Op::Get { keyspace, key } => self.get(keyspace, key),
            Op::MultiGet {
                keyspace,
                from,
                step,
            } => self.multi_get(keyspace, from, step),
            Op::Scan {
                keyspace,
                from,
                to,
                ends,
            } => self.scan(keyspace, from, to, ends),
            Op::Snapshot => {
                let maps = self.history.maps.clone();
                let store = self.store();
                store.snapshots.push((store.db.snapshot().unwrap(), maps));
            }
            Op::CheckSnapshot { index } => self.check_snapshot(index),
            Op::DropSnapshot { index } => {
                let snapshots = &mut self.store().snapshots;
                if !snapshots.is_empty() {
                    snapshots.swap_remove(usize::from(index) % snapshots.len());
                }
            }
            Op::Flush => {
                let flushed = self.store().db.flush();
                self.set_durable_if(flushed);
            }
            Op::Compact { keyspace, from, to } => {
                let range = range_between(from, to);
                let compacted = self.store().keyspaces[keyspace].compact(&range);
                self.excuse(compacted);
            }
            Op::CompactAll => {
                let compacted = self.store().db.compact();
                self.excuse(compacted);
                self.check_all();
            }
            Op::BulkLoad {
                keyspace,
                from,
                step,
                len,
            } => self.bulk_load(keyspace, from, step, len),
            Op::Checkpoint { power_cut } => self.checkpoint(power_cut),
            Op::Sync => {
                let synced = self.store().db.sync();
                self.set_durable_if(synced);
            }
            Op::Reopen => {
                self.reopen();
                self.check_all();
            }
            Op::Kill => self.go_on_with(self.disk.kill(), Ending::Killed),
            Op::PowerCut { seed, keep_percent } => {
                let seed = u64::from(seed);
                let cut = self.disk.power_cut(PowerCut { seed, keep_percent });
                self.go_on_with(cut, Ending::PowerCut);
            }
            Op::Fault { ref plan } => self.arm(plan),
            Op::Fill { room_bytes } => self.fill(room_bytes),
            Op::Heal => self.heal(),
        }
    }

    fn set_durable_if<T>(&mut self, result: Result<T>) {
        if self.excuse(result).is_some() {
            self.history.set_durable();
        }
    }

    fn write(&mut self, writes: &[Write], durability: Durability) {
        let number = self.history.next_number();
        let store = self.store();
        let mut batch = Batch::new();
        for write in writes {
            match *write {
                Write::Put { keyspace, key, len } => {
                    let keyspace = &store.keyspaces[keyspace];
                    batch.put(keyspace, key_bytes(key), value_bytes(number, len));
                }
                Write::Delete { keyspace, key } => {
                    batch.delete(&store.keyspaces[keyspace], key_bytes(key));
                }
                Write::DeleteRange { keyspace, from, to } => {
                    batch.delete_range(&store.keyspaces[keyspace], &range_between(from, to));
                }
                Write::DeletePrefix { keyspace, key } => {
                    batch.delete_prefix(&store.keyspaces[keyspace], key_bytes(key));
                }
            }
        }
        // A range delete of nothing leaves an empty batch, which is never logged.
        let is_logged = !batch.is_empty();
        let written = store.db.write(batch, durability);
        match self.excuse(written) {
            _ if !is_logged => {}
            Some(()) => self.history.acknowledge(writes.to_vec(), durability),
            None => self.note_failed(writes.to_vec()),
        }
    }

    /// Loads keys from the last to the first, so that the loader has to sort.
    fn bulk_load(&mut self, keyspace: usize, from: u8, step: u8, len: u8) {
        let number = self.history.next_number();
        let keys = (from..KEYS).step_by(usize::from(step)).rev();
        let writes: Vec<_> = keys.map(|key| Write::Put { keyspace, key, len }).collect();
        let store = self.store();
        let load = || {
            let mut loader = store.db.bulk_loader(BulkOptions::default())?;
            for write in &writes {
                if let Write::Put { key, .. } = *write {
                    let keyspace = &store.keyspaces[keyspace];
                    let value = Bytes::from(value_bytes(number, len));
                    loader.put(keyspace, key_bytes(key), value)?;
                }
            }
            loader.finish(&mut |_| {})
        };
        let loaded = load();
        match self.excuse(loaded) {
            Some(_) => self.history.acknowledge(writes, Durability::Sync),
            None => self.note_failed(writes),
        }
    }

    /// A checkpoint holds what the store holds, at once and whatever power does; a failed one
    /// leaves nothing.
    fn checkpoint(&mut self, power_cut: bool) {
        self.checkpoints += 1;
        let path = PathBuf::from(format!("{COPIES}/{}", self.checkpoints));
        let made = self.store().db.checkpoint(&path);
        if self.excuse(made).is_none() {
            let removals_fail = self.is_armed && self.failures_stay;
            let partial = path.with_extension("partial");
            let mut files = self.disk.files().into_iter();
            let left = files.find(|file| file.starts_with(&path) || file.starts_with(&partial));
            assert!(removals_fail || left.is_none(), "{left:?} was left");
            return;
        }
        self.history.set_durable();
        // The copy is opened for writing.
        if self.is_full {
            self.heal();
        }
        let cut = PowerCut {
            seed: self.checkpoints as u64,
            keep_percent: 0,
        };
        let disk = match power_cut {
            true => self.disk.power_cut(cut),
            false => self.disk.clone(),
        };
        let copy = Db::open(&path, self.options(&disk)).unwrap();
        for (index, map) in self.history.maps.iter().enumerate() {
            let keyspace = copy.existing_keyspace(&format!("k{index}")).unwrap();
            let iter = keyspace
                .unwrap()
                .iter(KeyRange::all(), IterOptions::default());
            assert_eq!(collect(iter.unwrap()).unwrap(), *map);
        }
        let problems = verify(&copy).unwrap().problems;
        assert!(problems.is_empty(), "{problems:?}");
        drop(copy);
        for file in self.disk.files() {
            if file.starts_with(&path) {
                self.disk.remove(&file).unwrap();
            }
        }
    }

    fn get(&mut self, keyspace: usize, key: u8) {
        let expected = self.history.maps[keyspace].get(&key_bytes(key)).cloned();
        let found = self.store().keyspaces[keyspace].get(key_bytes(key));
        if let Some(found) = self.excuse(found) {
            assert_eq!(found.as_deref(), expected.as_deref());
        }
        let contained = self.store().keyspaces[keyspace].contains(key_bytes(key));
        if let Some(contained) = self.excuse(contained) {
            assert_eq!(contained, expected.is_some());
        }
    }

    fn multi_get(&mut self, keyspace: usize, from: u8, step: u8) {
        let keys: Vec<_> = (from..KEYS)
            .step_by(usize::from(step))
            .map(key_bytes)
            .collect();
        let found = self.store().keyspaces[keyspace].multi_get(&keys);
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            if let Some(found) = self.excuse(found) {
                let expected = self.history.maps[keyspace].get(key);
                assert_eq!(found.as_deref(), expected.map(Vec::as_slice));
            }
        }
    }

    /// Takes from either end as the bits of `ends` say.
    fn scan(&mut self, keyspace: usize, from: u8, to: u8, ends: u8) {
        let range = range_between(from, to);
        let map = self.history.maps[keyspace].clone();
        let mut expected = map.iter().filter(|(key, _)| range.contains(key));
        let options = if ends & 1 == 1 {
            IterOptions::keys_only()
        } else {
            IterOptions::default()
        };
        let iter = self.store().keyspaces[keyspace].iter(range.clone(), options);
        let Some(mut found) = self.excuse(iter) else {
            return;
        };
        for turn in 0.. {
            let back = (ends >> (turn % 7 + 1)) & 1 == 1;
            let (expected, found) = if back {
                (expected.next_back(), found.next_back())
            } else {
                (expected.next(), found.next())
            };
            let Some(found) = self.excuse(found.transpose()) else {
                break;
            };
            assert_eq!(
                found.as_ref().map(|(key, _)| key.as_ref()),
                expected.map(|(key, _)| key.as_slice())
            );
            let Some(((_, found), (_, expected))) = found.zip(expected) else {
                break;
            };
            assert!(options.keys_only || found == *expected);
        }
    }

    fn check_snapshot(&mut self, index: u8) {
        let store = self.store();
        if store.snapshots.is_empty() {
            return;
        }
        let index = usize::from(index) % store.snapshots.len();
        let (snapshot, maps) = store.snapshots.swap_remove(index);
        for (keyspace, map) in maps.iter().enumerate() {
            let handle = self.store().keyspaces[keyspace].clone();
            let iter = snapshot.iter(&handle, KeyRange::all(), IterOptions::default());
            if let Some(found) = self.excuse(iter.and_then(collect)) {
                assert_eq!(found, *map);
            }
            for key in (0..KEYS).map(key_bytes) {
                let found = snapshot.get(&handle, &key);
                if let Some(found) = self.excuse(found) {
                    assert_eq!(found.as_deref(), map.get(&key).map(Vec::as_slice));
                }
            }
        }
        self.store().snapshots.push((snapshot, maps));
    }

    fn reopen(&mut self) {
        let closed = self.store().db.close();
        let ending = match self.excuse(closed) {
            Some(()) => Ending::Closed,
            None => Ending::ClosedAfterFailure,
        };
        self.store = None;
        self.open(ending);
    }

    /// Goes on with what was left of the disk when the store's process ended without closing it.
    fn go_on_with(&mut self, disk: MemVfs, ending: Ending) {
        self.store = None;
        self.faults = FaultVfs::new(disk.clone(), FaultPlan::default());
        self.disk = disk;
        self.is_armed = false;
        self.had_failure = false;
        self.open(ending);
        self.check_all();
    }

    fn contents(&mut self) -> Option<Maps> {
        let mut maps = Maps::default();
        for (keyspace, map) in maps.iter_mut().enumerate() {
            let keyspace = &self.store().keyspaces[keyspace];
            let iter = keyspace.iter(KeyRange::all(), IterOptions::default());
            *map = self.excuse(iter.and_then(collect))?;
        }
        Some(maps)
    }

    fn check_all(&mut self) {
        if let Some(found) = self.contents() {
            assert_eq!(found, self.history.maps);
        }
        for keyspace in 0..KEYSPACES {
            self.multi_get(keyspace, 0, 1);
        }
        let verified = verify(&self.store().db);
        if let Some(report) = self.excuse(verified) {
            report
                .problems
                .iter()
                .for_each(|problem| self.check_error(&problem.error));
        }
    }
}

/// Decodes every unit of every table, on one thread: where a call fails must not depend on others.
fn verify(db: &Db) -> Result<VerifyReport> {
    let mut options = VerifyOptions::default();
    options.threads = 1;
    db.verify(&options, &mut |_| {})
}

fn collect(iter: ppc_engine::Iter) -> Result<std::collections::BTreeMap<Vec<u8>, Vec<u8>>> {
    iter.map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect()
}
