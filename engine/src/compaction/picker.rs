//! Decides which tables to compact next: a pure function of a version, the options and what is
//! busy.
//!
//! Order of business: the level that exceeds its target most (L0 by number of tables, the others
//! by bytes), then tables dense with tombstones. Within a level the table is taken whose move
//! rewrites the least of the next level. Where nothing of the next level has to be rewritten, the
//! table moves down as it is.
//!
//! Sorted levels never split the history of one key over two tables (an invariant of
//! [`Version`]), so any set of whole tables is a clean cut there. In L0 histories do spread over
//! tables: an L0 table is only taken together with every older L0 table that it overlaps.

use std::sync::Arc;

use super::plan::{Busy, Input, Plan, Reason};
use super::span::Span;
use super::targets::{LAST_LEVEL, LevelTargets};
use crate::manifest::{TableMeta, Version};
use crate::options::KeyspaceOptions;
use crate::types::SeqNo;

/// A compaction grows by further inputs, at no cost in the output level, up to this many tables'
/// worth of bytes.
const EXPANSION_TABLES_MAX: u64 = 25;

/// A table that overlaps more tables' worth of bytes than this two levels down is rewritten, and
/// cut there, instead of moved: its next compaction would otherwise be a huge one.
pub(crate) const GRANDPARENT_TABLES_MAX: u64 = 10;

/// A manual compaction leaves tables as they are that hold up to this many times the bytes asked for,
/// or down to one in so many: writing them again would cost more than tables of even size save.
/// What a flush wrote is within it, unless memtables are far from the size of tables.
pub(super) const TABLE_SIZE_TOLERANCE: u64 = 8;

/// Tombstones are worth a compaction on their own account where they are at least one in this
/// many of the entries that it would rewrite. A lone delete never costs a large table's rewrite.
const TOMBSTONE_LEVERAGE: u64 = 20;

/// Everything a pick depends on.
pub(crate) struct Picker<'a> {
    pub(crate) version: &'a Version,
    pub(crate) options: &'a KeyspaceOptions,
    pub(crate) l0_compaction_trigger: usize,
    pub(crate) busy: &'a Busy,
    /// Every reader that there is or will be sees at least this far.
    pub(crate) oldest_seq: SeqNo,
    /// An estimate of how many entries of deeper levels a table's range tombstones cover.
    pub(crate) covered_entries: &'a dyn Fn(&TableMeta) -> u64,
}

/// What to do next, and how much it matters beside other keyspaces' picks.
#[derive(Debug)]
pub(crate) struct Pick {
    /// A thousand for a level that just reached its target, two thousand for one at twice it.
    pub(crate) urgency: u128,
    pub(crate) plan: Plan,
}

