//! `ppc salvage`: what is readable of a damaged store, as a new one.

use std::path::PathBuf;

use clap::Args;
use ppc_engine::{SalvageOptions, salvage};
use serde_json::json;

use super::failure::Failure;
use super::output::{Output, notice};
use super::size::grouped;

/// Rebuild what is readable of a damaged store as a new one, and tell what is lost
///
/// The damaged store is only read. It may have lost its manifest, or any part of any file. What is
/// lost is listed on standard error, and the exit code is then 4; run `ppc verify` on the new store
/// to see whether its indexes and contents agree.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc salvage damaged.ppc rescued.ppc && ppc verify rescued.ppc")]
pub(crate) struct SalvageArgs {
    /// Directory of the damaged store
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// Directory of the new store; must not exist, or be empty
    #[arg(value_name = "DEST")]
    dest: PathBuf,
}

pub(crate) fn run(args: SalvageArgs, out: &mut Output) -> Result<(), Failure> {
    let options = SalvageOptions::default();
    let report = salvage(&args.store, &args.dest, &options, &mut |_| {})?;
    for loss in &report.losses {
        notice(&loss.to_string());
    }
    if out.is_json() {
        out.json(&json!({
            "tables_sound": report.tables_sound,
            "tables_damaged": report.tables_damaged,
            "tables_lost": report.tables_lost,
            "log_writes": report.log_writes,
            "losses": report.losses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
    } else {
        out.line(&format!(
            "{} tables sound, {} damaged, {} lost; {} writes taken from the log",
            grouped(report.tables_sound),
            grouped(report.tables_damaged),
            grouped(report.tables_lost),
            grouped(report.log_writes)
        ))?;
    }
    if report.losses.is_empty() {
        return Ok(());
    }
    let count = grouped(report.losses.len() as u64);
    Err(Failure::Corrupt(format!(
        "{count} things are lost; the rest is in the new store"
    )))
}
