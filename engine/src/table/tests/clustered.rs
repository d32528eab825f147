//! Clustered tables: every value of whatever they are given, what a base's loss costs, and what is
//! said of bases that cannot be.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::cache::FrameCache;
use crate::checksum::unit_checksum;
use crate::error::ErrorKind;
use crate::iter::InternalIterator;
use crate::options::{ClusterOptions, Compression, Layout};
use crate::stats::{Counter, GetTrace};
use crate::table::unit::{BASE_ORDINAL_BYTES, UNIT_HEADER_BYTES};
use crate::table::{HeldBases, Loss, Place, Salvaged, UnitCodec, key_hash, salvage};
use crate::types::FileNumber;

fn options() -> TableOptions {
    TableOptions {
        key_block_bytes: 256,
        ..TableOptions::clustered(3)
    }
}

pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let words = (0..).map(|n: u64| key_hash(&(seed << 32 | n).to_le_bytes()).to_le_bytes());
    words.flatten().take(len).collect()
}

/// A file of `lines` lines about a subject; versions of it differ in a line.
pub(super) fn file(subject: u64, version: u64, lines: u64) -> Vec<u8> {
    let line = |line: u64| {
        let mark = if line % 40 == 20 { version } else { 0 };
        let word = key_hash(&(subject << 32 | line).to_le_bytes()) % 1_000_000;
        format!("    let name_{word} = subject_{subject}({line}, {mark});\n").into_bytes()
    };
    (0..lines).flat_map(line).collect()
}

pub(super) fn entries(values: impl IntoIterator<Item = Vec<u8>>) -> Vec<TestEntry> {
    let entry = |(n, value)| TestEntry {
        key: format!("{n:06}").into_bytes(),
        seq: 1,
        value: Some(value),
    };
    values.into_iter().enumerate().map(entry).collect()
}

/// Three versions each of some files, and a few that are like nothing else.
fn versions() -> Vec<TestEntry> {
    let alike = (0..24u64).map(|n| file(n % 8, n / 8, 60));
    let lone = (0..8u64).map(|n| file(100 + n, 0, if n % 2 == 0 { 5 } else { 200 }));
    entries(alike.chain(lone))
}

/// The frames of a table: where each lies, and its base.
fn frames(reader: &TableReader) -> Vec<(std::ops::Range<u64>, Option<u32>)> {
    let extents = reader.frame_extents().unwrap().into_iter();
    let with_base = |extent: std::ops::Range<u64>| {
        let (_, base) = reader.frame_header(&extent).unwrap();
        (extent, base)
    };
    extents.map(with_base).collect()
}

/// The frame that a key's value lies in.
fn frame_of(reader: &TableReader, key: &[u8]) -> u32 {
    let stats = Stats::new();
    let found = reader
        .find(key, key_hash(key), SeqNo::MAX, &plain(&stats))
        .unwrap();
    match found.unwrap().place {
        Place::Frame(place) => place.frame,
        Place::Inline(_) => panic!("a value in its key block"),
    }
}

