//! Export: from an archive to a file, a tar archive or a directory.
//!
//! One thread walks the archive in key order, which is the order on disk, and decodes each block
//! once; the caller's thread writes. Between them lies a queue bounded by bytes. A damaged content
//! costs itself only: it is told to the observer and left out, and the rest is exported.

use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use crate::archive::{Archive, Id, Selection, Stored};
use crate::budget::{Budget, Permit};
use crate::key::PpcKey;
use crate::progress::{Observer, Phase, Problem, ProblemKind, Progress, Wish};
use crate::sink::{Sink, SinkReport};
use crate::{Error, ErrorKind, Result};

/// Bytes of contents between walker and sink.
const QUEUE_BYTES: usize = 64 << 20;
/// Ids looked up together.
const GROUP_IDS: usize = 64;
/// Contents between two reports of progress.
const PROGRESS_FILES: u64 = 256;

/// What to export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A range of contents.
    Range(Selection),
    /// Contents by id, in whatever order they are given. Each is exported once.
    Ids(Vec<Id>),
}

/// The account of one export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// What was written.
    pub written: SinkReport,
    /// Ids that are not stored.
    pub missing: u64,
    /// Contents that could not be read for damage, and were left out.
    pub damaged: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Writes what is wanted to `sink`, in key order, and completes it.
///
/// On an error, or if the observer does not want to go on, the sink is dropped, and so leaves
/// nothing behind.
pub fn export(
    archive: &Archive,
    wanted: &Wanted,
    mut sink: Box<dyn Sink>,
    observer: &dyn Observer,
) -> Result<ExportReport> {
    let start = Instant::now();
    let budget = Budget::new(QUEUE_BYTES);
    let mut report = ExportReport::default();
    std::thread::scope(|scope| {
        // Bounded by the budget: what lies in the channel holds a permit.
        let (sender, receiver) = crossbeam_channel::unbounded();
        let walker = scope.spawn({
            let queue = Queue {
                budget: &budget,
                sender,
            };
            move || match wanted {
                Wanted::Range(selection) => walk_range(archive, selection, &queue),
                Wanted::Ids(ids) => walk_ids(archive, ids, &queue),
            }
        });
        let total = raw_bytes_estimate(archive, wanted);
        let mut progress = Progress::start(Phase::Writing, total);
        let mut write_all = || {
            for (found, _permit) in &receiver {
                if observer.wish() != Wish::GoOn {
                    return Err(Error::new(ErrorKind::Cancelled, "the export was stopped"));
                }
                write_one(found, &mut *sink, &mut report, &mut progress, observer)?;
            }
            Ok(())
        };
        let written = write_all();
        // The walker may be waiting for room that nobody will make.
        budget.close();
        let walked = match walker.join() {
            Ok(walked) => walked,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        written.and(walked)
    })?;
    report.written = sink.finish()?;
    report.elapsed = start.elapsed();
    Ok(report)
}

/// What the walker found where something was wanted.
enum Found {
    Content(Stored),
    Missing(Id),
    Damaged { place: String, error: Error },
}

/// The walker's end of the queue.
struct Queue<'a> {
    budget: &'a Budget,
    sender: Sender<(Found, Permit)>,
}

impl Queue<'_> {
    /// Hands something on, waiting for room; false if nobody takes it any more.
    fn push(&self, found: Found) -> bool {
        let bytes = match &found {
            Found::Content(stored) => stored.content.len() + stored.key.name().len(),
            _ => 0,
        };
        let permit = self.budget.take(bytes + size_of::<Found>());
        permit.is_some_and(|permit| self.sender.send((found, permit)).is_ok())
    }
}

fn walk_range(archive: &Archive, selection: &Selection, queue: &Queue<'_>) -> Result<()> {
    let mut last: Option<PpcKey> = None;
    for stored in archive.contents(selection)? {
        let found = match stored {
            Ok(stored) => {
                last = Some(stored.key.clone());
                Found::Content(stored)
            }
            Err(error) if error.kind() == ErrorKind::Corruption => Found::Damaged {
                place: last.as_ref().map_or_else(
                    || "before the first content".to_owned(),
                    |key| format!("after {key}"),
                ),
                error,
            },
            Err(error) => return Err(error),
        };
        if !queue.push(found) {
            return Ok(());
        }
    }
    Ok(())
}

fn walk_ids(archive: &Archive, ids: &[Id], queue: &Queue<'_>) -> Result<()> {
    let mut keys = Vec::with_capacity(ids.len());
    for id in ids {
        match archive.find(id)? {
            Some(key) => keys.push(key),
            None if !queue.push(Found::Missing(id.clone())) => return Ok(()),
            None => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    for group in keys.chunks(GROUP_IDS) {
        let ids: Vec<Id> = group.iter().cloned().map(Id::Key).collect();
        for (id, stored) in ids.iter().zip(archive.get_many(&ids)) {
            let found = match stored {
                Ok(Some(stored)) => Found::Content(stored),
                Ok(None) => Found::Missing(id.clone()),
                Err(error) if error.kind() == ErrorKind::Corruption => Found::Damaged {
                    place: id.to_string(),
                    error,
                },
                Err(error) => return Err(error),
            };
            if !queue.push(found) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn write_one(
    found: Found,
    sink: &mut dyn Sink,
    report: &mut ExportReport,
    progress: &mut Progress,
    observer: &dyn Observer,
) -> Result<()> {
    match found {
        Found::Content(stored) => {
            sink.write(&stored.key, &stored.content)?;
            progress.files += 1;
            progress.bytes += stored.content.len() as u64;
            if progress.files.is_multiple_of(PROGRESS_FILES) {
                observer.progress(progress);
            }
        }
        Found::Missing(id) => {
            report.missing += 1;
            let problem = Problem::new(ProblemKind::Missing, id, "not in the store");
            observer.problem(&problem);
        }
        Found::Damaged { place, error } => {
            report.damaged += 1;
            let problem = Problem::new(ProblemKind::Damage, place, error.to_string());
            observer.problem(&problem);
        }
    }
    Ok(())
}

/// Bytes there are to write, about; none if nobody can say without looking.
fn raw_bytes_estimate(archive: &Archive, wanted: &Wanted) -> Option<u64> {
    match wanted {
        Wanted::Range(Selection::All) => Some(archive.raw_bytes_estimate()),
        _ => None,
    }
}
