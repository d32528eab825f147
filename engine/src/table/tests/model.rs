//! Random tables, written and read under many options, against a sorted map.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::cache::FrameCache;
use crate::error::ErrorKind;
use crate::iter::InternalIterator;
use crate::options::{ClusterOptions, Compression, FilterPolicy, Layout};
use crate::table::{Place, key_hash};

type VersionedKey = (Vec<u8>, Reverse<u64>);
type Model = BTreeMap<VersionedKey, Option<Vec<u8>>>;

fn options() -> impl Strategy<Value = TableOptions> {
    let compression = prop_oneof![
        Just(Compression::None),
        Just(Compression::Zstd { level: -3 }),
        Just(Compression::Zstd { level: 3 }),
    ];
    let filter = prop_oneof![
        Just(FilterPolicy::None),
        Just(FilterPolicy::Fuse8),
        Just(FilterPolicy::Fuse16),
    ];
    let blocks = prop_oneof![Just(1024u32), Just(4096), Just(65536)];
    let blocks = blocks.prop_map(|bytes| Layout::Blocks { bytes });
    let clusters = (
        prop_oneof![Just(1024u32), Just(16 << 10), Just(1 << 20)],
        prop_oneof![Just(0u32), Just(1024)],
        prop_oneof![Just(0u32), Just(100)],
    );
    let clusters = clusters.prop_map(|(window, shared, saved)| {
        Layout::Clustered(ClusterOptions {
            window_bytes: window,
            shared_frame_bytes: shared,
            saved_bytes_per_1000_decoded: saved,
            ..ClusterOptions::default()
        })
    });
    (
        prop_oneof![blocks, clusters],
        compression,
        prop_oneof![3 => Just(0u32), 1 => Just(1024)],
        filter,
        prop_oneof![Just(256u32), Just(4096)],
        prop_oneof![Just(0u32), Just(16), Just(128)],
    )
        .prop_map(
            |(layout, compression, dictionary, filter, key_block, inline)| TableOptions {
                layout,
                compression,
                dictionary_bytes: dictionary,
                filter,
                key_block_bytes: key_block,
                inline_value_bytes_max: inline,
            },
        )
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // Few bytes and letters: shared prefixes, keys that are prefixes of others, repeats.
        prop::collection::vec(
            prop_oneof![Just(b'a'), Just(b'b'), Just(0u8), Just(0xff)],
            0..6
        ),
        "[a-c]{1,2}/[a-z]{1,8}\\.rs".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 200..400),
    ]
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Vec::new())),
        3 => (any::<u64>(), 0usize..200).prop_map(|(seed, len)| Some(text(seed % 7, len))),
        3 => (any::<u64>(), 0usize..6000).prop_map(|(seed, len)| Some(text(seed % 7, len))),
        1 => prop::collection::vec(any::<u8>(), 0..3000).prop_map(Some),
    ]
}

fn entries() -> impl Strategy<Value = Model> {
    let seq = prop_oneof![3 => Just(0u64), 2 => 0u64..6, 1 => 0u64..1 << 40];
    prop::collection::vec((key(), seq, value()), 0..120).prop_map(|entries| {
        let entries = entries.into_iter();
        entries
            .map(|(key, seq, value)| ((key, Reverse(seq)), value))
            .collect()
    })
}

fn as_list(model: &Model) -> Vec<TestEntry> {
    let entry = |((key, seq), value): (&VersionedKey, &Option<Vec<u8>>)| TestEntry {
        key: key.clone(),
        seq: seq.0,
        value: value.clone(),
    };
    model.iter().map(entry).collect()
}

fn current(iter: &impl InternalIterator, base: u64) -> Option<TestEntry> {
    iter.valid().then(|| {
        let key = iter.key();
        let value = iter.value().unwrap();
        TestEntry {
            key: key.user_key.to_vec(),
            seq: key.seq.0 - base,
            value: (key.kind == EntryKind::Put).then(|| value.to_vec()),
        }
    })
}

/// Every key the model knows, and neighbours of them.
fn probes(list: &[TestEntry]) -> Vec<Vec<u8>> {
    let mut probes = vec![Vec::new(), vec![0xff; 500]];
    for entry in list {
        probes.push(entry.key.clone());
        probes.push([entry.key.as_slice(), &[0]].concat());
        probes.push(entry.key[..entry.key.len().saturating_sub(1)].to_vec());
    }
    probes
}

