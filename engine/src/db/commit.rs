//! Changing the durable state: append to the manifest, install what changed, remove what no one
//! needs any more.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::inner::DbInner;
use super::space::Space;
use crate::dir::{FileKind, READERS, file_path};
use crate::error::{Error, Result};
use crate::manifest::{Edit, ManifestState, TableMeta};
use crate::memtable::Memtable;
use crate::types::{FileId, FileNumber, KeyspaceId};
use crate::vfs::{FileLock, LockKind};

/// Files that the durable state no longer names, and that were not removed yet.
#[derive(Debug, Default)]
pub(crate) struct Obsolete {
    tables: Vec<RetiredTable>,
    logs: Vec<FileNumber>,
    manifests: Vec<FileNumber>,
}

/// A table goes when no version, iterator or job holds its description any more.
#[derive(Debug)]
struct RetiredTable {
    number: FileNumber,
    /// None for a table that nobody can have read.
    id: Option<FileId>,
    description: Weak<TableMeta>,
}

impl Obsolete {
    pub(super) fn add_logs(&mut self, numbers: &[FileNumber]) {
        self.logs.extend_from_slice(numbers);
    }

    pub(super) fn add_manifest(&mut self, number: FileNumber) {
        self.manifests.push(number);
    }

    /// A table that never came into force.
    pub(super) fn add_orphan(&mut self, number: FileNumber) {
        self.tables.push(RetiredTable {
            number,
            id: None,
            description: Weak::new(),
        });
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.logs.is_empty() && self.manifests.is_empty()
    }
}

impl DbInner {
    /// Makes `edits` durable as one, then visible: readers that come later see the new tables.
    ///
    /// Fails without effect on edits that make no sense. A failure to write the manifest is latched:
    /// it may or may not be on disk, so nothing more is written or removed until the store is
    /// opened again.
    pub(crate) fn commit(&self, edits: Vec<Edit>) -> Result<()> {
        self.commit_flushed(edits, &[])
    }

    /// As [`DbInner::commit`], and lets go of the memtables whose entries the new tables hold.
    pub(super) fn commit_flushed(
        &self,
        edits: Vec<Edit>,
        flushed: &[(Arc<Space>, Arc<Memtable>)],
    ) -> Result<()> {
        self.commit_planned(|_| Ok(edits), flushed)
    }

    /// As [`DbInner::commit`], with edits that are made from the state they will change, so that
    /// nothing can come in between.
    pub(super) fn commit_planned(
        &self,
        plan: impl FnOnce(&ManifestState) -> Result<Vec<Edit>>,
        flushed: &[(Arc<Space>, Arc<Memtable>)],
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        self.check_writable()?;
        let edits = plan(manifest.state())?;
        let previous = manifest.state().clone();
        let in_force = manifest.in_force();
        if let Err(error) = manifest.append(&edits) {
            if manifest.failure().is_some() {
                self.latch_failure(&error);
            }
            return Err(error);
        }
        if manifest.in_force() != in_force {
            self.obsolete.lock().manifests.push(in_force);
        }
        self.retire_tables(&previous, manifest.state(), &edits);
        self.install(&previous, manifest.state(), flushed);
        // The state before holds on to the tables it named, and they would not be removed.
        drop(previous);
        drop(edits);
        drop(manifest);
        self.purge_obsolete();
        self.pipeline.notify();
        self.work.wake();
        Ok(())
    }

    fn install(
        &self,
        previous: &ManifestState,
        next: &ManifestState,
        flushed: &[(Arc<Space>, Arc<Memtable>)],
    ) {
        for space in self.spaces() {
            let Some(after) = next.keyspaces.get(&space.id) else {
                space.set_dropped();
                self.spaces.write().remove(&space.name);
                continue;
            };
            let before = previous.keyspaces.get(&space.id);
            if before.is_none_or(|before| before.options != after.options) {
                space.set_options(after.options.clone());
            }
            let memtable = flushed
                .iter()
                .find(|(owner, _)| owner.id == space.id)
                .map(|(_, memtable)| memtable);
            let same = before.is_some_and(|before| Arc::ptr_eq(&before.version, &after.version));
            if !same || memtable.is_some() {
                space.install(&after.version, memtable);
            }
        }
    }

