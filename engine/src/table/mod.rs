//! Tables: immutable sorted files of entries, their writer, reader and cursor.
//!
//! ```text
//! writer ── layout ── frames ── output          reader ── values ── chain · iter
//!   ├ carry: frames of other tables, copied
//!   └ spool · key_block · key_index · filter · directory · properties · tombstones
//!                    └ unit · footer
//! ```
//!
//! `docs/format.md` specifies the bytes; the head of each module that owns some draws them.

mod bases;
#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod carry;
mod census;
mod chain;
mod context;
mod directory;
mod filter;
mod footer;
mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod inventory;
mod iter;
mod key_block;
mod key_index;
mod layout;
mod output;
mod properties;
mod reader;
mod salvage;
mod scan;
mod source;
mod spool;
mod tombstones;
mod unit;
mod values;
mod verify;
mod weight;
mod writer;

pub(crate) use bases::HeldBases;
pub(crate) use carry::StoredValue;
pub use census::{FrameCensus, FrameTally};
pub(crate) use chain::BASES_MAX;
pub(crate) use context::{IterContext, ReadContext};
pub(crate) use filter::key_hash;
pub(crate) use footer::FORMAT_VERSION;
pub(crate) use key_block::FramePlace;
pub use properties::{OwnerKeyspace, TableProperties};
pub(crate) use reader::{Place, TableReader};
pub(crate) use salvage::{Loss, Salvaged, salvage};
pub(crate) use unit::{BASE_ORDINAL_BYTES, UnitCodec};
pub use verify::{Affected, VerifyProblem};
pub(crate) use verify::{TableVerification, verify_unopened};
pub(crate) use writer::{TableSummary, TableWriter};

#[cfg(test)]
mod tests;
