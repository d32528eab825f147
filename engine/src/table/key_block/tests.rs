use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
enum TestPlace {
    Delete,
    Inline(Vec<u8>),
    Frame(FramePlace),
}

type Entries = BTreeMap<(Vec<u8>, Reverse<u64>), TestPlace>;

fn entries() -> impl Strategy<Value = Entries> {
    let key = prop::collection::vec(prop_oneof![Just(1u8), Just(2), Just(0xff)], 0..5);
    let seq = prop_oneof![Just(0u64), 0u64..4, Just(SeqNo::MAX.0)];
    let frame = prop_oneof![Just(0u32), 0u32..4, Just(u32::MAX)];
    let place = prop_oneof![
        Just(TestPlace::Delete),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(TestPlace::Inline),
        (
            frame,
            prop_oneof![Just(0u32), 0u32..20, Just(1 << 31)],
            0u32..20
        )
            .prop_map(|(frame, offset, len)| TestPlace::Frame(FramePlace {
                frame,
                offset,
                len
            })),
    ];
    prop::collection::btree_map((key, seq.prop_map(Reverse)), place, 1..80)
}

fn build(entries: &Entries) -> Vec<u8> {
    let mut builder = KeyBlockBuilder::default();
    for ((key, seq), place) in entries {
        let (kind, place) = match place {
            TestPlace::Delete => (EntryKind::Delete, StoredPlace::Inline(&[])),
            TestPlace::Inline(value) => (EntryKind::Put, StoredPlace::Inline(value)),
            TestPlace::Frame(place) => (EntryKind::Put, StoredPlace::Frame(*place)),
        };
        builder.add(key, SeqNo(seq.0), kind, place).unwrap();
    }
    let len = builder.len();
    let bytes = builder.finish();
    assert_eq!(bytes.len(), len);
    bytes
}

fn own(entry: RawEntry<'_>) -> (u64, TestPlace) {
    let place = match (entry.kind, entry.place) {
        (EntryKind::Delete, _) => TestPlace::Delete,
        (EntryKind::Put, StoredPlace::Inline(value)) => TestPlace::Inline(value.to_vec()),
        (EntryKind::Put, StoredPlace::Frame(place)) => TestPlace::Frame(place),
    };
    (entry.seq.0, place)
}

proptest! {
    #[test]
    fn a_block_gives_back_its_entries(entries in entries()) {
        let bytes = build(&entries);
        let block = KeyBlock::new(&bytes).unwrap();
        let mut got = Entries::new();
        block
            .for_each(|key, entry| {
                let (seq, place) = own(entry);
                got.insert((key.to_vec(), Reverse(seq)), place);
                Ok(())
            })
            .unwrap();
        prop_assert_eq!(got, entries);
    }

    #[test]
    fn a_search_finds_what_a_sorted_map_finds(
        entries in entries(),
        key in prop::collection::vec(prop_oneof![Just(1u8), Just(2), Just(0xff)], 0..6),
        seq in prop_oneof![0u64..5, Just(SeqNo::MAX.0)],
    ) {
        let bytes = build(&entries);
        let block = KeyBlock::new(&bytes).unwrap();
        let next = entries.range((key.clone(), Reverse(seq))..).next();
        match (block.search(&key, SeqNo(seq)).unwrap(), next) {
            (Search::Found(entry), Some(((of, Reverse(at)), place))) => {
                prop_assert_eq!(of, &key);
                prop_assert_eq!(own(entry), (*at, place.clone()));
            }
            (Search::Absent, Some(((of, _), _))) => prop_assert!(*of > key),
            (Search::Beyond, None) => {}
            (got, want) => prop_assert!(false, "{:?} where the map has {:?}", got, want),
        }
    }

    #[test]
    fn no_bytes_make_a_block_panic(mut bytes: Vec<u8>, key: Vec<u8>, restarts in 0u32..4) {
        bytes.extend_from_slice(&restarts.to_le_bytes());
        if let Ok(block) = KeyBlock::new(&bytes) {
            let _ = block.search(&key, SeqNo(1));
            let _ = block.for_each(|_, _| Ok(()));
        }
    }
}

#[test]
fn neighbouring_values_take_four_bytes_beyond_their_keys() {
    let mut builder = KeyBlockBuilder::default();
    let mut offset = 0;
    for n in 0..RESTART_INTERVAL as u32 {
        let place = StoredPlace::Frame(FramePlace {
            frame: 300,
            offset,
            len: 100,
        });
        builder
            .add(&n.to_be_bytes(), SeqNo(0), EntryKind::Put, place)
            .unwrap();
        offset += 100;
    }
    // The restart: tag, shared, length, 4 key bytes, 2 of frame, 1 of offset, 1 of length.
    let first = 3 + 4 + 4;
    // The others: tag, shared, suffix length, one key byte, length.
    let others = (RESTART_INTERVAL - 1) * (4 + 1);
    assert_eq!(builder.len(), first + others + 4 + 4);
}
