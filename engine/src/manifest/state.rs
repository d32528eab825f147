//! What all edits of a manifest add up to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::edit::Edit;
use super::version::Version;
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::types::{FileId, FileNumber, KeyspaceId, SeqNo};

/// One keyspace as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: String,
    pub(crate) options: KeyspaceOptions,
    pub(crate) version: Arc<Version>,
    /// Writes to this keyspace up to here are in tables; replaying the log skips them.
    pub(crate) flushed_seq: SeqNo,
}

/// A store's durable state. Cloning is cheap beside any disk access: versions are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManifestState {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceState>,
    /// Every file number at or above this one is unused.
    pub(crate) next_file: FileNumber,
    /// Every sequence number up to this one may be in use; the log may hold newer ones.
    pub(crate) last_seq: SeqNo,
    pub(crate) store_id: FileId,
    /// Every keyspace id at or above this one was never used: ids of dropped keyspaces may
    /// still stand in the log, and must not come to mean another keyspace.
    pub(crate) next_keyspace: u32,
}

impl ManifestState {
    /// The keyspace with this name.
    pub(crate) fn keyspace_named(&self, name: &str) -> Option<(KeyspaceId, &KeyspaceState)> {
        let mut keyspaces = self.keyspaces.iter();
        let (id, keyspace) = keyspaces.find(|(_, keyspace)| keyspace.name == name)?;
        Some((*id, keyspace))
    }

    /// Every table of every keyspace.
    pub(crate) fn table_numbers(&self) -> impl Iterator<Item = FileNumber> {
        let keyspaces = self.keyspaces.values();
        keyspaces.flat_map(|keyspace| keyspace.version.tables().map(|(_, table)| table.number))
    }

    /// Applies one edit. [`ManifestState::check`] tells, after the last of a group, whether the
    /// result makes sense.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<()> {
        match edit {
            Edit::CreateKeyspace { id, name, options } => self.create_keyspace(*id, name, options),
            Edit::SetKeyspaceOptions { id, options } => {
                self.keyspace_mut(*id)?.options = options.clone();
                Ok(())
            }
            Edit::DropKeyspace { id } => {
                self.keyspace_mut(*id)?;
                self.keyspaces.remove(id);
                Ok(())
            }
            Edit::AddTable {
                keyspace,
                level,
                table,
            } => {
                self.next_file.0 = self.next_file.0.max(table.number.0.saturating_add(1));
                let version = &mut self.keyspace_mut(*keyspace)?.version;
                Arc::make_mut(version).add(usize::from(*level), Arc::clone(table))
            }
            Edit::RemoveTable {
                keyspace,
                level,
                number,
            } => {
                let version = &mut self.keyspace_mut(*keyspace)?.version;
                Arc::make_mut(version).remove(usize::from(*level), *number)?;
                Ok(())
            }
            Edit::FlushedUpTo { keyspace, seq } => {
                let flushed_seq = &mut self.keyspace_mut(*keyspace)?.flushed_seq;
                *flushed_seq = (*flushed_seq).max(*seq);
                self.last_seq = self.last_seq.max(*seq);
                Ok(())
            }
            Edit::NextFileNumber(number) => {
                self.next_file = self.next_file.max(*number);
                Ok(())
            }
            Edit::NextKeyspace(next) => {
                self.next_keyspace = self.next_keyspace.max(*next);
                Ok(())
            }
            Edit::LastSeq(seq) => {
                self.last_seq = self.last_seq.max(*seq);
                Ok(())
            }
            Edit::StoreId(id) => {
                self.store_id = *id;
                Ok(())
            }
        }
    }

    /// Fails unless every keyspace's tables keep their invariants.
    pub(crate) fn check(&self) -> Result<()> {
        for keyspace in self.keyspaces.values() {
            let checked = keyspace.version.check();
            checked.map_err(|error| error.in_keyspace(&keyspace.name))?;
        }
        Ok(())
    }

    /// The edits that lead from nothing to this state.
    pub(crate) fn to_edits(&self) -> Vec<Edit> {
        let mut edits = vec![
            Edit::StoreId(self.store_id),
            Edit::NextFileNumber(self.next_file),
            Edit::NextKeyspace(self.next_keyspace),
            Edit::LastSeq(self.last_seq),
        ];
        for (&id, keyspace) in &self.keyspaces {
            edits.push(Edit::CreateKeyspace {
                id,
                name: keyspace.name.clone(),
                options: keyspace.options.clone(),
            });
            edits.push(Edit::FlushedUpTo {
                keyspace: id,
                seq: keyspace.flushed_seq,
            });
            for (level, table) in keyspace.version.tables() {
                edits.push(Edit::AddTable {
                    keyspace: id,
                    level: level as u8,
                    table: Arc::clone(table),
                });
            }
        }
        edits
    }

    fn create_keyspace(
        &mut self,
        id: KeyspaceId,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<()> {
        if self.keyspaces.contains_key(&id) || self.keyspace_named(name).is_some() {
            return Err(Error::corruption(format!(
                "keyspace {name:?} with id {} is created twice",
                id.0
            )));
        }
        self.next_keyspace = self.next_keyspace.max(id.0.saturating_add(1));
        let keyspace = KeyspaceState {
            name: name.to_owned(),
            options: options.clone(),
            version: Arc::default(),
            flushed_seq: SeqNo::ZERO,
        };
        self.keyspaces.insert(id, keyspace);
        Ok(())
    }

    fn keyspace_mut(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceState> {
        self.keyspaces
            .get_mut(&id)
            .ok_or_else(|| Error::corruption(format!("no keyspace has the id {}", id.0)))
    }
}

/// The one counter that every file number of a store comes from. Shared by the manifest, which
/// persists it with each record, and everyone who makes files.
#[derive(Debug)]
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// A counter whose first number is `first`.
    pub(crate) fn starting_at(first: FileNumber) -> Self {
        Self(AtomicU64::new(first.0))
    }

    /// A number that no file ever had.
    pub(crate) fn allocate(&self) -> FileNumber {
        FileNumber(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that the next [`FileNumbers::allocate`] would return.
    pub(crate) fn next(&self) -> FileNumber {
        FileNumber(self.0.load(Ordering::Relaxed))
    }
}
