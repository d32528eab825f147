//! The report's plain tables: goals, corpora, machine, what is missing, every cell.

use std::collections::{BTreeMap, BTreeSet};

use super::markup::{Table, escaped};
use super::page::folding;
use crate::corpus::Features;
use crate::results::{
    Configuration, EnergyClass, IdleWatts, Measurement, Run, Summary, Workload, bytes, date,
    load_name, number, peer_name, percent,
};
use crate::targets::{self, Verdict};

/// The goals of the clustered layout.
pub(crate) fn goals(run: &Run) -> String {
    let mut scopes = targets::scopes(run);
    // All together first: it is what the goals are about.
    scopes.rotate_right(1);
    let mut html = String::new();
    for scope in scopes {
        let table = |lines: &[targets::Line]| {
            let mut table = Table::new(4, targets::HEAD);
            for line in lines {
                let mut cells = line.cells();
                let [_, _, _, verdict, ..] = &mut cells;
                match line.verdict {
                    Verdict::Met => verdict.insert_str(0, "✓ "),
                    Verdict::Missed => verdict.insert_str(0, "✗ "),
                    Verdict::NoTarget | Verdict::NotMeasured => {}
                }
                table.row(cells);
            }
            table
        };
        let mut content = table(&scope.lines).html();
        if !scope.blocks.is_empty() {
            let summary = "Blocks in key order, ours beside RocksDB's of the same codec and size";
            content.push_str(&table(&scope.blocks).folded(summary));
        }
        let folded = folding(&escaped(&scope.name), &content, html.is_empty());
        html.push_str(&folded);
    }
    html
}

/// What was stored: the paper's Table I, with medians where the features of a corpus are known.
pub(crate) fn corpora(run: &Run, features: &[Features]) -> String {
    let mut table = Table::new(
        2,
        [
            "corpus",
            "gathered from",
            "files",
            "raw size",
            "mean file",
            "median file",
            "largest file",
            "SHA-256",
        ],
    );
    let mut unknown = false;
    for results in &run.corpora {
        let corpus = &results.corpus;
        let known = features
            .iter()
            .find(|features| features.corpus.sha256 == corpus.sha256);
        unknown |= known.is_none();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        table.row([
            corpus.name.clone(),
            or_dash(known.map(|features| features.gathered_from.clone())),
            number(corpus.files as f64),
            bytes(corpus.raw_bytes),
            bytes(corpus.raw_bytes.checked_div(corpus.files).unwrap_or(0)),
            or_dash(known.map(|features| bytes(features.all.median_bytes))),
            or_dash(known.map(|features| bytes(features.all.max_bytes))),
            corpus.sha256.clone(),
        ]);
    }
    let mut html = table.html();
    if unknown {
        html.push_str(
            "<p class=\"muted\">Results do not hold what is missing here; <code>--corpus</code> \
             names the Parquet files that have it.</p>\n",
        );
    }
    html
}

/// Where and when.
pub(crate) fn machine(run: &Run) -> String {
    let machine = &run.machine;
    let (first, last) = run.period();
    let or_unknown = |text: &Option<String>| {
        text.clone()
            .unwrap_or_else(|| "the kernel does not tell".to_owned())
    };
    let mut table = Table::new(2, ["", ""]);
    for (name, value) in [
        ("processor", machine.cpu.clone()),
        ("processors online", machine.cpus.to_string()),
        ("memory", bytes(machine.memory_bytes)),
        ("kernel", machine.kernel.clone()),
        ("frequency governor", or_unknown(&machine.governor)),
        ("hypervisor", or_unknown(&machine.hypervisor)),
        ("commit", machine.commit.clone()),
        ("first run", date(first)),
        ("last run", date(last)),
        (
            "runs",
            number(
                run.measurements()
                    .map(|(_, cell)| cell.records.len())
                    .sum::<usize>() as f64,
            ),
        ),
    ] {
        table.row([name.to_owned(), value]);
    }
    format!("{}{}{}", table.html(), idle(run), options(run))
}

