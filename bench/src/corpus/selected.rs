//! The part of some sources that a corpus is made of: files of one language, up to a size.
//!
//! The size is that of distinct contents, so that it is the corpus's own however often files come
//! again from version to version. Memory: 20 bytes and a set's overhead for each distinct content,
//! where there is a size to stop at.

use std::collections::HashSet;

use ppc_store::source::{ProblemKind, Progress, Source, SourceItem};
use ppc_store::{Error, ErrorKind, Result, Sha1Git};

use super::language::Language;

/// Opens the `i`-th source; none after the last.
pub(super) type Opening = Box<dyn FnMut(usize) -> Option<Result<Box<dyn Source>>> + Send>;

/// Which files are taken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Selection {
    /// Files of one language only.
    pub(super) language: Option<Language>,
    /// Bytes of distinct contents at which no more is taken.
    pub(super) raw_bytes_max: Option<u64>,
}

/// Some sources, one after the other, as one that holds only what is selected.
pub(super) struct Selected {
    label: String,
    progress: Progress,
    opening: Opening,
    selection: Selection,
}

/// What was taken so far.
#[derive(Default)]
struct Taken {
    hashes: HashSet<Sha1Git>,
    raw_bytes: u64,
    is_full: bool,
}

impl Selected {
    pub(super) fn new(label: &str, opening: Opening, selection: Selection) -> Self {
        let progress = Progress::new();
        if let Some(bytes) = selection.raw_bytes_max {
            progress.set_total_bytes(bytes);
        }
        Self {
            label: label.to_owned(),
            progress,
            opening,
            selection,
        }
    }

    fn is_selected(&self, item: &SourceItem) -> bool {
        match item {
            SourceItem::File(file) => {
                let language = self.selection.language;
                language.is_none_or(|language| language.has_file(&file.name))
            }
            // Links and the like are no files of any language.
            SourceItem::Problem(problem) => problem.kind != ProblemKind::NotAFile,
        }
    }

    /// Counts a file in; fails once there are enough, so that its source stops.
    fn count(&self, item: &SourceItem, taken: &mut Taken) -> Result<()> {
        let SourceItem::File(file) = item else {
            return Ok(());
        };
        let bytes = file.content.len() as u64;
        self.progress.add_file();
        let Some(raw_bytes_max) = self.selection.raw_bytes_max else {
            self.progress.add_bytes(bytes);
            return Ok(());
        };
        if taken.raw_bytes >= raw_bytes_max {
            taken.is_full = true;
            return Err(Error::new(ErrorKind::Cancelled, "there are enough files"));
        }
        if taken.hashes.insert(Sha1Git::of(&file.content)) {
            taken.raw_bytes += bytes;
            self.progress.add_bytes(bytes);
        }
        Ok(())
    }
}

impl Source for Selected {
    fn label(&self) -> &str {
        &self.label
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        let mut taken = Taken::default();
        for i in 0.. {
            let Some(source) = (self.opening)(i) else {
                break;
            };
            let outcome = source?.read(&mut |item| {
                if !self.is_selected(&item) {
                    return Ok(());
                }
                self.count(&item, &mut taken)?;
                each(item)
            });
            if taken.is_full {
                break;
            }
            outcome?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ppc_store::source::{SourceOptions, SourceSpec, open_source};
    use tempfile::TempDir;

    use super::*;

    /// Two directories; `b.py` is the same in both.
    fn opening(dir: &Path) -> Opening {
        for (path, content) in [
            ("one/a.py", "a".repeat(100)),
            ("one/b.py", "b".repeat(100)),
            ("one/README", "r".repeat(100)),
            ("two/b.py", "b".repeat(100)),
            ("two/c.py", "c".repeat(100)),
            ("two/d.java", "d".repeat(100)),
        ] {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let dirs = ["one", "two"].map(|name| dir.join(name));
        Box::new(move |i| {
            let spec = SourceSpec::parse(dirs.get(i)?.as_os_str());
            Some(open_source(&spec, &SourceOptions::default()))
        })
    }

    fn names(selected: &mut Selected) -> String {
        let mut names = Vec::new();
        selected
            .read(&mut |item| {
                if let SourceItem::File(file) = item {
                    names.push(String::from_utf8_lossy(&file.name).into_owned());
                }
                Ok(())
            })
            .unwrap();
        names.join(" ")
    }

    #[test]
    fn files_of_a_language_are_taken_until_there_are_enough_distinct_bytes() {
        let dir = TempDir::new().unwrap();
        for (language, raw_bytes_max, expected) in [
            (None, None, "README d.java a.py b.py b.py c.py"),
            (Some(Language::Python), None, "a.py b.py b.py c.py"),
            (Some(Language::Java), None, "d.java"),
            (Some(Language::Python), Some(250), "a.py b.py b.py c.py"),
            (Some(Language::Python), Some(150), "a.py b.py"),
            (Some(Language::Python), Some(100), "a.py"),
        ] {
            let selection = Selection {
                language,
                raw_bytes_max,
            };
            let mut selected = Selected::new("both", opening(dir.path()), selection);
            let sorted = |names: String| {
                let mut names: Vec<_> = names.split(' ').map(str::to_owned).collect();
                names.sort();
                names
            };
            let expected = sorted(expected.to_owned());
            assert_eq!(sorted(names(&mut selected)), expected, "{selection:?}");
            // From the beginning again.
            assert_eq!(sorted(names(&mut selected)), expected, "{selection:?}");
        }
    }

    #[test]
    fn an_error_of_a_source_or_of_who_takes_the_files_ends_the_reading() {
        let dir = TempDir::new().unwrap();
        let mut selected = Selected::new("both", opening(dir.path()), Selection::default());
        let stopped = selected.read(&mut |_| Err(Error::invalid_input("stop here")));
        assert_eq!(stopped.unwrap_err().message(), "stop here");
        let opening: Opening = Box::new(|_| Some(Err(Error::invalid_input("no source"))));
        let mut selected = Selected::new("none", opening, Selection::default());
        let failed = selected.read(&mut |_| Ok(()));
        assert_eq!(failed.unwrap_err().message(), "no source");
    }
}
