//! `ppc-bench compare`: what changed between two files of results, beyond noise.
//!
//! Figures of one cell are compared with those of the same cell on the same corpus. Sizes and counts
//! of decoded bytes do not drift and are compared as they are; everything timed is tested.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use ppc_store::{Error, Result};
use serde::Serialize;

use crate::results::{
    Cell, Configuration, CorpusId, Machine, Measurement, Record, Results, Run, Summary, Workload,
    believable, date, decoded_per_returned, group, instructions_per_byte, mib_per_cpu_second,
    mib_per_second, number, operations_per_second, welch_p_value,
};

/// Tell what changed between two files of results, beyond noise
///
/// For each cell that both files hold (experiment, store, layout, codec, keys, threads), on the same
/// corpus: speed, work per second of processor time, instructions, energy where both have it in the
/// same class, bytes stored, bytes decoded for each byte returned.
///
/// Whether a timed figure changed is decided by Welch's t-test on the logarithms of its repetitions:
/// the logarithm because noise grows with what is timed, Welch's because two files need not be
/// equally noisy. Since hundreds of figures are tested at once, Benjamini and Hochberg's procedure
/// picks those to believe, so that at most the share --false-alarms of the changes reported is
/// expected to be chance; if nothing changed at all, that is the chance of any report. A change also
/// has to exceed --threshold, as what is surely real can still be too small to matter. A figure with
/// fewer than two repetitions on a side gets no verdict: run the experiments with more.
///
/// Bytes stored and decoded are not tested: they changed when no value of one file lies in the range
/// of the other, by more than 0.1 %.
///
/// Different corpora are refused. Different machines are compared, with a warning: such a comparison
/// tells about machines as much as about programs.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The results to compare with
    #[arg(value_name = "A.jsonl")]
    a: PathBuf,
    /// The results to judge
    #[arg(value_name = "B.jsonl")]
    b: PathBuf,
    /// Smallest change of a timed figure to report, as a share
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    threshold: f64,
    /// Share of the reported changes that may be chance
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    false_alarms: f64,
    /// Print every figure, not only those that changed
    #[arg(long)]
    all: bool,
    /// Print JSON: every figure, with its verdict
    #[arg(long)]
    json: bool,
}

/// Runs `ppc-bench compare`.
///
/// # Errors
///
/// Results that cannot be read, that mix machines or commits, or that are of different corpora.
pub fn run(args: &CompareArgs) -> Result<()> {
    for (name, share) in [
        ("--threshold", args.threshold),
        ("--false-alarms", args.false_alarms),
    ] {
        if !(0.0..1.0).contains(&share) {
            return Err(Error::invalid_input(format!(
                "{name} is a share from 0 to below 1, not {share}"
            )));
        }
    }
    let a = read(&args.a)?;
    let b = read(&args.b)?;
    let comparison = compare(&a, &b, args.threshold, args.false_alarms)?;
    for note in &comparison.notes {
        eprintln!("ppc-bench: {note}");
    }
    if args.json {
        println!(
            "{:#}",
            serde_json::json!({
                "a": { "path": args.a, "machine": a.machine },
                "b": { "path": args.b, "machine": b.machine },
                "threshold": args.threshold,
                "false_alarms": args.false_alarms,
                "notes": comparison.notes,
                "figures": comparison.changes,
            })
        );
    } else {
        for (name, path, run) in [("A", &args.a, &a), ("B", &args.b, &b)] {
            let (first, _) = run.period();
            println!(
                "{name}  {}: commit {}, {}",
                path.display(),
                run.machine.commit,
                date(first)
            );
        }
        print!("{}", text(&comparison, args.all));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Run> {
    let results = Results::read(&[path.to_owned()])?;
    for note in &results.notes {
        eprintln!("ppc-bench: {note}");
    }
    let mut runs = group(results.records);
    let first = runs.remove(0);
    if let Some(other) = runs.first() {
        let (a, b) = (&first.machine, &other.machine);
        return Err(Error::invalid_input(format!(
            "it holds results of several machines or commits, for instance {} at {} and {} at {}",
            a.cpu, a.commit, b.cpu, b.commit
        ))
        .at_path(path)
        .with_remedy("keep the lines of one in a file of their own, for instance with `grep`"));
    }
    Ok(first)
}

/// What a figure did from A to B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Better,
    Worse,
    /// Not told apart, or by less than the threshold.
    Same,
    /// Too few repetitions to tell.
    Unknown,
}

/// One figure of one cell on both sides.
#[derive(Debug, Serialize)]
struct Change {
    corpus: String,
    cell: Cell,
    figure: &'static str,
    more_is_better: bool,
    /// Whether it is timed, and so has to be tested.
    drifts: bool,
    a: Summary,
    b: Summary,
    /// B to A, of the medians.
    ratio: f64,
    /// Of the t-test, where one was made.
    p_value: Option<f64>,
    verdict: Verdict,
}

#[derive(Debug, Default)]
struct Comparison {
    notes: Vec<String>,
    changes: Vec<Change>,
}

fn compare(a: &Run, b: &Run, threshold: f64, false_alarms: f64) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    same_corpora(a, b)?;
    comparison.notes.extend(differences(&a.machine, &b.machine));
    let ours = by_cell(a);
    let theirs = by_cell(b);
    let missing = |from: &BTreeMap<_, _>, to: &BTreeMap<_, _>| {
        from.keys().filter(|key| !to.contains_key(*key)).count()
    };
    for (name, count) in [
        ("A", missing(&ours, &theirs)),
        ("B", missing(&theirs, &ours)),
    ] {
        if count > 0 {
            comparison
                .notes
                .push(format!("cells measured in {name} only: {count}"));
        }
    }
    for ((_, cell), (corpus, before)) in &ours {
        let key = (corpus.sha256.as_str(), *cell);
        let Some((_, after)) = theirs.get(&key) else {
            continue;
        };
        let figures = figures_of(corpus, before, after, &mut comparison.notes);
        comparison.changes.extend(figures);
    }
    judge(&mut comparison.changes, threshold, false_alarms);
    comparison.notes.sort();
    comparison.notes.dedup();
    Ok(comparison)
}

