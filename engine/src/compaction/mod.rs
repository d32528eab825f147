//! Keeps the tree in shape: which tables to merge, merging them, and the threads that do it.
//!
//! ```text
//! picker         version, options, what is busy  ->  a plan       (pure)
//! targets        how many bytes each level may hold               (pure)
//! plan           a plan; what running jobs hold
//! span           the stretch of keys a table reaches over
//! scheduler      who may run what, when
//!   ticket       leave to run, and to keep others from running
//!   workers      the threads of the background
//! executor       a plan  ->  a changed tree
//!   merge        inputs  ->  output tables, in parallel slices
//!   split        where the slices are                             (pure)
//!   survivors    which entries stay                               (pure)
//!   stripes      which versions some reader can tell apart        (pure)
//!   range_deletes  what range tombstones delete                   (pure)
//!   cuts         where one table ends and the next begins           (pure)
//!   output       the tables that are written
//! manual         compactions that a caller asks for
//! weight         what range tombstones cover in deeper levels
//! ```

mod callbacks;
mod cuts;
mod executor;
mod manual;
mod merge;
mod output;
mod picker;
mod plan;
mod range_deletes;
mod scheduler;
mod span;
mod split;
mod stripes;
mod survivors;
mod targets;
#[cfg(test)]
pub(crate) mod testing;
mod ticket;
mod weight;
mod workers;

pub(crate) use executor::{Outcome, run_plan};
pub use manual::{CompactOptions, CompactionProgress, CompactionReport};
pub(crate) use merge::Watch;
pub(crate) use output::{OpenTable, OutsideTable, TableFactory};
pub(crate) use picker::connected;
pub(crate) use plan::{Input, Plan, Reason};
pub(crate) use scheduler::Scheduler;
pub(crate) use span::Span;
pub(crate) use targets::{LAST_LEVEL, LevelTargets};
pub(crate) use ticket::{Choice, Hold, Ticket};
