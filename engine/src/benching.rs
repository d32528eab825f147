//! The parts of the engine one by one, open to the benches of `ppc-bench`.
//!
//! Each type wraps a part that is private otherwise, and does with it what the engine does and no
//! more, so that a bench of the part is a bench of what runs.
//!
//! Not part of the crate's interface; behind the feature `benching`.

use std::path::Path;
use std::sync::Arc;

pub use bytes::Bytes;

pub use crate::table::benching::{Filter, Frames, SortedKeys, hash_of_key};

use crate::cluster::{ClusterOptions, Clusterer};
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::read::MergingIter;
use crate::types::{EntryKind, FileNumber, KeyspaceId, SeqNo};
use crate::vfs::DiskVfs;
use crate::wal::{BatchEncoder, WalOp, WalWriter};

/// A memtable of puts.
#[derive(Debug, Clone, Default)]
pub struct Memtable(Arc<crate::memtable::Memtable>);

impl Memtable {
    /// Adds a put; the value is not copied.
    pub fn insert(&self, key: &[u8], seq: u64, value: Bytes) {
        self.0.insert(key, SeqNo(seq), EntryKind::Put, value);
    }

    /// The newest value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(key, SeqNo::MAX).map(|entry| entry.value)
    }
}

/// A file of the write-ahead log.
#[derive(Debug)]
pub struct Log(WalWriter);

impl Log {
    /// Creates file 1 of a log in a directory that has none.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub fn create(dir: &Path) -> Result<Self> {
        let path = dir.join("000001.wal");
        WalWriter::create(&DiskVfs, &path, FileNumber(1), &[]).map(Self)
    }

    /// Appends a batch of puts and hands it to the operating system.
    ///
    /// # Errors
    ///
    /// When the batch exceeds its limits or the file cannot be written.
    pub fn append<'a>(
        &mut self,
        first_seq: u64,
        puts: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<()> {
        let mut batch = BatchEncoder::default();
        for (key, value) in puts {
            batch.push(&WalOp::Put {
                keyspace: KeyspaceId(1),
                key,
                value,
            })?;
        }
        let count = batch.count();
        let payload = batch.into_payload();
        self.0.push(SeqNo(first_seq), count, &[&payload])?;
        self.0.hand_over()
    }

    /// Makes what was appended survive a power cut.
    ///
    /// # Errors
    ///
    /// When the file cannot be synced.
    pub fn sync(&mut self) -> Result<()> {
        self.0.sync()
    }
}

/// Walks memtables as one sorted sequence; gives the number of entries and the bytes of their
/// keys.
///
/// # Errors
///
/// None for memtables, which the walk does not know.
pub fn merge(sources: &[Memtable]) -> Result<(usize, usize)> {
    let cursors = sources.iter().map(|source| {
        let cursor: Box<dyn InternalIterator> = Box::new(source.0.iter());
        cursor
    });
    let mut merge = MergingIter::new(cursors.collect());
    let (mut count, mut bytes) = (0, 0);
    merge.seek_to_first()?;
    while merge.valid() {
        count += 1;
        bytes += merge.key().user_key.len();
        merge.next()?;
    }
    Ok((count, bytes))
}

/// The values of a window, sketched for a clustered table.
#[derive(Debug)]
pub struct Sketched(Clusterer);

impl Sketched {
    /// Sketches values with the default options.
    #[must_use]
    pub fn new(values: &[Bytes]) -> Self {
        let mut clusterer = Clusterer::new(ClusterOptions::default());
        for value in values {
            clusterer.add(value);
        }
        Self(clusterer)
    }

    /// Bytes that the sketches take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// Plans the window; gives the number of values that have a base.
    #[must_use]
    pub fn plan(self) -> usize {
        self.0.plan().base.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compression, FilterPolicy};

    fn value(index: u32) -> Bytes {
        format!("fn number_{index}() -> u32 {{ {index} }}\n")
            .repeat(20)
            .into()
    }

    #[test]
    fn frames_come_back_by_each_kind() {
        let samples: Vec<Bytes> = (0..200).map(value).collect();
        let zstd = Frames::new(Compression::Zstd { level: 3 });
        let with_dictionary = zstd.clone().with_dictionary(&samples, 4096).unwrap();
        let stored = Frames::new(Compression::None);
        let mut lengths = Vec::new();
        for frames in [stored, zstd, with_dictionary] {
            let unit = frames.encode(value(7)).unwrap();
            let mut out = Vec::new();
            frames.decode(&unit, &mut out).unwrap();
            assert_eq!(out, value(7));
            lengths.push(unit.len());
        }
        assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}");
    }

    #[test]
    fn values_are_sketched_and_planned() {
        let alike: Vec<Bytes> = (0..20)
            .map(|n| [value(1), value(2), value(n)].concat().into())
            .collect();
        let sketched = Sketched::new(&alike);
        assert!(sketched.memory_bytes() > 0);
        assert!(sketched.plan() < 20);
    }

    #[test]
    fn filters_and_key_blocks_find_what_they_hold() {
        let keys: Vec<Vec<u8>> = (0..500).map(|key| format!("key {key:05}").into()).collect();
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of_key(key)).collect();
        let filter = Filter::build(FilterPolicy::Fuse16, hashes.clone()).unwrap();
        assert_eq!(filter.count(&hashes).unwrap(), 500);
        assert!(filter.count(&[1, 2, 3, 4]).unwrap() < 4);

        let block = SortedKeys::build(&keys, 2048).unwrap();
        assert!((10..500).contains(&block.count()));
        assert_eq!(block.search(&keys[9]).unwrap(), Some(9));
        assert_eq!(block.search(&keys[block.count()]).unwrap(), None);
    }

    #[test]
    fn memtables_merge_and_logs_grow() {
        let memtables = [Memtable::default(), Memtable::default()];
        for index in 0..10_u32 {
            let memtable = &memtables[index as usize % 2];
            memtable.insert(&index.to_be_bytes(), u64::from(index) + 1, value(index));
        }
        assert_eq!(memtables[0].get(&4_u32.to_be_bytes()), Some(value(4)));
        assert_eq!(merge(&memtables).unwrap(), (10, 40));

        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::create(dir.path()).unwrap();
        log.append(1, [(&b"key"[..], &b"value"[..])]).unwrap();
        log.sync().unwrap();
        let file = std::fs::read(dir.path().join("000001.wal")).unwrap();
        assert!(file.windows(5).any(|window| window == b"value"));
    }
}
