//! Compactions that a caller asks for: everything in a key range, down to the last level, with
//! whatever no reader needs left out.
//!
//! Works its way down level by level, one table (and what it overlaps below) at a time, then
//! rewrites those tables of the last level that may still hold something to drop. So the work is
//! done in portions: each needs free space only for itself, each is a step that stays done if a
//! later one fails, and flushes and other compactions go on in between. The portions run on the
//! caller's thread.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::executor::{Outcome, run_plan};
use super::merge::Watch;
use super::picker::{Picker, TABLE_SIZE_TOLERANCE, gains_by_rewrite};
use super::plan::{Busy, Input, Plan, Reason};
use super::targets::LAST_LEVEL;
use super::ticket::{Choice, Ticket};
use crate::cancel::CancelToken;
use crate::db::{Db, DbInner, Keyspace, Space};
use crate::error::Result;
use crate::manifest::{TableMeta, Version};
use crate::options::KeyspaceOptions;
use crate::types::{FileNumber, KeyRange, SeqNo};

/// Tables' worth of bytes that one rewrite in the last level takes on.
const PORTION_TABLES_MAX: u64 = 8;

/// What a manual compaction should do beyond the default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Rewrite every table in the range, also where nothing can be dropped, and encode every value
    /// anew: to apply changed options to what is there.
    pub rewrite_all: bool,
    /// Stops the compaction between or within its steps. Steps that are complete stay done.
    pub cancel: CancelToken,
}

/// How far a manual compaction has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionProgress {
    /// Entries read so far, dropped ones included.
    pub entries: u64,
    /// Raw bytes of keys and values written so far.
    pub raw_bytes: u64,
    /// About how many raw bytes there will be in the end; what a level passes on counts again.
    pub raw_bytes_estimate: u64,
}

/// What a manual compaction did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionReport {
    /// Tables that were merged or rewritten.
    pub tables_read: u64,
    /// Tables that took their place.
    pub tables_written: u64,
    /// Tables that went down a level as they were.
    pub tables_moved: u64,
    /// Stored bytes of the tables read.
    pub bytes_read: u64,
    /// Stored bytes of the tables written.
    pub bytes_written: u64,
    /// Of them, bytes of frames that were copied as they were stored.
    pub frame_bytes_copied: u64,
    /// Raw bytes of the values that were compressed anew; those in key blocks are not among them.
    pub value_bytes_encoded: u64,
}

impl From<Outcome> for CompactionReport {
    fn from(outcome: Outcome) -> Self {
        Self {
            tables_read: outcome.tables_read,
            tables_written: outcome.tables_written,
            tables_moved: outcome.tables_moved,
            bytes_read: outcome.bytes_read,
            bytes_written: outcome.bytes_written,
            frame_bytes_copied: outcome.encoding.frame_bytes_copied,
            value_bytes_encoded: outcome.encoding.value_bytes_encoded,
        }
    }
}

/// Receives a manual compaction's progress, from whichever thread works on it.
type ProgressFn<'a> = &'a mut (dyn FnMut(CompactionProgress) + Send);

impl Db {
    /// Brings everything to the last level and drops what no reader needs: shadowed versions and
    /// tombstones. Blocks until it is done.
    pub fn compact(&self) -> Result<CompactionReport> {
        self.compact_with(&CompactOptions::default(), &mut |_| {})
    }

    /// As [`Db::compact`], with options and progress.
    pub fn compact_with(
        &self,
        options: &CompactOptions,
        progress: ProgressFn<'_>,
    ) -> Result<CompactionReport> {
        self.flush()?;
        let mut outcome = Outcome::default();
        for space in self.inner().spaces() {
            let all = KeyRange::all();
            compact_range(self.inner(), &space, &all, options, progress, &mut outcome)?;
        }
        Ok(outcome.into())
    }
}

impl Keyspace {
    /// Brings the range to the last level and drops what no reader needs: shadowed versions and
    /// tombstones. Tables that reach beyond the range are compacted whole. Blocks until it is done.
    pub fn compact(&self, range: &KeyRange) -> Result<CompactionReport> {
        self.compact_with(range, &CompactOptions::default(), &mut |_| {})
    }

