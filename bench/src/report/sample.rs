//! What charts draw: one value for each configuration and workload, of a corpus or of all together.

use std::collections::{BTreeMap, BTreeSet};

use crate::results::{
    Configuration, CorpusResults, EnergyReading, Experiment, Measurement, Run, Summary, Workload,
    bytes, largest_of_each, number, rate_over_all, stored_over_all,
};

/// A median between the least and the greatest of its repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// A configuration at work.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// How the store was made.
    pub(crate) configuration: Configuration,
    /// What it did.
    pub(crate) workload: Workload,
    /// Stored bytes for each raw byte.
    pub(crate) ratio: f64,
    /// MiB/s; lookups a second for misses.
    pub(crate) speed: Option<Spread>,
    /// MiB per second of processor time.
    pub(crate) cpu_speed: Option<Spread>,
    /// Class and domain, and MB per joule.
    pub(crate) energy: Option<(String, Spread)>,
}

/// A corpus, or all of a run together.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    /// What is in it, for headlines: `python`.
    pub(crate) name: String,
    /// Size and files.
    pub(crate) extent: String,
    /// The corpora.
    pub(crate) corpora: Vec<&'a CorpusResults>,
    /// What was measured on each of them.
    pub(crate) samples: Vec<Sample>,
}

/// The unit of [`Sample::speed`].
pub(crate) fn speed_unit(workload: &Workload) -> &'static str {
    match workload.experiment {
        Experiment::Miss => "lookups/s",
        _ => "MiB/s",
    }
}

/// All corpora together, if there are several, then each.
pub(crate) fn scopes(run: &Run) -> Vec<Scope<'_>> {
    let mut scopes = Vec::new();
    let together = largest_of_each(run);
    if together.len() > 1 {
        let names: Vec<&str> = together
            .iter()
            .map(|results| results.corpus.name.as_str())
            .collect();
        scopes.push(Scope::new(
            format!("All together: {}", names.join(", ")),
            together,
        ));
    }
    for results in &run.corpora {
        let same_name = |other: &&CorpusResults| other.corpus.name == results.corpus.name;
        let name = if run.corpora.iter().filter(same_name).count() > 1 {
            format!(
                "{} ({})",
                results.corpus.name,
                bytes(results.corpus.raw_bytes)
            )
        } else {
            results.corpus.name.clone()
        };
        scopes.push(Scope::new(name, vec![results]));
    }
    scopes
}

impl<'a> Scope<'a> {
    fn new(name: String, corpora: Vec<&'a CorpusResults>) -> Self {
        let raw: u64 = corpora.iter().map(|results| results.corpus.raw_bytes).sum();
        let files: u64 = corpora.iter().map(|results| results.corpus.files).sum();
        let first = corpora.first().map(|results| &results.cells);
        let samples = first
            .into_iter()
            .flat_map(|cells| cells.values())
            .filter_map(|measurement| sample(&corpora, measurement, raw as f64))
            .collect();
        Self {
            name,
            extent: format!("{}, {} files", bytes(raw), number(files as f64)),
            corpora,
            samples,
        }
    }
}

/// The sample of a cell, if it was measured on all of `corpora`.
fn sample(corpora: &[&CorpusResults], first: &Measurement, raw_bytes: f64) -> Option<Sample> {
    Some(Sample {
        configuration: Configuration::of(&first.cell),
        workload: Workload::of(&first.cell),
        ratio: stored_over_all(corpora, |results| results.cells.get(&first.cell))? / raw_bytes,
        speed: rate(corpora, first, |measurement| {
            match measurement.cell.experiment {
                Experiment::Miss => measurement.operations_per_second(),
                _ => measurement.mib_per_second(),
            }
        }),
        cpu_speed: rate(corpora, first, Measurement::mib_per_cpu_second),
        energy: energy(corpora, first),
    })
}

/// Of one corpus with its spread; of several only the sum of the medians' times.
fn rate(
    corpora: &[&CorpusResults],
    first: &Measurement,
    rate: impl Fn(&Measurement) -> Option<Summary>,
) -> Option<Spread> {
    if corpora.len() == 1 {
        let summary = rate(first)?;
        return Some(Spread {
            low: summary.min,
            median: summary.median,
            high: summary.max,
        });
    }
    let median = rate_over_all(corpora, |results| results.cells.get(&first.cell), rate)?;
    Some(Spread {
        low: median,
        median,
        high: median,
    })
}