impl Picker<'_> {
    /// The most urgent compaction that can run beside the running ones, if any is needed.
    pub(crate) fn pick(&self) -> Option<Pick> {
        let targets = LevelTargets::new(self.version, self.options);
        let urgent = self.levels_over_target(&targets).into_iter();
        let mut picks = urgent.filter_map(|(urgency, level)| {
            let plan = self.pick_from(level)?;
            Some(Pick { urgency, plan })
        });
        picks.next().or_else(|| {
            let plan = self.pick_tombstones()?;
            Some(Pick { urgency: 0, plan })
        })
    }

    /// The levels that exceed their targets with by how much, the most urgent first.
    fn levels_over_target(&self, targets: &LevelTargets) -> Vec<(u128, usize)> {
        let mut scores = Vec::new();
        for (level, target) in targets.bytes.iter().enumerate().take(LAST_LEVEL) {
            let idle = self.idle(level);
            let (have, allowed) = if level == 0 {
                (idle.count() as u64, self.l0_compaction_trigger as u64)
            } else {
                // A level exceeds its target by a byte, L0 by reaching its trigger.
                (idle.map(|table| table.stored_bytes).sum(), target + 1)
            };
            let score = u128::from(have) * 1000 / u128::from(allowed.max(1));
            if score >= 1000 {
                scores.push((score, level));
            }
        }
        scores.sort_by_key(|&(score, level)| (std::cmp::Reverse(score), level));
        scores
    }

    fn idle(&self, level: usize) -> impl Iterator<Item = &Arc<TableMeta>> {
        let tables = self.version.level(level).iter();
        tables.filter(|table| !self.busy.holds(table))
    }

    fn pick_from(&self, level: usize) -> Option<Plan> {
        if level == 0 {
            let plans = self.young_plans(Reason::YoungTables).into_iter();
            // The first of the largest; max_by_key would return the last.
            return plans.rev().max_by_key(young_count);
        }
        let plans = self.idle(level).filter_map(|table| {
            let plan = self.plan_down(Reason::LevelBytes, level, table);
            if self.busy.conflicts(&plan) {
                return None;
            }
            let carried = plan.stored_bytes() - table.stored_bytes;
            let ratio = u128::from(carried) * 1000 / u128::from(table.stored_bytes.max(1));
            Some((ratio, plan))
        });
        let (_, plan) = plans.min_by_key(|(ratio, _)| *ratio)?;
        Some(self.expand(plan))
    }

    /// Every compaction out of L0 that can run now. Plans touch disjoint spans, in key order.
    pub(crate) fn young_plans(&self, reason: Reason) -> Vec<Plan> {
        let output_level = LevelTargets::new(self.version, self.options).base_level;
        let mut tables: Vec<Input> = self
            .takeable_young_tables()
            .into_iter()
            .map(|table| Input { level: 0, table })
            .collect();
        let below = self.version.level(output_level).iter();
        tables.extend(below.map(|table| Input {
            level: output_level,
            table: Arc::clone(table),
        }));
        let groups = connected(tables).into_iter();
        let plans = groups.filter_map(|inputs| {
            if inputs.iter().all(|input| input.level != 0) {
                return None;
            }
            let mut plan = Plan {
                reason,
                inputs,
                output_level,
                trivial_move: false,
            };
            plan.trivial_move = self.can_move(0, &plan);
            (!self.busy.conflicts(&plan)).then_some(plan)
        });
        plans.collect()
    }

    /// The idle L0 tables that overlap no older L0 table which has to stay.
    fn takeable_young_tables(&self) -> Vec<Arc<TableMeta>> {
        let mut staying: Vec<Span> = Vec::new();
        let mut takeable = Vec::new();
        for table in self.version.level(0).iter().rev() {
            let span = Span::of(table);
            if self.busy.holds(table) || staying.iter().any(|older| older.overlaps(&span)) {
                staying.push(span);
            } else {
                takeable.push(Arc::clone(table));
            }
        }
        takeable
    }

    /// One table of a sorted level and what it overlaps in the next.
    pub(crate) fn plan_down(&self, reason: Reason, level: usize, table: &Arc<TableMeta>) -> Plan {
        let output_level = level + 1;
        let mut inputs = vec![Input {
            level,
            table: Arc::clone(table),
        }];
        let below = self.version.overlapping(output_level, &table.key_range());
        inputs.extend(below.into_iter().map(|table| Input {
            level: output_level,
            table,
        }));
        let mut plan = Plan {
            reason,
            inputs,
            output_level,
            trivial_move: false,
        };
        plan.trivial_move = self.can_move(level, &plan);
        plan
    }

    /// Adds further tables of the input level where that costs no more of the output level.
    fn expand(&self, plan: Plan) -> Plan {
        let (Some(span), Some(first)) = (plan.span(), plan.inputs.first()) else {
            return plan;
        };
        let level = first.level;
        if plan.trivial_move {
            return plan;
        }
        let upper = self.version.overlapping(level, &span.to_range());
        let Some(wider) = Span::of_all(upper.iter().map(Arc::as_ref)) else {
            return plan;
        };
        let wider = wider.union(span);
        let below = self
            .version
            .overlapping(plan.output_level, &wider.to_range());
        if below.len() + 1 != plan.inputs.len() {
            return plan;
        }
        let inputs = upper.into_iter().map(|table| Input { level, table });
        let carried = below.into_iter().map(|table| Input {
            level: plan.output_level,
            table,
        });
        let expanded = Plan {
            inputs: inputs.chain(carried).collect(),
            ..plan.clone()
        };
        let bytes_max = self
            .options
            .table_bytes_target
            .saturating_mul(EXPANSION_TABLES_MAX);
        if self.busy.conflicts(&expanded) || expanded.stored_bytes() > bytes_max {
            return plan;
        }
        expanded
    }

    /// Whether the plan's inputs, all of `level`, can change level as they are: they overlap
    /// nothing, are written as the output level's tables are, and bring no tombstones to the
    /// last level (nor, where the caller asked for a clean one, shadowed versions, or a size far
    /// from what was asked for).
    fn can_move(&self, level: usize, plan: &Plan) -> bool {
        let output_level = plan.output_level;
        let written_alike = self.options.levels.get(level) == self.options.levels.get(output_level);
        let apart = |inputs: &[Input]| {
            let mut spans: Vec<Span> = inputs.iter().map(|input| Span::of(&input.table)).collect();
            spans.sort_by(|a, b| a.start.cmp(&b.start));
            spans
                .iter()
                .zip(spans.iter().skip(1))
                .all(|(a, b)| a.is_before(b))
        };
        let bytes_max = self
            .options
            .table_bytes_target
            .saturating_mul(GRANDPARENT_TABLES_MAX);
        let raw_bytes_max = self
            .options
            .table_bytes_target
            .saturating_mul(TABLE_SIZE_TOLERANCE);
        let grandparent_bytes = |table: &TableMeta| -> u64 {
            let below = self
                .version
                .overlapping(output_level + 1, &table.key_range());
            below.iter().map(|table| table.stored_bytes).sum()
        };
        written_alike
            && plan.inputs.iter().all(|Input { level: from, table }| {
                let as_wanted = match plan.reason {
                    Reason::Manual | Reason::Rewrite => {
                        !gains_by_rewrite(table) && table.raw_bytes <= raw_bytes_max
                    }
                    _ => table.tombstones == 0 && table.range_tombstones == 0,
                };
                *from == level
                    && !table.provisional
                    && (as_wanted || output_level != LAST_LEVEL)
                    && grandparent_bytes(table) <= bytes_max
            })
            && apart(&plan.inputs)
    }

    /// A compaction on the account of tombstones alone.
    fn pick_tombstones(&self) -> Option<Plan> {
        (0..=LAST_LEVEL).rev().find_map(|level| {
            let dense = self.idle(level).filter(|table| self.is_dense(table));
            dense
                .filter_map(|table| self.plan_tombstones(level, table))
                .find(|plan| !self.busy.conflicts(plan))
        })
    }

    fn plan_tombstones(&self, level: usize, table: &Arc<TableMeta>) -> Option<Plan> {
        if level == LAST_LEVEL {
            // Rewritten in place, once no reader needs them: otherwise it would be in vain.
            return (table.seq_max <= self.oldest_seq).then(|| Plan {
                reason: Reason::Tombstones,
                inputs: vec![Input {
                    level,
                    table: Arc::clone(table),
                }],
                output_level: level,
                trivial_move: false,
            });
        }
        let mut plan = if level == 0 {
            let plans = self.young_plans(Reason::Tombstones);
            plans.into_iter().find(|plan| {
                let mut inputs = plan.inputs.iter();
                inputs.any(|input| input.table.number == table.number)
            })?
        } else {
            self.plan_down(Reason::Tombstones, level, table)
        };
        let carried = plan.inputs.iter().filter(|input| input.level != level);
        let carried: u64 = carried.map(|input| input.table.entries).sum();
        if self
            .tombstone_weight(table)
            .saturating_mul(TOMBSTONE_LEVERAGE)
            < carried
        {
            return None;
        }
        // Where nothing lies deeper, a rewrite gets rid of the tombstones at once.
        plan.trivial_move &= self.lies_above_data(&plan);
        Some(plan)
    }

    fn lies_above_data(&self, plan: &Plan) -> bool {
        let Some(span) = plan.span() else {
            return false;
        };
        let range = span.to_range();
        (plan.output_level + 1..=LAST_LEVEL)
            .any(|level| !self.version.overlapping(level, &range).is_empty())
    }

    fn is_dense(&self, table: &TableMeta) -> bool {
        if table.tombstones == 0 && table.range_tombstones == 0 {
            return false;
        }
        let weight = self.tombstone_weight(table);
        let entries = table.entries - table.tombstones.min(table.entries) + weight;
        let percent = u128::from(weight) * 100 / u128::from(entries.max(1));
        percent >= u128::from(self.options.tombstone_percent_trigger)
    }

    /// How many entries the table's tombstones stand for.
    fn tombstone_weight(&self, table: &TableMeta) -> u64 {
        let by_ranges = if table.range_tombstones == 0 {
            0
        } else {
            (self.covered_entries)(table).max(u64::from(table.range_tombstones))
        };
        table.tombstones.saturating_add(by_ranges)
    }
}

