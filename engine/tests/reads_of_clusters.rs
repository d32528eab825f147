//! What reads of clustered tables cost: reads of the disk, decoded bytes, memory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ppc_engine::{
    BulkOptions, ClusterOptions, Counter, Db, IterOptions, KeyRange, Keyspace, KeyspaceOptions,
    Layout, ReadMode, TableOptions, list_frames_in,
};

use support::*;

/// A version of one of `subjects` files. Versions differ in a line.
fn content(number: u64, subjects: u64, lines: u64) -> Bytes {
    let (subject, version) = (number % subjects, number / subjects);
    let line = |line: u64| match line {
        7 => format!("const VERSION: u64 = {version};\n"),
        _ => format!("let f{}_{subject} = call({line});\n", subject * 97 + line),
    };
    (0..lines).map(line).collect::<String>().into()
}

fn table_options() -> TableOptions {
    let mut options = TableOptions::clustered(3);
    options.layout = Layout::Clustered(ClusterOptions::default());
    options
}

/// A store of one clustered table, without a cache.
fn open_loaded(vfs: &SteeredVfs, mode: ReadMode, values: &[Bytes]) -> (Db, Keyspace) {
    let mut options = db_options(vfs);
    options.read_mode = mode;
    options.cache_bytes = 0;
    options.multi_get_threads = 1;
    let db = Db::open("/db", options).unwrap();
    let keyspace = KeyspaceOptions::uniform(table_options());
    let keyspace = db.keyspace("files", keyspace).unwrap();
    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
    for (number, value) in (0..).zip(values) {
        loader.put(&keyspace, key(number), value.clone()).unwrap();
    }
    loader.finish(&mut |_| {}).unwrap();
    assert_eq!(vfs.tables().len(), 1);
    (db, keyspace)
}

/// Counts positioned reads of frames.
fn counting() -> (SteeredVfs, Arc<AtomicU64>, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let frames_end = Arc::new(AtomicU64::new(0));
    let (count, end) = (Arc::clone(&reads), Arc::clone(&frames_end));
    let vfs = SteeredVfs::new().on_read(move |_, range| {
        if range.end <= end.load(Ordering::Relaxed) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (vfs, reads, frames_end)
}

fn end_of_frames(vfs: &SteeredVfs) -> u64 {
    let mut end = 0;
    for table in vfs.tables() {
        list_frames_in(&vfs.files, &table, &mut |frame| {
            end = end.max(frame.range.end);
            true
        })
        .unwrap();
    }
    end
}

#[test]
fn a_cold_get_reads_a_frame_and_its_base_at_once() {
    let (vfs, reads, frames_end) = counting();
    let values: Vec<Bytes> = (0..160).map(|number| content(number, 20, 100)).collect();
    let (_db, keyspace) = open_loaded(&vfs, ReadMode::Pread, &values);
    frames_end.store(end_of_frames(&vfs), Ordering::Relaxed);
    let mut with_base = 0;
    for (number, value) in (0..).zip(&values) {
        reads.store(0, Ordering::Relaxed);
        let (got, trace) = keyspace.get_traced(key(number)).unwrap();
        assert_eq!(got.unwrap(), value);
        with_base += u64::from(trace.frames().count() == 2);
        assert_eq!(reads.load(Ordering::Relaxed), 1, "{trace:?}");
    }
    assert_eq!(with_base, 140);
}

#[test]
fn a_base_that_lies_far_away_is_read_by_itself() {
    let (vfs, reads, frames_end) = counting();
    // Each has so much of its own that a few lie between the last one and the base of all.
    let own = |number: u64| value(number, if number == 0 { 0 } else { 9 << 10 });
    let whole = |number: u64| [&content(0, 1, 2000)[..], &own(number)].concat();
    let values: Vec<Bytes> = (0..12).map(|number| whole(number).into()).collect();
    let (_db, keyspace) = open_loaded(&vfs, ReadMode::Pread, &values);
    frames_end.store(end_of_frames(&vfs), Ordering::Relaxed);
    let mut twice = 0;
    for (number, value) in (0..).zip(&values) {
        reads.store(0, Ordering::Relaxed);
        assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), value);
        match reads.load(Ordering::Relaxed) {
            1 => {}
            2 => twice += 1,
            many => panic!("{many} reads"),
        }
    }
    assert!(twice > 5, "{twice} gets read twice");
}

