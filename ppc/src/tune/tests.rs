use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ppc_engine::{Durability, Layout, TableOptions};
use proptest::prelude::*;

use super::choice::{Choice, Limit, Limits, Objective, choose, pareto};
use super::figures::{Figures, median};
use super::source_sample::{Opener, sample_inputs};
use super::*;
use crate::archive::{Archive, ArchiveOptions};
use crate::key::PpcKey;
use crate::progress::Unobserved;
use crate::source::{self, Origin, Place, Source, SourceFile, SourceItem};

const MIB: f64 = 1_048_576.0;

/// Ratio in percent, building and gets in MiB a second.
fn figures(ratio: f64, build: f64, get: f64) -> Figures {
    Figures::new(ratio / 100.0, build * MIB, get * MIB)
}

/// What the paper's trade looks like: zstd-3/64, 6/4, 6/128, 9/128, and one that is worse than the
/// third in everything.
fn paper() -> Vec<Figures> {
    vec![
        figures(19.65, 165.0, 249.0),
        figures(20.67, 62.0, 571.0),
        figures(15.94, 71.0, 253.0),
        figures(15.46, 47.0, 219.0),
        figures(16.5, 70.0, 250.0),
    ]
}

fn found(choice: &Choice) -> Option<usize> {
    match choice {
        Choice::Found { index, .. } => Some(*index),
        Choice::NoneMeets { .. } => None,
    }
}

#[test]
fn the_pareto_set_leaves_out_what_another_beats_in_everything() {
    assert_eq!(pareto(&paper()), [true, true, true, true, false]);
    // Equals do not beat each other.
    assert_eq!(pareto(&[figures(20.0, 1.0, 1.0); 2]), [true, true]);
    assert!(pareto(&[]).is_empty());
}

#[test]
fn each_objective_takes_what_it_says() {
    let choice = |objective| found(&choose(&paper(), objective, &Limits::default(), 1.0));
    assert_eq!(choice(Objective::Smallest), Some(3));
    assert_eq!(choice(Objective::FastestGet), Some(1));
    assert_eq!(choice(Objective::FastestBuild), Some(0));
    // 1/165 + 1/249 seconds for a MiB; when each byte is read often, gets decide.
    assert_eq!(choice(Objective::Cheapest), Some(0));
    let read_often = choose(&paper(), Objective::Cheapest, &Limits::default(), 100.0);
    assert_eq!(found(&read_often), Some(1));
    // The extremes pay for their place with all of another measure.
    assert_eq!(choice(Objective::Balanced), Some(2));
}

#[test]
fn limits_come_before_the_objective() {
    let limits = Limits {
        get_min: Some(240.0 * MIB),
        ..Limits::default()
    };
    let choice = choose(&paper(), Objective::Smallest, &limits, 1.0);
    let (index, admitted) = (2, 4);
    assert_eq!(choice, Choice::Found { index, admitted });
    let limits = Limits {
        ratio_max: Some(0.18),
        build_min: Some(70.5 * MIB),
        get_min: None,
    };
    let choice = choose(&paper(), Objective::FastestGet, &limits, 1.0);
    let (index, admitted) = (2, 1);
    assert_eq!(choice, Choice::Found { index, admitted });
}

#[test]
fn where_none_keeps_the_limits_the_closest_are_told_with_what_they_miss() {
    let limits = Limits {
        ratio_max: Some(0.16),
        get_min: Some(300.0 * MIB),
        build_min: None,
    };
    let Choice::NoneMeets { closest } = choose(&paper(), Objective::Balanced, &limits, 1.0) else {
        panic!("nothing keeps both");
    };
    assert_eq!(closest.len(), 3);
    // It keeps the ratio, and its gets are 47 MiB/s too slow.
    assert_eq!(closest[0].index, 2);
    let [miss] = &closest[0].misses[..] else {
        panic!("one limit: {closest:?}");
    };
    assert_eq!(miss.limit, Limit::GetMin);
    assert!((miss.share() - 47.0 / 300.0).abs() < 1e-9);
    // Too slow and too large: by the worse of the two.
    assert_eq!(closest[1].index, 4);
    assert_eq!(closest[1].misses.len(), 2);
    let nothing = choose(&[], Objective::Balanced, &limits, 1.0);
    assert_eq!(nothing, Choice::NoneMeets { closest: vec![] });
}

