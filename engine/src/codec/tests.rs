use super::decode::decode;
use super::*;
use proptest::prelude::*;

fn text(len: usize) -> Vec<u8> {
    (0..)
        .flat_map(|line: u32| format!("let value_{} = compute({line});\n", line % 17).into_bytes())
        .take(len)
        .collect()
}

/// Letters without any order.
fn letters(seed: u64, len: usize) -> Vec<u8> {
    let hash = |n: u64| xxhash_rust::xxh3::xxh3_64(&(seed << 32 | n).to_le_bytes());
    (0..len as u64)
        .map(|n| b'a' + (hash(n) % 26) as u8)
        .collect()
}

fn codec(compression: Compression) -> FrameCodec {
    FrameCodec::new(&TableOptions {
        compression,
        ..TableOptions::default()
    })
}

fn base(ordinal: u32, bytes: Vec<u8>) -> BaseFrame {
    BaseFrame {
        ordinal,
        decoded_bytes: bytes.len() as u64,
        bytes: bytes.into(),
    }
}

fn clustered(level: i32, clusters: ClusterOptions) -> FrameCodec {
    FrameCodec::new(&TableOptions {
        layout: Layout::Clustered(clusters),
        ..TableOptions::clustered(level)
    })
}

/// A thread that had compressed a large frame before stored short ones that others kept raw.
#[test]
fn a_frame_does_not_depend_on_what_its_thread_compressed_before() {
    let encode = |level, raw: &[u8]| {
        let frame = codec(Compression::Zstd { level }).encode(raw.to_vec().into());
        frame.unwrap().stored
    };
    for level in [1, 3, 9, 19] {
        for len in 40..160 {
            let raw = text(len);
            let fresh = std::thread::scope(|scope| {
                let thread = scope.spawn(|| encode(level, &raw));
                thread.join().unwrap()
            });
            encode(level, &text(100_000));
            assert_eq!(encode(level, &raw), fresh, "level {level}, {len} bytes");
        }
    }
}

#[test]
fn frames_round_trip_at_every_level() {
    let raw = text(300_000);
    for level in [-5, 1, 3, 6, 9, 19, 22] {
        let frame = codec(Compression::Zstd { level })
            .encode(raw.clone().into())
            .unwrap();
        assert_eq!(frame.codec, UnitCodec::Zstd);
        let mut out = Vec::new();
        decode(&frame.stored, raw.len(), None, &mut out).unwrap();
        assert_eq!(out, raw);
        assert!(decode(&frame.stored, raw.len() - 1, None, &mut out).is_err());
        assert!(decode(&frame.stored, raw.len() + 1, None, &mut out).is_err());
        for needed in [0, 1, 100_000, 131_072, 299_999, 300_000] {
            decode_prefix(&frame.stored, raw.len(), needed, None, &mut out).unwrap();
            assert!(out.len() >= needed);
            assert_eq!(out, raw[..out.len()]);
        }
    }
}

#[test]
fn a_prefix_decode_of_a_large_frame_stops_early() {
    let raw = text(1 << 20);
    let frame = codec(Compression::Zstd { level: 3 })
        .encode(raw.clone().into())
        .unwrap();
    let mut out = Vec::new();
    decode_prefix(&frame.stored, raw.len(), 1000, None, &mut out).unwrap();
    assert!(out.len() <= 128 << 10, "decoded {} bytes", out.len());
}

#[test]
fn what_does_not_shrink_by_an_eighth_is_stored_raw() {
    let noise: Vec<u8> = (0..50_000u64)
        .map(|n| (xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()) & 0xff) as u8)
        .collect();
    let zstd = codec(Compression::Zstd { level: 3 });
    let frame = zstd.encode(noise.clone().into()).unwrap();
    assert_eq!(frame.codec, UnitCodec::Raw);
    assert_eq!(frame.stored, noise);
    let empty = zstd.encode(Bytes::new()).unwrap();
    assert_eq!((empty.codec, empty.raw_len), (UnitCodec::Raw, 0));
    let plain = codec(Compression::None).encode(text(1000).into()).unwrap();
    assert_eq!(plain.codec, UnitCodec::Raw);
}

