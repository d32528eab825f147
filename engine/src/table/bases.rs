//! Frames decoded last, for whoever is about to read more of their followers.
//!
//! A scan or a multi-get comes upon the followers of a base one after the other, often with other
//! clusters between. Without a cache each of them would decode the base again; so the walk itself
//! holds the last few frames that may be one. Belongs to one walk on one thread.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;

use crate::types::FileId;

/// Bytes held; one frame is held however long it is.
const BYTES_MAX: usize = 4 << 20;
/// Frames held: they are searched one by one.
const FRAMES_MAX: usize = 64;

/// The frames.
#[derive(Debug, Default)]
pub(crate) struct HeldBases(RefCell<Held>);

#[derive(Debug, Default)]
struct Held {
    /// The one used last at the back.
    frames: VecDeque<(FileId, u32, Bytes)>,
    bytes: usize,
}

impl HeldBases {
    /// The frame's raw bytes, if they are held.
    pub(super) fn get(&self, table: FileId, ordinal: u32) -> Option<Bytes> {
        let mut held = self.0.borrow_mut();
        let is_it = |(of, frame, _): &(FileId, u32, Bytes)| (*of, *frame) == (table, ordinal);
        let at = held.frames.iter().rposition(is_it)?;
        let frame = held.frames.remove(at)?;
        let bytes = frame.2.clone();
        held.frames.push_back(frame);
        Some(bytes)
    }

    /// Holds a frame, if it is not held yet.
    pub(super) fn insert(&self, table: FileId, ordinal: u32, frame: Bytes) {
        if self.get(table, ordinal).is_some() {
            return;
        }
        let held = &mut *self.0.borrow_mut();
        held.bytes += frame.len();
        held.frames.push_back((table, ordinal, frame));
        while held.frames.len() > FRAMES_MAX || held.bytes > BYTES_MAX && held.frames.len() > 1 {
            if let Some((_, _, frame)) = held.frames.pop_front() {
                held.bytes -= frame.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_held_within_the_bytes() {
        let held = HeldBases::default();
        let frame = || Bytes::from(vec![7; BYTES_MAX / 4]);
        for ordinal in 0..4 {
            held.insert(FileId(1), ordinal, frame());
        }
        assert!(held.get(FileId(1), 0).is_some());
        held.insert(FileId(1), 4, frame());
        assert!(held.get(FileId(1), 1).is_none());
        assert!(held.get(FileId(1), 0).is_some());
        assert!(held.get(FileId(2), 0).is_none());
        held.insert(FileId(1), 5, Bytes::from(vec![7; 2 * BYTES_MAX]));
        assert!(held.get(FileId(1), 4).is_none());
        assert!(held.get(FileId(1), 5).is_some());
    }
}
