//! An embeddable, general-purpose LSM key-value engine for values that compress well together.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bulk;
mod cache;
mod cancel;
mod checksum;
mod codec;
mod coding;
mod compaction;
mod db;
mod dir;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod iter;
mod log;
mod manifest;
mod memtable;
mod options;
mod read;
mod stats;
mod table;
mod tombstones;
mod tool;
mod types;
pub mod vfs;
mod wal;

pub use bulk::{
    BulkLoader, BulkOptions, BulkPhase, BulkProgress, BulkReport, ExternalTable,
    ExternalTableWriter, IngestMode, IngestOptions, IngestReport, IngestedTable, KeyspaceReport,
    Placed,
};
pub use cancel::CancelToken;
pub use compaction::{CompactOptions, CompactionProgress, CompactionReport};
pub use db::{Batch, Db, Iter, IterOptions, KEYSPACE_NAME_BYTES_MAX, Keyspace, Snapshot};
pub use error::{Error, ErrorKind, Result};
pub use options::{
    Compression, DbOptions, Durability, FilterPolicy, KeyspaceOptions, LEVEL_COUNT, Layout,
    ReadMode, TableOptions,
};
pub use stats::{
    Counter, CounterValues, DbStats, FilterOutcome, FrameTrace, GET_SAMPLE_INTERVAL, GetTrace,
    KeyspaceStats, LatencySummary, LevelStats, MemoryStats, TableTrace,
};
pub use table::TableProperties;
pub use types::{
    BATCH_BYTES_MAX, EntryKind, FileId, FileNumber, KEY_BYTES_MAX, KeyRange, KeyspaceId, SeqNo,
    VALUE_BYTES_MAX, prefix_successor,
};
