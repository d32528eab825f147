//! The sources of one import, opened one at a time: a dataset has more files than a process may
//! hold open.

use crate::source::{Source, SourceOptions, SourceSpec, open_source};
use crate::{Error, ErrorKind, Result};

/// Wrong sources that an error names.
const NAMED_ERRORS_MAX: usize = 20;

/// An iterator that opens a source when its turn comes.
type Opening = Box<dyn Iterator<Item = Result<Box<dyn Source>>> + Send>;

/// Sources, in the order in which they are read.
pub struct Sources {
    opening: Opening,
    bytes_total: Option<u64>,
}

impl Sources {
    /// The inputs that `specs` name. Opens each of them once, so that wrong ones are found before
    /// anything is stored, and again when its turn comes. Where several are wrong, the error names
    /// them together.
    pub fn from_specs(specs: Vec<SourceSpec>, options: SourceOptions) -> Result<Self> {
        let mut bytes_total = Some(0);
        let mut errors = Vec::new();
        for spec in &specs {
            match open_source(spec, &options) {
                Ok(source) => {
                    let bytes = source.progress().total_bytes();
                    bytes_total = bytes_total.zip(bytes).map(|(sum, bytes)| sum + bytes);
                }
                Err(error) => errors.push(error),
            }
        }
        if let Some(error) = together(errors, specs.len()) {
            return Err(error);
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

/// One error for those of several sources out of `source_count`; none if there is none.
fn together(mut errors: Vec<Error>, source_count: usize) -> Option<Error> {
    let first = errors.first()?;
    if errors.len() == 1 {
        return errors.pop();
    }
    let is_alike = errors.iter().all(|error| error.kind() == first.kind());
    let kind = if is_alike {
        first.kind()
    } else {
        ErrorKind::InvalidInput
    };
    let named = errors.iter().take(NAMED_ERRORS_MAX);
    let mut list: Vec<String> = named.map(Error::to_string).collect();
    if let Some(more) = errors.len().checked_sub(NAMED_ERRORS_MAX + 1) {
        list.push(format!("and {} more", more + 1));
    }
    let message = format!(
        "{} of {source_count} sources cannot be read, and nothing was imported",
        errors.len()
    );
    Some(Error::new(kind, message).with_source(list.join("; ")))
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("bytes_total", &self.bytes_total)
            .finish_non_exhaustive()
    }
}
