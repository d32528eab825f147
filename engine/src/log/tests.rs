use std::io;
use std::path::Path;

use super::*;
use crate::vfs::{FaultOp, FaultPlan, FaultVfs, MemVfs, PowerCut, Vfs, read_whole};

const PATH: &str = "/logs/000001.wal";

fn path() -> &'static Path {
    Path::new(PATH)
}

fn disk() -> MemVfs {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("/logs")).unwrap();
    vfs
}

fn writer(vfs: &dyn Vfs) -> LogWriter {
    LogWriter::create(vfs, path(), LogKind::Wal, FileNumber(1)).unwrap()
}

fn write_file(bytes: &[u8]) -> MemVfs {
    let vfs = disk();
    vfs.create(path()).unwrap().append(bytes).unwrap();
    vfs
}

/// Payloads, and the bytes that were cut.
fn read(vfs: &dyn Vfs) -> Result<(Vec<Vec<u8>>, u64)> {
    let Opened::Log(mut log) = LogReader::open(vfs, path(), LogKind::Wal)? else {
        return Ok((Vec::new(), 0));
    };
    let mut payloads = Vec::new();
    while let Some(record) = log.next()? {
        payloads.push(record.payload.to_vec());
    }
    Ok((payloads, log.cut_bytes()))
}

/// A log of records of which the first `synced` were synced one by one, and where each record ends.
fn small_log(records: &[&[u8]], synced: usize) -> (Vec<u8>, Vec<usize>) {
    let vfs = disk();
    let mut log = writer(&vfs);
    log.sync().unwrap();
    let mut ends = vec![log.len() as usize];
    for (index, record) in records.iter().enumerate() {
        log.push(&[record]).unwrap();
        log.hand_over().unwrap();
        ends.push(log.len() as usize);
        if index < synced {
            log.sync().unwrap();
        }
    }
    (read_whole(&vfs, path()).unwrap(), ends)
}

#[test]
fn records_of_every_size_are_read_back() {
    let vfs = disk();
    let mut log = writer(&vfs);
    let sizes = [1, 100, 65_535, 65_536, 65_537, 3 << 20, 5];
    for &size in &sizes {
        let (left, right) = (vec![7; size / 2], vec![9; size - size / 2]);
        log.push(&[&left, &right]).unwrap();
    }
    log.sync().unwrap();
    let (payloads, cut) = read(&vfs).unwrap();
    let found: Vec<usize> = payloads.iter().map(Vec::len).collect();
    assert_eq!((found.as_slice(), cut), (sizes.as_slice(), 0));
    assert!(payloads.iter().all(|payload| payload.ends_with(&[9])));
}

#[test]
fn a_log_cut_at_any_byte_yields_its_whole_records() {
    let records: [&[u8]; 4] = [b"one", b"two", &[0; 40], b"four"];
    let (bytes, ends) = small_log(&records, 2);
    for len in 0..=bytes.len() {
        let (payloads, cut) = read(&write_file(&bytes[..len])).unwrap();
        let whole = ends.iter().skip(1).filter(|&&end| end <= len).count();
        assert_eq!(payloads, records[..whole], "{len} bytes");
        if len >= HEADER_BYTES {
            assert_eq!(cut as usize, len - ends[whole], "{len} bytes");
        }
    }
}

#[test]
fn zeros_after_a_cut_are_a_torn_tail() {
    let records: [&[u8]; 3] = [b"one", b"two", b"three"];
    let (bytes, ends) = small_log(&records, 0);
    for len in 0..=bytes.len() {
        let mut zeroed = bytes[..len].to_vec();
        zeroed.resize(bytes.len().max(2000), 0);
        let (payloads, _) = read(&write_file(&zeroed)).unwrap();
        // A record that ends in zeros of its own is whole all the same.
        let whole = ends.iter().skip(1).filter(|&&end| end <= len).count();
        assert_eq!(payloads, records[..whole], "{len} bytes");
    }
}

#[test]
fn damage_before_a_synced_offset_is_a_hole_and_after_it_a_torn_tail() {
    let records: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];
    let (bytes, ends) = small_log(&records, 2);
    // The third record says that the first two were synced, the fourth says no more.
    let witnessed = ends[2];
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let found = read(&write_file(&damaged));
            if at < HEADER_BYTES {
                // Only a last byte that became zero makes it a header that was never finished.
                assert!(
                    found.is_err() || damaged[HEADER_BYTES - 1] == 0,
                    "byte {at}"
                );
            } else if at < witnessed {
                let error = found.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption);
                let record = ends.iter().rposition(|&end| end <= at).unwrap();
                assert_eq!(
                    error.offset(),
                    Some(ends[record] as u64),
                    "byte {at}: {error}"
                );
            } else {
                let whole = ends.iter().skip(1).filter(|&&end| end <= at).count();
                assert_eq!(found.unwrap().0, records[..whole], "byte {at}");
            }
        }
    }
}

