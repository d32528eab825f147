//! Tools over whole stores: what an operator reaches for when something is wrong, or to choose
//! options by measurement.

mod salvage;
#[cfg(test)]
mod testing;
mod verify;

pub use salvage::{
    LostPart, SalvageLoss, SalvageOptions, SalvagePhase, SalvageProgress, SalvageReport,
    SalvagedKeyspace, salvage,
};
pub use verify::{VerifyOptions, VerifyProgress, VerifyReport};
