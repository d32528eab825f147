//! fjall 3: an LSM store in Rust. It compresses by LZ4 and knows no zstd, so its bytes are not
//! comparable with the others' at equal speed; its reads are.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ::fjall::config::{BlockSizePolicy, CompressionPolicy};
use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use ppc_store::{Error, Result};

use super::{
    Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Update, Wanted, foreign,
};
use crate::corpus::Corpus;
use crate::results::Load;

const KEYSPACE: &str = "contents";

/// fjall's own bounds of a block.
const BLOCK_BYTES_MIN: u32 = 1 << 10;
const BLOCK_BYTES_MAX: u32 = 1 << 20;

/// How often the build looks whether background work has ended; fjall offers nothing to wait on.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// fjall.
pub(super) struct Fjall;

fn failed(action: &str) -> impl FnOnce(::fjall::Error) -> Error + '_ {
    move |error| foreign("fjall", action, error)
}

fn compression(codec: Codec) -> Option<CompressionType> {
    match codec {
        Codec::None => Some(CompressionType::None),
        Codec::Lz4 => Some(CompressionType::Lz4),
        Codec::Zstd(_) | Codec::Zlib(_) | Codec::Snappy => None,
    }
}

fn open(spec: &StoreSpec, resources: &Resources, dir: &Path) -> Result<(Database, Keyspace)> {
    let compression = compression(spec.codec)
        .ok_or_else(|| Error::invalid_input(format!("fjall cannot be built as {spec}")))?;
    let db = Database::builder(dir)
        .cache_size(spec.cache_bytes)
        .worker_threads(resources.threads)
        .open()
        .map_err(failed("open a store"))?;
    let options = || {
        KeyspaceCreateOptions::default()
            .data_block_size_policy(BlockSizePolicy::all(spec.block_bytes))
            .data_block_compression_policy(CompressionPolicy::all(compression))
            .max_memtable_size(resources.write_buffer_bytes)
            .expect_point_read_hits(true)
    };
    let keyspace = db.keyspace(KEYSPACE, options);
    let keyspace = keyspace.map_err(failed("open a keyspace"))?;
    Ok((db, keyspace))
}

fn put_all(keyspace: &Keyspace, input: Input<'_>) -> Result<()> {
    for (key, value) in input.entries() {
        keyspace.insert(key, value).map_err(failed("insert"))?;
    }
    keyspace.rotate_memtable_and_wait().map_err(failed("flush"))
}

fn ingest(keyspace: &Keyspace, input: Input<'_>) -> Result<()> {
    let mut ingestion = keyspace.start_ingestion().map_err(failed("ingest"))?;
    for (key, value) in input.entries() {
        ingestion.write(key, value).map_err(failed("ingest"))?;
    }
    ingestion.finish().map_err(failed("ingest"))
}

impl Peer for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn lacks(&self) -> &'static str {
        "no zstd, only LZ4; no bulk load of unsorted input; no batched get"
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        compression(spec.codec).is_some()
            && spec.layout == "blocks"
            && spec.dictionary_bytes == 0
            && spec.load != Load::Shuffled
            && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&spec.block_bytes)
    }

    fn options(&self, spec: &StoreSpec, resources: &Resources) -> BTreeMap<String, String> {
        let mut options = BTreeMap::from([
            ("worker_threads".into(), resources.threads.to_string()),
            ("expect_point_read_hits".into(), "true".into()),
        ]);
        if matches!(spec.load, Load::Puts | Load::ShuffledPuts) {
            let bytes = resources.write_buffer_bytes.to_string();
            options.insert("memtable_bytes".into(), bytes);
        }
        options
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
            Load::Puts | Load::ShuffledPuts => put_all(&keyspace, input)?,
            Load::Sorted | Load::Shuffled => ingest(&keyspace, input)?,
        }
        while db.outstanding_flushes() > 0 || db.active_compactions() > 0 {
            std::thread::sleep(POLL_INTERVAL);
        }
        db.persist(PersistMode::SyncAll).map_err(failed("sync"))?;
        Ok(Built::default())
    }

    fn open<'a>(
        &self,
        spec: &StoreSpec,
        _corpus: &'a Corpus,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        let (db, keyspace) = open(spec, resources, dir)?;
        Ok(Box::new(Open { keyspace, _db: db }))
    }
}

/// Fields drop in order: the keyspace before the database that closes.
struct Open {
    keyspace: Keyspace,
    _db: Database,
}

impl Store for Open {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(KeyspaceReader {
            keyspace: &self.keyspace,
        })
    }

    fn update(&self, update: Update<'_>) -> Result<()> {
        match update {
            Update::Put(key, value) => self.keyspace.insert(key, value),
            Update::Delete(key) => self.keyspace.remove(key),
        }
        .map_err(failed("write"))
    }
}

struct KeyspaceReader<'a> {
    keyspace: &'a Keyspace,
}

impl Reader for KeyspaceReader<'_> {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.keyspace.get(wanted.key).map_err(failed("get"))? {
            found(&value);
        }
        Ok(())
    }

    fn scan(&mut self, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for guard in self.keyspace.iter() {
            let (key, value) = guard.into_inner().map_err(failed("scan"))?;
            found(&key, &value);
        }
        Ok(())
    }
}
