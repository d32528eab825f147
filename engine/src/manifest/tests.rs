mod codec;

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::current::Current;
use super::state::KeyspaceState;
use super::*;
use crate::dir::{CURRENT, FileKind, file_name, file_path};
use crate::error::{ErrorKind, Result};
use crate::options::{KeyspaceOptions, ReadMode};
use crate::types::{FileId, FileNumber, KeyRange, KeyspaceId, SeqNo};
use crate::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, PowerCut, Vfs, read_whole};

const DIR: &str = "/store";

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn table(number: u64, key: u64) -> TableMeta {
    TableMeta {
        number: FileNumber(number),
        id: FileId(number * 31),
        stored_bytes: 100,
        raw_bytes: 1000,
        entries: 10,
        tombstones: 1,
        range_tombstones: 0,
        provisional: number.is_multiple_of(3),
        repeated_keys: number.is_multiple_of(2).then_some(number),
        smallest: key.to_be_bytes().to_vec(),
        largest: key.to_be_bytes().to_vec(),
        largest_exclusive: false,
        unbounded_end: false,
        seq_min: SeqNo(number),
        seq_max: SeqNo(number),
        seq_base: SeqNo::ZERO,
    }
}

fn create_keyspace(id: u32) -> Edit {
    Edit::CreateKeyspace {
        id: KeyspaceId(id),
        name: format!("keyspace {id}"),
        options: KeyspaceOptions::default(),
    }
}

fn add(level: u8, table: TableMeta) -> Edit {
    Edit::AddTable {
        keyspace: KeyspaceId(0),
        level,
        table: Arc::new(table),
    }
}

fn remove(level: u8, number: u64) -> Edit {
    Edit::RemoveTable {
        keyspace: KeyspaceId(0),
        level,
        number: FileNumber(number),
    }
}

/// The `step`-th change of a small made-up history: flushes into L0, then moves to L1, then drops.
fn history(manifest: &Manifest, step: u64) -> Vec<Edit> {
    if step == 0 {
        return vec![create_keyspace(0)];
    }
    let mut edits = Vec::new();
    if let Some(keyspace) = manifest.state().keyspaces.get(&KeyspaceId(0)) {
        if let Some(young) = keyspace.version.level(0).get(3) {
            edits.push(remove(0, young.number.0));
            edits.push(add(1, TableMeta::clone(young)));
        }
        if let Some(old) = keyspace.version.level(1).get(5) {
            edits.push(remove(1, old.number.0));
        }
    }
    let number = manifest.file_numbers().allocate();
    edits.push(add(0, table(number.0, number.0 % 7 + 100 * number.0)));
    edits.push(Edit::FlushedUpTo {
        keyspace: KeyspaceId(0),
        seq: SeqNo(step),
    });
    edits
}

/// What must be equal of two states; file numbers may only have moved on.
fn essence(state: &ManifestState) -> (FileId, SeqNo, Vec<(KeyspaceId, KeyspaceState)>) {
    let keyspaces = state.keyspaces.clone().into_iter().collect();
    (state.store_id, state.last_seq, keyspaces)
}

fn shared(vfs: &MemVfs) -> Arc<dyn Vfs> {
    Arc::new(vfs.clone())
}

fn recover(vfs: &Arc<dyn Vfs>) -> Result<(Manifest, ManifestState)> {
    Manifest::recover(vfs, dir(), false)
}

#[test]
fn what_was_appended_is_recovered_across_rolls_and_reopenings() {
    let vfs = shared(&MemVfs::new());
    let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
    let mut rolls = 0;
    for step in 0..300 {
        let before = manifest.in_force();
        manifest.roll_eagerly();
        manifest.append(&history(&manifest, step)).unwrap();
        rolls += u32::from(manifest.in_force() != before);
        if step % 10 == 0 {
            let expected = manifest.state().clone();
            let taken = manifest.file_numbers().allocate();
            let (recovered, state) = recover(&vfs).unwrap();
            assert_eq!(essence(&state), essence(&expected));
            // The number just taken was never recorded, so it may be given out again: nothing
            // was made with it. Any that a file bears may not.
            assert!(recovered.file_numbers().next() <= FileNumber(taken.0 + 1));
            manifest = recovered;
        }
    }
    assert!(rolls > 30, "{rolls} rolls");
}

