use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex as Lock;
use ppc_engine::vfs::MemVfs;

use super::*;
use crate::archive::{ArchiveOptions, Selection};
use crate::hash::{ContentHash, Sha1Git};
use crate::progress::{Problem, ProblemKind, Unobserved, Wish};
use crate::source::{self, Origin, Place, Source, SourceFile, SourceItem, StatedHash};
use crate::{Error, ErrorKind};

/// A source of given items, which may end in an error.
struct ListSource {
    items: Vec<SourceItem>,
    failure: Option<Error>,
    progress: source::Progress,
}

impl ListSource {
    fn boxed(items: Vec<SourceItem>) -> Box<dyn Source> {
        Box::new(Self {
            items,
            failure: None,
            progress: source::Progress::new(),
        })
    }
}

impl Source for ListSource {
    fn label(&self) -> &str {
        "list"
    }

    fn progress(&self) -> &source::Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.items.iter().cloned().try_for_each(each)?;
        self.failure.take().map_or(Ok(()), Err)
    }
}

fn origin(row: u64) -> Origin {
    Origin {
        source: Arc::from("list"),
        place: Place::Row(row),
    }
}

fn file(row: u64, name: &str, content: &[u8], stated: &[StatedHash]) -> SourceItem {
    SourceItem::File(SourceFile {
        name: Bytes::copy_from_slice(name.as_bytes()),
        path: None,
        content: Bytes::copy_from_slice(content),
        stated: stated.to_vec(),
        origin: origin(row),
    })
}

fn archive() -> Archive {
    let mut options = ArchiveOptions::default();
    options.db.vfs = Arc::new(MemVfs::new());
    Archive::open("/archive", options).unwrap()
}

fn run(
    archive: &Archive,
    items: Vec<SourceItem>,
    options: &ImportOptions,
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let sources = Sources::opened(vec![ListSource::boxed(items)]);
    import(archive, sources, options, observer)
}

fn names(archive: &Archive) -> Vec<String> {
    let keys = archive.keys(&Selection::All).unwrap();
    keys.map(|key| key.unwrap().to_string()).collect()
}

/// Remembers problems, and wishes for an end after so many questions.
struct Listener {
    problems: Lock<Vec<Problem>>,
    questions: AtomicUsize,
    patience: usize,
    end: Wish,
}

impl Listener {
    fn new(patience: usize, end: Wish) -> Self {
        Self {
            problems: Lock::default(),
            questions: AtomicUsize::new(0),
            patience,
            end,
        }
    }
}

impl Observer for Listener {
    fn problem(&self, problem: &Problem) {
        self.problems.lock().push(problem.clone());
    }

    fn wish(&self) -> Wish {
        match self.questions.fetch_add(1, Ordering::SeqCst) < self.patience {
            true => Wish::GoOn,
            false => self.end,
        }
    }
}

/// Items in which contents repeat under other names, in no order.
fn many_items() -> Vec<SourceItem> {
    let item = |number: u64| {
        let content = (number * number % 701)
            .to_le_bytes()
            .repeat(40 + number as usize % 900);
        file(number, &format!("{}.py", number * 31 % 997), &content, &[])
    };
    (0..2000).map(item).collect()
}

#[test]
fn the_first_name_wins_however_many_threads_there_are() {
    let mut expected = BTreeMap::new();
    for item in many_items() {
        let SourceItem::File(file) = item else {
            continue;
        };
        expected
            .entry(Sha1Git::of(&file.content))
            .or_insert(file.name);
    }
    for threads in [1, 2, 7] {
        for commit_bytes in [1 << 40, 300_000] {
            let options = ImportOptions {
                threads,
                commit_bytes,
                ..ImportOptions::default()
            };
            let archive = archive();
            let report = run(&archive, many_items(), &options, &Unobserved).unwrap();
            assert_eq!(report.files_read, 2000);
            assert_eq!(report.files_stored as usize, expected.len());
            assert_eq!(
                report.duplicates + report.present,
                2000 - report.files_stored
            );
            assert_eq!(report.commits > 1, commit_bytes < 1 << 40);
            let keys = archive.keys(&Selection::All).unwrap();
            let found: BTreeMap<Sha1Git, Bytes> = keys
                .map(|key| key.unwrap())
                .map(|key| (key.hash(), key.name().clone()))
                .collect();
            assert_eq!(found, expected, "{threads} threads");
            assert_eq!(
                archive
                    .check_contents(2, None, &Unobserved)
                    .unwrap()
                    .damages,
                0
            );
        }
    }
}