/// Power of the idle machine before and after runs, apart from the joules of the runs.
fn idle(run: &Run) -> String {
    let mut baselines: BTreeMap<(&str, u32), Vec<IdleWatts>> = BTreeMap::new();
    for (_, measurement) in run.measurements() {
        for record in &measurement.records {
            for part in &record.costs.energy.domains {
                let all = baselines.entry((&part.domain, part.package)).or_default();
                all.extend(part.idle_watts);
            }
        }
    }
    let mut table = Table::new(
        1,
        [
            "domain",
            "package",
            "before, median W",
            "range",
            "after, median W",
            "range",
        ],
    );
    for ((domain, package), baselines) in baselines {
        let texts = |watts: fn(&IdleWatts) -> f64| {
            let summary = Summary::of(baselines.iter().map(watts))?;
            let range = format!("{} – {}", number(summary.min), number(summary.max));
            Some([number(summary.median), range])
        };
        let (Some(before), Some(after)) = (texts(|idle| idle.before), texts(|idle| idle.after))
        else {
            continue;
        };
        let name = [domain.to_owned(), package.to_string()];
        table.row(name.into_iter().chain(before).chain(after));
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<h3>Power of the idle machine</h3>\n<p>Included in every energy, never subtracted.</p>\n{}",
        table.html()
    )
}

/// Options of the peers that are no part of a cell.
fn options(run: &Run) -> String {
    let mut all: BTreeSet<(String, String)> = BTreeSet::new();
    for (_, measurement) in run.measurements() {
        for record in &measurement.records {
            let options: Vec<String> = record
                .options
                .iter()
                .map(|(name, value)| format!("{name} = {value}"))
                .collect();
            if !options.is_empty() {
                all.insert((Configuration::of(&record.cell).name(), options.join(", ")));
            }
        }
    }
    let mut table = Table::new(2, ["configuration", "options"]);
    for (name, options) in all {
        table.row([name, options]);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.folded("Options of the stores")
    }
}

