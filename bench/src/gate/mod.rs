//! `ppc-bench gate`: fails when results are worse than a kept baseline, in what does not drift.
//!
//! Bytes stored, and bytes decoded for each byte returned, do not depend on the machine. Instructions
//! do to a degree, and processor time does entirely: both are taken as a ratio to a peer measured in
//! the same run, for the same work.

mod baseline;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use ppc_store::{Error, Result};

use crate::results::{
    Configuration, CorpusResults, Measurement, Results, Run, Workload, group, number,
};
use baseline::{Baseline, Guarded, Tolerances, Work, baseline_of};

/// Fail if results are worse than a kept baseline, in what does not drift
///
/// For each cell of the baseline: bytes stored; bytes decoded for each byte returned; and the work of
/// it as a ratio to that of a peer in the same run: instructions for each byte where both runs counted
/// them, else processor time. A figure may be worse by the tolerances in the baseline's file, which
/// are yours to edit: `tolerances` for all cells, or under a cell for that one.
///
/// A cell that was not measured fails the gate, and so does another corpus: a gate that checks
/// nothing must not pass. The exit code is 0 if all figures hold and 1 if not, with a line for each
/// that does not.
///
/// `--write` makes the baseline from results, and keeps the tolerances of the file it replaces.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc-bench gate --write bench-baseline.json results.jsonl
  ppc-bench gate bench-baseline.json results.jsonl")]
pub struct GateArgs {
    /// The baseline
    #[arg(value_name = "BASELINE.json")]
    baseline: PathBuf,
    /// The results to check, or to make the baseline of
    #[arg(value_name = "RESULTS.jsonl")]
    results: PathBuf,
    /// Make the baseline instead of checking against it
    #[arg(long)]
    write: bool,
    /// With --write: the store whose cells the gate guards
    #[arg(long, value_name = "PEER", default_value = "ppc")]
    peer: String,
    /// With --write: the peer that work is a ratio to; by default the first of rocksdb, raw-zstd,
    /// fjall, zip, files and memcpy that did the same work
    #[arg(long, value_name = "PEER")]
    reference: Option<String>,
}

/// Runs `ppc-bench gate`. Returns whether the gate is open.
///
/// # Errors
///
/// Files that cannot be read or written, or results of several machines or commits.
pub fn run(args: &GateArgs) -> Result<bool> {
    let results = Results::read(std::slice::from_ref(&args.results))?;
    for note in &results.notes {
        eprintln!("ppc-bench: {note}");
    }
    let mut runs = group(results.records);
    let run = runs.remove(0);
    if !runs.is_empty() {
        return Err(
            Error::invalid_input("it holds results of several machines or commits")
                .at_path(&args.results)
                .with_remedy("keep the lines of one in a file of their own"),
        );
    }
    if args.write {
        write(args, &run)?;
        return Ok(true);
    }
    let baseline = Baseline::read(&args.baseline)?;
    let outcome = check(&baseline, &run);
    for regression in &outcome.regressions {
        println!("{regression}");
    }
    for gain in &outcome.gains {
        println!("{gain}");
    }
    println!(
        "{} figures of {} cells checked against commit {}: {}",
        outcome.checked,
        baseline.cells.len(),
        baseline.commit,
        match outcome.regressions.len() {
            0 => "none is worse".to_owned(),
            1 => "1 regression".to_owned(),
            count => format!("{count} regressions"),
        }
    );
    if !outcome.gains.is_empty() {
        println!("keep what was gained: ppc-bench gate --write, and commit the baseline");
    }
    Ok(outcome.regressions.is_empty())
}

fn write(args: &GateArgs, run: &Run) -> Result<()> {
    let path = &args.baseline;
    let mut baseline = baseline_of(run, &args.peer, args.reference.as_deref());
    if baseline.cells.is_empty() {
        return Err(Error::invalid_input(format!(
            "no cell of peer {:?} in the results",
            args.peer
        ))
        .at_path(&args.results)
        .with_remedy("name another with --peer"));
    }
    if path.exists() {
        keep_tolerances(&mut baseline, &Baseline::read(path)?);
    }
    let mut text = serde_json::to_string_pretty(&baseline).map_err(|error| {
        Error::invalid_input("the baseline cannot be written as JSON").with_source(error)
    })?;
    text.push('\n');
    std::fs::write(path, text).map_err(|error| Error::io("write", path, error))?;
    let compared = baseline
        .cells
        .iter()
        .filter(|cell| cell.work.is_some())
        .count();
    println!(
        "{}: {} cells, {compared} of them with a peer's work beside theirs",
        path.display(),
        baseline.cells.len()
    );
    Ok(())
}

/// What people wrote into a baseline outlives its figures.
fn keep_tolerances(baseline: &mut Baseline, old: &Baseline) {
    baseline.tolerances = old.tolerances;
    for guarded in &mut baseline.cells {
        let same = |other: &&Guarded| {
            other.cell == guarded.cell && other.corpus.name == guarded.corpus.name
        };
        guarded.tolerances = old
            .cells
            .iter()
            .find(same)
            .and_then(|other| other.tolerances);
    }
}

