use proptest::prelude::*;

use super::*;

fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    let key = || prop::collection::vec(0u8..3, 0..3);
    let tombstone =
        (key(), prop::option::of(key()), 1u64..20).prop_map(|(start, end, seq)| RangeTombstone {
            start,
            end,
            seq: SeqNo(seq),
        });
    prop::collection::vec(tombstone, 0..10)
}

fn stripes() -> impl Strategy<Value = Stripes> {
    (prop::collection::vec(0u64..20, 0..4), 0u64..25).prop_map(|(snapshots, visible)| {
        Stripes::new(snapshots.into_iter().map(SeqNo).collect(), SeqNo(visible))
    })
}

fn hides(tombstones: &[RangeTombstone], key: &[u8], seq: SeqNo, stripes: &Stripes) -> bool {
    tombstones.iter().any(|tombstone| {
        tombstone.covers(key) && tombstone.seq > seq && stripes.of(tombstone.seq) == stripes.of(seq)
    })
}

/// Every key of up to three letters out of three, in order.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![Vec::new()];
    for _ in 0..3 {
        let longer: Vec<Vec<u8>> = keys
            .iter()
            .flat_map(|key| (0..3).map(|byte| [key.as_slice(), &[byte]].concat()))
            .collect();
        keys.extend(longer);
    }
    keys.sort();
    keys.dedup();
    keys
}

proptest! {
    #[test]
    fn fragments_delete_what_the_tombstones_do(
        tombstones in tombstones(),
        stripes in stripes(),
    ) {
        let deletes = RangeDeletes::new(tombstones.clone(), &stripes);
        let mut cursor = deletes.cursor();
        for key in keys() {
            for seq in (0..25).map(SeqNo) {
                prop_assert_eq!(
                    cursor.deletes(&key, seq, &stripes),
                    hides(&tombstones, &key, seq, &stripes),
                    "key {:?} at {}", key, seq
                );
            }
        }
    }

    /// Cut anywhere, the outputs' tombstones together do what the inputs' did, and each stays
    /// within its output.
    #[test]
    fn clipped_tombstones_do_what_the_whole_ones_did(
        tombstones in tombstones(),
        stripes in stripes(),
        cuts in prop::collection::btree_set(prop::collection::vec(0u8..3, 0..3), 0..4),
    ) {
        let deletes = RangeDeletes::new(tombstones.clone(), &stripes);
        let cuts: Vec<Option<&[u8]>> = cuts.iter().map(|cut| Some(cut.as_slice())).collect();
        let starts = std::iter::once(None).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([None]);
        let mut pieces = Vec::new();
        for (start, end) in starts.zip(ends) {
            let clipped = deletes.clipped(start, end, |_| true);
            for piece in &clipped {
                prop_assert!(start.is_none_or(|start| piece.start.as_slice() >= start));
                prop_assert!(end.is_none_or(|end| piece.end.as_deref().is_some_and(|e| e <= end)));
                prop_assert!(piece.end.as_ref().is_none_or(|end| *end > piece.start));
            }
            pieces.extend(clipped);
        }
        for key in keys() {
            for seq in (0..25).map(SeqNo) {
                prop_assert_eq!(
                    hides(&pieces, &key, seq, &stripes),
                    hides(&tombstones, &key, seq, &stripes)
                );
            }
        }
    }
}

#[test]
fn pieces_of_one_tombstone_join_again() {
    let tombstone = |start: &str, end: &str, seq| RangeTombstone {
        start: start.into(),
        end: Some(end.into()),
        seq: SeqNo(seq),
    };
    let stripes = Stripes::new(vec![SeqNo(5)], SeqNo(9));
    let deletes = RangeDeletes::new(
        vec![tombstone("a", "z", 3), tombstone("f", "k", 7)],
        &stripes,
    );
    assert_eq!(
        deletes.clipped(None, Some(b"x"), |_| true),
        [tombstone("a", "x", 3), tombstone("f", "k", 7)]
    );
    assert_eq!(
        deletes.clipped(Some(b"g"), None, |piece| piece.seq.0 > 5),
        [tombstone("g", "k", 7)]
    );
}

#[test]
fn nested_ranges_stay_linear() {
    let count = 2000u64;
    let tombstones = (0..count).map(|at| RangeTombstone {
        start: at.to_be_bytes().to_vec(),
        end: Some((2 * count - at).to_be_bytes().to_vec()),
        seq: SeqNo(at + 1),
    });
    let stripes = Stripes::new(vec![SeqNo(7)], SeqNo(count));
    let deletes = RangeDeletes::new(tombstones.collect(), &stripes);
    let seqs: usize = deletes
        .fragments
        .iter()
        .map(|fragment| fragment.seqs.len())
        .sum();
    assert!(seqs as u64 <= 4 * count, "{seqs}");
}