    /// As [`Keyspace::compact`], with options and progress.
    pub fn compact_with(
        &self,
        range: &KeyRange,
        options: &CompactOptions,
        progress: ProgressFn<'_>,
    ) -> Result<CompactionReport> {
        self.db().flush()?;
        let mut outcome = Outcome::default();
        let db = self.db().inner();
        compact_range(db, self.space(), range, options, progress, &mut outcome)?;
        Ok(outcome.into())
    }
}

/// Compacts what is in tables of `range`.
fn compact_range(
    db: &Arc<DbInner>,
    space: &Arc<Space>,
    range: &KeyRange,
    options: &CompactOptions,
    progress: ProgressFn<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    db.check_writable()?;
    let version = Arc::clone(&space.view().version);
    let mut pass = Pass::new(range, options.rewrite_all, &version, db.new_file_number());
    let reporter = Reporter::new(pass.raw_bytes_estimate(&version), progress);
    // As long as it is held, the files of its tables stay.
    drop(version);
    let l0_compaction_trigger = db.options().l0_compaction_trigger;
    loop {
        let mut choose = |version: &Arc<Version>, busy: &Busy| {
            pass.choose(version, &space.options(), busy, l0_compaction_trigger)
        };
        let scheduler = db.scheduler();
        let Some(ticket) = scheduler.begin_chosen(db, space, &options.cancel, None, &mut choose)?
        else {
            // While it waited for another's job, this thread held the tables that it was to replace.
            db.purge_obsolete();
            return Ok(());
        };
        let watch = ManualWatch {
            ticket: &ticket,
            cancel: &options.cancel,
            reporter: &reporter,
        };
        outcome.add(run_plan(db, &ticket, &watch)?);
        pass.done(ticket.plan());
        drop(ticket);
        db.purge_obsolete();
    }
}

/// Where a manual compaction stands: pure, apart from what it is told.
struct Pass<'a> {
    range: &'a KeyRange,
    rewrite_all: bool,
    /// L0 tables that were there at the beginning and are to go.
    young: HashSet<FileNumber>,
    /// Tables with this number or a later one are new: there is nothing in them to drop.
    first_new: FileNumber,
    level: usize,
    /// Tables of `level` that begin at or before this key are done.
    done_to: Option<Vec<u8>>,
}

impl<'a> Pass<'a> {
    fn new(
        range: &'a KeyRange,
        rewrite_all: bool,
        version: &Version,
        first_new: FileNumber,
    ) -> Self {
        let young = version.overlapping(0, range);
        Self {
            range,
            rewrite_all,
            young: young.iter().map(|table| table.number).collect(),
            first_new,
            level: 0,
            done_to: None,
        }
    }

    fn raw_bytes_estimate(&self, version: &Version) -> u64 {
        let upper = (0..LAST_LEVEL).flat_map(|level| version.overlapping(level, self.range));
        let upper: u64 = upper.map(|table| table.raw_bytes).sum();
        let last = version.overlapping(LAST_LEVEL, self.range).into_iter();
        let last = last.filter(|table| upper > 0 || self.is_worth_a_rewrite(table));
        upper + last.map(|table| table.raw_bytes).sum::<u64>()
    }

    /// What to do next in a tree that may have changed since the last step.
    fn choose(
        &mut self,
        version: &Version,
        options: &KeyspaceOptions,
        busy: &Busy,
        l0_compaction_trigger: usize,
    ) -> Choice {
        let picker = Picker {
            version,
            options,
            l0_compaction_trigger,
            busy,
            oldest_seq: SeqNo::ZERO,
            covered_entries: &|_| 0,
        };
        if self.level == 0 {
            let left = version.overlapping(0, self.range);
            if left.iter().any(|table| self.young.contains(&table.number)) {
                return self.choose_young(&picker);
            }
            self.level = 1;
        }
        while self.level < LAST_LEVEL {
            if let Some(table) = self.next_table(version) {
                return Choice::Run(picker.plan_down(self.reason(), self.level, &table));
            }
            self.level += 1;
            self.done_to = None;
        }
        self.choose_in_last_level(version, options)
    }

