//! Tables beside the paper's Table II, with ratios to RocksDB in the same run.

use super::frontier::is_single_get;
use super::markup::{Table, escaped};
use super::sample::{Sample, Scope};
use crate::paper_figures::{CAVEAT, CONDITIONS, LARGE, LargeConfiguration, THREAD_SPEEDUPS};
use crate::results::{Experiment, Load, number, percent};

/// What stands above the tables: where the paper's figures come from.
pub(crate) fn introduction() -> String {
    let speedups: Vec<String> = THREAD_SPEEDUPS
        .iter()
        .map(|speedup| format!("{} to {} × ({})", speedup.least, speedup.most, speedup.keys))
        .collect();
    format!(
        "<p>The paper: {} {} More threads sped its gets up by {}.</p>\n<p>Absolute figures of machines \
         so different say little; ratios between configurations on one machine say more. Both tables \
         therefore set each figure against RocksDB zstd-9/128 KiB or the configuration named, on the \
         same machine, in the same run.</p>\n",
        escaped(CONDITIONS),
        escaped(CAVEAT),
        escaped(&speedups.join(", ")),
    )
}

/// The two tables of a scope.
pub(crate) fn html(scope: &Scope<'_>) -> String {
    let mut html = String::new();
    html.push_str("<h4>RocksDB loaded by puts: the paper's machine and this one</h4>\n");
    html.push_str(&rocksdb(scope).html());
    let ours = ours(scope);
    if ours.is_empty() {
        html.push_str("<p>ppc was not measured here.</p>\n");
    } else {
        html.push_str("<h4>ppc as a multiple of RocksDB in this run</h4>\n<p>Bytes: less than 1 is smaller. Gets (uniform, one at a time, one thread, warm) and builds (MiB per CPU-second): more than 1 is faster.</p>\n");
        html.push_str(&ours.html());
    }
    html
}

/// What was measured of a configuration.
#[derive(Debug, Clone, Copy, Default)]
struct Figures<'a> {
    ratio: Option<f64>,
    build: Option<f64>,
    build_per_cpu: Option<f64>,
    build_mb_per_joule: Option<(&'a str, f64)>,
    get: Option<f64>,
}

impl<'a> Figures<'a> {
    /// Of the samples of one configuration.
    fn of(samples: impl Iterator<Item = &'a Sample>) -> Self {
        let mut figures = Self::default();
        for sample in samples {
            figures.ratio = figures.ratio.or(Some(sample.ratio));
            if sample.workload.experiment == Experiment::Build && figures.build.is_none() {
                figures.build = sample.speed.map(|speed| speed.median);
                figures.build_per_cpu = sample.cpu_speed.map(|speed| speed.median);
                figures.build_mb_per_joule = sample
                    .energy
                    .as_ref()
                    .map(|(kind, spread)| (kind.as_str(), spread.median));
            }
            if is_single_get(&sample.workload) && figures.get.is_none() {
                figures.get = sample.speed.map(|speed| speed.median);
            }
        }
        figures
    }

    fn of_rocksdb(scope: &'a Scope<'_>, paper: &LargeConfiguration) -> Self {
        Self::of(scope.samples.iter().filter(|sample| {
            let configuration = &sample.configuration;
            configuration.peer == "rocksdb"
                && configuration.load == Load::Puts
                && configuration.codec == paper.codec
                && configuration.block_bytes == paper.block_bytes
                && configuration.dictionary_bytes == 0
        }))
    }
}

fn name(paper: &LargeConfiguration) -> String {
    format!("{}/{} KiB", paper.codec, paper.block_bytes >> 10)
}

fn shown(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "not measured".to_owned(), text)
}

fn times(ours: Option<f64>, theirs: Option<f64>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => format!("{} ×", number(ours / theirs)),
        _ => "not measured".to_owned(),
    }
}

/// Joules of one as a multiple of another's, with their class; of different classes there is none.
fn joules(ours: Option<(&str, f64)>, theirs: Option<(&str, f64)>) -> String {
    match (ours, theirs) {
        (Some((kind, ours)), Some((other, theirs))) if kind == other => {
            format!("{} × ({kind})", number(theirs / ours))
        }
        (Some(_), Some(_)) => "classes differ".to_owned(),
        _ => "unavailable".to_owned(),
    }
}

