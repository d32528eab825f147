//! The paper's experiments (sections V to VII), and ours, on every peer.
//!
//! A run of `ppc-bench paper` plans groups of stores ([`Suite`]), builds each store, checks every
//! answer of it, measures each cell in alternating repetitions and appends a
//! [`Record`](crate::results::Record) for every run. A run that was interrupted goes on where it
//! stopped when it is started again with the same corpus, machine and commit.
//!
//! One thread leads; the measured loops of `reads` start the threads they need. Only one cell
//! runs at a time.

mod calibrate;
mod check;
mod cost;
mod harness;
mod ledger;
mod mixed;
mod plan;
mod progress;
mod reads;
mod run;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ppc_store::{Error, Result};

use self::calibrate::Bounds;
use self::ledger::Ledger;
use self::plan::{Group, Wishes};
use self::progress::Progress;
use self::run::Runner;
use crate::corpus::Corpus;
use crate::measure::{Meter, MeterOptions};
use crate::peers::{self, Codec};
use crate::results::{Experiment, Machine, Temperature};

pub use self::plan::Suite;

/// The subcommands of experiments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run all experiments of the paper and ours on every peer.
    Paper(PaperArguments),
    /// Only build stores: time, ratio, bytes written.
    Build(PaperArguments),
    /// Only get values: single and batched, uniform, by power law and in key order.
    Get(PaperArguments),
    /// Only scan.
    Scan(PaperArguments),
    /// Only look up keys that are not there.
    Miss(PaperArguments),
    /// Only replace and delete values of built stores between gets.
    Mixed(PaperArguments),
    /// Only what runs on 1, 2, ... threads.
    Threads(PaperArguments),
    /// Only reads from files that the page cache does not hold.
    Cold(PaperArguments),
    /// Only the grid of levels and block sizes, as in Figure 3.
    Grid(PaperArguments),
    /// Only build and get as the corpus grows.
    Growth(PaperArguments),
    /// Show what the harness itself costs: memcpy through it beside a bare loop.
    Harness(HarnessArguments),
}

/// What to run, on what, and where the results go.
#[derive(Debug, Args)]
pub struct PaperArguments {
    /// The corpus: a Parquet file that `ppc-bench corpus` or `ppc export` wrote.
    corpus: PathBuf,
    /// The file of results, JSON lines. Appended to; what it holds already is not run again.
    #[arg(required_unless_present = "plan")]
    results: Option<PathBuf>,
    /// Fewer cells, fewer repetitions, shorter runs: 256 MiB take less than a quarter of an hour
    /// on two cores.
    #[arg(long)]
    quick: bool,
    /// Use a sample of this many MiB instead of the whole corpus.
    #[arg(long, value_name = "MIB")]
    sample_mib: Option<u64>,
    /// Print what would run and how long it would take, and run nothing.
    #[arg(long)]
    plan: bool,
    /// Only these peers.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peers: Option<Vec<String>>,
    /// Only these experiments.
    #[arg(long, value_delimiter = ',', value_name = "EXPERIMENT")]
    only: Option<Vec<Experiment>>,
    /// Only these families of experiments.
    #[arg(long, value_delimiter = ',', value_name = "SUITE")]
    suites: Option<Vec<Suite>>,
    /// Repetitions of every cell, instead of 2 to 5.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Most threads; all by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// MiB of decoded blocks that each store may cache. The paper names no size: the default is
    /// RocksDB's own.
    #[arg(long, default_value_t = 32, value_name = "MIB")]
    cache_mib: u64,
    /// Only stores of these codecs, as in zstd-3,zlib-6,snappy.
    #[arg(long, value_delimiter = ',', value_name = "CODEC")]
    codecs: Option<Vec<Codec>>,
    /// Only stores of these block sizes.
    #[arg(long, value_delimiter = ',', value_name = "KIB")]
    blocks_kib: Option<Vec<u32>>,
    /// Where stores are built and removed again; a folder beside the results by default.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    meter: MeterOptions,
}

