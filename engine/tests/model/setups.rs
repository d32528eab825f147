//! Odd configurations that drive the same operations through different code.

use ppc_engine::{
    ClusterOptions, Compression, DbOptions, FilterPolicy, KeyspaceOptions, Layout, ReadMode,
    TableOptions,
};

/// How a store is set up for a run.
#[derive(Clone)]
pub struct Setup {
    pub name: &'static str,
    pub options: DbOptions,
    pub keyspace: KeyspaceOptions,
}

/// Memtables, tables and levels so small that a few writes fill them, and no cache.
fn tiny(name: &'static str) -> Setup {
    let mut options = DbOptions::default();
    options.memtable_bytes = 1 << 10;
    options.sealed_memtables_max = 1;
    options.open_tables_max = 16;
    options.cache_bytes = 0;
    options.compression_threads = 1;
    options.background_threads = 1;
    let mut table = TableOptions::blocks(1, 1 << 10);
    table.key_block_bytes = 256;
    table.inline_value_bytes_max = 0;
    let mut keyspace = KeyspaceOptions::uniform(table);
    keyspace.table_bytes_target = 4 << 10;
    keyspace.base_level_bytes = 4 << 10;
    keyspace.level_multiplier = 2;
    Setup {
        name,
        options,
        keyspace,
    }
}

fn with(name: &'static str, change: impl FnOnce(&mut DbOptions, &mut KeyspaceOptions)) -> Setup {
    let mut setup = tiny(name);
    change(&mut setup.options, &mut setup.keyspace);
    setup
}

fn each_table(keyspace: &mut KeyspaceOptions, change: impl Fn(&mut TableOptions)) {
    keyspace.levels.iter_mut().for_each(change);
}

/// All setups.
pub fn setups() -> Vec<Setup> {
    vec![
        tiny("tiny"),
        with("pread, small cache", |options, _| {
            options.read_mode = ReadMode::Pread;
            options.cache_bytes = 16 << 10;
            options.memtable_bytes = 20 << 10;
        }),
        with("pread, no cache, three threads", |options, _| {
            options.read_mode = ReadMode::Pread;
            options.background_threads = 3;
        }),
        with("defaults, resting", |options, keyspace| {
            *options = DbOptions::default();
            options.auto_compaction = false;
            *keyspace = KeyspaceOptions::default();
        }),
        with("no filters, all values inline", |_, keyspace| {
            each_table(keyspace, |table| {
                table.filter = FilterPolicy::None;
                table.inline_value_bytes_max = 4096;
            });
        }),
        with("wide filters, three threads", |options, keyspace| {
            options.background_threads = 3;
            options.l0_compaction_trigger = 1;
            each_table(keyspace, |table| table.filter = FilterPolicy::Fuse16);
        }),
        with("compacts and stalls at once", |options, _| {
            options.l0_compaction_trigger = 1;
            options.l0_stall_trigger = 2;
        }),
        with("dictionaries", |options, keyspace| {
            options.memtable_bytes = 32 << 10;
            each_table(keyspace, |table| table.dictionary_bytes = 1 << 10);
            keyspace.table_bytes_target = 64 << 10;
        }),
        with(
            "no compression, eager about tombstones",
            |options, keyspace| {
                options.memtable_bytes = 4 << 10;
                keyspace.tombstone_percent_trigger = 1;
                each_table(keyspace, |table| table.compression = Compression::None);
            },
        ),
        with("threads that compress", |options, keyspace| {
            options.compression_threads = 3;
            options.background_threads = 3;
            options.cache_bytes = 1 << 20;
            options.memtable_bytes = 8 << 10;
            keyspace.table_bytes_target = 8 << 10;
        }),
        with("light above, dense below", |_, keyspace| {
            let mut dense = TableOptions::blocks(9, 64 << 10);
            dense.dictionary_bytes = 512;
            if let Some(last) = keyspace.levels.last_mut() {
                *last = dense;
            }
        }),
        with("clusters in tiny windows", |options, keyspace| {
            options.memtable_bytes = 16 << 10;
            options.cache_bytes = 8 << 10;
            options.compression_threads = 2;
            keyspace.table_bytes_target = 32 << 10;
            let mut cluster = ClusterOptions::default();
            cluster.window_bytes = 4 << 10;
            cluster.shared_frame_bytes = 256;
            cluster.saved_bytes_per_1000_decoded = 0;
            each_table(keyspace, |table| {
                table.layout = Layout::Clustered(cluster);
                table.dictionary_bytes = 256;
            });
        }),
        with("clusters that grow by little", |options, keyspace| {
            options.l0_compaction_trigger = 1;
            options.background_threads = 2;
            keyspace.table_bytes_target = 64 << 10;
            let mut cluster = ClusterOptions::default();
            cluster.window_bytes = 16 << 10;
            cluster.shared_frame_bytes = 256;
            cluster.saved_bytes_per_1000_decoded = 0;
            if let Some(last) = keyspace.levels.last_mut() {
                last.layout = Layout::Clustered(cluster);
                last.dictionary_bytes = 256;
            }
        }),
        with("compacts by hand only", |options, _| {
            options.auto_compaction = false;
            options.memtable_bytes = 2 << 10;
        }),
    ]
}
