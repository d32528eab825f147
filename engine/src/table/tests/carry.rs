//! Values carried from tables into a new one: which frames are copied, that all values come back,
//! and that nothing of what was left behind is there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::codec::CompressionPool;
use crate::error::ErrorKind;
use crate::iter::InternalIterator;
use crate::options::{ClusterOptions, Layout};
use crate::read::MergingIter;
use crate::stats::Counter;
use crate::table::carry::FramesKept;
use crate::table::key_hash;
use crate::table::unit::UNIT_HEADER_BYTES;

fn options(dictionary_bytes: u32) -> TableOptions {
    TableOptions {
        layout: Layout::Clustered(ClusterOptions {
            shared_frame_bytes: 512,
            ..ClusterOptions::default()
        }),
        key_block_bytes: 256,
        dictionary_bytes,
        ..TableOptions::clustered(3)
    }
}

/// What only one version of one file has.
fn secret(number: u64, version: u64) -> String {
    let half = |salt: u64| key_hash(&(number << 16 | version << 1 | salt).to_le_bytes());
    format!("{:016x}{:016x}", half(0), half(1))
}

/// From this version on, neighbours are alike.
const ALIKE: u64 = 1000;

/// A file of about 40 lines, most of which every sixteenth file has too; some are short.
fn content(number: u64, version: u64) -> Vec<u8> {
    let lines = if number % 7 == 3 { 3 } else { 40 };
    let subject = match version {
        ..ALIKE => number % 16,
        _ => 16 + number / 10,
    };
    let line = |line: u64| {
        let word = key_hash(&(subject << 32 | line).to_le_bytes()) % 1_000_000;
        format!("    let name_{word} = call({line}, {word});\n")
    };
    let mut text: String = (0..lines / 2).map(line).collect();
    text += &format!("    token: {},\n", secret(number, version));
    text.extend((lines / 2..lines).map(line));
    text.into_bytes()
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn table(files: &BTreeMap<u64, u64>, seq: u64, options: &TableOptions) -> Fixture {
    let entry = |(&number, &version): (&u64, &u64)| TestEntry {
        key: key(number),
        seq,
        value: Some(content(number, version)),
    };
    let entries: Vec<_> = files.iter().map(entry).collect();
    build(&entries, &[], options, 1).unwrap()
}

fn versions(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<u64, u64> {
    numbers.into_iter().map(|number| (number, 0)).collect()
}

fn open(fixture: &Fixture) -> Arc<TableReader> {
    fixture.open(ReadMode::Mmap, 0).unwrap()
}

fn merge(
    inputs: &[Arc<TableReader>],
    dropped: &BTreeSet<u64>,
    options: &TableOptions,
    threads: usize,
) -> Result<(Fixture, FramesKept)> {
    let (merged, kept, _) = merge_counting(inputs, dropped, options, threads)?;
    Ok((merged, kept))
}

/// Merges tables into one, without the keys of `dropped`; says also how many bytes it decoded.
fn merge_counting(
    inputs: &[Arc<TableReader>],
    dropped: &BTreeSet<u64>,
    options: &TableOptions,
    threads: usize,
) -> Result<(Fixture, FramesKept, u64)> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let path = Path::new("t/000002.table").to_path_buf();
    vfs.create_dir_all(Path::new("t")).unwrap();
    let pool = CompressionPool::new(threads);
    let mut writer = TableWriter::create(&vfs, path.clone(), options, &pool)?;
    let context = plain_iter();
    let stats = Arc::clone(&context.stats);
    writer.carry_values(context);
    let sources = inputs.iter().map(|input| {
        let source = input.iter(plain_iter());
        Box::new(source) as Box<dyn InternalIterator>
    });
    let mut iter = MergingIter::new(sources.collect());
    iter.seek_to_first()?;
    let dropped: BTreeSet<Vec<u8>> = dropped.iter().map(|&number| key(number)).collect();
    let mut last = Vec::new();
    while iter.valid() {
        let entry = iter.key();
        if entry.user_key != last && !dropped.contains(entry.user_key) {
            match iter.stored_value() {
                Some(value) => writer.add_stored(entry.user_key, entry.seq, &value)?,
                None => writer.add(entry.user_key, entry.seq, entry.kind, iter.value()?)?,
            }
        }
        last = entry.user_key.to_vec();
        iter.next()?;
    }
    let kept = writer.carry_over(&mut |_| Ok(()))?;
    let summary = writer.finish()?;
    let decoded = stats.get(Counter::FrameBytesDecoded);
    Ok((Fixture { vfs, path, summary }, kept, decoded))
}

/// All that a table's frames decode to, and its dictionary.
fn all_bytes(reader: &Arc<TableReader>) -> Vec<u8> {
    let stats = Stats::new();
    let frames = 0..reader.frame_extents().unwrap().len() as u32;
    let decoded = frames.map(|frame| reader.frame(frame, &plain(&stats)).unwrap());
    let mut bytes = decoded.collect::<Vec<_>>().concat();
    if let Some(dictionary) = &reader.dictionary {
        bytes.extend_from_slice(dictionary.bytes());
    }
    bytes
}

/// Secrets of which the bytes have a part.
fn found<'a>(bytes: &[u8], secrets: &'a [String]) -> Vec<&'a str> {
    let parts = |secret: &'a String| secret.as_bytes().windows(16).map(move |it| (it, secret));
    let parts: HashMap<&[u8], &String> = secrets.iter().flat_map(parts).collect();
    let found = bytes.windows(16).filter_map(|window| parts.get(window));
    let found: HashSet<&str> = found.map(|secret| secret.as_str()).collect();
    found.into_iter().collect()
}

