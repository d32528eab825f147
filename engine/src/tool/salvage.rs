//! Rebuilds a store from what is sound of another, and lists what is lost.
//!
//! ```text
//! survey    which tables there are, whose, how old         manifest, or the tables themselves
//! rescue    sound tables are read as they are; of a damaged one the sound entries are written to
//!           a scratch table in the target
//! write     per keyspace, tables and log merged by sequence number into a bulk load
//! ```
//!
//! Nothing is ever written to the source; where it has lock files they are held shared, so that no
//! writer removes what is being read. The target holds a whole store at the end, or on an error
//! nothing.
//!
//! What a sound manifest does not name is left out: it was never committed, or has been replaced.
//! Where the manifest is damaged, or gone, or may have lost its end, everything that parses as a table is taken, also one that
//! a compaction had replaced and nobody had removed yet: deleted keys may come back then, never older
//! values of keys that are there. Either way the report names such tables.
//!
//! Values whose keys are lost are given to the caller in a keyspace of their own, if he wants them:
//! he may know what to make of them.

mod log;
mod rescue;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::log::read_log;
use self::rescue::{Rescue, Rescued};
use self::survey::{Survey, survey};
use crate::bulk::BulkOptions;
use crate::cancel::CancelToken;
use crate::db::Db;
use crate::dir::{CURRENT, LOCK, READERS, parse_file_name};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::InternalIterator;
use crate::memtable::Memtable;
use crate::options::{DbOptions, KeyspaceOptions};
use crate::read::{MergingIter, VisibleCursor};
use crate::tombstones::TombstoneSet;
use crate::types::{KeyspaceId, SeqNo};
use crate::vfs::{FileLock, LockKind, Vfs};

/// Ends the names of tables that only live as long as the salvage.
const SCRATCH_SUFFIX: &str = ".salvage";

/// Options of [`salvage`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvageOptions {
    /// The file system of both stores, and the threads that compress.
    pub db: DbOptions,
    /// For keyspaces whose own options are lost with the manifest.
    pub keyspace: KeyspaceOptions,
    /// The keyspace that takes tables of which nobody knows whose they are. Default `recovered`.
    pub fallback_keyspace: String,
    /// The keyspace that takes values whose keys are lost; none, the default, leaves them out. Its
    /// keys are the table's file number (8 bytes), the frame's ordinal (4) and where in the decoded
    /// frame the bytes begin (4), big endian. Its values are one lost value, or several end to end:
    /// where one ends and the next begins was lost with the keys. Of values that lay beside their
    /// keys, as short ones do, there are none. Some may be older versions of keys, or deleted.
    pub orphans_keyspace: Option<String>,
    /// Memory of the load that writes the new store. Default 256 MiB; what the source's log holds
    /// comes on top.
    pub memory_bytes: usize,
    /// Stops the salvage, which then leaves nothing behind.
    pub cancel: CancelToken,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self {
            db: DbOptions::default(),
            keyspace: KeyspaceOptions::default(),
            fallback_keyspace: "recovered".to_owned(),
            orphans_keyspace: None,
            memory_bytes: 256 << 20,
            cancel: CancelToken::new(),
        }
    }
}

/// What a salvage is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SalvagePhase {
    /// Checking tables, and getting out of damaged ones what is sound.
    Rescue,
    /// Writing the new store.
    Write,
}

/// How far a salvage has come within a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageProgress {
    /// What it is doing.
    pub phase: SalvagePhase,
    /// Bytes done: stored ones of tables, then raw ones of entries.
    pub bytes: u64,
    /// Bytes there are to do in this phase, at most.
    pub bytes_total: u64,
}

/// Something that could not be recovered.
#[derive(Debug)]
#[non_exhaustive]
pub struct SalvageLoss {
    /// The damaged file.
    pub path: PathBuf,
    /// The keyspace concerned, where known.
    pub keyspace: Option<String>,
    /// What is lost of it.
    pub part: LostPart,
}

