//! What the benches share.

pub mod compare;
pub mod corpus;
pub mod experiments;
pub mod gate;
pub mod measure;
pub mod merges;
pub mod paper_figures;
pub mod peers;
pub mod report;
pub mod results;
pub mod targets;
pub mod workload;
