//! Merges the inputs of a plan into new tables: the part of a compaction that only reads and
//! writes files, and changes nothing that others see.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cuts::Anchor;
use super::output::{OutputRules, Outputs, TableFactory, Written};
use super::plan::{Input, Plan, Reason};
use super::range_deletes::RangeDeletes;
use super::span::Span;
use super::split::{Slice, slices};
use super::stripes::Stripes;
use super::survivors::{Deeper, Step, Survivors};
use super::targets::LAST_LEVEL;
use crate::db::{DbInner, Space, TableOpener};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::InternalIterator;
use crate::manifest::{TableMeta, Version};
use crate::options::{KeyspaceOptions, Layout};
use crate::read::{LevelIter, MergingIter, TableRun};
use crate::types::{KeyRange, SeqNo};

/// Entries and raw bytes between two reports of progress.
const ENTRIES_PER_REPORT: u64 = 256;
const BYTES_PER_REPORT: u64 = 1 << 20;

/// What a merge works on.
pub(crate) struct Merge<'a> {
    pub(crate) db: &'a Arc<DbInner>,
    pub(crate) space: &'a Space,
    pub(crate) plan: &'a Plan,
    /// The tree the plan was made for.
    pub(crate) version: &'a Version,
    pub(crate) options: &'a KeyspaceOptions,
    pub(crate) stripes: &'a Stripes,
    pub(crate) factory: &'a TableFactory,
    /// Threads that may work on it, this one included.
    pub(crate) threads: usize,
    pub(crate) watch: &'a dyn Watch,
}

/// Who watches a merge, from several threads.
pub(crate) trait Watch: Sync {
    /// Called at every entry; an error ends the merge.
    fn check(&self) -> Result<()>;
    /// Called now and then, with what was done since: entries met, raw bytes written.
    fn advance(&self, entries: u64, raw_bytes: u64);
}