/// What is lost of a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum LostPart {
    /// The manifest, or `CURRENT`: tables were found by their names.
    Manifest(Error),
    /// A whole table.
    Table(Error),
    /// A log file, from some place on or as a whole; earlier batches of it were applied.
    Log(Error),
    /// Whose the table is; its entries are in the fallback keyspace.
    Keyspace,
    /// The value of a key. An older one may stand in its place.
    Value {
        /// The key.
        key: Vec<u8>,
        /// The damaged frame, where the value's own is sound but needs that one as its base.
        lost_base: Option<u32>,
    },
    /// Whatever keys lay strictly between these; none is the table's begin or end.
    Keys {
        /// The last key before.
        after: Option<Vec<u8>>,
        /// The first key behind.
        before: Option<Vec<u8>>,
    },
    /// Bytes of a table that hold nothing sound; what they held is among the other losses.
    Bytes(Range<u64>),
    /// A table's range deletes: keys that they deleted may be back.
    RangeDeletes,
}

impl std::fmt::Display for SalvageLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(keyspace) = &self.keyspace {
            write!(f, "keyspace {keyspace:?}: ")?;
        }
        write!(f, "{}", self.part)
    }
}

impl std::fmt::Display for LostPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bound = |key: &Option<Vec<u8>>, end: &str| match key {
            Some(key) => format!("\"{}\"", key.escape_ascii()),
            None => format!("the {end} of the table"),
        };
        match self {
            Self::Manifest(error) => write!(
                f,
                "not all of the manifest can be read, so all tables were taken as they lie there, \
                 and what was deleted may be back: {error}"
            ),
            Self::Table(error) => write!(f, "whole table lost: {error}"),
            Self::Log(error) => write!(f, "log lost from here on: {error}"),
            Self::Keyspace => write!(f, "not known whose table it is"),
            Self::Value { key, lost_base } => {
                write!(f, "value of \"{}\" lost", key.escape_ascii())?;
                match lost_base {
                    Some(base) => write!(f, " with frame {base}, the base of its own"),
                    None => Ok(()),
                }
            }
            Self::Keys { after, before } => write!(
                f,
                "keys lost between {} and {}",
                bound(after, "start"),
                bound(before, "end")
            ),
            Self::Bytes(range) => write!(f, "bytes {} to {} damaged", range.start, range.end),
            Self::RangeDeletes => write!(f, "range deletes lost"),
        }
    }
}

/// What is in the new store of one keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedKeyspace {
    /// Its name.
    pub name: String,
    /// Keys with their values.
    pub entries: u64,
    /// Bytes of keys and values.
    pub raw_bytes: u64,
}

/// What a salvage came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// What the new store holds, by name.
    pub keyspaces: Vec<SalvagedKeyspace>,
    /// Tables without damage.
    pub tables_sound: u64,
    /// Tables of which a part was lost.
    pub tables_damaged: u64,
    /// Tables that gave nothing.
    pub tables_lost: u64,
    /// Tables that the manifest does not name and that were taken, since it is damaged or may have
    /// lost its end: what was deleted may be back.
    pub unlisted_taken: Vec<PathBuf>,
    /// Tables that the manifest does not name and that were left out, since it is sound: a process
    /// that died left them.
    pub unlisted_left: Vec<PathBuf>,
    /// Writes read from the log that no table held.
    pub log_writes: u64,
    /// Entries of [`SalvageOptions::orphans_keyspace`].
    pub orphans: u64,
    /// What is lost.
    pub losses: Vec<SalvageLoss>,
}

