use super::*;
use crate::corpus::CorpusOptions;

const KIB: u32 = 1 << 10;

/// Near-duplicates, and among them an empty file, a file of one byte, and one larger than any
/// block that compresses to nothing.
fn corpus() -> Corpus {
    let families = Corpus::generate(&CorpusOptions {
        families: 12,
        versions: 6,
        lines: 60,
        ..CorpusOptions::default()
    });
    let odd = [
        (b"empty.py".to_vec(), Vec::new()),
        (b"one.py".to_vec(), vec![b'1']),
        (b"large.py".to_vec(), vec![b'x'; 3 << 20]),
    ];
    let files = families.iter().map(|(key, value)| {
        let key = ppc_store::PpcKey::decode(key).unwrap();
        (key.name().to_vec(), value.to_vec())
    });
    Corpus::of_files("odd", files.chain(odd).collect())
}

fn spec(peer: &'static str, load: Load, codec: Codec, block_bytes: u32) -> StoreSpec {
    StoreSpec {
        peer,
        load,
        codec,
        layout: if block_bytes == 0 { "files" } else { "blocks" },
        block_bytes,
        dictionary_bytes: 0,
        cache_bytes: 1 << 20,
    }
}

/// Every peer in every way that the experiments build it.
fn specs() -> Vec<StoreSpec> {
    let mut specs = Vec::new();
    for load in [Load::Puts, Load::ShuffledPuts, Load::Sorted, Load::Shuffled] {
        for (codec, block_bytes) in [
            (Codec::Zstd(3), 4 * KIB),
            (Codec::Zstd(6), 128 * KIB),
            (Codec::Zlib(6), 64 * KIB),
            (Codec::Snappy, 16 * KIB),
            (Codec::Lz4, 64 * KIB),
            (Codec::None, 0),
            (Codec::Zstd(6), 0),
        ] {
            for peer in all() {
                let spec = spec(peer.name(), load, codec, block_bytes);
                specs.push(StoreSpec {
                    dictionary_bytes: 16 * KIB,
                    ..spec.clone()
                });
                specs.push(spec);
            }
        }
    }
    specs.retain(|spec| named(spec.peer).unwrap().supports(spec));
    specs
}

fn resources() -> Resources {
    Resources {
        threads: 2,
        write_buffer_bytes: 1 << 20,
    }
}

fn wanted(corpus: &Corpus, ordinal: usize) -> Wanted<'_> {
    Wanted {
        key: corpus.key(ordinal),
        ordinal: ordinal as u32,
    }
}

fn get(store: &dyn Store, wanted: Wanted<'_>) -> Option<Vec<u8>> {
    let mut value = None;
    store
        .reader()
        .get(wanted, &mut |bytes| {
            assert!(value.replace(bytes.to_vec()).is_none(), "lent twice");
        })
        .unwrap();
    value
}

