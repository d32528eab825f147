//! What a user of the engine may rely on, scenario by scenario; each file is named for the
//! behaviour it shows. One binary, because linking costs more than running.

mod checkpoints;
mod common;
mod concurrent_use;
mod failing_disk;
mod killed_writers;
mod lost_log_end;
mod lost_manifest_end;
#[path = "../model/mod.rs"]
mod model;
mod open_and_reopen;
mod opening;
mod read_only;
mod reads_are_accounted_for;
mod scans_and_range_deletes;
mod store_against_model;
#[path = "../support/mod.rs"]
mod support;
