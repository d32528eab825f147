//! `ppc compact`: merge everything down to the last level.

use clap::Args;
use ppc_store::ErrorKind;
use ppc_store::archive::ArchiveOptions;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::Output;
use super::progress::Watcher;
use super::size::ByteSize;
use super::store::{StoreArgs, StoringArgs};

/// Merge all tables into the last level: smallest, fastest, and deleted bytes gone
///
/// With --rewrite, tables that need no merge are written anew as well, which is how a changed level
/// or block size reaches what is stored already: see `ppc tune` and `ppc whatif` for what it would
/// bring. Works in portions: needs free space for a few tables, and can be stopped at any moment; what
/// was merged stays merged.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  After many deletes:              ppc compact code.ppc
  Smaller, for what is seldom read:
      ppc compact code.ppc --rewrite --zstd-level 12 --block-size 256KiB")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Write every table anew
    #[arg(long)]
    rewrite: bool,
    #[command(flatten)]
    storing: StoringArgs,
}

pub(crate) fn run(args: CompactArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let mut options = ArchiveOptions::default();
    options.db.create_if_missing = false;
    options.contents = args.storing.contents(&args.store.store)?;
    let archive = args.store.open(options)?;
    let before = archive.stored_bytes();
    let watcher = Watcher::new(global.quiet, None);
    let outcome = archive.compact(args.rewrite, &watcher);
    watcher.finish()?;
    match outcome {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Err(Failure::Interrupted(
                "stopped early; what was merged stays merged, run it again to go on".to_owned(),
            ));
        }
        outcome => outcome?,
    };
    let after = archive.stored_bytes();
    archive.close()?;
    if out.is_json() {
        return out.json(&json!({ "stored_bytes_before": before, "stored_bytes": after }));
    }
    out.line(&format!(
        "{} before, {} now",
        ByteSize(before),
        ByteSize(after)
    ))
}
