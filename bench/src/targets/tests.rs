use super::*;
use crate::results::testing::{Builder, record};
use crate::results::{Experiment, Keys};

const MIB: u64 = 1 << 20;

/// A build and gets of one configuration: stored MiB, MiB/s of gets, MiB per CPU-second.
fn store(base: Builder, stored_mib: u64, get: f64, build: f64) -> Vec<Builder> {
    let base = base.stored_bytes(stored_mib * MIB).value_mib(1000);
    vec![
        base.clone().builds().seconds(1000.0 / build),
        base.seconds(1000.0 / get),
    ]
}

fn run_of(builders: impl IntoIterator<Item = Builder>) -> Run {
    group(builders.into_iter().map(Builder::build)).remove(0)
}

fn python() -> Vec<Builder> {
    let mut all = store(record().layout("balanced"), 100, 600.0, 200.0);
    all.extend(store(record().rocksdb("zstd-9", 128), 160, 200.0, 50.0));
    all.extend(store(record().rocksdb("zstd-6", 4), 210, 500.0, 60.0));
    all.extend(store(
        record().rocksdb("zstd-9", 128).load(Load::Sorted),
        160,
        300.0,
        70.0,
    ));
    all
}

fn get_line(scope: &Scope, figure: Figure, reference: &str) -> Line {
    scope
        .lines
        .iter()
        .find(|line| {
            line.configuration.starts_with("balanced")
                && line.figure == figure
                && line.reference == reference
        })
        .unwrap()
        .clone()
}

#[test]
fn ratios_are_to_rocksdb_of_the_same_run_by_puts_and_sorted() {
    let scopes = scopes(&run_of(python()));
    assert_eq!(scopes.len(), 1, "one corpus has no sum");
    let stored = get_line(&scopes[0], Figure::Stored, "zstd-9/128 KiB");
    assert_eq!(stored.ratio_to_puts, Some(0.625));
    assert_eq!(stored.target, Some(1.0), "each language by itself");
    assert_eq!(stored.verdict, Verdict::Met);
    let get = get_line(&scopes[0], Figure::Get, "zstd-6/4 KiB");
    assert!((get.ratio_to_puts.unwrap() - 1.2).abs() < 1e-9);
    assert_eq!(get.ratio_to_sorted, None);
    let get = get_line(&scopes[0], Figure::Get, "zstd-9/128 KiB");
    assert!((get.ratio_to_puts.unwrap() - 3.0).abs() < 1e-9);
    assert!((get.ratio_to_sorted.unwrap() - 2.0).abs() < 1e-9);
}

#[test]
fn what_was_not_measured_says_so() {
    let run = run_of(python());
    let scopes = scopes(&run);
    let build = get_line(&scopes[0], Figure::Build, "zstd-3/64 KiB");
    assert_eq!(
        (build.ratio_to_puts, build.verdict),
        (None, Verdict::NotMeasured)
    );
    assert!(build.ours.is_some());
    assert_eq!(build.missing, Some("RocksDB by puts"));
    let scan = get_line(&scopes[0], Figure::Scan, "its best");
    assert_eq!(scan.missing, Some("neither side"));
    let dense = |line: &&Line| line.configuration == "dense" && line.figure == Figure::Stored;
    let dense = scopes[0].lines.iter().find(dense).unwrap();
    assert_eq!(dense.missing, Some("ours"));
    let text = text(&run);
    for profile in ["dense", "fast"] {
        let row = text
            .lines()
            .find(|row| row.starts_with(&format!("| {profile}")))
            .unwrap();
        assert!(row.contains("not measured"), "{row}");
    }
}

#[test]
fn figures_of_another_commit_are_not_a_reference() {
    let mut all = store(record().layout("balanced"), 100, 600.0, 200.0);
    all.extend(store(
        record().rocksdb("zstd-9", 128).commit("older"),
        160,
        200.0,
        50.0,
    ));
    let runs = group(all.into_iter().map(Builder::build));
    assert_eq!(runs.len(), 2);
    let stored = get_line(&scopes(&runs[0])[0], Figure::Stored, "zstd-9/128 KiB");
    assert_eq!(stored.verdict, Verdict::NotMeasured);
}

#[test]
fn corpora_together_have_their_own_bound() {
    let mut all = python();
    let java = |builder: Builder| builder.corpus("java", 1024);
    all.extend(store(java(record()), 150, 600.0, 200.0));
    all.extend(store(
        java(record().rocksdb("zstd-9", 128)),
        160,
        200.0,
        50.0,
    ));
    let scopes = scopes(&run_of(all));
    assert_eq!(scopes.len(), 3);
    let java = get_line(&scopes[1], Figure::Stored, "zstd-9/128 KiB");
    assert_eq!(java.verdict, Verdict::Met);
    let together = get_line(&scopes[2], Figure::Stored, "zstd-9/128 KiB");
    assert_eq!(together.ratio_to_puts, Some(250.0 / 320.0));
    assert_eq!(
        (together.target, together.verdict),
        (Some(0.75), Verdict::Missed)
    );
    // Only Python has zstd-6/4: no figure for both.
    let get = get_line(&scopes[2], Figure::Get, "zstd-6/4 KiB");
    assert_eq!(get.verdict, Verdict::NotMeasured);
}

#[test]
fn the_best_of_rocksdb_is_the_reference_where_no_configuration_is_named() {
    let scan = |builder: Builder, rate: f64| {
        builder
            .experiment(Experiment::Scan)
            .keys(Keys::None)
            .value_mib(100)
            .seconds(100.0 / rate)
    };
    let run = run_of([
        scan(record(), 1200.0),
        scan(record().rocksdb("zstd-3", 64), 800.0),
        scan(record().rocksdb("zstd-6", 4), 1000.0),
    ]);
    let line = get_line(&scopes(&run)[0], Figure::Scan, "its best");
    assert!((line.ratio_to_puts.unwrap() - 1.2).abs() < 1e-9);
    assert_eq!(line.verdict, Verdict::Met);
}

#[test]
fn power_law_gets_are_compared_at_the_largest_cache_that_both_had() {
    let get = |builder: Builder, cache_mib: u64, rate: f64| {
        builder
            .keys(Keys::PowerLaw)
            .cache(cache_mib << 20)
            .value_mib(100)
            .seconds(100.0 / rate)
    };
    let rocksdb = || record().rocksdb("zstd-6", 4);
    let run = run_of([
        get(record(), 0, 500.0),
        get(record(), 64, 3000.0),
        get(record(), 128, 4000.0),
        get(rocksdb(), 0, 500.0),
        get(rocksdb(), 64, 2000.0),
        get(rocksdb(), 256, 8000.0),
    ]);
    let line = get_line(&scopes(&run)[0], Figure::PowerLawGet, "its best");
    assert_eq!(line.cache_bytes, Some(64 << 20));
    assert!((line.ratio_to_puts.unwrap() - 1.5).abs() < 1e-9);
    let unequal = run_of([get(record(), 64, 3000.0), get(rocksdb(), 256, 8000.0)]);
    let line = get_line(&scopes(&unequal)[0], Figure::PowerLawGet, "its best");
    assert_eq!(line.verdict, Verdict::NotMeasured);
    assert_eq!(line.missing, Some("with equal caches"));
    assert!(line.ours.is_some());
}
