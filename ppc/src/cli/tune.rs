//! `ppc tune`: which options suit the data.

mod report;

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use ppc_engine::TableOptions;
use ppc_store::archive::{Archive, ArchiveOptions, BLOCK_BYTES_DEFAULT, ZSTD_LEVEL_DEFAULT};
use ppc_store::source::SourceSpec;
use ppc_store::tune::{
    Candidate, Choice, Limits, Objective, Sample, SampleOptions, TuneOptions, candidates_of,
    choose, default_candidates, sample_sources, tune,
};
use ppc_store::{Error, ErrorKind};

use super::Global;
use super::failure::Failure;
use super::output::Output;
use super::progress::Watcher;
use super::size::ByteSize;
use super::sources::{IndexArgs, ReadingArgs};
use super::store::{StoreArgs, check_level};
use super::whatif::sizes;

use report::Report;

/// Find the zstd level, block size and dictionary that suit your data, by trying them on a sample
///
/// Builds a table of a sample with each set of options, gets random files from it one at a time,
/// nothing cached, and checks each answer once. Goes through all of them several times and takes
/// medians. Prints what came of it, marks the Pareto set (nothing else tried is better in size,
/// building and gets together), recommends one for the objective, and says why. The sample is made of
/// runs of neighbours in key order: what compresses well together stays together. Ratios serve to
/// compare: the whole store's may lie a tenth beside the sample's.
///
/// Speeds are those of one core, by its processor time. Energy is not metered here, CPU-seconds stand
/// in for it; `ppc-bench` meters joules where the machine can.
///
/// Nothing is changed without --apply, which writes the recommendation into the store: tables
/// written from then on follow it. Those that are there stay as they are until `ppc compact STORE
/// --rewrite` writes them anew.
///
/// `ppc whatif` is the plainer tool: it measures the combinations that you name once, in memory, with
/// the speed of scans, and leaves the choice to you.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Objectives:
  smallest       the fewest bytes
  fastest-get    the fastest single gets
  fastest-build  the fastest imports and compactions
  cheapest       the fewest CPU-seconds for each byte, built once and got --reads times
  balanced       nearest to the best in all three
Speeds within 3 % of the best count as equal; the smallest of these is taken. If nothing that was
tried keeps to the limits, the closest are named, nothing is applied, and the exit code is 3.

