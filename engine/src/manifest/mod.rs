//! The store's durable state: which keyspaces, which tables in which levels, which sequence and
//! file numbers are taken.

mod edit;
mod state;
mod version;

pub(crate) use edit::Edit;
pub(crate) use state::{FileNumbers, KeyspaceState, ManifestState};
pub(crate) use version::{TableMeta, Version};
