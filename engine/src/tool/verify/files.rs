//! Checks the files of a store that need not open: manifest, log and tables, each by itself.

use std::path::Path;
use std::sync::Arc;

use super::{Job, VerifyOptions, VerifyProgress, VerifyReport, check_tables, is_forbidden};
use crate::db::lock_for_reading;
use crate::dir::{CURRENT, FileKind, LOCK, StoreFile, file_path, list_files};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Manifest, ManifestState, unlisted_tables};
use crate::table::{Affected, VerifyProblem};
use crate::types::FileNumber;
use crate::vfs::{DiskVfs, LockKind, Vfs};
use crate::wal::{decode_batch, replay};

/// Checks the store in `dir` as [`crate::Db::verify`] does, whether or not it can be opened: where
/// the manifest is damaged, every table that lies there is checked. The log is checked as well.
///
/// Writes nothing, and works beside readers and a writer, whose tables stay while the check lasts.
/// Fails where there is no store at all.
///
/// ```
/// # use ppc_engine::{Db, DbOptions, Durability, KeyspaceOptions, VerifyOptions, verify_store};
/// # fn main() -> ppc_engine::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Db::open(path, DbOptions::default())?;
/// let files = db.keyspace("files", KeyspaceOptions::default())?;
/// files.put("a", "fn main() {}", Durability::Buffered)?;
/// db.flush()?;
/// db.close()?;
/// std::fs::write(path.join("CURRENT"), "nonsense").unwrap();
/// assert!(Db::open_read_only(path, DbOptions::default()).is_err());
///
/// let report = verify_store(path, &VerifyOptions::default(), &mut |_| {})?;
/// assert_eq!((report.tables, report.entries), (1, 1));
/// assert_eq!(report.problems.len(), 1);
/// # Ok(())
/// # }
/// ```
pub fn verify_store(
    dir: impl AsRef<Path>,
    options: &VerifyOptions,
    progress: &mut (dyn FnMut(VerifyProgress) + Send),
) -> Result<VerifyReport> {
    verify_store_in(
        &(Arc::new(DiskVfs) as Arc<dyn Vfs>),
        dir.as_ref(),
        options,
        progress,
    )
}

/// As [`verify_store`], on another file system than the disk.
pub fn verify_store_in(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &VerifyOptions,
    progress: &mut (dyn FnMut(VerifyProgress) + Send),
) -> Result<VerifyReport> {
    // Held until the end: a writer removes no file meanwhile.
    let exists = |error: std::io::Error| Error::io("look for", dir, error);
    if !vfs.exists(dir).map_err(exists)? {
        return Err(no_store(dir));
    }
    let _lock = lock_for_reading(&**vfs, dir)?;
    let files = list_files(&**vfs, dir)?;
    let has_current = vfs.exists(&dir.join(CURRENT)).unwrap_or(false);
    // A creation that was cut off leaves manifests at most.
    if !has_current && files.iter().all(|file| file.kind == FileKind::Manifest) {
        return Err(no_store(dir));
    }
    let mut report = VerifyReport::default();
    let state = match Manifest::recover(vfs, dir, true) {
        Ok((_, state)) => Some(state),
        Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
        Err(error) if is_forbidden(&error) => return Err(error),
        Err(error) => {
            let problem = VerifyProblem::new(error, Affected::Unknown);
            report.problems.push(problem);
            None
        }
    };
    // Tables that are committed from here on are not the manifest's that was read, and the lock says
    // that there is somebody who commits.
    let files = list_files(&**vfs, dir)?;
    let has_manifest = state.is_some();
    let state = state.unwrap_or_default();
    let mut jobs = listed(dir, &state, &mut report);
    let mut unlisted = unlisted_tables(&files, &state);
    let may_be_work = unlisted.iter().any(|file| file.kind == FileKind::Table);
    if has_manifest && may_be_work && has_writer(&**vfs, dir) {
        unlisted.retain(|file| file.kind == FileKind::SetAside);
    }
    // They count where there is no manifest that could name them.
    jobs.extend(unlisted.iter().map(|file| Job {
        number: file.number,
        path: file_path(dir, file.kind, file.number),
        keyspace: None,
        stored_bytes: file.len,
        is_listed: !has_manifest,
        meta: None,
    }));
    report.problems.extend(log_problem(vfs, dir, &files));
    check_tables(&**vfs, jobs, report, options, progress)
}

fn no_store(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no store in the directory")
        .at_path(dir)
        .with_remedy("check the path")
}

/// The tables that the manifest names.
fn listed(dir: &Path, state: &ManifestState, report: &mut VerifyReport) -> Vec<Job> {
    let mut jobs = Vec::new();
    for keyspace in state.keyspaces.values() {
        report.keyspaces += 1;
        if let Err(error) = keyspace.version.check() {
            let error = error.in_keyspace(&keyspace.name);
            report
                .problems
                .push(VerifyProblem::new(error, Affected::Unknown));
        }
        jobs.extend(keyspace.version.tables().map(|(_, table)| Job {
            number: table.number,
            path: file_path(dir, FileKind::Table, table.number),
            keyspace: Some(keyspace.name.clone()),
            stored_bytes: table.stored_bytes,
            is_listed: true,
            meta: Some(Arc::clone(table)),
        }));
    }
    jobs
}

/// Whether a process has the store open for writing: tables that no manifest names are its work
/// then, or wait for readers to end.
fn has_writer(vfs: &dyn Vfs, dir: &Path) -> bool {
    let path = dir.join(LOCK);
    let exists = vfs.exists(&path).unwrap_or(false);
    exists && matches!(vfs.lock(&path, LockKind::Shared), Ok(None))
}

/// What is wrong with the log, if something is: an opening reads all of it, or fails.
fn log_problem(vfs: &Arc<dyn Vfs>, dir: &Path, files: &[StoreFile]) -> Option<VerifyProblem> {
    let logs: Vec<FileNumber> = files
        .iter()
        .filter(|file| file.kind == FileKind::Wal)
        .map(|file| file.number)
        .collect();
    let closed = Manifest::logs_by_current(&**vfs, dir);
    let replayed = replay(&**vfs, dir, &logs, &closed, &mut |_, payload| {
        let payload = bytes::Bytes::copy_from_slice(payload);
        decode_batch(&payload).try_for_each(|op| op.map(|_| ()))
    });
    let error = replayed.err()?;
    let error = error.at_path(dir);
    Some(VerifyProblem::new(error, Affected::Unknown))
}
