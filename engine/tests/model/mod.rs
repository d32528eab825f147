//! A store against a `BTreeMap` that knows what was acknowledged, and how durably.
//!
//! A run is a list of operations, decoded from any bytes: a seed's in the tests, a fuzzer's in the
//! fuzz target. The model keeps every batch in order and the number of them that must survive a
//! power cut; what is found after one must be the state after some number of batches between that
//! and all of them: no batch half there, none without its predecessors.
#![allow(dead_code, unreachable_pub, reason = "each user takes its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a check that fails ends the run"
)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use ppc_engine::vfs::{MemVfs, PowerCut};
use ppc_engine::{
    Batch, BulkOptions, Db, DbOptions, Durability, IterOptions, KeyRange, Keyspace,
    KeyspaceOptions, ReadMode, Snapshot, TableOptions,
};

const DIR: &str = "/store";

/// Keyspaces of every run.
const KEYSPACES: usize = 2;

/// Distinct keys of a run.
const KEYS: u8 = 96;

/// One write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Put { keyspace: usize, key: u8, len: u8 },
    Delete { keyspace: usize, key: u8 },
    DeleteRange { keyspace: usize, from: u8, to: u8 },
    DeletePrefix { keyspace: usize, key: u8 },
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Batch {
        writes: Vec<Write>,
        durability: Durability,
    },
    Get {
        keyspace: usize,
        key: u8,
    },
    MultiGet {
        keyspace: usize,
        from: u8,
        step: u8,
    },
    Scan {
        keyspace: usize,
        from: u8,
        to: u8,
        ends: u8,
    },
    Snapshot,
    CheckSnapshot {
        index: u8,
    },
    DropSnapshot {
        index: u8,
    },
    Flush,
    Compact {
        keyspace: usize,
        from: u8,
        to: u8,
    },
    CompactAll,
    BulkLoad {
        keyspace: usize,
        from: u8,
        step: u8,
        len: u8,
    },
    Sync,
    Reopen,
    PowerCut {
        seed: u8,
        keep_percent: u8,
    },
}

/// Decodes bytes, whatever they are, into a run.
pub fn decode(bytes: &[u8]) -> Vec<Op> {
    let mut source = Source { bytes };
    let mut ops = Vec::new();
    while !source.bytes.is_empty() {
        ops.push(source.op());
    }
    ops
}

struct Source<'a> {
    bytes: &'a [u8],
}

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        first
    }

    fn keyspace(&mut self) -> usize {
        usize::from(self.byte()) % KEYSPACES
    }

    fn key(&mut self) -> u8 {
        self.byte() % KEYS
    }

    fn write(&mut self) -> Write {
        let keyspace = self.keyspace();
        match self.byte() % 16 {
            0..=9 => Write::Put {
                keyspace,
                key: self.key(),
                len: self.byte(),
            },
            10..=13 => Write::Delete {
                keyspace,
                key: self.key(),
            },
            14 => Write::DeleteRange {
                keyspace,
                from: self.key(),
                to: self.key(),
            },
            _ => Write::DeletePrefix {
                keyspace,
                key: self.key(),
            },
        }
    }

    fn op(&mut self) -> Op {
        match self.byte() % 64 {
            0..=35 => {
                let durability = match self.byte() % 8 {
                    0 => Durability::Sync,
                    1..=4 => Durability::Buffered,
                    _ => Durability::None,
                };
                let count = 1 + self.byte() % 5;
                let writes = (0..count).map(|_| self.write()).collect();
                Op::Batch { writes, durability }
            }
            36..=41 => Op::Get {
                keyspace: self.keyspace(),
                key: self.key(),
            },
            42..=44 => Op::MultiGet {
                keyspace: self.keyspace(),
                from: self.key(),
                step: 1 + self.byte() % 7,
            },
            45..=49 => Op::Scan {
                keyspace: self.keyspace(),
                from: self.key(),
                to: self.key(),
                ends: self.byte(),
            },
            50..=51 => Op::Snapshot,
            52..=53 => Op::CheckSnapshot { index: self.byte() },
            54 => Op::DropSnapshot { index: self.byte() },
            55..=56 => Op::Flush,
            57 => Op::Compact {
                keyspace: self.keyspace(),
                from: self.key(),
                to: self.key(),
            },
            58 if self.byte().is_multiple_of(3) => Op::CompactAll,
            58 => Op::BulkLoad {
                keyspace: self.keyspace(),
                from: self.key(),
                step: 1 + self.byte() % 16,
                len: self.byte(),
            },
            59 => Op::Sync,
            60..=61 => Op::Reopen,
            _ => Op::PowerCut {
                seed: self.byte(),
                keep_percent: self.byte() % 101,
            },
        }
    }
}

