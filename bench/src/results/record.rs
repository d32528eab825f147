//! One measured run and all that bears on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One measured run: a [`Cell`] of the experiments, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was measured.
    pub cell: Cell,
    /// Which repetition of the cell, from 0.
    pub repeat: u32,
    /// The values the cell works on.
    pub corpus: CorpusId,
    /// Where it ran.
    pub machine: Machine,
    /// When the run began: seconds since 1970, UTC.
    pub started_unix_seconds: u64,
    /// Operations done: entries built or scanned, keys looked up.
    pub operations: u64,
    /// Bytes of values that went in or came back, uncompressed.
    pub value_bytes: u64,
    /// Wall-clock time of the measured part, in seconds.
    pub seconds: f64,
    /// What it cost.
    pub costs: Costs,
    /// What the store occupies.
    pub space: Space,
    /// The peer's other options by name, units in the name: memory for writes, filters, threads.
    pub options: BTreeMap<String, String>,
}

/// What is measured, apart from the data and the machine: equal cells are repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The experiment.
    pub experiment: Experiment,
    /// The store under test: `ppc`, `rocksdb`, `fjall`, `files`, `zip`, `raw-zstd` or `memcpy`.
    pub peer: String,
    /// How values came in.
    pub load: Load,
    /// Compression and its level as the paper writes it: `zstd-3`, `zlib-6`, `snappy`, `none`.
    pub codec: String,
    /// What turns values into compressed units: `blocks`, or a profile of the clustered layout.
    pub layout: String,
    /// Target of uncompressed bytes in a block; 0 where the layout has none.
    pub block_bytes: u32,
    /// Bytes of trained dictionary for each table; 0 without one.
    pub dictionary_bytes: u32,
    /// Bytes of decoded blocks or frames that the store may cache; 0 where it has no such cache.
    pub cache_bytes: u64,
    /// Which keys are asked for, and in what order.
    pub keys: Keys,
    /// Keys in one call: 1 for single gets.
    pub batch: u32,
    /// Threads that ask, or that build.
    pub threads: u32,
    /// Whether the page cache held the store's files.
    pub temperature: Temperature,
}

/// The experiments of the paper's sections V to VII, and ours.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Bring all values in, and wait until nothing is left to do in the background.
    Build,
    /// Get values, a key a call or several.
    Get,
    /// Look up keys that are not there.
    Miss,
    /// Read everything in key order.
    Scan,
    /// Replace and delete values of a built store between gets.
    Mixed,
}

/// How values come into a store.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Put by put through the log and memtables, in key order: the paper's way.
    Puts,
    /// Put by put, in random order.
    ShuffledPuts,
    /// The store's own bulk load of sorted input.
    Sorted,
    /// The store's own bulk load of shuffled input.
    Shuffled,
}

/// Which keys are asked for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Not a matter of keys: builds and scans.
    None,
    /// Every key as likely as any other, none twice.
    Uniform,
    /// Power law with exponent -1.5 over a random ranking.
    PowerLaw,
    /// Every key once, in key order.
    Ordered,
}

/// Whether the kernel held the files in memory.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Temperature {
    /// Files read once before.
    Warm,
    /// The store's own files dropped from the page cache before.
    Cold,
}

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusId {
    /// Its name, usually the language.
    pub name: String,
    /// SHA-256 over all keys and values in key order, hexadecimal.
    pub sha256: String,
    /// Values.
    pub files: u64,
    /// Bytes of all values.
    pub raw_bytes: u64,
}

/// Where a run took place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model as the kernel names it.
    pub cpu: String,
    /// Processors online.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor, where the kernel tells.
    pub governor: Option<String>,
    /// Hypervisor, where the kernel tells.
    pub hypervisor: Option<String>,
    /// Commit of this program, with `-dirty` where the tree had changes.
    pub commit: String,
}

/// What a run cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Processor time of all threads of this process, user and system, in seconds.
    pub cpu_seconds: f64,
    /// Instructions retired in user mode by all threads, where the kernel grants the counter.
    pub instructions: Option<u64>,
    /// Processor cycles in user mode by all threads, where the kernel grants the counter.
    pub cycles: Option<u64>,
    /// Peak resident memory of the process during the run, in bytes, where the kernel tells.
    pub peak_resident_bytes: Option<u64>,
    /// Bytes the store decompressed, where it counts them.
    pub decoded_bytes: Option<u64>,
    /// Energy, or why there is no figure.
    pub energy: Energy,
}

/// What the store occupies after the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes of all files of the store.
    pub stored_bytes: u64,
    /// Bytes written to files while building, where the store counts them.
    pub written_bytes: Option<u64>,
}

/// Energy of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// What kind of figure this is. Joules of different classes are never compared.
    pub class: EnergyClass,
    /// The meter, its unit and where it reads; or why there is none and what would give one.
    pub source: String,
    /// Joules by domain, idle consumption included. Empty when unavailable.
    pub domains: Vec<EnergyDomain>,
}

/// What kind of figure an energy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyClass {
    /// Read from the machine's own counters.
    Measured,
    /// Computed from processor time by watts that the user stated.
    Modelled,
    /// No figure.
    Unavailable,
}

/// Joules of one domain of one package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnergyDomain {
    /// `package`, `core`, `dram`, `psys`; `model` for a modelled figure.
    pub domain: String,
    /// Package (socket) number.
    pub package: u32,
    /// Energy during the run, in joules.
    pub joules: f64,
    /// Power of the idle machine beside the run, where a baseline was taken. Shown apart; never
    /// subtracted.
    pub idle_watts: Option<IdleWatts>,
}

/// Power of the idle machine before and after a run, in watts. Far apart, they say that something
/// else ran, or that the processor was hotter after than before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IdleWatts {
    /// Mean over the baseline before the run.
    pub before: f64,
    /// Mean over the baseline after it.
    pub after: f64,
}
