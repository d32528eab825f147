//! Takes finished tables into the tree: all of a load with one manifest edit, each keyspace's as
//! deep as nothing is in the way.

use std::sync::Arc;

use crate::compaction::{Hold, LAST_LEVEL, Span, TableFactory};
use crate::db::{Adoption, DbInner, Space};
use crate::error::Result;
use crate::manifest::{Edit, TableMeta, Version};
use crate::types::{FileNumber, KeyRange, SeqNo};

/// Tables that ascend without overlap: one pass of sorted entries.
#[derive(Debug)]
pub(super) struct Run {
    /// Later runs of a load have greater numbers.
    pub(super) number: u32,
    pub(super) tables: Vec<TableMeta>,
}

/// What goes to one keyspace.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) space: Arc<Space>,
    /// By number.
    pub(super) runs: Vec<Run>,
}

/// What became of a [`Load`].
pub(super) struct Adopted {
    pub(super) space: Arc<Space>,
    pub(super) level: usize,
    /// The tables went to L0, to be merged.
    pub(super) awaits_merge: bool,
    pub(super) tables: Vec<FileNumber>,
}

/// Makes the loads' tables durable, and visible at once. Until `hold` is dropped no compaction
/// touches those that went to L0.
pub(super) fn adopt(
    db: &DbInner,
    factory: &TableFactory,
    hold: &Hold<'_>,
    loads: Vec<Load>,
) -> Result<Vec<Adopted>> {
    let ranges: Vec<Vec<KeyRange>> = loads
        .iter()
        .map(|load| load.tables().map(TableMeta::key_range).collect())
        .collect();
    let adoptions: Vec<Adoption<'_>> = loads
        .iter()
        .zip(&ranges)
        .map(|(load, ranges)| Adoption {
            keyspace: load.space.id,
            ranges,
        })
        .collect();
    // One number for each run; those of all keyspaces share them.
    let seq_count = loads.iter().map(|load| load.runs.len() as u64).max();
    let Some(seq_count) = seq_count else {
        return Ok(Vec::new());
    };
    let mut adopted = Vec::new();
    let committed = db.adopt(&adoptions, seq_count, |state, first_seq| {
        let mut edits = Vec::new();
        for load in &loads {
            let keyspace = state.keyspaces.get(&load.space.id);
            let keyspace = keyspace.ok_or_else(|| load.space.dropped_error())?;
            let spans = load.spans();
            let awaits_merge = load.awaits_merge(&spans);
            let level = match awaits_merge {
                true => {
                    hold.hold_tables(&load.space, load.numbers());
                    0
                }
                false => place(load, &spans, &keyspace.version, hold),
            };
            edits.extend(load.edits(level, first_seq));
            adopted.push(Adopted {
                space: Arc::clone(&load.space),
                level,
                awaits_merge,
                tables: load.numbers(),
            });
        }
        Ok(edits)
    });
    factory.settle(committed)?;
    for Adopted {
        space,
        level,
        tables,
        ..
    } in &adopted
    {
        tracing::info!(
            keyspace = space.name,
            level,
            tables = tables.len(),
            "tables adopted"
        );
    }
    Ok(adopted)
}

impl Load {
    fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.runs.iter().flat_map(|run| &run.tables)
    }

    fn numbers(&self) -> Vec<FileNumber> {
        self.tables().map(|table| table.number).collect()
    }

    /// What each table reaches over, in key order.
    fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = self.tables().map(Span::of).collect();
        spans.sort_by(|a, b| a.start.cmp(&b.start));
        spans
    }

    /// Whether the load's runs have to become one: they overlap, or were not written for good.
    fn awaits_merge(&self, spans: &[Span]) -> bool {
        let mut pairs = spans.iter().zip(spans.iter().skip(1));
        self.tables().any(|table| table.provisional) || !pairs.all(|(a, b)| a.is_before(b))
    }

    /// The edits that add the tables to a level, each run newer than the one before.
    fn edits(&self, level: usize, first_seq: SeqNo) -> Vec<Edit> {
        let seqs = (first_seq.0..).map(SeqNo);
        let runs = self.runs.iter().zip(seqs);
        let tables = runs.flat_map(|(run, seq)| run.tables.iter().map(move |table| (table, seq)));
        tables
            .map(|(table, seq)| Edit::AddTable {
                keyspace: self.space.id,
                level: level as u8,
                table: Arc::new(TableMeta {
                    seq_min: seq,
                    seq_max: seq,
                    seq_base: seq,
                    ..table.clone()
                }),
            })
            .collect()
    }
}

/// The deepest level such that neither it nor any above holds, or is about to receive, anything in
/// the way of the load's tables, which do not overlap.
fn place(load: &Load, spans: &[Span], version: &Version, hold: &Hold<'_>) -> usize {
    let in_the_way = |level: &usize| {
        let mut ranges = spans.iter().map(Span::to_range);
        ranges.any(|range| !version.overlapping(*level, &range).is_empty())
    };
    let blocked = (0..=LAST_LEVEL).find(in_the_way);
    let deepest = blocked.map_or(LAST_LEVEL, |level| level.saturating_sub(1));
    hold.hold_deepest(&load.space, deepest, spans)
}