/// The bytes of a key: some share prefixes, some are prefixes of others, one is empty, some hold
/// the extreme bytes.
fn key_bytes(key: u8) -> Vec<u8> {
    let group = [&b""[..], b"a", b"ab", b"\xff", b"dir/file.rs/"][usize::from(key % 5)];
    let mut bytes = group.to_vec();
    match key / 5 {
        0 => {}
        rest => {
            bytes.extend_from_slice(&[rest.wrapping_mul(37), 0, 0xff][..1 + usize::from(rest % 3)])
        }
    }
    bytes
}

/// The bytes of a value: of many lengths, compressible, and different for every batch.
fn value_bytes(batch: usize, len: u8) -> Vec<u8> {
    let len = match len % 8 {
        0 => 0,
        1 => 1,
        2 => 8,
        3..=5 => 20 + usize::from(len),
        6 => 900 + usize::from(len),
        _ => 3000 + usize::from(len) * 8,
    };
    let text = format!("value of batch {batch}; ");
    text.into_bytes().into_iter().cycle().take(len).collect()
}

type Maps = [BTreeMap<Vec<u8>, Vec<u8>>; KEYSPACES];

/// What a store must hold.
#[derive(Default)]
struct Model {
    /// Every acknowledged batch.
    batches: Vec<Vec<Write>>,
    /// The number of batches that must survive a power cut.
    durable: usize,
    maps: Maps,
}

fn apply(maps: &mut Maps, batch: usize, writes: &[Write]) {
    for write in writes {
        match *write {
            Write::Put { keyspace, key, len } => {
                maps[keyspace].insert(key_bytes(key), value_bytes(batch, len));
            }
            Write::Delete { keyspace, key } => {
                maps[keyspace].remove(&key_bytes(key));
            }
            Write::DeleteRange { keyspace, from, to } => {
                let range = range_between(from, to);
                maps[keyspace].retain(|key, _| !range.contains(key));
            }
            Write::DeletePrefix { keyspace, key } => {
                let prefix = key_bytes(key);
                maps[keyspace].retain(|key, _| !key.starts_with(&prefix));
            }
        }
    }
}

/// From the smaller of two keys to the larger, the latter excluded.
fn range_between(a: u8, b: u8) -> KeyRange {
    let (a, b) = (key_bytes(a), key_bytes(b));
    let (from, to) = if a <= b { (a, b) } else { (b, a) };
    KeyRange {
        start: Bound::Included(from),
        end: Bound::Excluded(to),
    }
}

impl Model {
    fn push(&mut self, writes: Vec<Write>, durability: Durability) {
        apply(&mut self.maps, self.batches.len(), &writes);
        self.batches.push(writes);
        if durability == Durability::Sync {
            self.durable = self.batches.len();
        }
    }

    /// Cuts the history to what `found` is the state of, which must be a state it went through
    /// since the last durable one.
    fn cut_to(&mut self, found: Maps) {
        let mut maps = Maps::default();
        for (batch, writes) in self.batches.iter().take(self.durable).enumerate() {
            apply(&mut maps, batch, writes);
        }
        let mut count = self.durable;
        while maps != found {
            let writes = self.batches.get(count).unwrap_or_else(|| {
                panic!(
                    "found after a power cut: no state since batch {}",
                    self.durable
                )
            });
            apply(&mut maps, count, writes);
            count += 1;
        }
        self.batches.truncate(count);
        self.maps = maps;
        self.durable = count;
    }
}

