//! What a corpus consists of, as in the paper's Table I: files, size, mean and median, by
//! extension and in all.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ppc_store::key::PpcKey;
use ppc_store::sink::{Sink, SinkReport};
use ppc_store::{Error, Result};
use serde::{Deserialize, Serialize};

use super::builder::Checksum;
use super::size::ByteSize;
use crate::results::CorpusId;

/// Extensions that the printed table names; the rest are summed up.
const EXTENSIONS_PRINTED_MAX: usize = 12;

/// The features of a corpus, kept beside its Parquet file as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Features {
    /// Name, checksum, files and bytes.
    pub corpus: CorpusId,
    /// Where its files came from, in words.
    pub gathered_from: String,
    /// Files that were read, before equal contents were left out.
    pub files_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Bytes of the Parquet file.
    pub parquet_bytes: u64,
    /// All files.
    pub all: Sizes,
    /// By extension, most bytes first; empty for names without one.
    pub extensions: Vec<ExtensionFeatures>,
}

/// The sizes of some files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// Files.
    pub files: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes of a file on average.
    pub mean_bytes: f64,
    /// Half of the files have at most this many bytes.
    pub median_bytes: u64,
    /// Bytes of the largest.
    pub max_bytes: u64,
}

/// The files with one extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionFeatures {
    /// The extension; what is not UTF-8 in it is replaced.
    pub extension: String,
    /// Their sizes.
    #[serde(flatten)]
    pub sizes: Sizes,
}

impl Sizes {
    fn of(mut bytes: Vec<u64>) -> Self {
        bytes.sort_unstable();
        let files = bytes.len() as u64;
        let sum: u64 = bytes.iter().sum();
        let median = bytes
            .len()
            .checked_sub(1)
            .and_then(|last| bytes.get(last / 2));
        Self {
            files,
            bytes: sum,
            mean_bytes: sum as f64 / (files.max(1)) as f64,
            median_bytes: median.copied().unwrap_or_default(),
            max_bytes: bytes.last().copied().unwrap_or_default(),
        }
    }
}

impl Features {
    /// Where the features of the corpus at `parquet` are kept.
    #[must_use]
    pub fn path_of(parquet: &Path) -> PathBuf {
        parquet.with_extension("features.json")
    }

    /// Reads the features of the corpus at `parquet`.
    pub fn read(parquet: &Path) -> Result<Self> {
        let path = Self::path_of(parquet);
        let text = std::fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::invalid_input("not the features of a corpus")
                .at_path(&path)
                .with_source(error)
        })
    }

    /// Writes them beside the corpus at `parquet`.
    pub fn write(&self, parquet: &Path) -> Result<()> {
        let path = Self::path_of(parquet);
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| {
            Error::invalid_input("features cannot be written as JSON").with_source(error)
        })?;
        text.push(b'\n');
        std::fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, sizes: &Sizes| {
            // A mean is less than 1 GiB, so nothing is cut but the fraction.
            let mean = ByteSize(sizes.mean_bytes as u64);
            let (size, median) = (ByteSize(sizes.bytes), ByteSize(sizes.median_bytes));
            let max = ByteSize(sizes.max_bytes);
            let files = sizes.files;
            writeln!(
                f,
                "{name:<14}{files:>10}{size:>12}{mean:>12}{median:>12}{max:>12}"
            )
        };
        writeln!(
            f,
            "{:<14}{:>10}{:>12}{:>12}{:>12}{:>12}",
            "", "files", "size", "mean", "median", "largest"
        )?;
        row(f, &self.corpus.name, &self.all)?;
        for features in self.extensions.iter().take(EXTENSIONS_PRINTED_MAX) {
            let name = match features.extension.as_str() {
                "" => "  no extension".to_owned(),
                extension => format!("  .{extension}"),
            };
            row(f, &name, &features.sizes)?;
        }
        let others = self.extensions.len().saturating_sub(EXTENSIONS_PRINTED_MAX);
        if others > 0 {
            writeln!(f, "  and {others} more extensions")?;
        }
        writeln!(f, "\nfrom {}", self.gathered_from)?;
        writeln!(
            f,
            "read {} files of {} before equal contents were left out",
            self.files_read,
            ByteSize(self.bytes_read)
        )?;
        writeln!(f, "Parquet file: {}", ByteSize(self.parquet_bytes))?;
        write!(f, "sha256 of keys and values: {}", self.corpus.sha256)
    }
}

/// Takes the features of what passes on its way into a sink.
pub(super) struct Tally<S> {
    sink: S,
    result: std::sync::Arc<parking_lot::Mutex<Counts>>,
}

/// What a [`Tally`] counts.
#[derive(Default)]
pub(super) struct Counts {
    checksum: Checksum,
    sizes: BTreeMap<Vec<u8>, Vec<u64>>,
}

impl<S: Sink> Tally<S> {
    /// A tally in front of `sink`, and where its counts will be.
    pub(super) fn new(sink: S) -> (Self, std::sync::Arc<parking_lot::Mutex<Counts>>) {
        let result = std::sync::Arc::default();
        let tally = Self {
            sink,
            result: std::sync::Arc::clone(&result),
        };
        (tally, result)
    }
}

impl<S: Sink> Sink for Tally<S> {
    fn write(&mut self, key: &PpcKey, content: &[u8]) -> Result<()> {
        let mut counts = self.result.lock();
        counts.checksum.add(&key.encode(), content);
        let bytes = content.len() as u64;
        match counts.sizes.get_mut(key.ext()) {
            Some(sizes) => sizes.push(bytes),
            None => {
                counts.sizes.insert(key.ext().to_vec(), vec![bytes]);
            }
        }
        self.sink.write(key, content)
    }

    fn finish(self: Box<Self>) -> Result<SinkReport> {
        Box::new(self.sink).finish()
    }
}

impl Counts {
    /// The features of what was counted.
    pub(super) fn features(&mut self, name: &str, gathered_from: &str) -> Features {
        let sizes = std::mem::take(&mut self.sizes);
        let all = Sizes::of(sizes.values().flatten().copied().collect());
        let mut extensions: Vec<ExtensionFeatures> = sizes
            .into_iter()
            .map(|(extension, bytes)| ExtensionFeatures {
                extension: String::from_utf8_lossy(&extension).into_owned(),
                sizes: Sizes::of(bytes),
            })
            .collect();
        extensions.sort_by_key(|features| std::cmp::Reverse(features.sizes.bytes));
        Features {
            corpus: CorpusId {
                name: name.to_owned(),
                sha256: std::mem::take(&mut self.checksum).finish(),
                files: all.files,
                raw_bytes: all.bytes,
            },
            gathered_from: gathered_from.to_owned(),
            files_read: all.files,
            bytes_read: all.bytes,
            parquet_bytes: 0,
            all,
            extensions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_summed_up() {
        let sizes = Sizes::of(vec![5, 1, 3, 100]);
        assert_eq!((sizes.files, sizes.bytes), (4, 109));
        assert_eq!((sizes.median_bytes, sizes.max_bytes), (3, 100));
        assert!((sizes.mean_bytes - 27.25).abs() < 1e-9);
        assert_eq!(Sizes::of(Vec::new()).median_bytes, 0);
    }

    #[test]
    fn features_are_kept_beside_the_parquet_file() {
        let path = Path::new("corpora/python.parquet");
        let kept = Features::path_of(path);
        assert_eq!(kept, Path::new("corpora/python.features.json"));
    }
}
