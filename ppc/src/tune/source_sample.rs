//! A sample of what would be imported.
//!
//! Neighbours in key order lie anywhere in the sources, and the sources may be far larger than
//! memory. So they are read twice. The first pass draws files at random, by their bytes, and from
//! these takes the starts of the runs so that runs are evenly spread over the bytes in key order.
//! The second pass collects what follows each start: a run holds the least keys from its start on,
//! without a gap, whatever order they came in. Sources that fit in the sample are read once, and
//! taken whole.

use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::check_wish;
use super::dice::Dice;
use super::sample::{Coverage, Sample, SampleOptions};
use crate::hash::Sha1Git;
use crate::key::{PpcKey, split_name};
use crate::progress::{Observer, Phase, Progress};
use crate::source::{Source, SourceFile, SourceItem, SourceOptions, SourceSpec, open_source};
use crate::{Error, ErrorKind, Result};

/// Files drawn for each run wanted: enough that every so-many-th of them cuts the whole about
/// evenly.
const DRAWN_PER_RUN: usize = 32;

/// A sample of the inputs that `specs` name. What cannot be read of them is passed over: an import
/// will report it.
pub fn sample_sources(
    specs: &[SourceSpec],
    source_options: &SourceOptions,
    options: &SampleOptions,
    observer: &dyn Observer,
) -> Result<Sample> {
    let open = |spec| open_source(spec, source_options);
    let inputs: Vec<_> = specs.iter().map(|spec| move || open(spec)).collect();
    let inputs: Vec<Opener<'_>> = inputs.iter().map(|open| open as Opener<'_>).collect();
    sample_inputs(&inputs, options, observer)
}

/// Opens one source, at its beginning.
pub(super) type Opener<'a> = &'a dyn Fn() -> Result<Box<dyn Source>>;

/// As [`sample_sources`], of whatever can be opened.
pub(super) fn sample_inputs(
    inputs: &[Opener<'_>],
    options: &SampleOptions,
    observer: &dyn Observer,
) -> Result<Sample> {
    let run_bytes = options.run_bytes.clamp(1, options.sample_bytes.max(1));
    let run_count = usize::try_from(options.sample_bytes / run_bytes).unwrap_or(usize::MAX);
    let mut survey = Survey::new(options.sample_bytes, run_bytes, run_count.max(1));
    let mut reading = Reading {
        observer,
        coverage: Coverage::default(),
        lengths: Vec::with_capacity(inputs.len()),
    };
    // The second pass takes as long as the first.
    reading.first_pass(inputs, options.time / 2, &mut |file| survey.take(file))?;
    let coverage = Some(reading.coverage);
    if let Some(whole) = survey.whole {
        return Ok(Sample::of_runs(vec![encode(whole)], coverage));
    }
    let mut runs = Runs::new(survey.starts(run_count.max(1)), run_bytes);
    reading.second_pass(inputs, &mut |file| runs.take(file))?;
    let runs = runs.runs.into_iter().map(|run| encode(run.files));
    Ok(Sample::of_runs(
        runs.filter(|run| !run.is_empty()).collect(),
        coverage,
    ))
}

fn encode(files: BTreeMap<PpcKey, Bytes>) -> Vec<(Bytes, Bytes)> {
    let encode = |(key, content): (PpcKey, Bytes)| (Bytes::from(key.encode()), content);
    files.into_iter().map(encode).collect()
}

fn key_of(file: &SourceFile) -> Result<PpcKey> {
    // A name may share memory with much else of its source, and so may a content.
    PpcKey::new(
        Bytes::copy_from_slice(&file.name),
        Sha1Git::of(&file.content),
    )
}

/// Reads sources up to a limit, the same in both passes.
struct Reading<'a> {
    observer: &'a dyn Observer,
    coverage: Coverage,
    /// Items read of each source.
    lengths: Vec<u64>,
}

