//! A made-up corpus of source files, for benches and machines without a real one.
//!
//! Families of files share a name and most of their lines, as the versions of one file do in an
//! archive; lines are words from a small vocabulary, so that zstd finds about as much in them as
//! in code. The same parameters always give the same bytes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

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
            seed: 1,
        }
    }
}

/// A file's key and content.
pub type Entry = (Vec<u8>, Vec<u8>);

const EXTENSIONS: [&str; 6] = ["c", "h", "java", "js", "py", "rs"];
const WORDS: [&str; 48] = [
    "if", "else", "for", "while", "return", "let", "const", "static", "void", "int", "self",
    "this", "struct", "class", "import", "from", "def", "fn", "new", "null", "true", "false",
    "index", "count", "buffer", "length", "value", "result", "error", "node", "list", "map", "key",
    "name", "path", "file", "read", "write", "open", "close", "==", "!=", "=", "+", "(", ")", "{",
    "}",
];

/// The corpus, in key order.
#[must_use]
pub fn generate(options: &CorpusOptions) -> Vec<Entry> {
    let mut random = StdRng::seed_from_u64(options.seed);
    let mut entries = Vec::with_capacity(options.families * options.versions);
    for family in 0..options.families {
        let extension = EXTENSIONS[family % EXTENSIONS.len()];
        let mut lines: Vec<String> = (0..options.lines).map(|_| line(&mut random)).collect();
        for version in 0..options.versions {
            let hash: [u8; 20] = random.random();
            let mut key = format!("{extension}\0\0module_{family:05}\0\0").into_bytes();
            key.extend_from_slice(&hash);
            entries.push((
                key,
                format!("// version {version}\n{}", lines.concat()).into_bytes(),
            ));
            for changed in &mut lines {
                if random.random_ratio(options.changes_per_mille, 1000) {
                    *changed = line(&mut random);
                }
            }
        }
    }
    entries.sort();
    entries
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
        let corpus = generate(&options);
        assert_eq!(corpus.len(), 15);
        assert!(corpus.is_sorted());
        assert_eq!(corpus, generate(&options));
        assert_ne!(corpus, generate(&CorpusOptions { seed: 2, ..options }));
    }
}
