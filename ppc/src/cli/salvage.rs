//! `ppc salvage`: a new store from what is sound in a damaged one.

use std::path::{Path, PathBuf};

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
/// their hash is right, and indexes are made anew from them. Contents whose keys are damaged are
/// known again by their hashes, as far as an index still has those. What is lost is listed by SWHID
/// and key. Exits with 4 if anything of the contents was lost, or may have been.
///
/// To get back what is lost, import the same sources into the new store: what it has is skipped.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc salvage code.ppc rescued.ppc
  With a list of what is damaged and lost, one JSON document a line:
      ppc salvage code.ppc rescued.ppc --problems lost.jsonl
  Mend it from the sources it was made of:
      ppc salvage code.ppc rescued.ppc; ppc import rescued.ppc ~/src")]
pub(crate) struct SalvageArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Directory of the new store; must not exist, or be empty
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    /// Write everything that is damaged or lost to this file, one JSON document a line; with --json
    /// it is on standard output as well
    #[arg(long, value_name = "FILE")]
    problems: Option<PathBuf>,
}

pub(crate) fn run(args: SalvageArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let watcher = Watcher::new(global.quiet, None);
    if let Some(path) = &args.problems {
        watcher.log_problems_to(path)?;
    }
    if out.is_json() {
        watcher.keep_problems();
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
    for problem in watcher.kept_problems() {
        out.json(&problem)?;
    }
    print(&salvaged, out)?;
    if salvaged.has_losses() {
        return Err(Failure::Corrupt(losses(&salvaged, &args.dest)));
    }
    Ok(())
}

/// What is lost, and what to do about it.
fn losses(salvaged: &Salvaged, dest: &Path) -> String {
    let dest = dest.display();
    let lost = salvaged.lost.len() as u64 + salvaged.repair.contents_removed;
    let lost = match (lost, salvaged.is_list_complete) {
        (0, _) => "some may be lost whose names nobody knows".to_owned(),
        (lost, true) => format!("{} files are lost", grouped(lost)),
        (lost, false) => format!(
            "{} files are lost, and maybe others whose names nobody knows",
            grouped(lost)
        ),
    };
    format!(
        "{dest} has what was sound; {lost}; to get them back, import their sources again: `ppc import \
         {dest} SOURCE`"
    )
}

fn print(salvaged: &Salvaged, out: &mut Output) -> Result<(), Failure> {
    let (engine, repair) = (&salvaged.engine, &salvaged.repair);
    if out.is_json() {
        return out.json(&json!({
            "files": repair.files,
            "bytes": repair.bytes,
            "found_again": salvaged.found_again,
            "lost": salvaged.lost.len(),
            "lost_list_complete": salvaged.is_list_complete,
            "contents_removed": repair.contents_removed,
            "entries_added": repair.entries_added,
            "entries_removed": repair.entries_removed,
            "tables_sound": engine.tables_sound,
            "tables_damaged": engine.tables_damaged,
            "tables_lost": engine.tables_lost,
            "tables_unlisted": engine.unlisted_taken.len() + engine.unlisted_left.len(),
            "log_writes": engine.log_writes,
            "damages": engine.losses.len(),
        }));
    }
    let mut line = |label: &str, text: String| out.line(&format!("{label:<14}{text}"));
    let again = match salvaged.found_again {
        0 => String::new(),
        found => format!(
            "; {} of them by their hashes, as their keys are damaged",
            grouped(found)
        ),
    };
    line(
        "rescued",
        format!(
            "{} files, {}{again}",
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
    let others = match salvaged.is_list_complete {
        true => "",
        false => ", and maybe others whose names nobody knows",
    };
    line(
        "lost",
        format!("{} files{others}", grouped(salvaged.lost.len() as u64)),
    )?;
    match repair.contents_removed {
        0 => Ok(()),
        removed => line(
            "removed",
            format!("{} files with a wrong hash", grouped(removed)),
        ),
    }
}
