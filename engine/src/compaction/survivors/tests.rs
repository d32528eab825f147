use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::iter::RangeTombstone;
use crate::read::testing::{Entry, VecIter};

/// Keys of deeper levels.
impl Deeper for &BTreeSet<Vec<u8>> {
    fn may_hold(&mut self, key: &[u8]) -> bool {
        self.contains(key)
    }
}

/// Newer than this is what no reader saw when the compaction began.
const SEQ_MAX: u64 = 30;

/// What a reader at `seq` sees of `key`: the number of the put, or nothing.
fn read(
    entries: &[Entry],
    tombstones: &[RangeTombstone],
    deeper: &BTreeSet<Vec<u8>>,
    key: &[u8],
    seq: u64,
) -> Option<Bytes> {
    let own = entries
        .iter()
        .filter(|entry| entry.key == key && entry.seq.0 <= seq);
    let newest = own.max_by_key(|entry| entry.seq);
    let covering = tombstones
        .iter()
        .filter(|tombstone| tombstone.seq.0 <= seq && tombstone.covers(key));
    let deleted_at = covering.map(|tombstone| tombstone.seq).max();
    match newest {
        Some(entry) if deleted_at > Some(entry.seq) => None,
        Some(entry) => (entry.kind == EntryKind::Put).then(|| entry.value.clone()),
        None if deleted_at.is_some() => None,
        None => deeper.contains(key).then(|| Bytes::from_static(b"deeper")),
    }
}

fn survive(
    entries: &[Entry],
    deletes: &RangeDeletes,
    deeper: &BTreeSet<Vec<u8>>,
    stripes: &Stripes,
) -> Vec<Entry> {
    let mut input = VecIter::new(entries.to_vec());
    input.seek_to_first().unwrap();
    let last_level = deeper.is_empty();
    let mut walk = Survivors::new(input, None, stripes, deletes, deeper, last_level);
    let mut survivors = Vec::new();
    loop {
        match walk.advance().unwrap() {
            Step::End => break,
            Step::Underway => continue,
            Step::Survivor => survivors.push(Entry {
                key: walk.key().to_vec(),
                seq: walk.seq(),
                kind: walk.kind(),
                value: walk.value().unwrap(),
            }),
        }
    }
    assert_eq!(walk.met(), entries.len() as u64);
    survivors
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 0..2)
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::btree_map((key(), 1..SEQ_MAX), any::<bool>(), 0..30).prop_map(|map| {
        let entries = map.into_iter().map(|((key, seq), is_put)| {
            let put = Entry::put(&key, seq);
            if is_put {
                return put;
            }
            Entry {
                kind: EntryKind::Delete,
                value: Bytes::new(),
                ..put
            }
        });
        entries.collect()
    })
}

fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    let tombstone =
        (key(), prop::option::of(key()), 1..SEQ_MAX).prop_map(|(start, end, seq)| RangeTombstone {
            start,
            end,
            seq: SeqNo(seq),
        });
    prop::collection::vec(tombstone, 0..5)
}

proptest! {
    #[test]
    fn every_reader_sees_after_what_it_saw_before(
        entries in entries(),
        tombstones in tombstones(),
        deeper in prop::collection::btree_set(key(), 0..3),
        snapshots in prop::collection::vec(0..SEQ_MAX, 0..4),
        visible in 0..=SEQ_MAX,
    ) {
        let snapshots: Vec<u64> = snapshots.into_iter().filter(|seq| *seq <= visible).collect();
        let stripes = Stripes::new(snapshots.iter().copied().map(SeqNo).collect(), SeqNo(visible));
        let deletes = RangeDeletes::new(tombstones.clone(), &stripes);
        let survivors = survive(&entries, &deletes, &deeper, &stripes);
        let left = deletes.clipped(None, None, |piece| {
            stripes.of(piece.seq) > 0 || deeper.iter().any(|key| piece.covers(key))
        });
        prop_assert!(survivors.is_sorted());
        let readers = snapshots.into_iter().chain(visible..=SEQ_MAX);
        for reader in readers {
            for key in [vec![], vec![0], vec![1], vec![2]] {
                prop_assert_eq!(
                    read(&entries, &tombstones, &deeper, &key, reader),
                    read(&survivors, &left, &deeper, &key, reader),
                    "key {:?} at {}", key, reader
                );
            }
        }
    }

    /// With no snapshot, the last level keeps one version of each live key, without a number, and
    /// no tombstone.
    #[test]
    fn the_last_level_ends_clean(entries in entries(), tombstones in tombstones()) {
        let stripes = Stripes::new(Vec::new(), SeqNo(SEQ_MAX));
        let deletes = RangeDeletes::new(tombstones.clone(), &stripes);
        let survivors = survive(&entries, &deletes, &BTreeSet::new(), &stripes);
        let keys: BTreeSet<&Vec<u8>> = survivors.iter().map(|entry| &entry.key).collect();
        prop_assert_eq!(keys.len(), survivors.len());
        for entry in &survivors {
            prop_assert_eq!((entry.kind, entry.seq), (EntryKind::Put, SeqNo::ZERO));
        }
    }
}

#[test]
fn an_error_of_the_input_ends_the_walk() {
    let entries: Vec<Entry> = (1..5).map(|seq| Entry::put(b"k", seq)).collect();
    let mut input = VecIter::new(entries).failing_after(2);
    input.seek_to_first().unwrap();
    let stripes = Stripes::new(Vec::new(), SeqNo(9));
    let deletes = RangeDeletes::default();
    let none = BTreeSet::new();
    let mut walk = Survivors::new(input, None, &stripes, &deletes, &none, true);
    assert_eq!(walk.advance().unwrap(), Step::Survivor);
    assert!(walk.advance().is_err());
}

#[test]
fn a_long_stretch_of_dropped_entries_gives_the_caller_a_turn() {
    let entries: Vec<Entry> = (1..=3000).map(|seq| Entry::put(b"k", seq)).collect();
    let mut input = VecIter::new(entries);
    input.seek_to_first().unwrap();
    let stripes = Stripes::new(Vec::new(), SeqNo(3000));
    let deletes = RangeDeletes::default();
    let none = BTreeSet::new();
    let mut walk = Survivors::new(input, None, &stripes, &deletes, &none, true);
    assert_eq!(walk.advance().unwrap(), Step::Survivor);
    assert_eq!(walk.advance().unwrap(), Step::Underway);
    assert_eq!(walk.met(), 1025);
}