#[test]
fn of_speeds_that_cannot_be_told_apart_the_smaller_is_taken() {
    let nearly = [figures(30.0, 100.0, 500.0), figures(20.0, 50.0, 490.0)];
    let choice = choose(&nearly, Objective::FastestGet, &Limits::default(), 1.0);
    assert_eq!(found(&choice), Some(1));
    // Bytes are exact: there the least wins, however little less it is.
    let nearly = [figures(20.0, 100.0, 500.0), figures(19.99, 50.0, 400.0)];
    let choice = choose(&nearly, Objective::Smallest, &Limits::default(), 1.0);
    assert_eq!(found(&choice), Some(1));
}

#[test]
fn a_median_is_the_middle_or_between_the_middle_two() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    assert_eq!(median(std::iter::empty()), 0.0);
}

proptest! {
    #[test]
    fn whatever_is_chosen_is_admitted_and_for_exact_goals_in_the_pareto_set(
        points in prop::collection::vec((1..100_u32, 1..100_u32, 1..100_u32), 1..20),
        ratio_max in prop::option::of(0.0..1.0),
        get_min in prop::option::of(0.0..100.0),
    ) {
        let all: Vec<Figures> = points
            .iter()
            .map(|&(ratio, build, get)| figures(ratio.into(), build.into(), get.into()))
            .collect();
        let limits = Limits { ratio_max, get_min: get_min.map(|it: f64| it * MIB), build_min: None };
        for objective in Objective::ALL {
            match choose(&all, objective, &limits, 1.0) {
                Choice::Found { index, .. } => {
                    prop_assert!(limits.misses(&all[index]).is_empty());
                    if objective == Objective::Smallest {
                        let smaller = |it: &Figures| {
                            it.ratio < all[index].ratio && limits.misses(it).is_empty()
                        };
                        prop_assert!(!all.iter().any(smaller));
                    }
                    if objective == Objective::Balanced && limits.is_none() {
                        prop_assert!(pareto(&all)[index]);
                    }
                }
                Choice::NoneMeets { closest } => {
                    prop_assert!(all.iter().all(|it| !limits.misses(it).is_empty()));
                    prop_assert!(closest.iter().all(|near| !near.misses.is_empty()));
                }
            }
        }
    }
}

/// A source of given files, which counts how often it was read.
struct ListSource {
    files: Arc<Vec<(String, Vec<u8>)>>,
    reads: Arc<AtomicU64>,
    progress: source::Progress,
}

impl Source for ListSource {
    fn label(&self) -> &str {
        "list"
    }

    fn progress(&self) -> &source::Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        for (row, (path, content)) in self.files.iter().enumerate() {
            let origin = Origin {
                source: Arc::from("list"),
                place: Place::Row(row as u64),
            };
            let path = Bytes::copy_from_slice(path.as_bytes());
            let content = Bytes::copy_from_slice(content);
            each(SourceItem::File(SourceFile::from_path(
                path, content, origin,
            )))?;
        }
        Ok(())
    }
}

/// Versions of files: `names` names, `versions` of each, that differ in one line. In an order in
/// which neighbours by key lie far apart.
fn history(names: usize, versions: usize) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for version in 0..versions {
        for name in 0..names {
            let mut text = format!("# version {version} of module {name}\n").into_bytes();
            let mut state = name as u64 + 1;
            for _ in 0..60 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(99);
                text.extend(format!("value_{state:x} = {}\n", state % 977).bytes());
            }
            let name = name * 7919 % names;
            files.push((format!("v{version}/module{name:03}.py"), text));
        }
    }
    files
}

