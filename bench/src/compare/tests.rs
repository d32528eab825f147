use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::results::testing::{Builder, record};

fn run_of(builders: impl IntoIterator<Item = Builder>) -> Run {
    group(builders.into_iter().map(Builder::build)).remove(0)
}

fn compared(a: Vec<Builder>, b: Vec<Builder>) -> Comparison {
    compare(&run_of(a), &run_of(b), 0.02, 0.01).unwrap()
}

/// 150 cells of 5 repetitions with 3 % of noise each; `slowed` of them take `factor` as long.
fn noisy(seed: u64, slowed: usize, factor: f64) -> Vec<Builder> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut builders = Vec::new();
    for cell in 0..150_u32 {
        for repeat in 0..5 {
            // A sum of twelve uniform numbers is as good as normal, with deviation 1.
            let sum: f64 = (0..12).map(|_| random.random_range(0.0..1.0)).sum();
            let noise = (0.03 * (sum - 6.0)).exp();
            let slower = if (cell as usize) < slowed {
                factor
            } else {
                1.0
            };
            let seconds = (1.0 + f64::from(cell)) * noise * slower;
            builders.push(record().threads(cell + 1).repeat(repeat).seconds(seconds));
        }
    }
    builders
}

fn verdicts(comparison: &Comparison, verdict: Verdict) -> Vec<&Change> {
    comparison
        .changes
        .iter()
        .filter(|change| change.verdict == verdict)
        .collect()
}

/// One alarm in a hundred comparisons is what the procedure promises; none in nine of ten is
/// what can be asserted without asking for luck.
#[test]
fn noise_alone_raises_no_alarm() {
    let alarmed = (0..10).filter(|seed| {
        let comparison = compared(noisy(2 * seed, 0, 1.0), noisy(2 * seed + 1, 0, 1.0));
        // Stored bytes, MiB/s and MiB per CPU-second of every cell.
        assert_eq!(comparison.changes.len(), 3 * 150);
        verdicts(&comparison, Verdict::Same).len() < 3 * 150
    });
    assert!(alarmed.count() <= 1);
}

#[test]
fn real_changes_are_found_and_hardly_any_other() {
    let comparison = compared(noisy(100, 0, 1.0), noisy(101, 20, 1.25));
    let (slowed, others): (Vec<_>, Vec<_>) = verdicts(&comparison, Verdict::Worse)
        .into_iter()
        .partition(|change| change.cell.threads <= 20);
    // Both rates of each of the twenty.
    assert_eq!(slowed.len(), 2 * 20, "{}", text(&comparison, false));
    assert!(
        slowed
            .iter()
            .all(|change| (0.7..0.9).contains(&change.ratio))
    );
    assert!(others.len() <= 2, "{}", text(&comparison, false));

    let comparison = compared(noisy(102, 20, 1.25), noisy(103, 0, 1.0));
    assert!(verdicts(&comparison, Verdict::Better).len() >= 2 * 20);
}

#[test]
fn a_single_run_gets_no_verdict_on_time_but_one_on_bytes() {
    let a = vec![record().seconds(1.0).stored_bytes(100_000)];
    let b = vec![record().seconds(3.0).stored_bytes(101_000)];
    let comparison = compared(a, b);
    assert_eq!(verdicts(&comparison, Verdict::Unknown).len(), 2);
    let worse = verdicts(&comparison, Verdict::Worse);
    assert_eq!(worse.len(), 1);
    assert_eq!(worse[0].figure, "stored bytes");
}

#[test]
fn bytes_that_vary_by_themselves_changed_only_outside_their_range() {
    let stored = |sizes: [u64; 3]| -> Vec<Builder> {
        sizes
            .into_iter()
            .map(|size| record().stored_bytes(size))
            .collect()
    };
    let a = stored([100_000, 103_000, 101_000]);
    let within = compared(a.clone(), stored([102_000, 102_500, 104_000]));
    assert!(verdicts(&within, Verdict::Worse).is_empty());
    let outside = compared(a, stored([103_500, 104_000, 104_000]));
    assert_eq!(verdicts(&outside, Verdict::Worse).len(), 1);
}

#[test]
fn different_corpora_are_refused_and_different_machines_warned_of() {
    let other_size = run_of([record().corpus("python", 64)]);
    let error = compare(&run_of([record()]), &other_size, 0.02, 0.01)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("different corpora called \"python\""),
        "{error}"
    );
    let other_name = run_of([record().corpus("java", 64)]);
    let error = compare(&run_of([record()]), &other_name, 0.02, 0.01)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no corpus in common"), "{error}");

    let faster = record().with(|record| record.machine.cpu = "Imaginary 3000".to_owned());
    let comparison = compared(vec![record()], vec![faster]);
    assert_eq!(comparison.notes.len(), 1);
    assert!(comparison.notes[0].contains("differ in processor: Imaginary 2000 in A"));
    // A commit is what one compares: no warning.
    assert!(
        compared(vec![record()], vec![record().commit("newer")])
            .notes
            .is_empty()
    );
}

#[test]
fn energies_of_different_classes_are_not_compared() {
    use crate::results::EnergyClass::{Measured, Modelled};
    let measured = record().energy(Measured, &[("package", 0, 2.0)]);
    let modelled = record().energy(Modelled, &[("model", 0, 3.0)]);
    let count = |comparison: &Comparison| {
        comparison
            .changes
            .iter()
            .filter(|change| change.figure == "MB/J")
            .count()
    };
    let comparison = compared(vec![measured.clone()], vec![modelled]);
    assert_eq!(count(&comparison), 0);
    assert!(
        comparison.notes[0].contains("measured, package"),
        "{:?}",
        comparison.notes
    );
    assert_eq!(count(&compared(vec![measured.clone()], vec![measured])), 1);
}

#[test]
fn cells_of_one_side_only_are_counted() {
    let comparison = compared(vec![record(), record().threads(2)], vec![record()]);
    assert_eq!(comparison.notes, ["cells measured in A only: 1"]);
}

/// A corpus that grew was measured at sizes that the other file need not have.
#[test]
fn parts_of_a_corpus_that_only_one_side_measured_are_no_other_corpus() {
    let part = record().corpus("python", 64);
    let comparison = compared(vec![record(), part], vec![record()]);
    assert_eq!(comparison.notes, ["cells measured in A only: 1"]);
    assert_eq!(comparison.changes.len(), 3);
}