pub(super) fn check(fixture: &Fixture, entries: &[TestEntry]) {
    let mut salvaged = entries.iter();
    let report = salvage(
        &*fixture.vfs,
        &fixture.path,
        None,
        SeqNo::ZERO,
        &mut |got| {
            let Salvaged::Entry(got) = got else {
                panic!("no key is lost: {got:?}")
            };
            let entry = salvaged.next().unwrap();
            assert_eq!(
                (got.key, &got.value[..]),
                (&*entry.key, entry.value.as_deref().unwrap())
            );
            Ok(())
        },
    );
    assert!(report.unwrap().losses.is_empty() && salvaged.next().is_none());
    for mode in [ReadMode::Mmap, ReadMode::Pread] {
        let reader = fixture.open(mode, 0).unwrap();
        let report = reader.verify(&mut |_| Ok(())).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let small = FrameCache::new(64 << 10).unwrap();
        let large = FrameCache::new(64 << 20).unwrap();
        let stats = Stats::new();
        for cache in [None, Some(&small), Some(&large)] {
            for fill_cache in [false, true] {
                let context = ReadContext {
                    cache,
                    fill_cache,
                    ..plain(&stats)
                };
                let mut buffer = Vec::new();
                for entry in entries {
                    let hash = key_hash(&entry.key);
                    let found = reader.find(&entry.key, hash, SeqNo::MAX, &context);
                    let place = found.unwrap().unwrap().place;
                    let value = entry.value.as_deref().unwrap();
                    assert_eq!(reader.read(&place, &context).unwrap(), value);
                    reader.read_into(&place, &mut buffer, &context).unwrap();
                    assert_eq!(buffer, value);
                }
            }
        }
        let mut iter = reader.iter(plain_iter());
        iter.seek_to_first().unwrap();
        for entry in entries {
            assert_eq!(iter.value().unwrap(), entry.value.as_deref().unwrap());
            iter.next().unwrap();
        }
        assert!(!iter.valid());
        iter.seek_to_last().unwrap();
        for entry in entries.iter().rev() {
            assert_eq!(iter.value().unwrap(), entry.value.as_deref().unwrap());
            iter.prev().unwrap();
        }
        assert!(!iter.valid());
    }
}

fn salvage_all(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<Loss>) {
    let vfs = MemVfs::new();
    let path = Path::new("t/000001.table");
    vfs.create_dir_all(Path::new("t")).unwrap();
    vfs.create(path).unwrap().append(bytes).unwrap();
    let mut keys = Vec::new();
    let report = salvage(&vfs, path, None, SeqNo::ZERO, &mut |found| {
        if let Salvaged::Entry(entry) = found {
            keys.push(entry.key.to_vec());
        }
        Ok(())
    });
    (keys, report.unwrap().losses)
}

/// Makes other frames what some frames of a table name as their bases, under right checksums.
fn forge_bases(fixture: &Fixture, reader: &TableReader, bases: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = fixture.bytes();
    for (ordinal, base) in bases {
        let extent = reader.frame_extents().unwrap()[*ordinal as usize].clone();
        let unit = &mut bytes[extent.start as usize..extent.end as usize];
        let (header, stored) = unit.split_at_mut(UNIT_HEADER_BYTES);
        stored[..BASE_ORDINAL_BYTES].copy_from_slice(&base.to_le_bytes());
        let parts: [&[u8]; 2] = [&header[..12], stored];
        let crc = unit_checksum(header[0], reader.id(), extent.start, &parts);
        header[12..].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

fn read(reader: &TableReader, key: &[u8]) -> Result<Bytes> {
    let stats = Stats::new();
    let context = plain(&stats);
    let found = reader.find(key, key_hash(key), SeqNo::MAX, &context)?;
    reader.read(&found.unwrap().place, &context)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..6u64, 0..5u64, 0..80u64).prop_map(|(of, version, lines)| file(of, version, lines)),
        1 => Just(Vec::new()),
        1 => Just(file(3, 0, 50)),
        1 => (any::<u64>(), 0..5000usize).prop_map(|(seed, len)| noise(seed, len)),
        1 => (0..300usize).prop_map(|len| vec![b'a'; len]),
        1 => Just(file(7, 0, 4000)),
        // One line, as minifiers leave it, and what is not text at all.
        1 => (0..3u64, 0..80u64).prop_map(|(version, lines)| one_line(&file(8, version, lines))),
        1 => (0..3u64, 0..2000usize).prop_map(|(n, len)| [noise(9, len), noise(n, 50)].concat()),
    ]
}

fn one_line(file: &[u8]) -> Vec<u8> {
    file.iter().copied().filter(|byte| *byte != b'\n').collect()
}

