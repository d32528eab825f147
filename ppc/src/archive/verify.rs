//! Checking an archive: every content against its key, every index against the contents.
//!
//! The engine's own check reads every unit of every file; this one asks whether what is stored
//! makes sense. One thread walks the contents and decodes them, others hash; then each index is
//! counted, and walked only if the count is off. Everything is read from one snapshot, so that
//! puts and deletes may go on.

use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use ppc_engine::{IterOptions, KeyRange, Snapshot, VerifyOptions, VerifyReport};

use super::index::Index;
use super::{Archive, Stored};
use crate::hash::Hashes;
use crate::key::PpcKey;
use crate::progress::{Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::{Error, ErrorKind, Result};

/// Contents in flight between walker and hashers, for each hasher.
const QUEUE_PER_THREAD: usize = 4;
/// Contents between two reports of progress.
const PROGRESS_FILES: u64 = 256;

/// What a check of contents and indexes found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ContentCheck {
    /// Contents checked.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Index entries counted.
    pub index_entries: u64,
    /// Contents and index entries that are wrong or unreadable. Each was told to the observer.
    pub damages: u64,
}

impl Archive {
    /// Has the engine check every unit of every table: checksums, order, filters, and that tables do
    /// not overlap. Decodes no values, which [`Archive::check_contents`] does. What is wrong is told
    /// to the observer as [`ProblemKind::Damage`].
    pub fn check_tables(&self, threads: usize, observer: &dyn Observer) -> Result<VerifyReport> {
        let mut options = VerifyOptions::default();
        options.quick = true;
        options.threads = threads.max(1);
        let cancel = options.cancel.clone();
        let report = self.inner.db.verify(&options, &mut |done| {
            let mut progress = Progress::start(Phase::CheckingTables, Some(done.bytes_total));
            progress.bytes = done.bytes;
            observer.progress(&progress);
            if observer.wish() != Wish::GoOn {
                cancel.cancel();
            }
        })?;
        for error in &report.problems {
            let place = match error.path() {
                Some(path) => path.display().to_string(),
                None => self.inner.path.display().to_string(),
            };
            let problem = Problem::new(ProblemKind::Damage, place, error.to_string());
            observer.problem(&problem);
        }
        Ok(report)
    }

    /// Recomputes the hash of every content, and checks that contents and indexes agree. What is
    /// wrong is told to the observer as [`ProblemKind::Damage`], and counted.
    pub fn check_contents(&self, threads: usize, observer: &dyn Observer) -> Result<ContentCheck> {
        let check = Check {
            archive: self,
            snapshot: &self.inner.db.snapshot()?,
            observer,
            found: Mutex::new(ContentCheck::default()),
        };
        check.contents(threads.max(1))?;
        for index in &self.inner.indexes {
            check.index(index)?;
        }
        Ok(check.found.into_inner())
    }
}

struct Check<'a> {
    archive: &'a Archive,
    snapshot: &'a Snapshot,
    observer: &'a dyn Observer,
    found: Mutex<ContentCheck>,
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
        let options = IterOptions::default();
        let mut last_key = Vec::new();
        for entry in self.snapshot.iter(contents, KeyRange::all(), options)? {
            if self.observer.wish() != Wish::GoOn {
                return Err(stopped());
            }
            let stored = entry.and_then(|(key, content)| {
                last_key.clear();
                last_key.extend_from_slice(&key);
                let key = PpcKey::decode(&key)?;
                Ok(Stored { key, content })
            });
            match stored {
                Ok(stored) => {
                    if !take(stored) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    let after = match PpcKey::decode(&last_key) {
                        Ok(key) => format!("after {key}"),
                        Err(_) => contents.name().to_owned(),
                    };
                    self.damage(after, error.to_string());
                }
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
            self.damage(key, message);
            return Ok(());
        }
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
                    self.damage(key, message);
                }
                Ok(None) => self.damage(key, format!("index {} lacks it", index.kind())),
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    self.damage(key, error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Counts an index. Every content has led to an entry of its own by now, so that an index with
    /// as many entries as there are contents has no other.
    fn index(&self, index: &Index) -> Result<()> {
        let files = self.found.lock().files;
        let mut entries = 0;
        self.walk_index(index, |_, _| {
            entries += 1;
            Ok(())
        })?;
        self.found.lock().index_entries += entries;
        if entries <= files {
            return Ok(());
        }
        self.walk_index(index, |hash, value| {
            let encoded = index.encoded_key(hash, value);
            if !self
                .snapshot
                .contains(&self.archive.inner.contents, &encoded)?
            {
                let key = index.key(hash, value);
                let key = key.map_or_else(|error| error.to_string(), |key| key.to_string());
                let place = format!("index {}", index.kind());
                self.damage(place, format!("leads to {key}, which is not there"));
            }
            Ok(())
        })
    }

    fn walk_index(
        &self,
        index: &Index,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let options = IterOptions::default();
        let entries = self
            .snapshot
            .iter(index.keyspace(), KeyRange::all(), options)?;
        for (at, entry) in entries.enumerate() {
            if at % 4096 == 0 && self.observer.wish() != Wish::GoOn {
                return Err(stopped());
            }
            match entry {
                Ok((hash, value)) => each(&hash, &value)?,
                Err(error) => self.damage(format!("index {}", index.kind()), error.to_string()),
            }
        }
        Ok(())
    }

    fn damage(&self, place: impl ToString, message: String) {
        self.found.lock().damages += 1;
        let problem = Problem::new(ProblemKind::Damage, place, message);
        self.observer.problem(&problem);
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "the check was stopped")
}