#[test]
fn a_power_cut_keeps_every_acknowledged_append() {
    for seed in 0..300 {
        let disk = MemVfs::new();
        let vfs = shared(&disk);
        let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
        for step in 0..seed % 23 {
            manifest.roll_eagerly();
            manifest.append(&history(&manifest, step)).unwrap();
        }
        let keep_percent = [0, 50, 100][seed as usize % 3];
        let after = shared(&disk.power_cut(PowerCut { seed, keep_percent }));
        let (mut recovered, state) = recover(&after).unwrap();
        assert_eq!(essence(&state), essence(manifest.state()), "seed {seed}");
        recovered.append(&[Edit::LastSeq(SeqNo(1000))]).unwrap();
    }
}

#[test]
fn what_a_killed_writer_left_is_durable_once_recovered() {
    // A writer killed between handing a record over and syncing it leaves a record that can be
    // read. Whoever opens the store next removes files by it, so it must not vanish afterwards.
    for nth in 1..60 {
        let disk = MemVfs::new();
        let faulty = FaultVfs::new(disk.clone(), FaultPlan::default());
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
        faulty.arm(FaultPlan::writes_from(nth, io::ErrorKind::Other));
        for step in 0..12 {
            manifest.roll_eagerly();
            let edits = history(&manifest, step);
            if manifest.append(&edits).is_err() {
                break;
            }
        }
        let (_, seen) = recover(&shared(&disk)).unwrap();
        let (seed, keep_percent) = (nth, 0);
        let after = shared(&disk.power_cut(PowerCut { seed, keep_percent }));
        let (_, state) = recover(&after).unwrap();
        assert_eq!(essence(&state), essence(&seen), "call {nth}");
    }
}

/// Runs a short history until a call fails; returns the states that may be found afterwards.
fn run_until_failure(vfs: &Arc<dyn Vfs>) -> (Option<ManifestState>, Option<ManifestState>) {
    let mut acknowledged = None;
    let Ok((mut manifest, state)) = Manifest::create(vfs, dir()) else {
        return (None, None);
    };
    for step in 0..12 {
        acknowledged = Some(manifest.state().clone());
        manifest.roll_eagerly();
        let edits = history(&manifest, step);
        let mut attempted = manifest.state().clone();
        for edit in &edits {
            attempted.apply(edit).unwrap();
        }
        if manifest.append(&edits).is_err() {
            assert_eq!(acknowledged.as_ref(), Some(manifest.state()));
            return (acknowledged, Some(attempted));
        }
    }
    drop(state);
    (acknowledged.and(Some(manifest.state().clone())), None)
}

#[test]
fn a_cut_at_any_call_leaves_the_state_before_or_after_it() {
    let counting = FaultVfs::new(MemVfs::new(), FaultPlan::default());
    let as_vfs: Arc<dyn Vfs> = Arc::new(counting.clone());
    run_until_failure(&as_vfs);
    let calls = counting.calls();
    assert!(calls > 60, "{calls} calls");
    for nth in 1..=calls {
        for round in 0..12 {
            let keep_percent = [0, 60, 60, 100][round % 4];
            let seed = nth * 100 + round as u64;
            let disk = MemVfs::new();
            let mut plan = FaultPlan::writes_from(nth, io::ErrorKind::Other);
            plan.partial_append = nth % 2 == 0;
            let faulty: Arc<dyn Vfs> = Arc::new(FaultVfs::new(disk.clone(), plan));
            let (acknowledged, attempted) = run_until_failure(&faulty);
            let after = shared(&disk.power_cut(PowerCut { seed, keep_percent }));
            match (recover(&after), acknowledged) {
                (Ok((_, state)), Some(acknowledged)) => {
                    let found = essence(&state);
                    let allowed = found == essence(&acknowledged)
                        || attempted.is_some_and(|state| found == essence(&state));
                    assert!(allowed, "call {nth}, {keep_percent} %: {state:?}");
                }
                (Ok((_, state)), None) => assert!(state.keyspaces.is_empty()),
                (Err(error), Some(_)) => panic!("call {nth}, {keep_percent} %: {error}"),
                (Err(error), None) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "call {nth}: {error}");
                    Manifest::create(&after, dir()).unwrap();
                }
            }
        }
    }
}

