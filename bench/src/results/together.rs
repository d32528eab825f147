//! Several corpora as if they were one.

use super::{CorpusResults, Measurement, Run, Summary};

/// The corpora to take together: of each name the largest, since smaller ones of that name are parts
/// of it.
pub fn largest_of_each(run: &Run) -> Vec<&CorpusResults> {
    let mut largest: Vec<&CorpusResults> = Vec::new();
    for results in &run.corpora {
        let same_name = |other: &&mut &CorpusResults| other.corpus.name == results.corpus.name;
        match largest.iter_mut().find(same_name) {
            Some(other) if other.corpus.raw_bytes < results.corpus.raw_bytes => *other = results,
            Some(_) => {}
            None => largest.push(results),
        }
    }
    largest
}

/// Bytes stored for all corpora, where `pick` finds a measurement in each.
pub fn stored_over_all<'a>(
    corpora: &[&'a CorpusResults],
    pick: impl Fn(&'a CorpusResults) -> Option<&'a Measurement>,
) -> Option<f64> {
    let mut total = None;
    for results in corpora {
        total = Some(total.unwrap_or(0.0) + pick(results)?.stored_bytes()?.median);
    }
    total
}

/// The rate at which all corpora would pass if each passed once at its own median rate: the time adds
/// up, not the rates.
pub fn rate_over_all<'a>(
    corpora: &[&'a CorpusResults],
    pick: impl Fn(&'a CorpusResults) -> Option<&'a Measurement>,
    rate: impl Fn(&Measurement) -> Option<Summary>,
) -> Option<f64> {
    let (mut amount, mut time) = (0.0, 0.0);
    for results in corpora {
        let raw = results.corpus.raw_bytes as f64;
        amount += raw;
        time += raw / rate(pick(results)?)?.median;
    }
    (time > 0.0).then(|| amount / time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::group;
    use crate::results::testing::record;

    fn first(results: &CorpusResults) -> Option<&Measurement> {
        results.cells.values().next()
    }

    #[test]
    fn times_add_up_and_parts_of_a_corpus_do_not_count_twice() {
        let mib = 1 << 20;
        let run = &group([
            record()
                .corpus("python", 50)
                .value_mib(10)
                .seconds(9.0)
                .build(),
            record()
                .corpus("python", 100)
                .stored_bytes(10 * mib)
                .value_mib(100)
                .seconds(1.0)
                .build(),
            record()
                .corpus("java", 100)
                .stored_bytes(20 * mib)
                .value_mib(100)
                .seconds(4.0)
                .build(),
        ])[0];
        let corpora = largest_of_each(run);
        assert_eq!(corpora.len(), 2);
        assert_eq!(stored_over_all(&corpora, first), Some(30.0 * mib as f64));
        // 200 MiB in 1 + 4 seconds, not (100 + 25) / 2.
        let rate = rate_over_all(&corpora, first, Measurement::mib_per_second);
        assert_eq!(rate, Some(40.0));
    }

    #[test]
    fn one_corpus_without_the_cell_leaves_no_total() {
        let run = &group([
            record().corpus("python", 100).build(),
            record().corpus("java", 100).codec("zstd-9").build(),
        ])[0];
        let corpora = largest_of_each(run);
        fn level_9(results: &CorpusResults) -> Option<&Measurement> {
            results
                .cells
                .values()
                .find(|cell| cell.cell.codec == "zstd-9")
        }
        assert_eq!(stored_over_all(&corpora, level_9), None);
        assert_eq!(
            rate_over_all(&corpora, level_9, Measurement::mib_per_second),
            None
        );
        assert_eq!(stored_over_all(&[], level_9), None);
    }
}
