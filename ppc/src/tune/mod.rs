//! The tuner: which table options suit the data, found by trying them on a sample of it.
//!
//! A [`Sample`] is made of runs of neighbours in key order, from a store or from what is to be
//! imported. [`tune`] builds a real table of it with each [`Candidate`], on the disk, and gets
//! random contents from that table through a store without a cache. It goes through the candidates
//! several times, so that whatever disturbs the machine for a while disturbs all of them alike;
//! figures are medians over those rounds. [`choose`] then takes the best for an [`Objective`] among
//! those within the [`Limits`].
//!
//! Invariants:
//! 1. The sample, and one table of it on the disk, are all that is held: memory and temporary space
//!    are bounded by the sample's size.
//! 2. Nothing is left behind, however the work ends: tables lie in a temporary directory that goes
//!    with it.
//! 3. No figure is taken of a table that does not give back what was put into it.
//!
//! Everything runs on the calling thread; a table is compressed by it alone. So processor time is
//! that of one core, and stands in for energy, which this crate has no meter for.

mod candidate;
mod choice;
mod clock;
mod dice;
mod figures;
mod lab;
mod sample;
mod source_sample;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::progress::{Observer, Phase, Progress, Wish};
use crate::{Error, ErrorKind, Result};

pub use candidate::{Candidate, candidates_of, default_candidates};
pub use choice::{Choice, Limit, Limits, Miss, NearMiss, Objective, choose, pareto};
pub use clock::{PROCESSOR_TIME_SOURCE, Spent};
pub use figures::{Figures, Measured, Measurement};
pub use sample::{Coverage, Sample, SampleOptions};
pub use source_sample::sample_sources;

use lab::Lab;

/// How much to measure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TuneOptions {
    /// How often each candidate is measured, at least 1. Default 3.
    pub rounds: usize,
    /// Time for all of it. When it runs out, candidates or rounds are left out, and [`Tuning`] says
    /// which; the first candidate is measured once in any case. Default a minute.
    pub time: Duration,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            rounds: 3,
            time: Duration::from_secs(60),
        }
    }
}

/// What was measured.
#[derive(Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// The candidates that were, in the order given.
    pub measured: Vec<Measured>,
    /// Those for which there was no time.
    pub left_out: Vec<Candidate>,
    /// How often each was measured.
    pub rounds: usize,
}

impl Tuning {
    /// The figures of all, in the order of [`Self::measured`].
    #[must_use]
    pub fn figures(&self) -> Vec<Figures> {
        self.measured.iter().map(Measured::figures).collect()
    }
}

/// Measures `candidates` on the sample, first things first: where time is short the last ones are
/// left out.
///
/// The first round, which decides how many there are, may take its share of the time. A further
/// round begins only if it should end in time.
///
/// An observer that does not want to go on ends it with [`ErrorKind::Cancelled`].
pub fn tune(
    sample: &Sample,
    candidates: Vec<Candidate>,
    options: &TuneOptions,
    observer: &dyn Observer,
) -> Result<Tuning> {
    if sample.entries().is_empty() {
        return Err(Error::invalid_input("there is nothing to measure")
            .with_remedy("sample more, or something that has contents"));
    }
    for candidate in &candidates {
        candidate.table.validate()?;
    }
    let begun = Instant::now();
    let rounds_wanted = options.rounds.max(1);
    let first_round_time = options.time / u32::try_from(rounds_wanted).unwrap_or(u32::MAX);
    let mut lab = Lab::new(sample, observer)?;
    let mut measured = Vec::new();
    let mut candidates = candidates.into_iter();
    for candidate in candidates.by_ref() {
        let measurement = lab.measure(&candidate.table, true)?;
        measured.push(Measured::new(candidate, sample, measurement));
        if begun.elapsed() >= first_round_time {
            break;
        }
    }
    let left_out = candidates.collect();
    let mut rounds = 1;
    let mut round_time = begun.elapsed();
    while rounds < rounds_wanted && begun.elapsed() + round_time <= options.time {
        let round_begun = Instant::now();
        // There and back: what grows slower over time weighs on none of them.
        let order: Vec<usize> = match rounds % 2 {
            0 => (0..measured.len()).collect(),
            _ => (0..measured.len()).rev().collect(),
        };
        for index in order {
            if let Some(measured) = measured.get_mut(index) {
                let measurement = lab.measure(&measured.candidate.table, false)?;
                measured.add(measurement);
            }
        }
        rounds += 1;
        round_time = round_begun.elapsed();
    }
    Ok(Tuning {
        measured,
        left_out,
        rounds,
    })
}

/// Fails once the observer does not want to go on.
fn check_wish(observer: &dyn Observer) -> Result<()> {
    match observer.wish() {
        Wish::GoOn => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Cancelled,
            "tuning was stopped; nothing was changed, and nothing of it remains",
        )),
    }
}

/// Progress of measuring; `files` counts measurements.
fn measuring(measurements: u64, bytes: u64) -> Progress {
    let mut progress = Progress::start(Phase::Measuring, None);
    progress.files = measurements;
    progress.bytes = bytes;
    progress
}
