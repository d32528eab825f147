//! Throughput and energy over ratio, in the manner of the paper's Figure 3: one series for each store
//! and codec, a point for each block size.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::{Axis, Chart, Frame, Line, Point, SHAPES, Series, Style, Unit, color_of};
use super::figure::Figure;
use super::markup::Table;
use super::sample::{Sample, Scope, Spread, by_work, speed_unit};
use crate::results::{
    Configuration, Experiment, Load, Workload, bytes, load_name, number, peer_name, percent,
};

/// Every workload of one thread (of the fewest threads, for builds) over ratio: speed, then energy
/// where there is any.
pub(crate) fn figures(scope: &Scope<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let fewest = |sample: &&Sample| {
        let same = |other: &&Sample| {
            let like = Workload {
                threads: sample.workload.threads,
                ..other.workload
            };
            other.configuration == sample.configuration && like == sample.workload
        };
        let all = scope
            .samples
            .iter()
            .filter(same)
            .map(|other| other.workload.threads);
        all.min() == Some(sample.workload.threads)
    };
    let one = |workload: Workload| match workload.experiment {
        Experiment::Build => Workload {
            threads: 1,
            ..workload
        },
        _ => workload,
    };
    for (workload, samples) in by_work(scope.samples.iter().filter(fewest), one) {
        let name = match workload.experiment {
            Experiment::Build => "build".to_owned(),
            _ => workload.name(),
        };
        let unit = speed_unit(&workload);
        let title = format!("Throughput over ratio: {name}");
        figures.extend(figures_of(&title, unit, &samples, |sample| sample.speed));
        let mut kinds: Vec<&str> = samples
            .iter()
            .filter_map(|sample| Some(sample.energy.as_ref()?.0.as_str()))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let title = format!("Energy over ratio: {name}");
            let unit = format!("MB/J ({kind})");
            figures.extend(figures_of(&title, &unit, &samples, |sample| {
                let (own, spread) = sample.energy.as_ref()?;
                (own == kind).then_some(*spread)
            }));
        }
    }
    figures
}

/// What a series holds: its store, and its codec where values share blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    peer: String,
    /// `None` for our own layouts, which are one series.
    codec: Option<String>,
}

impl Key {
    fn of(configuration: &Configuration) -> Self {
        let mut codec = configuration.codec.clone();
        if configuration.dictionary_bytes > 0 {
            codec.push_str(&format!(
                " + {} dict",
                bytes(u64::from(configuration.dictionary_bytes))
            ));
        }
        Self {
            peer: configuration.peer.clone(),
            codec: configuration.is_blocks().then_some(codec),
        }
    }
}

/// The samples of each series.
type Groups<'a> = BTreeMap<Key, Vec<(&'a Sample, Spread)>>;

/// One figure, or one for the blocks of each store where all in one would hide each other; none for a
/// single point, which is no trade.
fn figures_of(
    title: &str,
    unit: &str,
    samples: &[&Sample],
    value: impl Fn(&Sample) -> Option<Spread>,
) -> Vec<Figure> {
    let mut groups = Groups::new();
    let mut left_out: Vec<String> = Vec::new();
    let mut values = Table::new(
        2,
        ["store", "configuration", "ratio", unit, "least", "greatest"],
    );
    for &sample in samples {
        let Some(spread) = value(sample) else {
            continue;
        };
        values.row([
            peer_name(&sample.configuration.peer).to_owned(),
            sample.configuration.name_in_peer(),
            percent(sample.ratio),
            number(spread.median),
            number(spread.low),
            number(spread.high),
        ]);
        match left_out_as(&sample.configuration, samples) {
            Some(reason) => left_out.push(reason),
            None => {
                let key = Key::of(&sample.configuration);
                groups.entry(key).or_default().push((sample, spread));
            }
        }
    }
    if groups.values().map(Vec::len).sum::<usize>() < 2 {
        return Vec::new();
    }
    left_out.sort_unstable();
    left_out.dedup();
    let note = note(&groups, &left_out);
    let axes = axes(unit, &groups);
    let crowd = crowd(&groups);
    if crowd.len() < 2 {
        return vec![Figure {
            title: title.to_owned(),
            note,
            chart: chart(unit, axes, &groups),
            values,
        }];
    }
    let of_one = |peer: &String| {
        let mut groups = groups.clone();
        groups.retain(|key, _| {
            key.codec.is_none() || key.peer == *peer || !crowd.contains(&key.peer)
        });
        Figure {
            title: format!("{title}, blocks of {}", peer_name(peer)),
            note: note.clone(),
            chart: chart(unit, axes.clone(), &groups),
            values: values.clone(),
        }
    };
    crowd.iter().map(of_one).collect()
}

/// More series of blocks than this in one chart cannot be told apart.
const SERIES_MAX: usize = 8;

