//! A made-up corpus of source files, for benches and machines without a real one.
//!
//! Families of files share a name and most of their lines, as the versions of one file do in an
//! archive; lines are words from a small vocabulary, so that zstd finds about as much in them as
//! in code. Four parameters set how much there is to find: versions, the lines that change from
//! one to the next, lines that all files share, and the length of files. The same parameters
//! always give the same bytes.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use ppc_store::source::{Origin, Place, Progress, Source, SourceFile, SourceItem};
use ppc_store::{PpcKey, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Builder, Corpus};

/// What to make.
#[derive(Debug, Clone, Copy)]
pub struct CorpusOptions {
    /// Families of files: as many distinct file names.
    pub families: usize,
    /// Versions of each file.
    pub versions: usize,
    /// Lines of a file, about 40 bytes each.
    pub lines: usize,
    /// Lines in a thousand that change from one version to the next.
    pub changes_per_mille: u32,
    /// Lines in a thousand that come from a stock of 1,000 common to all families, as licences
    /// and imports do.
    pub shared_per_mille: u32,
    /// Another seed, another corpus.
    pub seed: u64,
}

impl Default for CorpusOptions {
    /// 4,000 files of about 8 KiB in versions of eight.
    fn default() -> Self {
        Self {
            families: 500,
            versions: 8,
            lines: 200,
            changes_per_mille: 30,
            shared_per_mille: 50,
            seed: 1,
        }
    }
}

impl fmt::Display for CorpusOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the generator: {} families of {} versions of {} lines, {} ‰ changed, {} ‰ shared, \
             seed {}",
            self.families,
            self.versions,
            self.lines,
            self.changes_per_mille,
            self.shared_per_mille,
            self.seed
        )
    }
}

/// Lines common to all families.
const STOCK_LINES: usize = 1_000;
const EXTENSIONS: [&str; 6] = ["c", "h", "java", "js", "py", "rs"];
const WORDS: [&str; 48] = [
    "if", "else", "for", "while", "return", "let", "const", "static", "void", "int", "self",
    "this", "struct", "class", "import", "from", "def", "fn", "new", "null", "true", "false",
    "index", "count", "buffer", "length", "value", "result", "error", "node", "list", "map", "key",
    "name", "path", "file", "read", "write", "open", "close", "==", "!=", "=", "+", "(", ")", "{",
    "}",
];

impl Corpus {
    /// Makes up a corpus called `synthetic`.
    #[must_use]
    pub fn generate(options: &CorpusOptions) -> Self {
        let mut files = Vec::new();
        let _ = for_each_file(options, &mut |name, content| {
            files.push((name.into_bytes(), content));
            ControlFlow::<()>::Continue(())
        });
        Self::of_files("synthetic", files)
    }

    /// Names and contents as a corpus. Contents that repeat under one name count once; a name too
    /// long for a key is left out.
    pub(crate) fn of_files(corpus_name: &str, files: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        let keyed = |(name, content): (Vec<u8>, Vec<u8>)| {
            let key = PpcKey::of(name, &content).ok()?;
            Some((key, content))
        };
        let mut files: Vec<(PpcKey, Vec<u8>)> = files.into_iter().filter_map(keyed).collect();
        files.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        files.dedup_by(|(a, _), (b, _)| a == b);
        let mut builder = Builder::new();
        for (key, content) in &files {
            // Sorted and de-duplicated, none is refused.
            let pushed = builder.push(key, content);
            debug_assert!(pushed.is_ok());
        }
        builder.finish(corpus_name)
    }
}

impl CorpusOptions {
    /// The same with as many families as make about this many bytes.
    #[must_use]
    pub fn with_raw_bytes(self, raw_bytes: u64) -> Self {
        let sample = Self {
            families: 8,
            ..self
        };
        let mut bytes = 0;
        let _ = for_each_file(&sample, &mut |_, content| {
            bytes += content.len() as u64;
            ControlFlow::<()>::Continue(())
        });
        let families = raw_bytes.saturating_mul(8) / bytes.max(1);
        Self {
            families: usize::try_from(families).unwrap_or(usize::MAX).max(1),
            ..self
        }
    }
}

