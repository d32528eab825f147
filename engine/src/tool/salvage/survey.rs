//! What there is in the directory of a store that may be damaged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{LostPart, SalvageLoss, SalvageOptions};
use crate::dir::{CURRENT, FileKind, StoreFile, file_path, list_files};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Manifest, ManifestState};
use crate::options::KeyspaceOptions;
use crate::types::{FileId, FileNumber, KeyspaceId, SeqNo};
use crate::vfs::Vfs;

/// A table that may be there.
#[derive(Debug)]
pub(super) struct SourceTable {
    pub(super) number: FileNumber,
    pub(super) path: PathBuf,
    /// From here on, what the manifest says of it, where there is one.
    pub(super) id: Option<FileId>,
    pub(super) keyspace: Option<String>,
    pub(super) seq_base: SeqNo,
    pub(super) stored_bytes: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) dir: PathBuf,
    pub(super) has_manifest: bool,
    /// Keyspaces with their options, as far as they are known.
    pub(super) keyspaces: BTreeMap<String, KeyspaceOptions>,
    pub(super) names: BTreeMap<KeyspaceId, String>,
    /// What the log need not tell.
    pub(super) flushed: BTreeMap<KeyspaceId, SeqNo>,
    /// Those that shadow others first.
    pub(super) tables: Vec<SourceTable>,
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
        logs,
        losses: Vec::new(),
    };
    match state_of(vfs, dir, &files, &mut survey.losses) {
        Some(state) => survey.take_state(&state),
        None => survey.take_files(&**vfs, &files),
    }
    Ok(survey)
}

fn numbers(files: &[StoreFile], kind: FileKind) -> impl DoubleEndedIterator<Item = FileNumber> {
    files
        .iter()
        .filter(move |file| file.kind == kind)
        .map(|file| file.number)
}

/// What the manifest says. Where `CURRENT` is lost, the newest one is it; where that is damaged,
/// an older one would name tables that are gone and miss those that replaced them.
fn state_of(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    files: &[StoreFile],
    losses: &mut Vec<SalvageLoss>,
) -> Option<ManifestState> {
    let error = match Manifest::recover(vfs, dir, true) {
        Ok((_, state)) => return Some(state),
        Err(error) => error,
    };
    losses.push(SalvageLoss {
        path: error.path().map_or(dir.join(CURRENT), Path::to_path_buf),
        keyspace: None,
        part: LostPart::Manifest(error),
    });
    let newest = numbers(files, FileKind::Manifest).next_back()?;
    Manifest::read(&**vfs, dir, newest).ok()
}

impl Survey {
    fn take_state(&mut self, state: &ManifestState) {
        self.take_keyspaces(state);
        for (&id, keyspace) in &state.keyspaces {
            self.flushed.insert(id, keyspace.flushed_seq);
            for (_, table) in keyspace.version.tables() {
                self.tables.push(SourceTable {
                    number: table.number,
                    path: file_path(&self.dir, FileKind::Table, table.number),
                    id: Some(table.id),
                    keyspace: Some(keyspace.name.clone()),
                    seq_base: table.seq_base,
                    stored_bytes: table.stored_bytes,
                });
            }
        }
    }

    fn take_keyspaces(&mut self, state: &ManifestState) {
        for (&id, keyspace) in &state.keyspaces {
            self.names.insert(id, keyspace.name.clone());
            self.keyspaces
                .insert(keyspace.name.clone(), keyspace.options.clone());
        }
    }

    fn take_files(&mut self, vfs: &dyn Vfs, files: &[StoreFile]) {
        self.has_manifest = false;
        // An older manifest still knows names and options.
        let older = numbers(files, FileKind::Manifest)
            .rev()
            .find_map(|number| Manifest::read(vfs, &self.dir, number).ok());
        if let Some(state) = older {
            self.take_keyspaces(&state);
        }
        let tables = files.iter().filter(|file| file.kind == FileKind::Table);
        self.tables.extend(tables.rev().map(|file| SourceTable {
            number: file.number,
            path: file_path(&self.dir, FileKind::Table, file.number),
            id: None,
            keyspace: None,
            seq_base: SeqNo::ZERO,
            stored_bytes: file.len,
        }));
    }
}