/// A figure that is worse than the baseline's, or better, by more than its tolerance.
#[derive(Debug)]
struct Deviation {
    place: String,
    figure: String,
    was: f64,
    is: f64,
    tolerance: f64,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is > self.was {
            "regression"
        } else {
            "gain"
        };
        write!(
            f,
            "{word}: {}: {} was {}, is {} ({:+.1} %, tolerated {:.1} %)",
            self.place,
            self.figure,
            number(self.was),
            number(self.is),
            (self.is / self.was - 1.0) * 100.0,
            self.tolerance * 100.0
        )
    }
}

#[derive(Debug, Default)]
struct Outcome {
    checked: usize,
    regressions: Vec<String>,
    gains: Vec<String>,
}

fn check(baseline: &Baseline, run: &Run) -> Outcome {
    let mut outcome = Outcome::default();
    for guarded in &baseline.cells {
        let place = format!(
            "{}, {}, {}",
            guarded.corpus.name,
            Configuration::of(&guarded.cell).name(),
            Workload::of(&guarded.cell).name()
        );
        let tolerances = guarded.tolerances.unwrap_or(baseline.tolerances);
        match measured(guarded, run) {
            Err(reason) => outcome
                .regressions
                .push(format!("regression: {place}: {reason}")),
            Ok((results, measurement)) => {
                outcome.check_cell(&place, guarded, tolerances, results, measurement);
            }
        }
    }
    outcome
}

fn measured<'a>(
    guarded: &Guarded,
    run: &'a Run,
) -> std::result::Result<(&'a CorpusResults, &'a Measurement), String> {
    let named = |results: &&CorpusResults| results.corpus.name == guarded.corpus.name;
    let results = run
        .corpora
        .iter()
        .find(|results| results.corpus.sha256 == guarded.corpus.sha256)
        .ok_or_else(|| match run.corpora.iter().find(named) {
            None => "the corpus was not measured".to_owned(),
            Some(other) => format!(
                "the corpus is another one: its SHA-256 is {}, the baseline's {}; measure the same \
                 corpus, or make the baseline anew",
                other.corpus.sha256, guarded.corpus.sha256
            ),
        })?;
    let measurement = results
        .cells
        .get(&guarded.cell)
        .ok_or("it was not measured; measure it, or make the baseline anew without it")?;
    Ok((results, measurement))
}

impl Outcome {
    fn check_cell(
        &mut self,
        place: &str,
        guarded: &Guarded,
        tolerances: Tolerances,
        results: &CorpusResults,
        measurement: &Measurement,
    ) {
        let stored = measurement.stored_bytes().map(|stored| stored.median);
        self.check_figure(
            place,
            "stored bytes",
            Some(guarded.stored_bytes),
            stored,
            tolerances.stored_bytes,
        );
        let decoded = measurement
            .decoded_per_returned()
            .map(|decoded| decoded.median);
        self.check_figure(
            place,
            "decoded bytes per returned byte",
            guarded.decoded_bytes_per_returned_byte,
            decoded,
            tolerances.decoded_bytes_per_returned_byte,
        );
        let Some(was) = &guarded.work else {
            return;
        };
        let other = Configuration::of(&was.reference).name();
        let Some(reference) = results.cells.get(&was.reference) else {
            self.regressions.push(format!(
                "regression: {place}: {other}, to which its work is a ratio, was not measured; \
                 measure it too, or make the baseline anew"
            ));
            return;
        };
        let is = Work::of(measurement, reference);
        let (unit, was, is, tolerance) = match (was.instructions_ratio, is.instructions_ratio) {
            (Some(was), Some(is)) => ("instructions", Some(was), Some(is), tolerances.instructions),
            _ => (
                "CPU-seconds",
                was.cpu_seconds_ratio,
                is.cpu_seconds_ratio,
                tolerances.cpu_seconds,
            ),
        };
        self.check_figure(
            place,
            &format!("{unit} as a ratio to {other}"),
            was,
            is,
            tolerance,
        );
    }

    /// Less is better in every figure.
    fn check_figure(
        &mut self,
        place: &str,
        figure: &str,
        was: Option<f64>,
        is: Option<f64>,
        tolerance: f64,
    ) {
        let Some(was) = was else {
            return;
        };
        let Some(is) = is else {
            self.regressions.push(format!(
                "regression: {place}: {figure} was {}, and is not in the results",
                number(was)
            ));
            return;
        };
        self.checked += 1;
        let deviation = Deviation {
            place: place.to_owned(),
            figure: figure.to_owned(),
            was,
            is,
            tolerance,
        };
        if is > was * (1.0 + tolerance) {
            self.regressions.push(deviation.to_string());
        } else if is < was * (1.0 - tolerance) {
            self.gains.push(deviation.to_string());
        }
    }
}
