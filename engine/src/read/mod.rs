//! Reading: what turns memtables and tables into answers.
//!
//! [`MergingIter`] walks several sorted sources as one, [`LevelIter`] the disjoint tables of a
//! level. Both stay in internal order and show every version of a key; [`VisibleCursor`], above
//! them, picks the one a reader may see.

mod level;
mod merge;
mod pool;
#[cfg(test)]
pub(crate) mod testing;
mod visible;

pub(crate) use level::{LevelIter, OpenTable, TableRun};
pub(crate) use merge::MergingIter;
pub(crate) use pool::WorkerPool;
pub(crate) use visible::VisibleCursor;
