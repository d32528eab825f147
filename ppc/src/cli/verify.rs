//! `ppc verify`: check every byte.

use clap::Args;
use ppc_engine::VerifyOptions;
use ppc_store::ErrorKind;
use ppc_store::archive::ContentCheck;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{Output, notice};
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
  ppc verify code.ppc --problems damage.jsonl")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Threads that hash; the machine's cores where not given
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
    // Tables first: their units, counts and order. What the contents say of themselves comes after.
    let mut options = VerifyOptions::default();
    options.quick = true;
    let tables = archive.db().verify(&options, &mut |_| {})?;
    for problem in &tables.problems {
        notice(&problem.to_string());
    }
    let outcome = archive.check_contents(args.threads.unwrap_or(cores), &watcher);
    watcher.finish()?;
    let check = match outcome {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Err(Failure::Interrupted(
                "stopped before everything was checked".to_owned(),
            ));
        }
        outcome => outcome?,
    };
    print(&check, out)?;
    let damages = check.damages + tables.problems.len() as u64;
    if damages > 0 {
        return Err(Failure::Corrupt(format!(
            "{} things are damaged; `ppc salvage` rebuilds a store from what is sound",
            grouped(damages)
        )));
    }
    Ok(())
}

fn print(check: &ContentCheck, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&json!({
            "files": check.files,
            "bytes": check.bytes,
            "index_entries": check.index_entries,
            "damages": check.damages,
        }));
    }
    out.line(&format!(
        "checked {} files, {}, and {} index entries: {}",
        grouped(check.files),
        ByteSize(check.bytes),
        grouped(check.index_entries),
        match check.damages {
            0 => "all sound".to_owned(),
            damages => format!("{} damaged", grouped(damages)),
        }
    ))
}
