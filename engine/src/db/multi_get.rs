//! Many point reads at once: find every key first, then visit the frames in file order, each once.
//!
//! Frames are independent of each other, so a large plan is worked off by several threads: the
//! caller and whichever of the store's worker threads are free take the next frame each until none
//! is left. Answers come in the caller's order, a result for each key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::get::Located;
use super::inner::DbInner;
use super::space::Space;
use super::tables::OpenedTable;
use crate::error::{Error, ErrorKind, Result};
use crate::table::{FramePlace, HeldBases, IterContext, Place, ReadContext};
use crate::types::{FileNumber, SeqNo};

/// Frames that make it worth waking one more thread.
const FRAMES_PER_HELPER: usize = 8;

/// A value that lies in a frame.
struct Wanted {
    /// Of the key in the caller's list.
    index: usize,
    number: FileNumber,
    table: Arc<OpenedTable>,
    place: FramePlace,
}

impl Wanted {
    fn order(&self) -> (FileNumber, FramePlace) {
        (self.number, self.place)
    }

    fn is_beside(&self, other: &Self) -> bool {
        (self.number, self.place.frame) == (other.number, other.place.frame)
    }
}

/// The frames to visit, and what came of them.
struct Plan {
    /// One frame's values each.
    frames: Vec<Vec<Wanted>>,
    next: AtomicUsize,
    context: IterContext,
    state: Mutex<PlanState>,
    finished: Condvar,
}

#[derive(Default)]
struct PlanState {
    values: Vec<(usize, Result<Bytes>)>,
    frames_done: usize,
}

/// Counts frames as done even if their decoding panics, so that no caller waits forever.
struct Claim<'a> {
    plan: &'a Plan,
    values: Vec<(usize, Result<Bytes>)>,
    frames: usize,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.plan.state.lock();
        state.values.append(&mut self.values);
        state.frames_done += self.frames;
        if state.frames_done == self.plan.frames.len() {
            self.plan.finished.notify_all();
        }
    }
}

impl Plan {
    /// Works off frames until none is left.
    fn work(&self) {
        let mut claim = Claim {
            plan: self,
            values: Vec::new(),
            frames: 0,
        };
        let held = HeldBases::default();
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(frame) = self.frames.get(next) else {
                return;
            };
            claim.frames += 1;
            self.visit(frame, &held, &mut claim.values);
        }
    }

    fn visit(&self, frame: &[Wanted], held: &HeldBases, values: &mut Vec<(usize, Result<Bytes>)>) {
        let context = ReadContext {
            cache: self.context.cache.as_deref(),
            stats: &self.context.stats,
            trace: None,
            fill_cache: self.context.fill_cache,
            for_get: true,
            held: Some(held),
        };
        if let [only] = frame {
            // One value: no more of the frame is decoded than it needs.
            let value = only.table.reader.read(&Place::Frame(only.place), &context);
            values.push((only.index, value));
            return;
        }
        let Some(first) = frame.first() else { return };
        match first.table.reader.frame(first.place.frame, &context) {
            Ok(bytes) => values.extend(frame.iter().map(|wanted| {
                let value = wanted.table.reader.value_in(&bytes, wanted.place);
                (wanted.index, value)
            })),
            Err(error) => values.extend(
                frame
                    .iter()
                    .map(|wanted| (wanted.index, Err(error.duplicate()))),
            ),
        }
    }

    /// Waits for the helpers that are still at a frame, and takes what all have read.
    fn wait(&self) -> Vec<(usize, Result<Bytes>)> {
        let mut state = self.state.lock();
        while state.frames_done < self.frames.len() {
            self.finished.wait(&mut state);
        }
        std::mem::take(&mut state.values)
    }
}

impl DbInner {
    /// The keys' values, in the order of the keys.
    pub(super) fn multi_get<K: AsRef<[u8]>>(
        &self,
        space: &Space,
        keys: &[K],
        snapshot: Option<SeqNo>,
    ) -> Vec<Result<Option<Bytes>>> {
        if let [key] = keys {
            return vec![self.get(space, key.as_ref(), snapshot, None)];
        }
        if let Err(error) = self.check_readable(space) {
            return keys.iter().map(|_| Err(error.duplicate())).collect();
        }
        let timer = self.latencies.start(&self.latencies.multi_gets);
        let (mut values, wanted) = self.locate_all(space, keys, snapshot);
        for (index, value) in self.read_all(wanted) {
            if let Some(slot) = values.get_mut(index) {
                *slot = value
                    .map(Some)
                    .map_err(|error| error.in_keyspace(&space.name));
            }
        }
        for value in values.iter().flatten() {
            self.count_get(value.as_ref().map(Bytes::len));
        }
        timer.stop();
        values
    }

    /// Finds every key. Values that lie in frames are still to be read; until then their place in
    /// the answer holds an error.
    fn locate_all<K: AsRef<[u8]>>(
        &self,
        space: &Space,
        keys: &[K],
        snapshot: Option<SeqNo>,
    ) -> (Vec<Result<Option<Bytes>>>, Vec<Wanted>) {
        let context = self.read_context(None);
        let view = space.view();
        let seq = snapshot.unwrap_or_else(|| self.visible_seq());
        let mut values = Vec::with_capacity(keys.len());
        let mut wanted = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let value = match self.locate(&view, key.as_ref(), seq, &context) {
                Ok(Located::Absent) => Ok(None),
                Ok(Located::Value(value)) => Ok(Some(value)),
                Ok(Located::Placed(number, table, place)) => match place {
                    Place::Inline(value) => Ok(Some(value)),
                    Place::Frame(place) => {
                        wanted.push(Wanted {
                            index,
                            number,
                            table,
                            place,
                        });
                        Err(Error::new(ErrorKind::Failed, "a reading thread died"))
                    }
                },
                Err(error) => Err(error.in_keyspace(&space.name)),
            };
            values.push(value);
        }
        (values, wanted)
    }

    /// Reads values from their frames, each frame once.
    fn read_all(&self, mut wanted: Vec<Wanted>) -> Vec<(usize, Result<Bytes>)> {
        wanted.sort_unstable_by_key(Wanted::order);
        let mut frames: Vec<Vec<Wanted>> = Vec::new();
        for value in wanted {
            match frames.last_mut() {
                Some(frame) if frame.last().is_some_and(|last| last.is_beside(&value)) => {
                    frame.push(value);
                }
                _ => frames.push(vec![value]),
            }
        }
        if frames.len() > 1 {
            for value in frames.iter().filter_map(|frame| frame.first()) {
                value.table.reader.prefetch(value.place.frame);
            }
        }
        let helpers = (frames.len() / FRAMES_PER_HELPER).min(self.workers.threads());
        let plan = Arc::new(Plan {
            frames,
            next: AtomicUsize::new(0),
            context: self.iter_context(true),
            state: Mutex::default(),
            finished: Condvar::new(),
        });
        for _ in 0..helpers {
            let plan = Arc::clone(&plan);
            self.workers.submit(move || plan.work());
        }
        plan.work();
        plan.wait()
    }
}