#[test]
fn a_listed_name_goes_before_those_of_the_sources() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("names.csv");
    let swhid = crate::Swhid::content(Sha1Git::of(b"one"));
    std::fs::write(&list, format!("swhid,filename\n{swhid},listed.py\n")).unwrap();
    let mut options = ImportOptions::default();
    let names_options = options.names_options(dir.path());
    let listed = names::Names::read(&[list], &names_options, &Unobserved).unwrap();
    options.names = Some(Arc::new(listed));
    let items = vec![
        file(0, "a.c", b"one", &[]),
        file(1, "b.c", b"two", &[]),
        file(2, "c.c", b"one", &[]),
    ];
    let archive = archive();
    let report = run(&archive, items, &options, &Unobserved).unwrap();
    assert_eq!((report.files_stored, report.files_named), (2, 1));
    let names = names(&archive);
    assert!(names[0].starts_with("c.b.swh:"), "{names:?}");
    assert!(names[1].starts_with("py.listed.swh:"), "{names:?}");
}

#[test]
fn wrong_stated_hashes_are_reported_and_on_request_left_out() {
    let right = StatedHash::Known(ContentHash::Sha1Git(Sha1Git::of(b"right")));
    let wrong = StatedHash::Known(ContentHash::Sha1Git(Sha1Git::of(b"other")));
    let items = vec![
        file(0, "right.c", b"right", &[right]),
        file(1, "wrong.c", b"wrong", &[wrong]),
        file(2, "none.c", b"none", &[StatedHash::Malformed("xyz".into())]),
    ];
    for reject_mismatches in [false, true] {
        let options = ImportOptions {
            reject_mismatches,
            ..ImportOptions::default()
        };
        let archive = archive();
        let listener = Listener::new(usize::MAX, Wish::GoOn);
        let report = run(&archive, items.clone(), &options, &listener).unwrap();
        assert_eq!(report.mismatches, 2);
        assert_eq!(report.rejected, if reject_mismatches { 2 } else { 0 });
        assert_eq!(report.files_stored, if reject_mismatches { 1 } else { 3 });
        let problems = listener.problems.into_inner();
        assert_eq!(problems.len(), 2);
        assert!(
            problems
                .iter()
                .all(|it| it.kind == ProblemKind::HashMismatch)
        );
        assert_eq!(problems[0].origin, "list row 1");
        let computed = Sha1Git::of(b"wrong").to_string();
        assert!(
            problems[0].message.contains(&computed),
            "{}",
            problems[0].message
        );
    }
}

#[test]
fn items_that_cannot_be_taken_are_reported_and_the_rest_goes_on() {
    let null = source::Problem {
        kind: source::ProblemKind::NullContent,
        origin: origin(0),
        message: "the content is null".into(),
    };
    let items = vec![
        SourceItem::Problem(null),
        file(1, &"n".repeat(70_000), b"too long a name", &[]),
        file(2, "good.c", b"good", &[]),
    ];
    let archive = archive();
    let listener = Listener::new(usize::MAX, Wish::GoOn);
    let report = run(&archive, items, &ImportOptions::default(), &listener).unwrap();
    assert_eq!((report.files_read, report.files_stored), (1, 1));
    let null = ProblemKind::Source(source::ProblemKind::NullContent);
    assert_eq!(report.problems.get(&null), Some(&1));
    assert_eq!(report.problems.get(&ProblemKind::Refused), Some(&1));
    assert_eq!(listener.problems.lock().len(), 2);
}