/// Of each name that both have, some corpus must be the same; and there must be such a name.
fn same_corpora(a: &Run, b: &Run) -> Result<()> {
    let mut common = false;
    for ours in &a.corpora {
        let of_name = |run: &'_ Run| -> Vec<CorpusId> {
            let named = run.corpora.iter().map(|results| &results.corpus);
            named
                .filter(|corpus| corpus.name == ours.corpus.name)
                .cloned()
                .collect()
        };
        let (all_ours, all_theirs) = (of_name(a), of_name(b));
        let equal = all_ours
            .iter()
            .any(|ours| all_theirs.iter().any(|theirs| theirs.sha256 == ours.sha256));
        common |= equal;
        if let (false, Some(theirs)) = (equal, all_theirs.first()) {
            return Err(Error::invalid_input(format!(
                "A and B measured different corpora called {:?}: {} files with SHA-256 {}, and {} \
                 files with {}",
                ours.corpus.name,
                ours.corpus.files,
                ours.corpus.sha256,
                theirs.files,
                theirs.sha256
            ))
            .with_remedy(
                "run both on the same corpus; `ppc-bench corpus` gathers it by checksum",
            ));
        }
    }
    if common {
        return Ok(());
    }
    let names = |run: &Run| {
        let names: Vec<&str> = run
            .corpora
            .iter()
            .map(|results| results.corpus.name.as_str())
            .collect();
        names.join(", ")
    };
    Err(Error::invalid_input(format!(
        "A and B have no corpus in common: A measured {}, B {}",
        names(a),
        names(b)
    ))
    .with_remedy("run both on the same corpus"))
}

/// A warning for each way in which the machines differ.
fn differences(a: &Machine, b: &Machine) -> Vec<String> {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let traits = |machine: &Machine| {
        [
            ("processor", machine.cpu.clone()),
            ("number of processors", machine.cpus.to_string()),
            ("memory", machine.memory_bytes.to_string()),
            ("kernel", machine.kernel.clone()),
            ("governor", or_unknown(&machine.governor)),
            ("hypervisor", or_unknown(&machine.hypervisor)),
        ]
    };
    let pairs = traits(a).into_iter().zip(traits(b));
    pairs
        .filter(|(ours, theirs)| ours != theirs)
        .map(|((name, ours), (_, theirs))| {
            format!("warning: the machines differ in {name}: {ours} in A, {theirs} in B")
        })
        .collect()
}

type ByCell<'a> = BTreeMap<(&'a str, &'a Cell), (&'a CorpusId, &'a Measurement)>;

fn by_cell(run: &Run) -> ByCell<'_> {
    run.measurements()
        .map(|(corpus, measurement)| {
            (
                (corpus.sha256.as_str(), &measurement.cell),
                (corpus, measurement),
            )
        })
        .collect()
}

/// A figure of a record.
struct Figure {
    name: &'static str,
    more_is_better: bool,
    drifts: bool,
    of: fn(&Record) -> Option<f64>,
}

/// Bytes stored and decoded first, then what is timed.
const FIGURES: [Figure; 6] = [
    Figure {
        name: "stored bytes",
        more_is_better: false,
        drifts: false,
        of: |record| Some(record.space.stored_bytes as f64),
    },
    Figure {
        name: "decoded bytes per returned byte",
        more_is_better: false,
        drifts: false,
        of: decoded_per_returned,
    },
    Figure {
        name: "MiB/s",
        more_is_better: true,
        drifts: true,
        of: mib_per_second,
    },
    Figure {
        name: "operations/s",
        more_is_better: true,
        drifts: true,
        // Where values move, MiB/s says the same.
        of: |record| operations_per_second(record).filter(|_| record.value_bytes == 0),
    },
    Figure {
        name: "MiB per CPU-second",
        more_is_better: true,
        drifts: true,
        of: mib_per_cpu_second,
    },
    Figure {
        name: "instructions per byte",
        more_is_better: false,
        drifts: true,
        of: instructions_per_byte,
    },
];

