//! An embeddable, general-purpose LSM key-value engine for values that compress well together.
//!
//! A store is a directory of named ordered maps, the *keyspaces*, which share one write-ahead log:
//! a [`Batch`] over several of them is visible, and survives, all or none. Values lie in zstd
//! *frames* of a size and level that each keyspace chooses for each level of its tree
//! ([`KeyspaceOptions`]); keys lie apart from them, so that walking keys reads no values.
//!
//! ```
//! use ppc_engine::{Batch, Db, DbOptions, Durability, IterOptions, KeyspaceOptions, TableOptions};
//!
//! # fn main() -> ppc_engine::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! let db = Db::open(path, DbOptions::default())?;
//! // 128 KiB frames at zstd level 6; small values at their default.
//! let table = TableOptions::blocks(6, 128 << 10);
//! let files = db.keyspace("files", KeyspaceOptions::uniform(table))?;
//! let sizes = db.keyspace("sizes", KeyspaceOptions::default())?;
//!
//! // Both or neither, on disk when the call returns.
//! let mut batch = Batch::new();
//! batch.put(&files, "src/main.rs", "fn main() {}");
//! batch.put(&sizes, "src/main.rs", "12");
//! db.write(batch, Durability::Sync)?;
//!
//! assert_eq!(files.get("src/main.rs")?.as_deref(), Some(&b"fn main() {}"[..]));
//! assert_eq!(files.get("src/lib.rs")?, None);
//!
//! // A snapshot sees all keyspaces at one moment.
//! let snapshot = db.snapshot()?;
//! files.delete_prefix("src/", Durability::Buffered)?;
//! assert!(snapshot.contains(&files, "src/main.rs")?);
//! assert!(!files.contains("src/main.rs")?);
//!
//! // Iterators go both ways and own what they read from.
//! for item in sizes.prefix("src/", IterOptions::default())?.rev() {
//!     let (path, size) = item?;
//!     println!("{} has {} bytes", path.escape_ascii(), size.escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//!
//! - [`Db`], [`Keyspace`] and [`Snapshot`] are handles: `'static`, `Send` and `Sync`, cheap to
//!   clone or pass on. Every call blocks; in asynchronous programs make them from a blocking pool.
//! - One process writes to a store; any number may read it at the same time
//!   ([`Db::open_read_only`]).
//! - [`Durability`] is chosen for each write. Writers that ask for [`Durability::Sync`] at the
//!   same time share one sync.
//! - An [`Error`] says what failed, where, and what to do; callers act on its [`ErrorKind`].
//! - Whatever the engine does can be seen: [`Db::stats`], [`Keyspace::get_traced`], and `tracing`
//!   events for work in the background.
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(any(test, feature = "benching"))]
#[doc(hidden)]
pub mod benching;
mod bulk;
mod cache;
mod cancel;
mod checksum;
mod cluster;
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
pub use db::{
    Batch, CheckpointReport, Db, Iter, IterOptions, KEYSPACE_NAME_BYTES_MAX, Keyspace, Snapshot,
    UnlistedTable,
};
pub use error::{Error, ErrorKind, Result};
pub use options::{
    ClusterOptions, Compression, DbOptions, Durability, FilterPolicy, KeyspaceOptions, LEVEL_COUNT,
    Layout, Profile, ReadMode, TableOptions,
};
pub use stats::{
    Counter, CounterValues, DbStats, FilterOutcome, FrameTrace, GET_SAMPLE_INTERVAL, GetTrace,
    KeyspaceStats, LatencySummary, LevelStats, MemoryStats, TableTrace,
};
pub use table::{Affected, FrameCensus, FrameTally, OwnerKeyspace, TableProperties, VerifyProblem};
pub use tool::{
    EntryDescription, FrameDescription, KeyBlockDescription, KeyBlockEntries, KeyspaceDescription,
    LogDescription, LostPart, RangeDeleteDescription, SalvageLoss, SalvageOptions, SalvagePhase,
    SalvageProgress, SalvageReport, SalvagedKeyspace, SectionDescription, StoreDescription,
    StrayTable, TableDescription, TableEntry, VerifyOptions, VerifyProgress, VerifyReport,
    WhatIfOptions, WhatIfResult, describe_store, describe_store_in, describe_table,
    describe_table_in, list_frames, list_frames_in, list_key_blocks, list_key_blocks_in,
    list_table, list_table_in, salvage, verify_store, verify_store_in,
};
pub use types::{
    BATCH_BYTES_MAX, EntryKind, FileId, FileNumber, KEY_BYTES_MAX, KeyRange, KeyspaceId, SeqNo,
    VALUE_BYTES_MAX, prefix_successor,
};
