//! What the tests of the sources share.

use super::{Problem, ProblemKind, Source, SourceFile, SourceItem};

/// Everything that a source yielded, in order.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) problems: Vec<Problem>,
}

pub(crate) fn collect(source: &mut dyn Source) -> Collected {
    let mut collected = Collected::default();
    source
        .read(&mut |item| {
            collected.push(item);
            Ok(())
        })
        .unwrap();
    collected
}

impl Collected {
    pub(crate) fn push(&mut self, item: SourceItem) {
        match item {
            SourceItem::File(file) => self.files.push(file),
            SourceItem::Problem(problem) => self.problems.push(problem),
        }
    }

    pub(crate) fn paths(&self) -> Vec<&str> {
        let paths = self.files.iter().filter_map(|file| file.path.as_deref());
        paths
            .map(|path| std::str::from_utf8(path).unwrap())
            .collect()
    }

    pub(crate) fn content(&self, path: &str) -> &[u8] {
        let is_it = |file: &&SourceFile| file.path.as_deref() == Some(path.as_bytes());
        &self.files.iter().find(is_it).unwrap().content
    }

    pub(crate) fn problem_kinds(&self) -> Vec<ProblemKind> {
        self.problems.iter().map(|problem| problem.kind).collect()
    }
}
