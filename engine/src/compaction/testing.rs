//! Trees written as text, for tests that plan.
//!
//! A tree is written one level a line, `L1 7:c-f:100`: table 7 holds `c` to `f` in 100 stored
//! bytes and 100 entries. `c-f)` ends before `f`; `c-` never ends; `!30` adds tombstones, `~1` a
//! range tombstone, `@50` sets the largest sequence number (default: the table's number), `=` makes
//! it the smallest too, as in a bulk load; `%0` says that no key is there twice, `^` that it was written for
//! a merge; a trailing `*` marks a table that a running job holds.

use std::sync::Arc;

use super::plan::{Busy, JobId};
use crate::manifest::{TableMeta, Version};
use crate::types::{FileId, FileNumber, SeqNo};

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

pub(crate) fn table(text: &str) -> TableMeta {
    let mut parts = text.split(':');
    let file = number(parts.next().unwrap());
    let (smallest, largest) = parts.next().unwrap().split_once('-').unwrap();
    let stored_bytes = parts.next().map_or(100, number);
    let mut meta = TableMeta {
        number: FileNumber(file),
        id: FileId(file),
        stored_bytes,
        raw_bytes: stored_bytes,
        entries: stored_bytes,
        tombstones: 0,
        range_tombstones: 0,
        repeated_keys: None,
        provisional: false,
        smallest: smallest.as_bytes().to_vec(),
        largest: largest.trim_end_matches(')').as_bytes().to_vec(),
        largest_exclusive: largest.ends_with(')'),
        unbounded_end: largest.is_empty(),
        seq_min: SeqNo(1),
        seq_max: SeqNo(file),
        seq_base: SeqNo::ZERO,
    };
    for flag in parts {
        let (flag, value) = flag.split_at(1);
        match flag {
            "!" => meta.tombstones = number(value),
            "~" => meta.range_tombstones = number(value) as u32,
            "%" => meta.repeated_keys = Some(number(value)),
            "^" => meta.provisional = true,
            "=" => meta.seq_min = meta.seq_max,
            "@" => meta.seq_max = SeqNo(number(value)),
            _ => panic!("unknown flag {flag}"),
        }
    }
    meta
}

/// The tree, and what is held in it.
pub(crate) fn tree(text: &str) -> (Version, Busy) {
    let mut version = Version::default();
    let mut busy = Busy::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let level = number(words.next().unwrap().trim_start_matches('L')) as usize;
        for word in words {
            let meta = Arc::new(table(word.trim_end_matches('*')));
            if word.ends_with('*') {
                busy.hold(JobId(meta.number.0), vec![meta.number], None);
            }
            version.add(level, meta).unwrap();
        }
    }
    version.check().unwrap();
    (version, busy)
}
