//! Takes table files that were built elsewhere into a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::adopt::{Load, Run, adopt};
use crate::compaction::{OutsideTable, TableFactory};
use crate::db::{Db, DbInner, Keyspace, Space};
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::manifest::TableMeta;
use crate::options::ReadMode;
use crate::table::{IterContext, TableReader};
use crate::types::{FileNumber, SeqNo};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// How a file gets into the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IngestMode {
    /// Copied; the original is the caller's.
    Copy,
    /// By a hard link, or copied where the file system cannot link. The original must not be
    /// changed any more; it may be removed.
    #[default]
    Link,
    /// As `Link`; the original is removed once the store has the table.
    Move,
}

/// Options of [`Db::ingest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IngestOptions {
    /// How files get into the store's directory. Default [`IngestMode::Link`].
    pub mode: IngestMode,
    /// Check every unit, every checksum and the order of all keys first. Default false: the format,
    /// the properties and the key ranges are checked, and the rest when it is read.
    pub verify: bool,
}

/// How a file got into the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placed {
    /// By a hard link.
    Linked,
    /// By a copy of its bytes.
    Copied,
}

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestedTable {
    /// The file as it was given.
    pub path: PathBuf,
    /// How it got into the store's directory.
    pub placed: Placed,
    /// Entries in it.
    pub entries: u64,
    /// Its length.
    pub stored_bytes: u64,
}

/// What an ingest did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The files, in key order.
    pub tables: Vec<IngestedTable>,
    /// The tree level that took them.
    pub level: usize,
}

impl Db {
    /// Takes table files made by [`ExternalTableWriter`](crate::ExternalTableWriter) into a keyspace:
    /// all of them, visible and durable at once, or on an error none.
    ///
    /// Their key ranges must not overlap. Their entries are newer than everything written before.
    pub fn ingest<P: AsRef<Path>>(
        &self,
        keyspace: &Keyspace,
        paths: &[P],
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        let db = self.inner();
        db.check_writable()?;
        let space = keyspace.space();
        if space.is_dropped() {
            return Err(space.dropped_error());
        }
        let mut candidates = Vec::with_capacity(paths.len());
        for path in paths {
            candidates.push(Candidate::open(db, path.as_ref(), options.verify)?);
        }
        candidates.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        check_apart(&candidates)?;
        let report = ingest_candidates(db, space, &candidates, options.mode)?;
        if options.mode == IngestMode::Move {
            remove_originals(db, &candidates);
        }
        Ok(report)
    }
}

fn ingest_candidates(
    db: &Arc<DbInner>,
    space: &Arc<Space>,
    candidates: &[Candidate],
    mode: IngestMode,
) -> Result<IngestReport> {
    let factory = TableFactory::new(db);
    let mut ingested = Vec::with_capacity(candidates.len());
    let mut tables = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let outside = factory.number_outside_table();
        let placed = place_file(db, &candidate.path, &outside, mode)?;
        ingested.push(IngestedTable {
            path: candidate.path.clone(),
            placed,
            entries: candidate.meta.entries,
            stored_bytes: candidate.meta.stored_bytes,
        });
        tables.push(TableMeta {
            number: outside.number,
            ..candidate.meta.clone()
        });
    }
    if tables.is_empty() {
        return Ok(IngestReport {
            tables: ingested,
            level: 0,
        });
    }
    factory.sync_dir()?;
    let hold = db.scheduler().hold();
    let load = Load {
        space: Arc::clone(space),
        runs: vec![Run { number: 0, tables }],
    };
    let adopted = adopt(db, &factory, &hold, vec![load])?;
    Ok(IngestReport {
        tables: ingested,
        level: adopted.first().map_or(0, |adopted| adopted.level),
    })
}

/// A file that may be taken in.
struct Candidate {
    path: PathBuf,
    meta: TableMeta,
}

