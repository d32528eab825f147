//! What the benches share.

pub mod corpus;
