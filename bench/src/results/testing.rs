//! Made-up records for tests.

use std::collections::BTreeMap;

use super::{
    Cell, CorpusId, Costs, Energy, EnergyClass, EnergyDomain, Experiment, Keys, Load, Machine,
    Record, Space, Temperature,
};

/// A record in the making.
#[derive(Debug, Clone)]
pub(crate) struct Builder(Record);

/// Uniform single gets from our balanced layout, one thread, warm: 64 MiB of 1 GiB in a second.
pub(crate) fn record() -> Builder {
    Builder(Record {
        cell: Cell {
            experiment: Experiment::Get,
            peer: "ppc".to_owned(),
            load: Load::Sorted,
            codec: "zstd-3".to_owned(),
            layout: "balanced".to_owned(),
            block_bytes: 0,
            dictionary_bytes: 0,
            cache_bytes: 0,
            keys: Keys::Uniform,
            batch: 1,
            threads: 1,
            temperature: Temperature::Warm,
        },
        repeat: 0,
        corpus: CorpusId {
            name: "python".to_owned(),
            sha256: "python-1024".to_owned(),
            files: 65_536,
            raw_bytes: 1 << 30,
        },
        machine: Machine {
            cpu: "Imaginary 2000".to_owned(),
            cpus: 2,
            memory_bytes: 8 << 30,
            kernel: "6.1.0".to_owned(),
            governor: None,
            hypervisor: Some("none such".to_owned()),
            commit: "0123abc".to_owned(),
        },
        started_unix_seconds: 1_796_083_200,
        operations: 4096,
        value_bytes: 64 << 20,
        seconds: 1.0,
        costs: Costs {
            cpu_seconds: 1.0,
            instructions: None,
            cycles: None,
            peak_resident_bytes: Some(100 << 20),
            decoded_bytes: None,
            energy: Energy {
                class: EnergyClass::Unavailable,
                source: "no meter: a virtual machine".to_owned(),
                domains: Vec::new(),
            },
        },
        space: Space {
            stored_bytes: 100 << 20,
            written_bytes: None,
        },
        options: BTreeMap::new(),
    })
}

/// Methods that set a field of the same name, or the one that the comment names.
impl Builder {
    pub(crate) fn build(self) -> Record {
        self.0
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Record)) -> Self {
        change(&mut self.0);
        self
    }

    /// A build: no keys, no batches.
    pub(crate) fn builds(self) -> Self {
        self.with(|record| {
            record.cell.experiment = Experiment::Build;
            record.cell.keys = Keys::None;
        })
    }

    pub(crate) fn experiment(self, experiment: Experiment) -> Self {
        self.with(|record| record.cell.experiment = experiment)
    }

    pub(crate) fn peer(self, peer: &str) -> Self {
        self.with(|record| record.cell.peer = peer.to_owned())
    }

    /// RocksDB as in the paper: blocks, loaded by puts.
    pub(crate) fn rocksdb(self, codec: &str, block_kib: u32) -> Self {
        self.peer("rocksdb")
            .load(Load::Puts)
            .codec(codec)
            .blocks(block_kib << 10)
    }

    pub(crate) fn load(self, load: Load) -> Self {
        self.with(|record| record.cell.load = load)
    }

    pub(crate) fn codec(self, codec: &str) -> Self {
        self.with(|record| record.cell.codec = codec.to_owned())
    }

    pub(crate) fn layout(self, layout: &str) -> Self {
        self.with(|record| record.cell.layout = layout.to_owned())
    }

    /// Layout and block size.
    pub(crate) fn blocks(self, block_bytes: u32) -> Self {
        self.layout("blocks")
            .with(|record| record.cell.block_bytes = block_bytes)
    }

    pub(crate) fn dictionary(self, bytes: u32) -> Self {
        self.with(|record| record.cell.dictionary_bytes = bytes)
    }

    pub(crate) fn cache(self, bytes: u64) -> Self {
        self.with(|record| record.cell.cache_bytes = bytes)
    }

    pub(crate) fn keys(self, keys: Keys) -> Self {
        self.with(|record| record.cell.keys = keys)
    }

    pub(crate) fn threads(self, threads: u32) -> Self {
        self.with(|record| record.cell.threads = threads)
    }

    pub(crate) fn repeat(self, repeat: u32) -> Self {
        self.with(|record| record.repeat = repeat)
    }

    /// A corpus whose checksum follows from name and size.
    pub(crate) fn corpus(self, name: &str, raw_mib: u64) -> Self {
        self.with(|record| {
            record.corpus.name = name.to_owned();
            record.corpus.sha256 = format!("{name}-{raw_mib}");
            record.corpus.raw_bytes = raw_mib << 20;
        })
    }

    pub(crate) fn commit(self, commit: &str) -> Self {
        self.with(|record| record.machine.commit = commit.to_owned())
    }

    pub(crate) fn value_mib(self, mib: u64) -> Self {
        self.with(|record| record.value_bytes = mib << 20)
    }

    /// Wall-clock time; processor time follows.
    pub(crate) fn seconds(self, seconds: f64) -> Self {
        self.with(|record| {
            record.seconds = seconds;
            record.costs.cpu_seconds = seconds;
        })
    }

    pub(crate) fn cpu_seconds(self, seconds: f64) -> Self {
        self.with(|record| record.costs.cpu_seconds = seconds)
    }

    pub(crate) fn instructions(self, count: u64) -> Self {
        self.with(|record| record.costs.instructions = Some(count))
    }

    pub(crate) fn decoded_bytes(self, bytes: u64) -> Self {
        self.with(|record| record.costs.decoded_bytes = Some(bytes))
    }

    pub(crate) fn stored_bytes(self, bytes: u64) -> Self {
        self.with(|record| record.space.stored_bytes = bytes)
    }

    /// Class and joules: (domain, package, joules).
    pub(crate) fn energy(self, class: EnergyClass, domains: &[(&str, u32, f64)]) -> Self {
        self.with(|record| {
            record.costs.energy = Energy {
                class,
                source: "made up".to_owned(),
                domains: domains
                    .iter()
                    .map(|&(domain, package, joules)| EnergyDomain {
                        domain: domain.to_owned(),
                        package,
                        joules,
                        idle_watts: None,
                    })
                    .collect(),
            };
        })
    }
}