/// A source that failed undid what was read from the sources before it, back to the last commit.
#[test]
fn a_source_that_fails_costs_nothing_that_was_read_before() {
    let archive = archive();
    let whole = ListSource::boxed(vec![file(0, "a.c", b"of the first source", &[])]);
    let mut failing = ListSource {
        items: many_items(),
        failure: None,
        progress: source::Progress::new(),
    };
    failing.failure = Some(Error::corruption("the file is cut short"));
    let next = ListSource::boxed(vec![file(0, "z.c", b"of the last source", &[])]);
    let sources = Sources::opened(vec![whole, Box::new(failing), next]);
    let mut report = ImportReport::default();
    let options = ImportOptions::default();
    let error =
        import_reporting(&archive, sources, &options, &Unobserved, &mut report).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(report.has_failed_source);
    assert_eq!(report.files_read, 2001);
    assert_eq!(names(&archive).len() as u64, report.files_stored);
    assert!(names(&archive)[0].starts_with("c.a."));

    let sources = Sources::opened(vec![ListSource::boxed(many_items())]);
    let again = import(&archive, sources, &options, &Unobserved).unwrap();
    assert_eq!((again.files_stored, again.present), (0, 2000));
}

#[test]
fn an_import_that_is_abandoned_reports_what_was_committed_and_nothing_else() {
    let archive = archive();
    let options = ImportOptions {
        commit_bytes: 300_000,
        ..ImportOptions::default()
    };
    let listener = Listener::new(1500, Wish::Abandon);
    let sources = Sources::opened(vec![ListSource::boxed(many_items())]);
    let mut report = ImportReport::default();
    let outcome = import_reporting(&archive, sources, &options, &listener, &mut report);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(report.files_read < 2000);
    assert_eq!(names(&archive).len() as u64, report.files_stored);
}

#[test]
fn asked_to_finish_it_keeps_a_prefix_and_a_second_run_the_rest() {
    let whole = archive();
    let options = ImportOptions::default();
    run(&whole, many_items(), &options, &Unobserved).unwrap();

    let archive = archive();
    let mut stored = 0;
    for patience in [10, 500, 900, 1500] {
        let listener = Listener::new(patience, Wish::Finish);
        let report = run(&archive, many_items(), &options, &listener).unwrap();
        assert!(report.is_interrupted);
        assert!(report.files_read < 2000);
        stored += report.files_stored;
        assert_eq!(names(&archive).len() as u64, stored);
    }
    let report = run(&archive, many_items(), &options, &Unobserved).unwrap();
    assert!(!report.is_interrupted);
    assert_eq!(names(&archive), names(&whole));
}

#[test]
fn asked_to_abandon_it_keeps_commits_only() {
    let archive = archive();
    let listener = Listener::new(1500, Wish::Abandon);
    let options = ImportOptions::default();
    let error = run(&archive, many_items(), &options, &listener).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("run it again"), "{error}");
    assert!(names(&archive).is_empty());
}

#[test]
fn one_file_larger_than_all_bytes_in_flight_passes() {
    let options = ImportOptions {
        memory_bytes: MEMORY_BYTES_MIN,
        ..ImportOptions::default()
    };
    let large = vec![7; Shares::of(MEMORY_BYTES_MIN).in_flight + 1];
    let items = vec![
        file(0, "a.c", b"before", &[]),
        file(1, "b.bin", &large, &[]),
        file(2, "c.c", b"after", &[]),
    ];
    let archive = archive();
    let report = run(&archive, items, &options, &Unobserved).unwrap();
    assert_eq!(report.files_stored, 3);
}

#[test]
fn options_out_of_range_are_named() {
    let options = ImportOptions {
        memory_bytes: 1 << 20,
        ..ImportOptions::default()
    };
    let error = run(&archive(), Vec::new(), &options, &Unobserved).unwrap_err();
    assert!(error.to_string().contains("memory_bytes"), "{error}");
}
