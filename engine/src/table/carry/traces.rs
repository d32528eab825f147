//! What a dictionary tells of values that are gone.
//!
//! A dictionary is made of pieces of values. Taken over into a table that lacks some of them, it
//! must not give their bytes away. So values left behind are searched for what the dictionary holds
//! too, [`TRACE_BYTES`] at a time; each such trace must be found in a value that stays. Most are:
//! the trainer picks what many values share. Those that are not found soon are taken for secrets.

use super::survey::{Frame, Survey};
use super::{CarriedValue, Source};
use crate::error::Result;
use crate::table::bases::HeldBases;
use crate::table::context::{IterContext, ReadContext};

/// Bytes that tell something of a value. Shorter ones say little, and are everywhere.
const TRACE_BYTES: usize = 16;

/// Frames on either side of one that was left behind which are searched first: similar values lie
/// side by side.
const NEIGHBOURS: usize = 2;

/// The part of the values that stay which is decoded in search of traces.
const SEARCHED_DIVISOR: u64 = 32;

/// But so many bytes may always be.
const SEARCHED_BYTES_MIN: u64 = 1 << 20;

/// Whether the dictionary of a surveyed table may hold bytes that are in no surviving value of it.
pub(super) fn linger(
    dictionary: &[u8],
    source: &Source,
    survey: &Survey,
    values: &[CarriedValue],
    context: &IterContext,
) -> Result<bool> {
    if survey.dropped_raw_bytes == 0 {
        return Ok(false);
    }
    let bases = HeldBases::default();
    let context = ReadContext {
        held: Some(&bases),
        ..context.as_read()
    };
    let mut traces = Traces::new(dictionary);
    let mut near = Vec::new();
    for (ordinal, frame) in survey.frames.iter().enumerate() {
        let mut gaps = survey.gaps(frame, values).peekable();
        if gaps.peek().is_none() {
            continue;
        }
        near.extend(ordinal.saturating_sub(NEIGHBOURS)..=ordinal + NEIGHBOURS);
        let raw = source.table.frame(ordinal as u32, &context)?;
        for gap in gaps {
            traces.mark(
                raw.get(gap.start as usize..gap.end as usize)
                    .unwrap_or_default(),
            );
        }
    }
    near.dedup();
    let budget = (survey.copied_raw_bytes / SEARCHED_DIVISOR).max(SEARCHED_BYTES_MIN);
    let mut searched = 0;
    for ordinal in near.into_iter().chain(spread(survey, budget)) {
        if traces.marked == 0 || searched > budget {
            break;
        }
        let Some(frame) = survey.frames.get(ordinal).filter(|frame| frame.is_copied) else {
            continue;
        };
        searched += cost(survey, frame);
        let raw = source.table.frame(ordinal as u32, &context)?;
        for value in survey.members(frame, values) {
            let place = value.place.offset as usize..value.place.end() as usize;
            traces.clear(raw.get(place).unwrap_or_default());
        }
    }
    Ok(traces.marked > 0)
}

/// Bytes that decoding a frame comes to.
fn cost(survey: &Survey, frame: &Frame) -> u64 {
    let base = frame.base.and_then(|base| survey.frames.get(base as usize));
    u64::from(frame.raw_len) + base.map_or(0, |base| u64::from(base.raw_len))
}

/// Frames from all over the table, about as many as the budget is for.
fn spread(survey: &Survey, budget: u64) -> impl Iterator<Item = usize> {
    let step = (survey.copied_raw_bytes / budget.max(1)).max(1);
    (0..survey.frames.len()).step_by(usize::try_from(step).unwrap_or(usize::MAX))
}

/// The stretches of [`TRACE_BYTES`] that a dictionary has, and which of them are marked.
struct Traces {
    stretches: Vec<(u128, bool)>,
    /// Positions in `stretches` plus one, by hash; 0 where there is none.
    slots: Vec<u32>,
    marked: usize,
}

impl Traces {
    fn new(dictionary: &[u8]) -> Self {
        // A quarter full at most.
        let slots = (4 * dictionary.len()).next_power_of_two().max(16);
        let mut traces = Self {
            stretches: Vec::with_capacity(dictionary.len()),
            slots: vec![0; slots],
            marked: 0,
        };
        for stretch in stretches(dictionary) {
            let (slot, found) = traces.find(stretch);
            if found.is_none() {
                traces.stretches.push((stretch, false));
                if let Some(slot) = traces.slots.get_mut(slot) {
                    *slot = traces.stretches.len() as u32;
                }
            }
        }
        traces
    }

    /// Where the stretch's slot is, and where the stretch, if it is there.
    fn find(&self, stretch: u128) -> (usize, Option<usize>) {
        let mask = self.slots.len() - 1;
        let mixed = (stretch as u64 ^ (stretch >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (mixed >> 32) as usize & mask;
        // Ends: some slots are always free.
        while let Some(at) = self.slots.get(slot).and_then(|at| at.checked_sub(1)) {
            let at = at as usize;
            if self
                .stretches
                .get(at)
                .is_some_and(|(held, _)| *held == stretch)
            {
                return (slot, Some(at));
            }
            slot = (slot + 1) & mask;
        }
        (slot, None)
    }

    fn set(&mut self, bytes: &[u8], mark: bool) {
        for stretch in stretches(bytes) {
            if let (_, Some(at)) = self.find(stretch)
                && let Some((_, marked)) = self.stretches.get_mut(at)
                && *marked != mark
            {
                *marked = mark;
                self.marked = if mark {
                    self.marked + 1
                } else {
                    self.marked - 1
                };
            }
        }
    }

    /// Marks what the bytes have in common with the dictionary.
    fn mark(&mut self, bytes: &[u8]) {
        self.set(bytes, true);
    }

    /// Takes the marks off what the bytes have.
    fn clear(&mut self, bytes: &[u8]) {
        self.set(bytes, false);
    }
}

fn stretches(bytes: &[u8]) -> impl Iterator<Item = u128> {
    let windows = bytes.windows(TRACE_BYTES);
    windows.filter_map(|window| Some(u128::from_le_bytes(window.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_dropped_have_stays_marked() {
        let mut traces = Traces::new(b"the licence of all files; the secret of one file; the end");
        traces.mark(b"nothing of that, or too little: the licence");
        assert_eq!(traces.marked, 0);
        traces.mark(b"// the licence of all files;\nthe secret of one file\n");
        assert!(traces.marked > 0);
        traces.clear(b"# the licence of all files;");
        assert!(traces.marked > 0);
        traces.clear(b"the secret of one fil");
        assert_eq!(traces.marked, 1);
        traces.clear(b"; the secret of one file; the end");
        assert_eq!(traces.marked, 0);
    }

    #[test]
    fn short_dictionaries_tell_nothing() {
        let mut traces = Traces::new(b"fifteen bytes..");
        traces.mark(b"fifteen bytes..");
        assert_eq!(traces.marked, 0);
    }
}
