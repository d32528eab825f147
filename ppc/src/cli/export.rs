//! `ppc export`: from a store to Parquet, tar or a folder.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use ppc_store::archive::Id;
use ppc_store::export::{self, ExportReport, Wanted};
use ppc_store::sink::{SinkFormat, SinkOptions, open_sink};
use ppc_store::{Error, ErrorKind};
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{Output, notice};
use super::progress::Watcher;
use super::size::{ByteSize, counted, duration};
use super::store::{SelectionArgs, StoreArgs, refuse_within};

/// Write what is stored, or a selection of it, to a Parquet file, a tar archive or a folder
///
/// The format is told from DEST: .parquet, .tar, .tar.zst, anything else is a folder, but for endings
/// of archives that ppc does not write, such as .tar.gz. Nothing that
/// exists is overwritten unless --overwrite says so, and until the export is complete it lies under
/// a temporary name beside DEST, .DEST.XXXXXX.partial; what a killed export left of it, the next one
/// to DEST removes. In a folder, names are made safe for every file system, and a map
/// file says what they were. What is exported can be imported again, under the same names.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  Everything:                ppc export code.ppc all.parquet
  Python files, for tools that read Snappy only:
      ppc export code.ppc python.parquet --ext py --compression snappy
  What a list names:         ppc export code.ppc picked.tar.zst --ids swhids.txt
  To another machine:
      ppc export code.ppc - --ext py | ssh host tar -C /src -x
  A folder to look at:       ppc export code.ppc makefiles/ --name Makefile")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Where to write; - is standard output, as a tar archive unless --format says otherwise
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only the contents whose ids this file lists, one a line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "selection")]
    ids: Option<PathBuf>,
    /// Write this format, whatever DEST is called
    #[arg(long, value_name = "parquet|tar|tar.zst|dir")]
    format: Option<String>,
    /// Replace DEST if it is a file that exists
    #[arg(long)]
    overwrite: bool,
    /// Compression of Parquet pages
    #[arg(long, value_name = "zstd|snappy")]
    compression: Option<String>,
    /// zstd level of Parquet pages and tar archives, 1 to 22
    #[arg(long, value_name = "LEVEL", default_value_t = 3)]
    zstd_level: i32,
    /// Most rows in a Parquet row group
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    row_group_rows: usize,
    /// Bytes of contents at which a Parquet row group is closed
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    row_group_size: ByteSize,
}

pub(crate) fn run(args: ExportArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let options = sink_options(&args)?;
    let wanted = match &args.ids {
        Some(file) => Wanted::Ids(read_ids(file)?),
        None => Wanted::Range(args.selection.selection()?),
    };
    let archive = args.store.open_read_only()?;
    let is_stdout = args.dest.as_os_str() == "-";
    if is_stdout && std::io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "an archive is nothing to look at; send standard output to a file or a pipe".to_owned(),
        ));
    }
    if !is_stdout {
        refuse_within(&args.store.store, &args.dest)?;
    }
    let sink = open_sink(&args.dest, &options)?;
    let watcher = Watcher::new(global.quiet, None);
    let outcome = export::export(&archive, &wanted, sink, &watcher);
    watcher.finish()?;
    let report = match outcome {
        Ok(report) => report,
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            let fate = match is_stdout {
                true => "what was written is a part of the whole",
                false => "removed what was written",
            };
            return Err(Failure::Interrupted(format!(
                "stopped, and {fate}; run it again to start over"
            )));
        }
        Err(error) if is_stdout && is_broken_pipe(&error) => return Err(Failure::BrokenPipe),
        Err(error) => return Err(error.into()),
    };
    // Beside an archive on standard output there is no room for a result.
    match (is_stdout, global.quiet) {
        (false, _) => print(&report, out)?,
        (true, false) => notice(&text(&report)),
        (true, true) => {}
    }
    if report.damaged > 0 {
        return Err(Failure::Corrupt(format!(
            "{} left out for damage; run `ppc verify` to see its extent",
            counted(report.damaged, "content")
        )));
    }
    if report.missing > 0 {
        return Err(Failure::Missing(format!(
            "{} not in the store, of those asked for",
            counted(report.missing, "content")
        )));
    }
    Ok(())
}