fn energy(corpora: &[&CorpusResults], first: &Measurement) -> Option<(String, Spread)> {
    let kind = first.energy().ok()?.kind();
    let mb_per_joule = |measurement: &Measurement| {
        let reading: EnergyReading = measurement.energy().ok()?;
        // Joules of different classes or domains do not add up.
        (reading.kind() == kind).then(|| Summary::of(reading.mb_per_joule))?
    };
    let spread = rate(corpora, first, mb_per_joule)?;
    Some((kind, spread))
}

/// Samples that did the same work, to be drawn in one chart, with its name. The number of threads and
/// the cache are set by `normal`.
pub(crate) fn by_work<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    normal: impl Fn(Workload) -> Workload,
) -> Vec<(Workload, Vec<&'a Sample>)> {
    let mut groups: BTreeMap<Workload, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let work = normal(Workload {
            cache_bytes: 0,
            ..sample.workload
        });
        groups.entry(work).or_default().push(sample);
    }
    groups
        .into_iter()
        .flat_map(|(work, samples)| by_cache(work, &samples))
        .collect()
}

/// One group if no configuration was measured with several caches, else one for each cache. What was
/// measured without any is in all of them.
fn by_cache<'a>(work: Workload, samples: &[&'a Sample]) -> Vec<(Workload, Vec<&'a Sample>)> {
    let mut caches: BTreeMap<(&Configuration, u32), BTreeSet<u64>> = BTreeMap::new();
    for sample in samples {
        let key = (&sample.configuration, sample.workload.threads);
        caches
            .entry(key)
            .or_default()
            .insert(sample.workload.cache_bytes);
    }
    let all: BTreeSet<u64> = caches.values().flatten().copied().collect();
    if caches.values().all(|caches| caches.len() == 1) {
        // Named only if it is the same for all.
        let cache_bytes = if all.len() == 1 {
            all.first().copied().unwrap_or(0)
        } else {
            0
        };
        return vec![(
            Workload {
                cache_bytes,
                ..work
            },
            samples.to_vec(),
        )];
    }
    let without = |own: &BTreeSet<u64>| own.len() == 1 && own.contains(&0);
    let sizes: BTreeSet<u64> = caches
        .values()
        .filter(|own| !without(own))
        .flatten()
        .copied()
        .collect();
    sizes
        .into_iter()
        .map(|cache_bytes| {
            let fits = |sample: &&&Sample| {
                let own = caches.get(&(&sample.configuration, sample.workload.threads));
                sample.workload.cache_bytes == cache_bytes || own.is_some_and(without)
            };
            let work = Workload {
                cache_bytes,
                ..work
            };
            (work, samples.iter().filter(fits).copied().collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::group;
    use crate::results::testing::record;

    #[test]
    fn all_together_holds_what_every_corpus_has() {
        let mib = 1 << 20;
        let both = |name| {
            record()
                .corpus(name, 100)
                .value_mib(100)
                .stored_bytes(10 * mib)
        };
        let runs = group([
            both("python").seconds(1.0).build(),
            both("java").seconds(3.0).build(),
            both("python").codec("zstd-9").build(),
        ]);
        let scopes = scopes(&runs[0]);
        assert_eq!(scopes.len(), 3);
        assert_eq!(scopes[0].name, "All together: python, java");
        assert_eq!(scopes[0].samples.len(), 1);
        assert_eq!(scopes[0].samples[0].ratio, 0.1);
        assert_eq!(scopes[0].samples[0].speed.unwrap().median, 50.0);
        assert_eq!(scopes[1].samples.len(), 2);
    }

    #[test]
    fn caches_part_charts_only_where_a_store_has_several() {
        let runs = group([
            record().build(),
            record().rocksdb("zstd-6", 4).cache(64).build(),
            record().peer("raw-zstd").build(),
        ]);
        let samples = &scopes(&runs[0])[0].samples;
        assert_eq!(by_work(samples, |work| work).len(), 1);

        let runs = group([
            record().cache(64).build(),
            record().cache(128).build(),
            record().rocksdb("zstd-6", 4).cache(64).build(),
            record().peer("raw-zstd").build(),
        ]);
        let samples = &scopes(&runs[0])[0].samples;
        let charts = by_work(samples, |work| work);
        let sizes: Vec<_> = charts
            .iter()
            .map(|(work, all)| (work.cache_bytes, all.len()))
            .collect();
        assert_eq!(sizes, [(64, 3), (128, 2)]);
    }
}