fn rocksdb(scope: &Scope<'_>) -> Table {
    let mut table = Table::new(
        1,
        [
            "configuration",
            "ratio, paper",
            "ratio, here",
            "relative to zstd-9/128 KiB, paper",
            "here",
            "insertion MiB/s, paper",
            "build MiB/s, here",
            "relative, paper",
            "here",
            "build energy kJ, paper",
            "relative, paper",
            "here",
            "single gets MiB/s, here",
        ],
    );
    // The paper's last large configuration is what the others are set against.
    let Some(paper_reference) = LARGE.last() else {
        return table;
    };
    let reference = Figures::of_rocksdb(scope, paper_reference);
    for paper in &LARGE {
        let here = Figures::of_rocksdb(scope, paper);
        table.row([
            name(paper),
            format!("{:.2} %", paper.ratio_percent),
            shown(here.ratio, percent),
            times(
                Some(paper.ratio_percent),
                Some(paper_reference.ratio_percent),
            ),
            times(here.ratio, reference.ratio),
            number(paper.insert_mib_per_second),
            shown(here.build, number),
            times(
                Some(paper.insert_mib_per_second),
                Some(paper_reference.insert_mib_per_second),
            ),
            times(here.build, reference.build),
            number(paper.build_kilojoules),
            times(
                Some(paper.build_kilojoules),
                Some(paper_reference.build_kilojoules),
            ),
            // Twice the MB for a joule is half the joules.
            joules(here.build_mb_per_joule, reference.build_mb_per_joule),
            shown(here.get, number),
        ]);
    }
    table
}

fn ours(scope: &Scope<'_>) -> Table {
    let mut head = vec!["ppc".to_owned(), "ratio".to_owned()];
    for figure in ["bytes", "single gets", "build"] {
        head.extend(
            LARGE
                .iter()
                .map(|paper| format!("{figure}, to {}", name(paper))),
        );
    }
    let mut table = Table::new(1, head.iter().map(String::as_str));
    let mut configurations: Vec<_> = scope
        .samples
        .iter()
        .map(|sample| &sample.configuration)
        .filter(|configuration| configuration.peer == "ppc")
        .collect();
    configurations.sort_unstable();
    configurations.dedup();
    let theirs: Vec<Figures<'_>> = LARGE
        .iter()
        .map(|paper| Figures::of_rocksdb(scope, paper))
        .collect();
    for own in configurations {
        let samples = scope
            .samples
            .iter()
            .filter(|sample| sample.configuration == *own);
        let ours = Figures::of(samples);
        let mut row = vec![own.name_in_peer(), shown(ours.ratio, percent)];
        for of in [
            |figures: &Figures<'_>| figures.ratio,
            |figures: &Figures<'_>| figures.get,
            |figures: &Figures<'_>| figures.build_per_cpu,
        ] {
            row.extend(theirs.iter().map(|theirs| times(of(&ours), of(theirs))));
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::scopes;
    use crate::results::group;
    use crate::results::testing::record;

    #[test]
    fn ratios_stand_beside_the_papers_and_gaps_are_named() {
        let mib = 1 << 20;
        let store = |codec: &str, kib, stored: u64, rate: f64| {
            let base = record()
                .rocksdb(codec, kib)
                .stored_bytes(stored * mib)
                .value_mib(100);
            base.builds().seconds(100.0 / rate).build()
        };
        let runs = group([
            store("zstd-9", 128, 160, 50.0),
            store("zstd-6", 128, 176, 75.0),
            record().builds().stored_bytes(80 * mib).build(),
        ]);
        let html = html(&scopes(&runs[0])[0]);
        // 15.98 / 15.49 in the paper, 176 / 160 here; insertion 215.49 / 157.75 and 75 / 50.
        for figure in [
            "15.98 %",
            "1.03 ×",
            "1.10 ×",
            "1.37 ×",
            "1.50 ×",
            "0.500 ×",
            "not measured",
        ] {
            assert!(html.contains(figure), "{figure}: {html}");
        }
    }

    #[test]
    fn joules_are_set_against_joules_of_their_class_only() {
        let half = joules(
            Some(("measured, package", 4.0)),
            Some(("measured, package", 2.0)),
        );
        assert_eq!(half, "0.500 × (measured, package)");
        let other = joules(
            Some(("modelled, model", 4.0)),
            Some(("measured, package", 2.0)),
        );
        assert_eq!(other, "classes differ");
        assert_eq!(joules(None, Some(("modelled, model", 2.0))), "unavailable");
    }
}
