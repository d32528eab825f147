//! Tools over whole stores: what an operator reaches for when something is wrong, or to choose
//! options by measurement.

mod describe;
mod salvage;
#[cfg(test)]
mod testing;
mod verify;
mod what_if;

pub use describe::{
    EntryDescription, FrameDescription, KeyBlockDescription, KeyBlockEntries, KeyspaceDescription,
    LogDescription, RangeDeleteDescription, SectionDescription, StoreDescription, TableDescription,
    TableEntry, describe_store, describe_store_in, describe_table, describe_table_in, list_frames,
    list_frames_in, list_key_blocks, list_key_blocks_in, list_table, list_table_in,
};
pub use salvage::{
    LostPart, SalvageLoss, SalvageOptions, SalvagePhase, SalvageProgress, SalvageReport,
    SalvagedKeyspace, salvage,
};
pub use verify::{
    StrayTable, VerifyOptions, VerifyProgress, VerifyReport, verify_store, verify_store_in,
};
pub use what_if::{WhatIfOptions, WhatIfResult};