/// The stores whose blocks get charts of their own, if there are several: those of several series, if
/// all together are too many.
fn crowd(groups: &Groups<'_>) -> BTreeSet<String> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for key in groups.keys().filter(|key| key.codec.is_some()) {
        *counts.entry(&key.peer).or_default() += 1;
    }
    if counts.values().sum::<usize>() <= SERIES_MAX {
        return BTreeSet::new();
    }
    let several = counts.into_iter().filter(|&(_, count)| count > 2);
    several.map(|(peer, _)| peer.clone()).collect()
}

fn note(groups: &Groups<'_>, left_out: &[String]) -> String {
    let blocks: BTreeSet<u32> = groups
        .values()
        .filter(|samples| samples.len() > 1)
        .flatten()
        .map(|(sample, _)| sample.configuration.block_bytes)
        .filter(|&block_bytes| block_bytes > 0)
        .collect();
    let mut notes = Vec::new();
    if blocks.len() > 1 {
        let blocks: Vec<String> = blocks
            .into_iter()
            .map(|size| bytes(u64::from(size)))
            .collect();
        notes.push(format!(
            "Along a line blocks grow to the end that is named: {}.",
            blocks.join(", ")
        ));
    }
    if !left_out.is_empty() {
        notes.push(format!("Among the values only: {}.", left_out.join("; ")));
    }
    notes.join(" ")
}

fn axes(unit: &str, groups: &Groups<'_>) -> (Axis, Axis) {
    let points = || groups.values().flatten();
    let ratios = points().map(|(sample, _)| sample.ratio);
    let values = points().flat_map(|(_, spread)| [spread.low, spread.high]);
    (
        Axis::shares("stored bytes, share of raw", ratios),
        Axis::fitted(unit, Unit::Plain, values),
    )
}

/// Why a configuration is not in the picture: it does not compress, and would squeeze the rest into a
/// corner; or more configurations of its store were loaded in another way, and two ways in one
/// picture would hide each other.
fn left_out_as(configuration: &Configuration, samples: &[&Sample]) -> Option<String> {
    let peer = peer_name(&configuration.peer);
    if configuration.codec == "none" || configuration.peer == "memcpy" {
        return Some(format!("{peer}, uncompressed"));
    }
    let other_load = drawn_load(&configuration.peer, samples) != Some(configuration.load);
    other_load.then(|| format!("{peer}, {}", load_name(configuration.load)))
}

/// The way in which most configurations of a store were loaded; the usual one if several are even.
fn drawn_load(peer: &str, samples: &[&Sample]) -> Option<Load> {
    let mut counts: BTreeMap<Load, (usize, bool)> = BTreeMap::new();
    for sample in samples
        .iter()
        .filter(|sample| sample.configuration.peer == peer)
    {
        let usual = sample.configuration.is_default_load();
        let (count, _) = counts
            .entry(sample.configuration.load)
            .or_insert((0, usual));
        *count += 1;
    }
    counts
        .into_iter()
        .max_by_key(|&(_, rank)| rank)
        .map(|(load, _)| load)
}

