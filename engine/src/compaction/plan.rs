//! What a compaction is to do, and which parts of a keyspace running jobs have taken.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::span::Span;
use crate::manifest::TableMeta;
use crate::types::FileNumber;

/// Why a compaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// L0 holds too many tables.
    YoungTables,
    /// A level holds more bytes than its target.
    LevelBytes,
    /// A table consists mostly of tombstones, or its range tombstones cover more than it holds.
    Tombstones,
    /// The caller asked.
    Manual,
    /// The caller asked for everything to be encoded anew.
    Rewrite,
    /// The runs of a bulk load become one.
    BulkMerge,
}

impl Reason {
    /// A short name for events and tests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::YoungTables => "young-tables",
            Self::LevelBytes => "level-bytes",
            Self::Tombstones => "tombstones",
            Self::Manual => "manual",
            Self::Rewrite => "rewrite",
            Self::BulkMerge => "bulk-merge",
        }
    }
}

/// A table and the level it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) level: usize,
    pub(crate) table: Arc<TableMeta>,
}

/// One compaction of one keyspace.
///
/// INVARIANT: of every key that an input holds, every older entry stands in another input or in
/// a level below `output_level`; and whatever the output level holds between the inputs' first
/// and last key is an input. So the outputs may replace the inputs without a newer entry ever
/// coming to lie below an older one, and without tables of one level overlapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) reason: Reason,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output_level: usize,
    /// The inputs overlap nothing: they change their level without being rewritten.
    pub(crate) trivial_move: bool,
}

impl Plan {
    /// What the inputs reach over together; none if there are no inputs.
    pub(crate) fn span(&self) -> Option<Span> {
        Span::of_all(self.inputs.iter().map(|input| input.table.as_ref()))
    }

    /// Stored bytes of the inputs.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let inputs = self.inputs.iter();
        inputs.map(|input| input.table.stored_bytes).sum()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.reason.name())?;
        let mut level = None;
        for input in &self.inputs {
            if level != Some(input.level) {
                write!(f, " L{}", input.level)?;
                level = Some(input.level);
            }
            write!(f, " {}", input.table.number.0)?;
        }
        let verb = if self.trivial_move { "move" } else { "merge" };
        write!(f, " {verb} to L{}", self.output_level)
    }
}

/// Who holds tables or spans in a [`Busy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// What running jobs of one keyspace read and will write, so that jobs run side by side only
/// where they do not meet.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// Who holds a table; the last to take it, where a job took it over from itself.
    tables: HashMap<FileNumber, JobId>,
    holders: Vec<Holder>,
}

#[derive(Debug)]
struct Holder {
    job: JobId,
    tables: Vec<FileNumber>,
    /// Where outputs will appear.
    output: Option<(usize, Span)>,
}

impl Busy {
    /// Whether a job holds the table.
    pub(crate) fn holds(&self, table: &TableMeta) -> bool {
        self.tables.contains_key(&table.number)
    }

    /// Whether a running job will write into `level` within `span`.
    pub(crate) fn writes_into(&self, level: usize, span: &Span) -> bool {
        let outputs = self
            .holders
            .iter()
            .filter_map(|holder| holder.output.as_ref());
        outputs
            .filter(|(output_level, _)| *output_level == level)
            .any(|(_, output_span)| output_span.overlaps(span))
    }

    /// Whether the plan meets a running job.
    pub(crate) fn conflicts(&self, plan: &Plan) -> bool {
        self.conflicts_beside(plan, None)
    }

    /// Whether the plan meets a running job other than `own`.
    pub(crate) fn conflicts_beside(&self, plan: &Plan, own: Option<JobId>) -> bool {
        let mut inputs = plan.inputs.iter();
        let holder = |input: &Input| self.tables.get(&input.table.number).copied();
        inputs.any(|input| holder(input).is_some_and(|job| Some(job) != own))
            || plan
                .span()
                .is_some_and(|span| self.writes_into(plan.output_level, &span))
    }

    /// Takes what the plan needs.
    pub(crate) fn reserve(&mut self, job: JobId, plan: &Plan) {
        let tables = plan.inputs.iter().map(|input| input.table.number);
        let output = plan.span().map(|span| (plan.output_level, span));
        self.hold(job, tables.collect(), output);
    }

    /// Takes tables out of every picker's sight, and a span of a level where new ones will
    /// appear.
    pub(crate) fn hold(
        &mut self,
        job: JobId,
        tables: Vec<FileNumber>,
        output: Option<(usize, Span)>,
    ) {
        self.tables.extend(tables.iter().map(|table| (*table, job)));
        self.holders.push(Holder {
            job,
            tables,
            output,
        });
    }

    /// Gives back everything the job holds.
    pub(crate) fn release(&mut self, job: JobId) {
        self.holders.retain(|holder| holder.job != job);
        self.tables.clear();
        for holder in &self.holders {
            let tables = holder.tables.iter();
            self.tables.extend(tables.map(|table| (*table, holder.job)));
        }
    }
}
