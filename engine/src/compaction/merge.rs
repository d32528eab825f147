//! Merges the inputs of a plan into new tables: the part of a compaction that only reads and
//! writes files, and changes nothing that others see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::output::{OutputRules, Outputs, TableFactory};
use super::plan::{Input, Plan};
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
use crate::options::KeyspaceOptions;
use crate::read::{LevelIter, MergingIter, TableRun};
use crate::types::SeqNo;

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
    /// Writes the output tables, in key order. Their directory is not synced.
    pub(crate) fn run(&self) -> Result<Vec<TableMeta>> {
        let deletes = self.range_deletes()?;
        let rules = OutputRules {
            space: self.space,
            version: self.version,
            options: self.options,
            level: self.plan.output_level,
            stripes: self.stripes,
            deletes: &deletes,
        };
        let slices = self.slices()?;
        let (first, others) = match slices.split_first() {
            Some((first, [])) => return self.run_slice(&rules, first),
            Some(split) => split,
            None => return Ok(Vec::new()),
        };
        // A slice that fails stops the others: their work would be thrown away.
        let failed = Failed::default();
        let run = |slice| failed.note(self.run_slice_beside(&rules, slice, &failed));
        let results: Vec<Result<Vec<TableMeta>>> = std::thread::scope(|scope| {
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

    /// Cuts the work into slices, each worth at least a table.
    fn slices(&self) -> Result<Vec<Slice>> {
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
        slices(candidates, count, |range| {
            let bytes = readers
                .iter()
                .map(|reader| reader.approximate_bytes(range, self.db.iter_context(false)));
            bytes.sum()
        })
    }

    fn run_slice(&self, rules: &OutputRules<'_>, slice: &Slice) -> Result<Vec<TableMeta>> {
        self.run_slice_beside(rules, slice, &Failed::default())
    }

    fn run_slice_beside(
        &self,
        rules: &OutputRules<'_>,
        slice: &Slice,
        failed: &Failed,
    ) -> Result<Vec<TableMeta>> {
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
        let mut outputs = Outputs::new(self.factory, rules, table_options, slice);
        let (mut reported, mut raw_bytes) = (0, 0);
        loop {
            failed.check()?;
            self.watch.check()?;
            match survivors.advance()? {
                Step::End => break,
                Step::Underway => {}
                Step::Survivor => {
                    let value = survivors.value()?;
                    raw_bytes += (survivors.key().len() + value.len()) as u64;
                    outputs.add(survivors.key(), survivors.seq(), survivors.kind(), value)?;
                }
            }
            let met = survivors.met() - reported;
            if met >= ENTRIES_PER_REPORT || raw_bytes >= BYTES_PER_REPORT {
                self.watch.advance(met, std::mem::take(&mut raw_bytes));
                reported = survivors.met();
            }
        }
        self.watch.advance(survivors.met() - reported, raw_bytes);
        outputs.finish()
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
fn collect(results: Vec<Result<Vec<TableMeta>>>) -> Result<Vec<TableMeta>> {
    let mut tables = Vec::new();
    let mut first_error: Option<Error> = None;
    for result in results {
        match result {
            Ok(written) => tables.extend(written),
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
    first_error.map_or(Ok(tables), Err)
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
