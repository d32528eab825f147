//! Tables against a model, and against every damaged byte.

mod carry;
mod clustered;
mod corruption;
mod inventory;
mod model;
mod odd_clusters;
mod repair;
mod weight;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{IterContext, ReadContext, TableReader, TableSummary, TableWriter};
use crate::codec::CompressionPool;
use crate::error::Result;
use crate::iter::RangeTombstone;
use crate::options::{ReadMode, TableOptions};
use crate::stats::Stats;
use crate::types::{EntryKind, SeqNo};
use crate::vfs::{MemVfs, Vfs};

/// An entry as a test thinks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestEntry {
    pub(super) key: Vec<u8>,
    pub(super) seq: u64,
    /// None deletes.
    pub(super) value: Option<Vec<u8>>,
}

/// A file system with one table in it.
pub(super) struct Fixture {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) path: PathBuf,
    pub(super) summary: TableSummary,
}

pub(super) fn build(
    entries: &[TestEntry],
    tombstones: &[RangeTombstone],
    options: &TableOptions,
    threads: usize,
) -> Result<Fixture> {
    let memory = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory);
    let path = Path::new("t/000001.table").to_path_buf();
    vfs.create_dir_all(Path::new("t")).unwrap();
    let pool = CompressionPool::new(threads);
    let mut writer = TableWriter::create(&vfs, path.clone(), options, &pool)?;
    for entry in entries {
        let (kind, value) = match &entry.value {
            Some(value) => (EntryKind::Put, Bytes::copy_from_slice(value)),
            None => (EntryKind::Delete, Bytes::new()),
        };
        writer.add(&entry.key, SeqNo(entry.seq), kind, value)?;
    }
    for tombstone in tombstones {
        writer.add_range_tombstone(tombstone.clone())?;
    }
    let summary = writer.finish()?;
    Ok(Fixture { vfs, path, summary })
}

impl Fixture {
    pub(super) fn open(&self, mode: ReadMode, seq_base: u64) -> Result<Arc<TableReader>> {
        let id = Some(self.summary.id);
        TableReader::open(&*self.vfs, &self.path, mode, id, SeqNo(seq_base))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        crate::vfs::read_whole(&*self.vfs, &self.path).unwrap()
    }
}

/// A table file of these bytes, wherever they come from.
pub(super) fn open_bytes(bytes: &[u8], mode: ReadMode) -> Result<Arc<TableReader>> {
    let vfs = MemVfs::new();
    let path = Path::new("t/000001.table");
    vfs.create_dir_all(Path::new("t")).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
    TableReader::open(&vfs, path, mode, None, SeqNo::ZERO)
}

pub(super) fn plain(stats: &Stats) -> ReadContext<'_> {
    ReadContext {
        cache: None,
        stats,
        trace: None,
        fill_cache: false,
        held: None,
        for_get: true,
    }
}

pub(super) fn plain_iter() -> IterContext {
    IterContext {
        cache: None,
        stats: Arc::new(Stats::new()),
        fill_cache: false,
    }
}

/// Source-like text, different by `seed`.
pub(super) fn text(seed: u64, len: usize) -> Vec<u8> {
    (0u64..)
        .flat_map(|line| {
            format!("fn f{}() -> u64 {{ {line} }}\n", (seed * 31 + line) % 97).into_bytes()
        })
        .take(len)
        .collect()
}