/// What to measure the harness on.
#[derive(Debug, Args)]
pub struct HarnessArguments {
    /// The corpus: a Parquet file that `ppc-bench corpus` or `ppc export` wrote.
    corpus: PathBuf,
    /// Pairs of runs.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    pairs: u32,
    /// Use a sample of this many MiB: runs must be short, and many, to tell a percent from noise.
    #[arg(long, default_value_t = 32, value_name = "MIB")]
    sample_mib: u64,
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Result<()> {
    let mut wishes = Wishes::default();
    let arguments = match command {
        Command::Paper(arguments) => arguments,
        Command::Build(arguments) => {
            wishes.experiments = Some(vec![Experiment::Build]);
            arguments
        }
        Command::Get(arguments) => {
            wishes.experiments = Some(vec![Experiment::Get]);
            arguments
        }
        Command::Scan(arguments) => {
            wishes.experiments = Some(vec![Experiment::Scan]);
            arguments
        }
        Command::Miss(arguments) => {
            wishes.experiments = Some(vec![Experiment::Miss]);
            arguments
        }
        Command::Mixed(arguments) => {
            wishes.experiments = Some(vec![Experiment::Mixed]);
            arguments
        }
        Command::Threads(arguments) => {
            wishes.threads_only = true;
            arguments
        }
        Command::Cold(arguments) => {
            wishes.temperature = Some(Temperature::Cold);
            arguments
        }
        Command::Grid(arguments) => {
            wishes.suites = Some(vec![Suite::Grid]);
            arguments
        }
        Command::Growth(arguments) => {
            wishes.suites = Some(vec![Suite::Growth]);
            arguments
        }
        Command::Harness(arguments) => return show_harness(arguments),
    };
    paper(arguments, wishes)
}

fn show_harness(arguments: &HarnessArguments) -> Result<()> {
    let corpus = Corpus::load_prefix(&arguments.corpus, arguments.sample_mib << 20)?;
    let pairs = harness::measure(&corpus, &Meter::detect(None), arguments.pairs as usize)?;
    if let Some(cost) = harness::HarnessCost::of(&pairs) {
        println!(
            "the harness adds {:.0} ns to an operation, give or take {:.0} (median of {} pairs of \
             runs); that is {:.1} % of a copy of {:.0} ns, and 1 % of what takes {:.1} us",
            cost.nanoseconds,
            cost.error_nanoseconds,
            pairs.len(),
            cost.nanoseconds / cost.bare_nanoseconds * 100.0,
            cost.bare_nanoseconds,
            cost.nanoseconds / 10.0
        );
    }
    Ok(())
}

fn paper(arguments: &PaperArguments, mut wishes: Wishes) -> Result<()> {
    let machine = Machine::detect();
    let corpus = match arguments.sample_mib {
        Some(mib) => Corpus::load_prefix(&arguments.corpus, mib << 20)?,
        None => Corpus::load(&arguments.corpus)?,
    };
    if corpus.is_empty() {
        let error = Error::invalid_input("the corpus is empty");
        return Err(error.at_path(&arguments.corpus));
    }
    wishes.quick = arguments.quick;
    wishes.experiments = wishes.experiments.or_else(|| arguments.only.clone());
    wishes.suites = wishes.suites.or_else(|| arguments.suites.clone());
    wishes.peers.clone_from(&arguments.peers);
    wishes.codecs.clone_from(&arguments.codecs);
    wishes.blocks_kib.clone_from(&arguments.blocks_kib);
    wishes.repeats = arguments.repeats;
    wishes.threads = arguments.threads.unwrap_or(machine.cpus).max(1);
    wishes.cache_bytes = arguments.cache_mib << 20;
    wishes.corpus_bytes = corpus.raw_bytes();
    let bounds = if arguments.quick {
        Bounds {
            seconds_min: 0.5,
            seconds_max: 1.5,
        }
    } else {
        Bounds {
            seconds_min: 1.0,
            seconds_max: 10.0,
        }
    };
    let groups = plan::plan(&wishes)?;
    let seconds = groups.iter();
    let seconds: f64 = seconds
        .map(|group| group.seconds(corpus.raw_bytes(), bounds.run_seconds()))
        .sum();
    let runs = groups.iter().map(Group::runs).sum();
    show_plan(&groups, &corpus, runs, seconds);
    let Some(results) = arguments.results.as_ref().filter(|_| !arguments.plan) else {
        return Ok(());
    };
    if groups.is_empty() {
        return Err(Error::invalid_input("nothing is left to run")
            .with_remedy("widen --peers, --only or --suites"));
    }
    let scratch = scratch_folder(arguments.scratch.as_deref(), results);
    fs::create_dir_all(&scratch).map_err(|error| Error::io("create", &scratch, error))?;
    let mut runner = Runner {
        corpus_path: &arguments.corpus,
        corpus: &corpus,
        scratch: &scratch,
        meter: &arguments.meter.detect(),
        machine: &machine,
        bounds,
        ledger: Ledger::open(results, &machine)?,
        progress: Progress::new(runs, seconds),
    };
    let outcome = runner.run(&groups);
    runner.progress.finish();
    outcome?;
    // Empty by now; where it is not, something in it is not ours.
    let _ = fs::remove_dir(&scratch);
    let elapsed = runner.progress.elapsed().as_secs();
    println!(
        "{runs} runs in {}m{:02}s, results in {}",
        elapsed / 60,
        elapsed % 60,
        results.display()
    );
    Ok(())
}

/// The folder for stores. It is named after the results, so that the next start finds and replaces
/// what an interrupted one left there.
fn scratch_folder(parent: Option<&Path>, results: &Path) -> PathBuf {
    let mut name = results.file_name().unwrap_or_default().to_owned();
    name.push(".stores");
    match parent {
        Some(parent) => parent.join(name),
        None => results.with_file_name(name),
    }
}

fn show_plan(groups: &[Group], corpus: &Corpus, runs: usize, seconds: f64) {
    let id = corpus.id();
    println!(
        "corpus {}: {} files, {} bytes, sha256 {}",
        id.name, id.files, id.raw_bytes, id.sha256
    );
    for group in groups {
        let stores: Vec<String> = group.stores.iter().map(ToString::to_string).collect();
        println!(
            "{:?}: {} runs on {}",
            group.suite,
            group.runs(),
            stores.join(", ")
        );
    }
    let known = peers::all();
    for peer in known.iter().filter(|peer| !peer.lacks().is_empty()) {
        let takes_part = |group: &Group| group.stores.iter().any(|it| it.peer == peer.name());
        if groups.iter().any(takes_part) {
            println!("{} lacks: {}", peer.name(), peer.lacks());
        }
    }
    println!("{runs} runs, about {:.0} minutes", (seconds / 60.0).ceil());
}
