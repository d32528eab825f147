//! The open store: handles, the write path, reads, recovery.
//!
//! In reading order: `space` (what a reader loads), `inner` (everything an open store shares, and
//! the lock order), `write` and `pipeline` (from a batch to a sealed memtable), `flush`, `commit`
//! (changing the durable state), `open` (recovery),
//! `checkpoint`, `get`, `multi_get` and `iter`; `handle`,
//! `keyspace`, `snapshot` and `batch` are the public face.

mod adopt;
mod batch;
mod checkpoint;
mod commit;
mod flush;
mod get;
mod handle;
mod inner;
mod iter;
mod keyspace;
mod multi_get;
mod open;
mod pipeline;
mod snapshot;
mod snapshots;
mod space;
mod stats;
mod tables;
mod unlisted;
mod work;
mod write;

pub(crate) use adopt::Adoption;
pub use batch::Batch;
pub use checkpoint::CheckpointReport;
pub(crate) use flush::table_meta;
pub use handle::{Db, KEYSPACE_NAME_BYTES_MAX};
pub(crate) use inner::DbInner;
pub use iter::{Iter, IterOptions};
pub use keyspace::Keyspace;
pub(crate) use open::lock_for_reading;
pub use snapshot::Snapshot;
pub(crate) use space::Space;
pub(crate) use tables::TableOpener;
pub use unlisted::UnlistedTable;
pub(crate) use work::WorkSignal;
pub(crate) use write::{insert_op, keyspace_of};