#[test]
fn scans_and_multi_gets_decode_a_base_once_for_all_its_followers() {
    // The followers of 500 clusters lie between one another in key order.
    let values: Vec<Bytes> = (0..4000).map(|number| content(number, 500, 60)).collect();
    let bytes: usize = values.iter().map(Bytes::len).sum();
    let keys: Vec<Vec<u8>> = (0..4000).map(key).collect();
    for mode in [ReadMode::Mmap, ReadMode::Pread] {
        let vfs = SteeredVfs::new();
        let (db, keyspace) = open_loaded(&vfs, mode, &values);
        let decoded = |read: &dyn Fn()| {
            let before = db.stats().counters.get(Counter::FrameBytesDecoded);
            read();
            let after = db.stats().counters.get(Counter::FrameBytesDecoded);
            (after - before) as f64 / bytes as f64
        };
        let scan = |backward: bool| {
            let iter = keyspace.iter(KeyRange::all(), IterOptions::default());
            let iter = iter.unwrap().map(|item| item.unwrap().1);
            if backward {
                assert!(iter.rev().eq(values.iter().rev().cloned()));
            } else {
                assert!(iter.eq(values.iter().cloned()));
            }
        };
        for (way, read) in [
            ("forward", &(|| scan(false)) as &dyn Fn()),
            ("backward", &|| scan(true)),
            ("at once", &|| {
                let got = keyspace.multi_get(&keys).into_iter();
                assert!(
                    got.map(|it| it.unwrap().unwrap())
                        .eq(values.iter().cloned())
                );
            }),
        ] {
            let decoded = decoded(read);
            assert!(decoded < 1.01, "{way}: {decoded} bytes decoded for one");
        }
        let single = decoded(&|| {
            keys.iter()
                .for_each(|key| drop(keyspace.get(key).unwrap().unwrap()));
        });
        assert!(single > 1.5, "there is nothing to save: {single}");
    }
}

#[test]
fn the_statistics_tell_frames_and_decoded_bytes_of_a_get() {
    let vfs = SteeredVfs::new();
    let values: Vec<Bytes> = (0..160).map(|number| content(number, 20, 100)).collect();
    let (db, keyspace) = open_loaded(&vfs, ReadMode::Mmap, &values);
    let (mut frames, mut decoded, mut returned) = (0, 0, 0);
    for number in 0..160 {
        let (got, trace) = keyspace.get_traced(key(number)).unwrap();
        frames += trace.frames().count();
        decoded += trace.decoded_bytes();
        returned += got.unwrap().len();
    }
    let stats = db.stats();
    assert_eq!(stats.frames_per_get(), Some(frames as f64 / 160.0));
    let per_byte = stats.decoded_bytes_per_returned_byte();
    assert_eq!(per_byte, Some(decoded as f64 / returned as f64));
}

#[test]
fn tables_tell_of_their_frames_and_clusters() {
    let vfs = SteeredVfs::new();
    let alike = (0..160).map(|number| content(number, 20, 100));
    let small = (0..50).map(|number| format!("{:?}", value(number + 50, 60)).into());
    let noise = (0..3).map(|number| Bytes::from(value(number + 1, 20 << 10)));
    let values: Vec<Bytes> = alike.chain(small).chain(noise).collect();
    let (_db, keyspace) = open_loaded(&vfs, ReadMode::Mmap, &values);
    let (census, untold) = keyspace.frame_census().unwrap();
    assert_eq!(untold, 0);
    let (mut frames, mut followers, mut raw_bytes, mut stored_bytes) = (0, 0, 0, 0);
    list_frames_in(&vfs.files, &vfs.tables()[0], &mut |frame| {
        frames += 1;
        followers += u64::from(frame.base.is_some());
        raw_bytes += frame.raw_bytes.unwrap();
        stored_bytes += frame.range.end - frame.range.start;
        true
    })
    .unwrap();
    let total = census.total();
    assert_eq!((total.frames, total.raw_bytes), (frames, raw_bytes));
    assert_eq!(total.stored_bytes, stored_bytes);
    assert_eq!((census.followers.frames, followers), (140, 140));
    assert_eq!((census.bases.frames, census.raw.frames), (20, 3));
    assert!(census.shared.frames > 0);
    assert_eq!(census.stored_tenths[0], 140);
    assert_eq!(census.depths[..2], [frames - 140, 140]);
    assert_eq!(census.cluster_sizes, [0, 0, 20, 0, 0, 0, 0, 0]);
}
