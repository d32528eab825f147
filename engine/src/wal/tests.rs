use std::io;
use std::path::Path;

use proptest::prelude::*;

use super::replay::ReplayedFile;
use super::*;
use crate::dir::{FileKind, file_path, list_files};
use crate::error::ErrorKind;
use crate::types::{KEY_BYTES_MAX, KeyspaceId};
use crate::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, PowerCut, Vfs, read_whole};

fn dir() -> &'static Path {
    Path::new("/store")
}

fn disk() -> MemVfs {
    let vfs = MemVfs::new();
    vfs.create_dir_all(dir()).unwrap();
    vfs
}

fn path(number: u64) -> std::path::PathBuf {
    file_path(dir(), FileKind::Wal, FileNumber(number))
}

fn create(vfs: &dyn Vfs, number: u64, predecessors: &[Predecessor]) -> Result<WalWriter> {
    WalWriter::create(vfs, &path(number), FileNumber(number), predecessors)
}

/// The batch with this sequence number: one to three puts, every byte known from the number.
fn batch(first_seq: u64) -> BatchEncoder {
    let mut batch = BatchEncoder::default();
    for index in 0..=first_seq % 3 {
        let key = (first_seq + index).to_be_bytes();
        let value = vec![first_seq as u8; (first_seq % 50) as usize];
        let put = WalOp::Put {
            keyspace: KeyspaceId(1),
            key: &key,
            value: &value,
        };
        batch.push(&put).unwrap();
    }
    batch
}

fn push(wal: &mut WalWriter, seq: u64) -> Result<u64> {
    let batch = batch(seq);
    let count = batch.count();
    wal.push(SeqNo(seq), count, &[&batch.into_payload()])?;
    Ok(seq + u64::from(count))
}

fn append(wal: &mut WalWriter, seq: u64) -> Result<u64> {
    let next = push(wal, seq)?;
    wal.hand_over()?;
    Ok(next)
}

fn wal_files(vfs: &dyn Vfs) -> Vec<FileNumber> {
    let files = list_files(vfs, dir()).unwrap();
    files.iter().map(|file| file.number).collect()
}

/// First sequence numbers of the batches replayed, each checked to be what was written.
fn replay_all(vfs: &dyn Vfs) -> Result<(Vec<u64>, ReplayReport)> {
    let mut seqs = Vec::new();
    let report = replay(vfs, dir(), &wal_files(vfs), &[], &mut |seq, payload| {
        assert_eq!(payload, batch(seq.0).into_payload());
        seqs.push(seq.0);
        Ok(())
    })?;
    Ok((seqs, report))
}

fn overwrite(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) {
    vfs.remove(path).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
}

#[test]
fn batches_come_back_in_order_over_all_files() {
    let vfs = disk();
    let mut seq = 1;
    let mut expected = Vec::new();
    let mut predecessors = Vec::new();
    for number in 1..5 {
        let mut wal = create(&vfs, number, &predecessors).unwrap();
        for _ in 0..10 {
            expected.push(seq);
            seq = append(&mut wal, seq).unwrap();
        }
        predecessors.push(wal.finish().unwrap());
        assert_eq!(append(&mut wal, seq).unwrap_err().kind(), ErrorKind::Failed);
    }
    let (seqs, report) = replay_all(&vfs).unwrap();
    assert_eq!(seqs, expected);
    assert_eq!(report.last_seq, SeqNo(seq - 1));
    assert_eq!(report.cut, []);
    // The last one was synced, but nothing after it says so.
    let is_witnessed = [true, true, true, false];
    let files = predecessors.iter().zip(is_witnessed);
    let files: Vec<_> = files
        .map(
            |(&Predecessor { number, len }, is_witnessed)| ReplayedFile {
                number,
                len,
                is_witnessed,
            },
        )
        .collect();
    assert_eq!(report.files, files);
    assert_eq!(report.predecessors(), None);
    // Older files may be gone: what they held is in tables.
    vfs.remove(&path(1)).unwrap();
    assert_eq!(replay_all(&vfs).unwrap().0, expected[10..]);
}

