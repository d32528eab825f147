//! `ppc salvage`: a new store from what is sound in a damaged one.

use std::path::PathBuf;

use clap::Args;
use ppc_store::ErrorKind;
use ppc_store::salvage::{self, Salvaged};
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::Output;
use super::progress::Watcher;
use super::size::{ByteSize, grouped};
use super::store::StoreArgs;

/// Rebuild a new store from everything that is sound in a damaged one, and list what is lost
///
/// Reads the damaged store only, which may have lost any part of any file. Contents are kept if
/// their hash is right, and indexes are made anew from them. Exits with 4 if anything was lost.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc salvage code.ppc rescued.ppc
  With a list of what is lost:
      ppc salvage code.ppc rescued.ppc --problems lost.jsonl")]
pub(crate) struct SalvageArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Directory of the new store; must not exist, or be empty
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    /// Write everything that is lost to this file, one JSON document a line
    #[arg(long, value_name = "FILE")]
    problems: Option<PathBuf>,
}

pub(crate) fn run(args: SalvageArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let watcher = Watcher::new(global.quiet, None);
    if let Some(path) = &args.problems {
        watcher.log_problems_to(path)?;
    }
    let outcome = salvage::salvage(&args.store.store, &args.dest, &watcher);
    watcher.finish()?;
    let salvaged = match outcome {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Err(Failure::Interrupted(format!(
                "stopped before the new store was whole; remove {} and run it again",
                args.dest.display()
            )));
        }
        outcome => outcome?,
    };
    print(&salvaged, out)?;
    if salvaged.has_losses() {
        return Err(Failure::Corrupt(format!(
            "{} has what was sound; some of the old store is lost, see above",
            args.dest.display()
        )));
    }
    Ok(())
}

fn print(salvaged: &Salvaged, out: &mut Output) -> Result<(), Failure> {
    let (engine, repair) = (&salvaged.engine, &salvaged.repair);
    if out.is_json() {
        return out.json(&json!({
            "files": repair.files,
            "bytes": repair.bytes,
            "contents_removed": repair.contents_removed,
            "entries_added": repair.entries_added,
            "entries_removed": repair.entries_removed,
            "tables_sound": engine.tables_sound,
            "tables_damaged": engine.tables_damaged,
            "tables_lost": engine.tables_lost,
            "log_writes": engine.log_writes,
            "losses": engine.losses.len(),
        }));
    }
    let mut line = |label: &str, text: String| out.line(&format!("{label:<14}{text}"));
    line(
        "rescued",
        format!(
            "{} files, {}",
            grouped(repair.files),
            ByteSize(repair.bytes)
        ),
    )?;
    line(
        "tables",
        format!(
            "{} sound, {} damaged, {} lost",
            grouped(engine.tables_sound),
            grouped(engine.tables_damaged),
            grouped(engine.tables_lost)
        ),
    )?;
    line(
        "indexes",
        format!(
            "{} entries made anew, {} that led nowhere removed",
            grouped(repair.entries_added),
            grouped(repair.entries_removed)
        ),
    )?;
    line(
        "lost",
        format!(
            "{} parts of files, {} contents with a wrong hash",
            grouped(engine.losses.len() as u64),
            grouped(repair.contents_removed)
        ),
    )
}
