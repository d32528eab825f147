//! The Pareto frontier: which configurations no other of the same store beats on size and speed both.

use std::collections::BTreeSet;

use super::chart::{Axis, Chart, Frame, Line, Point, Series, Style, Unit, color_of};
use super::figure::Figure;
use super::markup::Table;
use super::sample::{Sample, Scope, Spread, by_work};
use crate::results::{
    Experiment, Keys, Load, Temperature, Workload, load_name, number, peer_name, percent,
};

/// Peers whose frontier is drawn.
const STORES: [&str; 2] = ["rocksdb", "ppc"];

/// The frontiers of builds and of single gets.
pub(crate) fn figures(scope: &Scope<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let builds = scope.samples.iter().filter(|sample| {
        sample.workload.experiment == Experiment::Build && fewest_threads(scope, sample)
    });
    let one = |workload| Workload {
        threads: 1,
        ..workload
    };
    for (_, samples) in by_work(builds, one) {
        figures.extend(figure(
            "Build: size against work",
            "MiB per CPU-second, all threads counted",
            &samples,
            |sample| sample.cpu_speed,
        ));
    }
    let gets = scope
        .samples
        .iter()
        .filter(|sample| is_single_get(&sample.workload));
    for (workload, samples) in by_work(gets, |workload| workload) {
        figures.extend(figure(
            &format!("Gets: size against speed ({})", workload.name()),
            "MiB/s",
            &samples,
            |sample| sample.speed,
        ));
    }
    figures
}

/// Uniform, one key a call, one thread, warm.
pub(crate) fn is_single_get(workload: &Workload) -> bool {
    workload.experiment == Experiment::Get
        && workload.keys == Keys::Uniform
        && workload.batch <= 1
        && workload.threads == 1
        && workload.temperature == Temperature::Warm
}

/// Whether no build of the same configuration used fewer threads.
fn fewest_threads(scope: &Scope<'_>, sample: &Sample) -> bool {
    !scope.samples.iter().any(|other| {
        other.workload.experiment == Experiment::Build
            && other.configuration == sample.configuration
            && other.workload.threads < sample.workload.threads
    })
}

fn figure(
    title: &str,
    unit: &str,
    samples: &[&Sample],
    speed: impl Fn(&Sample) -> Option<Spread>,
) -> Option<Figure> {
    let chart = chart(samples, unit, Frame::default(), &speed)?;
    let mut values = Table::new(
        3,
        ["store", "configuration", "on the frontier", "ratio", unit],
    );
    for (sample, speed, on_frontier) in marked(samples, &speed) {
        values.row([
            peer_name(&sample.configuration.peer).to_owned(),
            sample.configuration.name_in_peer(),
            if on_frontier { "yes" } else { "no" }.to_owned(),
            percent(sample.ratio),
            number(speed.median),
        ]);
    }
    Some(Figure {
        title: title.to_owned(),
        note: "A line joins what no other configuration of the same store beats in both; the \
               others stand back."
            .to_owned(),
        chart,
        values,
    })
}