/// Rebuilds what is readable of the store in `source` as a new store in `target`, a directory that
/// does not exist or is empty, and tells what is lost. Neither may lie in the other; paths are
/// compared as they are given.
///
/// Of each key the newest value that is readable counts; deletes are respected. The source is only
/// read, and may have lost its manifest, its `CURRENT`, or any part of any file. The new store takes
/// about as much room as the sound part of the old one, damaged tables twice meanwhile.
///
/// ```
/// # use ppc_engine::{Db, DbOptions, Durability, KeyspaceOptions, SalvageOptions, salvage};
/// # fn main() -> ppc_engine::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let (old, new) = (dir.path().join("old"), dir.path().join("new"));
/// let db = Db::open(&old, DbOptions::default())?;
/// let files = db.keyspace("files", KeyspaceOptions::default())?;
/// files.put("a", "fn main() {}", Durability::Sync)?;
/// db.close()?;
/// std::fs::remove_file(old.join("CURRENT")).unwrap();
///
/// let report = salvage(&old, &new, &SalvageOptions::default(), &mut |_| {})?;
/// assert_eq!(report.keyspaces[0].entries, 1);
/// # Ok(())
/// # }
/// ```
pub fn salvage(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &SalvageOptions,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let (source, target) = (source.as_ref(), target.as_ref());
    let vfs = &options.db.vfs;
    check_apart(source, target)?;
    let _locks = lock_source(&**vfs, source)?;
    let survey = survey(vfs, source, options)?;
    let db = Db::open(
        target,
        DbOptions {
            create_if_missing: true,
            error_if_exists: true,
            auto_compaction: false,
            ..options.db.clone()
        },
    )
    .map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Error::invalid_input(error.message())
            .at_path(target)
            .with_remedy("a salvage makes a new store: choose an empty directory"),
        _ => error,
    })?;
    let salvaged = rebuild(&db, survey, options, progress).and_then(|report| {
        db.close()?;
        Ok(report)
    });
    if salvaged.is_err() {
        let _ = db.close();
    }
    drop(db);
    remove_files(&**vfs, target, salvaged.is_err());
    salvaged
}

/// Refuses a target that lies in the source, or around it.
fn check_apart(source: &Path, target: &Path) -> Result<()> {
    let message = if source == target {
        "a store cannot be salvaged into itself"
    } else if target.starts_with(source) {
        "the new store would lie in the directory of the damaged one"
    } else if source.starts_with(target) {
        "the damaged store lies in the directory of the new one"
    } else {
        return Ok(());
    };
    Err(Error::invalid_input(message)
        .at_path(target)
        .with_remedy("choose an empty directory elsewhere"))
}

/// Keeps writers away, where there are lock files; none is made.
fn lock_source(vfs: &dyn Vfs, source: &Path) -> Result<Vec<Box<dyn FileLock>>> {
    let mut locks = Vec::new();
    for name in [LOCK, READERS] {
        let path = source.join(name);
        if !vfs.exists(&path).unwrap_or(false) {
            continue;
        }
        let lock = vfs
            .lock(&path, LockKind::Shared)
            .map_err(|error| Error::io("lock", &path, error))?;
        locks.push(lock.ok_or_else(|| {
            Error::new(ErrorKind::Locked, "the store is open for writing elsewhere")
                .at_path(source)
                .with_remedy("close it there first")
        })?);
    }
    Ok(locks)
}

/// Removes scratch tables, or everything that a failed salvage left of the new store. What cannot
/// be removed is in nobody's way.
fn remove_files(vfs: &dyn Vfs, target: &Path, all: bool) {
    let is_ours = |name: &str| {
        name.ends_with(SCRATCH_SUFFIX)
            || all
                && ([LOCK, READERS].contains(&name)
                    || name.starts_with(CURRENT)
                    || parse_file_name(name).is_some())
    };
    for entry in vfs.read_dir(target).unwrap_or_default() {
        if is_ours(&entry.name) {
            let _ = vfs.remove(&target.join(&entry.name));
        }
    }
    if all {
        let _ = vfs.remove_dir(target);
    }
}

