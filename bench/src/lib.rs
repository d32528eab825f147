//! What the benches share.

pub mod corpus;
pub mod results;
