//! The steps of a run, and how bytes become them.

use std::io;
use std::ops::Bound;

use ppc_engine::vfs::{FaultOp, FaultPlan};
use ppc_engine::{Durability, KeyRange};

/// Keyspaces of every run.
pub const KEYSPACES: usize = 2;

/// Distinct keys of a run.
pub const KEYS: u8 = 96;

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
    Checkpoint {
        power_cut: bool,
    },
    Sync,
    Reopen,
    /// Ends the process at once; what it handed over stays.
    Kill,
    PowerCut {
        seed: u8,
        keep_percent: u8,
    },
    /// Lets calls to the file system fail from here on.
    Fault {
        plan: FaultPlan,
    },
    /// Leaves the disk this much room.
    Fill {
        room_bytes: u64,
    },
    /// Lets none fail any more, and makes room.
    Heal,
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
            0..=31 => self.batch(),
            32..=47 => self.read(),
            48..=49 => Op::Snapshot,
            50..=51 => Op::CheckSnapshot { index: self.byte() },
            52 => Op::DropSnapshot { index: self.byte() },
            53..=54 => Op::Flush,
            55 => Op::Compact {
                keyspace: self.keyspace(),
                from: self.key(),
                to: self.key(),
            },
            56 if self.byte().is_multiple_of(3) => Op::CompactAll,
            56 => Op::BulkLoad {
                keyspace: self.keyspace(),
                from: self.key(),
                step: 1 + self.byte() % 16,
                len: self.byte(),
            },
            57 => Op::Checkpoint {
                power_cut: self.byte().is_multiple_of(2),
            },
            58 => Op::Sync,
            59 if self.byte().is_multiple_of(2) => Op::Kill,
            59 => Op::Reopen,
            60..=61 => Op::PowerCut {
                seed: self.byte(),
                keep_percent: self.byte() % 101,
            },
            62 if self.byte().is_multiple_of(3) => Op::Fill {
                room_bytes: u64::from(self.byte()) * 64,
            },
            62 => Op::Fault { plan: self.plan() },
            _ => Op::Heal,
        }
    }

    fn batch(&mut self) -> Op {
        let durability = match self.byte() % 8 {
            0 => Durability::Sync,
            1..=4 => Durability::Buffered,
            _ => Durability::None,
        };
        let count = 1 + self.byte() % 5;
        let writes = (0..count).map(|_| self.write()).collect();
        Op::Batch { writes, durability }
    }

    fn read(&mut self) -> Op {
        match self.byte() % 8 {
            0..=2 => Op::Get {
                keyspace: self.keyspace(),
                key: self.key(),
            },
            3..=4 => Op::MultiGet {
                keyspace: self.keyspace(),
                from: self.key(),
                step: 1 + self.byte() % 7,
            },
            _ => Op::Scan {
                keyspace: self.keyspace(),
                from: self.key(),
                to: self.key(),
                ends: self.byte(),
            },
        }
    }

    fn plan(&mut self) -> FaultPlan {
        use FaultOp::{Append, Create, Open, Read, ReadDir, Remove, Rename, Sync, SyncDir};
        let ops = [
            Append, Sync, Create, Rename, SyncDir, Read, Open, Remove, ReadDir,
        ];
        let error = [io::ErrorKind::StorageFull, io::ErrorKind::Other];
        let error = error[usize::from(self.byte()) % error.len()];
        let nth = u64::from(self.byte() % 32) + 1;
        let plan = match self.byte() % 4 {
            0..=1 => FaultPlan::writes_from(nth, error),
            2 => FaultPlan {
                nth,
                error,
                ..FaultPlan::default()
            },
            _ => FaultPlan::once(
                ops[usize::from(self.byte()) % ops.len()],
                nth % 4 + 1,
                error,
            ),
        };
        let suffixes = ["", "", ".wal", ".table", ".manifest", "CURRENT.tmp"];
        let plan = plan.on(suffixes[usize::from(self.byte()) % suffixes.len()]);
        if self.byte().is_multiple_of(2) {
            plan.with_partial_append()
        } else {
            plan
        }
    }
}

/// The bytes of a key: some share prefixes, some are prefixes of others, one is empty, some hold
/// the extreme bytes.
pub fn key_bytes(key: u8) -> Vec<u8> {
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
pub fn value_bytes(batch: usize, len: u8) -> Vec<u8> {
    let len = match len % 8 {
        0 => 0,
        1 => 1,
        2 => 8,
        3..=5 => 20 + usize::from(len),
        6 => 900 + usize::from(len),
        _ => 3000 + usize::from(len) * 8,
    };
    let text = format!("value of batch {batch}; ");
    let mut bytes = text.repeat(len / text.len() + 1).into_bytes();
    bytes.truncate(len);
    bytes
}

/// From the smaller of two keys to the larger, the latter excluded.
pub fn range_between(a: u8, b: u8) -> KeyRange {
    let (a, b) = (key_bytes(a), key_bytes(b));
    let (from, to) = if a <= b { (a, b) } else { (b, a) };
    KeyRange {
        start: Bound::Included(from),
        end: Bound::Excluded(to),
    }
}