#[test]
fn a_log_cut_at_any_byte_yields_its_whole_batches() {
    let vfs = disk();
    let mut wal = create(&vfs, 1, &[]).unwrap();
    let mut ends = vec![(1, 0)];
    for seq in [1, 3, 4, 6] {
        let next = append(&mut wal, seq).unwrap();
        ends.push((next, wal.len() as usize));
    }
    let bytes = read_whole(&vfs, &path(1)).unwrap();
    for len in 0..=bytes.len() {
        overwrite(&vfs, &path(1), &bytes[..len]);
        let (_, report) = replay_all(&vfs).unwrap();
        let (next, _) = ends.iter().rfind(|(_, end)| *end <= len).unwrap();
        assert_eq!(report.last_seq.0 + 1, *next, "{len} bytes");
        let valid = report.files[0].len;
        let cut: u64 = report.cut.iter().map(|cut| cut.bytes).sum();
        assert!(valid == 0 || valid + cut == len as u64, "{len} bytes");
    }
}

#[test]
fn a_file_that_a_successor_names_must_be_whole_and_ends_there() {
    let vfs = disk();
    let mut first = create(&vfs, 1, &[]).unwrap();
    let mut seq = 1;
    for _ in 0..5 {
        seq = append(&mut first, seq).unwrap();
    }
    let named = first.finish().unwrap();
    let bytes = read_whole(&vfs, &path(1)).unwrap();
    let mut second = create(&vfs, 2, &[named]).unwrap();
    append(&mut second, seq).unwrap();
    let (whole, _) = replay_all(&vfs).unwrap();

    for len in 0..bytes.len() {
        overwrite(&vfs, &path(1), &bytes[..len]);
        let error = replay_all(&vfs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{len} bytes");
    }
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        overwrite(&vfs, &path(1), &damaged);
        replay_all(&vfs).unwrap_err();
    }
    // A batch that was appended but not acknowledged before the log moved on is no part of it.
    let longer = disk();
    let mut log = create(&longer, 1, &[]).unwrap();
    let mut next = 1;
    for _ in 0..5 {
        next = append(&mut log, next).unwrap();
    }
    let named = log.len();
    append(&mut log, next).unwrap();
    let number = FileNumber(1);
    let named = Predecessor { number, len: named };
    let mut second = create(&longer, 2, &[named]).unwrap();
    append(&mut second, next).unwrap();
    assert_eq!(replay_all(&longer).unwrap().0, whole);
}

#[test]
fn flipped_bits_are_errors_or_lose_only_what_was_never_synced() {
    let vfs = disk();
    let mut wal = create(&vfs, 1, &[]).unwrap();
    let mut seq = 1;
    for index in 0..6 {
        seq = append(&mut wal, seq).unwrap();
        if index == 3 {
            wal.sync().unwrap();
        }
    }
    let (intact, _) = replay_all(&vfs).unwrap();
    let bytes = read_whole(&vfs, &path(1)).unwrap();
    let mut errors = 0;
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        overwrite(&vfs, &path(1), &damaged);
        match replay_all(&vfs) {
            Ok((seqs, _)) if at / 8 >= 32 => {
                assert!(seqs.len() >= 4 && intact.starts_with(&seqs), "bit {at}");
            }
            Ok((seqs, _)) => assert!(seqs.is_empty(), "bit {at}"),
            Err(error) => {
                errors += 1;
                assert_ne!(error.kind(), ErrorKind::Io, "bit {at}");
            }
        }
    }
    assert!(errors > 1000);
}

/// What a writer of the power-cut test was told.
#[derive(Debug, Default)]
struct Told {
    /// Batches in order; failed ones end the list.
    accepted: Vec<u64>,
    /// How many of them were synced.
    synced: usize,
    /// The first of them, which no power cut takes any more.
    in_tables: Vec<u64>,
    /// The last sequence number of these.
    seq_in_tables: u64,
}

