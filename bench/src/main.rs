//! `ppc-bench`: makes corpora, measures stores, and makes of the results what people and machines
//! can read.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use ppc_bench::experiments;
use ppc_bench::measure::MeterArguments;
use ppc_bench::{compare, corpus, gate, merges, report, targets};
use ppc_store::archive::{Archive, ArchiveOptions, Id, Selection};
use ppc_store::{ContentHash, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Make corpora of source code, measure stores on them, and report, compare and guard the results.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Get random contents, by key and by SWHID, one at a time and a hundred at a time.
    Gets {
        /// The store.
        store: PathBuf,
        /// Contents to get in each round.
        #[arg(long, default_value_t = 100_000)]
        count: usize,
        /// MiB of decoded frames kept in memory; 0 shows what a get costs that finds none.
        #[arg(long, default_value_t = 64)]
        cache_mib: usize,
        /// Another seed, other contents.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Tell what this machine can measure (time, instructions, memory, energy), and why not the
    /// rest.
    Meter(MeterArguments),
    Corpus(corpus::command::Arguments),
    Compare(compare::CompareArgs),
    Gate(gate::GateArgs),
    Report(report::ReportArgs),
    Targets(targets::TargetsArgs),
    Merges(merges::MergesArgs),
    #[command(flatten)]
    Experiment(experiments::Command),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Gets {
            store,
            count,
            cache_mib,
            seed,
        } => gets(&store, count, cache_mib << 20, seed).map(|()| true),
        Command::Meter(arguments) => arguments.run().map(|()| true),
        Command::Corpus(arguments) => corpus::command::run(arguments).map(|()| true),
        Command::Compare(args) => compare::run(&args).map(|()| true),
        Command::Gate(args) => gate::run(&args),
        Command::Report(args) => report::run(&args).map(|()| true),
        Command::Targets(args) => targets::run(&args).map(|()| true),
        Command::Merges(args) => merges::run(&args).map(|()| true),
        Command::Experiment(command) => experiments::run(&command).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // A gate that is shut: what it found was printed.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ppc-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Draws `count` keys uniformly, with repetition, and gets them in each way, once to warm up and
/// once to measure. Every answer is counted; a missing one fails the run.
fn gets(store: &Path, count: usize, cache_bytes: usize, seed: u64) -> Result<()> {
    let mut options = ArchiveOptions::default();
    options.db.cache_bytes = cache_bytes;
    let archive = Archive::open_read_only(store, options)?;
    let keys = archive.keys(&Selection::All)?.collect::<Result<Vec<_>>>()?;
    if keys.is_empty() {
        return Err(ppc_store::Error::invalid_input("the store is empty").at_path(store));
    }
    let mut random = StdRng::seed_from_u64(seed);
    let drawn: Vec<_> = (0..count)
        .map(|_| &keys[random.random_range(0..keys.len())])
        .collect();
    let by_key: Vec<Id> = drawn.iter().map(|&key| Id::Key(key.clone())).collect();
    let hash = |key: &ppc_store::PpcKey| Id::Hash(ContentHash::Sha1Git(key.hash()));
    let by_swhid: Vec<Id> = drawn.iter().map(|&key| hash(key)).collect();

    println!(
        "{count} of {} contents, uniform, 1 thread, warm, cache {cache_bytes} bytes",
        keys.len()
    );
    println!(
        "{:<26} {:>10} {:>10} {:>10}",
        "", "MiB/s", "us/get", "gets/s"
    );
    measure("get by key", count, || get_each(&archive, &by_key))?;
    measure("get by SWHID", count, || get_each(&archive, &by_swhid))?;
    measure("get 100 by key", count, || get_hundreds(&archive, &by_key))?;
    measure("get 100 by SWHID", count, || {
        get_hundreds(&archive, &by_swhid)
    })?;
    let stats = archive.db().stats();
    if let Some(decoded) = stats.decoded_bytes_per_returned_byte() {
        println!("decoded bytes per returned byte: {decoded:.2}");
    }
    Ok(())
}

fn get_each(archive: &Archive, ids: &[Id]) -> Result<u64> {
    let mut bytes = 0;
    for id in ids {
        let stored = archive.get(id)?.ok_or_else(|| missing(id))?;
        bytes += black_box(&stored.content).len() as u64;
    }
    Ok(bytes)
}

fn get_hundreds(archive: &Archive, ids: &[Id]) -> Result<u64> {
    let mut bytes = 0;
    for chunk in ids.chunks(100) {
        for (id, stored) in chunk.iter().zip(archive.get_many(chunk)) {
            let stored = stored?.ok_or_else(|| missing(id))?;
            bytes += black_box(&stored.content).len() as u64;
        }
    }
    Ok(bytes)
}

fn missing(id: &Id) -> ppc_store::Error {
    ppc_store::Error::corruption(format!("{id} is listed, but not found"))
}

fn measure(name: &str, count: usize, mut run: impl FnMut() -> Result<u64>) -> Result<()> {
    run()?;
    let start = Instant::now();
    let bytes = run()?;
    report(name, count, bytes, start.elapsed());
    Ok(())
}

fn report(name: &str, count: usize, bytes: u64, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
    let mib = bytes as f64 / f64::from(1 << 20);
    let gets = count as f64;
    println!(
        "{name:<26} {:>10.1} {:>10.2} {:>10.0}",
        mib / seconds,
        seconds * 1e6 / gets,
        gets / seconds
    );
}
