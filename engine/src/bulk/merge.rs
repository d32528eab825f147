//! Makes one run, written for good, of those that unsorted input fell into, by a compaction that goes as deep as
//! is reasonable at once.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::adopt::Adopted;
use super::loader::{BulkPhase, BulkProgress, BulkReport, ProgressFn};
use crate::cancel::CancelToken;
use crate::compaction::{
    Choice, Hold, Input, LAST_LEVEL, LevelTargets, Outcome, Plan, Reason, Ticket, Watch, connected,
    run_plan,
};
use crate::db::DbInner;
use crate::error::Result;
use crate::manifest::Version;
use crate::options::KeyspaceOptions;
use crate::types::FileNumber;

/// Merges what was adopted to L0 for that. A failure ends it, and is noted in the report.
pub(super) fn merge_runs(
    db: &Arc<DbInner>,
    hold: &Hold<'_>,
    adopted: &[Adopted],
    cancel: &CancelToken,
    progress: ProgressFn<'_>,
    report: &mut BulkReport,
) {
    let unmerged: Vec<(usize, &Adopted)> = adopted
        .iter()
        .enumerate()
        .filter(|(_, adopted)| adopted.awaits_merge)
        .collect();
    let raw_bytes = unmerged
        .iter()
        .filter_map(|(index, _)| report.keyspaces.get(*index));
    let raw_bytes_total = raw_bytes.map(|keyspace| keyspace.raw_bytes).sum();
    let reporter = Mutex::new((
        BulkProgress {
            phase: BulkPhase::Merge,
            entries: 0,
            raw_bytes: 0,
            raw_bytes_total,
        },
        progress,
    ));
    for (index, adopted) in unmerged {
        let merged = merge(db, hold, adopted, cancel, &reporter);
        let Some(keyspace) = report.keyspaces.get_mut(index) else {
            continue;
        };
        match merged {
            Ok((level, outcome)) => {
                keyspace.level = level;
                keyspace.merged = true;
                keyspace.bytes_merged = outcome.bytes_written;
            }
            Err(error) => {
                tracing::warn!(%error, "the runs of a bulk load are left to compaction");
                report.merge_failure = Some(error);
                return;
            }
        }
    }
}

/// Merges one keyspace's runs; returns the level they came to.
fn merge(
    db: &Arc<DbInner>,
    hold: &Hold<'_>,
    adopted: &Adopted,
    cancel: &CancelToken,
    reporter: &Mutex<(BulkProgress, ProgressFn<'_>)>,
) -> Result<(usize, Outcome)> {
    let runs: HashSet<FileNumber> = adopted.tables.iter().copied().collect();
    let mut outcome = Outcome::default();
    let mut level = 0;
    loop {
        let mut choose = |version: &Arc<Version>, _: &_| {
            let plan = next_merge(version, &adopted.space.options(), &runs);
            plan.map_or(Choice::Done, Choice::Run)
        };
        let ticket = hold.begin_chosen(db, &adopted.space, cancel, &mut choose)?;
        let Some(ticket) = ticket else {
            return Ok((level, outcome));
        };
        level = level.max(ticket.plan().output_level);
        let watch = MergeWatch {
            ticket: &ticket,
            cancel,
            reporter,
        };
        outcome.add(run_plan(db, &ticket, &watch)?);
        drop(ticket);
        db.purge_obsolete();
    }
}

/// The next compaction that takes `runs` out of L0; none if none is left there.
///
/// It goes to the deepest level for which it need not take along more bytes of the store than it
/// merges of the load, so that a small load into a large store does not rewrite the store.
fn next_merge(
    version: &Version,
    options: &KeyspaceOptions,
    runs: &HashSet<FileNumber>,
) -> Option<Plan> {
    let base_level = LevelTargets::new(version, options).base_level;
    let deepest_first = (base_level..=LAST_LEVEL).rev();
    let mut plans = deepest_first.map(|level| merge_to(version, runs, level));
    let affordable = plans.find(|plan| {
        let plan = plan.as_ref();
        plan.is_none_or(|plan| plan.output_level == base_level || is_affordable(plan, runs))
    });
    affordable.flatten()
}

fn is_affordable(plan: &Plan, runs: &HashSet<FileNumber>) -> bool {
    let loaded = plan.inputs.iter();
    let loaded = loaded.filter(|input| is_young_run(input, runs));
    let loaded: u64 = loaded.map(|input| input.table.stored_bytes).sum();
    plan.stored_bytes() - loaded <= loaded
}

/// Whether the table is one of `runs` that has not been moved out of L0 yet.
fn is_young_run(input: &Input, runs: &HashSet<FileNumber>) -> bool {
    input.level == 0 && runs.contains(&input.table.number)
}

/// The first group of connected tables that holds some of `runs`, merged into `level`.
fn merge_to(version: &Version, runs: &HashSet<FileNumber>, level: usize) -> Option<Plan> {
    // L0 tables newer than every run stay; older ones go along where they overlap.
    let young = version.level(0);
    let newest = young
        .iter()
        .position(|table| runs.contains(&table.number))?;
    let young = young.get(newest..).unwrap_or_default();
    let mut tables: Vec<Input> = young
        .iter()
        .map(|table| Input {
            level: 0,
            table: Arc::clone(table),
        })
        .collect();
    for upper in 1..=level {
        tables.extend(version.level(upper).iter().map(|table| Input {
            level: upper,
            table: Arc::clone(table),
        }));
    }
    let holds_runs = |group: &Vec<Input>| {
        let mut inputs = group.iter();
        inputs.any(|input| is_young_run(input, runs))
    };
    let inputs = connected(tables).into_iter().find(holds_runs)?;
    // Where a few entries came too late, most tables of the first run meet nothing, and were
    // written for good.
    let trivial_move = matches!(&inputs[..], [alone] if !alone.table.provisional);
    Some(Plan {
        reason: Reason::BulkMerge,
        inputs,
        output_level: level,
        trivial_move,
    })
}

struct MergeWatch<'a, 'b> {
    ticket: &'a Ticket<'a>,
    cancel: &'a CancelToken,
    reporter: &'a Mutex<(BulkProgress, ProgressFn<'b>)>,
}

impl Watch for MergeWatch<'_, '_> {
    fn check(&self) -> Result<()> {
        self.cancel.check("merging the runs of the bulk load")?;
        self.ticket.check()
    }

    fn advance(&self, entries: u64, raw_bytes: u64) {
        let mut reporter = self.reporter.lock();
        let (progress, callback) = &mut *reporter;
        progress.entries += entries;
        progress.raw_bytes += raw_bytes;
        self.ticket.call_back(|| callback(*progress));
    }
}

#[cfg(test)]
mod tests;
