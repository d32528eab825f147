//! Stub.
/// Stub.
#[derive(Debug)]
pub struct MemVfs;
/// Stub.
#[derive(Debug)]
pub struct PowerCut;
