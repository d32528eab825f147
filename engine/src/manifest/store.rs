//! The manifest on disk: a log of edits that begins with a snapshot, and `CURRENT`, which names
//! the log in force and bears witness to its length.
//!
//! Invariants:
//! 1. Once [`Manifest::append`] returns, its edits survive a power cut, all of them.
//! 2. A manifest that was reopened is never appended to. The first append after opening, the one
//!    after a failed append, and one when the log has grown, write a snapshot to a new file and
//!    only then point `CURRENT` at it.
//! 3. After a failed sync, or a failed switch of `CURRENT`, it is not known what the disk holds:
//!    every later append fails with [`ErrorKind::Failed`], and the caller must not delete any file.
//!    After any other failure (a full disk, above all) the disk holds the state before the append,
//!    and the next one may succeed.
//!    A record that was in doubt when its process ended is in doubt for the next one, however well
//!    it reads: [`Manifest::recover`] puts a new file in force before anything depends on it.
//! 4. Nothing is ever removed here but files that never came into force. Older manifests are the
//!    caller's to remove, when no reader can be about to open them.
//! 5. `CURRENT` never names more bytes than were synced. A manifest with fewer valid bytes than
//!    it names is damaged: it is refused, by readers and writers, and nothing is changed.
//! 6. Where `CURRENT` names no length, tables that the manifest does not list are renamed before
//!    a writer gives it one, so that a manifest that lost its end costs no table.
//!
//! One thread at a time: callers hold a lock around [`Manifest::append`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::current::{ClosedLog, Current, StepError};
use super::edit::Edit;
use super::edit_codec::{decode_edits, encode_edits};
use super::state::{FileNumbers, ManifestState};
use super::unlisted::{check_origin, set_aside};
use crate::dir::{CURRENT, FileKind, file_path, list_files};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{LogKind, LogReader, LogWriter, Opened};
use crate::options::ReadMode;
use crate::types::{FileId, FileNumber};
use crate::vfs::Vfs;

/// A manifest is not rolled before it has this many bytes.
const ROLL_BYTES_MIN: u64 = 1 << 20;

/// A manifest is rolled when it is this many times as long as its snapshot.
const ROLL_GROWTH: u64 = 3;

/// The open manifest of a store.
#[derive(Debug)]
pub(crate) struct Manifest {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    state: ManifestState,
    numbers: Arc<FileNumbers>,
    /// The manifest that `CURRENT` names.
    in_force: FileNumber,
    /// Bytes of it that are known to be on the disk.
    synced_len: u64,
    /// Those that `CURRENT` tells of; none if it does not say, or is not known to.
    witnessed_len: Option<u64>,
    /// The logs that it names, or should.
    closed_logs: Vec<ClosedLog>,
    /// `CURRENT` does not name these logs yet.
    has_new_logs: bool,
    roll_bytes_min: u64,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    ReadOnly,
    /// The next append writes a snapshot to a new file.
    Roll,
    Append {
        log: LogWriter,
        snapshot_len: u64,
    },
    Failed(Error),
}

