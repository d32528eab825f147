use std::cell::RefCell;
use std::fs;

use super::plan::Template;
use super::*;
use crate::corpus::CorpusOptions;
use crate::peers::{Codec, StoreSpec};
use crate::results::{Cell, Costs, Energy, EnergyClass, Keys, Load, Record, Space};

const BOUNDS: Bounds = Bounds {
    seconds_min: 0.002,
    seconds_max: 0.01,
};

fn corpus() -> Corpus {
    Corpus::generate(&CorpusOptions {
        families: 10,
        versions: 5,
        lines: 30,
        ..CorpusOptions::default()
    })
}

fn wishes() -> Wishes {
    Wishes {
        quick: true,
        threads: 2,
        cache_bytes: 1 << 20,
        corpus_bytes: 1 << 20,
        ..Wishes::default()
    }
}

fn machine() -> Machine {
    Machine {
        cpu: "test".into(),
        cpus: 2,
        memory_bytes: 1 << 30,
        kernel: "0".into(),
        governor: None,
        hypervisor: None,
        commit: "abc".into(),
    }
}

/// Runs the groups into the file and gives back what the file then holds.
fn run_into(path: &std::path::Path, groups: &[Group], machine: &Machine) -> Vec<Record> {
    let corpus = corpus();
    let scratch = tempfile::tempdir().unwrap();
    // As a run that was interrupted leaves it.
    let stale = scratch.path().join("group-0/store-0");
    fs::create_dir_all(&stale).unwrap();
    fs::write(stale.join("stale"), b"stale").unwrap();
    let mut runner = Runner {
        corpus_path: path,
        corpus: &corpus,
        scratch: scratch.path(),
        meter: &Meter::detect(None),
        machine,
        bounds: BOUNDS,
        ledger: Ledger::open(path, machine).unwrap(),
        progress: Progress::new(1, 1.0),
    };
    runner.run(groups).unwrap();
    let left = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 0, "stores are left behind");
    records(path)
}

fn records(path: &std::path::Path) -> Vec<Record> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// One small group: our engine loaded in two ways, and two reads.
fn group() -> Group {
    let store = |load| StoreSpec {
        peer: "ppc",
        load,
        codec: Codec::Zstd(1),
        layout: "blocks",
        block_bytes: 4096,
        dictionary_bytes: 0,
        cache_bytes: 1 << 20,
    };
    let read = |experiment, keys| Template {
        experiment,
        keys,
        ..Template::build(1)
    };
    Group {
        suite: Suite::Configurations,
        raw_bytes: None,
        stores: vec![store(Load::Sorted), store(Load::Puts)],
        build_threads: vec![1, 2],
        build_repeats: 2,
        reads: vec![
            read(Experiment::Get, Keys::Uniform),
            read(Experiment::Mixed, Keys::Uniform),
        ],
        read_repeats: 3,
        records_builds: true,
    }
}

#[test]
fn every_experiment_runs_on_every_peer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    let mut wanted = wishes();
    wanted.repeats = Some(1);
    wanted.suites = Some(vec![Suite::Configurations, Suite::Orders, Suite::Peers]);
    // One configuration stands for the four.
    let mut groups = plan::plan(&wanted).unwrap();
    groups.drain(2..4);
    let runs: usize = groups.iter().map(Group::runs).sum();
    let records = run_into(&path, &groups, &machine());
    assert_eq!(records.len(), runs);
    for record in &records {
        assert!(record.seconds > 0.0 && record.operations > 0, "{record:?}");
        assert_eq!(
            record.value_bytes == 0,
            record.cell.experiment == Experiment::Miss
        );
    }
    let seen = |test: &dyn Fn(&Cell) -> bool| records.iter().any(|record| test(&record.cell));
    for peer in peers::all() {
        for experiment in [Experiment::Build, Experiment::Get, Experiment::Miss] {
            let expected = experiment != Experiment::Miss || !peer.is_limit();
            let found = seen(&|it| it.peer == peer.name() && it.experiment == experiment);
            assert_eq!(found, expected, "{} {experiment:?}", peer.name());
        }
    }
    assert!(seen(
        &|it| it.temperature == Temperature::Cold && it.peer == "ppc"
    ));
    assert!(seen(&|it| it.experiment == Experiment::Scan));
    assert!(seen(&|it| it.experiment == Experiment::Mixed));
    assert!(seen(
        &|it| it.threads == 2 && it.experiment == Experiment::Get
    ));
    assert!(seen(&|it| it.load == Load::Shuffled));
}