fn check_gets(reader: &TableReader, list: &[TestEntry], base: u64, cache: Option<&FrameCache>) {
    let stats = Stats::new();
    for fill_cache in [false, true] {
        let context = ReadContext {
            cache,
            stats: &stats,
            trace: None,
            fill_cache,
            held: None,
            for_get: false,
        };
        let mut buffer = b"left over".to_vec();
        for key in probes(list) {
            let hash = key_hash(&key);
            for seq_max in [SeqNo::MAX, SeqNo(base), SeqNo(base + 3)] {
                let want = list
                    .iter()
                    .find(|entry| entry.key == key && entry.seq + base <= seq_max.0);
                let got = reader.find(&key, hash, seq_max, &context).unwrap();
                assert_eq!(got.is_some(), want.is_some(), "{key:?} at {seq_max}");
                let (Some(got), Some(want)) = (got, want) else {
                    continue;
                };
                assert_eq!(got.seq.0, want.seq + base);
                assert_eq!(got.kind == EntryKind::Put, want.value.is_some());
                let value = want.value.clone().unwrap_or_default();
                assert_eq!(reader.read(&got.place, &context).unwrap(), value);
                reader.read_into(&got.place, &mut buffer, &context).unwrap();
                assert_eq!(buffer, value);
                if let Place::Frame(place) = got.place {
                    let frame = reader.frame(place.frame, &context).unwrap();
                    assert_eq!(reader.value_in(&frame, place).unwrap(), value);
                }
            }
            if base > 0 {
                let before = SeqNo(base - 1);
                assert_eq!(reader.find(&key, hash, before, &context).unwrap(), None);
            }
        }
    }
}

