use proptest::prelude::*;

use super::*;
use crate::iter::InternalIterator;
use crate::read::testing::{Entry, check_walk, entries, moves};

fn filled(entries: &[(Vec<u8>, u64)]) -> Arc<Memtable> {
    let memtable = Arc::new(Memtable::new());
    for (key, seq) in entries {
        let value = Bytes::from(format!("{seq}"));
        memtable.insert(key, SeqNo(*seq), EntryKind::Put, value);
    }
    memtable
}

#[test]
fn a_reader_sees_the_newest_entry_up_to_its_sequence_number() {
    let memtable = filled(&[(b"k".to_vec(), 3), (b"k".to_vec(), 7), (b"j".to_vec(), 5)]);
    let seen = |seq| memtable.get(b"k", SeqNo(seq)).map(|entry| entry.seq.0);
    assert_eq!(seen(2), None);
    assert_eq!(seen(3), Some(3));
    assert_eq!(seen(6), Some(3));
    assert_eq!(seen(100), Some(7));
    assert_eq!(memtable.get(b"", SeqNo::MAX), None);
    assert_eq!(memtable.get(b"l", SeqNo::MAX), None);
}

#[test]
fn many_range_tombstones_keep_their_answers_across_folds() {
    let memtable = Memtable::new();
    for seq in 1..=200u64 {
        memtable.insert_range_tombstone(RangeTombstone {
            start: vec![(seq % 50) as u8],
            end: Some(vec![(seq % 50) as u8 + 2]),
            seq: SeqNo(seq),
        });
    }
    assert_eq!(memtable.range_tombstones().len(), 200);
    assert_eq!(memtable.tombstone_over(&[10], SeqNo::MAX), SeqNo(160));
    assert_eq!(memtable.tombstone_over(&[10], SeqNo(159)), SeqNo(159));
    assert_eq!(memtable.tombstone_over(&[10], SeqNo(110)), SeqNo(110));
    assert_eq!(memtable.tombstone_over(&[60], SeqNo::MAX), SeqNo::ZERO);
    assert_eq!(memtable.seq_max(), SeqNo(200));
    assert!(!memtable.is_empty());
}

#[test]
fn overlap_is_told_to_the_byte() {
    let memtable = filled(&[(b"c".to_vec(), 3), (b"e".to_vec(), 1)]);
    let meets = |range: KeyRange| memtable.overlaps(&range);
    assert!(meets(KeyRange::all()));
    assert!(meets(KeyRange::new::<&[u8]>(
        b"c".as_slice()..=b"c".as_slice()
    )));
    assert!(!meets(KeyRange::new::<&[u8]>(
        b"c\0".as_slice()..b"e".as_slice()
    )));
    assert!(meets(KeyRange::new::<&[u8]>(
        b"d".as_slice()..=b"e".as_slice()
    )));
    assert!(!meets(KeyRange::new::<&[u8]>((
        Bound::Excluded(b"e".as_slice()),
        Bound::Unbounded
    ))));
    memtable.insert_range_tombstone(RangeTombstone {
        start: b"x".to_vec(),
        end: Some(b"z".to_vec()),
        seq: SeqNo(9),
    });
    assert!(meets(KeyRange::prefix(b"y")));
    assert!(!meets(KeyRange::prefix(b"z")));
}

proptest! {
    #[test]
    fn the_cursor_moves_like_one_over_a_sorted_list(
        entries in entries(),
        moves in moves(),
    ) {
        let memtable = Arc::new(Memtable::new());
        for entry in &entries {
            memtable.insert(&entry.key, entry.seq, entry.kind, entry.value.clone());
        }
        check_walk(&mut memtable.iter(), entries, moves)?;
    }
}

#[test]
fn the_cursor_walks_across_many_runs_and_turns_round_anywhere() {
    let entries: Vec<Entry> = (0..1000u16)
        .map(|at| Entry::put(&at.to_be_bytes(), 1))
        .collect();
    let memtable = Arc::new(Memtable::new());
    for entry in &entries {
        memtable.insert(&entry.key, entry.seq, entry.kind, entry.value.clone());
    }
    let mut cursor = memtable.iter();
    cursor.seek_to_first().unwrap();
    for entry in &entries[1..] {
        cursor.next().unwrap();
        assert_eq!(cursor.key().user_key, entry.key);
    }
    for entry in entries[..999].iter().rev() {
        cursor.prev().unwrap();
        assert_eq!(cursor.key().user_key, entry.key);
    }
    cursor.prev().unwrap();
    assert!(!cursor.valid());
}