/// How a store is set up for a run.
#[derive(Clone)]
pub struct Setup {
    pub name: &'static str,
    pub options: DbOptions,
    pub keyspace: KeyspaceOptions,
}

/// Setups that drive the same operations through different code.
pub fn setups() -> Vec<Setup> {
    let mut tiny = DbOptions::default();
    tiny.memtable_bytes = 2 << 10;
    tiny.sealed_memtables_max = 1;
    tiny.open_tables_max = 16;
    tiny.cache_bytes = 0;
    tiny.compression_threads = 1;
    tiny.l0_stall_trigger = 1000;
    let mut small = TableOptions::blocks(1, 1 << 10);
    small.key_block_bytes = 256;
    small.inline_value_bytes_max = 0;
    let mut small = KeyspaceOptions::uniform(small);
    small.table_bytes_target = 4 << 10;
    small.base_level_bytes = 8 << 10;
    small.level_multiplier = 2;
    let mut pread = tiny.clone();
    pread.read_mode = ReadMode::Pread;
    pread.cache_bytes = 16 << 10;
    pread.memtable_bytes = 20 << 10;
    let mut resting = DbOptions::default();
    resting.auto_compaction = false;
    vec![
        Setup {
            name: "tiny",
            options: tiny,
            keyspace: small.clone(),
        },
        Setup {
            name: "pread",
            options: pread,
            keyspace: small,
        },
        Setup {
            name: "default",
            options: resting,
            keyspace: KeyspaceOptions::default(),
        },
    ]
}

/// A store and its model.
struct Run {
    vfs: MemVfs,
    setup: Setup,
    model: Model,
    store: Option<Store>,
}

struct Store {
    /// With what each must show.
    snapshots: Vec<(Snapshot, Maps)>,
    keyspaces: Vec<Keyspace>,
    db: Db,
}

/// Runs the operations and checks every answer.
pub fn run(setup: &Setup, ops: &[Op]) {
    let mut run = Run {
        vfs: MemVfs::new(),
        setup: setup.clone(),
        model: Model::default(),
        store: None,
    };
    run.open();
    for op in ops {
        run.step(op);
    }
    run.check_all();
    run.store = None;
    run.open();
    run.check_all();
}

