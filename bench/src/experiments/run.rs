//! Runs a plan: builds the stores of each group, checks them, measures every cell, and writes a
//! line for each run.
//!
//! Repetitions alternate: all stores of a group take their turn before any comes again. What is
//! in the ledger is skipped; a store whose cells are all there is not even built.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ppc_store::{Error, Result};

use super::calibrate::{self, Bounds, Volume};
use super::check::check;
use super::cost;
use super::ledger::Ledger;
use super::mixed::Script;
use super::plan::{Group, Template};
use super::progress::Progress;
use super::reads::{Measured, Questions, Tally, gets, scans};
use crate::corpus::Corpus;
use crate::measure::{Meter, Probe};
use crate::peers::{
    self, Built, Input, Peer, Resources, Store, StoreSpec, Wanted, copy_directory,
    drop_from_page_cache,
};
use crate::results::{Experiment, Keys, Load, Machine, Record, Space, Temperature};
use crate::workload::{Sequence, absent_keys, shuffled};

/// Batches of the untimed pass, of a hundred keys each.
const CHECKED_BATCHES: usize = 100;

/// Share of a run's operations that warm it up.
const WARM_UP_DIVISOR: usize = 10;

/// Operations of a mixed run: a quarter of the keys, within these bounds.
const MIXED_OPERATIONS: std::ops::RangeInclusive<usize> = 1_000..=20_000;

/// Everything that holds for all runs.
pub(super) struct Runner<'a> {
    pub(super) corpus_path: &'a Path,
    /// Read whole before the first group.
    pub(super) corpus: &'a Corpus,
    /// Where stores are built; emptied as the run goes on.
    pub(super) scratch: &'a Path,
    pub(super) meter: &'a Meter,
    pub(super) machine: &'a Machine,
    pub(super) bounds: Bounds,
    pub(super) ledger: Ledger,
    pub(super) progress: Progress,
}

/// A store of a group.
struct Site {
    spec: StoreSpec,
    peer: &'static dyn Peer,
    /// Where it was built; none if none of its cells is left to measure.
    dir: Option<PathBuf>,
    stored_bytes: u64,
}

