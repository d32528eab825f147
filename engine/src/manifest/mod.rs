//! The store's durable state: which keyspaces, which tables in which levels, which sequence and
//! file numbers are taken.

mod current;
mod edit;
mod edit_codec;
mod options_codec;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod unlisted;
mod version;

pub(crate) use current::ClosedLog;
pub(crate) use edit::Edit;
pub(crate) use state::{FileNumbers, ManifestState};
pub(crate) use store::Manifest;
pub(crate) use unlisted::{lost_end, unlisted_tables};
pub(crate) use version::{TableMeta, Version};