#[test]
fn one_failing_call_never_costs_an_acknowledged_append() {
    for nth in 1..80 {
        let disk = MemVfs::new();
        let faulty = FaultVfs::new(disk.clone(), FaultPlan::default());
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
        manifest.append(&[create_keyspace(0)]).unwrap();
        faulty.arm(FaultPlan {
            nth,
            error: io::ErrorKind::StorageFull,
            partial_append: true,
            ..FaultPlan::default()
        });
        for step in 1..20 {
            manifest.roll_eagerly();
            let edits = history(&manifest, step);
            let _ = manifest.append(&edits);
        }
        let seed = nth;
        let keep_percent = 0;
        let after = shared(&disk.power_cut(PowerCut { seed, keep_percent }));
        let (_, state) = recover(&after).unwrap();
        assert_eq!(essence(&state), essence(manifest.state()), "call {nth}");
    }
}

#[test]
fn appends_resume_after_a_full_disk_and_not_after_a_failed_sync() {
    let disk = MemVfs::new();
    let faulty = FaultVfs::new(disk.clone(), FaultPlan::default());
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
    faulty.arm(FaultPlan::writes_from(1, io::ErrorKind::StorageFull).with_partial_append());
    for _ in 0..3 {
        let error = manifest.append(&[create_keyspace(0)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(manifest.failure().is_none());
    }
    faulty.disarm();
    manifest.append(&[create_keyspace(0)]).unwrap();
    assert_eq!(
        essence(&recover(&vfs).unwrap().1),
        essence(manifest.state())
    );

    faulty.arm(FaultPlan::once(FaultOp::Sync, 1, io::ErrorKind::Other));
    let error = manifest.append(&[create_keyspace(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    for _ in 0..2 {
        let error = manifest.append(&[create_keyspace(1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    }
    assert!(manifest.failure().is_some());
}

#[test]
fn a_read_only_recovery_writes_nothing() {
    let disk = MemVfs::new();
    Manifest::create(&shared(&disk), dir()).unwrap();
    let plan = FaultPlan::writes_from(1, io::ErrorKind::ReadOnlyFilesystem);
    let read_only = FaultVfs::new(disk.clone(), plan);
    let vfs: Arc<dyn Vfs> = Arc::new(read_only.clone());
    let (mut manifest, _) = Manifest::recover(&vfs, dir(), true).unwrap();
    let error = manifest.append(&[create_keyspace(0)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert_eq!(read_only.calls(), 0);
}

fn overwrite(vfs: &Arc<dyn Vfs>, path: &Path, bytes: &[u8]) {
    vfs.remove(path).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
}

#[test]
fn damage_never_panics_and_never_yields_another_history() {
    let disk = MemVfs::new();
    let vfs = shared(&disk);
    let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
    for step in 0..4 {
        manifest.append(&history(&manifest, step)).unwrap();
    }
    let expected = essence(manifest.state());
    let path = file_path(dir(), FileKind::Manifest, manifest.in_force());
    let intact = read_whole(&*vfs, &path).unwrap();
    let current = Current::read(&*vfs, dir()).unwrap();
    let synced_len = current.synced_len.unwrap() as usize;
    assert_eq!(intact.len(), synced_len + 20, "all but the last seal");
    // Without the length in `CURRENT`, whose absence an older build leaves, a cut may pass for a
    // torn append; damage with an intact record behind it never does.
    let unwitnessed = disk.kill();
    let name = file_name(FileKind::Manifest, manifest.in_force());
    let line = format!("{name}\n");
    overwrite(&shared(&unwitnessed), &dir().join(CURRENT), line.as_bytes());
    for disk in [&disk, &unwitnessed] {
        for at in 0..intact.len() * 8 {
            let vfs = shared(&disk.kill());
            let mut damaged = intact.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            overwrite(&vfs, &path, &damaged);
            // Damage to the last seal, whose loss costs nothing, is the only one that may pass.
            let found = recover(&vfs);
            assert_eq!(found.is_ok(), at / 8 >= synced_len, "bit {at}");
            if let Ok((_, state)) = found {
                assert_eq!(essence(&state), expected, "bit {at}");
            }
        }
        for len in 0..intact.len() {
            let vfs = shared(&disk.kill());
            overwrite(&vfs, &path, &intact[..len]);
            for read_only in [true, false] {
                let found = Manifest::recover(&vfs, dir(), read_only);
                match found {
                    Ok((_, state)) if len >= synced_len => {
                        assert_eq!(essence(&state), expected, "{len} bytes");
                    }
                    Ok(_) => assert!(std::ptr::eq(disk, &unwitnessed), "{len} bytes"),
                    Err(error) => {
                        assert!(len < synced_len, "{len} bytes: {error}");
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{len} bytes");
                    }
                }
            }
        }
    }
}

#[test]
fn what_current_tells_of_survives_every_power_cut() {
    // A length beyond what is on the disk would refuse a sound store.
    for seed in 0..200 {
        let disk = MemVfs::new();
        let faulty = FaultVfs::new(disk.clone(), FaultPlan::default());
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
        faulty.arm(FaultPlan {
            nth: seed % 50 + 1,
            error: io::ErrorKind::Other,
            partial_append: true,
            ..FaultPlan::default()
        });
        for step in 0..12 {
            if seed % 2 == 0 {
                manifest.roll_eagerly();
            }
            let edits = history(&manifest, step);
            let _ = manifest.append(&edits);
        }
        manifest.catch_up();
        for keep_percent in [0, 50, 100] {
            let after = disk.power_cut(PowerCut { seed, keep_percent });
            for read_only in [true, false] {
                let recovered = Manifest::recover(&shared(&after), dir(), read_only);
                recovered.unwrap_or_else(|error| panic!("seed {seed}, {keep_percent} %: {error}"));
            }
        }
    }
}

#[test]
fn another_format_version_is_refused_with_both_versions_named() {
    let vfs = shared(&MemVfs::new());
    let (manifest, _) = Manifest::create(&vfs, dir()).unwrap();
    let path = file_path(dir(), FileKind::Manifest, manifest.in_force());
    let mut bytes = read_whole(&*vfs, &path).unwrap();
    bytes[8] = 9;
    let crc = crate::checksum::unit_checksum(0x40, FileId(0), 0, &[&bytes[..28]]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    overwrite(&vfs, &path, &bytes);
    let error = recover(&vfs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("format version 9"), "{error}");
    assert!(error.to_string().contains("knows version 1"), "{error}");
}

#[test]
fn a_directory_without_a_store_is_told_apart_from_a_damaged_store() {
    let vfs = shared(&MemVfs::new());
    vfs.create_dir_all(dir()).unwrap();
    assert_eq!(recover(&vfs).unwrap_err().kind(), ErrorKind::NotFound);

    vfs.create(&dir().join("000007.table")).unwrap();
    let error = Manifest::create(&vfs, dir()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    vfs.remove(&dir().join("000007.table")).unwrap();

    let (manifest, _) = Manifest::create(&vfs, dir()).unwrap();
    let error = Manifest::create(&vfs, dir()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);

    vfs.remove(&file_path(dir(), FileKind::Manifest, manifest.in_force()))
        .unwrap();
    assert_eq!(recover(&vfs).unwrap_err().kind(), ErrorKind::Corruption);
    overwrite(&vfs, &dir().join(CURRENT), b"../000001.manifest\n");
    assert_eq!(recover(&vfs).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn file_numbers_move_past_every_file_found() {
    let vfs = shared(&MemVfs::new());
    Manifest::create(&vfs, dir()).unwrap();
    vfs.create(&dir().join("000041.wal")).unwrap();
    vfs.create(&dir().join("notes.txt")).unwrap();
    let (manifest, _) = recover(&vfs).unwrap();
    assert_eq!(manifest.file_numbers().allocate(), FileNumber(42));
}

#[test]
fn edits_that_make_no_sense_change_nothing() {
    let disk = MemVfs::new();
    let vfs = shared(&disk);
    let (mut manifest, _) = Manifest::create(&vfs, dir()).unwrap();
    manifest
        .append(&[create_keyspace(0), add(1, table(10, 5))])
        .unwrap();
    let before = manifest.state().clone();
    for edits in [
        vec![create_keyspace(0)],
        vec![remove(1, 11)],
        vec![add(0, table(10, 7))],
        vec![add(1, table(11, 5))],
        vec![add(7, table(11, 6))],
        vec![Edit::DropKeyspace { id: KeyspaceId(3) }],
    ] {
        manifest.append(&edits).unwrap_err();
        assert_eq!(manifest.state(), &before);
    }
    manifest.append(&[add(1, table(11, 6))]).unwrap();
}

#[test]
fn candidates_of_a_key_come_newest_first_and_overlaps_respect_open_ends() {
    let ranged = |number: u64, smallest: &[u8], largest: &[u8]| TableMeta {
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
        ..table(number, 0)
    };
    let mut version = Version::default();
    let open = TableMeta {
        largest_exclusive: true,
        ..ranged(3, b"a", b"m")
    };
    let endless = TableMeta {
        unbounded_end: true,
        ..ranged(5, b"n", b"p")
    };
    for (level, table) in [
        (0, ranged(8, b"b", b"z")),
        (0, ranged(9, b"c", b"y")),
        (2, open),
        (2, ranged(4, b"m", b"m")),
        (2, endless),
    ] {
        version.add(level, Arc::new(table)).unwrap();
    }
    version.check().unwrap();
    let numbers = |key: &[u8]| -> Vec<u64> {
        version
            .candidates(key)
            .map(|(_, table)| table.number.0)
            .collect()
    };
    assert_eq!(numbers(b"a"), [3]);
    assert_eq!(numbers(b"d"), [9, 8, 3]);
    assert_eq!(numbers(b"m"), [9, 8, 4]);
    assert_eq!(numbers(b"zz"), [5]);
    let overlapping = |range: KeyRange| -> Vec<u64> {
        let tables = version.overlapping(2, &range);
        tables.iter().map(|table| table.number.0).collect()
    };
    assert_eq!(overlapping(KeyRange::all()), [3, 4, 5]);
    assert_eq!(
        overlapping(KeyRange::new::<&[u8]>(..b"a".as_slice())),
        [0; 0]
    );
    assert_eq!(
        overlapping(KeyRange::new::<&[u8]>(b"m".as_slice()..)),
        [4, 5]
    );
    assert_eq!(overlapping(KeyRange::new(b"m".as_slice()..=b"m")), [4]);
    assert_eq!(overlapping(KeyRange::new(b"q".as_slice()..b"r")), [5]);
}

#[test]
fn reading_the_manifest_goes_through_positioned_reads() {
    // A mapped manifest would turn a disk error during recovery into a signal.
    let disk = MemVfs::new();
    Manifest::create(&shared(&disk), dir()).unwrap();
    let plan = FaultPlan::once(FaultOp::Read, 2, io::ErrorKind::Other).on(".manifest");
    let vfs: Arc<dyn Vfs> = Arc::new(FaultVfs::new(disk.clone(), plan));
    let error = recover(&vfs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(disk.open(&dir().join(CURRENT), ReadMode::Pread).is_ok());
}