fn check(fixture: &Fixture, files: &BTreeMap<u64, u64>) {
    let reader = fixture.open(ReadMode::Pread, 0).unwrap();
    let report = reader.verify(&mut |_| Ok(())).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let mut iter = reader.iter(plain_iter());
    iter.seek_to_first().unwrap();
    for (&number, &version) in files {
        assert_eq!(iter.key().user_key, key(number));
        assert_eq!(iter.value().unwrap(), content(number, version));
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    let stats = Stats::new();
    for (&number, &version) in files.iter().rev() {
        let hash = key_hash(&key(number));
        let found = reader.find(&key(number), hash, SeqNo::MAX, &plain(&stats));
        let place = found.unwrap().unwrap().place;
        let value = reader.read(&place, &plain(&stats)).unwrap();
        assert_eq!(value, content(number, version));
    }
}

/// Bytes of the framed values of a table, and of those in no copied frame.
fn shares(fixture: &Fixture, kept: FramesKept) -> (u64, u64) {
    let properties = open(fixture).properties().clone();
    let all = properties.raw_value_bytes - properties.inline_value_bytes;
    (all, all - kept.raw_bytes)
}

#[test]
fn new_values_leave_the_frames_of_the_old_as_they_are() {
    for dictionary_bytes in [0, 4 << 10] {
        let options = options(dictionary_bytes);
        let mut files = versions((0..400).filter(|number| number % 100 != 50));
        let old = table(&files, 1, &options);
        let new = versions([50, 150, 250, 350]);
        let blocks = table(&new, 2, &TableOptions::blocks(1, 4 << 10));
        files.extend(&new);
        let inputs = [open(&blocks), open(&old)];
        let (merged, kept, decoded) =
            merge_counting(&inputs, &BTreeSet::new(), &options, 1).unwrap();
        assert_eq!(kept.frames, inputs[1].properties().frames);
        let (all, encoded) = shares(&merged, kept);
        let of_new = new.keys().map(|&number| content(number, 0).len());
        assert_eq!(encoded, of_new.sum::<usize>() as u64);
        assert_eq!(open(&merged).properties().unplanned_value_bytes, encoded);
        assert!(encoded * 50 < all);
        check(&merged, &files);
        // Beside what is new, the bases of a few neighbours were decoded.
        assert!(decoded * 10 < all, "{decoded} of {all}");
    }
}

#[test]
fn what_was_never_planned_together_adds_up_until_all_is_encoded_anew() {
    let options = options(0);
    let mut files = versions((0..100).map(|number| 10 * number));
    let mut merged = table(&files, 1, &options);
    let mut unplanned = Vec::new();
    for round in 1..6u64 {
        let new = versions((0..10).map(|number| 100 * number + round));
        let blocks = table(&new, round + 1, &TableOptions::blocks(1, 4 << 10));
        files.extend(&new);
        let inputs = [open(&blocks), open(&merged)];
        let (next, kept) = merge(&inputs, &BTreeSet::new(), &options, 1).unwrap();
        check(&next, &files);
        let bytes = open(&next).properties().unplanned_value_bytes;
        assert_eq!(kept.frames == 0, bytes == 0);
        unplanned.push(bytes);
        merged = next;
    }
    let anew = unplanned.iter().position(|&bytes| bytes == 0).unwrap();
    assert!(anew > 0 && anew < 4, "{unplanned:?}");
    assert!(unplanned[..anew].is_sorted() && unplanned[anew + 1] > 0);
}

#[test]
fn what_is_like_its_neighbours_joins_their_cluster() {
    let options = options(0);
    let numbers = (0..200).filter(|number| number % 7 != 3);
    let mut files: BTreeMap<u64, u64> = numbers.map(|number| (number, ALIKE)).collect();
    let new: BTreeMap<u64, u64> = [15, 55, 106]
        .into_iter()
        .filter_map(|number| Some((number, files.remove(&number)?)))
        .collect();
    assert_eq!(new.len(), 3);
    let old = open(&table(&files, 1, &options));
    let blocks = open(&table(&new, 2, &TableOptions::blocks(1, 4 << 10)));
    files.extend(&new);
    let inputs = [blocks, Arc::clone(&old)];
    let (merged, kept) = merge(&inputs, &BTreeSet::new(), &options, 1).unwrap();
    check(&merged, &files);
    assert_eq!(kept.frames, old.properties().frames);
    let reader = open(&merged);
    assert_eq!(reader.properties().unplanned_value_bytes, 0);
    let followers = old.properties().follower_frames;
    assert_eq!(reader.properties().follower_frames, followers + 3);
    let extents = reader.frame_extents().unwrap();
    let mut iter = reader.iter(plain_iter());
    for number in new.keys() {
        iter.seek(&key(*number), SeqNo::MAX).unwrap();
        let frame = iter.stored_value().unwrap().place.frame;
        let (_, base) = reader.frame_header(&extents[frame as usize]).unwrap();
        assert_eq!(base, Some(frame - 1));
    }
}

#[test]
fn a_base_that_is_left_behind_costs_its_followers_alone_their_frames() {
    let options = options(0);
    let files = versions((0..400).filter(|number| number % 7 != 3));
    let old = table(&files, 1, &options);
    let reader = open(&old);
    let extents = reader.frame_extents().unwrap().into_iter();
    let base_of: Vec<_> = extents
        .map(|extent| reader.frame_header(&extent).unwrap().1)
        .collect();
    // A base of few: what changes must be little.
    let followers = |of: u32| base_of.iter().filter(|base| **base == Some(of)).count();
    let bases = (0..base_of.len() as u32).filter(|&frame| followers(frame) > 0);
    let base = bases.min_by_key(|&frame| followers(frame)).unwrap();
    if followers(base) * 5 > files.len() {
        panic!("all is one cluster");
    }
    let mut iter = reader.iter(plain_iter());
    iter.seek_to_first().unwrap();
    while iter.stored_value().unwrap().place.frame != base {
        iter.next().unwrap();
    }
    let key_text = String::from_utf8(iter.key().user_key.to_vec()).unwrap();
    let number: u64 = key_text.parse().unwrap();
    let dropped = BTreeSet::from([number]);
    let (merged, kept) = merge(&[Arc::clone(&reader)], &dropped, &options, 1).unwrap();
    assert_eq!(kept.frames as usize, base_of.len() - 1 - followers(base));
    let mut left = files;
    left.remove(&number);
    check(&merged, &left);
    let secrets = [secret(number, 0)];
    assert_eq!(found(&all_bytes(&reader), &secrets), [secrets[0].as_str()]);
    assert!(found(&all_bytes(&open(&merged)), &secrets).is_empty());
}

#[test]
fn a_dictionary_stays_only_while_it_gives_nothing_away() {
    let options = options(8 << 10);
    // So many that the dictionary has parts of a few only.
    let files = versions(0..600);
    let old = table(&files, 1, &options);
    let reader = open(&old);
    let dictionary = reader.dictionary.as_ref().unwrap().bytes();
    let told = |number: &u64| !found(dictionary, &[secret(*number, 0)]).is_empty();
    let (given_away, safe): (Vec<u64>, Vec<u64>) = files.keys().partition(|number| told(number));
    assert!(!given_away.is_empty() && safe.len() > 300);
    let secrets: Vec<String> = given_away.iter().map(|&number| secret(number, 0)).collect();
    for number in given_away.into_iter().take(3) {
        let dropped = BTreeSet::from([number]);
        let (merged, kept) = merge(&[Arc::clone(&reader)], &dropped, &options, 1).unwrap();
        assert_eq!(kept, FramesKept::default());
        let bytes = all_bytes(&open(&merged));
        assert!(!found(&bytes, &secrets).contains(&secret(number, 0).as_str()));
    }
    let keeps_dictionary = |number: &u64| {
        let dropped = BTreeSet::from([*number]);
        let (merged, kept) = merge(&[Arc::clone(&reader)], &dropped, &options, 1).unwrap();
        let merged = open(&merged);
        let same = merged.dictionary.as_ref().unwrap().bytes() == dictionary;
        assert_eq!(kept.frames > 0, same);
        same
    };
    let kept = safe
        .iter()
        .step_by(40)
        .filter(|it| keeps_dictionary(it))
        .count();
    assert!(kept > 3, "{kept}");
}

#[test]
fn tables_written_otherwise_are_not_continued() {
    let files = versions(0..100);
    let old = open(&table(&files, 1, &options(0)));
    let mut other_layout = options(0);
    other_layout.layout = Layout::Clustered(ClusterOptions {
        shared_frame_bytes: 0,
        ..ClusterOptions::default()
    });
    let other_level = TableOptions {
        compression: crate::options::Compression::Zstd { level: 5 },
        ..options(0)
    };
    for options in [other_layout, other_level] {
        let (merged, kept) = merge(&[Arc::clone(&old)], &BTreeSet::new(), &options, 1).unwrap();
        assert_eq!(kept, FramesKept::default());
        check(&merged, &files);
    }
}

#[test]
fn damage_is_not_copied_and_goes_with_what_is_left_behind() {
    let options = options(0);
    let files = versions(0..100);
    let old = table(&files, 1, &options);
    let reader = open(&old);
    let mut iter = reader.iter(plain_iter());
    iter.seek(&key(42), SeqNo::MAX).unwrap();
    let frame = iter.stored_value().unwrap().place.frame;
    let extent = reader.frame_extents().unwrap()[frame as usize].clone();
    for at in [extent.start, extent.start + 8, extent.end - 1] {
        let mut bytes = old.bytes();
        bytes[at as usize] ^= 0x55;
        let damaged = open_bytes(&bytes, ReadMode::Pread).unwrap();
        let kept_all = merge(&[Arc::clone(&damaged)], &BTreeSet::new(), &options, 1);
        let Err(error) = kept_all else {
            panic!("damage at {at} was carried over");
        };
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.offset(), Some(extent.start), "{error}");
        // All that needed it goes too.
        let extents = reader.frame_extents().unwrap();
        let mut dropped = BTreeSet::new();
        iter.seek_to_first().unwrap();
        for &number in files.keys() {
            let its_frame = iter.stored_value().unwrap().place.frame;
            let (_, base) = reader.frame_header(&extents[its_frame as usize]).unwrap();
            if its_frame == frame || base == Some(frame) {
                dropped.insert(number);
            }
            iter.next().unwrap();
        }
        let (merged, _) = merge(&[damaged], &dropped, &options, 1).unwrap();
        check(
            &merged,
            &versions(files.keys().copied().filter(|it| !dropped.contains(it))),
        );
    }
}

