//! The goals of the clustered layout, and the figures that they bound.

use serde::Serialize;

use crate::results::{
    Cell, Configuration, CorpusResults, Experiment, Keys, Measurement, Summary, Temperature,
    rate_over_all, stored_over_all,
};

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bytes of all files of the store.
    Stored,
    /// Uniform single gets, MiB/s.
    Get,
    /// Build, MiB per second of processor time, planning included.
    Build,
    /// Scan in key order, MiB/s.
    Scan,
    /// Multi-gets in key order, MiB/s.
    OrderedMultiGet,
    /// Power-law single gets, MiB/s.
    PowerLawGet,
    /// Lookups of absent keys a second.
    Miss,
}

impl Figure {
    /// In words, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored bytes",
            Self::Get => "single gets, uniform, MiB/s",
            Self::Build => "build, MiB per CPU-second",
            Self::Scan => "scan, MiB/s",
            Self::OrderedMultiGet => "multi-gets in key order, MiB/s",
            Self::PowerLawGet => "single gets, power law, MiB/s",
            Self::Miss => "misses a second",
        }
    }

    pub(super) fn is_of(self, cell: &Cell) -> bool {
        let reads = cell.threads == 1 && cell.temperature == Temperature::Warm;
        match self {
            Self::Stored => true,
            Self::Build => cell.experiment == Experiment::Build,
            Self::Scan => reads && cell.experiment == Experiment::Scan,
            Self::Miss => reads && cell.experiment == Experiment::Miss && cell.batch <= 1,
            Self::Get | Self::OrderedMultiGet | Self::PowerLawGet => {
                let (keys, single) = match self {
                    Self::OrderedMultiGet => (Keys::Ordered, false),
                    Self::PowerLawGet => (Keys::PowerLaw, true),
                    _ => (Keys::Uniform, true),
                };
                reads
                    && cell.experiment == Experiment::Get
                    && cell.keys == keys
                    && (cell.batch <= 1) == single
            }
        }
    }

    pub(super) fn rate(self, measurement: &Measurement) -> Option<Summary> {
        match self {
            Self::Stored => measurement.stored_bytes(),
            Self::Build => measurement.mib_per_cpu_second(),
            Self::Miss => measurement.operations_per_second(),
            Self::Get | Self::Scan | Self::OrderedMultiGet | Self::PowerLawGet => {
                measurement.mib_per_second()
            }
        }
    }

    /// Over all of `corpora`, from the measurement that `pick` finds in each.
    pub(super) fn over<'a>(
        self,
        corpora: &[&'a CorpusResults],
        pick: impl Fn(&'a CorpusResults) -> Option<&'a Measurement>,
    ) -> Option<f64> {
        match self {
            Self::Stored => stored_over_all(corpora, pick),
            _ => rate_over_all(corpora, pick, |measurement| self.rate(measurement)),
        }
    }
}

/// What a figure is set against.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reference {
    /// RocksDB with this codec and these bytes of a block.
    Blocks(&'static str, u32),
    /// Whichever configuration of RocksDB does best.
    Best,
    /// RocksDB with our own codec and block size.
    Same,
}

impl Reference {
    /// Whether a cell of RocksDB is what `own` is set against.
    pub(super) fn is(self, cell: &Cell, own: Option<&Configuration>) -> bool {
        let blocks = (cell.codec.as_str(), cell.block_bytes, cell.dictionary_bytes);
        match self {
            Self::Best => true,
            Self::Blocks(codec, block_bytes) => blocks == (codec, block_bytes, 0),
            Self::Same => own.is_some_and(|own| {
                blocks == (own.codec.as_str(), own.block_bytes, own.dictionary_bytes)
            }),
        }
    }
}

/// A goal of a profile: bounds on the ratio to RocksDB. At most for stored bytes, else at least.
pub(super) struct Goal {
    pub(super) figure: Figure,
    pub(super) reference: Reference,
    /// For all corpora together.
    pub(super) together: f64,
    /// For each corpus by itself; `None` where only the whole counts.
    pub(super) each: Option<f64>,
}

const fn goal(figure: Figure, reference: Reference, bound: f64) -> Goal {
    Goal {
        figure,
        reference,
        together: bound,
        each: Some(bound),
    }
}

const ZSTD_3_64: Reference = Reference::Blocks("zstd-3", 64 << 10);
const ZSTD_6_4: Reference = Reference::Blocks("zstd-6", 4 << 10);
const ZSTD_9_128: Reference = Reference::Blocks("zstd-9", 128 << 10);

/// The profiles and their goals.
pub(super) const PROFILES: [(&str, &[Goal]); 3] = [
    (
        "balanced",
        &[
            Goal {
                figure: Figure::Stored,
                reference: ZSTD_9_128,
                together: 0.75,
                each: Some(1.0),
            },
            goal(Figure::Get, ZSTD_6_4, 1.0),
            goal(Figure::Get, ZSTD_9_128, 2.3),
            goal(Figure::Build, ZSTD_3_64, 1.0),
        ],
    ),
    (
        "dense",
        &[
            Goal {
                figure: Figure::Stored,
                reference: ZSTD_9_128,
                together: 0.50,
                each: Some(0.85),
            },
            goal(Figure::Get, ZSTD_9_128, 1.8),
            goal(Figure::Build, ZSTD_9_128, 1.5),
        ],
    ),
    (
        "fast",
        &[
            Goal {
                figure: Figure::Stored,
                reference: ZSTD_6_4,
                together: 0.92,
                each: None,
            },
            goal(Figure::Get, ZSTD_6_4, 1.3),
            goal(Figure::Build, ZSTD_6_4, 1.0),
        ],
    ),
];

/// Goals of every profile.
pub(super) const BESIDES: [Goal; 4] = [
    goal(Figure::Scan, Reference::Best, 1.0),
    goal(Figure::OrderedMultiGet, Reference::Best, 1.0),
    goal(Figure::PowerLawGet, Reference::Best, 1.0),
    goal(Figure::Miss, Reference::Best, 10.0),
];

/// The same questions about our blocks, without a goal.
pub(super) const OF_BLOCKS: [Figure; 3] = [Figure::Stored, Figure::Get, Figure::Build];
