//! What the benches share.

pub mod corpus;
pub mod measure;
pub mod results;
