//! `ppc-bench report`: results as one HTML file that needs nothing else.
//!
//! No scripts, no fonts, nothing from the network: the file can be mailed, archived and read offline,
//! light or dark, on a phone. Every value that a chart shows stands in a table below it.

mod beside_paper;
mod chart;
mod figure;
mod frontier;
mod markup;
mod over_ratio;
mod over_steps;
mod page;
mod picture;
mod sample;
mod tables;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use ppc_store::{Error, Result};

use crate::corpus::Features;
use crate::results::{Results, group};

/// Make a report of results: one HTML file with charts and tables that needs nothing else
///
/// Size, throughput and energy of every configuration in the manner of the paper's figures, beside
/// the paper's own, with ratios to RocksDB in the same run; the goals of the clustered layout; the
/// corpora, the machine, and what could not be measured and why.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc-bench report results.jsonl report.html --corpus corpus.parquet --open
  ppc-bench report results.jsonl report.html --picture docs/results.svg")]
pub struct ReportArgs {
    /// Results, as `ppc-bench paper` writes them; files of several corpora can be concatenated
    #[arg(value_name = "RESULTS.jsonl")]
    results: PathBuf,
    /// The report to write
    #[arg(value_name = "OUT.html")]
    out: PathBuf,
    /// Also write the picture for the README: stored bytes against the speed of gets
    #[arg(long, value_name = "OUT.svg")]
    picture: Option<PathBuf>,
    /// A corpus that was measured, for the report to tell what is in it; can be repeated
    #[arg(long = "corpus", value_name = "CORPUS.parquet")]
    corpora: Vec<PathBuf>,
    /// Open the report in the browser
    #[arg(long)]
    open: bool,
}

/// Runs `ppc-bench report`.
///
/// # Errors
///
/// Results that cannot be read, or a file that cannot be written.
pub fn run(args: &ReportArgs) -> Result<()> {
    let results = Results::read(std::slice::from_ref(&args.results))?;
    let runs = group(results.records);
    let features: Vec<Features> = args
        .corpora
        .iter()
        .map(|path| Features::read(path))
        .collect::<Result<_>>()?;
    write(&args.out, &page::html(&runs, &results.notes, &features))?;
    if let Some(path) = &args.picture {
        // Of several runs the last: its figures are the newest.
        let newest = runs.iter().max_by_key(|run| run.period().1);
        let run = newest.ok_or_else(|| Error::invalid_input("no results"))?;
        write(path, &picture::picture(run)?)?;
    }
    if args.open
        && let Err(reason) = open(&args.out)
    {
        // A machine without a browser still has its report.
        eprintln!(
            "ppc-bench: no browser opened the report: {reason} (open {} yourself)",
            args.out.display()
        );
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io("write", path, error))?;
    println!("{}", path.display());
    Ok(())
}

/// Hands a file to the desktop's browser.
fn open(path: &Path) -> std::result::Result<(), String> {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = Command::new(program);
    command
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    // Explorer answers 1 when all went well.
    if status.success() || program == "explorer" {
        Ok(())
    } else {
        Err(format!("{program} ended with {status}"))
    }
}
