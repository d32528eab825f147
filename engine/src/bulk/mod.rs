//! Filling a store without the write-ahead log: bulk loads of entries in any order, and tables built
//! elsewhere.
//!
//! ```text
//! window     sorts puts into runs (replacement selection)           (pure)
//!   arrival    do they come in order?                               (pure)
//! spill      how runs are written that will be merged               (pure)
//! loader     BulkLoader: windows, and the tables that runs become
//! adopt      takes finished tables into the tree with one manifest edit
//! merge      makes one run of several, straight to a deep level
//! external   a table file written anywhere
//! ingest     takes such files into a store
//! ```
//!
//! Tables that come in this way store sequence number 0 throughout. The tree gives them their place
//! in history by `TableMeta::seq_base`, one fresh number for each run, so a later run of the same
//! load shadows an earlier one.

mod adopt;
mod arrival;
mod external;
mod ingest;
mod loader;
mod merge;
mod spill;
mod window;

pub use external::{ExternalTable, ExternalTableWriter};
pub use ingest::{IngestMode, IngestOptions, IngestReport, IngestedTable, Placed};
pub use loader::{BulkLoader, BulkOptions, BulkPhase, BulkProgress, BulkReport, KeyspaceReport};