impl Manifest {
    /// Makes the directory, where missing, into a store without keyspaces.
    pub(crate) fn create(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<(Self, ManifestState)> {
        vfs.create_dir_all(dir)
            .map_err(|error| Error::io("create directory for", dir, error))?;
        let files = list_files(&**vfs, dir)?;
        let current = dir.join(CURRENT);
        let exists = vfs
            .exists(&current)
            .map_err(|error| Error::io("look for", &current, error))?;
        if exists {
            return Err(Error::invalid_input("there is a store already").at_path(dir));
        }
        // A creation that was interrupted leaves manifests at most.
        if files.iter().any(|file| file.kind != FileKind::Manifest) {
            return Err(
                Error::corruption("CURRENT is missing, but there are files of a store")
                    .at_path(dir)
                    .with_remedy("run salvage, or choose another directory"),
            );
        }
        let next = files
            .iter()
            .map(|file| file.number.0.saturating_add(1))
            .max();
        let first = FileNumber(next.unwrap_or(1));
        let manifest = Self::write_new(
            vfs,
            dir,
            &ManifestState {
                next_file: first,
                store_id: FileId::random(),
                ..ManifestState::default()
            },
        )?;
        let state = manifest.state.clone();
        Ok((manifest, state))
    }

    /// Writes the first manifest of a directory, and `CURRENT`. Syncs the directory after all its
    /// tables, which must be there and synced.
    pub(crate) fn write_new(vfs: &Arc<dyn Vfs>, dir: &Path, state: &ManifestState) -> Result<Self> {
        let mut manifest = Self {
            vfs: Arc::clone(vfs),
            dir: dir.to_path_buf(),
            state: state.clone(),
            numbers: Arc::new(FileNumbers::starting_at(state.next_file)),
            in_force: state.next_file,
            synced_len: 0,
            witnessed_len: None,
            closed_logs: Vec::new(),
            has_new_logs: false,
            roll_bytes_min: ROLL_BYTES_MIN,
            mode: Mode::Roll,
        };
        manifest.append(&[])?;
        Ok(manifest)
    }

    /// Opens the manifest in force. Unless for reading only, it writes anew what is not known to be
    /// on the disk: a writer that was killed, or whose sync failed, may have left a last record, or
    /// a `CURRENT`, that can be seen but would not survive a power cut, and the caller is about to
    /// remove files by it.
    pub(crate) fn recover(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        read_only: bool,
    ) -> Result<(Self, ManifestState)> {
        // Before the manifest is read: of what a writer makes meanwhile, nothing is listed that the
        // manifest does not know.
        let files = list_files(&**vfs, dir);
        let current = Current::read(&**vfs, dir)?;
        let files = files?;
        let in_force = current.manifest;
        let path = file_path(dir, FileKind::Manifest, in_force);
        let replayed = Replayed::read(&**vfs, &path, &current)?;
        let mut state = replayed.state;
        check_origin(dir, &files, &state)?;
        if !read_only && current.synced_len.is_none() {
            set_aside(&**vfs, dir, &files, &state)?;
        }
        // A number that was taken but not yet recorded when the power went is visible as a file.
        for file in &files {
            state.next_file.0 = state.next_file.0.max(file.number.0.saturating_add(1));
        }
        let mut manifest = Self {
            vfs: Arc::clone(vfs),
            dir: dir.to_path_buf(),
            numbers: Arc::new(FileNumbers::starting_at(state.next_file)),
            state,
            in_force,
            synced_len: replayed.payloads_end,
            witnessed_len: current.synced_len,
            closed_logs: current.logs,
            has_new_logs: false,
            roll_bytes_min: ROLL_BYTES_MIN,
            mode: if read_only {
                Mode::ReadOnly
            } else {
                Mode::Roll
            },
        };
        // The seal after a record is written once all that belongs to it was synced, `CURRENT`
        // included. Without it a sync of the old file would prove nothing; see the log's head.
        if !read_only && !replayed.is_witnessed {
            let logs = manifest.closed_logs.clone();
            manifest.append(&[])?;
            // No log was removed, so they still are to be there. Only a roll drops them for sure.
            manifest.name_logs(logs);
            manifest.mode = Mode::Roll;
        }
        manifest.catch_up();
        let state = manifest.state.clone();
        Ok((manifest, state))
    }

    /// What a manifest file says before its first damage; none if that takes its snapshot. For
    /// salvages: what is missing nobody knows.
    pub(crate) fn read_front(
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
    ) -> Option<ManifestState> {
        let path = file_path(dir, FileKind::Manifest, number);
        let Ok(Opened::Log(mut log)) = LogReader::open(vfs, &path, LogKind::Manifest) else {
            return None;
        };
        let mut front = None;
        while let Ok(Some(record)) = log.next() {
            let mut state: ManifestState = front.clone().unwrap_or_default();
            if decode_edits(record.payload, &mut |edit| state.apply(edit)).is_err() {
                break;
            }
            front = Some(state);
        }
        front.filter(|state| state.check().is_ok())
    }

    /// The number of the manifest that `CURRENT` names. For salvages.
    pub(crate) fn named_by_current(vfs: &dyn Vfs, dir: &Path) -> Option<FileNumber> {
        Current::read(vfs, dir).ok().map(|current| current.manifest)
    }

    /// The logs that `CURRENT` says are there; none if it says nothing. For salvages.
    pub(crate) fn logs_by_current(vfs: &dyn Vfs, dir: &Path) -> Vec<ClosedLog> {
        Current::read(vfs, dir).map_or_else(|_| Vec::new(), |current| current.logs)
    }

    /// Whether `CURRENT` bears witness that the manifest has not lost its end.
    pub(crate) fn has_witness(&self) -> bool {
        self.witnessed_len.is_some()
    }

    /// The logs that were there when the store was closed, and have to be there still; none if it was
    /// not closed, or they may have been removed since.
    pub(crate) fn closed_logs(&self) -> &[ClosedLog] {
        &self.closed_logs
    }

    /// Lets the next [`Manifest::catch_up`] name these logs. They must be synced so far, and none
    /// may be removed before something is appended.
    pub(crate) fn name_logs(&mut self, logs: Vec<ClosedLog>) {
        self.has_new_logs |= logs != self.closed_logs;
        self.closed_logs = logs;
    }

    /// Lets `CURRENT` name no logs, so that they may be removed; false if it may name some still.
    pub(crate) fn forget_logs(&mut self) -> bool {
        self.name_logs(Vec::new());
        self.catch_up();
        !self.has_new_logs
    }

    /// Lets `CURRENT` tell of all of the manifest, where writing it failed before or a killed writer
    /// left it behind. When the store is opened, and before it is closed.
    pub(crate) fn catch_up(&mut self) {
        if matches!(self.mode, Mode::Roll | Mode::Append { .. }) {
            self.witness();
        }
    }

    /// Makes all edits durable as one, together with the file numbers taken so far. On an error
    /// none of them is in force in this process; see the module's third invariant for the disk.
    pub(crate) fn append(&mut self, edits: &[Edit]) -> Result<()> {
        let mut next = self.state.clone();
        for edit in edits {
            next.apply(edit)?;
        }
        next.check()?;
        let written = match &mut self.mode {
            Mode::ReadOnly => {
                return Err(
                    Error::new(ErrorKind::ReadOnly, "store is open for reading only")
                        .at_path(&self.dir),
                );
            }
            Mode::Failed(failure) => return Err(refusal(&self.dir, failure)),
            Mode::Append { log, snapshot_len }
                if !has_grown(log.len(), *snapshot_len, self.roll_bytes_min) =>
            {
                let next_file = self.numbers.next();
                next.next_file = next.next_file.max(next_file);
                append_record(log, edits, next_file).map(|()| self.synced_len = log.synced_len())
            }
            Mode::Append { .. } | Mode::Roll => self.roll(&mut next),
        };
        match written {
            Ok(()) => {
                self.state = next;
                self.seal();
                self.witness();
                Ok(())
            }
            Err(StepError::Undone(error)) => {
                self.mode = Mode::Roll;
                Err(error)
            }
            Err(StepError::Unclear(error)) => {
                self.mode = Mode::Failed(error.duplicate());
                Err(error.with_remedy("reopen the store"))
            }
        }
    }

    /// Rolls as early as growth allows, so that tests see it often.
    #[cfg(test)]
    pub(super) fn roll_eagerly(&mut self) {
        self.roll_bytes_min = 0;
    }

    /// What all edits so far add up to.
    pub(crate) fn state(&self) -> &ManifestState {
        &self.state
    }

    /// The counter that new files take their numbers from.
    pub(crate) fn file_numbers(&self) -> &Arc<FileNumbers> {
        &self.numbers
    }

    /// The manifest that `CURRENT` names; all others are obsolete.
    pub(crate) fn in_force(&self) -> FileNumber {
        self.in_force
    }

    /// Why appends are refused for good, if they are. No file may be deleted then.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &self.mode {
            Mode::Failed(failure) => Some(refusal(&self.dir, failure)),
            _ => None,
        }
    }

    /// Writes a snapshot of `next` to a new file and puts that in force.
    fn roll(&mut self, next: &mut ManifestState) -> Result<(), StepError> {
        let number = self.numbers.allocate();
        next.next_file = next.next_file.max(self.numbers.next());
        let path = file_path(&self.dir, FileKind::Manifest, number);
        let log = self.write_snapshot(&path, number, next).map_err(|error| {
            // It never came into force. Where even removing it fails, the next writer will.
            let _ = self.vfs.remove(&path);
            StepError::Undone(error)
        })?;
        // They may be removed from now on.
        self.closed_logs.clear();
        self.write_current(number, log.synced_len())?;
        self.in_force = number;
        self.synced_len = log.synced_len();
        let snapshot_len = log.len();
        self.mode = Mode::Append { log, snapshot_len };
        Ok(())
    }

    fn write_snapshot(
        &self,
        path: &Path,
        number: FileNumber,
        state: &ManifestState,
    ) -> Result<LogWriter> {
        let mut log = LogWriter::create(&*self.vfs, path, LogKind::Manifest, number)?;
        log.push(&[&encode_edits(&state.to_edits())])?;
        log.sync()?;
        self.vfs
            .sync_dir(&self.dir)
            .map_err(|error| Error::io("sync directory of", &self.dir, error))?;
        Ok(log)
    }

    /// Points `CURRENT` at a manifest of which this many bytes are synced.
    fn write_current(&mut self, manifest: FileNumber, len: u64) -> Result<(), StepError> {
        let synced_len = Some(len);
        let current = Current {
            manifest,
            synced_len,
            logs: self.closed_logs.clone(),
        };
        current.write(&*self.vfs, &self.dir)?;
        self.witnessed_len = synced_len;
        self.has_new_logs = false;
        Ok(())
    }

    /// Lets `CURRENT` say how long the manifest is by now.
    ///
    /// A failure is logged, and no more. The manifest is synced as it is, so an append that came
    /// this far is in force. However far the change of `CURRENT` got, the disk holds one that names
    /// the same manifest and a length that was synced: one that is true and may be too short. All
    /// that is lost is the witness for the records since, and the next append, or closing, tries
    /// again. That is no reason to refuse writes, as it is where another manifest is put in force.
    fn witness(&mut self) {
        if self.witnessed_len == Some(self.synced_len) && !self.has_new_logs {
            return;
        }
        if let Err(error) = self.write_current(self.in_force, self.synced_len) {
            let error = error.into_error();
            tracing::warn!(%error, "CURRENT does not tell the manifest's new length yet");
        }
    }

    /// Leaves a witness for the record just synced, so that later damage to it is told from a
    /// torn tail. The record itself is safe: if this fails, the next append starts a new file.
    fn seal(&mut self) {
        let Mode::Append { log, .. } = &mut self.mode else {
            return;
        };
        if log.seal().and_then(|()| log.hand_over()).is_err() {
            self.mode = Mode::Roll;
        }
    }
}