/// The chart alone; `None` if neither store has a point.
pub(crate) fn chart(
    samples: &[&Sample],
    unit: &str,
    frame: Frame,
    speed: &impl Fn(&Sample) -> Option<Spread>,
) -> Option<Chart> {
    let drawn = marked(samples, speed);
    if drawn.is_empty() {
        return None;
    }
    let mut series = Vec::new();
    let mut legend = Vec::new();
    for peer in STORES {
        let style = Style {
            color: color_of(peer),
            shape: shape_of(peer, Load::Puts),
        };
        let of_peer = || {
            drawn
                .iter()
                .filter(|(sample, ..)| sample.configuration.peer == peer)
        };
        let (on, off): (Vec<_>, Vec<_>) = of_peer().partition(|&&(.., on_frontier)| on_frontier);
        if on.is_empty() {
            continue;
        }
        let name = peer_name(peer);
        let loads: BTreeSet<Load> = of_peer()
            .map(|(sample, ..)| sample.configuration.load)
            .collect();
        for load in loads {
            let shape = shape_of(peer, load);
            let meaning = format!("{name}, {}", load_name(load));
            legend.push((meaning, Style { shape, ..style }));
        }
        for (line, group) in [(Line::None, off), (Line::Solid, on)] {
            let points = group
                .into_iter()
                .map(|&(sample, speed, on_frontier)| Point {
                    at: (sample.ratio, speed.median),
                    spread: (speed.low, speed.high),
                    label: on_frontier.then(|| sample.configuration.recipe()),
                    tooltip: format!(
                        "{}: {}, {} {unit}",
                        sample.configuration.name(),
                        percent(sample.ratio),
                        number(speed.median)
                    ),
                    shape: Some(shape_of(peer, sample.configuration.load)),
                    faint: !on_frontier,
                });
            series.push(Series {
                name: name.to_owned(),
                style,
                line,
                points: points.collect(),
                named_at_end: false,
            });
        }
    }
    let ratios = drawn.iter().map(|(sample, ..)| sample.ratio);
    let speeds = drawn
        .iter()
        .flat_map(|(_, speed, _)| [speed.low, speed.high]);
    Some(Chart {
        x: Axis::shares("stored bytes, share of raw", ratios),
        y: Axis::fitted(unit, Unit::Plain, speeds),
        series,
        legend,
        hint: "↖ smaller and faster",
        frame,
    })
}

/// Shapes tell stores and loads apart, also where colours cannot.
fn shape_of(peer: &str, load: Load) -> usize {
    match (peer, load) {
        ("rocksdb", Load::Puts) => 1,
        ("rocksdb", Load::Sorted) => 2,
        ("rocksdb", Load::Shuffled | Load::ShuffledPuts) => 5,
        (_, Load::Sorted) => 0,
        (_, Load::Puts) => 3,
        (_, Load::Shuffled | Load::ShuffledPuts) => 4,
    }
}

/// The samples of the stores that have a speed, by store and ratio, and whether each is on its
/// store's frontier.
fn marked<'a>(
    samples: &[&'a Sample],
    speed: &impl Fn(&Sample) -> Option<Spread>,
) -> Vec<(&'a Sample, Spread, bool)> {
    let mut marked = Vec::new();
    for peer in STORES {
        let of_peer = samples
            .iter()
            .filter(|sample| sample.configuration.peer == peer);
        let mut of_peer: Vec<_> = of_peer
            .filter_map(|&sample| Some((sample, speed(sample)?)))
            .collect();
        of_peer.sort_by(|(a, a_speed), (b, b_speed)| {
            let by_ratio = a.ratio.total_cmp(&b.ratio);
            by_ratio.then(b_speed.median.total_cmp(&a_speed.median))
        });
        // From the smallest to the largest: what is not faster than all before it is beaten.
        let mut fastest = f64::NEG_INFINITY;
        for (sample, speed) in of_peer {
            marked.push((sample, speed, speed.median > fastest));
            fastest = fastest.max(speed.median);
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::scopes;
    use crate::results::group;
    use crate::results::testing::record;

    #[test]
    fn the_frontier_leaves_out_what_is_beaten_in_both() {
        let store = |codec: &str, stored_mib: u64, rate: f64| {
            let base = record().rocksdb(codec, 64).stored_bytes(stored_mib << 20);
            base.value_mib(100).seconds(100.0 / rate).build()
        };
        let runs = group([
            store("zstd-3", 200, 900.0),
            store("zstd-6", 180, 500.0),
            store("zstd-8", 190, 400.0),
            store("zstd-9", 160, 200.0),
            store("zstd-12", 160, 150.0),
        ]);
        let scopes = scopes(&runs[0]);
        let samples: Vec<&Sample> = scopes[0].samples.iter().collect();
        let on: Vec<_> = marked(&samples, &|sample: &Sample| sample.speed)
            .into_iter()
            .filter(|&(.., on_frontier)| on_frontier)
            .map(|(sample, ..)| sample.configuration.codec.as_str())
            .collect();
        assert_eq!(on, ["zstd-9", "zstd-6", "zstd-3"]);
        let figures = figures(&scopes[0]);
        assert_eq!(figures.len(), 1, "no builds, no figure of them");
        let html = figures[0].html();
        assert!(
            html.contains("zstd-12/64 KiB</td><td class=\"name\">no"),
            "{html}"
        );
    }
}
