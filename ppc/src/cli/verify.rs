//! `ppc verify`: check every byte.

use clap::Args;
use ppc_engine::VerifyReport;
use ppc_store::ErrorKind;
use ppc_store::archive::{Archive, ContentCheck};
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::Output;
use super::progress::Watcher;
use super::size::{ByteSize, grouped};
use super::store::StoreArgs;

/// Check every byte: checksums, hashes of contents, and that indexes and contents agree
///
/// Reads and decodes everything, recomputes the hash of every content, and looks each one up in
/// every index. What is wrong is printed, and the exit code is 4; `ppc salvage` then rebuilds a
/// store from what is sound. Other processes may read and write meanwhile.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc verify code.ppc
  Checksums only:   ppc verify code.ppc --quick
  ppc verify code.ppc --problems damage.jsonl")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Check checksums and order only, and decode nothing
    #[arg(long)]
    quick: bool,
    /// Threads that check; the machine's cores where not given
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Write every problem to this file, one JSON document a line
    #[arg(long, value_name = "FILE")]
    problems: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: VerifyArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let archive = args.store.open_read_only()?;
    let watcher = Watcher::new(global.quiet, None);
    if let Some(path) = &args.problems {
        watcher.log_problems_to(path)?;
    }
    let threads = args.threads.unwrap_or(cores);
    let outcome = check(&archive, threads, args.quick, &watcher);
    watcher.finish()?;
    let checked = match outcome {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Err(Failure::Interrupted(
                "stopped before everything was checked".to_owned(),
            ));
        }
        outcome => outcome?,
    };
    print(&checked, out)?;
    let damages = checked.damages();
    if damages > 0 {
        return Err(Failure::Corrupt(format!(
            "{} things are damaged; `ppc salvage` rebuilds a store from what is sound",
            grouped(damages)
        )));
    }
    Ok(())
}

/// What was found in tables, and in contents and indexes.
struct Checked {
    tables: VerifyReport,
    contents: Option<ContentCheck>,
}

impl Checked {
    fn damages(&self) -> u64 {
        let contents = self.contents.map_or(0, |contents| contents.damages);
        self.tables.problems.len() as u64 + contents
    }
}

fn check(
    archive: &Archive,
    threads: usize,
    quick: bool,
    watcher: &Watcher,
) -> ppc_store::Result<Checked> {
    let tables = archive.check_tables(threads, watcher)?;
    let contents = match quick {
        true => None,
        false => Some(archive.check_contents(threads, watcher)?),
    };
    Ok(Checked { tables, contents })
}

fn print(checked: &Checked, out: &mut Output) -> Result<(), Failure> {
    let tables = &checked.tables;
    let contents = checked.contents.unwrap_or_default();
    if out.is_json() {
        return out.json(&json!({
            "tables": tables.tables,
            "stored_bytes": tables.stored_bytes,
            "units": tables.units,
            "files": contents.files,
            "bytes": contents.bytes,
            "index_entries": contents.index_entries,
            "damages": checked.damages(),
        }));
    }
    out.line(&format!(
        "checked {} units of {} tables, {}",
        grouped(tables.units),
        grouped(tables.tables),
        ByteSize(tables.stored_bytes)
    ))?;
    if checked.contents.is_some() {
        out.line(&format!(
            "checked {} files, {}, and {} index entries",
            grouped(contents.files),
            ByteSize(contents.bytes),
            grouped(contents.index_entries)
        ))?;
    }
    match checked.damages() {
        0 => out.line("all sound"),
        damages => out.line(&format!("{} damaged", grouped(damages))),
    }
}
