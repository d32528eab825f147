//! What the harness itself costs: `memcpy` through it beside a bare loop over the same values.

use ppc_store::{Error, ErrorKind, Result};

use super::reads::{Questions, gets};
use crate::corpus::Corpus;
use crate::measure::{Meter, Probe};
use crate::peers::{self, Codec, Resources, StoreSpec, Wanted};
use crate::results::{Keys, Load, Summary};
use crate::workload::Sequence;

/// A bare run and one through the harness, right after each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) operations: usize,
    /// Processor time: what other programs take meanwhile does not count.
    pub(super) bare_cpu_seconds: f64,
    pub(super) harness_cpu_seconds: f64,
}

/// What the harness adds to each operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HarnessCost {
    /// The median over the pairs, each of which met the machine in one mood.
    pub(super) nanoseconds: f64,
    /// The median is known within so much, with a certainty of 95 %.
    pub(super) error_nanoseconds: f64,
    /// What a bare copy takes, the median.
    pub(super) bare_nanoseconds: f64,
}

impl HarnessCost {
    /// `None` without pairs.
    pub(super) fn of(pairs: &[Pair]) -> Option<Self> {
        let of_each = |seconds: fn(&Pair) -> f64| {
            let nanoseconds = |pair: &Pair| seconds(pair) * 1e9 / pair.operations as f64;
            Summary::of(pairs.iter().map(nanoseconds))
        };
        let added = of_each(|pair| pair.harness_cpu_seconds - pair.bare_cpu_seconds)?;
        // Of a normal distribution, a quarter lies beyond 0.674 standard deviations on each side,
        // and the median of n values scatters by sqrt(pi / 2n) of them.
        let deviation = (added.upper_quartile - added.lower_quartile) / (2.0 * 0.674_49);
        let error = deviation * (std::f64::consts::FRAC_PI_2 / added.count as f64).sqrt();
        Some(Self {
            nanoseconds: added.median,
            error_nanoseconds: 1.96 * error,
            bare_nanoseconds: of_each(|pair| pair.bare_cpu_seconds)?.median,
        })
    }
}

/// Rounds over all values in a run: runs of the experiments take half a second and more, beside which
/// what starting and ending one costs, tenths of a millisecond, vanishes. It must not show here.
const ROUNDS: usize = 64;

/// Copies every value in random order each way, [`ROUNDS`] times in a run, in `pairs` of runs; which
/// way comes first takes turns. Many short pairs say more than few long ones on a machine that
/// others use.
pub(super) fn measure(corpus: &Corpus, meter: &Meter, pairs: usize) -> Result<Vec<Pair>> {
    let peer = peers::named("memcpy")?;
    let spec = StoreSpec {
        peer: peer.name(),
        load: Load::Sorted,
        codec: Codec::None,
        layout: "files",
        block_bytes: 0,
        dictionary_bytes: 0,
        cache_bytes: 0,
    };
    let resources = Resources::scaled(1, 0);
    // The limit has no files: the path is never looked at.
    let store = peer.open(&spec, corpus, &resources, std::path::Path::new(""))?;
    let keys = u32::try_from(corpus.len()).unwrap_or(u32::MAX);
    let ordinals = Sequence::new(Keys::Uniform, keys, 1).take(corpus.len() * ROUNDS);
    let wanted: Vec<Wanted<'_>> = ordinals
        .iter()
        .map(|&ordinal| Wanted {
            key: corpus.key(ordinal as usize),
            ordinal,
        })
        .collect();
    let questions = Questions {
        warm_up: wanted.get(..corpus.len()).unwrap_or_default(),
        timed: &wanted,
        batch: 1,
    };
    let through_harness = || -> Result<(f64, u64)> {
        let measured = gets(store.as_ref(), meter, &[questions])?;
        Ok((measured.costs.cpu_seconds, measured.tally.value_bytes))
    };
    let mut measured = Vec::with_capacity(pairs);
    for round in 0..pairs {
        let (bare, harness) = if round % 2 == 0 {
            let bare = bare(corpus, meter, &ordinals)?;
            (bare, through_harness()?)
        } else {
            let harness = through_harness()?;
            (bare(corpus, meter, &ordinals)?, harness)
        };
        if bare.1 != harness.1 {
            return Err(Error::corruption("the two ways copied different bytes"));
        }
        measured.push(Pair {
            operations: wanted.len(),
            bare_cpu_seconds: bare.0,
            harness_cpu_seconds: harness.0,
        });
    }
    Ok(measured)
}

/// The bare loop: nothing but the copies, on a thread of its own and warmed up, as the harness
/// does. Gives its processor time and the bytes copied.
fn bare(corpus: &Corpus, meter: &Meter, ordinals: &[u32]) -> Result<(f64, u64)> {
    let thread = || {
        let mut copy = Vec::new();
        let warm_up = ordinals.get(..corpus.len()).unwrap_or_default();
        copy_all(corpus, warm_up, &mut copy);
        let probe = Probe::start(meter)?;
        let bytes = copy_all(corpus, ordinals, &mut copy);
        Ok((probe.stop()?.cpu_seconds, bytes))
    };
    let died = |_| Err(Error::new(ErrorKind::Failed, "the copying thread died"));
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap_or_else(died))
}

fn copy_all(corpus: &Corpus, ordinals: &[u32], copy: &mut Vec<u8>) -> u64 {
    let mut bytes = 0;
    for &ordinal in ordinals {
        copy.clear();
        copy.extend_from_slice(corpus.value(ordinal as usize));
        bytes += std::hint::black_box(&*copy).len() as u64;
    }
    bytes
}