impl Run {
    fn open(&mut self) {
        let mut options = self.setup.options.clone();
        options.vfs = Arc::new(self.vfs.clone());
        let db = Db::open(DIR, options).unwrap();
        let keyspace =
            |index: usize| db.keyspace(&format!("k{index}"), self.setup.keyspace.clone());
        let keyspaces = (0..KEYSPACES)
            .map(|index| keyspace(index).unwrap())
            .collect();
        self.store = Some(Store {
            snapshots: Vec::new(),
            keyspaces,
            db,
        });
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
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
                let maps = self.model.maps.clone();
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
                self.store().db.flush().unwrap();
                self.model.durable = self.model.batches.len();
            }
            Op::Compact { keyspace, from, to } => {
                let range = range_between(from, to);
                self.store().keyspaces[keyspace].compact(&range).unwrap();
            }
            Op::CompactAll => {
                self.store().db.compact().unwrap();
                self.check_all();
            }
            Op::BulkLoad {
                keyspace,
                from,
                step,
                len,
            } => self.bulk_load(keyspace, from, step, len),
            Op::Sync => {
                self.store().db.sync().unwrap();
                self.model.durable = self.model.batches.len();
            }
            Op::Reopen => {
                self.store = None;
                self.model.durable = self.model.batches.len();
                self.open();
                self.check_all();
            }
            Op::PowerCut { seed, keep_percent } => self.power_cut(seed, keep_percent),
        }
    }

    fn write(&mut self, writes: &[Write], durability: Durability) {
        let number = self.model.batches.len();
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
        store.db.write(batch, durability).unwrap();
        let durability = if is_logged {
            durability
        } else {
            Durability::None
        };
        self.model.push(writes.to_vec(), durability);
    }

    /// Loads keys from the last to the first, so that the loader has to sort.
    fn bulk_load(&mut self, keyspace: usize, from: u8, step: u8, len: u8) {
        let number = self.model.batches.len();
        let keys = (from..KEYS).step_by(usize::from(step)).rev();
        let writes: Vec<_> = keys.map(|key| Write::Put { keyspace, key, len }).collect();
        let store = self.store();
        let mut loader = store.db.bulk_loader(BulkOptions::default()).unwrap();
        for write in &writes {
            if let Write::Put { key, .. } = *write {
                let keyspace = &store.keyspaces[keyspace];
                let value = Bytes::from(value_bytes(number, len));
                loader.put(keyspace, key_bytes(key), value).unwrap();
            }
        }
        loader.finish(&mut |_| {}).unwrap();
        self.model.push(writes, Durability::Sync);
    }

    fn get(&mut self, keyspace: usize, key: u8) {
        let expected = self.model.maps[keyspace].get(&key_bytes(key)).cloned();
        let found = self.store().keyspaces[keyspace]
            .get(key_bytes(key))
            .unwrap();
        assert_eq!(found.as_deref(), expected.as_deref());
        let contained = self.store().keyspaces[keyspace].contains(key_bytes(key));
        assert_eq!(contained.unwrap(), expected.is_some());
    }

    fn multi_get(&mut self, keyspace: usize, from: u8, step: u8) {
        let keys: Vec<_> = (from..KEYS)
            .step_by(usize::from(step))
            .map(key_bytes)
            .collect();
        let found = self.store().keyspaces[keyspace].multi_get(&keys);
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            let expected = self.model.maps[keyspace].get(key);
            assert_eq!(found.unwrap().as_deref(), expected.map(Vec::as_slice));
        }
    }

    /// Takes from either end as the bits of `ends` say.
    fn scan(&mut self, keyspace: usize, from: u8, to: u8, ends: u8) {
        let range = range_between(from, to);
        let map = self.model.maps[keyspace].clone();
        let mut expected = map.iter().filter(|(key, _)| range.contains(key));
        let options = if ends & 1 == 1 {
            IterOptions::keys_only()
        } else {
            IterOptions::default()
        };
        let mut found = self.store().keyspaces[keyspace]
            .iter(range.clone(), options)
            .unwrap();
        for turn in 0.. {
            let back = (ends >> (turn % 7 + 1)) & 1 == 1;
            let (expected, found) = if back {
                (expected.next_back(), found.next_back())
            } else {
                (expected.next(), found.next())
            };
            let found = found.map(|item| item.unwrap());
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
        let (snapshot, maps) = &store.snapshots[index];
        for (keyspace, map) in store.keyspaces.iter().zip(maps) {
            let iter = snapshot.iter(keyspace, KeyRange::all(), IterOptions::default());
            assert_eq!(collect(iter.unwrap()), *map);
            for key in (0..KEYS).map(key_bytes) {
                let found = snapshot.get(keyspace, &key).unwrap();
                assert_eq!(found.as_deref(), map.get(&key).map(Vec::as_slice));
            }
        }
    }

    /// Goes on with what a power cut at this moment would leave on the disk.
    fn power_cut(&mut self, seed: u8, keep_percent: u8) {
        let cut = self.vfs.power_cut(PowerCut {
            seed: u64::from(seed),
            keep_percent,
        });
        self.store = None;
        self.vfs = cut;
        self.open();
        let found = self.contents();
        self.model.cut_to(found);
        self.check_all();
    }

    fn contents(&mut self) -> Maps {
        let keyspaces = &self.store().keyspaces;
        std::array::from_fn(|index| {
            let iter = keyspaces[index].iter(KeyRange::all(), IterOptions::default());
            collect(iter.unwrap())
        })
    }

    fn check_all(&mut self) {
        assert_eq!(self.contents(), self.model.maps);
        for keyspace in 0..KEYSPACES {
            self.multi_get(keyspace, 0, 1);
        }
    }
}

fn collect(iter: ppc_engine::Iter) -> BTreeMap<Vec<u8>, Vec<u8>> {
    iter.map(|item| item.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}
