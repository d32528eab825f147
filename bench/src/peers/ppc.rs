//! Our engine: one keyspace from PPC key to content, without the hash index of an archive, as the
//! RocksDB peer has none.

use std::collections::BTreeMap;
use std::path::Path;

use ppc_engine::{
    Batch, BulkOptions, Compression, Counter, Db, DbOptions, Durability, IterOptions, KeyRange,
    Keyspace, KeyspaceOptions, Layout, Profile, TableOptions,
};
use ppc_store::{Error, Result};

use super::{Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Update, Wanted};
use crate::corpus::Corpus;
use crate::results::Load;

const KEYSPACE: &str = "contents";

/// Entries and bytes of one batch of puts.
const BATCH_ENTRIES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Our engine.
pub(super) struct Ppc;

/// Of blocks, exactly those of the spec; of a profile, its own options but for the level, and for the
/// dictionary where the spec has one.
fn table_options(spec: &StoreSpec) -> Option<TableOptions> {
    let Codec::Zstd(level) = spec.codec else {
        return None;
    };
    let mut table = match (spec.layout, Profile::from_name(spec.layout)) {
        ("blocks", _) => TableOptions::blocks(level, spec.block_bytes),
        (_, Some(profile)) => TableOptions::profile(profile),
        (_, None) => return None,
    };
    table.compression = Compression::Zstd { level };
    if spec.layout == "blocks" || spec.dictionary_bytes > 0 {
        table.dictionary_bytes = spec.dictionary_bytes;
    }
    table.validate().ok().map(|()| table)
}

/// Blocks at every level; a profile in the last one, light blocks above.
fn keyspace_options(table: TableOptions) -> KeyspaceOptions {
    match table.layout {
        Layout::Blocks { .. } => KeyspaceOptions::uniform(table),
        _ => KeyspaceOptions::tiered(table.light(), table),
    }
}

/// A bulk load's windows take up to a quarter of its memory.
fn bulk_options(table: &TableOptions) -> BulkOptions {
    let mut options = BulkOptions::default();
    if let Layout::Clustered(cluster) = table.layout {
        options.memory_bytes = options.memory_bytes.max(4 * cluster.window_bytes as usize);
    }
    options
}

fn db_options(spec: &StoreSpec, resources: &Resources) -> DbOptions {
    let mut options = DbOptions::default();
    options.cache_bytes = usize::try_from(spec.cache_bytes).unwrap_or(usize::MAX);
    options.memtable_bytes = usize::try_from(resources.write_buffer_bytes).unwrap_or(usize::MAX);
    options.compression_threads = resources.threads;
    options.background_threads = resources.threads;
    // The experiments ask on threads of their own, as many as a cell says.
    options.multi_get_threads = 1;
    options
}

fn open(spec: &StoreSpec, resources: &Resources, dir: &Path) -> Result<(Db, Keyspace)> {
    let table = table_options(spec)
        .ok_or_else(|| Error::invalid_input(format!("ppc cannot be built as {spec}")))?;
    let db = Db::open(dir, db_options(spec, resources))?;
    let keyspace = db.keyspace(KEYSPACE, keyspace_options(table))?;
    Ok((db, keyspace))
}

fn put_all(db: &Db, keyspace: &Keyspace, input: Input<'_>) -> Result<()> {
    let mut batch = Batch::new();
    for (key, value) in input.entries() {
        batch.put(keyspace, key, value);
        if batch.len() >= BATCH_ENTRIES || batch.bytes() >= BATCH_BYTES {
            db.write(std::mem::take(&mut batch), Durability::Buffered)?;
        }
    }
    db.write(batch, Durability::Buffered)?;
    keyspace.compact(&KeyRange::all())?;
    Ok(())
}