/// What could not be measured, and why; with `notes` on the files that were read.
pub(crate) fn missing(run: &Run, notes: &[String]) -> String {
    let mut items: Vec<String> = notes.to_vec();
    items.extend(missing_peers(run));
    let count = run.measurements().count();
    let of_all = |missing: usize| {
        if missing == count {
            "all cells".to_owned()
        } else {
            format!("{missing} of {count} cells")
        }
    };

    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, measurement) in run.measurements() {
        if let Err(reason) = measurement.energy() {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (reason, missing) in reasons {
        items.push(format!(
            "Energy of {}: unavailable. {reason}",
            of_all(missing)
        ));
    }

    let lacking =
        |has: fn(&Measurement) -> bool| run.measurements().filter(|(_, cell)| !has(cell)).count();
    let counters = lacking(|cell| {
        cell.records
            .iter()
            .all(|record| record.costs.instructions.is_some())
    });
    if counters > 0 {
        items.push(format!(
            "Instructions of {}: the kernel granted no counter (a virtual machine without one, or \
             kernel.perf_event_paranoid). Processor time stands in.",
            of_all(counters)
        ));
    }
    let silent: BTreeSet<&str> = run
        .measurements()
        .filter(|(_, cell)| cell.decoded_per_returned().is_none())
        .map(|(_, measurement)| peer_name(&measurement.cell.peer))
        .collect();
    if !silent.is_empty() {
        let silent: Vec<&str> = silent.into_iter().collect();
        items.push(format!(
            "Decoded bytes for each returned byte: some or all cells of {} do not count them.",
            silent.join(", ")
        ));
    }
    let single = lacking(|cell| cell.records.len() > 1);
    if single > 0 {
        items.push(format!("Spread of {}: measured once.", of_all(single)));
    }
    let goals = targets::scopes(run)
        .into_iter()
        .flat_map(|scope| scope.lines);
    let unmeasured = goals
        .filter(|line| line.verdict == Verdict::NotMeasured)
        .count();
    if unmeasured > 0 {
        items.push(format!(
            "{unmeasured} lines of the goals: ours or RocksDB's side was not measured in this run."
        ));
    }
    let items: String = items
        .iter()
        .map(|item| format!("<li>{}</li>\n", escaped(item)))
        .collect();
    if items.is_empty() {
        "<p>Nothing is missing.</p>\n".to_owned()
    } else {
        format!("<ul>\n{items}</ul>\n")
    }
}

fn missing_peers(run: &Run) -> Option<String> {
    let measured: BTreeSet<&str> = run
        .measurements()
        .map(|(_, measurement)| measurement.cell.peer.as_str())
        .collect();
    let known = [
        "ppc", "rocksdb", "fjall", "zip", "files", "raw-zstd", "memcpy",
    ];
    let missing: Vec<&str> = known
        .into_iter()
        .filter(|peer| !measured.contains(peer))
        .map(peer_name)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let how = if measured.contains("rocksdb") {
        ""
    } else {
        " RocksDB needs a ppc-bench built with `--features rocksdb`."
    };
    Some(format!(
        "Not measured in this run: {}.{how}",
        missing.join(", ")
    ))
}

/// Every cell with every figure, corpus by corpus.
pub(crate) fn every_cell(run: &Run) -> String {
    let mut html = String::new();
    for results in &run.corpora {
        let mut table = Table::new(
            4,
            [
                "store",
                "configuration",
                "load",
                "work",
                "runs",
                "MiB/s, median",
                "quartiles",
                "range",
                "operations/s",
                "MiB per CPU-s",
                "CPU ns per byte",
                "instructions per byte",
                "MB/J",
                "energy",
                "stored",
                "ratio",
                "decoded per returned",
                "written per value byte",
                "peak memory",
            ],
        );
        for measurement in results.cells.values() {
            table.row(cell_row(measurement));
        }
        let summary = format!("{}: {} cells", results.corpus.name, results.cells.len());
        html.push_str(&table.folded(&summary));
    }
    html
}

fn cell_row(measurement: &Measurement) -> [String; 19] {
    let cell = &measurement.cell;
    let median = |summary: Option<Summary>| {
        summary.map_or_else(|| "–".to_owned(), |summary| number(summary.median))
    };
    let size = |summary: Option<Summary>| {
        summary.map_or_else(|| "–".to_owned(), |summary| bytes(summary.median as u64))
    };
    let speed = measurement.mib_per_second();
    let between = |low: fn(&Summary) -> f64, high: fn(&Summary) -> f64| {
        speed.as_ref().map_or_else(
            || "–".to_owned(),
            |speed| format!("{} – {}", number(low(speed)), number(high(speed))),
        )
    };
    let (mb_per_joule, energy) = match measurement.energy() {
        Ok(reading) => {
            let kind = reading.kind();
            (median(Summary::of(reading.mb_per_joule)), kind)
        }
        Err(_) => {
            let unavailable = crate::results::class_name(EnergyClass::Unavailable);
            ("–".to_owned(), unavailable.to_owned())
        }
    };
    [
        peer_name(&cell.peer).to_owned(),
        Configuration::of(cell).recipe(),
        load_name(cell.load).to_owned(),
        Workload::of(cell).name(),
        measurement.records.len().to_string(),
        median(speed),
        between(|speed| speed.lower_quartile, |speed| speed.upper_quartile),
        between(|speed| speed.min, |speed| speed.max),
        median(measurement.operations_per_second()),
        median(measurement.mib_per_cpu_second()),
        median(measurement.cpu_ns_per_byte()),
        median(measurement.instructions_per_byte()),
        mb_per_joule,
        energy,
        size(measurement.stored_bytes()),
        measurement.ratio().map_or_else(|| "–".to_owned(), percent),
        median(measurement.decoded_per_returned()),
        median(measurement.write_amplification()),
        size(measurement.peak_resident_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Sizes;
    use crate::results::group;
    use crate::results::testing::record;

    #[test]
    fn features_are_those_of_the_corpus_with_the_same_checksum() {
        let runs = group([record().build()]);
        let mut features = Features {
            corpus: runs[0].corpora[0].corpus.clone(),
            gathered_from: "a list of packages".to_owned(),
            files_read: 1,
            bytes_read: 1,
            parquet_bytes: 1,
            all: Sizes {
                files: 1,
                bytes: 1,
                mean_bytes: 1.0,
                median_bytes: 3072,
                max_bytes: 9 << 20,
            },
            extensions: Vec::new(),
        };
        let html = corpora(&runs[0], std::slice::from_ref(&features));
        for text in ["a list of packages", "3 KiB", "9 MiB"] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("--corpus"));
        features.corpus.sha256 = "another".to_owned();
        let html = corpora(&runs[0], &[features]);
        assert!(
            !html.contains("3 KiB") && html.contains("--corpus"),
            "{html}"
        );
    }
}
