//! What a store must hold, and what it may hold after a failure.

use std::collections::BTreeMap;

use ppc_engine::Durability;

use super::ops::{KEYSPACES, Write, key_bytes, range_between, value_bytes};

/// The contents of all keyspaces.
pub type Maps = [BTreeMap<Vec<u8>, Vec<u8>>; KEYSPACES];

/// A batch, and the number that its values are made of.
type Numbered = (usize, Vec<Write>);

/// Every batch that was acknowledged, in order, and how far back a failure may reach.
#[derive(Default)]
pub struct History {
    /// The state that survives a power cut.
    durable: Maps,
    /// What was acknowledged since.
    acknowledged: Vec<Numbered>,
    /// How many of these survive the end of the process.
    handed_over: usize,
    /// Reported as failed since the last success: not visible, but opening the store may find one
    /// of them in the log, after everything that was acknowledged.
    failed: Vec<Numbered>,
    next_number: usize,
    /// What readers must see.
    pub maps: Maps,
}

/// What ended the store's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was closed, without an error.
    Closed,
    /// It was closed, but calls had failed, perhaps those of closing.
    ClosedAfterFailure,
    Killed,
    PowerCut,
}

impl History {
    /// The number of the next batch.
    pub fn next_number(&self) -> usize {
        self.next_number
    }

    /// Takes in a batch that was acknowledged.
    pub fn acknowledge(&mut self, writes: Vec<Write>, durability: Durability) {
        apply(&mut self.maps, self.next_number, &writes);
        self.acknowledged.push((self.next_number, writes));
        self.next_number += 1;
        // A log that failed is given up before another write succeeds, with all that is in it.
        self.failed.clear();
        if durability >= Durability::Buffered {
            self.handed_over = self.acknowledged.len();
        }
        if durability == Durability::Sync {
            self.set_durable();
        }
    }

    /// Takes in a batch that was reported as failed.
    pub fn fail(&mut self, writes: Vec<Write>) {
        self.failed.push((self.next_number, writes));
        self.next_number += 1;
    }

    /// Takes in a batch that was reported as failed, of which nothing may ever be found.
    pub fn refuse(&mut self) {
        self.next_number += 1;
    }

    /// Everything acknowledged was made to survive power cuts.
    pub fn set_durable(&mut self) {
        for (number, writes) in self.acknowledged.drain(..) {
            apply(&mut self.durable, number, &writes);
        }
        self.handed_over = 0;
    }

    /// Takes over what the store held when it was opened again, which must be a state that its
    /// history allows: some number of acknowledged batches, no fewer than `ending` spares, and
    /// after all of them perhaps one that failed.
    pub fn settle(&mut self, found: &Maps, ending: Ending) {
        let least = match ending {
            Ending::Closed => self.acknowledged.len(),
            Ending::ClosedAfterFailure | Ending::Killed => self.handed_over,
            Ending::PowerCut => 0,
        };
        let mut maps = self.durable.clone();
        // The most batches that lead to what was found, where some undo each other.
        let mut kept = (least == 0 && maps == *found).then_some(0);
        for (index, (number, writes)) in self.acknowledged.iter().enumerate() {
            apply(&mut maps, *number, writes);
            if index + 1 >= least && maps == *found {
                kept = Some(index + 1);
            }
        }
        match kept {
            Some(kept) => self.acknowledged.truncate(kept),
            None => {
                let failed = self.find_failed(&maps, found, ending);
                self.acknowledged.push(failed);
            }
        }
        self.failed.clear();
        self.handed_over = self.acknowledged.len();
        self.maps.clone_from(found);
        // What a power cut left is on the disk, and so is what closing saved. What a process left
        // that was killed, or could not sync, can be seen, but need not be on the disk.
        if ending == Ending::PowerCut || (ending == Ending::Closed && kept.is_some()) {
            self.set_durable();
        }
    }

    /// The failed batch that was in the log all the same and leads from `complete`, everything
    /// acknowledged, to `found`. Two cannot be: the log is given up after the first.
    fn find_failed(&self, complete: &Maps, found: &Maps, ending: Ending) -> Numbered {
        let explains = |(number, writes): &&Numbered| {
            let mut maps = complete.clone();
            apply(&mut maps, *number, writes);
            maps == *found
        };
        let explanation = self.failed.iter().find(explains);
        let explanation = explanation.unwrap_or_else(|| {
            panic!(
                "{ending:?}: {} acknowledged and {} failed batches since the last durable state \
                 do not lead to what was found: {}",
                self.acknowledged.len(),
                self.failed.len(),
                difference(&self.maps, found)
            )
        });
        explanation.clone()
    }
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

/// The first keys that differ, and how.
fn difference(expected: &Maps, found: &Maps) -> String {
    let mut lines = Vec::new();
    for (keyspace, (expected, found)) in expected.iter().zip(found).enumerate() {
        let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        for key in keys {
            let (expected, found) = (expected.get(key), found.get(key));
            if expected != found {
                let show = |value: Option<&Vec<u8>>| {
                    value.map(|value| value.iter().take(24).copied().collect::<Vec<_>>())
                };
                let show = |value| match show(value) {
                    Some(value) => format!("{:?}", String::from_utf8_lossy(&value)),
                    None => "nothing".to_owned(),
                };
                let key = key.escape_ascii();
                let (expected, found) = (show(expected), show(found));
                lines.push(format!("k{keyspace}/{key}: {expected} is now {found}"));
            }
        }
    }
    lines.truncate(8);
    lines.join("; ")
}