/// Appends, syncs and rotates by the dice until a call fails or the dice say stop.
fn write_some(
    vfs: &dyn Vfs,
    dice: &mut impl FnMut(u64) -> u64,
    report: &ReplayReport,
    next_number: &mut u64,
    told: &mut Told,
) -> Result<()> {
    let mut predecessors = match report.predecessors() {
        Some(predecessors) => predecessors,
        None => {
            // What the engine does: tables hold it from here on, and the files go.
            told.in_tables.clone_from(&told.accepted);
            told.seq_in_tables = report.last_seq.0;
            for file in &report.files {
                vfs.remove(&path(file.number.0))
                    .map_err(|error| Error::io("remove", dir(), error))?;
            }
            Vec::new()
        }
    };
    told.synced = told.accepted.len();
    let mut seq = report.last_seq.0.max(told.seq_in_tables) + 1;
    let mut take_number = || {
        *next_number += 1;
        *next_number
    };
    let mut wal = create(vfs, take_number(), &predecessors)?;
    for _ in 0..dice(40) {
        match dice(8) {
            0 => {
                wal.sync()?;
                told.synced = told.accepted.len();
            }
            1 => {
                predecessors.push(wal.finish()?);
                told.synced = told.accepted.len();
                wal = create(vfs, take_number(), &predecessors)?;
            }
            2 => {
                let next = push(&mut wal, seq)?;
                told.accepted.push(seq);
                seq = next;
            }
            _ => {
                let next = append(&mut wal, seq)?;
                told.accepted.push(seq);
                seq = next;
            }
        }
    }
    if dice(2) == 0 {
        wal.close()?;
        told.synced = told.accepted.len();
    }
    Ok(())
}

/// Many generations of writing, failing, dying and losing power on one disk.
fn survive(seed: u64) {
    let mut state = seed;
    let mut dice = move |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut memory = disk();
    let mut next_number = 0;
    let mut told = Told::default();
    for generation in 0..6 {
        let (seqs, report) = replay_all(&memory)
            .unwrap_or_else(|error| panic!("seed {seed}, generation {generation}: {error}"));
        let in_log = seqs.into_iter().filter(|seq| *seq > told.seq_in_tables);
        let seqs: Vec<u64> = told.in_tables.iter().copied().chain(in_log).collect();
        let context = format!("seed {seed}, generation {generation}");
        assert!(seqs.len() >= told.synced, "{context}: lost synced batches");
        let common = seqs.len().min(told.accepted.len());
        assert_eq!(seqs[..common], told.accepted[..common], "{context}");
        // A batch that failed may be there, but only after all that succeeded.
        assert!(seqs.len() <= told.accepted.len() + 1, "{context}");
        told.accepted = seqs;
        told.synced = told.synced.min(told.accepted.len());

        let nth = if dice(3) == 0 { dice(60) } else { 0 };
        let mut plan = FaultPlan::writes_from(nth, io::ErrorKind::StorageFull);
        plan.partial_append = dice(2) == 0;
        let faulty = FaultVfs::new(memory.clone(), plan);
        let _ = write_some(&faulty, &mut dice, &report, &mut next_number, &mut told);
        if dice(3) > 0 {
            let keep_percent = [0, 50, 90][dice(3) as usize];
            let seed = dice(1 << 30);
            memory = memory.power_cut(PowerCut { seed, keep_percent });
        }
    }
}

#[test]
fn synced_batches_survive_generations_of_crashes_and_never_with_a_gap() {
    for seed in 0..2000 {
        survive(seed);
    }
}

#[test]
fn a_log_is_continued_only_as_far_as_it_is_known_to_be_on_the_disk() {
    let vfs = disk();
    let mut wal = create(&vfs, 1, &[]).unwrap();
    let next = append(&mut wal, 1).unwrap();
    wal.sync().unwrap();
    assert_eq!(replay_all(&vfs).unwrap().1.predecessors(), None);
    // The next batch tells of the sync before it, and not of itself.
    let (number, len) = (FileNumber(1), wal.len());
    append(&mut wal, next).unwrap();
    assert_eq!(replay_all(&vfs).unwrap().1.predecessors(), None);
    let len_with_both = wal.len();
    assert!(len_with_both > len);
    // Closing leaves a seal, which is no part of what a successor names.
    wal.close().unwrap();
    let len = len_with_both;
    let named = replay_all(&vfs).unwrap().1.predecessors();
    assert_eq!(named, Some(vec![Predecessor { number, len }]));
    // A file without a batch is named as empty.
    create(&vfs, 2, &named.unwrap()).unwrap();
    let named = replay_all(&vfs).unwrap().1.predecessors().unwrap();
    let empty = Predecessor {
        number: FileNumber(2),
        len: 0,
    };
    assert_eq!(named, [Predecessor { number, len }, empty]);
    create(&vfs, 3, &named).unwrap();
    assert_eq!(replay_all(&vfs).unwrap().0, [1, next]);
}