#[test]
fn a_seal_bears_witness_for_the_last_record() {
    let vfs = disk();
    let mut log = writer(&vfs);
    log.push(&[b"only"]).unwrap();
    log.sync().unwrap();
    log.seal().unwrap();
    log.hand_over().unwrap();
    assert_eq!(read(&vfs).unwrap().0, [b"only"]);
    let mut bytes = read_whole(&vfs, path()).unwrap();
    bytes[HEADER_BYTES + RECORD_HEADER_BYTES] ^= 1;
    assert_eq!(
        read(&write_file(&bytes)).unwrap_err().kind(),
        ErrorKind::Corruption
    );
}

#[test]
fn a_witness_is_found_far_behind_the_hole() {
    let filler = vec![3; 2 << 20];
    for fill in [filler.len(), filler.len() - 7, filler.len() - 31] {
        let vfs = disk();
        let mut log = writer(&vfs);
        log.push(&[b"lost"]).unwrap();
        log.push(&[&filler[..fill]]).unwrap();
        log.sync().unwrap();
        log.push(&[b"witness"]).unwrap();
        log.hand_over().unwrap();
        let mut bytes = read_whole(&vfs, path()).unwrap();
        bytes[HEADER_BYTES + 2] ^= 1;
        // Without its header the filler cannot be skipped by its length either.
        let second = HEADER_BYTES + RECORD_HEADER_BYTES + 4;
        bytes[second] ^= 1;
        assert_eq!(
            read(&write_file(&bytes)).unwrap_err().kind(),
            ErrorKind::Corruption
        );
    }
}

#[test]
fn a_record_from_elsewhere_is_no_record() {
    let (first, ends) = small_log(&[b"aaaa", b"bbbb"], 0);
    // The same place in another file, and another place in the same file.
    let (mut other, _) = small_log(&[b"cccc", b"dddd"], 0);
    other[ends[1]..].copy_from_slice(&first[ends[1]..]);
    assert_eq!(read(&write_file(&other)).unwrap().0, [b"cccc"]);
    let mut moved = first.clone();
    moved.copy_within(ends[0]..ends[1], ends[1]);
    assert_eq!(read(&write_file(&moved)).unwrap().0, [b"aaaa"]);
}

#[test]
fn a_trusted_length_ends_the_log_and_vouches_for_it() {
    let records: [&[u8]; 3] = [b"one", b"two", b"three"];
    let (bytes, ends) = small_log(&records, 0);
    let trusting = |bytes: &[u8], len: usize| -> Result<usize> {
        let vfs = write_file(bytes);
        let Opened::Log(mut log) = LogReader::open(&vfs, path(), LogKind::Wal)? else {
            panic!("unfinished");
        };
        log.trust(len as u64)?;
        let mut count = 0;
        while log.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    assert_eq!(trusting(&bytes, ends[2]).unwrap(), 2);
    assert_eq!(trusting(&bytes, ends[3]).unwrap(), 3);
    trusting(&bytes, ends[3] - 1).unwrap_err();
    trusting(&bytes[..ends[2]], ends[3]).unwrap_err();
    let mut damaged = bytes.clone();
    damaged[ends[1] + 3] ^= 1;
    trusting(&damaged, ends[3]).unwrap_err();
    assert_eq!(trusting(&damaged, ends[1]).unwrap(), 1);
}

#[test]
fn a_failed_append_ends_the_file_where_it_was_and_can_still_be_synced() {
    let memory = disk();
    let faulty = FaultVfs::new(memory.clone(), FaultPlan::default());
    let mut log = writer(&faulty);
    memory.sync_dir(Path::new("/logs")).unwrap();
    log.push(&[b"kept"]).unwrap();
    log.hand_over().unwrap();
    let len = log.len();
    let full = FaultPlan::once(FaultOp::Append, 1, io::ErrorKind::StorageFull);
    faulty.arm(full.with_partial_append());
    log.push(&[b"lost"]).unwrap();
    assert_eq!(log.hand_over().unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(log.push(&[b"more"]).unwrap_err().kind(), ErrorKind::Failed);
    log.sync().unwrap();
    assert_eq!(log.len(), len);
    let (seed, keep_percent) = (1, 0);
    let after = memory.power_cut(PowerCut { seed, keep_percent });
    let (payloads, cut) = read(&after).unwrap();
    assert_eq!(payloads, [b"kept"]);
    assert!(cut > 0);
}

#[test]
fn a_failed_sync_is_never_repeated() {
    let plan = FaultPlan::once(FaultOp::Sync, 1, io::ErrorKind::Other);
    let faulty = FaultVfs::new(disk(), plan);
    let mut log = writer(&faulty);
    log.push(&[b"lost"]).unwrap();
    assert_eq!(log.sync().unwrap_err().kind(), ErrorKind::Io);
    for _ in 0..2 {
        assert_eq!(log.sync().unwrap_err().kind(), ErrorKind::Failed);
        assert_eq!(log.push(&[b"x"]).unwrap_err().kind(), ErrorKind::Failed);
    }
    assert_eq!(faulty.calls(), 1);
}

#[test]
fn the_wrong_kind_of_file_is_named() {
    let vfs = disk();
    let mut log = LogWriter::create(&vfs, path(), LogKind::Manifest, FileNumber(1)).unwrap();
    log.sync().unwrap();
    let error = read(&vfs).unwrap_err();
    assert!(
        error.to_string().contains("not a write-ahead log"),
        "{error}"
    );
    assert!(error.to_string().contains(PATH), "{error}");
}
