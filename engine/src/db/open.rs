//! Opening a store: what is in the directory, whose it is, and what the log holds beyond the tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::inner::DbInner;
use super::space::Space;
use super::tables::TableCache;
use super::write::{WritePath, WriteState, insert_op, keyspace_of};
use crate::cache::FrameCache;
use crate::codec::CompressionPool;
use crate::compaction::Scheduler;
use crate::dir::{CURRENT, FileKind, LOCK, READERS, file_name, list_files, parse_file_name};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Manifest, ManifestState, lost_end, unlisted_tables};
use crate::options::DbOptions;
use crate::read::WorkerPool;
use crate::stats::{Latencies, Stats};
use crate::types::{FileNumber, KeyspaceId, SeqNo};
use crate::vfs::{FileLock, LockKind, Vfs};
use crate::wal::{ReplayReport, decode_batch, replay};

/// A writer holds `READERS` for as long as it takes to remove a few files. A reader that meets it
/// tries again; file locks have no way to wait for less than forever.
const READERS_LOCK_TRIES: u32 = 100;
const READERS_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Opens the store for reading and writing; creates it where there is none.
pub(super) fn open_writer(dir: &Path, options: DbOptions) -> Result<Arc<DbInner>> {
    options.validate()?;
    let vfs = Arc::clone(&options.vfs);
    check_before_writing(&*vfs, dir, &options)?;
    create_dir(&*vfs, dir).map_err(creation_error)?;
    let lock = lock_for_writing(&*vfs, dir)?;
    // Only now is it certain that nobody else creates the store.
    let (manifest, state) = if has_store(&*vfs, dir)? {
        Manifest::recover(&vfs, dir, false)?
    } else {
        Manifest::create(&vfs, dir)?
    };
    // Made while there is room: on a full disk it is asked whether somebody reads the store, before
    // anything goes. Where it cannot be made, nothing goes, and writing does not depend on that.
    let _ = vfs.lock(&dir.join(READERS), LockKind::Shared);
    let db = Arc::new(build(dir, options, manifest, &state, Some(lock), false));
    recover_log(&db, &state)?;
    list_orphans(&db)?;
    db.purge_obsolete();
    Ok(db)
}

/// Opens the store for reading. Writes nothing, and removes nothing.
pub(super) fn open_reader(dir: &Path, options: DbOptions) -> Result<Arc<DbInner>> {
    options.validate()?;
    let vfs = Arc::clone(&options.vfs);
    let found = has_store(&*vfs, dir)?;
    if !found {
        return Err(no_store(dir).with_remedy("check the path"));
    }
    let lock = lock_for_reading(&*vfs, dir)?;
    let (manifest, state) = Manifest::recover(&vfs, dir, true)?;
    let db = Arc::new(build(dir, options, manifest, &state, lock, true));
    recover_log(&db, &state)?;
    Ok(db)
}

fn no_store(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no store in the directory").at_path(dir)
}

fn has_store(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    let current = dir.join(CURRENT);
    vfs.exists(&current).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotADirectory {
            return Error::invalid_input("the path is no directory")
                .at_path(dir)
                .with_remedy("name the directory of a store");
        }
        Error::io("look for", &current, error)
    })
}

/// Refuses directories that hold something else, before anything is written there.
fn check_before_writing(vfs: &dyn Vfs, dir: &Path, options: &DbOptions) -> Result<()> {
    if has_store(vfs, dir)? {
        if options.error_if_exists {
            return Err(
                Error::invalid_input("there is a store in the directory already")
                    .at_path(dir)
                    .with_remedy("choose another directory, or open the store that is there"),
            );
        }
        return Ok(());
    }
    if !options.create_if_missing {
        return Err(no_store(dir).with_remedy("check the path, or allow the store to be created"));
    }
    let exists = vfs
        .exists(dir)
        .map_err(|error| Error::io("look for", dir, error))?;
    if !exists {
        return Ok(());
    }
    let entries = vfs
        .read_dir(dir)
        .map_err(|error| Error::io("list", dir, error))?;
    // A creation that was interrupted leaves some of these.
    let is_ours = |name: &str| {
        [LOCK, READERS].contains(&name)
            || name.strip_prefix(CURRENT) == Some(".tmp")
            || parse_file_name(name).is_some()
    };
    match entries.iter().find(|entry| !is_ours(&entry.name)) {
        None => Ok(()),
        Some(stranger) => Err(Error::invalid_input(format!(
            "the directory holds no store, but other files such as {:?}",
            stranger.name
        ))
        .at_path(dir)
        .with_remedy("choose an empty directory, or the path of a store")),
    }
}

