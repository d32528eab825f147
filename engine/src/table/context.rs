//! What a read brings along: cache, counters, trace.

use std::cell::RefCell;
use std::sync::Arc;

use super::bases::HeldBases;
use crate::cache::FrameCache;
use crate::stats::{FilterOutcome, FrameTrace, GetTrace, Stats};

/// What a point read brings along. Borrowed, so that a get allocates nothing for it.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub(crate) cache: Option<&'a FrameCache>,
    pub(crate) stats: &'a Stats,
    pub(crate) trace: Option<&'a RefCell<GetTrace>>,
    /// Whether decoded frames go into the cache. Without it, only as much of a frame is decoded as
    /// the value needs.
    pub(crate) fill_cache: bool,
    /// Whether this is a point read, for the statistics.
    pub(crate) for_get: bool,
    /// Where bases are kept from one read to the next, for whoever reads many values on one thread.
    pub(crate) held: Option<&'a HeldBases>,
}

impl ReadContext<'_> {
    pub(super) fn trace_filter(&self, outcome: FilterOutcome) {
        if let Some(trace) = self.trace
            && let Some(table) = trace.borrow_mut().current_table()
        {
            table.filter = outcome;
        }
    }

    pub(super) fn trace_key_block(&self) {
        if let Some(trace) = self.trace
            && let Some(table) = trace.borrow_mut().current_table()
        {
            table.key_blocks += 1;
        }
    }

    pub(super) fn trace_found(&self) {
        if let Some(trace) = self.trace
            && let Some(table) = trace.borrow_mut().current_table()
        {
            table.found = true;
        }
    }

    pub(super) fn trace_frame(&self, frame: FrameTrace) {
        if let Some(trace) = self.trace
            && let Some(table) = trace.borrow_mut().current_table()
        {
            table.frames.push(frame);
        }
    }
}

/// What an iterator brings along. Owned, so that iterators are `'static`.
#[derive(Clone)]
pub(crate) struct IterContext {
    pub(crate) cache: Option<Arc<FrameCache>>,
    pub(crate) stats: Arc<Stats>,
    /// Whether decoded frames go into the cache.
    pub(crate) fill_cache: bool,
}

impl IterContext {
    pub(super) fn as_read(&self) -> ReadContext<'_> {
        ReadContext {
            cache: self.cache.as_deref(),
            stats: &self.stats,
            trace: None,
            fill_cache: self.fill_cache,
            for_get: false,
            held: None,
        }
    }
}