#[test]
fn dictionaries_help_small_frames_and_leave_others_alone() {
    let samples: Vec<Vec<u8>> = (0..500)
        .map(|n| {
            format!("import os\nimport sys{n}\n\ndef main_{n}():\n    return os.path").into_bytes()
        })
        .collect();
    let lengths: Vec<usize> = samples.iter().map(Vec::len).collect();
    let dictionary = Arc::new(train(&samples.concat(), &lengths, 4096).unwrap());
    let without = codec(Compression::Zstd { level: 3 });
    let with = FrameCodec {
        dictionary: Some(Arc::clone(&dictionary)),
        ..without.clone()
    };
    let raw = Bytes::from(samples[7].clone());
    let before = without.encode(raw.clone()).unwrap();
    let frame = with.encode(raw.clone()).unwrap();
    let after = without.encode(raw.clone()).unwrap();
    assert_eq!(
        before.stored, after.stored,
        "a lent dictionary stayed behind"
    );
    assert_eq!(frame.codec, UnitCodec::ZstdDictionary);
    assert!(frame.stored.len() < before.stored.len());
    let mut out = Vec::new();
    decode(&frame.stored, raw.len(), Some(&dictionary), &mut out).unwrap();
    assert_eq!(out, raw);
    assert!(decode(&frame.stored, raw.len(), None, &mut out).is_err() || out != raw);
}

#[test]
fn followers_decode_beside_and_away_from_their_base() {
    let base = base(0x0102_0304, letters(1, 40_000));
    let raw = [b"a line of its own\n", &base.bytes[100..39_000]].concat();
    for level in [-5, 1, 3, 9, 19] {
        let codec = codec(Compression::Zstd { level });
        let before = codec.encode(raw.clone().into()).unwrap();
        let frame = codec.encode_follower(raw.clone().into(), &base).unwrap();
        let after = codec.encode(raw.clone().into()).unwrap();
        assert_eq!(before.stored, after.stored, "a lent base stayed behind");
        assert_eq!(frame.codec, UnitCodec::ZstdBase);
        assert!(frame.stored.len() < before.stored.len() / 2);
        let (ordinal, compressed) = frame.stored.split_at(BASE_ORDINAL_BYTES);
        assert_eq!(ordinal, [4, 3, 2, 1]);
        let mut out = Vec::new();
        let elsewhere = Prefix::Elsewhere(&base.bytes);
        decode_onto(compressed, raw.len(), elsewhere, &mut out).unwrap();
        assert_eq!(out, raw);
        let mut buffer = base.bytes.to_vec();
        decode_onto(compressed, raw.len(), Prefix::Behind(0), &mut buffer).unwrap();
        assert_eq!(buffer[base.bytes.len()..], raw);
        for wrong in [raw.len() - 1, raw.len() + 1] {
            assert!(decode_onto(compressed, wrong, elsewhere, &mut out).is_err());
            assert_eq!(out, raw, "a failed decode left something behind");
        }
        out.clear();
        let other = Prefix::Elsewhere(&raw[..100]);
        let other = decode_onto(compressed, raw.len(), other, &mut out);
        assert!(other.is_err() || out != raw);
    }
}

#[test]
fn a_base_that_gains_little_is_done_without() {
    let options = ClusterOptions {
        doubt_per_mille: 120,
        ..ClusterOptions::default()
    };
    let codec = clustered(3, options);
    let base = base(7, letters(1, 20_000));
    for (shared, gains) in [(0, false), (300, false), (5_000, true), (20_000, true)] {
        let raw = Bytes::from([&base.bytes[..shared], &letters(2, 20_000 - shared)].concat());
        let alone = codec.encode(raw.clone()).unwrap();
        let frame = codec.encode_follower(raw, &base).unwrap();
        assert_eq!(frame.codec == UnitCodec::ZstdBase, gains, "{shared}");
        if gains {
            // An eightieth of the base's bytes, at the least.
            assert!(frame.stored.len() + 20_000 / 80 < alone.stored.len());
        } else {
            assert_eq!(frame.stored, alone.stored);
        }
    }
}

/// zstd's tables of level 3 forget what lies 128 KiB back, and so the begin of a long base.
#[test]
fn what_lies_far_back_in_a_base_is_found_where_it_is_looked_for() {
    let long = letters(1, 3 << 20);
    let base = base(0, long.clone());
    let raw = Bytes::from([&letters(2, 100)[..], &long[1000..600_000]].concat());
    let stored = |long_distance_bytes, long_distance_match_bytes| {
        let options = ClusterOptions {
            long_distance_bytes,
            long_distance_match_bytes,
            ..ClusterOptions::default()
        };
        let codec = clustered(3, options);
        let before = codec.encode(raw.clone()).unwrap();
        let frame = codec.encode_follower(raw.clone(), &base).unwrap();
        let after = codec.encode(raw.clone()).unwrap();
        assert_eq!(before.stored, after.stored, "settings stayed behind");
        if frame.codec == UnitCodec::ZstdBase {
            let mut out = Vec::new();
            let compressed = &frame.stored[BASE_ORDINAL_BYTES..];
            out.clear();
            let elsewhere = Prefix::Elsewhere(&base.bytes);
            decode_onto(compressed, raw.len(), elsewhere, &mut out).unwrap();
            assert_eq!(out, raw);
        }
        frame.stored.len()
    };
    let never = stored(1 << 31, 64);
    assert!(stored(256 << 10, 64) < never / 20);
    assert!(stored(256 << 10, 16) < never / 20);
    assert_eq!(stored((4 << 20) + 1, 64), never);
}

