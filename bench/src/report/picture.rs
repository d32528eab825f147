//! The picture for the README: how small, and how fast to read, ours and RocksDB's.

use ppc_store::{Error, Result};

use super::chart::Frame;
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
            .filter(|sample| {
                is_single_get(&sample.workload) && sample.configuration.is_default_load()
            })
            .collect();
        // A store may have been measured with several caches: the smallest tells about the layout.
        let smallest = |sample: &&Sample| {
            !gets.iter().any(|other| {
                other.configuration == sample.configuration
                    && other.workload.cache_bytes < sample.workload.cache_bytes
            })
        };
        let gets: Vec<&Sample> = gets.iter().copied().filter(smallest).collect();
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
                    "{} · {}, {} processors, {} of memory · Linux {}",
                    date(last),
                    machine.cpu,
                    machine.cpus,
                    bytes(machine.memory_bytes),
                    machine.kernel
                ),
                format!(
                    "{} · ppc-bench report, commit {}",
                    if has_both(&gets) {
                        "Both stores measured in the same run, medians"
                    } else {
                        "Medians; the other store was not measured in this run"
                    },
                    machine.commit
                ),
            ],
            standalone: true,
        };
        if let Some(mut chart) = chart(&gets, "MiB/s", frame, &|sample: &Sample| sample.speed) {
            chart.y.label = "MiB of files read a second".to_owned();
            chart.x.label = "stored bytes, share of the raw bytes".to_owned();
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

/// Whether both stores have a point.
fn has_both(gets: &[&Sample]) -> bool {
    let has = |peer: &str| gets.iter().any(|sample| sample.configuration.peer == peer);
    has("ppc") && has("rocksdb")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::group;
    use crate::results::testing::record;

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
                .contains("Both stores measured in the same run")
        );
        let one = group([record().build()]);
        assert!(
            picture(&one[0])
                .unwrap()
                .contains("the other store was not measured")
        );
    }

    #[test]
    fn without_gets_there_is_no_picture() {
        let runs = group([record().builds().build()]);
        let error = picture(&runs[0]).unwrap_err().to_string();
        assert!(error.contains("--picture"), "{error}");
    }
}
