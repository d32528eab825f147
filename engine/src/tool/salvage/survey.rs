//! What there is in the directory of a store that may be damaged.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{LostPart, SalvageLoss, SalvageOptions};
use crate::dir::{CURRENT, FileKind, StoreFile, file_path, list_files};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Manifest, ManifestState, unlisted_tables};
use crate::options::KeyspaceOptions;
use crate::types::{FileId, FileNumber, KeyspaceId, SeqNo};
use crate::vfs::Vfs;

/// A table that may be there.
#[derive(Debug)]
pub(super) struct SourceTable {
    pub(super) number: FileNumber,
    pub(super) path: PathBuf,
    /// From here on, what the manifest says of it, where it does.
    pub(super) id: Option<FileId>,
    pub(super) keyspace: Option<String>,
    pub(super) seq_base: SeqNo,
    pub(super) stored_bytes: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) dir: PathBuf,
    /// Whether all of the manifest was read.
    pub(super) has_manifest: bool,
    /// Keyspaces with their options, as far as they are known.
    pub(super) keyspaces: BTreeMap<String, KeyspaceOptions>,
    pub(super) names: BTreeMap<KeyspaceId, String>,
    /// What the log need not tell, at least.
    pub(super) flushed: BTreeMap<KeyspaceId, SeqNo>,
    /// Those that shadow others first.
    pub(super) tables: Vec<SourceTable>,
    /// Tables that the manifest, or what is readable of it, does not name, and that are among
    /// `tables`, as they may be a part of the store all the same.
    pub(super) unlisted_taken: Vec<PathBuf>,
    /// Those that are left out.
    pub(super) unlisted_left: Vec<PathBuf>,
    pub(super) logs: Vec<FileNumber>,
    pub(super) losses: Vec<SalvageLoss>,
}

pub(super) fn survey(vfs: &Arc<dyn Vfs>, dir: &Path, options: &SalvageOptions) -> Result<Survey> {
    let files = list_files(&**vfs, dir)?;
    if files.is_empty() {
        return Err(
            Error::new(ErrorKind::NotFound, "there are no files of a store here")
                .at_path(dir)
                .with_remedy("check the path"),
        );
    }
    options.cancel.check("the salvage")?;
    let logs = numbers(&files, FileKind::Wal).collect();
    let mut survey = Survey {
        dir: dir.to_path_buf(),
        has_manifest: true,
        keyspaces: BTreeMap::new(),
        names: BTreeMap::new(),
        flushed: BTreeMap::new(),
        tables: Vec::new(),
        unlisted_taken: Vec::new(),
        unlisted_left: Vec::new(),
        logs,
        losses: Vec::new(),
    };
    match Manifest::recover(vfs, dir, true) {
        Ok((manifest, state)) => survey.take_manifest(&state, manifest.has_witness(), &files),
        Err(error) => survey.take_files(&**vfs, &files, error),
    }
    Ok(survey)
}

fn numbers(files: &[StoreFile], kind: FileKind) -> impl DoubleEndedIterator<Item = FileNumber> {
    files
        .iter()
        .filter(move |file| file.kind == kind)
        .map(|file| file.number)
}

impl Survey {
    /// What a manifest says that reads to its end. Whether that is its true end, only a witness can
    /// tell: with it, a table that is not named was never committed or has been replaced, and would
    /// bring back what was deleted. Without it, or where a writer had none and set the table aside,
    /// it may be a part of the store.
    fn take_manifest(&mut self, state: &ManifestState, has_witness: bool, files: &[StoreFile]) {
        self.take_keyspaces(state);
        self.tables = self.listed(state);
        for file in unlisted_tables(files, state) {
            let table = self.unlisted(&file);
            if has_witness && file.kind == FileKind::Table {
                self.unlisted_left.push(table.path);
            } else {
                self.unlisted_taken.push(table.path.clone());
                self.tables.push(table);
            }
        }
    }

    fn unlisted(&self, file: &StoreFile) -> SourceTable {
        SourceTable {
            number: file.number,
            path: file_path(&self.dir, file.kind, file.number),
            id: None,
            keyspace: None,
            seq_base: SeqNo::ZERO,
            stored_bytes: file.len,
        }
    }

    /// Every table there is, newest first, with what is still readable of the manifest in force.
    fn take_files(&mut self, vfs: &dyn Vfs, files: &[StoreFile], error: Error) {
        self.has_manifest = false;
        self.losses.push(SalvageLoss {
            path: error
                .path()
                .map_or(self.dir.join(CURRENT), Path::to_path_buf),
            keyspace: None,
            part: LostPart::Manifest(error),
        });
        // Where `CURRENT` is lost, the newest one is it.
        let named = Manifest::named_by_current(vfs, &self.dir);
        let in_force = named.or_else(|| numbers(files, FileKind::Manifest).next_back());
        let front = in_force.and_then(|number| Manifest::read_front(vfs, &self.dir, number));
        // An older one names tables that are gone, and misses those that replaced them; but it still
        // knows names and options.
        let mut older = numbers(files, FileKind::Manifest).rev();
        let known = front
            .clone()
            .or_else(|| older.find_map(|number| Manifest::read_front(vfs, &self.dir, number)));
        if let Some(state) = &known {
            self.take_keyspaces(state);
        }
        let listed = front.map(|state| self.listed(&state)).unwrap_or_default();
        let mut listed: BTreeMap<FileNumber, SourceTable> =
            listed.into_iter().map(|it| (it.number, it)).collect();
        let is_table =
            |file: &&StoreFile| [FileKind::Table, FileKind::SetAside].contains(&file.kind);
        for file in files.iter().filter(is_table) {
            let table = listed.remove(&file.number).unwrap_or_else(|| {
                let table = self.unlisted(file);
                self.unlisted_taken.push(table.path.clone());
                table
            });
            self.tables.push(table);
        }
        self.tables.sort_by_key(|table| Reverse(table.number));
        self.losses
            .extend(listed.into_values().map(|table| SalvageLoss {
            path: table.path,
            keyspace: table.keyspace,
            part: LostPart::Table(Error::new(
                ErrorKind::NotFound,
                "it is named by what is readable of the manifest, and not there; it was replaced \
                 since, or is lost",
            )),
        }));
    }

    fn take_keyspaces(&mut self, state: &ManifestState) {
        for (&id, keyspace) in &state.keyspaces {
            self.names.insert(id, keyspace.name.clone());
            self.flushed.insert(id, keyspace.flushed_seq);
            self.keyspaces
                .insert(keyspace.name.clone(), keyspace.options.clone());
        }
    }

    /// The tables that a manifest names.
    fn listed(&self, state: &ManifestState) -> Vec<SourceTable> {
        let mut tables = Vec::new();
        for keyspace in state.keyspaces.values() {
            tables.extend(keyspace.version.tables().map(|(_, table)| SourceTable {
                number: table.number,
                path: file_path(&self.dir, FileKind::Table, table.number),
                id: Some(table.id),
                keyspace: Some(keyspace.name.clone()),
                seq_base: table.seq_base,
                stored_bytes: table.stored_bytes,
            }));
        }
        tables
    }
}
