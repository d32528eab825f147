//! The iterator that callers see: a range of one keyspace at one moment, both ways.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::inner::DbInner;
use super::space::{Space, View};
use super::tables::TableOpener;
use crate::error::Result;
use crate::iter::{InternalIterator, PassedOver, RangeTombstone};
use crate::options::LEVEL_COUNT;
use crate::read::{LevelIter, MergingIter, TableRun, VisibleCursor};
use crate::tombstones::TombstoneSet;
use crate::types::{KeyRange, SeqNo};

/// How an iterator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IterOptions {
    /// Values come back empty, and no frame is read. Default false.
    pub keys_only: bool,
    /// Keep the frames that the iterator decodes in the cache. Default false: a scan would push
    /// out what gets want.
    pub fill_cache: bool,
    /// Go on behind keys that cannot be read, once their error was told, instead of ending there.
    /// Walks forward only. Older entries may show that the lost keys hid. Default false.
    pub passes_over_damage: bool,
}

impl IterOptions {
    /// Keys alone.
    #[must_use]
    pub fn keys_only() -> Self {
        Self {
            keys_only: true,
            ..Self::default()
        }
    }

    /// Goes on behind damaged keys.
    #[must_use]
    pub fn passing_over_damage(mut self) -> Self {
        self.passes_over_damage = true;
        self
    }

    /// Keeps decoded frames in the cache.
    #[must_use]
    pub fn with_fill_cache(mut self) -> Self {
        self.fill_cache = true;
        self
    }
}

type Cursor = VisibleCursor<MergingIter>;

/// The keys of a range in ascending order, and from its other end with
/// [`next_back`](DoubleEndedIterator::next_back), as they stood when the iterator was made.
///
/// It owns what it reads from: memory and files stay as long as it lives. An error in one value
/// costs that item only; an error in the keys themselves ends the iteration, unless
/// [`IterOptions::passes_over_damage`] says otherwise.
pub struct Iter {
    db: Arc<DbInner>,
    keyspace: String,
    view: Arc<View>,
    seq: SeqNo,
    options: IterOptions,
    tombstones: TombstoneSet,
    range: KeyRange,
    /// What is left of the range between the two ends.
    lower: Bound<Bytes>,
    upper: Bound<Bytes>,
    front: Option<Cursor>,
    back: Option<Cursor>,
    value_len: usize,
    done: bool,
    passed_over: Option<PassedOver>,
    /// An item that waits until what was passed over before it is told.
    waiting: Option<Option<Item>>,
    /// The key of the last item.
    last_key: Option<Bytes>,
}

impl Iter {
    pub(super) fn new(
        db: &Arc<DbInner>,
        space: &Space,
        range: KeyRange,
        snapshot: Option<SeqNo>,
        options: IterOptions,
    ) -> Result<Self> {
        db.check_readable(space)?;
        let view = space.view_owned();
        let seq = snapshot.unwrap_or_else(|| db.visible_seq());
        let tombstones = db.range_tombstones(&view, &range, seq);
        let tombstones = tombstones.map_err(|error| error.in_keyspace(&space.name))?;
        let own = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| Bytes::copy_from_slice(key));
        Ok(Self {
            db: Arc::clone(db),
            keyspace: space.name.clone(),
            view,
            seq,
            options,
            tombstones: TombstoneSet::visible_at(tombstones, seq),
            lower: own(&range.start),
            upper: own(&range.end),
            range,
            front: None,
            back: None,
            value_len: 0,
            done: false,
            passed_over: options.passes_over_damage.then(PassedOver::default),
            waiting: None,
            last_key: None,
        })
    }

    /// The key of the last item, also where that is an error because its value cannot be read.
    /// None where it is the keys that cannot.
    #[must_use]
    pub fn last_key(&self) -> Option<&[u8]> {
        match &self.waiting {
            Some(_) => None,
            None => self.last_key.as_deref(),
        }
    }

    /// The length of the value that the last item has in the store. For walks over keys alone,
    /// which give no values.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// A fresh cursor, not yet placed.
    fn cursor(&self) -> Cursor {
        let passed_over = self.passed_over.clone();
        let fill_cache = self.options.fill_cache;
        let sources = sources(&self.db, &self.view, &self.range, fill_cache, passed_over);
        let merge = MergingIter::new(sources);
        VisibleCursor::new(merge, self.seq, self.options.keys_only)
    }

    fn step_front(&mut self) -> Result<Option<Item>> {
        let mut front = match self.front.take() {
            Some(front) => front,
            None => {
                let mut front = self.cursor();
                seek_to(front.merge_mut(), &self.lower)?;
                front
            }
        };
        let Some(found) = front.next(&self.tombstones)? else {
            return Ok(None);
        };
        let is_within = match &self.upper {
            Bound::Included(upper) => found.key <= upper,
            Bound::Excluded(upper) => found.key < upper,
            Bound::Unbounded => true,
        };
        if !is_within {
            return Ok(None);
        }
        self.lower = Bound::Excluded(found.key.clone());
        self.last_key = Some(found.key.clone());
        self.front = Some(front);
        self.value_len = found.value_len;
        Ok(Some(found.value.map(|value| (found.key, value))))
    }

    fn step_back(&mut self) -> Result<Option<Item>> {
        let mut back = match self.back.take() {
            Some(back) => back,
            None => {
                let mut back = self.cursor();
                seek_back_to(back.merge_mut(), &self.upper)?;
                back
            }
        };
        let Some(found) = back.prev(&self.tombstones)? else {
            return Ok(None);
        };
        let is_within = match &self.lower {
            Bound::Included(lower) => found.key >= lower,
            Bound::Excluded(lower) => found.key > lower,
            Bound::Unbounded => true,
        };
        if !is_within {
            return Ok(None);
        }
        self.upper = Bound::Excluded(found.key.clone());
        self.last_key = Some(found.key.clone());
        self.back = Some(back);
        self.value_len = found.value_len;
        Ok(Some(found.value.map(|value| (found.key, value))))
    }

    fn settle(&mut self, step: Result<Option<Item>>) -> Option<Item> {
        let item = match step {
            Ok(Some(item)) => Some(item),
            Ok(None) => None,
            Err(error) => {
                self.last_key = None;
                self.done = true;
                Some(Err(error))
            }
        };
        self.done |= item.is_none();
        item.map(|item| item.map_err(|error| error.in_keyspace(&self.keyspace)))
    }
}