impl Runner<'_> {
    /// Runs every group.
    pub(super) fn run(&mut self, groups: &[Group]) -> Result<()> {
        for (number, group) in groups.iter().enumerate() {
            match group.raw_bytes {
                None => {
                    let corpus = self.corpus;
                    self.run_group(number, group, corpus)?;
                }
                Some(raw_bytes) => {
                    let corpus = Corpus::load_prefix(self.corpus_path, raw_bytes)?;
                    self.run_group(number, group, &corpus)?;
                }
            }
        }
        Ok(())
    }

    fn run_group(&mut self, number: usize, group: &Group, corpus: &Corpus) -> Result<()> {
        let dir = self.scratch.join(format!("group-{number}"));
        // Left by a run that was interrupted.
        remove(&dir)?;
        fs::create_dir_all(&dir).map_err(|error| Error::io("create", &dir, error))?;
        let sites = self.build_group(group, corpus, &dir)?;
        let result = self
            .measure_warm(group, &sites, corpus)
            .and_then(|()| self.measure_reopened(group, &sites, corpus));
        drop(sites);
        fs::remove_dir_all(&dir).map_err(|error| Error::io("remove", &dir, error))?;
        result
    }

    fn is_done(&self, template: &Template, spec: &StoreSpec, repeat: u32, corpus: &Corpus) -> bool {
        let cell = template.cell(spec);
        self.ledger.has(&cell, repeat, &corpus.id().sha256)
    }

    fn resources(&self, threads: u32) -> Resources {
        Resources::scaled(threads as usize, self.machine.memory_bytes)
    }

    /// Builds every store as often as it is still to be measured, and keeps one of each that is
    /// needed.
    fn build_group(&mut self, group: &Group, corpus: &Corpus, dir: &Path) -> Result<Vec<Site>> {
        let threads_kept = group.build_threads.last().copied().unwrap_or(1);
        let mut sites = Vec::new();
        for spec in &group.stores {
            sites.push(Site {
                spec: spec.clone(),
                peer: peers::named(spec.peer)?,
                dir: None,
                stored_bytes: 0,
            });
        }
        let keys = u32::try_from(corpus.len())
            .map_err(|_| Error::limit("the corpus exceeds 2^32 files"))?;
        let order = shuffled(keys, 0);
        for repeat in 0..group.build_repeats {
            for &threads in &group.build_threads {
                for (index, site) in sites.iter_mut().enumerate() {
                    let template = Template::build(threads);
                    let is_wanted = group.records_builds
                        && !self.is_done(&template, &site.spec, repeat, corpus);
                    let is_kept = threads == threads_kept
                        && repeat + 1 == group.build_repeats
                        && self.is_read(group, &site.spec, corpus);
                    if !is_wanted && !is_kept {
                        self.skip(group, &template, &site.spec, corpus);
                        continue;
                    }
                    let store_dir = dir.join(format!("store-{index}"));
                    let input = Input {
                        corpus,
                        order: is_shuffled(site.spec.load).then_some(order.as_slice()),
                    };
                    let (built, measured) = self.build(site, input, threads, &store_dir)?;
                    site.stored_bytes = site.peer.stored_bytes(corpus, &store_dir)?;
                    if is_wanted {
                        let space = Space {
                            stored_bytes: site.stored_bytes,
                            written_bytes: built.written_bytes,
                        };
                        self.record(group, &template, site, repeat, corpus, measured, space)?;
                    }
                    if is_kept {
                        site.dir = Some(store_dir);
                    } else {
                        remove(&store_dir)?;
                    }
                }
            }
        }
        Ok(sites)
    }

    /// Whether any cell of the store but its build is still to be measured.
    fn is_read(&self, group: &Group, spec: &StoreSpec, corpus: &Corpus) -> bool {
        group.reads_of(spec).any(|template| {
            let mut repeats = 0..group.read_repeats;
            repeats.any(|repeat| !self.is_done(template, spec, repeat, corpus))
        })
    }

    fn build(
        &self,
        site: &Site,
        input: Input<'_>,
        threads: u32,
        dir: &Path,
    ) -> Result<(Built, Measured)> {
        remove(dir)?;
        fs::create_dir_all(dir).map_err(|error| Error::io("create", dir, error))?;
        let resources = self.resources(threads);
        self.progress.say(&format!("building {}", site.spec));
        let probe = Probe::start(self.meter)?;
        let start = Instant::now();
        let built = site.peer.build(&site.spec, input, &resources, dir)?;
        let seconds = start.elapsed().as_secs_f64();
        let costs = probe.stop()?;
        let measured = Measured {
            tally: Tally {
                operations: input.corpus.len() as u64,
                found: input.corpus.len() as u64,
                value_bytes: input.corpus.raw_bytes(),
            },
            seconds,
            costs,
        };
        Ok((built, measured))
    }

    /// Measures what runs on open stores with warm files.
    fn measure_warm(&mut self, group: &Group, sites: &[Site], corpus: &Corpus) -> Result<()> {
        let resources = self.resources(group.build_threads.last().copied().unwrap_or(1));
        let mut opened: Vec<(&Site, Box<dyn Store + '_>)> = Vec::new();
        for site in sites {
            let Some(dir) = &site.dir else { continue };
            self.progress.say(&format!("checking {}", site.spec));
            let store = site.peer.open(&site.spec, corpus, &resources, dir)?;
            check(site.peer, store.as_ref(), corpus, CHECKED_BATCHES)
                .map_err(|error| error.at_path(dir))?;
            opened.push((site, store));
        }
        let warm = group.reads.iter().filter(|it| is_warm_read(it));
        for template in warm {
            let mut volumes: HashMap<&StoreSpec, Volume> = HashMap::new();
            for repeat in 0..group.read_repeats {
                for (site, store) in &opened {
                    if !template.suits(site.peer) {
                        continue;
                    }
                    if self.is_done(template, &site.spec, repeat, corpus) {
                        self.skip(group, template, &site.spec, corpus);
                        continue;
                    }
                    let store = store.as_ref();
                    let volume = match volumes.get(&site.spec) {
                        Some(volume) => *volume,
                        None => {
                            let volume = self.calibrate(template, store, corpus)?;
                            *volumes.entry(&site.spec).or_insert(volume)
                        }
                    };
                    let measured = self.ask(template, store, corpus, repeat, volume, true)?;
                    self.record_read(group, template, site, repeat, corpus, measured)?;
                }
            }
        }
        Ok(())
    }

    /// Measures what needs a store opened for it alone: cold files, and a copy to change.
    fn measure_reopened(&mut self, group: &Group, sites: &[Site], corpus: &Corpus) -> Result<()> {
        let resources = self.resources(group.build_threads.last().copied().unwrap_or(1));
        for template in group.reads.iter().filter(|it| !is_warm_read(it)) {
            let mut volumes: HashMap<&StoreSpec, Volume> = HashMap::new();
            for repeat in 0..group.read_repeats {
                for site in sites {
                    let Some(dir) = &site.dir else { continue };
                    if !template.suits(site.peer) {
                        continue;
                    }
                    if self.is_done(template, &site.spec, repeat, corpus) {
                        self.skip(group, template, &site.spec, corpus);
                        continue;
                    }
                    if template.experiment == Experiment::Mixed {
                        self.mix(group, template, site, dir, repeat, corpus, &resources)?;
                        continue;
                    }
                    let open = || site.peer.open(&site.spec, corpus, &resources, dir);
                    let volume = match volumes.get(&site.spec) {
                        Some(volume) => *volume,
                        None => {
                            drop_from_page_cache(dir)?;
                            let volume = self.calibrate(template, open()?.as_ref(), corpus)?;
                            *volumes.entry(&site.spec).or_insert(volume)
                        }
                    };
                    drop_from_page_cache(dir)?;
                    let store = open()?;
                    let store = store.as_ref();
                    let measured = self.ask(template, store, corpus, repeat, volume, false)?;
                    self.record_read(group, template, site, repeat, corpus, measured)?;
                }
            }
        }
        Ok(())
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a run is told where, what and on what data"
    )]
    fn mix(
        &mut self,
        group: &Group,
        template: &Template,
        site: &Site,
        dir: &Path,
        repeat: u32,
        corpus: &Corpus,
        resources: &Resources,
    ) -> Result<()> {
        let copy = dir.with_extension("mixed");
        remove(&copy)?;
        copy_directory(dir, &copy)?;
        let operations = (corpus.len() / 4)
            .clamp(*MIXED_OPERATIONS.start(), *MIXED_OPERATIONS.end())
            .min(corpus.len());
        let script = Script::new(corpus, operations, seed(repeat));
        let store = site.peer.open(&site.spec, corpus, resources, &copy)?;
        let measured = script.play(store.as_ref(), corpus, self.meter)?;
        script.check(store.as_ref(), corpus)?;
        drop(store);
        let space = Space {
            stored_bytes: site.peer.stored_bytes(corpus, &copy)?,
            written_bytes: None,
        };
        self.record(group, template, site, repeat, corpus, measured, space)?;
        remove(&copy)
    }

    /// How much to ask so that the clock runs long enough, and not much longer.
    fn calibrate(&self, template: &Template, store: &dyn Store, corpus: &Corpus) -> Result<Volume> {
        if template.experiment == Experiment::Scan {
            let seconds = scans(store, self.meter, 1)?.seconds;
            return Ok(calibrate::rounds(self.bounds, corpus.len(), seconds));
        }
        calibrate::volume(
            self.bounds,
            corpus.len(),
            template.batch,
            &mut |operations| {
                // Other keys than those that are measured.
                let asked = self.ask_for(template, store, corpus, u64::MAX, operations, 0)?;
                Ok(asked.seconds)
            },
        )
    }

    fn ask(
        &self,
        template: &Template,
        store: &dyn Store,
        corpus: &Corpus,
        repeat: u32,
        volume: Volume,
        warms_up: bool,
    ) -> Result<Measured> {
        if template.experiment == Experiment::Scan {
            return scans(store, self.meter, volume.rounds);
        }
        let warm_up = if warms_up {
            volume.operations / WARM_UP_DIVISOR
        } else {
            0
        };
        let seed = seed(repeat);
        let measured = self.ask_for(template, store, corpus, seed, volume.operations, warm_up)?;
        Ok(measured)
    }

    /// Looks up so many keys, all threads together, after so many to warm up. Fails if an answer
    /// is missing or not of the length it should have.
    fn ask_for(
        &self,
        template: &Template,
        store: &dyn Store,
        corpus: &Corpus,
        seed: u64,
        operations: usize,
        warm_up: usize,
    ) -> Result<Measured> {
        let keys = u32::try_from(corpus.len()).unwrap_or(u32::MAX);
        let mut sequence = Sequence::new(template.keys, keys, seed);
        let first = match template.keys {
            // The favourites are to be warm: those of this very ranking.
            Keys::PowerLaw => sequence.take(warm_up),
            _ => Sequence::new(Keys::Uniform, keys, !seed).take(warm_up),
        };
        let ordinals = sequence.take(operations);
        let is_miss = template.experiment == Experiment::Miss;
        let absent = |ordinals: &[u32], seed: u64| {
            if is_miss {
                absent_keys(corpus, ordinals, seed)
            } else {
                Vec::new()
            }
        };
        let (absent_first, absent_keys) = (absent(&first, !seed), absent(&ordinals, seed));
        let warm_up = questions(corpus, &first, &absent_first);
        let timed = questions(corpus, &ordinals, &absent_keys);
        let threads = template.threads.max(1) as usize;
        let slice = |all: &'_ [Wanted<'_>], thread: usize| {
            let each = all.len().div_ceil(threads);
            (thread * each).min(all.len())..((thread + 1) * each).min(all.len())
        };
        let dealt: Vec<Questions<'_>> = (0..threads)
            .map(|thread| Questions {
                warm_up: warm_up.get(slice(&warm_up, thread)).unwrap_or_default(),
                timed: timed.get(slice(&timed, thread)).unwrap_or_default(),
                batch: template.batch as usize,
            })
            .collect();
        let measured = gets(store, self.meter, &dealt)?;
        let expected = if is_miss {
            (0, 0)
        } else {
            let lengths = ordinals
                .iter()
                .map(|&it| corpus.value(it as usize).len() as u64);
            (ordinals.len() as u64, lengths.sum())
        };
        let got = (measured.tally.found, measured.tally.value_bytes);
        if got == expected {
            return Ok(measured);
        }
        Err(Error::corruption(format!(
            "{} values of {} bytes came back where {} of {} were expected",
            got.0, got.1, expected.0, expected.1
        )))
    }

    fn record_read(
        &mut self,
        group: &Group,
        template: &Template,
        site: &Site,
        repeat: u32,
        corpus: &Corpus,
        measured: Measured,
    ) -> Result<()> {
        let space = Space {
            stored_bytes: site.stored_bytes,
            written_bytes: None,
        };
        self.record(group, template, site, repeat, corpus, measured, space)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a record names all that bears on a run"
    )]
    fn record(
        &mut self,
        group: &Group,
        template: &Template,
        site: &Site,
        repeat: u32,
        corpus: &Corpus,
        measured: Measured,
        space: Space,
    ) -> Result<()> {
        let threads = match template.experiment {
            Experiment::Build => template.threads,
            _ => group.build_threads.last().copied().unwrap_or(1),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ended = now.map_or(0.0, |since| since.as_secs_f64());
        let record = Record {
            cell: template.cell(&site.spec),
            repeat,
            corpus: corpus.id().clone(),
            machine: self.machine.clone(),
            started_unix_seconds: (ended - measured.seconds) as u64,
            operations: measured.tally.operations,
            value_bytes: measured.tally.value_bytes,
            seconds: measured.seconds,
            costs: measured.costs,
            space,
            options: site.peer.options(&site.spec, &self.resources(threads)),
        };
        self.ledger.append(&record)?;
        let seconds = self.estimate(group, template, &site.spec, corpus);
        self.progress.done(&record, &site.spec, seconds);
        Ok(())
    }

    fn skip(&mut self, group: &Group, template: &Template, spec: &StoreSpec, corpus: &Corpus) {
        if template.experiment != Experiment::Build || group.records_builds {
            let seconds = self.estimate(group, template, spec, corpus);
            self.progress.skipped(seconds);
        }
    }

    fn estimate(
        &self,
        group: &Group,
        template: &Template,
        spec: &StoreSpec,
        corpus: &Corpus,
    ) -> f64 {
        if template.experiment == Experiment::Build {
            return cost::build_seconds(spec, corpus.raw_bytes(), template.threads);
        }
        let runs = group.reads_of(spec).count() as f64 * f64::from(group.read_repeats);
        self.bounds.run_seconds() + cost::check_seconds(corpus.raw_bytes()) / runs.max(1.0)
    }
}

fn is_warm_read(template: &Template) -> bool {
    template.temperature == Temperature::Warm && template.experiment != Experiment::Mixed
}

fn is_shuffled(load: Load) -> bool {
    matches!(load, Load::ShuffledPuts | Load::Shuffled)
}

/// Every repetition asks for other keys; all stores are asked for the same.
fn seed(repeat: u32) -> u64 {
    u64::from(repeat) + 1
}

fn questions<'a>(corpus: &'a Corpus, ordinals: &[u32], absent: &'a [Vec<u8>]) -> Vec<Wanted<'a>> {
    if !absent.is_empty() {
        let absent = absent.iter().map(|key| Wanted {
            key,
            ordinal: u32::MAX,
        });
        return absent.collect();
    }
    let present = ordinals.iter().map(|&ordinal| Wanted {
        key: corpus.key(ordinal as usize),
        ordinal,
    });
    present.collect()
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", dir, error))
        }
        _ => Ok(()),
    }
}