fn has_grown(len: u64, snapshot_len: u64, roll_bytes_min: u64) -> bool {
    len > roll_bytes_min.max(snapshot_len.saturating_mul(ROLL_GROWTH))
}

fn append_record(
    log: &mut LogWriter,
    edits: &[Edit],
    next_file: FileNumber,
) -> Result<(), StepError> {
    let next_file = Edit::NextFileNumber(next_file);
    let payload = encode_edits(edits.iter().chain([&next_file]));
    let handed_over = log.push(&[&payload]).and_then(|()| log.hand_over());
    handed_over.map_err(StepError::Undone)?;
    log.sync().map_err(StepError::Unclear)
}

fn refusal(dir: &Path, failure: &Error) -> Error {
    Error::new(
        ErrorKind::Failed,
        "store takes no more changes after an earlier failure",
    )
    .at_path(dir)
    .with_source(failure.duplicate())
    .with_remedy("reopen the store")
}

/// What a manifest file adds up to, from its snapshot on.
struct Replayed {
    state: ManifestState,
    /// All of it is known to be on the disk.
    is_witnessed: bool,
    /// Where its last record ends.
    payloads_end: u64,
}

impl Replayed {
    /// Reads the manifest of which `current` tells.
    fn read(vfs: &dyn Vfs, path: &Path, current: &Current) -> Result<Self> {
        let synced_len = current.synced_len.unwrap_or(0);
        check_length(vfs, path, synced_len)?;
        let Opened::Log(mut log) = LogReader::open(vfs, path, LogKind::Manifest)? else {
            // CURRENT names only manifests that were synced.
            return Err(Error::corruption("manifest header is cut short").at_path(path));
        };
        if log.number() != current.manifest {
            let (found, named) = (log.number(), current.manifest);
            let message = format!("manifest says it is number {found}, not {named}");
            return Err(Error::corruption(message).at_path(path));
        }
        log.expect(synced_len);
        let mut state = ManifestState::default();
        let mut has_snapshot = false;
        while let Some(record) = log.next()? {
            let (offset, payload) = (record.offset, record.payload);
            let applied = decode_edits(payload, &mut |edit| state.apply(edit));
            applied.map_err(|error| log.locate(error, offset))?;
            has_snapshot = true;
        }
        if !has_snapshot {
            return Err(Error::corruption("manifest has lost its snapshot").at_path(path));
        }
        state.check().map_err(|error| error.at_path(path))?;
        Ok(Self {
            state,
            is_witnessed: log.is_witnessed(),
            payloads_end: log.payloads_end(),
        })
    }
}

/// Fails if the manifest is shorter than it was when it was synced.
fn check_length(vfs: &dyn Vfs, path: &Path, synced_len: u64) -> Result<()> {
    let file = vfs.open(path, ReadMode::Pread).map_err(|error| {
        if error.kind() != std::io::ErrorKind::NotFound {
            return Error::io("open", path, error);
        }
        Error::corruption("manifest named by CURRENT does not exist")
            .at_path(path)
            .with_remedy("restore it, or run salvage")
    })?;
    let found = file.len();
    if found >= synced_len {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "the manifest has lost its end: {found} bytes are left of at least {synced_len} that \
         CURRENT tells of"
    ))
    .at_path(path)
    .with_remedy("restore the file from a copy, or run salvage to keep what is readable"))
}
