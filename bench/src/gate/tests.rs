use super::*;
use crate::results::testing::{Builder, record};

fn run_of(builders: impl IntoIterator<Item = Builder>) -> Run {
    group(builders.into_iter().map(Builder::build)).remove(0)
}

fn ours() -> Builder {
    record()
        .stored_bytes(100_000)
        .decoded_bytes(100 << 20)
        .instructions(500)
        .cpu_seconds(1.0)
}

fn reference() -> Builder {
    record()
        .rocksdb("zstd-9", 128)
        .instructions(1000)
        .cpu_seconds(2.0)
}

fn regressions(changed: impl IntoIterator<Item = Builder>) -> Vec<String> {
    let baseline = baseline_of(&run_of([ours(), reference()]), "ppc", None);
    assert_eq!(baseline.cells.len(), 1);
    check(&baseline, &run_of(changed)).regressions
}

#[test]
fn the_same_results_pass_with_every_figure_checked() {
    let run = run_of([ours(), reference()]);
    let outcome = check(&baseline_of(&run, "ppc", None), &run);
    assert_eq!(outcome.checked, 3);
    assert!(
        outcome.regressions.is_empty() && outcome.gains.is_empty(),
        "{outcome:?}"
    );
}

#[test]
fn a_faster_machine_passes_and_slower_clocks_do_too() {
    for factor in [0.25, 4.0] {
        let lines = regressions([
            ours().cpu_seconds(factor),
            reference().cpu_seconds(2.0 * factor),
        ]);
        assert!(lines.is_empty(), "{lines:?}");
    }
}

#[test]
fn each_figure_fails_by_itself_in_one_line_that_names_it() {
    let cases = [
        (
            ours().stored_bytes(100_600),
            "stored bytes was 100,000, is 100,600",
        ),
        (
            ours().decoded_bytes(110 << 20),
            "decoded bytes per returned byte",
        ),
        (
            ours().instructions(550),
            "instructions as a ratio to RocksDB zstd-9/128 KiB was 0.500",
        ),
    ];
    for (changed, expected) in cases {
        let lines = regressions([changed, reference()]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(expected), "{lines:?}");
        assert!(
            lines[0].contains("single gets, uniform, 1 thread, warm"),
            "{lines:?}"
        );
    }
    assert!(regressions([ours().stored_bytes(100_400), reference()]).is_empty());
}

#[test]
fn processor_time_stands_in_where_instructions_are_not_granted() {
    let blind = |builder: Builder| builder.with(|record| record.costs.instructions = None);
    let lines = regressions([blind(ours().cpu_seconds(1.3)), blind(reference())]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("CPU-seconds as a ratio"), "{lines:?}");
    assert!(regressions([blind(ours().cpu_seconds(1.1)), blind(reference())]).is_empty());
}

#[test]
fn a_gate_that_cannot_check_does_not_pass() {
    let cases = [
        (vec![reference()], "not measured"),
        (
            vec![ours()],
            "RocksDB zstd-9/128 KiB, to which its work is a ratio, was not measured",
        ),
        (
            vec![
                ours().corpus("python", 64),
                reference().corpus("python", 64),
            ],
            "SHA-256",
        ),
        (
            vec![ours().corpus("java", 64)],
            "the corpus was not measured",
        ),
        (
            vec![
                ours().with(|record| record.costs.decoded_bytes = None),
                reference(),
            ],
            "is not in the results",
        ),
    ];
    for (changed, expected) in cases {
        let lines = regressions(changed);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(expected), "{lines:?}");
    }
}

#[test]
fn gains_are_told_and_pass() {
    let baseline = baseline_of(&run_of([ours(), reference()]), "ppc", None);
    let outcome = check(
        &baseline,
        &run_of([ours().stored_bytes(90_000), reference()]),
    );
    assert!(outcome.regressions.is_empty());
    assert_eq!(outcome.gains.len(), 1);
    assert!(
        outcome.gains[0].starts_with("gain: python"),
        "{:?}",
        outcome.gains
    );
}

#[test]
fn writing_anew_keeps_the_tolerances_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results.jsonl");
    let lines = [ours(), reference()]
        .map(|builder| serde_json::to_string(&builder.build()).unwrap() + "\n");
    std::fs::write(&results, lines.concat()).unwrap();
    let args = |write| GateArgs {
        baseline: folder.path().join("baseline.json"),
        results: results.clone(),
        write,
        peer: "ppc".to_owned(),
        reference: None,
    };
    assert!(run(&args(true)).unwrap());
    let mut edited = Baseline::read(&args(true).baseline).unwrap();
    edited.tolerances.stored_bytes = 0.5;
    edited.cells[0].tolerances = Some(Tolerances {
        instructions: 0.7,
        ..edited.tolerances
    });
    std::fs::write(args(true).baseline, serde_json::to_vec(&edited).unwrap()).unwrap();
    assert!(run(&args(true)).unwrap());
    assert_eq!(Baseline::read(&args(true).baseline).unwrap(), edited);

    assert!(run(&args(false)).unwrap());
    std::fs::write(&results, lines.concat().replace("100000", "900000")).unwrap();
    assert!(!run(&args(false)).unwrap());
}

#[test]
fn the_reference_is_of_the_same_codec_where_there_is_one() {
    let run = run_of([
        ours(),
        record().rocksdb("zlib-6", 4),
        record().rocksdb("zstd-3", 64),
        record().peer("zip"),
        record().rocksdb("zstd-3", 64).threads(2),
    ]);
    let chosen = |peer| {
        baseline_of(&run, "ppc", peer)
            .cells
            .remove(0)
            .work
            .unwrap()
            .reference
    };
    assert_eq!(
        (chosen(None).codec.as_str(), chosen(None).threads),
        ("zstd-3", 1)
    );
    assert_eq!(chosen(Some("zip")).peer, "zip");
}