fn check_walks(reader: &Arc<TableReader>, list: &[TestEntry], base: u64) {
    let mut iter = reader.iter(plain_iter());
    assert!(!iter.valid());
    iter.seek_to_first().unwrap();
    for entry in list {
        assert_eq!(current(&iter, base).as_ref(), Some(entry));
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    for entry in list.iter().rev() {
        assert_eq!(current(&iter, base).as_ref(), Some(entry));
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
    for key in probes(list) {
        for seq in [0, 2, 1 << 41] {
            let below = |entry: &TestEntry| {
                crate::iter::compare(&entry.key, SeqNo(entry.seq), &key, SeqNo(seq)).is_lt()
            };
            let split = list.partition_point(below);
            iter.seek(&key, SeqNo(seq + base)).unwrap();
            assert_eq!(current(&iter, base).as_ref(), list.get(split));
            if iter.valid() {
                iter.prev().unwrap();
                let before = split.checked_sub(1).and_then(|before| list.get(before));
                assert_eq!(current(&iter, base).as_ref(), before);
                if iter.valid() {
                    iter.next().unwrap();
                    assert_eq!(current(&iter, base).as_ref(), list.get(split));
                }
            }
            iter.seek_before(&key, SeqNo(seq + base)).unwrap();
            let before = split.checked_sub(1).and_then(|before| list.get(before));
            assert_eq!(current(&iter, base).as_ref(), before);
        }
    }
    if base > 0 {
        for key in probes(list) {
            let split = list.partition_point(|entry| entry.key <= key);
            iter.seek(&key, SeqNo(base - 1)).unwrap();
            assert_eq!(current(&iter, base).as_ref(), list.get(split));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_read_as_they_were_written(
        model in entries(), options in options(), threads in 1usize..4,
        base in prop_oneof![Just(0u64), Just(1000)],
    ) {
        let list = as_list(&model);
        let fixture = build(&list, &[], &options, threads).unwrap();
        prop_assert_eq!(fixture.summary.entries, list.len() as u64);
        for mode in [ReadMode::Mmap, ReadMode::Pread] {
            let reader = fixture.open(mode, base).unwrap();
            check_gets(&reader, &list, base, None);
            let cache = FrameCache::new(1 << 20).unwrap();
            check_gets(&reader, &list, base, Some(&cache));
            check_walks(&reader, &list, base);
            if let (Some(first), Some(last)) = (list.first(), list.last()) {
                prop_assert_eq!(&reader.properties().smallest, &first.key);
                prop_assert_eq!(&reader.properties().largest, &last.key);
            }
        }
    }
}

#[test]
fn the_bytes_of_a_table_do_not_depend_on_threads() {
    let list: Vec<TestEntry> = (0..400u64)
        .map(|n| TestEntry {
            key: format!("{n:05}").into_bytes(),
            seq: n,
            value: Some(text(n, (n * 37 % 9000) as usize)),
        })
        .collect();
    for dictionary_bytes in [0, 2048] {
        let options = TableOptions {
            dictionary_bytes,
            ..TableOptions::blocks(6, 4096)
        };
        let body = |threads| {
            let fixture = build(&list, &[], &options, threads).unwrap();
            let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
            let mut bytes = fixture.bytes();
            // What differs between any two tables: the random id, and checksums salted with it.
            let frames: Vec<_> = (0..reader.properties().frames)
                .map(|frame| reader.directory().unwrap().extent(frame as u32).unwrap())
                .collect();
            let frames = frames.iter().map(|range| {
                bytes[range.start as usize + 12..range.start as usize + 16].fill(0);
                bytes[range.start as usize..range.end as usize].to_vec()
            });
            frames.collect::<Vec<_>>()
        };
        assert_eq!(body(1), body(4));
    }
}

#[test]
fn entries_out_of_order_are_refused_naming_both() {
    let entry = |key: &str, seq| TestEntry {
        key: key.into(),
        seq,
        value: Some(b"v".to_vec()),
    };
    for (first, second) in [("b", "a"), ("a", "a")] {
        let entries = [entry(first, 5), entry(second, 5)];
        let error = build(&entries, &[], &TableOptions::default(), 1)
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let message = error.to_string();
        let named = format!("\"{second}\" at 5 after \"{first}\" at 5");
        assert!(message.contains(&named), "{message}");
    }
}

#[test]
fn a_writer_dropped_unfinished_leaves_no_file() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    vfs.create_dir_all(Path::new("t")).unwrap();
    let path = Path::new("t/000001.table");
    let pool = CompressionPool::new(2);
    let options = TableOptions::default();
    let mut writer = TableWriter::create(&vfs, path.into(), &options, &pool).unwrap();
    let value = Bytes::from(text(1, 1 << 20));
    writer.add(b"k", SeqNo(1), EntryKind::Put, value).unwrap();
    assert!(vfs.exists(path).unwrap());
    drop(writer);
    assert!(!vfs.exists(path).unwrap());
}

#[test]
fn range_tombstones_widen_the_summary() {
    let tombstone = |start: &str, end: Option<&str>, seq| RangeTombstone {
        start: start.into(),
        end: end.map(Into::into),
        seq: SeqNo(seq),
    };
    let entries = [TestEntry {
        key: b"m".to_vec(),
        seq: 4,
        value: None,
    }];
    let options = TableOptions::default();
    let ranges = [tombstone("x", Some("z"), 9), tombstone("c", Some("d"), 2)];
    let fixture = build(&entries, &ranges, &options, 1).unwrap();
    let summary = &fixture.summary;
    assert_eq!(
        (&*summary.smallest, &*summary.largest),
        (&b"c"[..], &b"z"[..])
    );
    assert!(summary.largest_exclusive && !summary.unbounded_end);
    assert_eq!((summary.seq_min, summary.seq_max), (SeqNo(2), SeqNo(9)));
    let reader = fixture.open(ReadMode::Pread, 100).unwrap();
    let starts: Vec<_> = reader
        .range_tombstones()
        .iter()
        .map(|it| it.start.as_slice())
        .collect();
    assert_eq!(starts, [b"c", b"x"]);
    assert_eq!(reader.range_tombstones()[0].seq, SeqNo(102));

    let fixture = build(&[], &[tombstone("q", None, 7)], &options, 1).unwrap();
    assert_eq!(fixture.summary.smallest, b"q");
    assert!(fixture.summary.unbounded_end);
}

#[test]
fn versions_that_a_newer_one_hides_are_counted() {
    let entry = |key: &str, seq, value: Option<&str>| TestEntry {
        key: key.into(),
        seq,
        value: value.map(Into::into),
    };
    let list = [
        entry("a", 5, Some("new")),
        entry("a", 3, None),
        entry("a", 2, Some("old")),
        entry("b", 4, Some("only")),
        entry("c", 9, None),
        entry("c", 1, Some("gone")),
    ];
    let fixture = build(&list, &[], &TableOptions::default(), 1).unwrap();
    assert_eq!(fixture.summary.repeated_keys, Some(3));
    let reader = fixture.open(ReadMode::Pread, 0).unwrap();
    assert_eq!(reader.summary(), fixture.summary);
    let verified = reader.verify(&mut |_| Ok(())).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}

#[test]
fn a_scan_decodes_each_frame_once() {
    let list: Vec<TestEntry> = (0..300u64)
        .map(|n| TestEntry {
            key: format!("{n:05}").into_bytes(),
            seq: 0,
            // Every seventh value stands alone amid a block.
            value: Some(text(n, if n % 7 == 0 { 6000 } else { 700 })),
        })
        .collect();
    let fixture = build(&list, &[], &TableOptions::blocks(3, 4096), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let context = plain_iter();
    let stats = Arc::clone(&context.stats);
    let mut iter = reader.iter(context);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.next().unwrap();
    }
    assert_eq!(stats.get(crate::stats::Counter::FramesRead), 0);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.value().unwrap();
        iter.next().unwrap();
    }
    let frames = reader.properties().frames;
    assert_eq!(stats.get(crate::stats::Counter::FramesRead), frames);
}
