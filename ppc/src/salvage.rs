//! Salvage: a new archive from what is sound in a damaged one.
//!
//! The engine gets out of the files what can be read; here the result is made an archive again. The
//! format record is written anew if it was lost, tables whose keyspace nobody knows any more are
//! searched for contents, values whose keys are lost are known again by their hashes, contents that
//! are not what their key says go, and indexes are made to agree with what is left.
//!
//! What is lost is told by name: index and contents know each other's keys, so a content is only
//! lost without a name where both are damaged in the same place.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ppc_engine::{
    CancelToken, Db, DbOptions, IterOptions, KeyRange, LostPart, SalvageLoss, SalvageOptions,
    SalvageReport,
};

use crate::archive::{
    Archive, ArchiveOptions, CONTENTS, Missing, RepairReport, contents_options, restore_record,
};
use crate::hash::HashKind;
use crate::key::PpcKey;
use crate::progress::{DamagedPlace, Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::{Error, ErrorKind, Result};

/// The keyspace that takes values without keys while a salvage lasts.
const ORPHANS: &str = "orphans";

/// What a salvage came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Salvaged {
    /// What the engine found in the files.
    pub engine: SalvageReport,
    /// What the new archive holds, and what was set right in it.
    pub repair: RepairReport,
    /// Contents whose keys were lost, and that were found again by their hashes.
    pub found_again: u64,
    /// The contents that are known to be lost, in key order. Each was told to the observer as
    /// [`ProblemKind::Lost`].
    pub lost: Vec<PpcKey>,
    /// Whether these are all that is lost. Where contents and every index are damaged, or nobody
    /// knows what a damaged file held, there may be more.
    pub is_list_complete: bool,
}

impl Salvaged {
    /// Whether anything of the contents is, or may be, lost.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty() || !self.is_list_complete || self.repair.contents_removed > 0
    }
}

/// Rebuilds the archive in `source` as a new one in `target`, which must not exist or be empty, and
/// not lie in the source. The source is only read. Everything that is damaged or lost is told to the
/// observer.
pub fn salvage(source: &Path, target: &Path, observer: &dyn Observer) -> Result<Salvaged> {
    let (source, target) = (resolved(source), resolved(target));
    salvage_with(&DbOptions::default(), &source, &target, observer)
}

/// As [`salvage`], with options of the engine; paths are compared as they are given.
fn salvage_with(
    db_options: &DbOptions,
    source: &Path,
    target: &Path,
    observer: &dyn Observer,
) -> Result<Salvaged> {
    let mut options = SalvageOptions::default();
    options.db = db_options.clone();
    options.keyspace = contents_options(None);
    options.orphans_keyspace = Some(ORPHANS.to_owned());
    let fallback = options.fallback_keyspace.clone();
    let cancel = options.cancel.clone();
    let engine = ppc_engine::salvage(source, target, &options, &mut |done| {
        let mut progress = Progress::start(Phase::Salvaging, Some(done.bytes_total));
        progress.bytes = done.bytes;
        observer.progress(&progress);
        cancel_if_unwanted(observer, &cancel);
    })?;
    for loss in engine.losses.iter().filter(|loss| !is_named_content(loss)) {
        observer.problem(&problem_of(loss));
    }
    for path in &engine.unlisted_taken {
        observer.problem(&unlisted(path, true));
    }
    for path in &engine.unlisted_left {
        observer.problem(&unlisted(path, false));
    }
    let db = Db::open(target, db_options.clone())?;
    restore_record(&db)?;
    db.close()?;
    drop(db);

    let options = ArchiveOptions {
        db: db_options.clone(),
        ..ArchiveOptions::default()
    };
    let archive = Archive::open(target, options)?;
    adopt_strays(&archive, &fallback, observer)?;
    let mut missing = archive.missing(observer)?;
    let found_again = find_missing(&archive, &mut missing, observer)?;
    let repair = archive.repair(observer)?;
    let knows_all = archive
        .indexes()
        .iter()
        .any(|kind| is_whole(kind, &engine.losses));
    let lost = lost_contents(&archive, missing, &engine.losses, knows_all)?;
    for key in &lost {
        let problem = Problem::new(ProblemKind::Lost, key.swhid(), format!("lost: {key}"));
        observer.problem(&problem.of_content(key.clone()));
    }
    archive.close()?;
    Ok(Salvaged {
        found_again,
        repair,
        lost,
        is_list_complete: knows_all || engine.losses.iter().all(spares_contents),
        engine,
    })
}

/// The path without links, as far as it exists, so that one in the other is noticed.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let existing = absolute
        .ancestors()
        .find_map(|part| Some((part, part.canonicalize().ok()?)));
    match existing {
        Some((part, real)) => match absolute.strip_prefix(part) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => absolute,
    }
}

fn cancel_if_unwanted(observer: &dyn Observer, cancel: &CancelToken) {
    if observer.wish() != Wish::GoOn {
        cancel.cancel();
    }
}

fn check_wish(observer: &dyn Observer) -> Result<()> {
    match observer.wish() {
        Wish::GoOn => Ok(()),
        _ => Err(Error::new(ErrorKind::Cancelled, "the salvage was stopped")),
    }
}