/// All figures that both sides have, not yet judged.
fn figures_of(
    corpus: &CorpusId,
    before: &Measurement,
    after: &Measurement,
    notes: &mut Vec<String>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for figure in FIGURES {
        let values = |measurement: &Measurement| -> Option<Vec<f64>> {
            measurement.records.iter().map(figure.of).collect()
        };
        if let (Some(a), Some(b)) = (values(before), values(after)) {
            let kind = (figure.name, figure.more_is_better, figure.drifts);
            changes.extend(change(corpus, &before.cell, kind, &a, &b));
        }
    }
    if let (Ok(a), Ok(b)) = (before.energy(), after.energy()) {
        if (a.class, a.domain) == (b.class, b.domain) {
            let (a, b) = (&a.mb_per_joule, &b.mb_per_joule);
            changes.extend(change(corpus, &before.cell, ("MB/J", true, true), a, b));
        } else {
            notes.push(format!(
                "energy is not compared where A has it {} and B {}",
                a.kind(),
                b.kind()
            ));
        }
    }
    changes
}

/// A figure with its values on both sides, not yet judged; `None` if a side has none.
fn change(
    corpus: &CorpusId,
    cell: &Cell,
    (figure, more_is_better, drifts): (&'static str, bool, bool),
    a_values: &[f64],
    b_values: &[f64],
) -> Option<Change> {
    let a = Summary::of(a_values.iter().copied())?;
    let b = Summary::of(b_values.iter().copied())?;
    Some(Change {
        corpus: corpus.name.clone(),
        cell: cell.clone(),
        figure,
        more_is_better,
        drifts,
        a,
        b,
        ratio: if a.median == b.median {
            1.0
        } else {
            b.median / a.median
        },
        p_value: if drifts {
            welch_p_value(a_values, b_values)
        } else {
            None
        },
        verdict: Verdict::Unknown,
    })
}

/// Smallest change of a figure that does not drift to report, as a share.
const EXACT_THRESHOLD: f64 = 0.001;

fn judge(changes: &mut [Change], threshold: f64, false_alarms: f64) {
    let tested: Vec<f64> = changes.iter().filter_map(|change| change.p_value).collect();
    let mut believed = believable(&tested, false_alarms).into_iter();
    for change in changes {
        let (real, threshold) = if !change.drifts {
            let apart = change.a.max < change.b.min || change.b.max < change.a.min;
            (apart, EXACT_THRESHOLD)
        } else if change.p_value.is_some() {
            (believed.next().unwrap_or(false), threshold)
        } else {
            continue;
        };
        change.verdict = if !real || (change.ratio - 1.0).abs() < threshold {
            Verdict::Same
        } else if (change.ratio > 1.0) == change.more_is_better {
            Verdict::Better
        } else {
            Verdict::Worse
        };
    }
}

fn text(comparison: &Comparison, all: bool) -> String {
    let mut text = String::new();
    let mut place = (String::new(), String::new());
    for change in &comparison.changes {
        let verdict = match change.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Same => "same",
            Verdict::Unknown => "one run",
        };
        if !all && !matches!(change.verdict, Verdict::Better | Verdict::Worse) {
            continue;
        }
        let here = (
            change.corpus.clone(),
            format!(
                "{}: {}",
                Configuration::of(&change.cell).name(),
                Workload::of(&change.cell).name()
            ),
        );
        if here.0 != place.0 {
            text.push_str(&format!("\n{}\n", here.0));
        }
        if here != place {
            text.push_str(&format!("  {}\n", here.1));
            place = here;
        }
        let p_value = match change.p_value {
            Some(p_value) if p_value < 1e-4 => "  p < 0.0001".to_owned(),
            Some(p_value) => format!("  p = {p_value:.4}"),
            None => String::new(),
        };
        text.push_str(&format!(
            "    {verdict:<7} {:<32} {:>12} -> {:>12}  {:+.1} %{p_value}\n",
            change.figure,
            number(change.a.median),
            number(change.b.median),
            (change.ratio - 1.0) * 100.0
        ));
    }
    let count = |verdict| {
        comparison
            .changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .count()
    };
    text.push_str(&format!(
        "\n{} figures compared: {} better, {} worse, {} the same within noise, {} without a verdict \
         for want of repetitions\n",
        comparison.changes.len(),
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Same),
        count(Verdict::Unknown)
    ));
    text
}