impl Candidate {
    /// Checks what can be checked of one file.
    fn open(db: &DbInner, path: &Path, verify: bool) -> Result<Self> {
        let reader = TableReader::open(&**db.vfs(), path, ReadMode::Pread, None, SeqNo::ZERO)?;
        let properties = reader.properties();
        let refuse = |why: &str| {
            let remedy = "build it with ExternalTableWriter, or the bulk loader of a store";
            Err(Error::invalid_input(why).at_path(path).with_remedy(remedy))
        };
        if properties.entries == 0 {
            return refuse("the table holds no entry");
        }
        if properties.tombstones > 0 || !reader.range_tombstones().is_empty() {
            return refuse(
                "the table holds deletes, which only make sense in a store's own history",
            );
        }
        if properties.seq_max > SeqNo::ZERO {
            return refuse("the table holds sequence numbers of a store's own history");
        }
        check_bounds(db, &reader).map_err(|error| error.at_path(path))?;
        if verify {
            verify_table(&reader).map_err(|error| error.at_path(path))?;
        }
        let meta = TableMeta {
            number: FileNumber::default(),
            id: reader.id(),
            stored_bytes: reader.stored_bytes(),
            raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
            entries: properties.entries,
            tombstones: 0,
            range_tombstones: 0,
            // Every sequence number is 0, and keys ascend: none is there twice.
            repeated_keys: Some(0),
            provisional: false,
            smallest: properties.smallest.clone(),
            largest: properties.largest.clone(),
            largest_exclusive: false,
            unbounded_end: false,
            seq_min: SeqNo::ZERO,
            seq_max: SeqNo::ZERO,
            seq_base: SeqNo::ZERO,
        };
        Ok(Self {
            path: path.to_path_buf(),
            meta,
        })
    }
}

/// Checks every unit, every checksum and the order of all keys.
fn verify_table(reader: &TableReader) -> Result<()> {
    let verification = reader.verify(&mut |_| Ok(()))?;
    let mut problems = verification.problems.into_iter();
    problems.next().map_or(Ok(()), |problem| Err(problem.error))
}

/// The table's first and last key are what its properties say: the tree relies on them.
fn check_bounds(db: &DbInner, reader: &Arc<TableReader>) -> Result<()> {
    let properties = reader.properties();
    let mut cursor = reader.iter(IterContext {
        cache: None,
        stats: Arc::clone(db.stats()),
        fill_cache: false,
    });
    cursor.seek_to_first()?;
    let starts_right = cursor.valid() && cursor.key().user_key == properties.smallest;
    cursor.seek_to_last()?;
    let ends_right = cursor.valid() && cursor.key().user_key == properties.largest;
    if starts_right && ends_right {
        return Ok(());
    }
    Err(Error::corruption(
        "the table's keys are not those that it says it holds",
    ))
}

/// Fails unless every file's keys come before the next one's.
fn check_apart(candidates: &[Candidate]) -> Result<()> {
    for (left, right) in candidates.iter().zip(candidates.iter().skip(1)) {
        if left.meta.ends_before(&right.meta.smallest) {
            continue;
        }
        return Err(Error::invalid_input(format!(
            "key ranges overlap: \"{}\" to \"{}\" here, and {} begins at \"{}\"",
            left.meta.smallest.escape_ascii(),
            left.meta.largest.escape_ascii(),
            right.path.display(),
            right.meta.smallest.escape_ascii()
        ))
        .at_path(&left.path)
        .with_remedy("ingest them one after the other, or load them with the bulk loader"));
    }
    Ok(())
}

/// Makes the file a durable file of the store's directory.
fn place_file(
    db: &DbInner,
    from: &Path,
    to: &OutsideTable<'_>,
    mode: IngestMode,
) -> Result<Placed> {
    let vfs = db.vfs();
    if mode != IngestMode::Copy && vfs.hard_link(from, to.path()).is_ok() {
        to.exists();
        // Nobody knows whether the one who wrote it has synced it.
        vfs.sync_file(to.path())
            .map_err(|error| Error::io("sync", to.path(), error))?;
        return Ok(Placed::Linked);
    }
    // Whatever kept it from being linked, a copy either works or says why not.
    copy(db, from, to)?;
    Ok(Placed::Copied)
}

fn copy(db: &DbInner, from: &Path, to: &OutsideTable<'_>) -> Result<()> {
    let vfs = db.vfs();
    let source = vfs
        .open(from, ReadMode::Pread)
        .map_err(|error| Error::io("open", from, error))?;
    let mut target = vfs
        .create(to.path())
        .map_err(|error| Error::io("create", to.path(), error))?;
    to.exists();
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < source.len() {
        let left = usize::try_from(source.len() - offset).unwrap_or(usize::MAX);
        let (chunk, _) = buffer.split_at_mut(left.min(COPY_BYTES));
        source
            .read_exact_at(chunk, offset)
            .map_err(|error| Error::io("read", from, error))?;
        target
            .append(chunk)
            .map_err(|error| Error::io("write", to.path(), error))?;
        offset += chunk.len() as u64;
    }
    target
        .sync()
        .map_err(|error| Error::io("sync", to.path(), error))
}

/// The store has its own names for the files now; the old ones go.
fn remove_originals(db: &DbInner, candidates: &[Candidate]) {
    for Candidate { path, .. } in candidates {
        if let Err(error) = db.vfs().remove(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an ingested file");
        }
    }
}
