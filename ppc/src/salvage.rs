//! Salvage: a new archive from what is sound in a damaged one.
//!
//! The engine gets out of the files what can be read; here the result is made an archive again. The
//! format record is written anew if it was lost, tables whose keyspace nobody knows any more are
//! searched for contents, contents that are not what their key says go, and indexes are made to
//! agree with what is left.

use std::path::Path;

use ppc_engine::{
    CancelToken, Db, DbOptions, IterOptions, KeyRange, LostPart, SalvageLoss, SalvageOptions,
    SalvageReport,
};

use crate::archive::{Archive, ArchiveOptions, RepairReport, contents_options, restore_record};
use crate::key::PpcKey;
use crate::progress::{Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::{Error, ErrorKind, Result};

/// What a salvage came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Salvaged {
    /// What the engine found in the files.
    pub engine: SalvageReport,
    /// What the new archive holds, and what was set right in it.
    pub repair: RepairReport,
}

impl Salvaged {
    /// Whether anything of the contents may be lost.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        !self.engine.losses.is_empty() || self.repair.contents_removed > 0
    }
}

/// Rebuilds the archive in `source` as a new one in `target`, which must not exist or be empty. The
/// source is only read. Everything that is lost is told to the observer.
pub fn salvage(source: &Path, target: &Path, observer: &dyn Observer) -> Result<Salvaged> {
    let mut options = SalvageOptions::default();
    options.keyspace = contents_options(None);
    let fallback = options.fallback_keyspace.clone();
    let cancel = options.cancel.clone();
    let engine = ppc_engine::salvage(source, target, &options, &mut |done| {
        let mut progress = Progress::start(Phase::Salvaging, Some(done.bytes_total));
        progress.bytes = done.bytes;
        observer.progress(&progress);
        cancel_if_unwanted(observer, &cancel);
    })?;
    for loss in &engine.losses {
        observer.problem(&problem_of(loss));
    }
    let db = Db::open(target, DbOptions::default())?;
    restore_record(&db)?;
    db.close()?;
    drop(db);

    let archive = Archive::open(target, ArchiveOptions::default())?;
    adopt_strays(&archive, &fallback, observer)?;
    let repair = archive.repair(observer)?;
    archive.close()?;
    Ok(Salvaged { engine, repair })
}

fn cancel_if_unwanted(observer: &dyn Observer, cancel: &CancelToken) {
    if observer.wish() != Wish::GoOn {
        cancel.cancel();
    }
}

/// Takes contents out of tables of which nobody knows whose they are; the rest of those were
/// indexes, which are made anew.
fn adopt_strays(archive: &Archive, fallback: &str, observer: &dyn Observer) -> Result<()> {
    let Some(strays) = archive.db().existing_keyspace(fallback)? else {
        return Ok(());
    };
    for entry in strays.iter(KeyRange::all(), IterOptions::default())? {
        if observer.wish() != Wish::GoOn {
            return Err(Error::new(ErrorKind::Cancelled, "the salvage was stopped"));
        }
        let (key, value) = entry?;
        archive.adopt(&key, &value)?;
    }
    drop(strays);
    archive.db().drop_keyspace(fallback)?;
    Ok(())
}

/// A loss as a user reads it: keys of contents as `ppc ls` prints them.
fn problem_of(loss: &SalvageLoss) -> Problem {
    let place = loss.path.display();
    let message = match (&loss.part, loss.keyspace.as_deref()) {
        (LostPart::Value { key, .. }, Some("contents")) => match PpcKey::decode(key) {
            Ok(key) => format!("content {key} is lost"),
            Err(_) => loss.to_string(),
        },
        _ => loss.to_string(),
    };
    Problem::new(ProblemKind::Damage, place, message)
}