#[test]
fn stores_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let records = run_into(&dir.path().join("r.jsonl"), &[group()], &machine());
    let turns = |experiment: Experiment, threads: u32| -> Vec<(Load, u32)> {
        let of_cell = |record: &&Record| {
            record.cell.experiment == experiment && record.cell.threads == threads
        };
        let turns = records.iter().filter(of_cell);
        turns
            .map(|record| (record.cell.load, record.repeat))
            .collect()
    };
    let expected = |repeats: u32| -> Vec<(Load, u32)> {
        let pair = |repeat| [(Load::Sorted, repeat), (Load::Puts, repeat)];
        (0..repeats).flat_map(pair).collect()
    };
    assert_eq!(turns(Experiment::Build, 1), expected(2));
    assert_eq!(turns(Experiment::Build, 2), expected(2));
    assert_eq!(turns(Experiment::Get, 1), expected(3));
    assert_eq!(turns(Experiment::Mixed, 1), expected(3));
}

#[test]
fn a_run_that_was_interrupted_does_only_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    let whole = run_into(&path, &[group()], &machine());
    assert_eq!(whole.len(), group().runs());
    // Cut in the middle of a line, as a power cut leaves it.
    let text = fs::read_to_string(&path).unwrap();
    let kept: usize = text.lines().take(6).map(|line| line.len() + 1).sum();
    fs::write(&path, &text[..kept + 40]).unwrap();
    let resumed = run_into(&path, &[group()], &machine());
    assert_eq!(resumed[..6], whole[..6]);
    assert_eq!(resumed.len(), whole.len());
    let runs = |records: &[Record]| {
        let mut runs: Vec<_> = records
            .iter()
            .map(|it| (it.cell.clone(), it.repeat))
            .collect();
        runs.sort();
        runs.dedup();
        runs
    };
    assert_eq!(runs(&resumed), runs(&whole));
    // Nothing is left: the file stays as it is, byte for byte.
    let before = fs::read(&path).unwrap();
    run_into(&path, &[group()], &machine());
    assert_eq!(fs::read(&path).unwrap(), before);
    // Another commit is another program: everything runs again.
    let mut newer = machine();
    newer.commit = "def".into();
    let both = run_into(&path, &[group()], &newer);
    assert_eq!(both.len(), 2 * whole.len());
}

#[test]
fn a_file_that_holds_something_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    fs::write(&path, "not a result\n").unwrap();
    let error = Ledger::open(&path, &machine()).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "not a result\n");
}

#[test]
fn the_ledger_tells_runs_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&dir.path().join("r.jsonl"), &machine()).unwrap();
    let spec = group().stores[0].clone();
    let cell = Template::build(1).cell(&spec);
    let record = Record {
        cell: cell.clone(),
        repeat: 1,
        corpus: corpus().id().clone(),
        machine: machine(),
        started_unix_seconds: 0,
        operations: 1,
        value_bytes: 1,
        seconds: 1.0,
        costs: Costs {
            cpu_seconds: 1.0,
            instructions: None,
            cycles: None,
            peak_resident_bytes: None,
            decoded_bytes: None,
            energy: Energy {
                class: EnergyClass::Unavailable,
                source: "test".into(),
                domains: Vec::new(),
            },
        },
        space: Space {
            stored_bytes: 1,
            written_bytes: None,
        },
        options: Default::default(),
    };
    ledger.append(&record).unwrap();
    let sha256 = &record.corpus.sha256;
    assert!(ledger.has(&cell, 1, sha256));
    assert!(!ledger.has(&cell, 0, sha256));
    assert!(!ledger.has(&cell, 1, "other"));
    assert!(!ledger.has(&Template::build(2).cell(&spec), 1, sha256));
}