#[test]
fn long_frames_without_a_base_do_without_the_dictionary_at_a_higher_level() {
    let sample = text(1000);
    let samples: Vec<u8> = (0..200)
        .flat_map(|n| [&sample[..], &letters(n, 50)].concat())
        .collect();
    let dictionary = train_once(&samples, &[1050; 200], 4096).unwrap();
    let options = ClusterOptions {
        large_value_bytes: 10_000,
        large_value_levels_up: 6,
        ..ClusterOptions::default()
    };
    let codec = FrameCodec {
        dictionary: Some(Arc::new(dictionary)),
        ..clustered(3, options)
    };
    let raw = Bytes::from([text(9_000), letters(1, 3_000)].concat());
    let short = codec.encode(raw.slice(..9_999)).unwrap();
    assert_eq!(short.codec, UnitCodec::ZstdDictionary);
    let long = codec.encode(raw.clone()).unwrap();
    assert_eq!(long.codec, UnitCodec::Zstd);
    assert_eq!(
        long.stored,
        clustered(9, ClusterOptions::default())
            .encode(raw)
            .unwrap()
            .stored
    );
}

#[test]
fn followers_have_a_level_of_their_own_up_to_the_table_s() {
    let base = base(0, text(50_000));
    let raw = Bytes::from([&text(30_000)[..], &letters(1, 3000)].concat());
    let stored = |level, follower_level| {
        let options = ClusterOptions {
            follower_level,
            ..ClusterOptions::default()
        };
        let frame = clustered(level, options).encode_follower(raw.clone(), &base);
        let frame = frame.unwrap();
        assert_eq!(frame.codec, UnitCodec::ZstdBase);
        frame.stored
    };
    assert_eq!(stored(19, 3), stored(3, 3));
    assert_eq!(stored(3, 19), stored(3, 3));
    assert_ne!(stored(19, 19), stored(19, 3));
}

/// The trainer used to read far outside its input, and the process died.
#[test]
fn samples_whose_first_three_quarters_are_next_to_nothing_train_no_dictionary() {
    for first in [0, 7, 8] {
        let mut lengths = vec![0; 29];
        lengths.push(first);
        lengths.extend([300; 10]);
        let samples = text(lengths.iter().sum());
        let trained = train(&samples, &lengths, 1024);
        assert!(trained.is_none() || first == 8, "{first}");
        assert!(train_once(&samples, &lengths, 1024).is_some());
    }
    for (samples, lengths) in [(0, vec![]), (7, vec![7]), (8, vec![8]), (100, vec![1; 99])] {
        assert!(train_once(&text(samples), &lengths, 1024).is_none());
    }
}

#[test]
fn a_pool_yields_what_one_thread_does() {
    let frames: Vec<Bytes> = (1..60).map(|n| text(n * 997).into()).collect();
    let zstd = Arc::new(codec(Compression::Zstd { level: 5 }));
    let encode = |threads| -> Vec<Bytes> {
        let pool = CompressionPool::new(threads);
        let jobs: Vec<_> = frames
            .iter()
            .map(|raw| {
                let (zstd, raw) = (Arc::clone(&zstd), raw.clone());
                pool.submit(move || zstd.encode(raw))
            })
            .collect();
        jobs.iter().map(|job| job.take().unwrap().stored).collect()
    };
    assert_eq!(encode(1), encode(4));
}

#[test]
fn work_that_panics_is_an_error_and_the_pool_goes_on() {
    for threads in [1, 3] {
        let pool = CompressionPool::new(threads);
        let bad: Vec<_> = (0..4)
            .map(|_| pool.submit(|| panic!("on purpose")))
            .collect();
        for job in bad {
            let error = job.take().unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Failed);
        }
        let good = Arc::new(codec(Compression::None));
        let job = pool.submit(move || good.encode(Bytes::from_static(b"fine")));
        assert_eq!(job.take().unwrap().stored, "fine");
    }
}

#[test]
fn abandoned_work_is_not_done() {
    let pool = CompressionPool::new(1);
    let job = pool.submit(|| panic!("nobody wanted this"));
    job.abandon();
    assert!(!job.run());
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>, raw_len in 0usize..400_000, needed: u16) {
        let mut out = Vec::new();
        let _ = decode(&bytes, raw_len, None, &mut out);
        let _ = decode_prefix(&bytes, raw_len, usize::from(needed), None, &mut out);
    }
}
