//! The reader: drives the sources, one after the other, and groups what they yield into batches.
//!
//! Memory for a batch is taken from the budget when it is handed on, not item by item: while the
//! reader waits it holds none of the budget, so the wait always ends. What is in its hands beyond
//! the budget is one batch, which is one file or [`BATCH_BYTES`] longer than that at most.

use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;

use super::Context;
use super::sources::Sources;
use super::worker::Batch;
use crate::budget::Budget;
use crate::progress::Wish;
use crate::source::{Progress, SourceItem};
use crate::{Error, ErrorKind, Result};

/// Bytes at which a batch is handed on: large enough that the hand-over costs nothing, small
/// enough that every worker has one.
const BATCH_BYTES: usize = 256 << 10;
/// Charged for each item beside its bytes: the item itself, and the allocator's share.
const ITEM_BYTES: usize = 512;

/// How reading ended. What was handed on is whole in any case.
pub(super) struct ReadOutcome {
    /// Batches handed on.
    pub(super) batch_count: u64,
    /// Whether the observer asked for an early end.
    pub(super) is_interrupted: bool,
    /// The error of the source at which reading ended, if it was one that ended it.
    pub(super) failure: Option<Error>,
}

/// Why reading ended before the sources did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The observer asked.
    Asked,
    /// The other side of the pipeline is gone, and knows why.
    Hangup,
}

struct Reader<'a> {
    context: Context<'a>,
    budget: &'a Budget,
    batches: Sender<Batch>,
    /// How far the source being read is.
    current: Option<Progress>,
    /// Bytes of the sources before it.
    finished_bytes: u64,
    items: Vec<SourceItem>,
    items_bytes: usize,
    batch_count: u64,
    end: Option<End>,
}

/// Reads all sources, up to the first that fails.
pub(super) fn run(
    mut sources: Sources,
    context: Context<'_>,
    budget: &Budget,
    batches: Sender<Batch>,
) -> ReadOutcome {
    let mut reader = Reader {
        context,
        budget,
        batches,
        current: None,
        finished_bytes: 0,
        items: Vec::new(),
        items_bytes: 0,
        batch_count: 0,
        end: None,
    };
    let mut failure = None;
    while let Some(source) = sources.next() {
        let outcome = source.and_then(|mut source| {
            reader.current = Some(source.progress().clone());
            source.read(&mut |item| reader.take(item))
        });
        if reader.end.is_some() {
            break;
        }
        if let Err(error) = outcome {
            failure = Some(error);
            break;
        }
        reader.finished_bytes = reader.source_bytes();
        reader.current = None;
    }
    if !reader.items.is_empty() && reader.end != Some(End::Hangup) {
        reader.hand_on();
    }
    ReadOutcome {
        batch_count: reader.batch_count,
        is_interrupted: reader.end == Some(End::Asked),
        failure,
    }
}

impl Reader<'_> {
    /// Takes one item. The error it may return only makes the source stop.
    fn take(&mut self, item: SourceItem) -> Result<()> {
        if self.context.observer.wish() != Wish::GoOn {
            self.end = Some(End::Asked);
            return Err(stop());
        }
        self.items_bytes += ITEM_BYTES;
        if let SourceItem::File(file) = &item {
            self.items_bytes += file.content.len();
        }
        self.items.push(item);
        if self.items_bytes >= BATCH_BYTES {
            self.hand_on();
        }
        match self.end {
            Some(_) => Err(stop()),
            None => Ok(()),
        }
    }

    /// Bytes read so far, as the sources count them.
    fn source_bytes(&self) -> u64 {
        let current = self.current.as_ref().map(Progress::read_bytes);
        self.finished_bytes + current.unwrap_or_default()
    }

    fn hand_on(&mut self) {
        let source_bytes = self.source_bytes();
        self.context
            .source_bytes
            .store(source_bytes, Ordering::Relaxed);
        let Some(permit) = self.budget.take(self.items_bytes) else {
            self.end = Some(End::Hangup);
            return;
        };
        let batch = Batch {
            ordinal: self.batch_count,
            items: std::mem::take(&mut self.items),
            permit,
        };
        self.items_bytes = 0;
        match self.batches.send(batch) {
            Ok(()) => self.batch_count += 1,
            Err(_) => self.end = Some(End::Hangup),
        }
    }
}

fn stop() -> Error {
    Error::new(ErrorKind::Cancelled, "reading was stopped")
}
