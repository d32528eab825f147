//! Stub.
/// Stub.
#[derive(Debug)]
pub struct FaultVfs;
/// Stub.
#[derive(Debug)]
pub struct FaultPlan;
