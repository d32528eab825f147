//! From measurements to figures that can be compared.

use super::candidate::Candidate;
use super::clock::Spent;
use super::sample::Sample;

/// One building of a table and the gets from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measurement {
    /// Bytes of the table's file: frames, keys, filter and all. The same in each round.
    pub stored_bytes: u64,
    /// Time to build it, the sync included.
    pub build: Spent,
    /// Single gets of random keys.
    pub gets: u64,
    /// Bytes of contents that they returned.
    pub returned_bytes: u64,
    /// Bytes that were decoded to return them.
    pub decoded_bytes: u64,
    /// Time of all gets.
    pub get: Spent,
}

/// A candidate and its measurements.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Measured {
    /// The candidate.
    pub candidate: Candidate,
    /// Bytes of the sample's contents.
    pub content_bytes: u64,
    /// One a round.
    pub rounds: Vec<Measurement>,
}

/// What candidates are judged by. Speeds are of one core: by processor time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Stored bytes for each byte of contents: keys and filter count as stored, hash indexes do not.
    pub ratio: f64,
    /// Bytes of contents built into a table in a second.
    pub build_bytes_per_second: f64,
    /// Bytes of contents returned by single random gets in a second, nothing cached but the table's
    /// file.
    pub get_bytes_per_second: f64,
}

impl Figures {
    /// Figures from elsewhere.
    #[must_use]
    pub fn new(ratio: f64, build_bytes_per_second: f64, get_bytes_per_second: f64) -> Self {
        Self {
            ratio,
            build_bytes_per_second,
            get_bytes_per_second,
        }
    }

    /// Processor seconds for each byte that is built once and got `reads` times.
    #[must_use]
    pub fn seconds_per_byte(&self, reads: f64) -> f64 {
        let per_byte = |bytes_per_second: f64| 1.0 / bytes_per_second.max(1e-9);
        per_byte(self.build_bytes_per_second) + reads * per_byte(self.get_bytes_per_second)
    }
}

impl Measured {
    pub(super) fn new(candidate: Candidate, sample: &Sample, first: Measurement) -> Self {
        Self {
            candidate,
            content_bytes: sample.content_bytes(),
            rounds: vec![first],
        }
    }

    pub(super) fn add(&mut self, measurement: Measurement) {
        self.rounds.push(measurement);
    }

    /// Medians over the rounds.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let stored_bytes = self.rounds.iter().map(|round| round.stored_bytes as f64);
        let build = self
            .rounds
            .iter()
            .map(|round| self.content_bytes as f64 / seconds(round.build));
        let get = self
            .rounds
            .iter()
            .map(|round| round.returned_bytes as f64 / seconds(round.get));
        Figures {
            ratio: median(stored_bytes) / (self.content_bytes as f64).max(1.0),
            build_bytes_per_second: median(build),
            get_bytes_per_second: median(get),
        }
    }

    /// Processor time of a single get: the median over the rounds of their means, in microseconds.
    #[must_use]
    pub fn get_microseconds(&self) -> f64 {
        let means = self
            .rounds
            .iter()
            .map(|round| seconds(round.get) * 1e6 / (round.gets as f64).max(1.0));
        median(means)
    }

    /// Bytes decoded for each byte that a get returns.
    #[must_use]
    pub fn decoded_per_returned(&self) -> f64 {
        let shares = self
            .rounds
            .iter()
            .map(|round| round.decoded_bytes as f64 / (round.returned_bytes as f64).max(1.0));
        median(shares)
    }
}

/// Processor seconds, never nothing.
fn seconds(spent: Spent) -> f64 {
    spent.processor.as_secs_f64().max(1e-9)
}

/// The middle one, or the mean of the middle two; 0 of none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2);
    let lower = values.get(values.len().saturating_sub(1) / 2);
    match (lower, upper) {
        (Some(lower), Some(upper)) => (lower + upper) / 2.0,
        _ => 0.0,
    }
}