fn sample_of(
    files: &[(String, Vec<u8>)],
    options: &SampleOptions,
    observer: &dyn Observer,
) -> (Result<Sample>, u64) {
    let files = Arc::new(files.to_vec());
    let reads = Arc::new(AtomicU64::new(0));
    let open = || -> Result<Box<dyn Source>> {
        Ok(Box::new(ListSource {
            files: Arc::clone(&files),
            reads: Arc::clone(&reads),
            progress: source::Progress::new(),
        }))
    };
    let sample = sample_inputs(&[&open as Opener<'_>], options, observer);
    (sample, reads.load(Ordering::Relaxed))
}

fn small_sample() -> SampleOptions {
    SampleOptions {
        sample_bytes: 240_000,
        run_bytes: 60_000,
        time: Duration::from_secs(600),
    }
}

/// All files in key order, as an import would store them.
fn in_key_order(files: &[(String, Vec<u8>)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let key = |path: &str, content: &[u8]| {
        let name = path.rsplit('/').next().unwrap().to_owned();
        PpcKey::of(name, content).unwrap().encode()
    };
    let files = files.iter();
    files
        .map(|(path, content)| (key(path, content), content.clone()))
        .collect()
}

/// How many stretches without a gap `entries` make of `all`; each must be a part of it.
fn stretches(all: &BTreeMap<Vec<u8>, Vec<u8>>, entries: &[(Bytes, Bytes)]) -> usize {
    let order: Vec<&[u8]> = all.keys().map(|key| &key[..]).collect();
    let mut stretches = 0;
    let mut last = None;
    for (key, content) in entries {
        assert_eq!(all[&key[..]], content[..]);
        let place = order.binary_search(&&key[..]).unwrap();
        assert!(last < Some(place), "in key order, and each once");
        stretches += usize::from(last.is_none_or(|last| last + 1 != place));
        last = Some(place);
    }
    stretches
}

#[test]
fn a_sample_of_sources_is_made_of_runs_of_neighbours() {
    // 1,000 files of about 1.7 KB: seven times the sample.
    let files = history(100, 10);
    let (sample, reads) = sample_of(&files, &small_sample(), &Unobserved);
    let sample = sample.unwrap();
    assert_eq!(reads, 2);
    assert!((120_000..=240_000).contains(&sample.content_bytes()));
    assert_eq!(sample.runs(), 4);
    let all = in_key_order(&files);
    assert!((1..=4).contains(&stretches(&all, sample.entries())));
    // From all over the sources: files lie in every half of the key space.
    let places: Vec<usize> = sample
        .entries()
        .iter()
        .map(|(key, _)| all.range(..key.to_vec()).count())
        .collect();
    assert!(places.first().unwrap() < &500 && places.last().unwrap() > &500);
    let coverage = sample.coverage().unwrap();
    assert_eq!((coverage.files, coverage.is_cut_short), (1000, false));
}

#[test]
fn sources_that_fit_are_read_once_and_taken_whole() {
    let mut files = history(20, 4);
    files.push(("copies/other.txt".to_owned(), files[0].1.clone()));
    files.push(("again/module000.py".to_owned(), files[0].1.clone()));
    let (sample, reads) = sample_of(&files, &small_sample(), &Unobserved);
    let sample = sample.unwrap();
    assert_eq!((reads, sample.runs()), (1, 1));
    // A content that comes again is there once.
    assert_eq!(sample.entries().len(), 80);
}

#[test]
fn a_sample_bounds_memory_and_leaves_long_files_out() {
    let mut files = history(100, 10);
    files.extend((0..20).map(|at| (format!("{at}.py"), vec![at as u8; 70_000])));
    let (sample, _) = sample_of(&files, &small_sample(), &Unobserved);
    let sample = sample.unwrap();
    assert!(sample.content_bytes() <= 240_000);
    let longest = sample.entries().iter().map(|(_, content)| content.len());
    assert!(longest.max().unwrap() < 60_000);
}

#[test]
fn without_time_sources_are_cut_short_and_the_sample_says_so() {
    let files = history(100, 10);
    let options = SampleOptions {
        time: Duration::ZERO,
        ..small_sample()
    };
    let (sample, _) = sample_of(&files, &options, &Unobserved);
    let coverage = sample.unwrap().coverage().unwrap();
    assert_eq!((coverage.files, coverage.is_cut_short), (1, true));
}

/// 120 files: 30 names, four versions of each.
fn versions() -> Sample {
    sample_of(&history(30, 4), &small_sample(), &Unobserved)
        .0
        .unwrap()
}

#[test]
fn every_candidate_is_measured_in_every_round_while_there_is_time() {
    let candidates = candidates_of(&TableOptions::default(), &[1, 9], &[1024, 65_536], &[0]);
    let sample = versions();
    let options = TuneOptions {
        rounds: 3,
        time: Duration::from_secs(3600),
    };
    let tuning = tune(&sample, candidates.clone(), &options, &Unobserved).unwrap();
    assert_eq!((tuning.rounds, tuning.left_out.len()), (3, 0));
    assert_eq!(tuning.measured.len(), 5);
    for (measured, candidate) in tuning.measured.iter().zip(&candidates) {
        assert_eq!(measured.candidate, *candidate);
        assert_eq!(measured.rounds.len(), 3);
        let [first, ..] = &measured.rounds[..] else {
            panic!("three rounds")
        };
        assert!(
            measured
                .rounds
                .iter()
                .all(|it| it.stored_bytes == first.stored_bytes)
        );
        assert!(measured.rounds.iter().all(|it| it.returned_bytes > 0));
        assert!(measured.decoded_per_returned() >= 1.0);
    }
    // Versions side by side: large blocks hold several of them.
    let figures = tuning.figures();
    let (small, large) = (&figures[2], &figures[4]);
    assert!(large.ratio < small.ratio / 2.0, "{large:?} {small:?}");
}

#[test]
fn without_time_the_first_is_measured_once_and_the_others_are_named() {
    let candidates = candidates_of(&TableOptions::default(), &[1, 2], &[4096], &[0]);
    let sample = versions();
    let options = TuneOptions {
        rounds: 3,
        time: Duration::ZERO,
    };
    let tuning = tune(&sample, candidates.clone(), &options, &Unobserved).unwrap();
    assert_eq!((tuning.rounds, tuning.measured.len()), (1, 1));
    assert_eq!(tuning.left_out, candidates[1..]);
}

#[test]
fn nothing_to_measure_and_impossible_options_are_refused() {
    let (empty, _) = sample_of(&[], &small_sample(), &Unobserved);
    let candidates = candidates_of(&TableOptions::default(), &[3], &[4096], &[0]);
    let options = TuneOptions::default();
    assert!(tune(&empty.unwrap(), candidates, &options, &Unobserved).is_err());
    let candidates = candidates_of(&TableOptions::default(), &[99], &[4096], &[0]);
    let sample = versions();
    let error = tune(&sample, candidates, &options, &Unobserved).unwrap_err();
    assert!(error.to_string().contains("zstd level"), "{error}");
}

/// Wants to stop once it was asked so often.
struct Impatient(AtomicU64);

impl Observer for Impatient {
    fn wish(&self) -> Wish {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            0 | 1_000_000.. => Wish::Abandon,
            _ => Wish::GoOn,
        }
    }
}

#[test]
fn a_wish_to_stop_is_heard_while_sampling_and_while_measuring() {
    let candidates = candidates_of(&TableOptions::default(), &[3], &[4096], &[0]);
    let sample = versions();
    let options = TuneOptions::default();
    for patience in [0, 1, 5] {
        let observer = Impatient(AtomicU64::new(patience));
        let error = tune(&sample, candidates.clone(), &options, &observer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    let files = history(100, 10);
    for patience in [0, 10, 1500] {
        let observer = Impatient(AtomicU64::new(patience));
        let (sample, _) = sample_of(&files, &small_sample(), &observer);
        assert_eq!(sample.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

#[test]
fn default_candidates_begin_with_the_base_and_keep_what_they_do_not_set() {
    let mut base = TableOptions::blocks(6, 4096);
    base.inline_value_bytes_max = 7;
    let candidates = default_candidates(&base);
    assert_eq!(candidates[0].table, base);
    assert_eq!(candidates[0].name, "zstd-6, 4 KiB blocks");
    // The base is one of the sixteen.
    assert_eq!(candidates.len(), 16);
    assert!(candidates.iter().all(|it| it.table.validate().is_ok()));
    assert!(
        candidates
            .iter()
            .all(|it| it.table.inline_value_bytes_max == 7)
    );
    let with_dictionary = candidates.iter().find(|it| it.table.dictionary_bytes > 0);
    let name = &with_dictionary.unwrap().name;
    assert_eq!(name, "zstd-6, 16 KiB blocks, 64 KiB dictionary");
}

#[test]
fn options_that_are_set_are_there_after_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let archive = Archive::open(&path, ArchiveOptions::default()).unwrap();
    archive.put(b"a.py", b"a = 1\n", Durability::Sync).unwrap();
    let mut table = archive.contents_table();
    table.layout = Layout::Blocks { bytes: 256 << 10 };
    table.dictionary_bytes = 4096;
    archive.set_contents_table(table.clone()).unwrap();
    archive.close().unwrap();
    let archive = Archive::open_read_only(&path, ArchiveOptions::default()).unwrap();
    assert_eq!(archive.contents_table(), table);
    let sample = Sample::of_archive(&archive, &SampleOptions::default(), &Unobserved).unwrap();
    assert_eq!(sample.entries().len(), 1);
}