/// Options of which none is a default, and some are at the ends of their ranges.
fn any_cluster() -> impl Strategy<Value = ClusterOptions> {
    let window = prop_oneof![Just(1u32 << 10), Just(32 << 10), Just(1 << 26)];
    let shared = prop_oneof![Just(0u32), Just(8 << 10)];
    let sketch = (8..80u32, prop_oneof![Just(0u32), Just(25), Just(200)]);
    let far = (prop_oneof![Just(1u32 << 10), Just(128 << 10)], 4..80u32);
    let level = prop_oneof![Just(-3), Just(1), Just(3), Just(12)];
    let doubt = prop_oneof![Just(0u32), Just(120), Just(1000)];
    let large = (1u32 << 10..1 << 16, 0..4u32);
    (window, shared, sketch, far, level, (doubt, 0..5u32), large).prop_map(
        |(window, shared, sketch, far, level, (doubt, depth), large)| ClusterOptions {
            window_bytes: window,
            shared_frame_bytes: shared,
            sketch_entries_max: sketch.0,
            saved_bytes_per_1000_decoded: sketch.1,
            depth_max: depth,
            follower_level: level,
            long_distance_bytes: far.0,
            long_distance_match_bytes: far.1,
            doubt_per_mille: doubt,
            large_value_bytes: large.0,
            large_value_levels_up: large.1,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_value_comes_back(
        values in prop::collection::vec(value(), 0..60),
        cluster in any_cluster(),
        dictionary_bytes in prop_oneof![Just(0u32), Just(512)],
        inline in prop_oneof![Just(0u32), Just(128)],
        level in prop_oneof![Just(-1), Just(3), Just(9), Just(19)],
        threads in 2..4usize,
    ) {
        let options = TableOptions {
            layout: Layout::Clustered(cluster),
            compression: Compression::Zstd { level },
            dictionary_bytes,
            inline_value_bytes_max: inline,
            ..options()
        };
        let entries = entries(values);
        let fixture = build(&entries, &[], &options, threads).unwrap();
        check(&fixture, &entries);
        let alone = build(&entries, &[], &options, 1).unwrap();
        prop_assert_eq!(stored_frames(&alone), stored_frames(&fixture));
    }
}

/// What a table's frames are stored as, without their headers: those hold the file's random id.
fn stored_frames(fixture: &Fixture) -> Vec<(Vec<u8>, Option<u32>)> {
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let bytes = fixture.bytes();
    let stored = |(extent, base): (std::ops::Range<u64>, Option<u32>)| {
        let start = extent.start as usize + UNIT_HEADER_BYTES;
        (bytes[start..extent.end as usize].to_vec(), base)
    };
    frames(&reader).into_iter().map(stored).collect()
}

#[test]
fn odd_tables_give_their_values_back() {
    let equal = || (0..40).map(|_| file(1, 1, 100));
    let sets: [Vec<Vec<u8>>; 8] = [
        Vec::new(),
        vec![file(1, 1, 100)],
        equal().collect(),
        (0..40).map(|n| noise(n, 3000)).collect(),
        (0..40).map(|_| noise(1, 3000)).collect(),
        (0..2000).map(|_| Vec::new()).collect(),
        (0..2000u32).map(|n| n.to_le_bytes().to_vec()).collect(),
        // More than level 3 looks back by itself; the end is where they differ.
        (0..3)
            .map(|n| [noise(5, 3 << 20), file(n, 0, 40)].concat())
            .collect(),
    ];
    for values in sets {
        let entries = entries(values);
        for inline_value_bytes_max in [0, 128] {
            let options = TableOptions {
                inline_value_bytes_max,
                ..options()
            };
            check(&build(&entries, &[], &options, 2).unwrap(), &entries);
        }
    }
}

/// zstd takes a prefix that begins as its dictionaries do for one, if it is not told otherwise.
#[test]
fn a_base_that_looks_like_a_zstd_dictionary_is_a_base_all_the_same() {
    let magic = 0xec30_a437_u32.to_le_bytes();
    let values = (0..3).map(|n| [&magic[..], &file(1, n, 200)].concat());
    let entries = entries(values);
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    assert_eq!(reader.properties().follower_frames, 2);
    check(&fixture, &entries);
}

#[test]
fn what_is_alike_costs_little_and_a_get_decodes_two_frames() {
    let entries = versions();
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let blocks = build(&entries, &[], &TableOptions::blocks(3, 1 << 10), 1).unwrap();
    assert!(fixture.summary.stored_bytes < blocks.summary.stored_bytes * 2 / 3);
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    assert_eq!(reader.properties().follower_frames, 16);
    let followers = entries.iter().filter_map(|entry| {
        let frame = frame_of(&reader, &entry.key);
        Some((entry, frame, frames(&reader)[frame as usize].1?))
    });
    let mut count = 0;
    for (entry, frame, base) in followers {
        count += 1;
        let stats = Stats::new();
        let trace = RefCell::new(GetTrace::default());
        trace.borrow_mut().enter_table(6, FileNumber(1));
        let context = ReadContext {
            trace: Some(&trace),
            ..plain(&stats)
        };
        let found = reader.find(&entry.key, key_hash(&entry.key), SeqNo::MAX, &context);
        reader
            .read(&found.unwrap().unwrap().place, &context)
            .unwrap();
        let trace = trace.into_inner();
        let touched: Vec<_> = trace.frames().map(|it| (it.ordinal, it.base)).collect();
        assert_eq!(touched, [(base, None), (frame, Some(base))]);
        assert_eq!(stats.get(Counter::FramesRead), 2);
        assert_eq!(stats.get(Counter::FrameBytesDecoded), trace.decoded_bytes());
        assert!(trace.decoded_bytes() > entry.value.as_ref().unwrap().len() as u64);
    }
    assert_eq!(count, 16);
}

/// Depth is a bound that no file may lift: a reader's stack and time depend on it.
#[test]
fn a_chain_of_more_bases_than_readers_take_is_refused_before_any_is_decoded() {
    let entries = entries((0..12).map(|n| file(1, n, 200)));
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    assert_eq!(reader.properties().follower_frames, 11);
    let chain: Vec<(u32, u32)> = (1..12).map(|frame| (frame, frame - 1)).collect();
    let bad = forge_bases(&fixture, &reader, &chain);
    for mode in [ReadMode::Mmap, ReadMode::Pread] {
        let forged = open_bytes(&bad, mode).unwrap();
        let too_deep = |entry: &&TestEntry| {
            let error = read(&forged, &entry.key).err();
            error.is_some_and(|error| error.to_string().contains("more than 8 bases"))
        };
        let key_of = |frame| {
            let mut keys = entries.iter();
            keys.find(|entry| frame_of(&reader, &entry.key) == frame)
                .unwrap()
        };
        assert!(too_deep(&key_of(9)) && !too_deep(&key_of(8)));
        assert_eq!(entries.iter().filter(too_deep).count(), 3);
        assert!(!forged.verify(&mut |_| Ok(())).unwrap().problems.is_empty());
        let mut iter = forged.iter(plain_iter());
        iter.seek_to_first().unwrap();
        while iter.valid() {
            let _ = iter.value();
            iter.next().unwrap();
        }
    }
    salvage_all(&bad);
}

#[test]
fn values_below_several_bases_come_back_by_every_way() {
    let next = |n: u64| [file(500 + n, 0, 40), file(501 + n, 0, 40)].concat();
    let entries = entries((0..40).map(next).chain((0..10).map(|n| file(1, n, 100))));
    let options = TableOptions {
        layout: Layout::Clustered(ClusterOptions {
            depth_max: 4,
            saved_bytes_per_1000_decoded: 0,
            ..ClusterOptions::default()
        }),
        ..options()
    };
    let fixture = build(&entries, &[], &options, 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let frames = frames(&reader);
    let depth = |frame: u32| {
        let next = |frame: &u32| frames[*frame as usize].1;
        std::iter::successors(Some(frame), next).count() - 1
    };
    let deepest = (0..frames.len() as u32).max_by_key(|frame| depth(*frame));
    let deepest = deepest.unwrap();
    assert!(depth(deepest) > 1, "{frames:?}");
    check(&fixture, &entries);

    // A trace names every base, the deepest first.
    let mut keys = entries.iter().map(|entry| &entry.key);
    let key = keys.find(|key| frame_of(&reader, key) == deepest).unwrap();
    let stats = Stats::new();
    let trace = RefCell::new(GetTrace::default());
    trace.borrow_mut().enter_table(6, FileNumber(1));
    let context = ReadContext {
        trace: Some(&trace),
        ..plain(&stats)
    };
    let found = reader.find(key, key_hash(key), SeqNo::MAX, &context);
    reader
        .read(&found.unwrap().unwrap().place, &context)
        .unwrap();
    let trace = trace.into_inner();
    let touched: Vec<_> = trace.frames().map(|it| (it.ordinal, it.base)).collect();
    assert_eq!(touched.len(), depth(deepest) + 1);
    assert_eq!(touched[0].1, None);
    for pair in touched.windows(2) {
        assert_eq!(pair[1].1, Some(pair[0].0));
    }
    assert_eq!(stats.get(Counter::FrameBytesDecoded), trace.decoded_bytes());
}

#[test]
fn a_walk_decodes_each_frame_once_but_for_few() {
    let entries = versions();
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let context = plain_iter();
    let stats = Arc::clone(&context.stats);
    let mut iter = reader.iter(context);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.value().unwrap();
        iter.next().unwrap();
    }
    // A base whose key comes after a follower's is decoded for it, and then for its own value.
    let frames = reader.properties().frames;
    let read = stats.get(Counter::FramesRead);
    assert!(read >= frames && read <= frames + 8, "{read} of {frames}");
}

#[test]
fn a_cached_base_is_decoded_once_for_all_its_followers() {
    let entries = entries((0..10).map(|n| file(1, n, 200)));
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    assert_eq!(reader.properties().follower_frames, 9);
    let cache = FrameCache::new(1 << 20).unwrap();
    let stats = Stats::new();
    let context = ReadContext {
        cache: Some(&cache),
        fill_cache: true,
        ..plain(&stats)
    };
    for entry in &entries {
        let found = reader.find(&entry.key, key_hash(&entry.key), SeqNo::MAX, &context);
        reader
            .read(&found.unwrap().unwrap().place, &context)
            .unwrap();
    }
    assert_eq!(stats.get(Counter::FramesRead), 10);
}

#[test]
fn a_damaged_base_costs_its_followers_and_nobody_else() {
    let entries = versions();
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let frames = frames(&reader);
    let base = frames.iter().find_map(|(_, base)| *base).unwrap();
    let extent = frames[base as usize].0.clone();
    let mut bad = fixture.bytes();
    bad[extent.end as usize - 1] ^= 1;
    let damaged = open_bytes(&bad, ReadMode::Pread).unwrap();
    let mut lost = BTreeMap::new();
    for entry in &entries {
        let frame = frame_of(&reader, &entry.key);
        let its_base = frames[frame as usize].1;
        match read(&damaged, &entry.key) {
            Ok(value) => {
                assert_eq!(value, entry.value.as_deref().unwrap());
                assert!(frame != base && its_base != Some(base));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert_eq!(error.offset(), Some(extent.start));
                let needs = format!(
                    "frame {frame} needs its base, frame {base}, at bytes {} to {} of the file,",
                    extent.start, extent.end
                );
                let message = error.to_string();
                assert_eq!(message.contains(&needs), frame != base, "{message}");
                assert!(message.contains("000001.table"), "{message}");
                lost.insert(entry.key.clone(), (frame != base).then_some(base));
            }
        }
    }
    assert_eq!(lost.len(), 3);
    // A walk loses the same values and no others, and so does who reads frames by the dozen.
    let held = HeldBases::default();
    let stats = Stats::new();
    let mut iter = damaged.iter(plain_iter());
    iter.seek_to_first().unwrap();
    for entry in &entries {
        assert_eq!(iter.value().is_err(), lost.contains_key(&entry.key));
        iter.next().unwrap();
        let context = ReadContext {
            held: Some(&held),
            ..plain(&stats)
        };
        let found = damaged.find(&entry.key, key_hash(&entry.key), SeqNo::MAX, &context);
        let read = damaged.read(&found.unwrap().unwrap().place, &context);
        assert_eq!(read.is_err(), lost.contains_key(&entry.key));
    }
    let problems = damaged.verify(&mut |_| Ok(())).unwrap().problems;
    assert_eq!(problems.len(), 3, "{problems:?}");
    let (keys, losses) = salvage_all(&bad);
    assert_eq!(keys.len() + 3, entries.len());
    let told = losses.iter().filter_map(|loss| match loss {
        Loss::Value { key, lost_base, .. } => Some((key.clone(), *lost_base)),
        _ => None,
    });
    assert_eq!(told.collect::<BTreeMap<_, _>>(), lost);
}

#[test]
fn bases_that_cannot_be_are_refused_by_name() {
    let entries = versions();
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let frames = frames(&reader);
    let followers: Vec<u32> = (0..frames.len() as u32)
        .filter(|&frame| frames[frame as usize].1.is_some())
        .collect();
    let (first, second) = (followers[0], followers[1]);
    let key_of = |frame| {
        let mut keys = entries.iter().map(|entry| &entry.key);
        keys.find(|key| frame_of(&reader, key) == frame).unwrap()
    };
    for (ordinal, base, complaint) in [
        (second, second, "which does not come before it"),
        (first, second, "which does not come before it"),
        (first, u32::MAX, "which does not come before it"),
    ] {
        let bad = forge_bases(&fixture, &reader, &[(ordinal, base)]);
        let forged = open_bytes(&bad, ReadMode::Mmap).unwrap();
        let error = read(&forged, key_of(ordinal)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let message = error.to_string();
        assert!(message.contains(complaint), "{message}");
        assert!(message.contains(&format!("frame {base}")), "{message}");
        assert_eq!(forged.verify(&mut |_| Ok(())).unwrap().problems.len(), 1);
        let (keys, losses) = salvage_all(&bad);
        assert_eq!(keys.len() + 1, entries.len());
        assert_eq!(losses.len(), 1, "{losses:?}");
    }
}

#[test]
fn the_bytes_of_a_table_do_not_depend_on_threads() {
    let entries = versions();
    for dictionary_bytes in [0, 2048] {
        let options = TableOptions {
            dictionary_bytes,
            ..options()
        };
        let stored = |threads| stored_frames(&build(&entries, &[], &options, threads).unwrap());
        assert_eq!(stored(1), stored(4));
    }
}

#[test]
fn without_compression_no_frame_has_a_base() {
    let entries = versions();
    let options = TableOptions {
        compression: Compression::None,
        ..options()
    };
    let fixture = build(&entries, &[], &options, 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    assert_eq!(reader.properties().follower_frames, 0);
    assert_eq!(reader.properties().raw_frames, reader.properties().frames);
    check(&fixture, &entries);
}

#[test]
fn a_writer_holds_no_more_than_a_window() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    vfs.create_dir_all(Path::new("t")).unwrap();
    let pool = crate::codec::CompressionPool::new(1);
    let path = Path::new("t/000001.table");
    let mut writer = TableWriter::create(&vfs, path.into(), &options(), &pool).unwrap();
    writer.limit_window(256 << 10);
    let mut most = 0;
    for n in 0..2000u64 {
        let key = format!("{n:06}");
        let value = Bytes::from(file(n / 4, n % 4, 40));
        writer
            .add(key.as_bytes(), SeqNo(1), EntryKind::Put, value)
            .unwrap();
        most = most.max(writer.memory_bytes());
    }
    // The window, its sketches, what is on its way to the file (1 MiB a thread), keys and places.
    assert!(
        most < (256 << 10) * 2 + (1 << 20) + (1 << 19),
        "{most} bytes"
    );
    let summary = writer.finish().unwrap();
    assert!(summary.raw_bytes > 3 << 20);
}

#[test]
fn an_encoded_follower_names_its_codec() {
    let entries = versions();
    let fixture = build(&entries, &[], &options(), 1).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    for extent in reader.frame_extents().unwrap() {
        let (header, base) = reader.frame_header(&extent).unwrap();
        assert_eq!(header.codec == UnitCodec::ZstdBase, base.is_some());
    }
}
