//! `ppc verify`: check every byte.

use std::path::Path;

use clap::Args;
use ppc_engine::VerifyReport;
use ppc_store::ErrorKind;
use ppc_store::archive::{Archive, ArchiveOptions, ContentCheck, check_files};
use ppc_store::progress::{Observer, Problem, ProblemKind};
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::Output;
use super::progress::Watcher;
use super::size::{ByteSize, counted, grouped};
use super::store::{StoreArgs, check_threads, explain_open};

/// Check every byte: checksums, hashes of contents, and that indexes and contents agree
///
/// Reads and decodes everything, recomputes the hash of every content, and looks each one up in
/// every index. Goes on behind damage, also where the store does not open any more, and tells each
/// damaged part of a file, what it takes along, and the files that cannot be read. The exit code is
/// 4 then; `ppc salvage` rebuilds a store from what is sound, and an import of the same sources into
/// that one brings back the rest. Other processes may read and write meanwhile.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc verify code.ppc
  Checksums only:   ppc verify code.ppc --quick
  With a list of everything that is damaged, one JSON document a line:
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
    /// Write every problem to this file, one JSON document a line; with --json they are on standard
    /// output as well
    #[arg(long, value_name = "FILE")]
    problems: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: VerifyArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    check_threads(args.threads)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let watcher = Watcher::new(global.quiet, None);
    if let Some(path) = &args.problems {
        watcher.log_problems_to(path)?;
    }
    if out.is_json() {
        watcher.keep_problems();
    }
    let threads = args.threads.unwrap_or(cores);
    let store = &args.store.store;
    let outcome = check(store, threads, args.quick, &watcher);
    watcher.finish()?;
    let checked = match outcome {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Err(Failure::Interrupted(
                "stopped before everything was checked".to_owned(),
            ));
        }
        Err(error) => return Err(explain_open(error, store)),
        Ok(checked) => checked,
    };
    for problem in watcher.kept_problems() {
        out.json(&problem)?;
    }
    print(&checked, store, out)?;
    if checked.damages() == 0 {
        return Ok(());
    }
    Err(Failure::Corrupt(format!(
        "{}; {}",
        checked.summary(),
        remedy(store)
    )))
}

/// What to do about damage.
fn remedy(store: &Path) -> String {
    format!(
        "run `ppc salvage {} NEW`, then import the same sources into NEW, which brings back what is \
         lost and skips the rest",
        store.display()
    )
}

/// What was found in files, and in contents and indexes.
struct Checked {
    files: VerifyReport,
    contents: Option<ContentCheck>,
    /// The store does not open for a reason that the check of the files did not find.
    unopened: u64,
}

impl Checked {
    fn damages(&self) -> u64 {
        let contents = self.contents.map_or(0, |contents| contents.damages);
        self.files.problems.len() as u64 + contents + self.unopened
    }

    /// How much is damaged, in words.
    fn summary(&self) -> String {
        let contents = self.contents.unwrap_or_default();
        let mut summary = format!("{} damaged", counted(self.damages(), "part"));
        if contents.unreadable > 0 {
            summary.push_str(&format!(
                ", {} cannot be read",
                counted(contents.unreadable, "file")
            ));
        }
        if contents.unindexed > 0 {
            let unindexed = counted(contents.unindexed, "file");
            summary.push_str(&format!(", {unindexed} cannot be found by every hash"));
        }
        summary
    }
}

fn check(
    store: &Path,
    threads: usize,
    quick: bool,
    watcher: &Watcher,
) -> ppc_store::Result<Checked> {
    let mut options = ArchiveOptions::default();
    options.db.create_if_missing = false;
    // Held from the beginning: what is checked stays what it is.
    let archive = Archive::open_read_only(store, options);
    // A store that lost its `CURRENT` seems to be none, until its files are looked at.
    let may_be_damaged = [ErrorKind::Corruption, ErrorKind::NotFound];
    let archive = match archive {
        Err(error) if !may_be_damaged.contains(&error.kind()) => return Err(error),
        archive => archive,
    };
    let files = check_files(store, threads, watcher)?;
    let mut checked = Checked {
        files,
        contents: None,
        unopened: 0,
    };
    match archive {
        Ok(archive) if !quick => {
            let known = Some(&checked.files);
            checked.contents = Some(archive.check_contents(threads, known, watcher)?);
        }
        Ok(_) => {}
        Err(error) if checked.files.problems.is_empty() => {
            if error.kind() == ErrorKind::NotFound {
                return Err(error);
            }
            checked.unopened = 1;
            let place = store.display();
            let problem = Problem::new(ProblemKind::Damage, place, error.to_string());
            watcher.problem(&problem);
        }
        Err(_) => {}
    }
    Ok(checked)
}

fn print(checked: &Checked, store: &Path, out: &mut Output) -> Result<(), Failure> {
    let files = &checked.files;
    let contents = checked.contents.unwrap_or_default();
    if out.is_json() {
        let mut report = json!({
            "tables": files.tables,
            "stored_bytes": files.stored_bytes,
            "units": files.units,
            "files": contents.files,
            "bytes": contents.bytes,
            "index_entries": contents.index_entries,
            "damages": checked.damages(),
            "files_unreadable": contents.unreadable,
            "files_unindexed": contents.unindexed,
            "tables_unlisted": files.unlisted.len(),
            "contents_checked": checked.contents.is_some(),
        });
        if let (Some(fields), true) = (report.as_object_mut(), checked.damages() > 0) {
            fields.insert("remedy".into(), json!(remedy(store)));
        }
        return out.json(&report);
    }
    out.line(&format!(
        "checked {} units of {} tables, {}",
        grouped(files.units),
        grouped(files.tables),
        ByteSize(files.stored_bytes)
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
        _ => out.line(&checked.summary()),
    }
}
