//! Verification and salvage of sound and damaged tables.

use super::*;
use crate::error::ErrorKind;
use crate::options::{Compression, FilterPolicy, Layout};
use crate::table::salvage::SalvageReport;
use crate::table::{Loss, Salvaged, salvage};

fn entries(count: u64) -> Vec<TestEntry> {
    (0..count)
        .map(|n| TestEntry {
            key: format!("dir/{n:04}").into_bytes(),
            seq: n,
            value: (n % 9 != 0).then(|| text(n, (n * 53 % 700) as usize)),
        })
        .collect()
}

fn options(dictionary_bytes: u32) -> TableOptions {
    TableOptions {
        layout: Layout::Blocks { bytes: 1024 },
        compression: Compression::Zstd { level: 3 },
        dictionary_bytes,
        filter: FilterPolicy::Fuse8,
        key_block_bytes: 256,
        inline_value_bytes_max: 32,
    }
}

fn tombstone() -> RangeTombstone {
    RangeTombstone {
        start: b"x".to_vec(),
        end: None,
        seq: SeqNo(77),
    }
}

fn salvage_bytes(bytes: &[u8]) -> Result<(Vec<TestEntry>, SalvageReport)> {
    let vfs = MemVfs::new();
    let path = Path::new("t/000001.table");
    vfs.create_dir_all(Path::new("t")).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
    let mut got = Vec::new();
    let report = salvage(&vfs, path, None, SeqNo::ZERO, &mut |found| {
        let Salvaged::Entry(entry) = found else {
            return Ok(());
        };
        got.push(TestEntry {
            key: entry.key.to_vec(),
            seq: entry.seq.0,
            value: (entry.kind == EntryKind::Put).then(|| entry.value.to_vec()),
        });
        Ok(())
    })?;
    Ok((got, report))
}

/// The orphans of a damaged table.
fn orphans_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let vfs = MemVfs::new();
    let path = Path::new("t/000001.table");
    vfs.create_dir_all(Path::new("t")).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
    let mut orphans = Vec::new();
    let report = salvage(&vfs, path, None, SeqNo::ZERO, &mut |found| {
        if let Salvaged::Orphan(orphan) = found {
            orphans.push(orphan.bytes.to_vec());
        }
        Ok(())
    });
    assert_eq!(report.unwrap().orphans, orphans.len() as u64);
    orphans
}

#[test]
fn a_sound_table_verifies_and_salvages_whole() {
    let entries = entries(200);
    for dictionary_bytes in [0, 512] {
        let fixture = build(&entries, &[tombstone()], &options(dictionary_bytes), 1).unwrap();
        for mode in [ReadMode::Mmap, ReadMode::Pread] {
            let reader = fixture.open(mode, 40).unwrap();
            let mut seen = 0;
            let report = reader
                .verify(&mut |bytes| {
                    seen += bytes;
                    Ok(())
                })
                .unwrap();
            assert!(report.problems.is_empty(), "{:?}", report.problems);
            assert_eq!(report.entries, 200);
            assert!(seen > fixture.summary.stored_bytes * 9 / 10);
        }
        let (got, report) = salvage_bytes(&fixture.bytes()).unwrap();
        assert_eq!(report.losses, []);
        assert_eq!(report.range_tombstones, [tombstone()]);
        assert_eq!(got, entries);
    }
}

