//! Checking an archive: every content against its key, every index against the contents.
//!
//! The engine's own check reads every unit of every file, whether or not the store opens; this one
//! asks whether what is stored makes sense. One thread walks the contents and decodes them, others
//! hash; then each index is counted, and walked if the count is off or something was damaged.
//! Everything is read from one snapshot, so that puts and deletes may go on.
//!
//! Damage ends nothing. Where keys are damaged, the walk goes on behind them, and the walk over the
//! indexes names the contents that it did not see.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use ppc_engine::vfs::Vfs;
use ppc_engine::{
    Affected, DbOptions, IterOptions, KeyRange, Snapshot, StrayTable, VerifyOptions, VerifyProblem,
    VerifyReport, verify_store_in,
};

use super::index::Index;
use super::{Archive, CONTENTS, Stored};
use crate::hash::{Hashes, Sha1Git};
use crate::key::PpcKey;
use crate::progress::{DamagedPlace, Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::{Error, ErrorKind, Result};

/// Contents in flight between walker and hashers, for each hasher.
const QUEUE_PER_THREAD: usize = 4;
/// Contents between two reports of progress.
const PROGRESS_FILES: u64 = 256;

/// What a check of contents and indexes found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ContentCheck {
    /// Contents that could be read and were checked.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Index entries counted.
    pub index_entries: u64,
    /// Contents and index entries that are wrong, and damaged parts of files that were not known
    /// before. Each was told to the observer as [`ProblemKind::Damage`].
    pub damages: u64,
    /// Contents that are known and cannot be read. Each was told to the observer as
    /// [`ProblemKind::Lost`]. Where an index is damaged too there may be more.
    pub unreadable: u64,
    /// Contents that can be read but not be found by some hash, because the index is damaged there.
    pub unindexed: u64,
}

/// Has the engine check every unit of every file of the store in directory `path`: manifest, log,
/// and of each table checksums, order, filters, and that tables do not overlap. Decodes no values,
/// which [`Archive::check_contents`] does. The store need not open. What is wrong is told to the
/// observer as [`ProblemKind::Damage`], tables that no manifest names as [`ProblemKind::Finding`].
pub fn check_files(path: &Path, threads: usize, observer: &dyn Observer) -> Result<VerifyReport> {
    check_files_in(&DbOptions::default().vfs, path, threads, observer)
}

/// As [`check_files`], on another file system than the disk.
pub(crate) fn check_files_in(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    threads: usize,
    observer: &dyn Observer,
) -> Result<VerifyReport> {
    let mut options = VerifyOptions::default();
    options.quick = true;
    options.threads = threads.max(1);
    let cancel = options.cancel.clone();
    let report = verify_store_in(vfs, path, &options, &mut |done| {
        let mut progress = Progress::start(Phase::CheckingTables, Some(done.bytes_total));
        progress.bytes = done.bytes;
        observer.progress(&progress);
        if observer.wish() != Wish::GoOn {
            cancel.cancel();
        }
    })?;
    for problem in &report.problems {
        observer.problem(&damage(problem, path));
    }
    for table in &report.unlisted {
        observer.problem(&unlisted(table));
    }
    Ok(report)
}

/// Damage to a file as a user reads it.
fn damage(problem: &VerifyProblem, store: &Path) -> Problem {
    let error = &problem.error;
    let path = error.path().unwrap_or(store).to_path_buf();
    let mut message = match &problem.bytes {
        Some(bytes) => format!(
            "bytes {} to {}: {}",
            bytes.start,
            bytes.end,
            error.message()
        ),
        None => error.message().to_owned(),
    };
    if let Some(cause) = std::error::Error::source(error) {
        message.push_str(&format!(": {cause}"));
    }
    message.push_str(&affected(&problem.affects, error.keyspace()));
    let origin = match error.keyspace() {
        Some(keyspace) => format!("{} ({keyspace})", path.display()),
        None => path.display().to_string(),
    };
    let keyspace = error.keyspace().map(ToOwned::to_owned);
    let place = DamagedPlace::new(path, problem.bytes.clone(), keyspace);
    Problem::new(ProblemKind::Damage, origin, message).at(place)
}

/// What damage takes along, in words.
fn affected(affects: &Affected, keyspace: Option<&str>) -> String {
    let what = match keyspace {
        Some(CONTENTS) => "files",
        _ => "entries",
    };
    let name = |key: &[u8]| match PpcKey::decode(key) {
        Ok(key) if keyspace == Some(CONTENTS) => key.to_string(),
        _ => crate::text::quote(key).to_string(),
    };
    match affects {
        Affected::Nothing => "; nothing that is stored is lost with it".to_owned(),
        Affected::Values { count: 0, .. } => String::new(),
        Affected::Values { count, first, last } => format!(
            "; {count} {what} cannot be read, from {} to {}",
            name(first),
            name(last)
        ),
        Affected::Keys { after, up_to } => {
            let from = after
                .as_deref()
                .map_or_else(|| "the table's start".to_owned(), name);
            let to = up_to
                .as_deref()
                .map_or_else(|| "the table's end".to_owned(), name);
            format!("; {what} between {from} and {to} cannot be read")
        }
        Affected::Table => format!("; its {what} cannot be read"),
        _ => String::new(),
    }
}