#[test]
fn what_is_written_does_not_depend_on_threads() {
    let options = options(2 << 10);
    let old = open(&table(
        &versions((0..300).filter(|it| it % 20 != 0)),
        1,
        &options,
    ));
    let new = open(&table(&versions((0..300).step_by(20)), 2, &options));
    let stored = |threads| {
        let inputs = [Arc::clone(&new), Arc::clone(&old)];
        let dropped = BTreeSet::from([17, 18]);
        let (merged, kept) = merge(&inputs, &dropped, &options, threads).unwrap();
        assert!(kept.frames > 0);
        let (bytes, reader) = (merged.bytes(), open(&merged));
        let extents = reader.frame_extents().unwrap().into_iter();
        let stored = extents.map(|extent| {
            let start = extent.start as usize + UNIT_HEADER_BYTES;
            bytes[start..extent.end as usize].to_vec()
        });
        stored.collect::<Vec<_>>()
    };
    assert_eq!(stored(1), stored(4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A table goes through merges that add, overwrite and drop, each time a little.
    #[test]
    fn merges_keep_what_stays_and_nothing_else(
        count in 1..120u64,
        rounds in prop::collection::vec(
            (
                prop::collection::vec((0..130u64, 1..4u64), 0..5),
                prop::collection::btree_set(0..130u64, 0..4),
                any::<bool>(),
            ),
            1..5,
        ),
        dictionary_bytes in prop_oneof![Just(0u32), Just(1 << 10)],
        alike in prop_oneof![Just(0), Just(ALIKE)],
        depth_max in prop_oneof![Just(0u32), Just(1), Just(3)],
        window_bytes in prop_oneof![Just(8u32 << 10), Just(64 << 20)],
        inline_value_bytes_max in prop_oneof![Just(0u32), Just(256)],
    ) {
        let mut options = options(dictionary_bytes);
        options.inline_value_bytes_max = inline_value_bytes_max;
        if let Layout::Clustered(cluster) = &mut options.layout {
            cluster.window_bytes = window_bytes;
            cluster.depth_max = depth_max;
            cluster.saved_bytes_per_1000_decoded = 0;
        }
        let mut files: BTreeMap<u64, u64> = (0..count).map(|number| (number, alike)).collect();
        let mut merged = table(&files, 1, &options);
        let mut gone = BTreeSet::new();
        for (round, (new, dropped, is_clustered)) in (2..).zip(rounds) {
            let new: BTreeMap<u64, u64> = new
                .into_iter()
                .map(|(number, version)| (number, alike + (round << 3 | version)))
                .collect();
            let upper = TableOptions::blocks(1, 1 << 10);
            let upper = table(&new, round, if is_clustered { &options } else { &upper });
            for (number, version) in &new {
                gone.extend(files.insert(*number, *version).map(|old| (*number, old)));
            }
            for number in &dropped {
                gone.extend(files.remove(number).map(|old| (*number, old)));
            }
            let inputs = [open(&upper), open(&merged)];
            merged = merge(&inputs, &dropped, &options, 1).unwrap().0;
            check(&merged, &files);
            let secrets: Vec<_> = gone.iter().map(|&(of, version)| secret(of, version)).collect();
            let bytes = all_bytes(&open(&merged));
            prop_assert_eq!(found(&bytes, &secrets), Vec::<&str>::new());
        }
    }
}