#[test]
fn verify_stops_when_told_to() {
    let fixture = build(&entries(50), &[], &options(0), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let error = reader
        .verify(&mut |_| Err(crate::error::Error::new(ErrorKind::Cancelled, "enough")))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn every_damaged_byte_is_found_and_costs_little() {
    let entries = entries(100);
    let good = build(&entries, &[tombstone()], &options(0), 1)
        .unwrap()
        .bytes();
    let footer = good.len() - crate::table::footer::FOOTER_BYTES;
    let mut unnoticed = 0;
    for at in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        match open_bytes(&bad, ReadMode::Mmap) {
            Ok(reader) => {
                let report = reader.verify(&mut |_| Ok(())).unwrap();
                unnoticed += usize::from(report.problems.is_empty());
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
        }
        let (got, report) = salvage_bytes(&bad).unwrap();
        let lost: Vec<_> = report.losses.iter().collect();
        // A key block of these holds about thirty entries, a frame three.
        assert!(got.len() + 36 >= entries.len(), "byte {at}: {lost:?}");
        for entry in &got {
            assert!(entries.contains(entry));
        }
        if at < footer && got.len() < entries.len() {
            assert!(!report.losses.is_empty(), "byte {at}");
        }
        for loss in &report.losses {
            if let Loss::Value { key, .. } = loss {
                assert!(!got.iter().any(|entry| entry.key == *key));
            }
        }
    }
    // The footer's section table handle is checked on opening; what is left is padding.
    assert!(
        unnoticed <= 6 * 7,
        "{unnoticed} damaged bytes went unnoticed"
    );
}

#[test]
fn a_table_without_its_end_gives_back_what_its_key_blocks_name() {
    let entries = entries(200);
    let good = build(&entries, &[], &options(0), 1).unwrap();
    let reader = good.open(ReadMode::Mmap, 0).unwrap();
    let index = reader.index().unwrap();
    let cut = index.extent(index.len() / 2).unwrap().start as usize;
    let (got, report) = salvage_bytes(&good.bytes()[..cut]).unwrap();
    assert!(got.len() > 60 && got.len() < 140, "{}", got.len());
    assert_eq!(got, entries[..got.len()]);
    let after = got.last().map(|entry| entry.key.clone());
    let keys = Loss::Keys {
        after,
        before: None,
    };
    assert_eq!(report.losses, [keys, Loss::RangeTombstones]);
}

#[test]
fn a_damaged_key_block_is_told_by_its_neighbours() {
    let entries = entries(200);
    let good = build(&entries, &[], &options(0), 1).unwrap();
    let reader = good.open(ReadMode::Mmap, 0).unwrap();
    let hole = reader.index().unwrap().extent(3).unwrap();
    let mut bad = good.bytes();
    bad[hole.start as usize + 30] ^= 1;
    let (got, report) = salvage_bytes(&bad).unwrap();
    let at = (0..got.len()).find(|&at| got[at] != entries[at]).unwrap();
    let keys = Loss::Keys {
        after: Some(got[at - 1].key.clone()),
        before: Some(got[at].key.clone()),
    };
    assert_eq!(report.losses, [Loss::Bytes(hole), keys]);
    let reader = open_bytes(&bad, ReadMode::Pread).unwrap();
    assert_eq!(reader.verify(&mut |_| Ok(())).unwrap().problems.len(), 1);

    // Their values are sound, and come out end to end as far as they share a frame.
    let inline_bytes_max = options(0).inline_value_bytes_max as usize;
    let lost = entries.iter().filter(|entry| !got.contains(entry));
    let values = lost.filter_map(|entry| entry.value.clone());
    let lost: Vec<Vec<u8>> = values
        .filter(|value| value.len() > inline_bytes_max)
        .collect();
    let orphans = orphans_of(&bad);
    assert!(lost.len() > 3 && orphans.len() > 1, "{}", orphans.len());
    assert_eq!(orphans.concat(), lost.concat());
    assert!(orphans_of(&good.bytes()).is_empty());
}

#[test]
fn a_table_without_any_key_block_gives_its_frames_as_orphans() {
    let entries = entries(60);
    let good = build(&entries, &[], &options(512), 1).unwrap();
    let reader = good.open(ReadMode::Mmap, 0).unwrap();
    let cut = reader.index().unwrap().extent(0).unwrap().start as usize;
    let orphans = orphans_of(&good.bytes()[..cut]);
    assert_eq!(orphans.len() as u64, reader.properties().frames);
    let values = entries.iter().filter_map(|entry| entry.value.as_ref());
    let framed: u64 = values.map(|value| value.len() as u64).sum::<u64>()
        - reader.properties().inline_value_bytes;
    assert_eq!(orphans.concat().len() as u64, framed);
}
