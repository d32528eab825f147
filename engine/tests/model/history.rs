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
    acknowledged: Vec<Numbered>,
    /// How many of them survive the end of the process.
    handed_over: usize,
    /// How many of them survive a power cut.
    durable: usize,
    /// Reported as failed since the last success: not visible, but opening the store may find any
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
            self.durable = self.acknowledged.len();
        }
    }

    /// Takes in a batch that was reported as failed.
    pub fn fail(&mut self, writes: Vec<Write>) {
        self.failed.push((self.next_number, writes));
        self.next_number += 1;
    }

    /// Everything acknowledged was made to survive power cuts.
    pub fn set_durable(&mut self) {
        self.durable = self.acknowledged.len();
        self.handed_over = self.durable;
    }

    /// Takes over what the store held when it was opened again, which must be a state that its
    /// history allows: some number of acknowledged batches, no fewer than `ending` spares, and
    /// after all of them perhaps some that failed.
    pub fn settle(&mut self, found: &Maps, ending: Ending) {
        let least = match ending {
            Ending::Closed => self.acknowledged.len(),
            Ending::ClosedAfterFailure => self.handed_over,
            Ending::PowerCut => self.durable,
        };
        let mut maps = Maps::default();
        let mut count = 0;
        for (number, writes) in self.acknowledged.iter().take(least) {
            apply(&mut maps, *number, writes);
            count += 1;
        }
        while maps != *found {
            let Some((number, writes)) = self.acknowledged.get(count) else {
                self.settle_failed(maps, found, ending, least);
                count = self.acknowledged.len();
                break;
            };
            apply(&mut maps, *number, writes);
            count += 1;
        }
        self.acknowledged.truncate(count);
        self.failed.clear();
        self.set_durable();
        self.maps.clone_from(found);
    }

    /// Finds the failed batches that were in the log all the same, and acknowledges them.
    fn settle_failed(&mut self, complete: Maps, found: &Maps, ending: Ending, least: usize) {
        let mut states = vec![(complete, Vec::new())];
        for batch in std::mem::take(&mut self.failed) {
            let more = states.iter().map(|(maps, batches)| {
                let mut maps: Maps = maps.clone();
                apply(&mut maps, batch.0, &batch.1);
                let mut batches: Vec<Numbered> = batches.clone();
                batches.push(batch.clone());
                (maps, batches)
            });
            let more: Vec<_> = more.collect();
            states.extend(more);
            // Failures that change nothing would double the states each time.
            states.dedup_by(|a, b| a.0 == b.0);
            states.truncate(256);
        }
        match states.into_iter().find(|(maps, _)| maps == found) {
            Some((_, batches)) => self.acknowledged.extend(batches),
            None => panic!(
                "{ending:?}: found no state between batch {least} and {} of the history: {}",
                self.acknowledged.len(),
                difference(&self.maps, found)
            ),
        }
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
