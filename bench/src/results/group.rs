//! Records brought together: by machine and commit, by corpus, by cell.

use std::collections::BTreeMap;

use super::{Cell, CorpusId, Machine, Record};

/// What one machine measured at one commit. Figures of different runs are not set against each
/// other: machines differ, and so do programs.
#[derive(Debug)]
pub struct Run {
    /// Machine and commit.
    pub machine: Machine,
    /// Results by corpus, in the order of the file.
    pub corpora: Vec<CorpusResults>,
}

/// What was measured on one corpus.
#[derive(Debug)]
pub struct CorpusResults {
    /// The corpus.
    pub corpus: CorpusId,
    /// Its cells, each with every repetition.
    pub cells: BTreeMap<Cell, Measurement>,
}

/// A cell and its repetitions, at least one.
#[derive(Debug)]
pub struct Measurement {
    /// What was measured.
    pub cell: Cell,
    /// Every time that it was.
    pub records: Vec<Record>,
}

/// Brings records together, in the order in which machines and corpora first occur.
pub fn group(records: impl IntoIterator<Item = Record>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for record in records {
        let run = find_or_add(
            &mut runs,
            |run| run.machine == record.machine,
            || Run {
                machine: record.machine.clone(),
                corpora: Vec::new(),
            },
        );
        let corpus = find_or_add(
            &mut run.corpora,
            |results| results.corpus == record.corpus,
            || CorpusResults {
                corpus: record.corpus.clone(),
                cells: BTreeMap::new(),
            },
        );
        corpus
            .cells
            .entry(record.cell.clone())
            .or_insert_with(|| Measurement {
                cell: record.cell.clone(),
                records: Vec::new(),
            })
            .records
            .push(record);
    }
    runs
}

/// Files hold few machines and few corpora: a linear search will do.
fn find_or_add<T>(
    items: &mut Vec<T>,
    matches: impl Fn(&T) -> bool,
    create: impl FnOnce() -> T,
) -> &mut T {
    let place = items.iter().position(matches).unwrap_or(items.len());
    if place == items.len() {
        items.push(create());
    }
    &mut items[place]
}

impl Run {
    /// When its first repetition began and its last: seconds since 1970.
    pub fn period(&self) -> (u64, u64) {
        let starts = self
            .measurements()
            .flat_map(|(_, measurement)| &measurement.records)
            .map(|record| record.started_unix_seconds);
        starts.fold((u64::MAX, 0), |(first, last), start| {
            (first.min(start), last.max(start))
        })
    }

    /// Every measurement, with its corpus.
    pub fn measurements(&self) -> impl Iterator<Item = (&CorpusId, &Measurement)> {
        self.corpora.iter().flat_map(|results| {
            let corpus = &results.corpus;
            results.cells.values().map(move |cell| (corpus, cell))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::record;

    #[test]
    fn equal_cells_are_repetitions_and_nothing_else_is() {
        let base = record();
        let runs = group([
            base.clone().repeat(0).build(),
            base.clone().repeat(1).build(),
            base.clone().codec("zstd-9").build(),
            base.clone().corpus("java", 64).build(),
            base.clone().commit("other").build(),
        ]);
        assert_eq!(runs.len(), 2, "another commit is another run");
        assert_eq!(runs[0].corpora.len(), 2);
        let cells: Vec<usize> = runs[0].corpora[0]
            .cells
            .values()
            .map(|measurement| measurement.records.len())
            .collect();
        assert_eq!(cells, [2, 1]);
        assert_eq!(runs[0].measurements().count(), 3);
    }
}