type Item = Result<(Bytes, Bytes)>;

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.waiting.is_none() {
            if self.done {
                return None;
            }
            let step = self.step_front();
            let item = self.settle(step);
            if self.passed_over.as_ref().is_none_or(PassedOver::is_empty) {
                return item;
            }
            self.waiting = Some(item);
        }
        match self.passed_over.as_ref().and_then(PassedOver::take) {
            Some(error) => Some(Err(error.in_keyspace(&self.keyspace))),
            None => self.waiting.take().flatten(),
        }
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step_back();
        self.settle(step)
    }
}

impl std::iter::FusedIterator for Iter {}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("keyspace", &self.keyspace)
            .field("seq", &self.seq)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        // Files that only this iterator still needed can be removed, which the background does.
        self.front = None;
        self.back = None;
        self.view = Arc::default();
        self.db.wake_to_purge();
    }
}

impl DbInner {
    /// The range tombstones that may matter to a reader of `range` at `seq`.
    fn range_tombstones(
        &self,
        view: &View,
        range: &KeyRange,
        seq: SeqNo,
    ) -> Result<Vec<RangeTombstone>> {
        let mut tombstones: Vec<RangeTombstone> = Vec::new();
        for memtable in view.memtables() {
            tombstones.extend(memtable.range_tombstones());
        }
        for (_, table) in view.version.tables() {
            if table.range_tombstones > 0 && table.overlaps(range) {
                tombstones.extend(self.opened_table(table)?.tombstones.iter().cloned());
            }
        }
        tombstones.retain(|tombstone| tombstone.seq <= seq);
        Ok(tombstones)
    }
}

/// A cursor over each part of a view that may hold keys of the range. Tables are opened when the
/// cursors reach them.
fn sources(
    db: &Arc<DbInner>,
    view: &Arc<View>,
    range: &KeyRange,
    fill_cache: bool,
    passed_over: Option<PassedOver>,
) -> Vec<Box<dyn InternalIterator>> {
    let opener = TableOpener::passing_over(db, fill_cache, passed_over.clone());
    let walk = |run| {
        let cursor = LevelIter::new(run, Arc::clone(&opener));
        Box::new(cursor.passing_over(passed_over.clone()))
    };
    let mut sources: Vec<Box<dyn InternalIterator>> = Vec::new();
    for memtable in view.memtables() {
        if memtable.has_entries() {
            sources.push(Box::new(memtable.iter()));
        }
    }
    for table in view.version.overlapping(0, range) {
        let run = TableRun::List(vec![table]);
        sources.push(walk(run));
    }
    for level in 1..LEVEL_COUNT {
        let tables = view.version.overlapping_span(level, range);
        if tables.is_empty() {
            continue;
        }
        let run = TableRun::Level {
            version: Arc::clone(&view.version),
            level,
            tables,
        };
        sources.push(walk(run));
    }
    sources
}

/// To the first entry of the range, or behind an entry of the excluded key.
fn seek_to(merge: &mut MergingIter, lower: &Bound<Bytes>) -> Result<()> {
    match lower {
        Bound::Unbounded => merge.seek_to_first(),
        Bound::Included(key) => merge.seek(key, SeqNo::MAX),
        Bound::Excluded(key) => {
            merge.seek(key, SeqNo::ZERO)?;
            while merge.valid() && merge.key().user_key == key {
                merge.next()?;
            }
            Ok(())
        }
    }
}

/// To the last entry of the range.
fn seek_back_to(merge: &mut MergingIter, upper: &Bound<Bytes>) -> Result<()> {
    match upper {
        Bound::Unbounded => merge.seek_to_last(),
        Bound::Excluded(key) => merge.seek_before(key, SeqNo::MAX),
        Bound::Included(key) => {
            // All entries of the key are wanted: what comes before its successor.
            let successor = [key.as_ref(), &[0]].concat();
            merge.seek_before(&successor, SeqNo::MAX)
        }
    }
}
