//! Whatever byte is damaged: an error or the right answer, never a wrong value, never a panic.

use super::*;
use crate::iter::InternalIterator;
use crate::options::{ClusterOptions, Compression, FilterPolicy, Layout};
use crate::table::{fuzzing, key_hash};

use proptest::prelude::*;

fn entries() -> Vec<TestEntry> {
    let mut entries: Vec<TestEntry> = (0..40u64)
        .map(|n| TestEntry {
            key: format!("dir/{n:03}").into_bytes(),
            seq: n,
            value: (n % 9 != 0).then(|| text(n, (n * 53 % 700) as usize)),
        })
        .collect();
    entries.push(TestEntry {
        key: b"dir/noise".to_vec(),
        seq: 3,
        value: Some(
            (0..900u64)
                .map(|n| key_hash(&n.to_le_bytes()) as u8)
                .collect(),
        ),
    });
    entries
}

fn options() -> Vec<TableOptions> {
    let small = TableOptions {
        layout: Layout::Blocks { bytes: 1024 },
        compression: Compression::Zstd { level: 3 },
        dictionary_bytes: 0,
        filter: FilterPolicy::Fuse8,
        key_block_bytes: 256,
        inline_value_bytes_max: 32,
    };
    vec![
        TableOptions {
            dictionary_bytes: 512,
            filter: FilterPolicy::Fuse16,
            ..small.clone()
        },
        small.clone(),
        TableOptions {
            layout: Layout::Clustered(ClusterOptions {
                window_bytes: 8 << 10,
                shared_frame_bytes: 256,
                ..ClusterOptions::default()
            }),
            ..small
        },
    ]
}

/// Checks that everything readable is right; errors are fine.
fn check(bytes: &[u8], mode: ReadMode, entries: &[TestEntry]) {
    let Ok(reader) = open_bytes(bytes, mode) else {
        return;
    };
    let stats = Stats::new();
    let context = plain(&stats);
    for entry in entries {
        let hash = key_hash(&entry.key);
        let Ok(found) = reader.find(&entry.key, hash, SeqNo::MAX, &context) else {
            continue;
        };
        let found = found.expect("a key vanished without an error");
        assert_eq!(found.seq.0, entry.seq);
        assert_eq!(found.kind == EntryKind::Put, entry.value.is_some());
        if let Ok(value) = reader.read(&found.place, &context) {
            assert_eq!(value, entry.value.clone().unwrap_or_default());
        }
    }
    let mut iter = reader.iter(plain_iter());
    let mut walked = 0;
    let mut outcome = iter.seek_to_first();
    while outcome.is_ok() && iter.valid() {
        let entry = &entries[walked];
        assert_eq!(iter.key().user_key, entry.key);
        if let Ok(value) = iter.value() {
            assert_eq!(value, entry.value.clone().unwrap_or_default());
        }
        walked += 1;
        outcome = iter.next();
    }
    assert!(outcome.is_err() || walked == entries.len());
}

#[test]
fn every_damaged_byte_is_an_error_or_harmless() {
    let entries = entries();
    for options in options() {
        let good = build(&entries, &[], &options, 1).unwrap().bytes();
        check(&good, ReadMode::Mmap, &entries);
        // Flips and ways to read take turns, so that each meets every kind of field.
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= [0x01, 0x80, 0xff][at % 3];
            let mode = [ReadMode::Mmap, ReadMode::Pread][at % 2];
            check(&bad, mode, &entries);
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    let entries = entries();
    let good = build(&entries, &[], &options()[1], 1).unwrap().bytes();
    for len in 0..good.len() {
        assert!(open_bytes(&good[..len], ReadMode::Mmap).is_err());
    }
}

#[test]
fn one_damaged_frame_costs_only_its_values() {
    let entries = entries();
    let fixture = build(&entries, &[], &options()[1], 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let range = reader.directory().unwrap().extent(1).unwrap();
    let mut bad = fixture.bytes();
    bad[range.end as usize - 1] ^= 1;
    let reader = open_bytes(&bad, ReadMode::Pread).unwrap();
    let stats = Stats::new();
    let context = plain(&stats);
    let mut failed = 0;
    for entry in &entries {
        let found = reader
            .find(&entry.key, key_hash(&entry.key), SeqNo::MAX, &context)
            .unwrap()
            .unwrap();
        match reader.read(&found.place, &context) {
            Ok(value) => assert_eq!(value, entry.value.clone().unwrap_or_default()),
            Err(error) => {
                failed += 1;
                assert_eq!(error.offset(), Some(range.start));
                assert_eq!(error.path(), Some(Path::new("t/000001.table")));
            }
        }
    }
    assert!(failed > 0 && failed < 10, "{failed} values lost");
}

/// Past the checksums, a file may say anything: nothing may panic, hang or ask for much memory.
#[test]
fn damage_behind_right_checksums_is_survived() {
    let entries = entries();
    for options in options() {
        let good = build(&entries, &[], &options, 1).unwrap().bytes();
        for at in (0..good.len()).step_by(3) {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            read_repaired(bad);
        }
    }
}

fn read_repaired(mut bytes: Vec<u8>) {
    fuzzing::repair_checksums(&mut bytes);
    let vfs = MemVfs::new();
    let path = Path::new("t/000001.table");
    vfs.create_dir_all(Path::new("t")).unwrap();
    vfs.create(path).unwrap().append(&bytes).unwrap();
    fuzzing::read_everything(&vfs, path, SeqNo::ZERO);
}

/// A first restart point that led behind the first entry made a walk back stand still for ever.
#[test]
fn restart_points_behind_their_entries_end_a_walk_back() {
    let good = build(&entries(), &[], &options()[1], 1).unwrap();
    let reader = good.open(ReadMode::Pread, 0).unwrap();
    let end = reader.index().unwrap().extent(0).unwrap().end as usize;
    let bytes = good.bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let first = end - 4 - 4 * word(end - 4) as usize;
    assert_eq!(word(first), 0);
    for offset in 1..200 {
        let mut bad = bytes.clone();
        bad[first] = offset;
        read_repaired(bad);
    }
}

proptest! {
    #[test]
    fn scattered_damage_behind_right_checksums_is_survived(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut bytes = build(&entries(), &[], &options()[0], 1).unwrap().bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_repaired(bytes);
    }

    #[test]
    fn any_bytes_at_all_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_repaired(bytes.clone());
        fuzzing::unit(&bytes);
        fuzzing::section_table(&bytes);
        fuzzing::key_block(&bytes);
        fuzzing::key_index(&bytes);
        fuzzing::frame_directory(&bytes);
        fuzzing::filter(&bytes);
        fuzzing::properties(&bytes);
        fuzzing::range_tombstones(&bytes);
        fuzzing::header_and_footer(&bytes);
    }
}
