//! What the harness itself costs: `memcpy` through it beside a bare loop over the same values.

use ppc_store::{Error, ErrorKind, Result};

use super::reads::{Questions, gets};
use crate::corpus::Corpus;
use crate::measure::{Meter, Probe};
use crate::peers::{self, Codec, Resources, StoreSpec, Wanted};
use crate::results::{Keys, Load};
use crate::workload::Sequence;

/// Processor time of each way, alternating: what other programs take meanwhile does not count.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HarnessCost {
    pub(super) bare_cpu_seconds: Vec<f64>,
    pub(super) harness_cpu_seconds: Vec<f64>,
}

impl HarnessCost {
    /// What the harness adds, in percent of the bare loop: by the fastest run of each way, which
    /// interference makes slower and nothing makes faster.
    pub(super) fn percent(&self) -> f64 {
        let fastest = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
        (fastest(&self.harness_cpu_seconds) / fastest(&self.bare_cpu_seconds) - 1.0) * 100.0
    }
}

/// Copies every value in random order each way, and again `repeats` times. Short runs, often
/// alternating, say more than long ones on a machine that others use.
pub(super) fn measure(corpus: &Corpus, meter: &Meter, repeats: usize) -> Result<HarnessCost> {
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
    let ordinals = Sequence::new(Keys::Uniform, keys, 1).take(corpus.len());
    let wanted: Vec<Wanted<'_>> = ordinals
        .iter()
        .map(|&ordinal| Wanted {
            key: corpus.key(ordinal as usize),
            ordinal,
        })
        .collect();
    let questions = Questions {
        warm_up: &wanted,
        timed: &wanted,
        batch: 1,
    };
    let mut cost = HarnessCost {
        bare_cpu_seconds: Vec::new(),
        harness_cpu_seconds: Vec::new(),
    };
    for _ in 0..repeats {
        let (bare_cpu_seconds, expected) = bare(corpus, meter, &ordinals)?;
        cost.bare_cpu_seconds.push(bare_cpu_seconds);
        let measured = gets(store.as_ref(), meter, &[questions])?;
        cost.harness_cpu_seconds.push(measured.costs.cpu_seconds);
        if measured.tally.value_bytes != expected {
            return Err(Error::corruption("the two ways copied different bytes"));
        }
    }
    Ok(cost)
}

/// The bare loop: nothing but the copies, on a thread of its own and warmed up, as the harness
/// does. Gives its processor time and the bytes copied.
fn bare(corpus: &Corpus, meter: &Meter, ordinals: &[u32]) -> Result<(f64, u64)> {
    let thread = || {
        let mut copy = Vec::new();
        copy_all(corpus, ordinals, &mut copy);
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
