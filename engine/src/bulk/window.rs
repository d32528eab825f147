//! Replacement selection: turns puts in any order into few sorted runs, in bounded memory.
//!
//! The window holds as many entries as memory allows. When it is full, the smallest that can still
//! follow what was written of the current run leaves it for that run; an entry that comes too late
//! for the current run waits in the window for the next one. So sorted input makes one run however
//! long it is, nearly sorted input too as long as nothing comes later than a window's worth, and
//! random input makes runs of twice the window on average.
//!
//! As long as every key is larger than all before it, nothing gains by waiting, and a window that fills
//! memory only to be emptied again costs a page fault for every page: then a small part of it is
//! enough. It becomes as large as memory allows with the first key that is out of order, which must
//! not be later than that part holds, or it begins another run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;

use super::arrival::Arrival;

/// What an entry costs beyond its key and value: its share of a tree node, the handles of key and
/// value, and what the allocator rounds up.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// The window of one keyspace. See the module's head.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// By run, then by key.
    entries: BTreeMap<(u32, Box<[u8]>), Bytes>,
    memory_bytes: usize,
    /// The run being written.
    run: u32,
    /// The last key that left for it.
    last: Option<Box<[u8]>>,
    /// How the entries arrive of the first run of which none has left.
    arrival: Arrival,
    /// Whether those of the run being written arrived in order, until it began.
    in_order: bool,
    /// Some key was smaller than one before it.
    disordered: bool,
}

/// An entry that leaves the window for the run it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) run: u32,
    pub(super) key: Box<[u8]>,
    pub(super) value: Bytes,
}

impl Window {
    /// Takes an entry in. Returns whether it replaced an earlier one of the same key.
    pub(super) fn insert(&mut self, key: &[u8], value: Bytes) -> bool {
        let too_late = self.last.as_deref().is_some_and(|last| key <= last);
        let run = if too_late { self.run + 1 } else { self.run };
        if too_late || self.last.is_none() {
            self.arrival.note(key);
        }
        self.disordered |= too_late || self.largest().is_some_and(|largest| key < largest);
        let value_len = value.len();
        match self.entries.entry((run, key.into())) {
            Entry::Vacant(vacant) => {
                vacant.insert(value);
                self.memory_bytes += key.len() + value_len + ENTRY_OVERHEAD_BYTES;
                false
            }
            Entry::Occupied(mut occupied) => {
                let previous = occupied.insert(value);
                self.memory_bytes = self.memory_bytes - previous.len() + value_len;
                true
            }
        }
    }

    /// Lets the next entry go.
    pub(super) fn pop(&mut self) -> Option<Leaving> {
        let ((run, key), value) = self.entries.pop_first()?;
        self.memory_bytes -= key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if run != self.run || self.last.is_none() {
            self.in_order = std::mem::take(&mut self.arrival).is_in_order();
        }
        self.run = run;
        match &mut self.last {
            // Most keys fit the buffer of the one before; a box of the same length is reused.
            Some(last) if last.len() == key.len() => last.copy_from_slice(&key),
            last => *last = Some(key.clone()),
        }
        Some(Leaving { run, key, value })
    }

    /// Whether the entries of the run being written that were in the window when it began had come in
    /// the order of their keys, or nearly.
    pub(super) fn run_is_in_order(&self) -> bool {
        self.in_order
    }

    /// The largest key held.
    pub(super) fn largest(&self) -> Option<&[u8]> {
        let ((_, key), _) = self.entries.last_key_value()?;
        Some(key)
    }

    /// Whether keys have only ascended, and the window holds more than `bytes` of them.
    pub(super) fn is_ahead_by(&self, bytes: usize) -> bool {
        // The last key stays: it may be put again.
        !self.disordered && self.memory_bytes > bytes && self.entries.len() > 1
    }

    /// Bytes held, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Runs of a load with a window of `entries_max` entries.
    fn runs(keys: &[Vec<u8>], entries_max: usize) -> Vec<Vec<(Vec<u8>, Bytes)>> {
        let mut window = Window::default();
        let mut runs: Vec<Vec<(Vec<u8>, Bytes)>> = Vec::new();
        let mut leave = |leaving: Leaving| {
            runs.resize_with(runs.len().max(leaving.run as usize + 1), Vec::new);
            runs[leaving.run as usize].push((leaving.key.into(), leaving.value));
        };
        for (at, key) in keys.iter().enumerate() {
            window.insert(key, Bytes::from(at.to_string()));
            while window.entries.len() > entries_max {
                leave(window.pop().unwrap());
            }
        }
        while let Some(leaving) = window.pop() {
            leave(leaving);
        }
        assert_eq!(window.memory_bytes(), 0);
        runs
    }

    fn big_endian(numbers: impl IntoIterator<Item = u32>) -> Vec<Vec<u8>> {
        let keys = numbers
            .into_iter()
            .map(|number| number.to_be_bytes().to_vec());
        keys.collect()
    }

    #[test]
    fn sorted_and_nearly_sorted_input_make_one_run() {
        assert_eq!(runs(&big_endian(0..1000), 10).len(), 1);
        let shuffled_nearby = (0..1000).map(|number| number ^ 7);
        assert_eq!(runs(&big_endian(shuffled_nearby), 10).len(), 1);
        assert_eq!(runs(&big_endian((0..10).rev()), 10).len(), 1);
    }

    #[test]
    fn random_input_makes_runs_of_twice_the_window() {
        let random = (0..10_000u32).map(|number| number.wrapping_mul(2_654_435_761));
        let count = runs(&big_endian(random), 100).len();
        assert!((40..=65).contains(&count), "{count} runs");
    }

    proptest! {
        /// Runs ascend strictly, and the newest put of a key is in the last run that has the key.
        #[test]
        fn runs_hold_what_was_put(
            keys in prop::collection::vec(prop::collection::vec(0u8..4, 0..3), 0..200),
            entries_max in 0usize..20,
        ) {
            let expected: BTreeMap<Vec<u8>, Bytes> = keys
                .iter()
                .enumerate()
                .map(|(at, key)| (key.clone(), Bytes::from(at.to_string())))
                .collect();
            let mut loaded = BTreeMap::new();
            for run in runs(&keys, entries_max) {
                prop_assert!(run.windows(2).all(|pair| pair[0].0 < pair[1].0));
                loaded.extend(run);
            }
            prop_assert_eq!(loaded, expected);
        }
    }
}
