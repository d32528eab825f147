//! What a salvaged archive misses: the contents that an index knows and `contents` has not. And
//! finding them again among values whose keys were lost with the key blocks beside them.
//!
//! Of such values only their bytes are left, several of one frame end to end. A content is known by
//! its hash, so a border is where the bytes before it have a hash that is missed. A git hash begins
//! with the length, so each border tried costs a hash of its own; those behind line breaks are tried
//! first, since most files end in one, and what is spent on one stretch is bounded.
//!
//! Nothing can be mistaken for another content, and what was deleted does not come back: no index
//! knows it.

use std::collections::HashMap;
use std::ops::Range;

use ppc_engine::{Durability, IterOptions, KeyRange};

use super::Archive;
use crate::hash::Sha1Git;
use crate::key::PpcKey;
use crate::progress::{Observer, Wish};
use crate::{Error, ErrorKind, Result};

/// Bytes that are hashed at most to find the contents of one stretch: about a quarter of a second.
/// A block of 64 KiB that is all missed takes a thirtieth of it.
const HASHED_BYTES_MAX: u64 = 256 << 20;
/// What a hash costs beside its bytes.
const HASH_BYTES_MIN: u64 = 128;

/// Contents that an index leads to and that are not there. Takes memory for each.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    keys: HashMap<Sha1Git, PpcKey>,
}

impl Missing {
    /// Their keys, in order.
    pub(crate) fn into_keys(self) -> Vec<PpcKey> {
        let mut keys: Vec<PpcKey> = self.keys.into_values().collect();
        keys.sort_unstable();
        keys
    }
}

impl Archive {
    /// What every index knows and the archive has not.
    pub(crate) fn missing(&self, observer: &dyn Observer) -> Result<Missing> {
        let mut missing = Missing::default();
        for index in &self.inner.indexes {
            let entries = index
                .keyspace()
                .iter(KeyRange::all(), IterOptions::default())?;
            for entry in entries {
                if observer.wish() != Wish::GoOn {
                    return Err(Error::new(ErrorKind::Cancelled, "the salvage was stopped"));
                }
                let (hash, value) = entry?;
                let Ok(key) = PpcKey::decode(&index.encoded_key(&hash, &value)) else {
                    continue;
                };
                if !self.inner.contents.contains(key.encode())? {
                    missing.keys.insert(key.hash(), key);
                }
            }
        }
        // An empty content lies beside its key, if anywhere.
        self.take_back(&mut missing, &[])?;
        Ok(missing)
    }

    /// Stores the missing contents that `stretch` consists of, as far as they can be told, and says
    /// how many they were. The index entries are for [`Archive::repair`] to add.
    pub(crate) fn find_missing(&self, missing: &mut Missing, stretch: &[u8]) -> Result<u64> {
        if missing.keys.is_empty() {
            return Ok(0);
        }
        let found = Search::new(stretch, &missing.keys).run();
        let mut count = 0;
        for range in found {
            let content = stretch.get(range).unwrap_or_default();
            count += u64::from(self.take_back(missing, content)?);
        }
        Ok(count)
    }

    fn take_back(&self, missing: &mut Missing, content: &[u8]) -> Result<bool> {
        let Some(key) = missing.keys.remove(&Sha1Git::of(content)) else {
            return Ok(false);
        };
        let contents = &self.inner.contents;
        contents.put(key.encode(), content, Durability::Buffered)?;
        Ok(true)
    }
}

/// Where a border may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Borders {
    BehindLines,
    Anywhere,
}

/// The search for missing contents in bytes that hold values end to end.
struct Search<'a> {
    bytes: &'a [u8],
    missing: &'a HashMap<Sha1Git, PpcKey>,
    /// Bytes that may still be hashed.
    budget: u64,
    /// What is left between the contents found at either end.
    rest: Range<usize>,
}

impl<'a> Search<'a> {
    fn new(bytes: &'a [u8], missing: &'a HashMap<Sha1Git, PpcKey>) -> Self {
        Self {
            bytes,
            missing,
            budget: HASHED_BYTES_MAX,
            rest: 0..bytes.len(),
        }
    }

    fn run(mut self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        while let Some(range) = self.next() {
            found.push(range);
        }
        found
    }

