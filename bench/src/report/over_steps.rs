//! Throughput and energy over threads, and over the size of the corpus: one line for each
//! configuration.

use std::collections::BTreeMap;

use super::chart::{Axis, Chart, Frame, Line, Point, Series, Style, Unit, color_of};
use super::figure::Figure;
use super::markup::Table;
use super::sample::{Sample, Scope, Spread, by_work, speed_unit};
use crate::results::{Configuration, Experiment, Workload, bytes, number};

/// Every workload that was measured with several numbers of threads.
pub(crate) fn over_threads(scope: &Scope<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let any_threads = |workload| Workload {
        threads: 0,
        ..workload
    };
    for (workload, samples) in by_work(&scope.samples, any_threads) {
        let name = Workload {
            threads: 1,
            ..workload
        }
        .name()
        .replace(", 1 thread", "");
        let steps: Vec<_> = samples
            .into_iter()
            .map(|sample| (f64::from(sample.workload.threads), sample))
            .collect();
        let axis = ("threads", Unit::Plain);
        figures.extend(speed_and_energy(
            &format!("over threads: {name}"),
            axis,
            &steps,
        ));
    }
    figures
}

/// Builds and single gets on corpora of one name and several sizes.
pub(crate) fn over_size(scopes: &[Scope<'_>]) -> Vec<Figure> {
    let mut steps: BTreeMap<(&str, Workload), Vec<(f64, &Sample)>> = BTreeMap::new();
    for scope in scopes {
        let [results] = scope.corpora.as_slice() else {
            continue;
        };
        for (workload, samples) in by_work(&scope.samples, |workload| workload) {
            let all = steps.entry((&results.corpus.name, workload)).or_default();
            let size = results.corpus.raw_bytes as f64;
            all.extend(samples.into_iter().map(|sample| (size, sample)));
        }
    }
    let mut figures = Vec::new();
    for ((corpus, workload), steps) in steps {
        let title = format!("as {corpus} grows: {}", workload.name());
        let axis = ("raw bytes of the corpus", Unit::Bytes);
        figures.extend(speed_and_energy(&title, axis, &steps));
        if workload.experiment == Experiment::Build {
            let title = format!("Ratio {title}");
            let ratio = |sample: &Sample| {
                let ratio = sample.ratio * 100.0;
                Some(Spread {
                    low: ratio,
                    median: ratio,
                    high: ratio,
                })
            };
            figures.extend(figure(
                &title,
                axis,
                "stored bytes, % of raw",
                &steps,
                ratio,
            ));
        }
    }
    figures
}

fn speed_and_energy(title: &str, axis: (&str, Unit), steps: &[(f64, &Sample)]) -> Vec<Figure> {
    let Some((_, first)) = steps.first() else {
        return Vec::new();
    };
    let unit = speed_unit(&first.workload);
    let mut figures = Vec::new();
    let throughput = format!("Throughput {title}");
    figures.extend(figure(&throughput, axis, unit, steps, |sample| {
        sample.speed
    }));
    let mut kinds: Vec<&str> = steps
        .iter()
        .filter_map(|(_, sample)| Some(sample.energy.as_ref()?.0.as_str()))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let unit = format!("MB/J ({kind})");
        figures.extend(figure(
            &format!("Energy {title}"),
            axis,
            &unit,
            steps,
            |sample| {
                let (own, spread) = sample.energy.as_ref()?;
                (own == kind).then_some(*spread)
            },
        ));
    }
    figures
}

/// `None` if no configuration has a value at two steps.
fn figure(
    title: &str,
    (axis, axis_unit): (&str, Unit),
    unit: &str,
    steps: &[(f64, &Sample)],
    value: impl Fn(&Sample) -> Option<Spread>,
) -> Option<Figure> {
    let mut lines: BTreeMap<&Configuration, Vec<(f64, Spread)>> = BTreeMap::new();
    for (step, sample) in steps {
        if let Some(spread) = value(sample) {
            lines
                .entry(&sample.configuration)
                .or_default()
                .push((*step, spread));
        }
    }
    lines.retain(|_, points| points.len() > 1);
    if lines.is_empty() {
        return None;
    }
    let step_text = |step: f64| match axis_unit {
        Unit::Bytes => bytes(step as u64),
        _ => number(step),
    };
    let mut values = Table::new(
        1,
        ["configuration", axis, unit, "least", "greatest", "gain"],
    );
    let mut series = Vec::new();
    let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
    let points = || lines.values().flatten();
    let x = Axis::of_steps(axis, axis_unit, points().map(|&(step, _)| step));
    let y = Axis::fitted(
        unit,
        Unit::Plain,
        points().flat_map(|(_, spread)| [spread.low, spread.high]),
    );
    for (configuration, mut points) in lines.clone() {
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let first = points.first().map_or(f64::NAN, |(_, spread)| spread.median);
        for (step, spread) in &points {
            values.row([
                configuration.name(),
                step_text(*step),
                number(spread.median),
                number(spread.low),
                number(spread.high),
                format!("{} ×", number(spread.median / first)),
            ]);
        }
        let shape = shapes.entry(&configuration.peer).or_default();
        series.push(Series {
            name: configuration.name(),
            style: Style {
                color: color_of(&configuration.peer),
                shape: *shape,
            },
            line: Line::Solid,
            points: points
                .into_iter()
                .map(|(step, spread)| Point {
                    at: (step, spread.median),
                    spread: (spread.low, spread.high),
                    label: None,
                    tooltip: format!(
                        "{}: {} {unit} at {} {axis}",
                        configuration.name(),
                        number(spread.median),
                        step_text(step)
                    ),
                    shape: None,
                    faint: false,
                })
                .collect(),
            named_at_end: true,
        });
        *shape += 1;
    }
    Some(Figure {
        title: title.to_owned(),
        note: String::new(),
        chart: Chart {
            x,
            y,
            series,
            legend: Vec::new(),
            hint: "",
            frame: Frame::default(),
        },
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::scopes;
    use crate::results::group;
    use crate::results::testing::record;

    #[test]
    fn threads_need_two_points_to_make_a_line() {
        let runs = group([
            record().build(),
            record().threads(2).build(),
            record().threads(4).build(),
            record().rocksdb("zstd-6", 4).build(),
        ]);
        let figures = over_threads(&scopes(&runs[0])[0]);
        assert_eq!(figures.len(), 1);
        assert_eq!(
            figures[0].title,
            "Throughput over threads: single gets, uniform, warm"
        );
        assert_eq!(figures[0].chart.series.len(), 1);
        assert_eq!(figures[0].chart.series[0].points.len(), 3);
    }

    #[test]
    fn growth_is_drawn_for_corpora_of_one_name() {
        let runs = group([
            record().builds().corpus("python", 256).build(),
            record().builds().corpus("python", 1024).build(),
            record().builds().corpus("java", 1024).build(),
        ]);
        let figures = over_size(&scopes(&runs[0]));
        let titles: Vec<_> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "Throughput as python grows: build, 1 thread",
                "Ratio as python grows: build, 1 thread"
            ]
        );
    }
}
