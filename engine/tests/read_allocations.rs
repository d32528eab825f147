//! What reads ask of the allocator. A test binary of its own, for its allocator counts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use ppc_engine::vfs::MemVfs;
use ppc_engine::{BulkOptions, Db, DbOptions, Keyspace, KeyspaceOptions, ReadMode, TableOptions};

/// Counts what each thread asks for.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        BYTES.set(BYTES.get() + layout.size() as u64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: MemoryLayout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: MemoryLayout, bytes: usize) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        BYTES.set(BYTES.get() + bytes as u64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls and bytes that `run` asks for.
fn asked<T>(run: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = (CALLS.get(), BYTES.get());
    let result = run();
    (result, CALLS.get() - before.0, BYTES.get() - before.1)
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

/// A version of one of 20 files, of 20 KiB and more.
fn content(number: u64) -> Bytes {
    let lines = (0..600 + number).map(|line| match line {
        7 => format!("const VERSION: u64 = {number};\n"),
        _ => format!("let f{} = call({line});\n", number % 20 * 7919 + line),
    });
    lines.collect::<String>().into()
}

const COUNT: u64 = 120;

fn open(cache_bytes: usize, mode: ReadMode, table: TableOptions) -> (Db, Keyspace) {
    let mut options = DbOptions::default();
    options.vfs = Arc::new(MemVfs::new());
    options.cache_bytes = cache_bytes;
    options.read_mode = mode;
    let db = Db::open("/db", options).unwrap();
    let keyspace = KeyspaceOptions::uniform(table);
    let keyspace = db.keyspace("files", keyspace).unwrap();
    let mut loader = db.bulk_loader(BulkOptions::default()).unwrap();
    for number in 0..COUNT {
        loader.put(&keyspace, key(number), content(number)).unwrap();
    }
    loader.finish(&mut |_| {}).unwrap();
    (db, keyspace)
}

fn layouts() -> [TableOptions; 3] {
    let mut with_dictionary = TableOptions::clustered(3);
    with_dictionary.dictionary_bytes = 4 << 10;
    [
        TableOptions::clustered(3),
        with_dictionary,
        TableOptions::blocks(3, 16 << 10),
    ]
}

#[test]
fn a_get_served_from_the_cache_allocates_nothing() {
    for table in layouts() {
        for mode in [ReadMode::Mmap, ReadMode::Pread] {
            let (_db, keyspace) = open(64 << 20, mode, table.clone());
            let keys: Vec<Vec<u8>> = (0..COUNT).map(key).collect();
            let mut buffer = Vec::with_capacity(1 << 20);
            for key in &keys {
                keyspace.get(key).unwrap().unwrap();
            }
            for key in &keys {
                let (value, calls, _) = asked(|| keyspace.get(key).unwrap());
                assert_eq!(calls, 0, "{mode:?}, {table:?}");
                drop(value.unwrap());
                let (found, calls, _) = asked(|| keyspace.get_into(key, &mut buffer).unwrap());
                assert!(found);
                assert_eq!(calls, 0, "{mode:?}, {table:?}");
            }
        }
    }
}

/// Memory for the value and no other of its size: so a value is copied once at most after it was
/// decoded, out of a buffer that the thread keeps.
#[test]
fn a_get_that_decodes_allocates_the_value_and_little_else() {
    for table in layouts() {
        for mode in [ReadMode::Mmap, ReadMode::Pread] {
            let (_db, keyspace) = open(0, mode, table.clone());
            let mut buffer = Vec::with_capacity(1 << 20);
            for number in 0..COUNT {
                keyspace.get(key(number)).unwrap().unwrap();
            }
            for number in 0..COUNT {
                let key = key(number);
                let (value, _, bytes) = asked(|| keyspace.get(&key).unwrap());
                let value = value.unwrap();
                assert_eq!(value, content(number));
                let beside = bytes - value.len() as u64;
                assert!(
                    beside < 256,
                    "{beside} bytes beside the value, {mode:?}, {table:?}"
                );
                let (_, _, bytes) = asked(|| keyspace.get_into(&key, &mut buffer).unwrap());
                assert_eq!(buffer, value);
                assert!(bytes < 256, "{bytes} bytes, {mode:?}, {table:?}");
            }
        }
    }
}
