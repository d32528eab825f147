//! The file that a gate compares with.

use std::path::Path;

use ppc_store::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::results::{Cell, CorpusId, CorpusResults, Measurement, Record, Run, Workload};

/// The format of the file; another number is another meaning of its fields.
const FORMAT: u32 = 1;

/// What a gate compares with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Baseline {
    pub(super) format: u32,
    /// Commit of the program that was measured.
    pub(super) commit: String,
    /// Processor it was measured on; for people.
    pub(super) cpu: String,
    pub(super) tolerances: Tolerances,
    pub(super) cells: Vec<Guarded>,
}

/// By how much a figure may be worse, as a share of the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tolerances {
    pub(super) stored_bytes: f64,
    pub(super) decoded_bytes_per_returned_byte: f64,
    /// Of instructions for each byte, as a ratio to the reference's.
    pub(super) instructions: f64,
    /// Of processor time for each byte, as a ratio to the reference's.
    pub(super) cpu_seconds: f64,
}

impl Default for Tolerances {
    /// Sizes hardly move unless the format does; instructions vary by a few percent with compilers
    /// and libraries; processor time by what a shared machine does to it.
    fn default() -> Self {
        Self {
            stored_bytes: 0.005,
            decoded_bytes_per_returned_byte: 0.02,
            instructions: 0.05,
            cpu_seconds: 0.20,
        }
    }
}

/// A cell and the figures it must keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Guarded {
    pub(super) corpus: CorpusId,
    pub(super) cell: Cell,
    /// In place of the baseline's, where it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tolerances: Option<Tolerances>,
    pub(super) stored_bytes: f64,
    pub(super) decoded_bytes_per_returned_byte: Option<f64>,
    pub(super) work: Option<Work>,
}

/// Work as a ratio to that of a peer in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) reference: Cell,
    pub(super) instructions_ratio: Option<f64>,
    pub(super) cpu_seconds_ratio: Option<f64>,
}

impl Baseline {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| {
            Error::io("read", path, error)
                .with_remedy("make it of good results with `ppc-bench gate --write`")
        })?;
        let invalid = |reason: String| {
            Error::invalid_input(format!("not a baseline of ppc-bench: {reason}"))
                .at_path(path)
                .with_remedy("make it anew with `ppc-bench gate --write`")
        };
        let baseline: Self =
            serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if baseline.format != FORMAT {
            return Err(invalid(format!(
                "its format is {}, this program knows {FORMAT}",
                baseline.format
            )));
        }
        if baseline.cells.is_empty() {
            return Err(invalid("it guards no cell".to_owned()));
        }
        Ok(baseline)
    }
}

pub(super) fn baseline_of(run: &Run, peer: &str, reference: Option<&str>) -> Baseline {
    let mut cells = Vec::new();
    for results in &run.corpora {
        for measurement in results.cells.values().filter(|one| one.cell.peer == peer) {
            let Some(stored) = measurement.stored_bytes() else {
                continue;
            };
            cells.push(Guarded {
                corpus: results.corpus.clone(),
                cell: measurement.cell.clone(),
                tolerances: None,
                stored_bytes: stored.median,
                decoded_bytes_per_returned_byte: measurement
                    .decoded_per_returned()
                    .map(|decoded| decoded.median),
                work: reference_of(results, measurement, reference)
                    .map(|other| Work::of(measurement, other))
                    .filter(|work| {
                        work.instructions_ratio.is_some() || work.cpu_seconds_ratio.is_some()
                    }),
            });
        }
    }
    Baseline {
        format: FORMAT,
        commit: run.machine.commit.clone(),
        cpu: run.machine.cpu.clone(),
        tolerances: Tolerances::default(),
        cells,
    }
}

/// A measurement of the same work by a peer: with the same cache and codec if there is one.
fn reference_of<'a>(
    results: &'a CorpusResults,
    measurement: &Measurement,
    wanted: Option<&str>,
) -> Option<&'a Measurement> {
    const PREFERRED: [&str; 6] = ["rocksdb", "raw-zstd", "fjall", "zip", "files", "memcpy"];
    let cell = &measurement.cell;
    // A peer that has no cache still does the same work.
    let work_of = |cell: &Cell| Workload {
        cache_bytes: 0,
        ..Workload::of(cell)
    };
    let same_work = |peer: &str| {
        let of_peer = results
            .cells
            .values()
            .filter(|other| other.cell.peer == peer && work_of(&other.cell) == work_of(cell));
        // `false` sorts first.
        of_peer.min_by_key(|other| {
            let same_cache = other.cell.cache_bytes == cell.cache_bytes;
            (!same_cache, other.cell.codec != cell.codec)
        })
    };
    match wanted {
        Some(peer) => same_work(peer),
        None => PREFERRED
            .into_iter()
            .filter(|&peer| peer != cell.peer)
            .find_map(same_work),
    }
}

impl Work {
    pub(super) fn of(measurement: &Measurement, reference: &Measurement) -> Self {
        let ratio = |ours: Option<f64>, theirs: Option<f64>| {
            let ratio = ours? / theirs?;
            (ratio.is_finite() && ratio > 0.0).then_some(ratio)
        };
        Self {
            reference: reference.cell.clone(),
            instructions_ratio: ratio(
                each(measurement, |record| {
                    record.costs.instructions.map(|count| count as f64)
                }),
                each(reference, |record| {
                    record.costs.instructions.map(|count| count as f64)
                }),
            ),
            cpu_seconds_ratio: ratio(
                each(measurement, |record| Some(record.costs.cpu_seconds)),
                each(reference, |record| Some(record.costs.cpu_seconds)),
            ),
        }
    }
}

/// A cost of each operation: misses move no bytes, but all work counts operations.
fn each(measurement: &Measurement, cost: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
    let summary = measurement.summary(|record| Some(cost(record)? / record.operations as f64))?;
    Some(summary.median)
}