/// Creates the directory and its parents where missing, durably.
fn create_dir(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for path in dir.ancestors() {
        let exists = path.as_os_str().is_empty() || vfs.exists(path).unwrap_or(false);
        if exists {
            break;
        }
        missing.push(path);
    }
    if missing.is_empty() {
        return Ok(());
    }
    vfs.create_dir_all(dir)
        .map_err(|error| Error::io("create directory for", dir, error))?;
    for parent in missing.iter().filter_map(|path| path.parent()) {
        vfs.sync_dir(parent)
            .map_err(|error| Error::io("sync directory", parent, error))?;
    }
    Ok(())
}

fn creation_error(error: Error) -> Error {
    match error.kind() {
        ErrorKind::ReadOnly => error.with_remedy("open the store read-only"),
        _ => error.with_remedy("check that the directory can be written to"),
    }
}

fn lock_for_writing(vfs: &dyn Vfs, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = dir.join(LOCK);
    let lock = vfs
        .lock(&path, LockKind::Exclusive)
        .map_err(|error| creation_error(Error::io("lock", &path, error)))?;
    lock.ok_or_else(|| {
        Error::new(ErrorKind::Locked, "the store is open for writing elsewhere")
            .at_path(dir)
            .with_remedy("close it there, or open it read-only here")
    })
}