fn chart(unit: &str, (x, y): (Axis, Axis), groups: &Groups<'_>) -> Chart {
    let mut series = Vec::new();
    let mut legend: Vec<(String, Style)> = Vec::new();
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    for (key, samples) in groups {
        let mut samples = samples.clone();
        // Circles are ours; a codec has the same shape in every store.
        let next = 1 + shapes.len() % (SHAPES - 1);
        let style = Style {
            color: color_of(&key.peer),
            shape: key
                .codec
                .as_ref()
                .map_or(0, |codec| *shapes.entry(codec.clone()).or_insert(next)),
        };
        let mut name = peer_name(&key.peer).to_owned();
        if let Some((sample, _)) = samples.first()
            && !sample.configuration.is_default_load()
        {
            name.push_str(&format!(", {}", load_name(sample.configuration.load)));
        }
        if !legend.iter().any(|(other, _)| *other == name) {
            legend.push((name, style));
        }
        samples.sort_by_key(|(sample, _)| sample.configuration.block_bytes);
        let last = samples.len() - 1;
        let points = samples.iter().enumerate().map(|(index, (sample, spread))| {
            let configuration = &sample.configuration;
            Point {
                at: (sample.ratio, spread.median),
                spread: (spread.low, spread.high),
                // Ends only: the texts of all points would hide the lines.
                label: match &key.codec {
                    Some(codec) if index == last && last > 0 => Some(codec.clone()),
                    Some(_) if index < last => None,
                    _ => Some(configuration.recipe()),
                },
                tooltip: format!(
                    "{}: {}, {} {unit}",
                    configuration.name(),
                    percent(sample.ratio),
                    number(spread.median)
                ),
                shape: None,
                faint: false,
            }
        });
        series.push(Series {
            name: key.codec.clone().unwrap_or_default(),
            style,
            line: if key.codec.is_some() {
                Line::Solid
            } else {
                Line::None
            },
            points: points.collect(),
            named_at_end: false,
        });
    }
    // Ours on top.
    series.sort_by_key(|series| std::cmp::Reverse(series.style.color));
    Chart {
        x,
        y,
        series,
        legend,
        hint: "",
        frame: Frame::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::scopes;
    use crate::results::testing::record;
    use crate::results::{EnergyClass, Load, group};

    #[test]
    fn a_series_for_each_codec_and_a_point_for_each_block_size() {
        let mut records = vec![
            record().layout("dense").build(),
            record().layout("fast").build(),
        ];
        for codec in ["zstd-3", "zstd-9"] {
            for block_kib in [4, 16, 64, 128] {
                records.push(record().rocksdb(codec, block_kib).build());
                records.push(
                    record()
                        .rocksdb(codec, block_kib)
                        .load(Load::Sorted)
                        .build(),
                );
            }
        }
        records.push(
            record()
                .peer("files")
                .layout("blocks")
                .codec("none")
                .build(),
        );
        let runs = group(records);
        let figures = figures(&scopes(&runs[0])[0]);
        assert_eq!(figures.len(), 1, "no energy, no figure of it");
        let chart = &figures[0].chart;
        let sizes: Vec<_> = chart
            .series
            .iter()
            .map(|series| series.points.len())
            .collect();
        assert_eq!(sizes, [4, 4, 2]);
        assert!(
            figures[0].note.contains("files, uncompressed"),
            "{}",
            figures[0].note
        );
        // As many by puts as sorted: the paper's way is drawn.
        assert!(
            figures[0].note.contains("RocksDB, sorted load"),
            "{}",
            figures[0].note
        );
        // Every value is in the table, those that are not drawn too.
        assert_eq!(
            figures[0].values.html().matches("<tr>").count(),
            1 + 2 + 16 + 1
        );
    }

    #[test]
    fn the_load_with_the_most_points_is_drawn() {
        let mut records = vec![record().rocksdb("zstd-6", 4).build()];
        for block_kib in [4, 16, 64] {
            let sorted = record().rocksdb("zstd-6", block_kib).load(Load::Sorted);
            records.push(sorted.build());
        }
        let runs = group(records);
        let figures = figures(&scopes(&runs[0])[0]);
        assert_eq!(figures[0].chart.series.len(), 1);
        assert_eq!(figures[0].chart.series[0].points.len(), 3);
        assert_eq!(figures[0].chart.legend[0].0, "RocksDB, sorted load");
        let note = &figures[0].note;
        assert!(note.contains("4 KiB, 16 KiB, 64 KiB."), "{note}");
        assert!(
            note.contains("Among the values only: RocksDB, puts."),
            "{note}"
        );
    }

    #[test]
    fn energies_of_different_classes_have_charts_of_their_own() {
        let measured = |kib: u32| {
            record()
                .blocks(kib << 10)
                .energy(EnergyClass::Measured, &[("package", 0, 1.0)])
        };
        let modelled = |kib: u32| {
            record()
                .blocks(kib << 10)
                .energy(EnergyClass::Modelled, &[("model", 0, 1.0)])
        };
        let runs = group(
            [4, 16]
                .map(measured)
                .into_iter()
                .chain([64, 128].map(modelled))
                .map(|builder| builder.build()),
        );
        let titles: Vec<_> = figures(&scopes(&runs[0])[0])
            .into_iter()
            .map(|figure| figure.chart.y.label)
            .collect();
        assert_eq!(
            titles,
            [
                "MiB/s",
                "MB/J (measured, package)",
                "MB/J (modelled, model)"
            ]
        );
    }

    #[test]
    fn a_crowd_of_series_is_parted_by_store_on_the_same_axes() {
        let mut records = vec![record().layout("dense").build()];
        for level in 1..6 {
            for block_kib in [4, 64] {
                let codec = format!("zstd-{level}");
                records.push(record().rocksdb(&codec, block_kib).build());
                records.push(record().codec(&codec).blocks(block_kib << 10).build());
            }
        }
        let runs = group(records);
        let figures = figures(&scopes(&runs[0])[0]);
        let titles: Vec<_> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles.len(), 2);
        assert!(titles[0].ends_with("blocks of ppc") && titles[1].ends_with("blocks of RocksDB"));
        // Its own five, and the clustered layout in both.
        for figure in &figures {
            assert_eq!(figure.chart.series.len(), 6);
        }
        let ticks = |index: usize| figures[index].chart.y.ticks().collect::<Vec<_>>();
        assert_eq!(ticks(0), ticks(1));
    }
}