fn unlisted(table: &StrayTable) -> Problem {
    let state = match table.is_sound {
        true => "sound",
        false => "damaged",
    };
    let of = match &table.keyspace {
        Some(keyspace) => format!(" of {keyspace}"),
        None => String::new(),
    };
    let is_set_aside = table.path.extension().is_some_and(|it| it == "lost");
    let why = match is_set_aside {
        true => {
            "set aside by a writer that could not tell whether the manifest had lost it; `ppc salvage` \
             takes it along, or remove the file if nothing is missing"
        }
        false => "left by a process that died, or by damage to the manifest",
    };
    let message = format!(
        "finished and {state}, {} entries{of}, and the manifest does not name it: {why}",
        table.entries
    );
    let place = DamagedPlace::new(table.path.clone(), None, table.keyspace.clone());
    Problem::new(ProblemKind::Finding, table.path.display(), message).at(place)
}

impl Archive {
    /// Recomputes the hash of every content, and checks that contents and indexes agree. What is
    /// wrong is told to the observer, and counted; damage that `known` has, from [`check_files`], is
    /// not told again.
    pub fn check_contents(
        &self,
        threads: usize,
        known: Option<&VerifyReport>,
        observer: &dyn Observer,
    ) -> Result<ContentCheck> {
        let known = known.into_iter().flat_map(|report| &report.problems);
        let check = Check {
            archive: self,
            snapshot: &self.inner.db.snapshot()?,
            observer,
            found: Mutex::new(ContentCheck::default()),
            places: Mutex::new(known.filter_map(known_place).collect()),
            unreadable: Mutex::default(),
        };
        check.contents(threads.max(1))?;
        for index in &self.inner.indexes {
            check.index(index)?;
        }
        Ok(check.found.into_inner())
    }
}

/// Where damage was met, to tell it once: a file and an offset, or all of a file.
type Place = (PathBuf, Option<u64>);

fn known_place(problem: &VerifyProblem) -> Option<Place> {
    let path = problem.error.path()?.to_path_buf();
    // Reads of a table that does not open fail wherever they come to.
    let is_whole = problem.affects == Affected::Table;
    Some((path, problem.error.offset().filter(|_| !is_whole)))
}

struct Check<'a> {
    archive: &'a Archive,
    snapshot: &'a Snapshot,
    observer: &'a dyn Observer,
    found: Mutex<ContentCheck>,
    /// Damage that was told.
    places: Mutex<HashSet<Place>>,
    /// Contents that cannot be read, and were told.
    unreadable: Mutex<HashSet<Sha1Git>>,
}