/// None where there is no lock file and none can be made: a directory that cannot be written to
/// has no writer that could remove files.
pub(crate) fn lock_for_reading(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Box<dyn FileLock>>> {
    let path = dir.join(READERS);
    for tries in 0..READERS_LOCK_TRIES {
        match vfs.lock(&path, LockKind::Shared) {
            Ok(Some(lock)) => return Ok(Some(lock)),
            Ok(None) if tries + 1 < READERS_LOCK_TRIES => {
                std::thread::sleep(READERS_LOCK_PAUSE);
            }
            Ok(None) => break,
            Err(error) => {
                use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
                let cannot_be_made =
                    [NotFound, PermissionDenied, ReadOnlyFilesystem].contains(&error.kind());
                if cannot_be_made && matches!(vfs.exists(&path), Ok(false)) {
                    return Ok(None);
                }
                return Err(Error::io("lock", &path, error));
            }
        }
    }
    Err(Error::new(ErrorKind::Locked, "a writer is removing files")
        .at_path(dir)
        .with_remedy("try again"))
}

fn build(
    dir: &Path,
    options: DbOptions,
    manifest: Manifest,
    state: &ManifestState,
    lock: Option<Box<dyn FileLock>>,
    read_only: bool,
) -> DbInner {
    let spaces: BTreeMap<String, Arc<Space>> = state
        .keyspaces
        .iter()
        .map(|(&id, keyspace)| {
            let space = Space::new(
                id,
                keyspace.name.clone(),
                keyspace.options.clone(),
                Arc::clone(&keyspace.version),
            );
            (keyspace.name.clone(), Arc::new(space))
        })
        .collect();
    let write = WritePath::new(state.last_seq);
    let mut write_state = write.state.lock();
    spaces
        .values()
        .for_each(|space| write_state.add_space(space));
    drop(write_state);
    let work = Arc::default();
    DbInner {
        dir: dir.to_path_buf(),
        read_only,
        numbers: Arc::clone(manifest.file_numbers()),
        spaces: RwLock::new(spaces),
        manifest: Mutex::new(manifest),
        write,
        flushing: Mutex::default(),
        pipeline: Default::default(),
        snapshots: Default::default(),
        visible: AtomicU64::new(state.last_seq.0),
        tables: TableCache::new(options.open_tables_max),
        frames: FrameCache::new(options.cache_bytes).map(Arc::new),
        compression: CompressionPool::new(options.compression_threads),
        stats: Arc::new(Stats::new()),
        latencies: Latencies::new(),
        workers: WorkerPool::new(options.multi_get_threads.saturating_sub(1)),
        obsolete: Mutex::default(),
        scheduler: Scheduler::new(&work),
        work,
        closed: AtomicBool::new(false),
        failure: Mutex::default(),
        failed: AtomicBool::new(false),
        lock: Mutex::new(lock),
        options,
    }
}

/// Replays the log into memtables. A writer flushes them as they fill, so that memory stays bounded
/// however long the log is.
fn recover_log(db: &DbInner, state: &ManifestState) -> Result<()> {
    let files = list_files(&**db.vfs(), &db.dir)?;
    let logs: Vec<FileNumber> = files
        .iter()
        .filter(|file| file.kind == FileKind::Wal)
        .map(|file| file.number)
        .collect();
    let flushed: BTreeMap<KeyspaceId, SeqNo> = state
        .keyspaces
        .iter()
        .map(|(&id, keyspace)| (id, keyspace.flushed_seq))
        .collect();
    let mut write = db.write.state.lock();
    let mut known_end = state.next_keyspace;
    let closed = db.manifest.lock().closed_logs().to_vec();
    let report = replay(
        &**db.vfs(),
        &db.dir,
        &logs,
        &closed,
        &mut |first_seq, payload| {
            let end = replay_batch(&write, &flushed, first_seq, payload)?;
            if end > known_end {
                known_end = recheck_keyspaces(db, end)?;
            }
            if !db.read_only && write.memory_bytes() >= db.options.memtable_bytes {
                db.seal(&mut write);
                while db.flush_next()? {}
            }
            Ok(())
        },
    )?;
    report_replay(db, &report);
    write.last_seq = write.last_seq.max(report.last_seq);
    db.visible.store(write.last_seq.0, Ordering::Release);
    if db.read_only {
        return Ok(());
    }
    if write.memory_bytes() == 0 {
        // Everything is in tables, or was written to keyspaces since dropped. They may go once
        // `CURRENT` does not name them.
        if db.manifest.lock().forget_logs() {
            db.obsolete.lock().add_logs(&logs);
        }
        return Ok(());
    }
    write.logs = logs;
    match report.predecessors() {
        Some(predecessors) => *db.write.history.lock() = predecessors,
        // A killed process left it, or one whose sync failed. The first write puts what was
        // replayed into tables; until then the disk is left as it is, full or not.
        None => write.distrust_log(),
    }
    Ok(())
}

/// The log holds writes to keyspaces with ids before `end`, more than the manifest knew of. A
/// keyspace is in the manifest before it takes a write: a writer has created it since the manifest
/// was read, or the manifest has lost it. Returns the id that no keyspace has yet.
fn recheck_keyspaces(db: &DbInner, end: u32) -> Result<u32> {
    let manifest = db.manifest.lock();
    let mut known_end = manifest.state().next_keyspace;
    if db.read_only {
        let (_, state) = Manifest::recover(db.vfs(), &db.dir, true)?;
        known_end = state.next_keyspace;
    }
    if end <= known_end {
        return Ok(known_end);
    }
    let manifest = file_name(FileKind::Manifest, manifest.in_force());
    Err(lost_end(&format!(
        "a write to a keyspace that {manifest} does not know"
    )))
}

/// Returns an id beyond those of all keyspaces that the batch writes to.
fn replay_batch(
    write: &WriteState,
    flushed: &BTreeMap<KeyspaceId, SeqNo>,
    first_seq: SeqNo,
    payload: &[u8],
) -> Result<u32> {
    let payload = Bytes::copy_from_slice(payload);
    let mut seq = first_seq;
    let mut keyspaces_end = 0;
    for op in decode_batch(&payload) {
        let op = op?;
        let id = keyspace_of(&op);
        keyspaces_end = keyspaces_end.max(id.0.saturating_add(1));
        // A keyspace that is unknown was dropped; its id is never given out again.
        let is_flushed = flushed.get(&id).is_none_or(|flushed| seq <= *flushed);
        if let (Some((_, memtable)), false) = (write.active.get(&id), is_flushed) {
            insert_op(memtable, &op, seq, &payload);
        }
        seq.0 += 1;
    }
    Ok(keyspaces_end)
}

fn report_replay(db: &DbInner, report: &ReplayReport) {
    for cut in &report.cut {
        tracing::warn!(
            log = cut.number.0,
            offset = cut.offset,
            bytes = cut.bytes,
            "cut the torn tail of a log: writes that were never synced"
        );
    }
    tracing::info!(
        dir = %db.dir.display(),
        logs = report.files.len(),
        last_seq = report.last_seq.0,
        "recovered"
    );
}

/// Lists files that interrupted work left behind: of our names, and not in the manifest. Tables that
/// may be more than that were set aside before; see [`Manifest::recover`].
fn list_orphans(db: &DbInner) -> Result<()> {
    let files = list_files(&**db.vfs(), &db.dir)?;
    let manifest = db.manifest.lock();
    let tables = unlisted_tables(&files, manifest.state());
    let in_force = manifest.in_force();
    drop(manifest);
    let mut obsolete = db.obsolete.lock();
    for table in tables {
        if table.kind == FileKind::Table {
            obsolete.add_orphan(table.number);
        }
    }
    for file in files {
        if file.kind == FileKind::Manifest && file.number != in_force {
            obsolete.add_manifest(file.number);
        }
    }
    Ok(())
}
