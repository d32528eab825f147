//! The picture for the README: how small, and how fast to read, ours and RocksDB's.

use std::collections::BTreeMap;

use ppc_store::{Error, Result};

use super::chart::{Axis, Frame};
use super::frontier::{chart, is_single_get};
use super::sample::{Sample, scopes};
use crate::results::{Run, bytes, date, number};

/// A picture that stands alone and explains itself, 800 units wide.
///
/// # Errors
///
/// Results without single gets of a store.
pub(crate) fn picture(run: &Run) -> Result<String> {
    let scopes = scopes(run);
    for scope in &scopes {
        let gets: Vec<&Sample> = scope
            .samples
            .iter()
            .filter(|sample| is_single_get(&sample.workload) && is_drawn(sample))
            .collect();
        // A store may have been measured with several caches: the smallest tells about the layout.
        let smallest = |sample: &&Sample| {
            !gets.iter().any(|other| {
                other.configuration == sample.configuration
                    && other.workload.cache_bytes < sample.workload.cache_bytes
            })
        };
        let gets: Vec<&Sample> = gets.iter().copied().filter(smallest).collect();
        let gets = fastest_load_of_each(&gets);
        let names: Vec<&str> = scope
            .corpora
            .iter()
            .map(|results| results.corpus.name.as_str())
            .collect();
        let raw: u64 = scope
            .corpora
            .iter()
            .map(|results| results.corpus.raw_bytes)
            .sum();
        let files: u64 = scope
            .corpora
            .iter()
            .map(|results| results.corpus.files)
            .sum();
        let (_, last) = run.period();
        let machine = &run.machine;
        let frame = Frame {
            width: 800.0,
            height: 450.0,
            font_size: 15.0,
            title: "Source code: how small, and how fast to read".to_owned(),
            subtitle: vec![
                format!(
                    "{} of source code ({}), {} distinct files. A dot is one configuration.",
                    bytes(raw),
                    names.join(", "),
                    number(files as f64)
                ),
                "Random files, one at a time, one thread, warm. A line joins what no other dot of \
                 its store beats."
                    .to_owned(),
            ],
            footer: vec![
                format!(
                    "{} · {}, {} processors, {} of memory",
                    date(last),
                    machine.cpu,
                    machine.cpus,
                    bytes(machine.memory_bytes),
                ),
                format!(
                    "Linux {} · ppc-bench report, commit {}",
                    machine.kernel, machine.commit
                ),
                if has_both(&gets) {
                    "Both stores in the same run, medians, each as loaded for its fastest reads"
                } else {
                    "Medians; the other store was not measured in this run"
                }
                .to_owned(),
            ],
            standalone: true,
        };
        if let Some(mut chart) = chart(&gets, "MiB/s", frame, &|sample: &Sample| sample.speed) {
            chart.y.label = "MiB of files read a second".to_owned();
            // From nothing, so that half as far to the right is half the bytes.
            let ratios = gets.iter().map(|sample| sample.ratio).chain([0.0]);
            chart.x = Axis::shares("stored bytes, share of the raw bytes", ratios);
            for (name, _) in &mut chart.legend {
                if name.starts_with("RocksDB") {
                    name.push_str(", set as in the paper");
                }
            }
            return Ok(chart.svg());
        }
    }
    Err(Error::invalid_input(
        "no single gets of ppc or RocksDB in the results, so no picture of them",
    )
    .with_remedy("measure them with `ppc-bench paper`, or leave out --picture"))
}

/// Of the ways in which a configuration was loaded, the one that reads fastest: of ours and of
/// RocksDB's, so that neither is flattered.
fn fastest_load_of_each<'a>(gets: &[&'a Sample]) -> Vec<&'a Sample> {
    let mut fastest: BTreeMap<(&str, String), &Sample> = BTreeMap::new();
    let speed = |sample: &Sample| sample.speed.map_or(0.0, |speed| speed.median);
    for &sample in gets {
        let key = (
            sample.configuration.peer.as_str(),
            sample.configuration.recipe(),
        );
        let best = fastest.entry(key).or_insert(sample);
        if speed(sample) > speed(best) {
            *best = sample;
        }
    }
    fastest.into_values().collect()
}

/// Other peers have no place in the picture, and must not stretch its axes.
fn is_drawn(sample: &Sample) -> bool {
    ["ppc", "rocksdb"].contains(&sample.configuration.peer.as_str())
}

/// Whether both stores have a point.
fn has_both(gets: &[&Sample]) -> bool {
    let has = |peer: &str| gets.iter().any(|sample| sample.configuration.peer == peer);
    has("ppc") && has("rocksdb")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::record;
    use crate::results::{Load, group};

    #[test]
    fn the_picture_names_date_machine_and_commit() {
        let runs = group([record().build(), record().rocksdb("zstd-6", 4).build()]);
        let svg = picture(&runs[0]).unwrap();
        for text in [
            "2026-12-01",
            "Imaginary 2000",
            "0123abc",
            "balanced zstd-3",
            "zstd-6/4 KiB",
            ">0 %<",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(svg.starts_with("<svg xmlns") && svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn a_picture_of_one_store_says_that_the_other_is_missing() {
        let both = group([record().build(), record().rocksdb("zstd-6", 4).build()]);
        assert!(
            picture(&both[0])
                .unwrap()
                .contains("Both stores in the same run")
        );
        let one = group([record().build()]);
        assert!(
            picture(&one[0])
                .unwrap()
                .contains("the other store was not measured")
        );
    }

    /// RocksDB reads faster after a sorted load: a picture of puts alone would flatter us.
    #[test]
    fn a_configuration_is_shown_as_loaded_for_its_fastest_reads() {
        let puts = || record().rocksdb("zstd-6", 4).seconds(2.0);
        let sorted = puts().load(Load::Sorted).seconds(1.0);
        let runs = group([record().build(), puts().build(), sorted.build()]);
        let svg = picture(&runs[0]).unwrap();
        assert!(svg.contains("RocksDB, sorted load") && !svg.contains("RocksDB, puts"));
    }

    /// Plain files take more than their raw bytes: an axis to 120 % left the dots no room.
    #[test]
    fn a_peer_that_is_not_drawn_does_not_stretch_the_axis() {
        let both = || [record().build(), record().rocksdb("zstd-6", 4).build()];
        let files = record().peer("files").stored_bytes(1 << 40).build();
        let with_files = both().into_iter().chain([files]);
        assert_eq!(
            picture(&group(with_files)[0]).unwrap(),
            picture(&group(both())[0]).unwrap()
        );
    }

    #[test]
    fn without_gets_there_is_no_picture() {
        let runs = group([record().builds().build()]);
        let error = picture(&runs[0]).unwrap_err().to_string();
        assert!(error.contains("--picture"), "{error}");
    }
}