    fn choose_young(&self, picker: &Picker<'_>) -> Choice {
        let mut plans = picker.young_plans(self.reason()).into_iter();
        let wanted = plans.find(|plan| {
            let mut inputs = plan.inputs.iter();
            inputs.any(|input| self.young.contains(&input.table.number))
        });
        wanted.map_or(Choice::Wait, Choice::Run)
    }

    fn next_table(&self, version: &Version) -> Option<Arc<TableMeta>> {
        let mut tables = version.overlapping(self.level, self.range).into_iter();
        tables.find(|table| self.is_ahead(table))
    }

    fn is_ahead(&self, table: &TableMeta) -> bool {
        self.done_to
            .as_ref()
            .is_none_or(|done| table.smallest > *done)
    }

    /// Rewrites neighbours together, so that small tables become whole ones.
    fn choose_in_last_level(&self, version: &Version, options: &KeyspaceOptions) -> Choice {
        let bytes_max = options
            .table_bytes_target
            .saturating_mul(PORTION_TABLES_MAX);
        let mut portion: Vec<Arc<TableMeta>> = Vec::new();
        let mut bytes = 0;
        let tables = version.overlapping(LAST_LEVEL, self.range).into_iter();
        for table in tables.filter(|table| self.is_ahead(table)) {
            let is_small = table.raw_bytes < options.table_bytes_target / TABLE_SIZE_TOLERANCE;
            let wanted = self.is_worth_a_rewrite(&table) || is_small;
            if wanted && bytes + table.raw_bytes <= bytes_max {
                bytes += table.raw_bytes;
                portion.push(table);
                continue;
            }
            if self.is_worth_doing(&portion) {
                break;
            }
            portion.clear();
            bytes = 0;
            if wanted {
                bytes = table.raw_bytes;
                portion.push(table);
            }
        }
        if !self.is_worth_doing(&portion) {
            return Choice::Done;
        }
        let inputs = portion.into_iter().map(|table| Input {
            level: LAST_LEVEL,
            table,
        });
        Choice::Run(Plan {
            reason: self.reason(),
            inputs: inputs.collect(),
            output_level: LAST_LEVEL,
            trivial_move: false,
        })
    }

    fn reason(&self) -> Reason {
        if self.rewrite_all {
            Reason::Rewrite
        } else {
            Reason::Manual
        }
    }

    fn is_worth_a_rewrite(&self, table: &TableMeta) -> bool {
        table.number < self.first_new && (self.rewrite_all || gains_by_rewrite(table))
    }

    fn is_worth_doing(&self, portion: &[Arc<TableMeta>]) -> bool {
        portion.len() > 1 || portion.iter().any(|table| self.is_worth_a_rewrite(table))
    }

    /// The plan was carried out.
    fn done(&mut self, plan: &Plan) {
        if self.level == 0 {
            return;
        }
        let own = plan.inputs.iter().filter(|input| input.level == self.level);
        let last = own.map(|input| &input.table.smallest).max();
        self.done_to = last.cloned();
    }
}

/// Adds up progress of all threads and steps.
struct Reporter<'a> {
    state: Mutex<(CompactionProgress, ProgressFn<'a>)>,
}

impl<'a> Reporter<'a> {
    fn new(raw_bytes_estimate: u64, progress: ProgressFn<'a>) -> Self {
        let begin = CompactionProgress {
            raw_bytes_estimate,
            ..CompactionProgress::default()
        };
        Self {
            state: Mutex::new((begin, progress)),
        }
    }
}

struct ManualWatch<'a, 'b> {
    ticket: &'a Ticket<'a>,
    cancel: &'a CancelToken,
    reporter: &'a Reporter<'b>,
}

impl Watch for ManualWatch<'_, '_> {
    fn check(&self) -> Result<()> {
        self.cancel.check("the compaction")?;
        self.ticket.check()
    }

    fn advance(&self, entries: u64, raw_bytes: u64) {
        let mut state = self.reporter.state.lock();
        let (progress, callback) = &mut *state;
        progress.entries += entries;
        progress.raw_bytes += raw_bytes;
        self.ticket.call_back(|| callback(*progress));
    }
}

#[cfg(test)]
mod tests;