impl Merge<'_> {
    /// Writes the output tables. Their directory is not synced.
    pub(crate) fn run(&self) -> Result<Written> {
        let deletes = self.range_deletes()?;
        let anchors = self.anchors()?;
        let rules = OutputRules {
            space: self.space,
            version: self.version,
            options: self.options,
            level: self.plan.output_level,
            stripes: self.stripes,
            deletes: &deletes,
            anchors: &anchors,
        };
        let slices = self.slices(&anchors)?;
        let (first, others) = match slices.split_first() {
            Some((first, [])) => return self.run_slice(&rules, first),
            Some(split) => split,
            None => return Ok(Written::default()),
        };
        // A slice that fails stops the others: their work would be thrown away.
        let failed = Failed::default();
        let run = |slice| failed.note(self.run_slice_beside(&rules, slice, &failed));
        let results: Vec<Result<Written>> = std::thread::scope(|scope| {
            let spawn = |slice| {
                let thread = std::thread::Builder::new().name("ppc-compact-slice".to_owned());
                thread.spawn_scoped(scope, move || run(slice))
            };
            let handles: Vec<_> = others.iter().map(spawn).collect();
            let own = run(first);
            let others = handles.into_iter().map(|handle| match handle {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(error) => Err(failed_to_start(error)),
            });
            std::iter::once(own).chain(others).collect()
        });
        collect(results)
    }

    fn range_deletes(&self) -> Result<RangeDeletes> {
        let mut tombstones = Vec::new();
        for Input { table, .. } in &self.plan.inputs {
            if table.range_tombstones > 0 {
                let reader = self.db.table(table)?;
                tombstones.extend_from_slice(reader.range_tombstones());
            }
        }
        Ok(RangeDeletes::new(tombstones, self.stripes))
    }

    /// The tables of the output level that outputs may continue, by key.
    fn anchors(&self) -> Result<Vec<Anchor>> {
        let level = self.plan.output_level;
        let Some(options) = self.options.levels.get(level) else {
            return Ok(Vec::new());
        };
        let is_clustered = matches!(options.layout, Layout::Clustered(_));
        if !is_clustered || self.plan.reason == Reason::Rewrite {
            return Ok(Vec::new());
        }
        let mut anchors = Vec::new();
        for Input { table, .. } in self.plan.inputs.iter().filter(|it| it.level == level) {
            if self.db.table(table)?.can_be_continued(options) {
                anchors.push(Anchor {
                    smallest: table.smallest.clone(),
                    largest: table.largest.clone(),
                    raw_bytes: table.raw_bytes + self.raw_bytes_above(table)?,
                });
            }
        }
        anchors.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        Ok(anchors)
    }

    /// About how many raw bytes the inputs of other levels have between a table's first and last key.
    fn raw_bytes_above(&self, under: &TableMeta) -> Result<u64> {
        let range = KeyRange {
            start: Bound::Included(under.smallest.clone()),
            end: Bound::Included(under.largest.clone()),
        };
        let mut raw_bytes = 0;
        for Input { level, table } in &self.plan.inputs {
            if *level != self.plan.output_level && Span::of(table).overlaps(&Span::of(under)) {
                let reader = self.db.table(table)?;
                let stored = reader.approximate_bytes(&range, self.db.iter_context(false))?;
                let raw = u128::from(stored) * u128::from(table.raw_bytes)
                    / u128::from(table.stored_bytes.max(1));
                raw_bytes += u64::try_from(raw).unwrap_or(u64::MAX).min(table.raw_bytes);
            }
        }
        Ok(raw_bytes)
    }

    /// Cuts the work into slices, each worth at least a table, and no anchor in two.
    fn slices(&self, anchors: &[Anchor]) -> Result<Vec<Slice>> {
        let worth = self.plan.stored_bytes() / self.options.table_bytes_target.max(1);
        let count = self
            .threads
            .min(usize::try_from(worth).unwrap_or(usize::MAX));
        if count < 2 {
            return Ok(vec![Slice::whole()]);
        }
        let mut candidates = BTreeSet::new();
        let mut readers = Vec::with_capacity(self.plan.inputs.len());
        for Input { table, .. } in &self.plan.inputs {
            let reader = self.db.table(table)?;
            candidates.insert(table.smallest.clone());
            candidates.insert(table.largest.clone());
            candidates.extend(reader.sample_keys(count)?);
            readers.push(reader);
        }
        candidates.retain(|key| !anchors.iter().any(|anchor| anchor.is_cut_before(key)));
        slices(candidates, count, |range| {
            let bytes = readers
                .iter()
                .map(|reader| reader.approximate_bytes(range, self.db.iter_context(false)));
            bytes.sum()
        })
    }

    fn run_slice(&self, rules: &OutputRules<'_>, slice: &Slice) -> Result<Written> {
        self.run_slice_beside(rules, slice, &Failed::default())
    }

    fn run_slice_beside(
        &self,
        rules: &OutputRules<'_>,
        slice: &Slice,
        failed: &Failed,
    ) -> Result<Written> {
        let table_options = self.options.levels.get(self.plan.output_level);
        let table_options = table_options
            .ok_or_else(|| Error::invalid_input("there is no such level to compact to"))?;
        let mut input = MergingIter::new(self.sources());
        match &slice.start {
            Some(start) => input.seek(start, SeqNo::MAX)?,
            None => input.seek_to_first()?,
        }
        let deeper = DeeperTables::new(self.version, self.plan.output_level);
        let last_level = self.plan.output_level == LAST_LEVEL;
        let mut survivors = Survivors::new(
            input,
            slice.end.as_deref(),
            self.stripes,
            rules.deletes,
            deeper,
            last_level,
        );
        let mut carried_bytes = 0;
        let mut carried = |bytes: u64| {
            failed.check()?;
            self.watch.check()?;
            carried_bytes += bytes;
            if carried_bytes >= BYTES_PER_REPORT {
                self.watch.advance(0, std::mem::take(&mut carried_bytes));
            }
            Ok(())
        };
        let mut outputs = Outputs::new(self.factory, rules, table_options, slice, &mut carried);
        let (mut reported, mut raw_bytes) = (0, 0);
        loop {
            failed.check()?;
            self.watch.check()?;
            match survivors.advance()? {
                Step::End => break,
                Step::Underway => {}
                Step::Survivor => {
                    let (key, seq) = (survivors.key(), survivors.seq());
                    raw_bytes += key.len() as u64;
                    let stored = survivors.stored_value();
                    if let Some(stored) = stored.filter(|it| outputs.takes_stored(it)) {
                        outputs.add_stored(key, seq, &stored)?;
                    } else {
                        let value = survivors.value()?;
                        raw_bytes += value.len() as u64;
                        outputs.add(key, seq, survivors.kind(), value)?;
                    }
                }
            }
            let met = survivors.met() - reported;
            if met >= ENTRIES_PER_REPORT || raw_bytes >= BYTES_PER_REPORT {
                self.watch.advance(met, std::mem::take(&mut raw_bytes));
                reported = survivors.met();
            }
        }
        self.watch.advance(survivors.met() - reported, raw_bytes);
        let written = outputs.finish()?;
        self.watch.advance(0, carried_bytes);
        Ok(written)
    }

    /// One cursor for each run of tables that share no key: L0 tables are chained as far as they
    /// do not overlap, so that a load of many runs needs a cursor for each run, not each table.
    fn sources(&self) -> Vec<Box<dyn InternalIterator>> {
        let opener = TableOpener::shared(self.db, false);
        let runs = chains(&self.plan.inputs).into_iter();
        let sources = runs.map(|run| {
            let source = LevelIter::new(TableRun::List(run), Arc::clone(&opener));
            Box::new(source) as Box<dyn InternalIterator>
        });
        sources.collect()
    }
}

