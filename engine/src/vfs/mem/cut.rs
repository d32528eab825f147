//! What a power cut leaves of a file system in memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Change, Content, Dir, Inode, Tree};

/// Unsynced bytes survive or vanish in units of this many, as pages of a cache do.
const PAGE_BYTES: usize = 4096;

/// How a power cut treats what was not synced.
///
/// Synced bytes of files whose directory entry was synced always survive. Each unsynced page of
/// a file and each unsynced change of a directory survives with `keep_percent`, independently
/// and therefore in any order; some survive in part: a page as its first bytes and zeros, a rename
/// as both names. A page that is lost before one that is kept reads as zeros, and so may the end
/// of a file whose new length survived while its bytes did not. Bytes that a failed sync gave up
/// fare like unsynced ones. A truncation that was not synced survives or is as if it never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCut {
    /// Decides everything: equal seeds on equal file systems give equal results.
    pub seed: u64,
    /// Chance of each unsynced unit to survive, in percent: 0 keeps only what was synced, 100
    /// keeps everything.
    pub keep_percent: u8,
}

impl PowerCut {
    pub(super) fn apply(self, tree: &Tree) -> Tree {
        let mut dice = Dice {
            state: self.seed,
            keep_percent: self.keep_percent,
        };
        // Several names of one file stay names of one file.
        let mut survivors: HashMap<*const Mutex<Content>, Inode> = HashMap::new();
        let mut dirs = BTreeMap::new();
        for (path, dir) in &tree.dirs {
            let mut entries = BTreeMap::new();
            for (name, inode) in cut_entries(dir, &mut dice) {
                let survivor = survivors.entry(Arc::as_ptr(&inode)).or_insert_with(|| {
                    let content = cut_content(&inode.lock(), &mut dice);
                    Arc::new(Mutex::new(content))
                });
                entries.insert(name, Arc::clone(survivor));
            }
            let survivor = Dir {
                synced: entries.clone(),
                entries,
                changes: Vec::new(),
            };
            dirs.insert(path.clone(), survivor);
        }
        Tree {
            dirs,
            capacity_bytes: tree.capacity_bytes,
        }
    }
}

fn cut_entries(dir: &Dir, dice: &mut Dice) -> BTreeMap<String, Inode> {
    let mut entries = dir.synced.clone();
    for change in &dir.changes {
        if !dice.keep() {
            continue;
        }
        let half_kept = match change {
            Change::Rename { from, .. } if dice.partial() => entries.get_key_value(from),
            _ => None,
        };
        let half_kept = half_kept.map(|(name, inode)| (name.clone(), Arc::clone(inode)));
        change.apply(&mut entries);
        entries.extend(half_kept);
    }
    entries
}

fn cut_content(content: &Content, dice: &mut Dice) -> Content {
    let content = match &content.before_cut {
        Some(before) if !dice.keep() => before,
        _ => content,
    };
    let mut bytes = content
        .bytes
        .get(..content.synced_len)
        .unwrap_or_default()
        .to_vec();
    cut_lost(content, &mut bytes, dice);
    for Range { start, end } in pages(content.synced_len..content.bytes.len()) {
        let page = content.bytes.get(start..end).unwrap_or_default();
        if dice.keep() {
            let kept = if dice.partial() {
                dice.below(page.len() + 1)
            } else {
                page.len()
            };
            bytes.resize(start, 0);
            bytes.extend_from_slice(page.get(..kept).unwrap_or_default());
            bytes.resize(end, 0);
        }
    }
    if dice.partial() && dice.keep() {
        bytes.resize(content.bytes.len(), 0);
    }
    Content {
        synced_len: bytes.len(),
        bytes: Arc::new(bytes),
        lost: Vec::new(),
        before_cut: None,
    }
}

/// Takes out of the synced part of a file what a failed sync gave up: it reads as zeros, or, at the
/// end, is not there at all.
fn cut_lost(content: &Content, bytes: &mut Vec<u8>, dice: &mut Dice) {
    let mut len = bytes.len();
    for page in content.lost.iter().cloned().flat_map(pages).rev() {
        if dice.keep() {
            continue;
        }
        if page.end == len && !dice.keep() {
            len = page.start;
        }
        if let Some(lost) = bytes.get_mut(page) {
            lost.fill(0);
        }
    }
    bytes.truncate(len);
}

/// Splits a range at the ends of pages.
fn pages(range: Range<usize>) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let first = range.start / PAGE_BYTES;
    let last = range.end.div_ceil(PAGE_BYTES);
    (first..last).map(move |page| {
        let start = (page * PAGE_BYTES).max(range.start);
        start..((page + 1) * PAGE_BYTES).min(range.end)
    })
}

/// SplitMix64: small, seeded by any number, and good enough to shuffle pages.
struct Dice {
    state: u64,
    keep_percent: u8,
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn keep(&mut self) -> bool {
        self.below(100) < usize::from(self.keep_percent)
    }

    /// Whether a kept unit is kept in part only. Never where everything is to be kept.
    fn partial(&mut self) -> bool {
        self.below(4) == 0 && self.keep_percent < 100
    }
}
