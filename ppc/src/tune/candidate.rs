//! What is tried: table options with a name.

use ppc_engine::{Compression, Layout, TableOptions};

/// zstd level, block size in KiB, dictionary size in KiB of what is tried by default, the most
/// telling first: where time is short the last are left out. The first four are the configurations
/// of the paper's large runs.
const DEFAULTS: [(i32, u32, u32); 16] = [
    (6, 4, 0),
    (3, 64, 0),
    (9, 128, 0),
    (6, 128, 0),
    (6, 64, 0),
    (3, 16, 0),
    (6, 16, 64),
    (9, 256, 0),
    (6, 16, 0),
    (3, 128, 0),
    (1, 64, 0),
    (6, 4, 64),
    (9, 64, 0),
    (3, 16, 64),
    (12, 128, 0),
    (12, 1024, 0),
];

/// Options to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What people call it.
    pub name: String,
    /// The options.
    pub table: TableOptions,
}

impl Candidate {
    /// These options, named by what sets them apart: `zstd-6, 64 KiB blocks`.
    #[must_use]
    pub fn new(table: TableOptions) -> Self {
        let name = name_of(&table);
        Self { name, table }
    }
}

/// What is tried where nothing else is asked for: `base` itself first, then sixteen others that take
/// what they do not set from it.
#[must_use]
pub fn default_candidates(base: &TableOptions) -> Vec<Candidate> {
    let others = DEFAULTS.map(|(level, block_kib, dictionary_kib)| {
        with(base, level, block_kib << 10, dictionary_kib << 10)
    });
    distinct(base, others)
}

/// `base` itself first, then every combination of these levels, block sizes and dictionary sizes.
#[must_use]
pub fn candidates_of(
    base: &TableOptions,
    levels: &[i32],
    block_bytes: &[u32],
    dictionary_bytes: &[u32],
) -> Vec<Candidate> {
    let mut others = Vec::new();
    for &dictionary in dictionary_bytes {
        for &block in block_bytes {
            others.extend(
                levels
                    .iter()
                    .map(|&level| with(base, level, block, dictionary)),
            );
        }
    }
    distinct(base, others)
}

fn with(base: &TableOptions, level: i32, block_bytes: u32, dictionary_bytes: u32) -> TableOptions {
    let mut table = base.clone();
    table.layout = Layout::Blocks { bytes: block_bytes };
    table.compression = Compression::Zstd { level };
    table.dictionary_bytes = dictionary_bytes;
    table
}

fn distinct(base: &TableOptions, others: impl IntoIterator<Item = TableOptions>) -> Vec<Candidate> {
    let mut candidates = vec![Candidate::new(base.clone())];
    for table in others {
        if candidates.iter().all(|candidate| candidate.table != table) {
            candidates.push(Candidate::new(table));
        }
    }
    candidates
}

fn name_of(table: &TableOptions) -> String {
    let mut name = match table.compression {
        Compression::None => "uncompressed".to_owned(),
        Compression::Zstd { level } => format!("zstd-{level}"),
        other => format!("{other:?}"),
    };
    name.push_str(&match table.layout {
        Layout::Blocks { bytes } => format!(", {} blocks", size(bytes)),
        other => format!(", {other:?}"),
    });
    if table.dictionary_bytes > 0 {
        name.push_str(&format!(", {} dictionary", size(table.dictionary_bytes)));
    }
    name
}

/// Exact, in the largest unit that leaves no fraction.
fn size(bytes: u32) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}