#[test]
fn filters_leave_what_they_name() {
    let whole = plan::plan(&wishes()).unwrap();
    assert!(whole.iter().any(|group| group.suite == Suite::Grid));
    let mut wanted = wishes();
    wanted.peers = Some(vec!["ppc".into()]);
    wanted.experiments = Some(vec![Experiment::Scan]);
    let groups = plan::plan(&wanted).unwrap();
    assert!(!groups.is_empty());
    for group in &groups {
        assert!(!group.records_builds);
        assert!(group.stores.iter().all(|it| it.peer == "ppc"));
        assert!(
            group
                .reads
                .iter()
                .all(|it| it.experiment == Experiment::Scan)
        );
    }
    let one = Wishes {
        codecs: Some(vec![Codec::Zstd(6)]),
        blocks_kib: Some(vec![16]),
        ..wishes()
    };
    for group in plan::plan(&one).unwrap() {
        let is_named = |it: &StoreSpec| it.codec == Codec::Zstd(6) && it.block_bytes == 16 << 10;
        assert!(group.stores.iter().all(is_named));
    }
    wanted.peers = Some(vec!["nothing".into()]);
    assert!(plan::plan(&wanted).is_err());
    let cold = Wishes {
        temperature: Some(Temperature::Cold),
        ..wishes()
    };
    for group in plan::plan(&cold).unwrap() {
        assert!(!group.records_builds);
        assert!(
            group
                .reads
                .iter()
                .all(|it| it.temperature == Temperature::Cold)
        );
    }
    let threads = Wishes {
        threads_only: true,
        ..wishes()
    };
    let groups = plan::plan(&threads).unwrap();
    assert!(!groups.is_empty());
    for group in groups {
        assert!(group.reads.iter().any(|it| it.threads == 1));
        assert!(group.reads.iter().any(|it| it.threads == 2));
        assert!(
            group
                .reads
                .iter()
                .all(|it| it.experiment == Experiment::Get)
        );
    }
}

#[test]
fn growth_goes_as_far_as_the_corpus() {
    let wanted = Wishes {
        suites: Some(vec![Suite::Growth]),
        corpus_bytes: 600 << 20,
        ..wishes()
    };
    let sizes: Vec<_> = plan::plan(&wanted)
        .unwrap()
        .iter()
        .map(|it| it.raw_bytes)
        .collect();
    assert_eq!(sizes, [Some(256 << 20), Some(512 << 20)]);
}

/// A store that answers one key wrongly must not be measured.
#[test]
fn a_wrong_answer_fails_the_check() {
    use crate::peers::{Peer, Reader, Store, Wanted};

    struct Lying<'a>(&'a Corpus, usize);
    struct LyingReader<'a>(&'a Lying<'a>, RefCell<Vec<u8>>);
    impl Store for Lying<'_> {
        fn reader(&self) -> Box<dyn Reader + '_> {
            Box::new(LyingReader(self, RefCell::default()))
        }
    }
    impl Reader for LyingReader<'_> {
        fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
            let Lying(corpus, wrong) = self.0;
            let mut value = self.1.borrow_mut();
            value.clear();
            value.extend_from_slice(corpus.value(wanted.ordinal as usize));
            if wanted.ordinal as usize == *wrong {
                value[0] ^= 1;
            }
            found(&value);
            Ok(())
        }
    }
    let corpus = corpus();
    let peer: &dyn Peer = peers::named("files").unwrap();
    for wrong in [0, 17, corpus.len() - 1] {
        let error = check::check(peer, &Lying(&corpus, wrong), &corpus, 1).unwrap_err();
        assert!(
            error.to_string().contains(&format!("key {wrong},")),
            "{error}"
        );
    }
    check::check(peer, &Lying(&corpus, usize::MAX), &corpus, 1).unwrap();
}

#[test]
fn the_harness_copies_what_the_bare_loop_copies() {
    let pairs = harness::measure(&corpus(), &Meter::detect(None), 3).unwrap();
    assert_eq!(pairs.len(), 3);
    assert!(pairs.iter().all(|pair| pair.bare_cpu_seconds > 0.0));
}

#[test]
fn the_cost_of_the_harness_is_the_median_of_pairs() {
    let pair = |harness_cpu_seconds| harness::Pair {
        operations: 10,
        bare_cpu_seconds: 2.0,
        harness_cpu_seconds,
    };
    let cost = harness::HarnessCost::of(&[pair(2.02), pair(9.0), pair(2.0)]).unwrap();
    assert!((cost.nanoseconds - 2e6).abs() < 1.0);
    assert!((cost.bare_nanoseconds - 2e8).abs() < 1.0);
    let same = harness::HarnessCost::of(&[pair(2.02); 3]).unwrap();
    assert!(same.error_nanoseconds.abs() < 1.0 && cost.error_nanoseconds > 1e6);
    assert_eq!(harness::HarnessCost::of(&[]), None);
}