impl Check<'_> {
    /// Walks the contents, and has them hashed and looked up on other threads.
    fn contents(&self, threads: usize) -> Result<()> {
        let (sender, receiver) = crossbeam_channel::bounded(threads * QUEUE_PER_THREAD);
        std::thread::scope(|scope| {
            let hashers: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| self.hash_all(&receiver)))
                .collect();
            let walked = self.walk(|stored| sender.send(stored).is_ok());
            drop(sender);
            for hasher in hashers {
                match hasher.join() {
                    Ok(outcome) => outcome?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            walked
        })
    }

    /// Gives every readable content to `take`, until that says false.
    fn walk(&self, take: impl Fn(Stored) -> bool) -> Result<()> {
        let contents = &self.archive.inner.contents;
        let options = IterOptions::default().passing_over_damage();
        let mut entries = self.snapshot.iter(contents, KeyRange::all(), options)?;
        while let Some(entry) = entries.next() {
            if self.observer.wish() != Wish::GoOn {
                return Err(stopped());
            }
            let (encoded, content) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let key = entries.last_key().map(PpcKey::decode);
                    match key {
                        Some(Ok(key)) => self.unreadable(&key, &error),
                        _ => self.damaged(&error),
                    }
                    continue;
                }
            };
            match PpcKey::decode(&encoded) {
                Ok(key) => {
                    if !take(Stored { key, content }) {
                        return Ok(());
                    }
                }
                Err(error) => self.damage(contents.name(), error.to_string(), None),
            }
        }
        Ok(())
    }

    fn hash_all(&self, contents: &Receiver<Stored>) -> Result<()> {
        for stored in contents {
            self.check_one(&stored)?;
            let mut found = self.found.lock();
            found.files += 1;
            found.bytes += stored.content.len() as u64;
            if found.files.is_multiple_of(PROGRESS_FILES) {
                let mut progress = Progress::start(Phase::Verifying, None);
                progress.files = found.files;
                progress.bytes = found.bytes;
                drop(found);
                self.observer.progress(&progress);
            }
        }
        Ok(())
    }

    fn check_one(&self, stored: &Stored) -> Result<()> {
        let Stored { key, content } = stored;
        let hashes = Hashes::of(self.archive.indexes(), content);
        if hashes.sha1_git != Some(key.hash()) {
            let has = hashes.sha1_git.map(|hash| hash.to_string());
            let message = format!("the content's hash is {}", has.unwrap_or_default());
            self.damage(key, message, Some(key));
            return Ok(());
        }
        let mut is_unindexed = false;
        let encoded = key.encode();
        for index in &self.archive.inner.indexes {
            let Some((hash, value)) = index.entry(&hashes, &encoded) else {
                continue;
            };
            match self.snapshot.get(index.keyspace(), &hash) {
                Ok(Some(found)) if found == value => {}
                Ok(Some(found)) => {
                    let other = index.key(&hash, &found);
                    let other = other.map_or_else(|error| error.to_string(), |key| key.to_string());
                    let message = format!("index {} leads to {other} instead", index.kind());
                    self.damage(key, message, Some(key));
                }
                Ok(None) => {
                    // What shows behind damaged keys may have been deleted in them.
                    if !self.is_doubtful(&encoded)? {
                        let message = format!("index {} lacks it", index.kind());
                        self.damage(key, message, Some(key));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    self.damaged(&error);
                    is_unindexed = true;
                }
                Err(error) => return Err(error),
            }
        }
        self.found.lock().unindexed += u64::from(is_unindexed);
        Ok(())
    }

    /// Whether nobody can say if a content is there, because keys are damaged where it would be.
    fn is_doubtful(&self, encoded: &[u8]) -> Result<bool> {
        let contents = &self.archive.inner.contents;
        match self.snapshot.contains(contents, encoded) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Counts an index. Every content has led to an entry of its own by now, so that an index with
    /// as many entries as there are contents has no other, if nothing was passed over.
    fn index(&self, index: &Index) -> Result<()> {
        let files = self.found.lock().files;
        let mut entries = 0;
        self.walk_index(index, |_, _| {
            entries += 1;
            Ok(())
        })?;
        self.found.lock().index_entries += entries;
        if entries <= files && self.places.lock().is_empty() {
            return Ok(());
        }
        self.walk_index(index, |hash, value| {
            let encoded = index.encoded_key(hash, value);
            let contains = self
                .snapshot
                .contains(&self.archive.inner.contents, &encoded);
            match (contains, index.key(hash, value)) {
                (Ok(true), _) => {}
                (Ok(false), key) => {
                    let name = match &key {
                        Ok(key) => key.to_string(),
                        Err(error) => error.to_string(),
                    };
                    let place = format!("index {}", index.kind());
                    let message = format!("leads to {name}, which is not there");
                    self.damage(place, message, key.ok().as_ref());
                }
                (Err(error), key) if error.kind() == ErrorKind::Corruption => {
                    self.damaged(&error);
                    if let Ok(key) = key {
                        self.unreadable(&key, &error);
                    }
                }
                (Err(error), _) => return Err(error),
            }
            Ok(())
        })
    }

    fn walk_index(
        &self,
        index: &Index,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let options = IterOptions::default().passing_over_damage();
        let entries = self
            .snapshot
            .iter(index.keyspace(), KeyRange::all(), options)?;
        for (at, entry) in entries.enumerate() {
            if at % 4096 == 0 && self.observer.wish() != Wish::GoOn {
                return Err(stopped());
            }
            match entry {
                Ok((hash, value)) => each(&hash, &value)?,
                Err(error) => self.damaged(&error),
            }
        }
        Ok(())
    }

    /// A content that is known and cannot be read; told once.
    fn unreadable(&self, key: &PpcKey, error: &Error) {
        self.damaged(error);
        if !self.unreadable.lock().insert(key.hash()) {
            return;
        }
        self.found.lock().unreadable += 1;
        let message = format!("cannot be read: {key}");
        let problem = Problem::new(ProblemKind::Lost, key.swhid(), message);
        self.observer.problem(&problem.of_content(key.clone()));
    }

    /// Damage that a read met; told once, and not at all if the check of the files told it.
    fn damaged(&self, error: &Error) {
        let path = error.path().unwrap_or(&self.archive.inner.path);
        let is_told = {
            let mut places = self.places.lock();
            places.contains(&(path.to_path_buf(), None))
                || !places.insert((path.to_path_buf(), error.offset()))
        };
        if !is_told {
            self.damage(path.display(), error.to_string(), None);
        }
    }

    fn damage(&self, place: impl ToString, message: String, key: Option<&PpcKey>) {
        self.found.lock().damages += 1;
        let mut problem = Problem::new(ProblemKind::Damage, place, message);
        problem.key = key.cloned();
        self.observer.problem(&problem);
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "the check was stopped")
}
