//! Walks over keys alone: they tell how long the values are, and read none.

use std::sync::Arc;

use ppc_engine::vfs::MemVfs;
use ppc_engine::{Counter, Db, DbOptions, Durability, IterOptions, KeyRange, KeyspaceOptions};

#[test]
fn a_walk_over_keys_tells_the_lengths_of_values_and_reads_no_frame() {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(MemVfs::new());
    let db = Db::open("store", options).unwrap();
    let files = db.keyspace("files", KeyspaceOptions::default()).unwrap();
    // Some sit in their key block, some in frames, and the last ones in memory.
    let lengths: Vec<usize> = (0..200).map(|at| at * 7 % 300).collect();
    for (at, length) in lengths.iter().enumerate() {
        let key = format!("{at:04}");
        files
            .put(&key, vec![b'v'; *length], Durability::None)
            .unwrap();
        if at == 150 {
            db.flush().unwrap();
        }
    }
    let mut walk = files
        .iter(KeyRange::all(), IterOptions::keys_only())
        .unwrap();
    let mut found = Vec::new();
    while let Some(item) = walk.next() {
        assert!(item.unwrap().1.is_empty());
        found.push(walk.value_len());
    }
    assert_eq!(found, lengths);
    assert_eq!(walk.next_back().map(drop), None);
    let mut back = files
        .iter(KeyRange::all(), IterOptions::keys_only())
        .unwrap();
    assert!(back.next_back().is_some());
    assert_eq!(back.value_len(), lengths[199]);
    assert_eq!(db.stats().counters.get(Counter::FramesRead), 0);
}
