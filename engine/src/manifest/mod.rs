//! The store's durable state: which keyspaces, which tables in which levels, which sequence and
//! file numbers are taken.

mod edit;
mod edit_codec;
mod options_codec;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod version;

pub(crate) use edit::Edit;
pub(crate) use state::{FileNumbers, ManifestState};
pub(crate) use store::Manifest;
pub(crate) use version::{TableMeta, Version};