impl Reading<'_> {
    fn first_pass(
        &mut self,
        inputs: &[Opener<'_>],
        time: Duration,
        each: &mut dyn FnMut(SourceFile) -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        for (index, open) in inputs.iter().enumerate() {
            let left = time.saturating_sub(begun.elapsed());
            let sources_left = u32::try_from(inputs.len() - index).unwrap_or(u32::MAX);
            let deadline = Instant::now() + left / sources_left;
            let mut items = 0;
            let mut is_late = false;
            let observer = self.observer;
            let coverage = &mut self.coverage;
            let outcome = open()?.read(&mut |item| {
                check_wish(observer)?;
                // A source is worth one item even where there is no time at all.
                if items > 0 && Instant::now() >= deadline {
                    is_late = true;
                    return Err(stop());
                }
                items += 1;
                let SourceItem::File(file) = item else {
                    return Ok(());
                };
                coverage.files += 1;
                coverage.bytes += file.content.len() as u64;
                observer.progress(&reading(coverage.files, coverage.bytes, None));
                each(file)
            });
            if !is_late {
                outcome?;
            }
            self.coverage.is_cut_short |= is_late;
            self.lengths.push(items);
        }
        Ok(())
    }

    fn second_pass(
        &self,
        inputs: &[Opener<'_>],
        each: &mut dyn FnMut(SourceFile) -> Result<()>,
    ) -> Result<()> {
        let (mut files, mut bytes) = (0, 0);
        for (open, &length) in inputs.iter().zip(&self.lengths) {
            let mut items = 0;
            let mut is_done = false;
            let outcome = open()?.read(&mut |item| {
                check_wish(self.observer)?;
                if items == length {
                    is_done = true;
                    return Err(stop());
                }
                items += 1;
                let SourceItem::File(file) = item else {
                    return Ok(());
                };
                files += 1;
                bytes += file.content.len() as u64;
                let total = Some(self.coverage.bytes);
                self.observer.progress(&reading(files, bytes, total));
                each(file)
            });
            if !is_done {
                outcome?;
            }
        }
        Ok(())
    }
}

fn stop() -> Error {
    Error::new(ErrorKind::Cancelled, "enough was read")
}

fn reading(files: u64, bytes: u64, total: Option<u64>) -> Progress {
    let phase = match total {
        None => Phase::Reading,
        Some(_) => Phase::Sampling,
    };
    let mut progress = Progress::start(phase, total);
    progress.files = files;
    progress.bytes = bytes;
    progress
}

/// The first pass: everything, as long as it fits, and files drawn at random by their bytes.
struct Survey {
    sample_bytes: u64,
    run_bytes: u64,
    whole: Option<BTreeMap<PpcKey, Bytes>>,
    whole_bytes: u64,
    dice: Dice,
    drawn_max: usize,
    drawn: BinaryHeap<Drawn>,
}

impl Survey {
    fn new(sample_bytes: u64, run_bytes: u64, run_count: usize) -> Self {
        Self {
            sample_bytes,
            run_bytes,
            whole: Some(BTreeMap::new()),
            whole_bytes: 0,
            dice: Dice::new(),
            drawn_max: run_count.saturating_mul(DRAWN_PER_RUN),
            drawn: BinaryHeap::new(),
        }
    }

    fn take(&mut self, file: SourceFile) -> Result<()> {
        let bytes = file.content.len() as u64;
        if bytes > self.run_bytes {
            return Ok(());
        }
        // The least of these are a draw in which each byte counts alike (Efraimidis, Spirakis).
        let lot = -self.dice.fraction().ln() / bytes.max(1) as f64;
        let is_full = self.drawn.len() >= self.drawn_max;
        let is_drawn = !is_full || self.drawn.peek().is_some_and(|last| lot < last.lot);
        if self.whole.is_none() && !is_drawn {
            return Ok(());
        }
        let Ok(key) = key_of(&file) else {
            // The import will refuse it.
            return Ok(());
        };
        if is_drawn {
            if is_full {
                self.drawn.pop();
            }
            let key = key.clone();
            self.drawn.push(Drawn { lot, key });
        }
        if let Some(whole) = &mut self.whole {
            let entry_bytes = bytes + key.name().len() as u64;
            if whole
                .insert(key, Bytes::copy_from_slice(&file.content))
                .is_none()
            {
                self.whole_bytes += entry_bytes;
            }
            if self.whole_bytes > self.sample_bytes {
                self.whole = None;
            }
        }
        Ok(())
    }

    /// The starts of at most `count` runs, ascending.
    fn starts(self, count: usize) -> Vec<PpcKey> {
        let keys = self.drawn.into_iter().map(|drawn| drawn.key);
        let keys: std::collections::BTreeSet<PpcKey> = keys.collect();
        let step = keys.len().div_ceil(count).max(1);
        // From the middle of each part: the first file is not more worth than others.
        keys.into_iter().skip(step / 2).step_by(step).collect()
    }
}

/// A file drawn at random. Ordered by its lot, the worst first.
struct Drawn {
    lot: f64,
    key: PpcKey,
}

impl PartialEq for Drawn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Drawn {}

impl PartialOrd for Drawn {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Drawn {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.lot.total_cmp(&other.lot)
    }
}

/// The second pass: what follows each start.
struct Runs {
    /// By start, ascending. Each ends where the next begins, if not before.
    runs: Vec<Run>,
    run_bytes: u64,
}

struct Run {
    start: PpcKey,
    files: BTreeMap<PpcKey, Bytes>,
    bytes: u64,
    /// The least key that had no room: nothing from there on is in the run.
    end: Option<PpcKey>,
}

impl Runs {
    fn new(starts: Vec<PpcKey>, run_bytes: u64) -> Self {
        let run = |start| Run {
            start,
            files: BTreeMap::new(),
            bytes: 0,
            end: None,
        };
        Self {
            runs: starts.into_iter().map(run).collect(),
            run_bytes,
        }
    }

    fn take(&mut self, file: SourceFile) -> Result<()> {
        if file.content.len() as u64 > self.run_bytes || !self.may_hold(&file.name) {
            return Ok(());
        }
        let Ok(key) = key_of(&file) else {
            return Ok(());
        };
        let after = self.runs.partition_point(|run| run.start <= key);
        let run = after.checked_sub(1).and_then(|at| self.runs.get_mut(at));
        if let Some(run) = run {
            run.take(key, Bytes::copy_from_slice(&file.content), self.run_bytes);
        }
        Ok(())
    }

    /// Whether a file of this name may belong to a run. Most do not, and need not be hashed.
    fn may_hold(&self, name: &[u8]) -> bool {
        let name = split_name(name);
        let after = self
            .runs
            .partition_point(|run| split_name(run.start.name()) <= name);
        let run = after.checked_sub(1).and_then(|at| self.runs.get(at));
        run.is_some_and(|run| {
            let end = run.end.as_ref().map(|end| split_name(end.name()));
            // With one name, several runs may begin: the hash decides.
            split_name(run.start.name()) == name || end.is_none_or(|end| name <= end)
        })
    }
}

impl Run {
    fn take(&mut self, key: PpcKey, content: Bytes, run_bytes: u64) {
        if self.end.as_ref().is_some_and(|end| key >= *end) {
            return;
        }
        let entry_bytes = |key: &PpcKey, content: &Bytes| (key.name().len() + content.len()) as u64;
        let bytes = entry_bytes(&key, &content);
        if self.files.insert(key, content).is_some() {
            return;
        }
        self.bytes += bytes;
        while self.bytes > run_bytes {
            let Some((key, content)) = self.files.pop_last() else {
                return;
            };
            self.bytes -= entry_bytes(&key, &content);
            self.end = Some(key);
        }
    }
}