fn sink_options(args: &ExportArgs) -> Result<SinkOptions, Failure> {
    let usage = |error: Error| Failure::Usage(error.to_string());
    if !(1..=22).contains(&args.zstd_level) {
        return Err(Failure::Usage(format!(
            "--zstd-level is {}; it must lie between 1 and 22",
            args.zstd_level
        )));
    }
    let at_least_one = [
        ("--row-group-rows", args.row_group_rows == 0),
        ("--row-group-size", args.row_group_size.0 == 0),
    ];
    for (option, is_none) in at_least_one {
        if is_none {
            return Err(Failure::Usage(format!(
                "{option} is 0; it must be at least 1"
            )));
        }
    }
    if args.format.is_none() {
        refuse_unwritten(&args.dest)?;
    }
    let mut options = SinkOptions {
        overwrite: args.overwrite,
        zstd_level: args.zstd_level,
        row_group_rows_max: args.row_group_rows,
        row_group_bytes: usize::try_from(args.row_group_size.0).unwrap_or(usize::MAX),
        ..SinkOptions::default()
    };
    if let Some(format) = &args.format {
        options.format = Some(format.parse().map_err(usage)?);
    }
    if let Some(compression) = &args.compression {
        options.parquet_compression = compression.parse().map_err(usage)?;
    }
    Ok(options)
}

/// Endings of files that are no folder, and that ppc cannot write.
const UNWRITTEN: [&str; 13] = [
    "gz", "tgz", "bz2", "tbz2", "xz", "txz", "zst", "lz4", "zip", "7z", "rar", "csv", "jsonl",
];

/// Refuses to make a folder with the name of an archive.
fn refuse_unwritten(dest: &Path) -> Result<(), Failure> {
    let ending = dest.extension().unwrap_or_default().to_string_lossy();
    let is_unwritten = UNWRITTEN.contains(&ending.to_ascii_lowercase().as_str());
    if SinkFormat::of_path(dest) != SinkFormat::Directory || !is_unwritten || dest.is_dir() {
        return Ok(());
    }
    let error = Error::invalid_input(format!("ppc writes no .{ending}"))
        .at_path(dest)
        .with_remedy(
            "name it .parquet, .tar or .tar.zst, or pipe `ppc export STORE -` into what compresses \
             it; --format dir makes a folder of that name",
        );
    Err(Failure::Usage(error.to_string()))
}

fn read_ids(file: &PathBuf) -> Result<Vec<Id>, Failure> {
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).map_err(Failure::stdin)?
    } else {
        std::fs::read_to_string(file).map_err(|error| Error::io("read", file, error))?
    };
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let ids = lines.map(|(at, line)| {
        line.parse::<Id>().map_err(|error| {
            let place = file.display();
            Failure::Usage(format!("{place} line {}: {error}", at + 1))
        })
    });
    ids.collect()
}

fn is_broken_pipe(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

fn bytes_per_second(report: &ExportReport) -> u64 {
    let seconds = report.elapsed.as_secs_f64();
    (report.written.content_bytes as f64 / seconds.max(1e-9)) as u64
}

fn text(report: &ExportReport) -> String {
    format!(
        "{}, {} in {}, {}/s; {} written",
        counted(report.written.files, "file"),
        ByteSize(report.written.content_bytes),
        duration(report.elapsed),
        ByteSize(bytes_per_second(report)),
        ByteSize(report.written.output_bytes)
    )
}

fn print(report: &ExportReport, out: &mut Output) -> Result<(), Failure> {
    let written = report.written;
    if out.is_json() {
        return out.json(&json!({
            "files": written.files,
            "content_bytes": written.content_bytes,
            "output_bytes": written.output_bytes,
            "missing": report.missing,
            "damaged": report.damaged,
            "seconds": report.elapsed.as_secs_f64(),
            "bytes_per_second": bytes_per_second(report),
        }));
    }
    out.line(&text(report))
}