    /// Lists the tables that `edits` took out of the tree and did not put back elsewhere.
    fn retire_tables(&self, previous: &ManifestState, next: &ManifestState, edits: &[Edit]) {
        let touched: BTreeSet<KeyspaceId> = edits
            .iter()
            .filter_map(|edit| match edit {
                Edit::RemoveTable { keyspace, .. } => Some(*keyspace),
                Edit::DropKeyspace { id } => Some(*id),
                _ => None,
            })
            .collect();
        for id in touched {
            let after = next.keyspaces.get(&id);
            let kept: HashSet<FileNumber> = after
                .iter()
                .flat_map(|after| after.version.tables().map(|(_, table)| table.number))
                .collect();
            let before = previous.keyspaces.get(&id);
            let gone = before
                .iter()
                .flat_map(|before| before.version.tables())
                .filter(|(_, table)| !kept.contains(&table.number))
                .map(|(_, table)| RetiredTable {
                    number: table.number,
                    id: Some(table.id),
                    description: Arc::downgrade(table),
                });
            self.obsolete.lock().tables.extend(gone);
        }
    }

    /// Removes obsolete files as far as nobody needs them: no version in use names the table, and
    /// no read-only opener is about. What cannot go yet stays listed for the next call; what is
    /// left at the end is removed by the next opening.
    pub(crate) fn purge_obsolete(&self) {
        // After closing, files are another process's to remove.
        if self.check_writable().is_ok() {
            self.remove_obsolete();
        }
    }

    /// As [`DbInner::purge_obsolete`], for the last time: before the store's lock is released, and
    /// once no thread works for it.
    pub(super) fn purge_before_unlocking(&self) {
        if !self.read_only && !self.failed.load(Ordering::Acquire) {
            self.remove_obsolete();
        }
    }

    fn remove_obsolete(&self) {
        let mut obsolete = self.obsolete.lock();
        if obsolete.is_empty() {
            return;
        }
        let Ok(Some(_alone)) = self.lock_out_readers() else {
            return;
        };
        obsolete.tables.retain(|table| {
            if table.description.strong_count() > 0 {
                return true;
            }
            self.tables.forget(table.number);
            if let (Some(frames), Some(id)) = (&self.frames, table.id) {
                frames.forget(id);
            }
            !self.remove_file(FileKind::Table, table.number)
        });
        obsolete
            .manifests
            .retain(|number| !self.remove_file(FileKind::Manifest, *number));
        obsolete
            .logs
            .retain(|number| !self.remove_file(FileKind::Wal, *number));
    }

    /// Lets the background remove obsolete files, if there are any.
    pub(super) fn wake_to_purge(&self) {
        // Whoever holds the list is removing files, and the reader need not wait for that.
        let obsolete = self.obsolete.try_lock();
        let has_some = obsolete.is_none_or(|obsolete| !obsolete.is_empty());
        if has_some && !self.read_only {
            self.work.wake();
        }
    }

    /// Holds `READERS` alone, so that no read-only opener relies on a file that goes; none while
    /// there are some.
    pub(super) fn lock_out_readers(&self) -> Result<Option<Box<dyn FileLock>>> {
        let path = self.dir.join(READERS);
        self.vfs()
            .lock(&path, LockKind::Exclusive)
            .map_err(|error| Error::io("lock", &path, error))
    }

    /// Whether the file is gone.
    pub(super) fn remove_file(&self, kind: FileKind, number: FileNumber) -> bool {
        let path = file_path(&self.dir, kind, number);
        match self.vfs().remove(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot remove an obsolete file yet");
                false
            }
        }
    }
}