/// The made-up files as a source, so that they become a corpus as others do.
pub(super) struct SyntheticSource {
    options: CorpusOptions,
    progress: Progress,
}

impl SyntheticSource {
    pub(super) fn new(options: CorpusOptions) -> Self {
        Self {
            options,
            progress: Progress::new(),
        }
    }
}

impl Source for SyntheticSource {
    fn label(&self) -> &str {
        "synthetic"
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn read(&mut self, each: &mut dyn FnMut(SourceItem) -> Result<()>) -> Result<()> {
        self.progress.restart();
        let label: Arc<str> = self.label().into();
        let outcome = for_each_file(&self.options, &mut |name, content| {
            self.progress.add_file();
            self.progress.add_bytes(content.len() as u64);
            let origin = Origin {
                source: Arc::clone(&label),
                place: Place::Whole,
            };
            let file = SourceFile::from_path(name.into(), content.into(), origin);
            match each(SourceItem::File(file)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match outcome {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

/// Hands name and content of every file to `each`, one family after the other, until it breaks.
fn for_each_file<B>(
    options: &CorpusOptions,
    each: &mut dyn FnMut(String, Vec<u8>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut random = StdRng::seed_from_u64(options.seed);
    let stock: Vec<String> = (0..STOCK_LINES).map(|_| line(&mut random)).collect();
    let any_line = |random: &mut StdRng| {
        if random.random_ratio(options.shared_per_mille.min(1000), 1000) {
            stock[random.random_range(0..STOCK_LINES)].clone()
        } else {
            line(random)
        }
    };
    for family in 0..options.families {
        let extension = EXTENSIONS[family % EXTENSIONS.len()];
        let mut lines: Vec<String> = (0..options.lines).map(|_| any_line(&mut random)).collect();
        for version in 0..options.versions {
            let content = format!("// version {version}\n{}", lines.concat());
            each(
                format!("module_{family:05}.{extension}"),
                content.into_bytes(),
            )?;
            for changed in &mut lines {
                if random.random_ratio(options.changes_per_mille.min(1000), 1000) {
                    *changed = any_line(&mut random);
                }
            }
        }
    }
    ControlFlow::Continue(())
}

fn line(random: &mut StdRng) -> String {
    let mut line = "    ".repeat(random.random_range(0..4));
    for _ in 0..random.random_range(2..9) {
        let word = WORDS[random.random_range(0..WORDS.len())];
        line.push_str(word);
        if random.random_ratio(1, 6) {
            line.push_str(&format!("_{:x}", random.random_range(0..4096)));
        }
        line.push(' ');
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_options_give_the_same_corpus_in_key_order() {
        let options = CorpusOptions {
            families: 5,
            versions: 3,
            ..CorpusOptions::default()
        };
        let corpus = Corpus::generate(&options);
        assert_eq!(corpus.len(), 15);
        assert!(corpus.iter().map(|(key, _)| key).is_sorted());
        assert_eq!(corpus, Corpus::generate(&options));
        let other = Corpus::generate(&CorpusOptions { seed: 2, ..options });
        assert_ne!(corpus.id().sha256, other.id().sha256);
    }

    #[test]
    fn parameters_set_what_files_have_in_common() {
        let distinct_lines = |changes_per_mille, shared_per_mille| {
            let mut lines = std::collections::HashSet::new();
            let options = CorpusOptions {
                families: 20,
                changes_per_mille,
                shared_per_mille,
                ..CorpusOptions::default()
            };
            let _ = for_each_file(&options, &mut |_, content| {
                let text = String::from_utf8(content).unwrap();
                lines.extend(text.lines().map(str::to_owned));
                ControlFlow::<()>::Continue(())
            });
            lines.len()
        };
        let alike = distinct_lines(0, 0);
        assert!(distinct_lines(500, 0) > 2 * alike);
        assert!(distinct_lines(0, 900) < alike / 2);
    }
}