/// Whether a table that overlaps no other gains by a rewrite: it may hold deletes, or versions of a
/// key that a newer one hides, or was not written for good. Where nobody counted versions, entries
/// that share one sequence number have keys of their own.
pub(crate) fn gains_by_rewrite(table: &TableMeta) -> bool {
    let repeated = match table.repeated_keys {
        Some(count) => count > 0,
        None => table.seq_min != table.seq_max,
    };
    table.tombstones > 0 || table.range_tombstones > 0 || repeated || table.provisional
}

fn young_count(plan: &Plan) -> usize {
    plan.inputs.iter().filter(|input| input.level == 0).count()
}

/// Splits tables into groups that share no key and no gap: the span of each group overlaps no
/// table of another. Groups come in key order; within a group, tables by level, then by key.
pub(crate) fn connected(mut tables: Vec<Input>) -> Vec<Vec<Input>> {
    let place = |input: &Input| (input.table.smallest.clone(), input.table.number);
    tables.sort_by_cached_key(place);
    let mut groups: Vec<(Span, Vec<Input>)> = Vec::new();
    for input in tables {
        let span = Span::of(&input.table);
        match groups.last_mut() {
            Some((reach, group)) if reach.overlaps(&span) => {
                *reach = reach.clone().union(span);
                group.push(input);
            }
            _ => groups.push((span, vec![input])),
        }
    }
    let groups = groups.into_iter().map(|(_, mut group)| {
        group.sort_by_key(|input| input.level);
        group
    });
    groups.collect()
}

#[cfg(test)]
mod tests;
