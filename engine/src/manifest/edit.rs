//! One change of the durable state.

use std::sync::Arc;

use super::version::TableMeta;
use crate::options::KeyspaceOptions;
use crate::types::{FileId, FileNumber, KeyspaceId, SeqNo};

/// One change of the durable state. A manifest record holds a list of them, applied as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    CreateKeyspace {
        id: KeyspaceId,
        name: String,
        options: KeyspaceOptions,
    },
    SetKeyspaceOptions {
        id: KeyspaceId,
        options: KeyspaceOptions,
    },
    DropKeyspace {
        id: KeyspaceId,
    },
    AddTable {
        keyspace: KeyspaceId,
        level: u8,
        table: Arc<TableMeta>,
    },
    RemoveTable {
        keyspace: KeyspaceId,
        level: u8,
        number: FileNumber,
    },
    /// Writes to the keyspace up to `seq` are in tables.
    FlushedUpTo {
        keyspace: KeyspaceId,
        seq: SeqNo,
    },
    /// File numbers from here on are unused. The manifest adds it to each record by itself.
    NextFileNumber(FileNumber),
    /// Keyspace ids from here on were never used. Part of snapshots.
    NextKeyspace(u32),
    /// Sequence numbers up to here may be in use.
    LastSeq(SeqNo),
    /// The store's random id; the first edit of its first manifest.
    StoreId(FileId),
}
