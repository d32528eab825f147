//! Frames decoded last, for whoever is about to read more of their followers.
//!
//! A scan or a multi-get comes upon the followers of a base one after the other, often with other
//! clusters between. Without a cache each of them would decode the base again; so the walk itself
//! holds the last frames that may be one, within a bound in bytes. Belongs to one walk on one thread.
//!
//! Frames live in two generations. What is used moves to the young one; once that has half of the
//! bytes it becomes the old one, and what was left there goes. So the last half of the bytes used
//! is always held.

use std::cell::RefCell;
use std::collections::HashMap;

use bytes::Bytes;

use crate::types::FileId;

/// Bytes held at most, beyond one frame.
const BYTES_MAX: usize = 16 << 20;

/// What a held frame costs beyond its bytes.
const FRAME_BYTES: usize = 96;

type Frames = HashMap<(FileId, u32), Bytes>;

/// The frames.
#[derive(Debug, Default)]
pub(crate) struct HeldBases(RefCell<Held>);

#[derive(Debug, Default)]
struct Held {
    young: Frames,
    /// Of the young ones.
    bytes: usize,
    old: Frames,
}

impl HeldBases {
    /// The frame's raw bytes, if they are held.
    pub(super) fn get(&self, table: FileId, ordinal: u32) -> Option<Bytes> {
        let held = &mut *self.0.borrow_mut();
        let frame = (table, ordinal);
        if let Some(bytes) = held.young.get(&frame) {
            return Some(bytes.clone());
        }
        let bytes = held.old.remove(&frame)?;
        held.insert(frame, bytes.clone());
        Some(bytes)
    }

    /// Holds a frame.
    pub(super) fn insert(&self, table: FileId, ordinal: u32, bytes: Bytes) {
        self.0.borrow_mut().insert((table, ordinal), bytes);
    }
}

impl Held {
    fn insert(&mut self, frame: (FileId, u32), bytes: Bytes) {
        let len = bytes.len() + FRAME_BYTES;
        if self.young.contains_key(&frame) {
            return;
        }
        if self.bytes + len > BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.young.insert(frame, bytes);
        self.bytes += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_held_within_the_bytes() {
        let held = HeldBases::default();
        let frame = || Bytes::from(vec![7; BYTES_MAX / 10]);
        for ordinal in 0..5 {
            held.insert(FileId(1), ordinal, frame());
        }
        // The fifth began a new generation; what is asked for now moves to it.
        assert!(held.get(FileId(1), 0).is_some());
        for ordinal in 5..8 {
            held.insert(FileId(1), ordinal, frame());
        }
        assert!(held.get(FileId(1), 1).is_none());
        assert!(held.get(FileId(1), 0).is_some());
        assert!(held.get(FileId(2), 0).is_none());
        held.insert(FileId(1), 9, Bytes::from(vec![7; 2 * BYTES_MAX]));
        held.insert(FileId(1), 10, Bytes::from(vec![7; 2 * BYTES_MAX]));
        assert!(held.get(FileId(1), 0).is_none());
        assert!(held.get(FileId(1), 10).is_some());
    }

    #[test]
    fn a_frame_that_comes_again_is_counted_once() {
        let held = HeldBases::default();
        for _ in 0..100 {
            held.insert(FileId(1), 0, Bytes::from(vec![7; BYTES_MAX / 10]));
            held.insert(FileId(1), 1, Bytes::from(vec![7; BYTES_MAX / 10]));
        }
        assert!(held.get(FileId(1), 0).is_some());
        assert!(held.0.borrow().bytes < BYTES_MAX / 2);
    }
}
