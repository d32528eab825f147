//! `ppc import`: from files, datasets, archives and repositories into a store.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ppc_store::archive::ArchiveOptions;
use ppc_store::import::names::Names;
use ppc_store::import::{self, ImportOptions, ImportReport, MEMORY_BYTES_MIN, Sources};
use ppc_store::progress::ProblemKind;
use ppc_store::source::{self, Excluded, SourceSpec};
use ppc_store::{Error, ErrorKind};
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{Output, notice};
use super::progress::Watcher;
use super::size::{ByteSize, counted, duration, grouped, percent};
use super::sources::{IndexArgs, ReadingArgs};
use super::store::{StoreArgs, StoringArgs, check_threads};

/// Store the files of folders, Parquet datasets, tar archives and git repositories
///
/// Makes the store if there is none. Each SOURCE is a folder, a single file, a Parquet file or a tar
/// archive (plain, gz, zst, xz, bz2), which is told from its contents, or git:PATH, a repository with
/// all versions of all files. A folder that `ppc export` wrote is imported under the names that its
/// map file has. The store itself is left out of a folder that holds it. A content that comes again, under whatever name, is stored once, under
/// its first name, or under the one that --names has for it. Every hash is recomputed, and stated
/// hashes that differ are reported.
///
/// What is no file (links, pipes) or cannot be read is named, counted, left out, and listed by
/// --problems. If anything could not be read, or is longer than any content that can be stored, the
/// rest is stored, and the exit code is 5.
///
/// All sources are looked at before anything is stored. If one fails midway nevertheless, what was
/// read by then is stored, and the exit code is 5 as well.
///
/// An import can be stopped at any moment, with Ctrl-C or harder, and run again: it skips what it
/// has committed, and ends as if it had never been stopped.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  A folder, without what .gitignore names:
      ppc import code.ppc ~/src --gitignore
  The Stack, within 400 MiB of memory:
      ppc import code.ppc the-stack/data/*/*.parquet --memory 400MiB
  A dataset with columns of its own:
      ppc import code.ppc rows.parquet --columns content=body,path=file,hash=digest:sha1
  All versions in a repository, smaller and slower:
      ppc import code.ppc git:linux.git --zstd-level 12 --block-size 256KiB
  Half the size, for files of which there are many versions:
      ppc import code.ppc ~/src --profile balanced
  An archive whose members are named by hash, with the list of their names:
      ppc import code.ppc python_50GiB.tar.zst --names python_50GiB.csv
  What another machine sends:
      ssh host tar -C /src -c . | ppc import code.ppc -
  With lookups by SHA-256 as well:
      ppc import code.ppc nixpkgs/ --index sha256")]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// What to import; several are read one after the other. - is a tar archive on standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    taking: TakingArgs,
    #[command(flatten)]
    storing: StoringArgs,
    #[command(flatten)]
    index: IndexArgs,
    /// Memory to stay within; at least 256MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: ByteSize,
    /// Threads that hash and compress; the machine's cores where not given
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Commit whenever this much was read; a killed import loses at most that
    #[arg(long, value_name = "SIZE", default_value = "16GiB")]
    commit_every: ByteSize,
    /// Write every problem to this file, one JSON document a line
    #[arg(long, value_name = "FILE")]
    problems: Option<PathBuf>,
}

/// What of the sources is taken, and under which names.
#[derive(Debug, Args)]
struct TakingArgs {
    /// Name contents as this CSV file says: a header, then rows with the columns swhid and filename
    /// (or filepath); the most frequent name if there is a column occurrences, else the first.
    /// What is stored already keeps its name. May be compressed, and given several times. Sorted on
    /// disk, beside the store or in $TMPDIR
    #[arg(long, value_name = "FILE.csv")]
    names: Vec<PathBuf>,
    /// Leave files out whose stated hash is not their content's
    #[arg(long)]
    reject_mismatches: bool,
}

/// What is said at the first Ctrl-C.
const ON_INTERRUPT: &str = "committing what was read; press Ctrl-C again to drop it";

pub(crate) fn run(args: ImportArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    if args.memory.0 < MEMORY_BYTES_MIN {
        return Err(Failure::Usage(format!(
            "--memory is {}; an import needs at least {}",
            args.memory,
            ByteSize(MEMORY_BYTES_MIN)
        )));
    }
    if args.commit_every.0 == 0 {
        return Err(Failure::Usage(
            "--commit-every is 0; it must be at least 1".to_owned(),
        ));
    }
    check_threads(args.threads)?;
    let mut options = ImportOptions::default();
    options.memory_bytes = args.memory.0;
    options.reject_mismatches = args.taking.reject_mismatches;
    options.commit_bytes = args.commit_every.0;
    options.threads = args.threads.unwrap_or(options.threads);

    let mut archive_options = ArchiveOptions::default();
    archive_options.contents = args.storing.contents(&args.store.store)?;
    archive_options.indexes = args.index.indexes()?;
    options.fit(&mut archive_options.db);

    // Sources and names first: a wrong path should not leave an empty store behind.
    let sources = open_sources(&args)?;
    let watcher = Watcher::new(global.quiet, None);
    if let Some(path) = &args.problems {
        watcher.log_problems_to(path)?;
    }
    options.names = match read_names(&args, &options, &watcher) {
        Ok(names) => names,
        Err(error) => {
            watcher.finish()?;
            return Err(failed(error, &args.store.store));
        }
    };
    let archive = args.store.open(archive_options)?;
    watcher.finish_on_interrupt(ON_INTERRUPT);
    let mut report = ImportReport::default();
    let outcome = import::import_reporting(&archive, sources, &options, &watcher, &mut report);
    watcher.finish()?;
    if outcome.is_ok() || report.has_failed_source {
        archive.close()?;
        print(&report, options.names.as_deref(), out)?;
    }
    if outcome.is_ok() && report.files_read == 0 && report.problems.is_empty() {
        notice("the sources hold no files");
    }
    outcome.map_err(|error| ended_early(error, &report, &args.store.store))?;
    if report.is_interrupted {
        return Err(Failure::Interrupted(
            "stopped early, and kept what was read; run the same command again to go on".to_owned(),
        ));
    }
    match incomplete(&report, args.reading.takes_all_lengths()) {
        0 => Ok(()),
        count => Err(Failure::Incomplete(format!(
            "{} could not be taken, see above; the rest is stored: mend that and run the same \
             command again, which skips what is stored",
            counted(count, "item")
        ))),
    }
}

/// How many items the store should hold now and does not. Those above a limit that was asked for are
/// none of them.
fn incomplete(report: &ImportReport, takes_all_lengths: bool) -> u64 {
    let unwanted = |kind: &ProblemKind| match kind {
        ProblemKind::Source(source::ProblemKind::Unreadable) | ProblemKind::Refused => true,
        ProblemKind::Source(source::ProblemKind::TooLarge) => takes_all_lengths,
        _ => false,
    };
    let problems = report.problems.iter();
    problems
        .filter(|(kind, _)| unwanted(kind))
        .map(|(_, count)| count)
        .sum()
}

/// The names of `--names`, sorted in a temporary directory.
fn read_names(
    args: &ImportArgs,
    options: &ImportOptions,
    watcher: &Watcher,
) -> ppc_store::Result<Option<Arc<Names>>> {
    let lists = &args.taking.names;
    if lists.is_empty() {
        return Ok(None);
    }
    // Beside the store there should be room.
    let directory = match std::env::var_os("TMPDIR") {
        Some(directory) if !directory.is_empty() => PathBuf::from(directory),
        _ => match args.store.store.parent() {
            Some(parent) if parent != Path::new("") => parent.to_path_buf(),
            _ => PathBuf::from("."),
        },
    };
    let names = Names::read(lists, &options.names_options(directory), watcher)?;
    Ok(Some(Arc::new(names)))
}

/// The failure of an import that had begun, with what it kept.
fn ended_early(error: Error, report: &ImportReport, store: &Path) -> Failure {
    if report.files_read == 0 {
        return match report.has_failed_source {
            true => Failure::Input(error),
            false => failed(error, store),
        };
    }
    let stored = format!(
        "stored by then: {}, {}, of {} read",
        counted(report.files_stored, "new file"),
        ByteSize(report.raw_bytes_stored),
        counted(report.files_read, "file"),
    );
    match failed(error, store) {
        Failure::Error(error) | Failure::Input(error) => Failure::Partly {
            error,
            is_input: report.has_failed_source,
            kept: match report.has_failed_source {
                true => format!("{stored}; mend that source or leave it out, and run it again"),
                false => format!("{stored}; run the same command again to go on"),
            },
        },
        Failure::Interrupted(text) => Failure::Interrupted(format!("{text}; {stored}")),
        other => other,
    }
}

fn failed(error: Error, store: &Path) -> Failure {
    match error.kind() {
        ErrorKind::Cancelled => Failure::Interrupted(error.to_string()),
        _ => blame(error, store),
    }
}

/// Tells errors of the sources, which name a file elsewhere, from those of the store.
fn blame(error: Error, store: &Path) -> Failure {
    match error.path() {
        Some(path) if !path.starts_with(store) => Failure::Input(error),
        _ => Failure::Error(error),
    }
}

fn open_sources(args: &ImportArgs) -> Result<Sources, Failure> {
    let mut exclude = vec![args.store.excluded()];
    exclude.extend(args.problems.iter().map(|path| Excluded {
        path: path.clone(),
        what: "the list of problems that is being written".to_owned(),
    }));
    let options = args.reading.options(exclude)?;
    let specs = args.sources.iter().map(|text| SourceSpec::parse(text));
    Sources::from_specs(specs.collect(), options).map_err(Failure::Input)
}

fn print(report: &ImportReport, names: Option<&Names>, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&to_json(report, names));
    }
    let files = |count, bytes| format!("{}, {}", counted(count, "file"), ByteSize(bytes));
    let mut line = |label: &str, text: String| out.line(&format!("{label:<14}{text}"));
    line(
        "read",
        format!(
            "{} in {}, {}/s",
            files(report.files_read, report.bytes_read),
            duration(report.elapsed),
            ByteSize(report.bytes_per_second())
        ),
    )?;
    line(
        "stored",
        format!(
            "{} in {} ({})",
            files(report.files_stored, report.raw_bytes_stored),
            ByteSize(report.stored_bytes()),
            percent(report.stored_bytes(), report.raw_bytes_stored)
        ),
    )?;
    if let Some(names) = names {
        line(
            "names",
            format!(
                "{}, {} left out; {} named by them",
                counted(names.rows(), "row"),
                grouped(names.bad_rows()),
                counted(report.files_named, "file")
            ),
        )?;
    }
    line(
        "duplicates",
        files(report.duplicates, report.duplicate_bytes),
    )?;
    line("stored before", files(report.present, report.present_bytes))?;
    if report.mismatches > 0 {
        line(
            "mismatches",
            format!(
                "{} with another hash than stated, {} left out",
                counted(report.mismatches, "file"),
                grouped(report.rejected)
            ),
        )?;
    }
    for (kind, &count) in &report.problems {
        line(kind.name(), format!("{} left out", counted(count, "item")))?;
    }
    if let Some(amplification) = report.write_amplification() {
        line(
            "written",
            format!(
                "{}, {amplification:.2} times what was stored",
                ByteSize(report.written_bytes)
            ),
        )?;
    }
    if let Some(peak) = report.peak_memory_bytes {
        line("peak memory", ByteSize(peak).to_string())?;
    }
    Ok(())
}

fn to_json(report: &ImportReport, names: Option<&Names>) -> serde_json::Value {
    let problems = report.problems.iter();
    let problems: BTreeMap<&str, u64> = problems
        .map(|(kind, count)| (kind.name(), *count))
        .collect();
    json!({
        "files_read": report.files_read,
        "bytes_read": report.bytes_read,
        "files_stored": report.files_stored,
        "files_named": report.files_named,
        "name_rows": names.map(Names::rows),
        "bad_name_rows": names.map(Names::bad_rows),
        "raw_bytes_stored": report.raw_bytes_stored,
        "stored_bytes": report.stored_bytes(),
        "duplicates": report.duplicates,
        "duplicate_bytes": report.duplicate_bytes,
        "present": report.present,
        "present_bytes": report.present_bytes,
        "mismatches": report.mismatches,
        "rejected": report.rejected,
        "problems": problems,
        "commits": report.commits,
        "seconds": report.elapsed.as_secs_f64(),
        "bytes_per_second": report.bytes_per_second(),
        "written_bytes": report.written_bytes,
        "write_amplification": report.write_amplification(),
        "peak_memory_bytes": report.peak_memory_bytes,
        "interrupted": report.is_interrupted,
        "source_failed": report.has_failed_source,
    })
}
