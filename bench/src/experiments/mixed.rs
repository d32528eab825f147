//! The mixed experiment: gets between replacements and deletes, on a copy of a built store.
//!
//! Of a hundred operations eighty get a value, ten give a key the value of its successor in key
//! order (a near-duplicate, as a new version of a file is) and ten delete a key. Keys are drawn
//! uniformly, without repetition while there are any left. A model of the store, worked out
//! beforehand, says what must come back.

use std::collections::BTreeMap;
use std::time::Instant;

use ppc_store::{Error, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::reads::{Measured, Tally};
use crate::corpus::Corpus;
use crate::measure::{Meter, Probe};
use crate::peers::{Reader, Store, Update, Wanted};
use crate::results::Keys;
use crate::workload::Sequence;

const PUTS_PERCENT: u32 = 10;
const DELETES_PERCENT: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Get(u32),
    /// Gives the first key the second key's value.
    Put(u32, u32),
    Delete(u32),
}

/// Operations, and what they come to.
#[derive(Debug)]
pub(super) struct Script {
    operations: Vec<Operation>,
    /// What the gets must find.
    expected: Tally,
    /// Whose value each changed key has at the end; none if it is deleted.
    changed: BTreeMap<u32, Option<u32>>,
}

impl Script {
    pub(super) fn new(corpus: &Corpus, count: usize, seed: u64) -> Self {
        let keys = u32::try_from(corpus.len()).unwrap_or(u32::MAX);
        let mut sequence = Sequence::new(Keys::Uniform, keys, seed);
        let mut random = StdRng::seed_from_u64(seed ^ 0x006d_6978_6564);
        let mut script = Self {
            operations: Vec::with_capacity(count),
            expected: Tally::default(),
            changed: BTreeMap::new(),
        };
        for _ in 0..count {
            let key = sequence.draw();
            let drawn = random.random_range(0..100);
            script.operations.push(if drawn < PUTS_PERCENT {
                let successor = (key + 1) % keys.max(1);
                script.changed.insert(key, Some(successor));
                Operation::Put(key, successor)
            } else if drawn < PUTS_PERCENT + DELETES_PERCENT {
                script.changed.insert(key, None);
                Operation::Delete(key)
            } else {
                let holder = script.changed.get(&key).copied().unwrap_or(Some(key));
                if let Some(holder) = holder {
                    script.expected.found += 1;
                    script.expected.value_bytes += corpus.value(holder as usize).len() as u64;
                }
                Operation::Get(key)
            });
        }
        script.expected.operations = count as u64;
        script
    }

    /// Plays the script and measures it.
    pub(super) fn play(
        &self,
        store: &dyn Store,
        corpus: &Corpus,
        meter: &Meter,
    ) -> Result<Measured> {
        let mut reader = store.reader();
        let decoded_before = store.decoded_bytes();
        let probe = Probe::start(meter)?;
        let start = Instant::now();
        let tally = self.run(store, reader.as_mut(), corpus)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut costs = probe.stop()?;
        let decoded = store.decoded_bytes().zip(decoded_before);
        costs.decoded_bytes = decoded.map(|(after, before)| after.saturating_sub(before));
        if tally != self.expected {
            return Err(Error::corruption(format!(
                "mixed operations gave {tally:?} where {:?} was expected",
                self.expected
            )));
        }
        Ok(Measured {
            tally,
            seconds,
            costs,
        })
    }

    fn run(&self, store: &dyn Store, reader: &mut dyn Reader, corpus: &Corpus) -> Result<Tally> {
        let (mut found, mut value_bytes) = (0, 0);
        for &operation in &self.operations {
            match operation {
                Operation::Get(ordinal) => {
                    let key = corpus.key(ordinal as usize);
                    reader.get(Wanted { key, ordinal }, &mut |value| {
                        found += 1;
                        value_bytes += std::hint::black_box(value).len() as u64;
                    })?;
                }
                Operation::Put(ordinal, holder) => {
                    let value = corpus.value(holder as usize);
                    store.update(Update::Put(corpus.key(ordinal as usize), value))?;
                }
                Operation::Delete(ordinal) => {
                    store.update(Update::Delete(corpus.key(ordinal as usize)))?;
                }
            }
        }
        Ok(Tally {
            operations: self.operations.len() as u64,
            found,
            value_bytes,
        })
    }

    /// Checks every changed key.
    pub(super) fn check(&self, store: &dyn Store, corpus: &Corpus) -> Result<()> {
        let mut reader = store.reader();
        for (&ordinal, &holder) in &self.changed {
            let expected = holder.map(|holder| corpus.value(holder as usize));
            let key = corpus.key(ordinal as usize);
            let mut got = None;
            reader.get(Wanted { key, ordinal }, &mut |value| {
                got = Some(expected == Some(value));
            })?;
            if got.unwrap_or(expected.is_none()) {
                continue;
            }
            return Err(Error::corruption(format!(
                "key {} is not as it was left",
                key.escape_ascii()
            )));
        }
        Ok(())
    }
}