/// Takes contents out of tables of which nobody knows whose they are; the rest of those were
/// indexes, which are made anew.
fn adopt_strays(archive: &Archive, fallback: &str, observer: &dyn Observer) -> Result<()> {
    let Some(strays) = archive.db().existing_keyspace(fallback)? else {
        return Ok(());
    };
    for entry in strays.iter(KeyRange::all(), IterOptions::default())? {
        check_wish(observer)?;
        let (key, value) = entry?;
        archive.adopt(&key, &value)?;
    }
    drop(strays);
    archive.db().drop_keyspace(fallback)?;
    Ok(())
}

/// Finds missing contents among values whose keys are lost. Says how many.
fn find_missing(archive: &Archive, missing: &mut Missing, observer: &dyn Observer) -> Result<u64> {
    let Some(orphans) = archive.db().existing_keyspace(ORPHANS)? else {
        return Ok(0);
    };
    let mut progress = Progress::start(Phase::Matching, None);
    for entry in orphans.iter(KeyRange::all(), IterOptions::default())? {
        check_wish(observer)?;
        let (_, stretch) = entry?;
        progress.files += archive.find_missing(missing, &stretch)?;
        progress.bytes += stretch.len() as u64;
        observer.progress(&progress);
    }
    drop(orphans);
    archive.db().drop_keyspace(ORPHANS)?;
    Ok(progress.files)
}

/// What indexes still miss, and what lost its value and is not there by another way.
fn lost_contents(
    archive: &Archive,
    missing: Missing,
    losses: &[SalvageLoss],
    index_knows_all: bool,
) -> Result<Vec<PpcKey>> {
    let mut lost = missing.into_keys();
    if index_knows_all {
        // What it does not know was deleted.
        return Ok(lost);
    }
    let named: HashSet<PpcKey> = lost.iter().cloned().collect();
    for loss in losses {
        let LostPart::Value { key, .. } = &loss.part else {
            continue;
        };
        let may_be_content = loss.keyspace.as_deref().is_none_or(|name| name == CONTENTS);
        let Ok(key) = PpcKey::decode(key) else {
            continue;
        };
        if may_be_content && !named.contains(&key) && !archive.has(&key.clone().into())? {
            lost.push(key);
        }
    }
    lost.sort_unstable();
    lost.dedup();
    Ok(lost)
}

/// Whether an index was read from end to end.
fn is_whole(kind: HashKind, losses: &[SalvageLoss]) -> bool {
    let spares = |loss: &SalvageLoss| loss.keyspace.as_deref().is_some_and(|it| it != kind.name());
    losses.iter().all(spares)
}

/// Whether a loss concerns another keyspace than the contents. The others can be made anew.
fn spares_contents(loss: &SalvageLoss) -> bool {
    loss.keyspace
        .as_deref()
        .is_some_and(|name| name != CONTENTS)
}

/// Whether a loss is the value of a content, whose name is told if it is lost in the end.
fn is_named_content(loss: &SalvageLoss) -> bool {
    let LostPart::Value { key, .. } = &loss.part else {
        return false;
    };
    !spares_contents(loss) && PpcKey::decode(key).is_ok()
}

/// A table that no manifest names.
fn unlisted(path: &Path, is_taken: bool) -> Problem {
    let what = match is_taken {
        true => "the manifest does not name it; it was taken, and deleted contents may be back",
        false => {
            "the manifest does not name it; it was left out, as it was never committed or has been \
             replaced"
        }
    };
    let place = DamagedPlace::new(path.to_path_buf(), None, None);
    Problem::new(ProblemKind::Finding, path.display(), what).at(place)
}

/// A loss as a user reads it: keys of contents as `ppc ls` prints them.
fn problem_of(loss: &SalvageLoss) -> Problem {
    let bytes = match &loss.part {
        LostPart::Bytes(range) => Some(range.clone()),
        _ => None,
    };
    let is_index = loss
        .keyspace
        .as_deref()
        .is_some_and(|name| HashKind::ALL.into_iter().any(|kind| kind.name() == name));
    let bound = |key: &Option<Vec<u8>>, end: &str| match key.as_deref().map(PpcKey::decode) {
        Some(Ok(key)) => key.to_string(),
        Some(Err(_)) => "a damaged key".to_owned(),
        None => format!("the {end} of the table"),
    };
    let message = match &loss.part {
        LostPart::Value { .. } | LostPart::Keys { .. } if is_index => {
            "index entries are lost; they are made anew from the contents".to_owned()
        }
        LostPart::Keys { after, before } if loss.keyspace.as_deref() == Some(CONTENTS) => format!(
            "keys of contents are lost between {} and {}",
            bound(after, "start"),
            bound(before, "end")
        ),
        part => part.to_string(),
    };
    let origin = match &loss.keyspace {
        Some(keyspace) => format!("{} ({keyspace})", loss.path.display()),
        None => loss.path.display().to_string(),
    };
    let place = DamagedPlace::new(loss.path.clone(), bytes, loss.keyspace.clone());
    Problem::new(ProblemKind::Damage, origin, message).at(place)
}