#[test]
fn a_closed_log_knows_damage_to_its_last_batch() {
    let vfs = disk();
    let mut wal = create(&vfs, 1, &[]).unwrap();
    append(&mut wal, 1).unwrap();
    let end = wal.len() as usize;
    wal.close().unwrap();
    let mut bytes = read_whole(&vfs, &path(1)).unwrap();
    bytes[end - 1] ^= 1;
    overwrite(&vfs, &path(1), &bytes);
    let error = replay_all(&vfs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(
        error.to_string().contains("000001.wal at offset"),
        "{error}"
    );
}

#[test]
fn a_replay_writes_nothing() {
    let memory = disk();
    let mut wal = create(&memory, 1, &[]).unwrap();
    append(&mut wal, 1).unwrap();
    let plan = FaultPlan::writes_from(1, io::ErrorKind::ReadOnlyFilesystem);
    let read_only = FaultVfs::new(memory, plan);
    assert_eq!(replay_all(&read_only).unwrap().0, [1]);
    assert_eq!(read_only.calls(), 0);
}

#[test]
fn limits_are_errors_that_leave_the_batch_as_it_was() {
    let mut batch = BatchEncoder::default();
    let keyspace = KeyspaceId(0);
    let longest = vec![1; KEY_BYTES_MAX];
    batch
        .push(&WalOp::Delete {
            keyspace,
            key: &longest,
        })
        .unwrap();
    let before = batch.clone();
    let too_long = vec![1; KEY_BYTES_MAX + 1];
    let error = batch
        .push(&WalOp::Delete {
            keyspace,
            key: &too_long,
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!((batch.count(), batch.user_bytes()), (1, KEY_BYTES_MAX));
    assert_eq!(batch.into_payload(), before.into_payload());
}

#[test]
fn impossible_batches_are_refused() {
    for (seqs, count) in [
        ([5, 5], 1),
        ([5, 4], 1),
        ([1, 1 << 56], 1),
        ([1, 2], 0),
        ([1, 2], 9),
    ] {
        let vfs = disk();
        let mut wal = create(&vfs, 1, &[]).unwrap();
        let op = batch(3).into_payload();
        wal.push(SeqNo(seqs[0]), 1, &[&op]).unwrap();
        wal.push(SeqNo(seqs[1]), count, &[&op]).unwrap();
        wal.hand_over().unwrap();
        let result = replay(&vfs, dir(), &wal_files(&vfs), &[], &mut |_, _| Ok(()));
        assert_eq!(
            result.unwrap_err().kind(),
            ErrorKind::Corruption,
            "{seqs:?} {count}"
        );
    }
}

fn any_op() -> impl Strategy<Value = (u8, u32, Vec<u8>, Vec<u8>)> {
    (0u8..4, any::<u32>(), any::<Vec<u8>>(), any::<Vec<u8>>())
}

fn borrow(op: &(u8, u32, Vec<u8>, Vec<u8>)) -> WalOp<'_> {
    let keyspace = KeyspaceId(op.1);
    let (key, value) = (op.2.as_slice(), op.3.as_slice());
    match op.0 {
        0 => WalOp::Put {
            keyspace,
            key,
            value,
        },
        1 => WalOp::Delete { keyspace, key },
        kind => WalOp::DeleteRange {
            keyspace,
            start: key,
            end: (kind == 2).then_some(value),
        },
    }
}

proptest! {
    #[test]
    fn batches_round_trip(ops in prop::collection::vec(any_op(), 0..30)) {
        let mut batch = BatchEncoder::default();
        for op in &ops {
            batch.push(&borrow(op)).unwrap();
        }
        let count = batch.count() as usize;
        let payload = batch.into_payload();
        let decoded: Result<Vec<_>> = decode_batch(&payload).collect();
        let expected: Vec<_> = ops.iter().map(borrow).collect();
        prop_assert_eq!(decoded.unwrap(), expected);
        prop_assert_eq!(count, ops.len());
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(bytes: Vec<u8>) {
        let failed = decode_batch(&bytes).filter(Result::is_err).count();
        prop_assert!(failed <= 1);
        let _ = decode_predecessors(&bytes);
    }
}

/// The file of the example in `docs/format.md`, made with a fixed id.
fn example_file() -> Vec<u8> {
    let mut batch = BatchEncoder::default();
    let put = WalOp::Put {
        keyspace: KeyspaceId(0),
        key: b"key",
        value: b"value",
    };
    let delete = WalOp::Delete {
        keyspace: KeyspaceId(1),
        key: b"old",
    };
    batch.push(&put).unwrap();
    batch.push(&delete).unwrap();
    let first_record = encode_predecessors(&[Predecessor {
        number: FileNumber(1),
        len: 4096,
    }]);
    let mut second_record = BatchHeader {
        first_seq: SeqNo(7),
        count: batch.count(),
    }
    .encode();
    second_record.extend_from_slice(&batch.into_payload());
    let id = crate::types::FileId(0x0706_0504_0302_0100);
    let records = [first_record.as_slice(), &second_record];
    crate::log::encode_for_tests(crate::log::LogKind::Wal, FileNumber(2), id, &records)
}

#[test]
fn the_example_of_the_format_document_is_true() {
    let document = include_str!("../../../docs/format.md");
    let (_, after) = document.split_once("```hex\n").unwrap();
    let (example, _) = after.split_once("```").unwrap();
    let digits = example.lines().flat_map(|line| line.split('|').next());
    let digits = digits.flat_map(str::split_whitespace);
    let bytes: Vec<u8> = digits
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(bytes, example_file(), "expected {:02x?}", example_file());

    let vfs = disk();
    overwrite_new(&vfs, &path(2), &bytes);
    let mut seen = Vec::new();
    let report = replay(&vfs, dir(), &[FileNumber(2)], &[], &mut |seq, payload| {
        seen.push((seq, decode_batch(payload).count()));
        Ok(())
    });
    assert_eq!(seen, [(SeqNo(7), 2)]);
    let number = FileNumber(2);
    let len = bytes.len() as u64;
    let is_witnessed = false;
    assert_eq!(
        report.unwrap().files,
        [ReplayedFile {
            number,
            len,
            is_witnessed
        }]
    );
}

fn overwrite_new(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) {
    vfs.create(path).unwrap().append(bytes).unwrap();
}

/// A group of batches goes to the file at once, and of an append that failed the first may be there
/// whole: the next process showed batches of which their writers had been told that they failed.
#[test]
fn what_a_failed_append_left_is_cut_back() {
    let memory = disk();
    let vfs = FaultVfs::new(memory.clone(), FaultPlan::default());
    let mut wal = create(&vfs, 1, &[]).unwrap();
    let next = append(&mut wal, 1).unwrap();
    let len = wal.len();
    vfs.arm(FaultPlan::once(FaultOp::Append, 1, io::ErrorKind::StorageFull).with_partial_append());
    let mut seq = next;
    for _ in 0..8 {
        seq = push(&mut wal, seq).unwrap();
    }
    wal.hand_over().unwrap_err();
    assert!(replay_all(&memory).unwrap().0.len() > 1);
    wal.cut_back(len).unwrap();
    assert_eq!(read_whole(&memory, &path(1)).unwrap().len() as u64, len);
    let without_what_was_not_synced = PowerCut {
        seed: 1,
        keep_percent: 0,
    };
    let after = memory.power_cut(without_what_was_not_synced);
    for disk in [&memory, &after] {
        assert_eq!(replay_all(disk).unwrap().0, [1]);
    }
    // A successor names it as far as it goes.
    let named = wal.finish().unwrap();
    let mut next_wal = create(&vfs, 2, &[named]).unwrap();
    append(&mut next_wal, seq).unwrap();
    assert_eq!(replay_all(&memory).unwrap().0, [1, seq]);
    // Nothing that was synced can be cut off.
    next_wal.sync().unwrap();
    assert!(next_wal.cut_back(len).is_err());
}