fn bulk_load(db: &Db, keyspace: &Keyspace, input: Input<'_>, options: BulkOptions) -> Result<()> {
    let mut loader = db.bulk_loader(options)?;
    for (key, value) in input.entries() {
        loader.put(keyspace, key, value.to_vec().into())?;
    }
    let report = loader.finish(&mut |_| {})?;
    report.merge_failure.map_or(Ok(()), Err)
}

impl Peer for Ppc {
    fn name(&self) -> &'static str {
        "ppc"
    }

    fn lacks(&self) -> &'static str {
        ""
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        table_options(spec).is_some()
    }

    fn options(&self, spec: &StoreSpec, resources: &Resources) -> BTreeMap<String, String> {
        let options = db_options(spec, resources);
        let mut named = BTreeMap::from([
            ("read_mode".into(), format!("{:?}", options.read_mode)),
            ("compression_threads".into(), resources.threads.to_string()),
            ("background_threads".into(), resources.threads.to_string()),
            (
                "multi_get_threads".into(),
                options.multi_get_threads.to_string(),
            ),
        ]);
        match spec.load {
            Load::Puts | Load::ShuffledPuts => {
                named.insert("memtable_bytes".into(), options.memtable_bytes.to_string());
                named.insert("batch_bytes_max".into(), BATCH_BYTES.to_string());
                named.insert("durability".into(), "buffered".into());
            }
            Load::Sorted | Load::Shuffled => {
                let table = table_options(spec).unwrap_or_default();
                let memory_bytes = bulk_options(&table).memory_bytes;
                named.insert("bulk_memory_bytes".into(), memory_bytes.to_string());
            }
        }
        if let Some(table) = table_options(spec) {
            named.insert("filter".into(), format!("{:?}", table.filter));
        }
        named
    }

    fn build(
        &self,
        spec: &StoreSpec,
        input: Input<'_>,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Built> {
        let (db, keyspace) = open(spec, resources, dir)?;
        match spec.load {
            Load::Puts | Load::ShuffledPuts => put_all(&db, &keyspace, input)?,
            Load::Sorted | Load::Shuffled => {
                let table = table_options(spec).unwrap_or_default();
                bulk_load(&db, &keyspace, input, bulk_options(&table))?;
            }
        }
        let counters = db.stats().counters;
        let written = [
            Counter::WalBytesWritten,
            Counter::FlushBytesWritten,
            Counter::BulkTableBytesWritten,
            Counter::CompactionBytesWritten,
        ];
        let written = written.iter().map(|&counter| counters.get(counter)).sum();
        db.close()?;
        Ok(Built {
            written_bytes: Some(written),
        })
    }

    fn open<'a>(
        &self,
        spec: &StoreSpec,
        _corpus: &'a Corpus,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        let (db, keyspace) = open(spec, resources, dir)?;
        Ok(Box::new(Open { db, keyspace }))
    }
}

struct Open {
    db: Db,
    keyspace: Keyspace,
}

impl Store for Open {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(KeyspaceReader {
            keyspace: self.keyspace.clone(),
        })
    }

    fn decoded_bytes(&self) -> Option<u64> {
        Some(self.db.stats().counters.get(Counter::FrameBytesDecoded))
    }

    fn update(&self, update: Update<'_>) -> Result<()> {
        match update {
            Update::Put(key, value) => self.keyspace.put(key, value, Durability::Buffered),
            Update::Delete(key) => self.keyspace.delete(key, Durability::Buffered),
        }
    }
}

struct KeyspaceReader {
    keyspace: Keyspace,
}

impl Reader for KeyspaceReader {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.keyspace.get(wanted.key)? {
            found(&value);
        }
        Ok(())
    }

    fn multi_get(
        &mut self,
        wanted: &[Wanted<'_>],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let keys: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.key).collect();
        for (place, value) in self.keyspace.multi_get(&keys).into_iter().enumerate() {
            if let Some(value) = value? {
                found(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for item in self
            .keyspace
            .iter(KeyRange::all(), IterOptions::default())?
        {
            let (key, value) = item?;
            found(&key, &value);
        }
        Ok(())
    }
}