/// Chains tables into as few runs as possible in which no two overlap, each in key order.
fn chains(inputs: &[Input]) -> Vec<Vec<Arc<TableMeta>>> {
    let mut tables: Vec<&Arc<TableMeta>> = inputs.iter().map(|input| &input.table).collect();
    tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let mut chains: Vec<(Span, Vec<Arc<TableMeta>>)> = Vec::new();
    for table in tables {
        let span = Span::of(table);
        match chains.iter_mut().find(|(last, _)| last.is_before(&span)) {
            Some((last, chain)) => {
                *last = span;
                chain.push(Arc::clone(table));
            }
            None => chains.push((span, vec![Arc::clone(table)])),
        }
    }
    chains.into_iter().map(|(_, chain)| chain).collect()
}

fn failed_to_start(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "cannot start a thread for a compaction").with_source(error)
}

/// The tables of all slices in order, or the error that began the failure.
fn collect(results: Vec<Result<Written>>) -> Result<Written> {
    let mut all = Written::default();
    let mut first_error: Option<Error> = None;
    for result in results {
        match result {
            Ok(written) => {
                all.tables.extend(written.tables);
                all.encoding.add(written.encoding);
            }
            Err(error) => {
                // A slice that was stopped by another's failure says only that it was stopped.
                let replaces = first_error
                    .as_ref()
                    .is_none_or(|first| first.kind() == ErrorKind::Cancelled);
                if replaces {
                    first_error = Some(error);
                }
            }
        }
    }
    first_error.map_or(Ok(all), Err)
}

/// Whether some slice of a job failed.
#[derive(Default)]
struct Failed(AtomicBool);

impl Failed {
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.0.store(true, Ordering::Relaxed);
        }
        result
    }

    fn check(&self) -> Result<()> {
        if !self.0.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Cancelled,
            "another part of the compaction failed",
        ))
    }
}

/// Whether levels below the output level hold a key; keys ascend.
struct DeeperTables<'a> {
    levels: Vec<&'a [Arc<TableMeta>]>,
}

impl<'a> DeeperTables<'a> {
    fn new(version: &'a Version, output_level: usize) -> Self {
        let levels = (output_level + 1..=LAST_LEVEL).map(|level| version.level(level));
        Self {
            levels: levels.filter(|tables| !tables.is_empty()).collect(),
        }
    }
}

impl Deeper for DeeperTables<'_> {
    fn may_hold(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|tables| {
            while let Some((first, rest)) = tables.split_first() {
                if !first.ends_before(key) {
                    break;
                }
                *tables = rest;
            }
            tables.first().is_some_and(|table| table.covers(key))
        })
    }
}
