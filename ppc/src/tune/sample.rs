//! A part of the data that behaves like the whole: runs of neighbours in key order.
//!
//! Single files picked at random would lose what the store lives on: the versions and relatives of a
//! file, which are its neighbours. Neighbourhoods differ, so the sample's ratio may lie a tenth of it
//! beside the whole's; how candidates compare is what it is good for.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use ppc_engine::CancelToken;

use super::check_wish;
use crate::Result;
use crate::archive::Archive;
use crate::key::PpcKey;
use crate::progress::Observer;

/// How to sample.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SampleOptions {
    /// Bytes of keys and contents to hold. Default 64 MiB.
    pub sample_bytes: u64,
    /// Bytes of each run of neighbours: many times the largest block, and small enough that there
    /// are several. Contents longer than it are left out. Default a thirty-second part of the sample.
    pub run_bytes: u64,
    /// Time for reading sources, which are read twice unless they are smaller than the sample.
    /// Each gets its share; what there is no time for is left out. Default 20 seconds.
    pub time: Duration,
}

/// Runs of a sample, where it is large enough for so many.
const RUNS: u64 = 32;
/// Shortest run, where the sample is that large.
const RUN_BYTES_MIN: u64 = 1 << 20;

impl Default for SampleOptions {
    fn default() -> Self {
        Self::of_bytes(64 << 20)
    }
}

impl SampleOptions {
    /// A sample of this size, in thirty-two runs, or in fewer where these would be shorter than 1 MiB.
    #[must_use]
    pub fn of_bytes(sample_bytes: u64) -> Self {
        Self {
            sample_bytes,
            run_bytes: (sample_bytes / RUNS).max(RUN_BYTES_MIN),
            time: Duration::from_secs(20),
        }
    }
}

/// What a sample was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Coverage {
    /// Files that were looked at; of a store nobody counts them.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether time ran out before everything was looked at.
    pub is_cut_short: bool,
}

/// Runs of neighbours.
#[derive(Debug, Clone)]
pub struct Sample {
    entries: Vec<(Bytes, Bytes)>,
    runs: usize,
    content_bytes: u64,
    coverage: Option<Coverage>,
}

impl Sample {
    /// A sample of what the archive holds.
    pub fn of_archive(
        archive: &Archive,
        options: &SampleOptions,
        observer: &dyn Observer,
    ) -> Result<Self> {
        check_wish(observer)?;
        // Nobody cancels it: the sample is read before anyone could wish for it.
        let cancel = CancelToken::new();
        let runs = archive.sample(options.sample_bytes, options.run_bytes, &cancel)?;
        Ok(Self::of_runs(runs, None))
    }

    /// Runs of encoded keys and contents, in key order; a content that comes again is left out, as
    /// an import would.
    pub(super) fn of_runs(runs: Vec<Vec<(Bytes, Bytes)>>, coverage: Option<Coverage>) -> Self {
        let mut seen = HashSet::new();
        let mut is_new = |key: &[u8]| match PpcKey::decode(key) {
            Ok(key) => seen.insert(key.hash()),
            Err(_) => true,
        };
        let count = runs.len();
        let mut entries = Vec::with_capacity(runs.iter().map(Vec::len).sum());
        for run in runs {
            entries.extend(run.into_iter().filter(|(key, _)| is_new(key)));
        }
        Self {
            content_bytes: entries.iter().map(|(_, value)| value.len() as u64).sum(),
            runs: count,
            entries,
            coverage,
        }
    }

    /// Encoded keys and contents, in key order.
    #[must_use]
    pub fn entries(&self) -> &[(Bytes, Bytes)] {
        &self.entries
    }

    /// Bytes of the contents.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// How many runs of neighbours it is made of.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// What sources it was taken from; none for a store's.
    #[must_use]
    pub fn coverage(&self) -> Option<Coverage> {
        self.coverage
    }
}
