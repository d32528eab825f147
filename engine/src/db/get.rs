//! Point reads: where a key's newest visible entry is, and its value.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::inner::DbInner;
use super::space::{Space, View};
use super::tables::OpenedTable;
use crate::error::Result;
use crate::stats::{Counter, GetTrace};
use crate::table::{Place, ReadContext, key_hash};
use crate::types::{EntryKind, FileNumber, SeqNo};

/// Where a key's value is.
pub(super) enum Located {
    /// The reader sees no value.
    Absent,
    /// In a memtable.
    Value(Bytes),
    /// In a table; reading it may decode a frame.
    Placed(FileNumber, Arc<OpenedTable>, Place),
}

impl DbInner {
    /// Finds the key's value as a reader at `seq` sees it. Searches the sources from the newest
    /// data to the oldest and stops at the first entry or range tombstone that it meets: whatever
    /// lies deeper is older. Reads no frame.
    pub(super) fn locate(
        &self,
        view: &View,
        key: &[u8],
        seq: SeqNo,
        context: &ReadContext<'_>,
    ) -> Result<Located> {
        if let Some(located) = locate_in_memtables(view, key, seq, context) {
            return Ok(located);
        }
        let mut hash = None;
        for (level, meta) in view.version.candidates(key) {
            if let Some(trace) = context.trace {
                trace.borrow_mut().enter_table(level, meta.number);
            }
            let table = self.opened_table(meta)?;
            let deleted = table.tombstones.covering(key, seq);
            let hash = *hash.get_or_insert_with(|| key_hash(key));
            if let Some(found) = table.reader.find(key, hash, seq, context)? {
                if found.kind == EntryKind::Delete || found.seq < deleted {
                    return Ok(Located::Absent);
                }
                return Ok(Located::Placed(meta.number, table, found.place));
            }
            if deleted > SeqNo::ZERO {
                note_range_deleted(context);
                return Ok(Located::Absent);
            }
        }
        Ok(Located::Absent)
    }

    /// The key's value; at the newest state unless a snapshot's number is given.
    pub(super) fn get(
        &self,
        space: &Space,
        key: &[u8],
        snapshot: Option<SeqNo>,
        trace: Option<&RefCell<GetTrace>>,
    ) -> Result<Option<Bytes>> {
        self.check_readable(space)?;
        let timer = self.latencies.start_sampled(&self.latencies.gets);
        let context = self.read_context(trace);
        let view = space.view();
        let seq = snapshot.unwrap_or_else(|| self.visible_seq());
        let value = match self.locate(&view, key, seq, &context) {
            Ok(Located::Absent) => Ok(None),
            Ok(Located::Value(value)) => Ok(Some(value)),
            Ok(Located::Placed(_, table, place)) => table.reader.read(&place, &context).map(Some),
            Err(error) => Err(error),
        };
        let value = value.map_err(|error| error.in_keyspace(&space.name))?;
        self.count_get(value.as_ref().map(Bytes::len));
        timer.stop();
        Ok(value)
    }

    /// As [`DbInner::get`], into the caller's buffer; false, and an empty buffer, if there is no
    /// value.
    pub(super) fn get_into(
        &self,
        space: &Space,
        key: &[u8],
        snapshot: Option<SeqNo>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_readable(space)?;
        let timer = self.latencies.start_sampled(&self.latencies.gets);
        out.clear();
        let context = self.read_context(None);
        let view = space.view();
        let seq = snapshot.unwrap_or_else(|| self.visible_seq());
        let found = match self.locate(&view, key, seq, &context) {
            Ok(Located::Absent) => Ok(false),
            Ok(Located::Value(value)) => {
                out.extend_from_slice(&value);
                Ok(true)
            }
            Ok(Located::Placed(_, table, place)) => {
                let read = table.reader.read_into(&place, out, &context);
                read.map(|()| true)
            }
            Err(error) => Err(error),
        };
        let found = found.map_err(|error| error.in_keyspace(&space.name))?;
        self.count_get(found.then_some(out.len()));
        timer.stop();
        Ok(found)
    }

    /// Whether the key has a value. Decodes no frame.
    pub(super) fn contains(
        &self,
        space: &Space,
        key: &[u8],
        snapshot: Option<SeqNo>,
    ) -> Result<bool> {
        self.check_readable(space)?;
        let context = self.read_context(None);
        let view = space.view();
        let seq = snapshot.unwrap_or_else(|| self.visible_seq());
        let located = self.locate(&view, key, seq, &context);
        let located = located.map_err(|error| error.in_keyspace(&space.name))?;
        Ok(!matches!(located, Located::Absent))
    }

    pub(super) fn count_get(&self, found_bytes: Option<usize>) {
        self.stats.add(Counter::Gets, 1);
        if let Some(bytes) = found_bytes {
            self.stats.add(Counter::GetsFound, 1);
            self.stats.add(Counter::GetReturnedBytes, bytes as u64);
        }
    }

    /// Fails on a closed store and on a keyspace that was dropped.
    pub(super) fn check_readable(&self, space: &Space) -> Result<()> {
        self.check_open()?;
        if space.is_dropped() {
            return Err(space.dropped_error());
        }
        Ok(())
    }
}

fn locate_in_memtables(
    view: &View,
    key: &[u8],
    seq: SeqNo,
    context: &ReadContext<'_>,
) -> Option<Located> {
    for memtable in view.memtables() {
        if let Some(trace) = context.trace {
            trace.borrow_mut().memtables += 1;
        }
        let deleted = memtable.tombstone_over(key, seq);
        if let Some(entry) = memtable.get(key, seq) {
            if let Some(trace) = context.trace {
                trace.borrow_mut().found_in_memtable = true;
            }
            if entry.kind == EntryKind::Delete || entry.seq < deleted {
                return Some(Located::Absent);
            }
            return Some(Located::Value(entry.value));
        }
        if deleted > SeqNo::ZERO {
            note_range_deleted(context);
            return Some(Located::Absent);
        }
    }
    None
}

fn note_range_deleted(context: &ReadContext<'_>) {
    if let Some(trace) = context.trace {
        trace.borrow_mut().range_deleted = true;
    }
}