/// Builds the store and hands it over, open.
fn with_built(
    spec: &StoreSpec,
    corpus: &Corpus,
    test: impl FnOnce(&'static dyn Peer, &dyn Store, &Path),
) {
    let dir = tempfile::tempdir().unwrap();
    let peer = named(spec.peer).unwrap();
    let order = crate::workload::shuffled(corpus.len() as u32, 1);
    let is_shuffled = matches!(spec.load, Load::Shuffled | Load::ShuffledPuts);
    let input = Input {
        corpus,
        order: is_shuffled.then_some(order.as_slice()),
    };
    peer.build(spec, input, &resources(), dir.path()).unwrap();
    let store = peer.open(spec, corpus, &resources(), dir.path()).unwrap();
    test(peer, store.as_ref(), dir.path());
}

#[test]
fn every_peer_gives_every_value_back() {
    let corpus = corpus();
    for spec in specs() {
        with_built(&spec, &corpus, |peer, store, dir| {
            let stored = peer.stored_bytes(&corpus, dir).unwrap();
            assert!(stored > 0, "{spec}");
            for ordinal in 0..corpus.len() {
                let value = get(store, wanted(&corpus, ordinal));
                assert_eq!(value.as_deref(), Some(corpus.value(ordinal)), "{spec}");
            }
            let backwards: Vec<_> = (0..corpus.len()).rev().collect();
            let questions: Vec<_> = backwards.iter().map(|&it| wanted(&corpus, it)).collect();
            let mut answers = vec![None; corpus.len()];
            store
                .reader()
                .multi_get(&questions, &mut |place, value| {
                    assert!(answers[place].replace(value.to_vec()).is_none(), "{spec}");
                })
                .unwrap();
            for (answer, ordinal) in answers.iter().zip(backwards) {
                assert_eq!(answer.as_deref(), Some(corpus.value(ordinal)), "{spec}");
            }
            if peer.can_scan() {
                let mut entries = corpus.iter();
                let mut scanned = 0;
                store
                    .reader()
                    .scan(&mut |key, value| {
                        assert_eq!(entries.next(), Some((key, value)), "{spec}");
                        scanned += 1;
                    })
                    .unwrap();
                assert_eq!(scanned, corpus.len(), "{spec}");
            }
        });
    }
}

#[test]
fn absent_keys_are_not_found_and_changes_are_seen() {
    let corpus = corpus();
    let absent = crate::workload::absent_keys(&corpus, &[0, 5, 70], 1);
    for spec in specs() {
        with_built(&spec, &corpus, |peer, store, _| {
            if peer.is_limit() {
                return;
            }
            for key in &absent {
                let ordinal = u32::MAX;
                assert_eq!(get(store, Wanted { key, ordinal }), None, "{spec}");
            }
            if !peer.can_update() {
                assert!(
                    store.update(Update::Delete(corpus.key(0))).is_err(),
                    "{spec}"
                );
                return;
            }
            let (replaced, deleted) = (corpus.key(3), corpus.key(4));
            store.update(Update::Put(replaced, b"new")).unwrap();
            store.update(Update::Delete(deleted)).unwrap();
            let new = get(store, wanted(&corpus, 3));
            assert_eq!(new.as_deref(), Some(&b"new"[..]), "{spec}");
            assert_eq!(get(store, wanted(&corpus, 4)), None, "{spec}");
            let kept = get(store, wanted(&corpus, 5));
            assert_eq!(kept.as_deref(), Some(corpus.value(5)), "{spec}");
        });
    }
}

#[test]
fn readers_of_several_threads_do_not_mix_answers() {
    let corpus = corpus();
    for spec in specs()
        .iter()
        .filter(|spec| spec.load != Load::ShuffledPuts)
    {
        with_built(spec, &corpus, |_, store, _| {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let corpus = &corpus;
                    scope.spawn(move || {
                        for ordinal in (thread..corpus.len()).step_by(3) {
                            let value = get(store, wanted(corpus, ordinal));
                            assert_eq!(value.as_deref(), Some(corpus.value(ordinal)), "{spec}");
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn a_peer_that_is_not_built_in_says_how_to_get_it() {
    let error = named("leveldb").err().unwrap();
    assert!(error.to_string().contains("ppc"), "{error}");
    #[cfg(not(feature = "rocksdb"))]
    assert_eq!(
        named("rocksdb").err().unwrap().remedy(),
        Some("build it with `--features rocksdb`")
    );
}

#[test]
fn write_buffers_follow_the_memory() {
    let bytes = |memory_gib: u64| Resources::scaled(2, memory_gib << 30).write_buffer_bytes;
    assert_eq!(bytes(768), 2 << 30);
    assert_eq!(bytes(8), 64 << 20);
    assert_eq!(bytes(96), 256 << 20);
    assert_eq!(bytes(2000), 2 << 30);
    assert_eq!(Resources::scaled(0, 0).threads, 1);
}
