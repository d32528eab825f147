//! The sources of one import, opened one at a time: a dataset has more files than a process may
//! hold open.

use crate::Result;
use crate::source::{Source, SourceOptions, SourceSpec, open_source};

/// An iterator that opens a source when its turn comes.
type Opening = Box<dyn Iterator<Item = Result<Box<dyn Source>>> + Send>;

/// Sources, in the order in which they are read.
pub struct Sources {
    opening: Opening,
    bytes_total: Option<u64>,
}

impl Sources {
    /// The inputs that `specs` name. Opens each of them once, so that a wrong one is found before
    /// anything is stored, and again when its turn comes.
    pub fn from_specs(specs: Vec<SourceSpec>, options: SourceOptions) -> Result<Self> {
        let mut bytes_total = Some(0);
        for spec in &specs {
            let source = open_source(spec, &options)?;
            let bytes = source.progress().total_bytes();
            bytes_total = bytes_total.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
        let opening = specs
            .into_iter()
            .map(move |spec| open_source(&spec, &options));
        Ok(Self {
            opening: Box::new(opening),
            bytes_total,
        })
    }

    /// Sources that are open.
    #[must_use]
    pub fn opened(sources: Vec<Box<dyn Source>>) -> Self {
        let totals = sources.iter().map(|source| source.progress().total_bytes());
        Self {
            bytes_total: totals.sum(),
            opening: Box::new(sources.into_iter().map(Ok)),
        }
    }

    /// Bytes of all sources as they count them, where all know beforehand.
    #[must_use]
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// The next source.
    pub(super) fn next(&mut self) -> Option<Result<Box<dyn Source>>> {
        self.opening.next()
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("bytes_total", &self.bytes_total)
            .finish_non_exhaustive()
    }
}
