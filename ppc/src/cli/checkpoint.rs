//! `ppc checkpoint`: a copy of the store at one moment.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::output::Output;
use super::size::{ByteSize, counted, grouped};
use super::store::{StoreArgs, refuse_within};

/// Make a copy of the store as it is now, which opens as a store of its own
///
/// On the same file system the copy shares its tables with the store, as hard links, and takes
/// hardly any time or room; elsewhere they are copied. Writers may go on: the copy is of one moment.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  Before a risky import:     ppc checkpoint code.ppc code-before.ppc
  To another disk:           ppc checkpoint code.ppc /backup/code.ppc")]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Where the copy goes; must not exist
    #[arg(value_name = "DEST")]
    dest: PathBuf,
}

pub(crate) fn run(args: CheckpointArgs, out: &mut Output) -> Result<(), Failure> {
    let archive = args.store.open_read_only()?;
    refuse_within(&args.store.store, &args.dest)?;
    let report = archive.db().checkpoint(&args.dest)?;
    if out.is_json() {
        return out.json(&json!({
            "linked": report.linked,
            "copied": report.copied,
            "bytes": report.bytes,
            "bytes_copied": report.bytes_copied,
        }));
    }
    out.line(&format!(
        "{} linked, {} copied: {}, of which {} take room of their own",
        counted(report.linked, "table"),
        grouped(report.copied),
        ByteSize(report.bytes),
        ByteSize(report.bytes_copied)
    ))
}