    /// One more content, the cheapest ways to find one first.
    fn next(&mut self) -> Option<Range<usize>> {
        if self.rest.is_empty() {
            return None;
        }
        if self.is_missing(&self.rest.clone()) {
            return Some(std::mem::take(&mut self.rest));
        }
        for borders in [Borders::BehindLines, Borders::Anywhere] {
            let found = self.at_front(borders).or_else(|| self.at_back(borders));
            if found.is_some() {
                return found;
            }
        }
        self.further_in()
    }

    /// The content that begins where the rest does.
    fn at_front(&mut self, borders: Borders) -> Option<Range<usize>> {
        let (bytes, Range { start, end }) = (self.bytes, self.rest.clone());
        let range = (start + 1..end)
            .filter(|&at| may_part(bytes, at, borders))
            .map(|at| start..at)
            .find(|range| self.is_missing(range))?;
        self.rest.start = range.end;
        Some(range)
    }

    /// The content that ends where the rest does.
    fn at_back(&mut self, borders: Borders) -> Option<Range<usize>> {
        let (bytes, Range { start, end }) = (self.bytes, self.rest.clone());
        let range = (start + 1..end)
            .rev()
            .filter(|&at| may_part(bytes, at, borders))
            .map(|at| at..end)
            .find(|range| self.is_missing(range))?;
        self.rest.end = range.start;
        Some(range)
    }

    /// The first content that has others around it which nobody misses. What lies before it is
    /// given up.
    fn further_in(&mut self) -> Option<Range<usize>> {
        while self.budget > 0 && !self.rest.is_empty() {
            let Range { start, end } = self.rest;
            self.rest.start = (start + 1..end)
                .find(|&at| may_part(self.bytes, at, Borders::BehindLines))
                .unwrap_or(end);
            let found = self.at_front(Borders::BehindLines);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn is_missing(&mut self, range: &Range<usize>) -> bool {
        let cost = range.len() as u64 + HASH_BYTES_MIN;
        let Some(budget) = self.budget.checked_sub(cost) else {
            self.budget = 0;
            return false;
        };
        self.budget = budget;
        let content = self.bytes.get(range.clone()).unwrap_or_default();
        self.missing.contains_key(&Sha1Git::of(content))
    }
}

/// Whether one value may end and another begin at `at`.
fn may_part(bytes: &[u8], at: usize, borders: Borders) -> bool {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    borders == Borders::Anywhere || before == Some(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(contents: &[&[u8]]) -> HashMap<Sha1Git, PpcKey> {
        contents
            .iter()
            .map(|content| PpcKey::of(&b"a.c"[..], content).unwrap())
            .map(|key| (key.hash(), key))
            .collect()
    }

    fn found<'a>(stretch: &'a [u8], contents: &[&[u8]]) -> Vec<&'a [u8]> {
        let missing = missing(contents);
        let mut found = Search::new(stretch, &missing).run();
        found.sort_unstable_by_key(|range| range.start);
        found.into_iter().map(|range| &stretch[range]).collect()
    }

    #[test]
    fn contents_end_to_end_are_told_apart_by_their_hashes() {
        let contents: [&[u8]; 4] = [b"a\nb\n", b"no line break", b"c\n", b"d\ne\nf\n"];
        assert_eq!(found(&contents.concat(), &contents), contents);
        for alone in contents {
            assert_eq!(found(alone, &contents), [alone]);
        }
    }

    #[test]
    fn what_nobody_misses_does_not_hide_its_neighbours() {
        let all: [&[u8]; 5] = [
            b"gone\n1\n",
            b"here\n1\n",
            b"gone\n2\n",
            b"here\n2\n",
            b"x\n",
        ];
        let wanted = [all[1], all[3]];
        assert_eq!(found(&all.concat(), &wanted), wanted);
        assert!(found(&all.concat(), &[b"elsewhere\n"]).is_empty());
    }

    /// A stretch of long lines that nobody misses is not worth hours.
    #[test]
    fn a_search_ends_when_it_has_cost_enough() {
        let stretch = vec![b'\n'; 1 << 20];
        let missing = missing(&[b"elsewhere\n"]);
        let mut search = Search::new(&stretch, &missing);
        search.budget = 4 << 20;
        assert!(search.run().is_empty());
    }
}
