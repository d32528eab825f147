//! The cache of decoded frames: bounded by bytes, sharded, single-flight.
//!
//! Entries are keyed by the random id of the table file and the unit's ordinal, so a file number
//! that is used by another store, or a table that was replaced, can never be mistaken. A miss
//! holds a guard while it decodes: other threads that want the same frame wait for that one
//! decode instead of repeating it. Each entry is charged its bytes and [`ENTRY_BYTES`] besides.
//!
//! A hit clones a reference count and allocates nothing. An entry too large for its shard is
//! handed to whoever waits for it, and not kept.

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult, PlaceholderGuard};

use crate::error::Result;
use crate::types::FileId;

/// What an entry costs beyond its bytes: key, links and the reference count.
const ENTRY_BYTES: u64 = 96;

/// What decoded frames of source code come to on average, to size the tables of the cache.
const FRAME_BYTES_EXPECTED: usize = 16 << 10;

/// What is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CachedUnit {
    /// A frame's raw bytes.
    Frame(u32),
    /// A key block's, for tables that are read by positioned reads.
    KeyBlock(u32),
}

type Key = (FileId, CachedUnit);

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Key, Bytes> for ByBytes {
    fn weight(&self, _key: &Key, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// A place in the cache for a unit that its holder is about to decode. Others that want the unit
/// wait; if the place is dropped unfilled, the next of them gets one.
pub(crate) struct Reservation<'a>(
    PlaceholderGuard<
        'a,
        Key,
        Bytes,
        ByBytes,
        quick_cache::DefaultHashBuilder,
        DefaultLifecycle<Key, Bytes>,
    >,
);

impl Reservation<'_> {
    /// Puts the decoded unit into its place.
    pub(crate) fn fill(self, bytes: Bytes) {
        // Refused only if the entry was removed meanwhile; whoever waited decodes for itself.
        let _ = self.0.insert(bytes);
    }
}

/// What a look into the cache came to.
pub(crate) enum Reserved<'a> {
    /// It is there.
    Cached(Bytes),
    /// It is not; whoever asked decodes it. Without a reservation nobody waits for that.
    Missing(Option<Reservation<'a>>),
}

/// The cache. Shared by all tables of a store.
pub(crate) struct FrameCache {
    entries: Cache<Key, Bytes, ByBytes>,
}

impl FrameCache {
    /// A cache of `bytes` bytes; none if that is 0.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        Some(Self {
            entries: Cache::with(
                (bytes / FRAME_BYTES_EXPECTED).max(16),
                bytes as u64,
                ByBytes,
                quick_cache::DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
        })
    }

    /// The unit if it is cached.
    pub(crate) fn get(&self, table: FileId, unit: CachedUnit) -> Option<Bytes> {
        self.entries.get(&(table, unit))
    }

    /// The unit, decoded by `decode` if it is not cached. Says whether it was.
    pub(crate) fn get_or_decode(
        &self,
        table: FileId,
        unit: CachedUnit,
        decode: impl FnOnce() -> Result<Bytes>,
    ) -> Result<(Bytes, bool)> {
        match self.get_or_reserve(table, unit) {
            Reserved::Cached(bytes) => Ok((bytes, true)),
            Reserved::Missing(reservation) => {
                let bytes = decode()?;
                if let Some(reservation) = reservation {
                    reservation.fill(bytes.clone());
                }
                Ok((bytes, false))
            }
        }
    }

    /// The unit if it is cached or another thread is about to fill it in, else a place for it. One
    /// that holds reservations may ask for a further one of the same table only if its ordinal is
    /// less than theirs: so no two wait for each other.
    pub(crate) fn get_or_reserve(&self, table: FileId, unit: CachedUnit) -> Reserved<'_> {
        match self.entries.get_value_or_guard(&(table, unit), None) {
            GuardResult::Value(bytes) => Reserved::Cached(bytes),
            GuardResult::Guard(guard) => Reserved::Missing(Some(Reservation(guard))),
            // Never happens without a timeout; decoding alone is right in any case.
            GuardResult::Timeout => Reserved::Missing(None),
        }
    }

    /// Drops what is cached of a table that is gone.
    pub(crate) fn forget(&self, table: FileId) {
        self.entries.retain(|(of, _), _| *of != table);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    /// Bytes that may be held.
    pub(crate) fn capacity(&self) -> u64 {
        self.entries.capacity()
    }
}

impl std::fmt::Debug for FrameCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "FrameCache({} of {} bytes)",
            self.bytes(),
            self.capacity()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn threads_that_miss_together_decode_once() {
        let cache = FrameCache::new(1 << 20).unwrap();
        let (decodes, barrier) = (AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let decode = || {
                        decodes.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(Bytes::from_static(b"frame"))
                    };
                    let got = cache.get_or_decode(FileId(1), CachedUnit::Frame(2), decode);
                    assert_eq!(got.unwrap().0, "frame");
                });
            }
        });
        assert_eq!(decodes.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_failed_decode_is_not_cached() {
        let cache = FrameCache::new(1 << 20).unwrap();
        let unit = CachedUnit::Frame(0);
        let failed = cache.get_or_decode(FileId(1), unit, || Err(Error::corruption("bad")));
        assert!(failed.is_err());
        let good = cache.get_or_decode(FileId(1), unit, || Ok(Bytes::from_static(b"x")));
        assert!(!good.unwrap().1);
        assert!(cache.get(FileId(1), unit).is_some());
        assert!(cache.get(FileId(2), unit).is_none());
        cache.forget(FileId(1));
        assert!(cache.get(FileId(1), unit).is_none());
    }

    #[test]
    fn the_cache_stays_within_its_bytes() {
        let cache = FrameCache::new(1 << 20).unwrap();
        for frame in 0..1000 {
            let decode = || Ok(Bytes::from(vec![0; 8 << 10]));
            cache
                .get_or_decode(FileId(1), CachedUnit::Frame(frame), decode)
                .unwrap();
            assert!(cache.bytes() <= cache.capacity());
        }
    }
}