fn rebuild(
    db: &Db,
    survey: Survey,
    options: &SalvageOptions,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let mut report = SalvageReport {
        unlisted_taken: survey.unlisted_taken,
        unlisted_left: survey.unlisted_left,
        losses: survey.losses,
        ..SalvageReport::default()
    };
    let rescue = Rescue { db, options };
    let rescued = rescue.run(survey.tables, &mut report, progress)?;
    let mut names = survey.names;
    for (id, name) in &rescued.names {
        names.entry(*id).or_insert_with(|| name.clone());
    }
    let log = read_log(
        &options.db.vfs,
        &survey.dir,
        &survey.logs,
        &mut |id, seq| {
            match survey.flushed.get(&id) {
                Some(flushed) => seq > *flushed,
                // With a manifest, a keyspace that it does not know was dropped.
                None => !survey.has_manifest,
            }
        },
    )?;
    report.log_writes = log.writes;
    report.losses.extend(log.losses);
    let mut memtables: BTreeMap<String, Arc<Memtable>> = BTreeMap::new();
    for (id, memtable) in log.memtables {
        memtables.insert(name_of(id, &names), memtable);
    }
    let mut all: BTreeMap<String, KeyspaceOptions> = survey.keyspaces;
    let found = rescued.keyspaces.keys().chain(memtables.keys());
    for name in found {
        all.entry(name.clone())
            .or_insert_with(|| options.keyspace.clone());
    }
    write(
        db,
        &all,
        &rescued,
        &memtables,
        options,
        &mut report,
        progress,
    )?;
    Ok(report)
}

fn name_of(id: KeyspaceId, names: &BTreeMap<KeyspaceId, String>) -> String {
    let unknown = || format!("keyspace-{}", id.0);
    names.get(&id).cloned().unwrap_or_else(unknown)
}

/// Merges each keyspace's tables and log into the new store.
fn write(
    db: &Db,
    keyspaces: &BTreeMap<String, KeyspaceOptions>,
    rescued: &Rescued,
    memtables: &BTreeMap<String, Arc<Memtable>>,
    options: &SalvageOptions,
    report: &mut SalvageReport,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<()> {
    let mut loader = db.bulk_loader(BulkOptions {
        memory_bytes: options.memory_bytes,
        cancel: options.cancel.clone(),
    })?;
    let in_log: u64 = memtables
        .values()
        .map(|memtable| memtable.raw_bytes())
        .sum();
    let mut state = SalvageProgress {
        phase: SalvagePhase::Write,
        bytes: 0,
        bytes_total: rescued.raw_bytes() + in_log,
    };
    for (name, keyspace_options) in keyspaces {
        let keyspace = db.keyspace(name, keyspace_options.clone())?;
        let mut salvaged = SalvagedKeyspace {
            name: name.clone(),
            entries: 0,
            raw_bytes: 0,
        };
        let memtable = memtables.get(name);
        let mut sources: Vec<Box<dyn InternalIterator>> = Vec::new();
        let mut tombstones = rescued.tombstones(name);
        if let Some(memtable) = memtable {
            sources.push(Box::new(memtable.iter()));
            tombstones.extend(memtable.range_tombstones());
        }
        sources.extend(rescued.sources(name, &options.db.vfs));
        let tombstones = TombstoneSet::new(tombstones);
        let mut cursor = VisibleCursor::new(MergingIter::new(sources), SeqNo::MAX, false);
        cursor.merge_mut().seek_to_first()?;
        while let Some(visible) = cursor.next(&tombstones)? {
            let raw_bytes = (visible.key.len() + visible.value_len) as u64;
            loader.put(&keyspace, &visible.key, visible.value?)?;
            salvaged.entries += 1;
            salvaged.raw_bytes += raw_bytes;
            state.bytes += raw_bytes;
            if salvaged.entries.is_multiple_of(256) {
                progress(state);
            }
        }
        report.keyspaces.push(salvaged);
    }
    loader.finish(&mut |_| {})?;
    progress(state);
    Ok(())
}
