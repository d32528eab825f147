//! Where candidates are measured: a store without a cache in a temporary directory, which holds one
//! table of the sample at a time.

use std::path::{Path, PathBuf};

use ppc_engine::{
    Counter, Db, DbOptions, ExternalTableWriter, IngestMode, IngestOptions, Keyspace,
    KeyspaceOptions, TableOptions,
};
use tempfile::TempDir;

use super::clock::Stopwatch;
use super::dice::Dice;
use super::figures::Measurement;
use super::sample::Sample;
use super::{check_wish, measuring};
use crate::progress::Observer;
use crate::{Error, Result};

/// Gets of one measurement.
const GETS_MAX: usize = 4096;
/// Clock seconds after which gets of one measurement end, once there are [`GETS_MIN`] of them.
const GET_SECONDS_MAX: f64 = 0.5;
const GETS_MIN: usize = 256;
/// Operations between two looks at the clock and at the observer.
const OPS_BETWEEN_CHECKS: usize = 64;

/// Keyspace of the table being measured.
const TRIAL: &str = "trial";

pub(super) struct Lab<'a> {
    sample: &'a Sample,
    observer: &'a dyn Observer,
    /// Places in the sample to get, the same for each candidate.
    gets: Vec<usize>,
    measurements: u64,
    /// Closed before its directory goes.
    db: Db,
    dir: TempDir,
}

impl<'a> Lab<'a> {
    pub(super) fn new(sample: &'a Sample, observer: &'a dyn Observer) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("ppc-tune-").tempdir();
        let dir = dir.map_err(|error| {
            Error::io("create a directory in", &std::env::temp_dir(), error)
                .with_remedy("set TMPDIR to a directory that can be written")
        })?;
        let mut options = DbOptions::default();
        options.cache_bytes = 0;
        options.auto_compaction = false;
        options.compression_threads = 1;
        let db = Db::open(dir.path().join("store"), options)?;
        let count = sample.entries().len();
        let mut dice = Dice::new();
        let gets = (0..GETS_MAX).map(|_| dice.below(count)).collect();
        Ok(Self {
            sample,
            observer,
            gets,
            measurements: 0,
            db,
            dir,
        })
    }

    /// Builds the table and gets from it. If asked to, then checks that what it gives back for
    /// every key that is got is what the sample holds.
    pub(super) fn measure(&mut self, table: &TableOptions, checks: bool) -> Result<Measurement> {
        let bytes = self.measurements * self.sample.content_bytes();
        self.observer.progress(&measuring(self.measurements, bytes));
        let path = self.dir.path().join("trial.table");
        let stopwatch = Stopwatch::start();
        let stored_bytes = self.build(&path, table)?;
        let build = stopwatch.spent();
        let keyspace = self.adopt(path, table)?;
        let mut measurement = Measurement {
            stored_bytes,
            build,
            gets: 0,
            returned_bytes: 0,
            decoded_bytes: 0,
            get: Default::default(),
        };
        self.get(&keyspace, &mut measurement)?;
        if checks {
            self.check_answers(&keyspace)?;
        }
        self.db.drop_keyspace(TRIAL)?;
        self.measurements += 1;
        Ok(measurement)
    }

    fn check_answers(&self, keyspace: &Keyspace) -> Result<()> {
        for chunk in self.gets.chunks(OPS_BETWEEN_CHECKS) {
            check_wish(self.observer)?;
            for &at in chunk {
                let Some((key, content)) = self.sample.entries().get(at) else {
                    continue;
                };
                if keyspace.get(key)?.as_ref() != Some(content) {
                    return Err(Error::corruption(format!(
                        "a table of the sample does not give back what was put into it for key {}",
                        key.escape_ascii()
                    ))
                    .with_remedy("check the machine's memory and disk, and report it"));
                }
            }
        }
        Ok(())
    }

    /// Writes the table on this thread alone; its length.
    fn build(&self, path: &Path, table: &TableOptions) -> Result<u64> {
        let mut writer = ExternalTableWriter::create(path, table, 1)?;
        for (count, (key, content)) in self.sample.entries().iter().enumerate() {
            if count.is_multiple_of(OPS_BETWEEN_CHECKS) {
                check_wish(self.observer)?;
            }
            writer.put(key, content.clone())?;
        }
        check_wish(self.observer)?;
        Ok(writer.finish()?.stored_bytes)
    }

    fn adopt(&self, path: PathBuf, table: &TableOptions) -> Result<Keyspace> {
        let options = KeyspaceOptions::uniform(table.clone());
        let keyspace = self.db.keyspace(TRIAL, options)?;
        let mut ingest = IngestOptions::default();
        ingest.mode = IngestMode::Move;
        self.db.ingest(&keyspace, &[path], &ingest)?;
        Ok(keyspace)
    }

    fn get(&self, keyspace: &Keyspace, measurement: &mut Measurement) -> Result<()> {
        let decoded = || self.db.stats().counters.get(Counter::FrameBytesDecoded);
        let decoded_before = decoded();
        let stopwatch = Stopwatch::start();
        for chunk in self.gets.chunks(OPS_BETWEEN_CHECKS) {
            check_wish(self.observer)?;
            for &at in chunk {
                let Some((key, _)) = self.sample.entries().get(at) else {
                    continue;
                };
                let content = keyspace.get(key)?;
                measurement.returned_bytes += content.map_or(0, |content| content.len() as u64);
                measurement.gets += 1;
            }
            let seconds = stopwatch.spent().clock.as_secs_f64();
            if measurement.gets >= GETS_MIN as u64 && seconds > GET_SECONDS_MAX {
                break;
            }
        }
        measurement.get = stopwatch.spent();
        measurement.decoded_bytes = decoded() - decoded_before;
        Ok(())
    }
}
