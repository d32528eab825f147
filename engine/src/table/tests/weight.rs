//! What a range of keys weighs follows its values' bytes, not its number of keys.

use super::*;
use crate::types::KeyRange;

#[test]
fn a_range_weighs_what_its_frames_take() {
    // A key block holds about a hundred of these keys: by key blocks alone, the two hundred tiny
    // files in the middle would weigh as much as the large ones around them.
    let entry = |key: String, seed, len| TestEntry {
        key: key.into_bytes(),
        seq: 1,
        value: Some(text(seed, len)),
    };
    let mut entries = Vec::new();
    entries.extend((0..200).map(|n| entry(format!("a{n:04}"), n, 20_000)));
    entries.extend((0..200).map(|n| entry(format!("b{n:04}"), n, 200)));
    entries.extend((0..200).map(|n| entry(format!("c{n:04}"), n + 7, 20_000)));
    let options = TableOptions::blocks(3, 64 << 10);
    let fixture = build(&entries, &[], &options, 1).unwrap();
    let table = fixture.open(ReadMode::Mmap, 0).unwrap();
    let weigh = |prefix: &str| {
        let range = KeyRange::prefix(prefix.as_bytes());
        table.approximate_bytes(&range, plain_iter()).unwrap()
    };
    let (large, tiny, all) = (weigh("a"), weigh("b"), weigh(""));
    assert_eq!(weigh("d"), 0);
    assert!(tiny * 10 < large, "{tiny} of {large}");
    let parts = large + tiny + weigh("c");
    assert!(parts.abs_diff(all) * 50 < all, "{parts} of {all}");
    assert!(all.abs_diff(table.stored_bytes()) * 20 < all);
}
