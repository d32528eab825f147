//! Multi-gets, traces and statistics.

use crate::common::{key, open, options, value};
use ppc_engine::vfs::MemVfs;
use ppc_engine::{Batch, Counter, Durability, FilterOutcome};

#[test]
fn a_large_multi_get_answers_in_order_and_decodes_each_frame_once() {
    let vfs = MemVfs::new();
    let mut uncached = options(&vfs);
    uncached.cache_bytes = 0;
    let (db, keyspace) = open(uncached);
    for at in 0..3000 {
        keyspace
            .put(key(at), value(at, 1), Durability::None)
            .unwrap();
        if at % 1000 == 999 {
            db.flush().unwrap();
        }
    }
    // Twice each, present and absent, in no order.
    let asked: Vec<u32> = (0..8000).map(|at| at * 7919 % 4000).collect();
    let keys: Vec<_> = asked.iter().copied().map(key).collect();
    let found = keyspace.multi_get(&keys);
    assert_eq!(found.len(), keys.len());
    for (at, found) in asked.into_iter().zip(found) {
        let expected = (at < 3000).then(|| value(at, 1));
        assert_eq!(found.unwrap().as_deref(), expected.as_deref());
    }
    let stats = db.stats();
    let decoded = stats.counters.get(Counter::FrameBytesDecoded);
    assert!(
        decoded <= stats.keyspaces[0].total().raw_bytes,
        "{decoded} bytes decoded"
    );
    assert_eq!(stats.counters.get(Counter::Gets), 8000);
    assert_eq!(stats.counters.get(Counter::GetsFound), 6000);
    assert_eq!(stats.multi_gets.count, 1);
    assert_eq!(keyspace.multi_get::<&str>(&[]).len(), 0);
    assert_eq!(
        keyspace.multi_get(&[key(5)])[0]
            .as_ref()
            .unwrap()
            .as_deref(),
        Some(&*value(5, 1))
    );
}

#[test]
fn get_into_replaces_the_buffer() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("long", [7; 5000], Durability::None).unwrap();
    keyspace.put("short", "x", Durability::None).unwrap();
    let mut buffer = Vec::new();
    for _ in 0..2 {
        assert!(keyspace.get_into("long", &mut buffer).unwrap());
        assert_eq!(buffer, [7; 5000]);
        assert!(keyspace.get_into("short", &mut buffer).unwrap());
        assert_eq!(buffer, b"x");
        assert!(!keyspace.get_into("none", &mut buffer).unwrap());
        assert!(buffer.is_empty());
        db.flush().unwrap();
    }
}

#[test]
fn a_trace_tells_what_a_get_touched() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    keyspace.put("old", [1; 500], Durability::None).unwrap();
    db.flush().unwrap();
    keyspace.put("new", [2; 500], Durability::None).unwrap();
    db.flush().unwrap();
    keyspace.put("active", [3; 500], Durability::None).unwrap();

    let (found, trace) = keyspace.get_traced("active").unwrap();
    assert_eq!(found.unwrap(), [3; 500].as_slice());
    assert!(trace.found_in_memtable);
    assert_eq!(trace.tables, []);

    let (_, trace) = keyspace.get_traced("old").unwrap();
    assert_eq!(trace.memtables, 1);
    let last = trace.tables.last().unwrap();
    assert_eq!(last.level, 0);
    assert_eq!(last.filter, FilterOutcome::Passed);
    assert!(last.found);
    assert_eq!(last.key_blocks, 1);
    assert_eq!(trace.frames().count(), 1);
    assert!(trace.decoded_bytes() >= 500);
    let (_, again) = keyspace.get_traced("old").unwrap();
    assert_eq!(again.decoded_bytes(), 0, "the frame is cached");

    keyspace.delete_prefix("o", Durability::None).unwrap();
    let (found, trace) = keyspace.get_traced("old").unwrap();
    assert_eq!(found, None);
    assert!(trace.range_deleted);
    assert_eq!(trace.tables, []);
}

#[test]
fn statistics_add_up() {
    let vfs = MemVfs::new();
    let (db, keyspace) = open(options(&vfs));
    let mut batch = Batch::new();
    let mut given = 0;
    for at in 0..100 {
        given += (key(at).len() + value(at, 1).len()) as u64;
        batch.put(&keyspace, key(at), value(at, 1));
    }
    assert_eq!(batch.len(), 100);
    db.write(batch, Durability::Sync).unwrap();
    let stats = db.stats();
    assert_eq!(stats.counters.get(Counter::UserBytesWritten), given);
    assert!(stats.counters.get(Counter::WalBytesWritten) > given);
    assert_eq!(stats.counters.get(Counter::WalSyncs), 1);
    assert_eq!(stats.keyspaces[0].memtable_entries, 100);
    assert!(stats.memory.active_memtables > given);
    assert_eq!(stats.snapshots, 0);

    let snapshot = db.snapshot().unwrap();
    db.flush().unwrap();
    keyspace.get(key(1)).unwrap();
    let stats = db.stats();
    assert_eq!(stats.snapshots, 1);
    assert!(stats.oldest_snapshot_age.is_some());
    let total = stats.keyspaces[0].total();
    assert_eq!(
        (total.tables, total.entries, total.raw_bytes),
        (1, 100, given)
    );
    assert_eq!(stats.keyspaces[0].memtable_entries, 0);
    assert_eq!(stats.counters.get(Counter::Flushes), 1);
    assert!(stats.write_amplification().unwrap() > 1.0);
    assert_eq!(stats.space_amplification(), Some(1.0));
    assert!(stats.compression_ratio().unwrap() < 1.0);
    assert!(stats.decoded_bytes_per_returned_byte().unwrap() >= 1.0);
    assert_eq!(stats.frames_per_get(), Some(1.0));
    assert_eq!(stats.writes.count, 1);
    let by_name: Vec<_> = stats
        .counters
        .iter()
        .filter(|(name, _)| *name == "gets")
        .collect();
    assert_eq!(by_name, [("gets", 1)]);
    drop(snapshot);
}

#[test]
fn opening_a_store_opens_no_table() {
    let vfs = MemVfs::new();
    let mut quiet = options(&vfs);
    quiet.auto_compaction = false;
    let (db, keyspace) = open(quiet.clone());
    for at in 0..40 {
        keyspace
            .put(key(at), value(at, 1), Durability::None)
            .unwrap();
        db.flush().unwrap();
    }
    drop((db, keyspace));
    quiet.open_tables_max = 16;
    let (db, keyspace) = open(quiet);
    assert_eq!(db.stats().open_tables, 0);
    assert_eq!(keyspace.get(key(7)).unwrap().unwrap(), value(7, 1));
    assert_eq!(db.stats().open_tables, 1);
    for at in 0..40 {
        assert_eq!(keyspace.get(key(at)).unwrap().unwrap(), value(at, 1));
    }
    assert!(db.stats().open_tables <= 16, "{}", db.stats().open_tables);
}