Examples:
  What suits a store, and then: use it for what comes, and for what is there
      ppc tune code.ppc
      ppc tune code.ppc --apply && ppc compact code.ppc --rewrite
  The smallest with gets over 200 MiB/s of a core:
      ppc tune code.ppc --objective smallest --get-min 200MiB/s
  The least work, for files that are read ten times each, at 18 % or less:
      ppc tune code.ppc --objective cheapest --reads 10 --ratio-max 18%
  Before the first import: sample the sources, make the store, fill it
      ppc tune --new code.ppc data/*.parquet --apply && ppc import code.ppc data/*.parquet
  Larger blocks and higher levels, with more time and a larger sample:
      ppc tune code.ppc --levels 9,12,19 --block-sizes 256KiB,1MiB --sample 256MiB --seconds 900")]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Sample these, read as `ppc import` reads them, rather than what the store holds
    #[arg(value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// STORE is yet to be made: --apply makes it, empty
    #[arg(long, requires = "sources")]
    new: bool,
    #[command(flatten)]
    goal: GoalArgs,
    #[command(flatten)]
    trial: TrialArgs,
    /// Write the recommendation into the store
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    index: IndexArgs,
}

/// What is wanted.
#[derive(Debug, Args)]
struct GoalArgs {
    /// What is wanted most: smallest, fastest-get, fastest-build, cheapest, balanced
    #[arg(long, value_name = "OBJECTIVE", default_value = "balanced")]
    objective: String,
    /// At most this share of the contents' bytes, such as 18%
    #[arg(long, value_name = "PERCENT")]
    ratio_max: Option<Percent>,
    /// Single gets at least this fast on one core, such as 200MiB/s
    #[arg(long, value_name = "SPEED")]
    get_min: Option<Speed>,
    /// Tables built at least this fast on one core, such as 50MiB/s
    #[arg(long, value_name = "SPEED")]
    build_min: Option<Speed>,
    /// For cheapest: how often each byte is got, for each time it is stored
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    reads: u32,
}

/// What is tried, and for how long.
#[derive(Debug, Args)]
struct TrialArgs {
    /// zstd levels to try, instead of the usual sets of options
    #[arg(
        long,
        value_name = "LEVEL,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    levels: Option<Vec<i32>>,
    /// Block sizes to try, likewise
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    block_sizes: Option<Vec<ByteSize>>,
    /// Sizes of trained dictionaries to try, likewise; 0 is none
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    dictionaries: Option<Vec<ByteSize>>,
    /// Bytes of the sample, which is held in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    sample: ByteSize,
    /// Time for all of it, of which sources may take a third; what there is no time for is left out
    /// and named
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    seconds: u64,
    /// How often to measure everything, if there is time
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    rounds: usize,
}

/// Levels, block sizes and dictionary sizes that are combined with those that are given.
const LEVELS: [i32; 3] = [3, 6, 9];
const BLOCK_BYTES: [u32; 4] = [4 << 10, 16 << 10, 64 << 10, 128 << 10];

pub(crate) fn run(args: TuneArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let begun = Instant::now();
    let goal = Goal::parse(&args.goal)?;
    if args.trial.rounds == 0 {
        return Err(Failure::Usage(
            "--rounds is 0; it must be at least 1".to_owned(),
        ));
    }
    for &level in args.trial.levels.iter().flatten() {
        check_level("--levels", level)?;
    }
    let time = Duration::from_secs(args.trial.seconds);
    let indexes = args.index.indexes()?;
    if indexes.is_some() && !args.new {
        return Err(Failure::Usage(
            "--index is chosen when the store is made: it needs --new".to_owned(),
        ));
    }
    let archive = open(&args)?;
    let base = match &archive {
        Some(archive) => archive.contents_table(),
        None => TableOptions::blocks(ZSTD_LEVEL_DEFAULT, BLOCK_BYTES_DEFAULT),
    };
    let candidates = candidates(&args.trial, &base)?;
    let watcher = Watcher::new(global.quiet, None);
    let outcome = take_sample(&args, archive.as_ref(), time / 3, &watcher).and_then(|sample| {
        let mut options = TuneOptions::default();
        options.rounds = args.trial.rounds;
        options.time = time.saturating_sub(begun.elapsed());
        let tuning = tune(&sample, candidates, &options, &watcher).map_err(stopped)?;
        Ok((sample, tuning))
    });
    watcher.finish()?;
    let (sample, tuning) = outcome?;
    let figures = tuning.figures();
    let choice = choose(&figures, goal.objective, &goal.limits, goal.reads);
    let chosen = match choice {
        Choice::Found { index, .. } => tuning.measured.get(index),
        Choice::NoneMeets { .. } => None,
    };
    let applies = match chosen {
        Some(measured) if args.apply => {
            apply(&args, archive.as_ref(), &measured.candidate.table)?;
            true
        }
        _ => false,
    };
    let report = Report {
        store: &args.store.store,
        is_new: args.new,
        has_sources: !args.sources.is_empty(),
        sample: &sample,
        tuning: &tuning,
        figures,
        goal,
        choice: &choice,
        is_applied: applies,
    };
    report.print(out)?;
    match choice {
        Choice::Found { .. } => Ok(()),
        Choice::NoneMeets { .. } => Err(Failure::Missing(report.none_meets())),
    }
}

/// The store, if there is one yet. For writing only if something is to be written, and then from the
/// beginning: nobody wants to learn after a minute that another process holds it.
fn open(args: &TuneArgs) -> Result<Option<Archive>, Failure> {
    if args.new {
        refuse_existing(&args.store.store)?;
        return Ok(None);
    }
    if !args.apply {
        return args.store.open_read_only().map(Some);
    }
    let mut options = ArchiveOptions::default();
    options.db.create_if_missing = false;
    // Its processor time would count as the candidates'.
    options.db.auto_compaction = false;
    args.store.open(options).map(Some)
}

/// Fails if there is anything where the store shall be.
fn refuse_existing(store: &Path) -> Result<(), Failure> {
    let entries = match std::fs::read_dir(store) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("list", store, error).into()),
        Ok(mut entries) => entries.next(),
    };
    if entries.is_none() {
        return Ok(());
    }
    let error = Error::invalid_input("there is something in the directory already");
    Err(error
        .at_path(store)
        .with_remedy("leave --new out if it is a store, or choose another directory")
        .into())
}

fn take_sample(
    args: &TuneArgs,
    archive: Option<&Archive>,
    time: Duration,
    watcher: &Watcher,
) -> Result<Sample, Failure> {
    let mut options = SampleOptions::of_bytes(args.trial.sample.0);
    options.time = time;
    let sample = match archive {
        Some(archive) if args.sources.is_empty() => {
            Sample::of_archive(archive, &options, watcher).map_err(stopped)?
        }
        _ => {
            let source_options = args.reading.options(vec![args.store.excluded()])?;
            let specs: Vec<SourceSpec> = args
                .sources
                .iter()
                .map(|text| SourceSpec::parse(text))
                .collect();
            let sample = sample_sources(&specs, &source_options, &options, watcher);
            sample.map_err(|error| match error.kind() {
                ErrorKind::Cancelled => stopped(error),
                _ => Failure::Input(error),
            })?
        }
    };
    if !sample.entries().is_empty() {
        return Ok(sample);
    }
    let error = match args.sources.is_empty() {
        true => Error::invalid_input("the store holds nothing to sample")
            .at_path(&args.store.store)
            .with_remedy("name what will be imported, or raise --sample for very long files"),
        false => Error::invalid_input("the sources hold nothing to sample")
            .with_remedy("check what they name, or raise --sample for very long files"),
    };
    Err(error.into())
}

fn stopped(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Cancelled => Failure::Interrupted(error.message().to_owned()),
        _ => error.into(),
    }
}

fn candidates(trial: &TrialArgs, base: &TableOptions) -> Result<Vec<Candidate>, Failure> {
    let is_usual =
        trial.levels.is_none() && trial.block_sizes.is_none() && trial.dictionaries.is_none();
    if is_usual {
        return Ok(default_candidates(base));
    }
    let chosen = |option: &str, chosen: &Option<Vec<ByteSize>>, usual: &[u32]| match chosen {
        Some(chosen) => sizes(option, chosen),
        None => Ok(usual.to_vec()),
    };
    let levels = trial.levels.clone().unwrap_or(LEVELS.to_vec());
    let blocks = chosen("--block-sizes", &trial.block_sizes, &BLOCK_BYTES)?;
    let dictionaries = chosen("--dictionaries", &trial.dictionaries, &[0])?;
    let candidates = candidates_of(base, &levels, &blocks, &dictionaries);
    for candidate in &candidates {
        let valid = candidate.table.validate();
        valid.map_err(|error| Failure::Usage(error.to_string()))?;
    }
    Ok(candidates)
}

/// Writes the options into the store; makes it first if need be.
fn apply(args: &TuneArgs, archive: Option<&Archive>, table: &TableOptions) -> Result<(), Failure> {
    if let Some(archive) = archive {
        archive.set_contents_table(table.clone())?;
        return Ok(archive.close()?);
    }
    let mut options = ArchiveOptions::default();
    options.db.error_if_exists = true;
    options.contents = Some(table.clone());
    options.indexes = args.index.indexes()?;
    Ok(args.store.open(options)?.close()?)
}

/// What is wanted, read.
struct Goal {
    objective: Objective,
    limits: Limits,
    reads: f64,
}

impl Goal {
    fn parse(args: &GoalArgs) -> Result<Self, Failure> {
        let objective = args.objective.parse();
        Ok(Self {
            objective: objective.map_err(|error: Error| Failure::Usage(error.to_string()))?,
            limits: Limits {
                ratio_max: args.ratio_max.map(|percent| percent.0 / 100.0),
                build_min: args.build_min.map(|speed| speed.0 as f64),
                get_min: args.get_min.map(|speed| speed.0 as f64),
            },
            reads: args.reads.into(),
        })
    }
}

/// A share in percent.
#[derive(Debug, Clone, Copy)]
struct Percent(f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        let percent: Option<f64> = number.and_then(|number| number.parse().ok());
        match percent {
            Some(percent) if percent.is_finite() && percent > 0.0 => Ok(Self(percent)),
            _ => Err(format!("'{text}' is no share; write it such as 18%")),
        }
    }
}

/// Bytes in a second.
#[derive(Debug, Clone, Copy)]
struct Speed(u64);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = text.trim().strip_suffix("/s").unwrap_or(text);
        let ByteSize(bytes) = size
            .parse()
            .map_err(|_| format!("'{text}' is no speed; write it such as 200MiB/s"))?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_speeds_are_read_as_written() {
        let percent = |text: &str| text.parse::<Percent>().ok().map(|it| it.0);
        assert_eq!(percent("18%"), Some(18.0));
        assert_eq!(percent("15.5 %"), Some(15.5));
        // Eighteen percent, or a fifth of a percent? Nobody knows.
        for text in ["0.18", "18", "%", "-3%", "0%", "nan%", ""] {
            assert_eq!(percent(text), None, "{text:?}");
        }
        let speed = |text: &str| text.parse::<Speed>().ok().map(|it| it.0);
        assert_eq!(speed("200MiB/s"), Some(200 << 20));
        assert_eq!(speed("200M"), Some(200 << 20));
        assert_eq!(speed("fast"), None);
    }
}
