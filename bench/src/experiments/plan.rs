//! What to run: groups of stores that are measured together, and the cells measured on each.
//!
//! A [`Group`] holds the stores that are compared with each other, all of one configuration. They
//! are built in turn, and every cell runs on each of them in turn before it is repeated, so that a
//! drift of the machine meets all alike.

use ppc_engine::{Compression, Profile, TableOptions};

use super::cost;
use crate::peers::{self, Codec, Peer, StoreSpec};
use crate::results::{Cell, Experiment, Keys, Load, Temperature};
use ppc_store::Result;

const KIB: u32 = 1 << 10;
const MIB: u64 = 1 << 20;

/// zstd levels and block sizes of the paper's Table II: the four large configurations.
const LARGE_CONFIGURATIONS: [(i32, u32); 4] =
    [(3, 64 * KIB), (6, 4 * KIB), (6, 128 * KIB), (9, 128 * KIB)];

/// Block sizes of the paper's Figure 3.
const GRID_BLOCK_BYTES: [u32; 4] = [4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB];

/// Dictionary of the configurations that have one.
const DICTIONARY_BYTES: u32 = 64 * KIB;

/// Sizes of the growing corpus.
const GROWTH_RAW_BYTES: [u64; 5] = [256 * MIB, 512 * MIB, 1024 * MIB, 2048 * MIB, 4096 * MIB];

/// A family of experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Suite {
    /// The four large configurations of Table II and Figures 4 and 5: every experiment.
    Configurations,
    /// Codecs and levels by block sizes, as in Figure 3: build and get.
    Grid,
    /// Shuffled input beside sorted: build and get.
    Orders,
    /// Other stores, and the limits.
    Peers,
    /// Our profiles beside what their goals name of RocksDB, for `ppc-bench targets`. Only on
    /// request, and into a file of its own: stores of RocksDB that other suites measure too would
    /// be taken from there, and no longer run in turn with ours.
    Profiles,
    /// Build and get as the corpus grows.
    Growth,
}

/// A cell without its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Template {
    pub(super) experiment: Experiment,
    pub(super) keys: Keys,
    pub(super) batch: u32,
    pub(super) threads: u32,
    pub(super) temperature: Temperature,
}

impl Template {
    fn get(keys: Keys, batch: u32) -> Self {
        Self {
            experiment: Experiment::Get,
            keys,
            batch,
            threads: 1,
            temperature: Temperature::Warm,
        }
    }

    fn of(experiment: Experiment, keys: Keys) -> Self {
        Self {
            experiment,
            ..Self::get(keys, 1)
        }
    }

    fn on(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    fn cold(self) -> Self {
        Self {
            temperature: Temperature::Cold,
            ..self
        }
    }

    /// Whether a store of the peer can be asked so. The limits hold everything in memory and find
    /// values by ordinal: they know neither cold reads nor absent keys.
    pub(super) fn suits(&self, peer: &dyn Peer) -> bool {
        match self.experiment {
            Experiment::Build => true,
            Experiment::Get => !peer.is_limit() || self.temperature == Temperature::Warm,
            Experiment::Miss => !peer.is_limit(),
            Experiment::Scan => {
                peer.can_scan() && (!peer.is_limit() || self.temperature == Temperature::Warm)
            }
            Experiment::Mixed => peer.can_update(),
        }
    }

    pub(super) fn cell(&self, spec: &StoreSpec) -> Cell {
        Cell {
            experiment: self.experiment,
            peer: spec.peer.to_owned(),
            load: spec.load,
            codec: spec.codec.to_string(),
            layout: spec.layout.to_owned(),
            block_bytes: spec.block_bytes,
            dictionary_bytes: spec.dictionary_bytes,
            cache_bytes: spec.cache_bytes,
            keys: self.keys,
            batch: self.batch,
            threads: self.threads,
            temperature: self.temperature,
        }
    }

    /// The template of a build on so many threads.
    pub(super) fn build(threads: u32) -> Self {
        Self {
            batch: 0,
            ..Self::of(Experiment::Build, Keys::None).on(threads)
        }
    }
}

/// Stores that are compared with each other, and what is measured on them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) suite: Suite,
    /// Bytes of values; none for the whole corpus.
    pub(super) raw_bytes: Option<u64>,
    pub(super) stores: Vec<StoreSpec>,
    /// Threads of the builds, ascending; the last is that of the store that is read.
    pub(super) build_threads: Vec<u32>,
    pub(super) build_repeats: u32,
    pub(super) reads: Vec<Template>,
    pub(super) read_repeats: u32,
    /// Whether a build is a result, or only the way to a store.
    pub(super) records_builds: bool,
}

impl Group {
    /// Templates that the store takes part in.
    pub(super) fn reads_of(&self, spec: &StoreSpec) -> impl Iterator<Item = &Template> {
        let peer = peers::named(spec.peer).ok();
        let suits = move |template: &&Template| peer.is_some_and(|peer| template.suits(peer));
        self.reads.iter().filter(suits)
    }

    /// Runs of the whole group.
    pub(super) fn runs(&self) -> usize {
        let builds = if self.records_builds {
            self.build_threads.len() * self.build_repeats as usize
        } else {
            0
        };
        let reads = |spec| self.reads_of(spec).count() * self.read_repeats as usize;
        self.stores.iter().map(|spec| builds + reads(spec)).sum()
    }

    /// Seconds that the group takes, about.
    pub(super) fn seconds(&self, corpus_bytes: u64, run_seconds: f64) -> f64 {
        let bytes = self.raw_bytes.unwrap_or(corpus_bytes);
        let build = |spec: &StoreSpec| {
            let timed = self.build_threads.iter();
            let once: f64 = timed.map(|&it| cost::build_seconds(spec, bytes, it)).sum();
            once * f64::from(self.build_repeats)
        };
        let read = |spec: &StoreSpec| {
            let runs = self.reads_of(spec).count() as f64 * f64::from(self.read_repeats);
            cost::check_seconds(bytes) + runs * run_seconds
        };
        let stores = self.stores.iter();
        stores.map(|spec| build(spec) + read(spec)).sum()
    }
}

/// What of the whole is wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Wishes {
    /// The few cells that fit a short run.
    pub(super) quick: bool,
    /// None for all.
    pub(super) suites: Option<Vec<Suite>>,
    /// None for all.
    pub(super) experiments: Option<Vec<Experiment>>,
    /// None for both.
    pub(super) temperature: Option<Temperature>,
    /// Only cells on several threads, beside one.
    pub(super) threads_only: bool,
    /// Peers by name; none for all that this program was built with.
    pub(super) peers: Option<Vec<String>>,
    /// None for all.
    pub(super) codecs: Option<Vec<Codec>>,
    /// None for all.
    pub(super) blocks_kib: Option<Vec<u32>>,
    /// Repetitions, if not the usual number.
    pub(super) repeats: Option<u32>,
    /// Most threads.
    pub(super) threads: u32,
    pub(super) cache_bytes: u64,
    pub(super) corpus_bytes: u64,
}

/// The groups to run, in order.
pub(super) fn plan(wishes: &Wishes) -> Result<Vec<Group>> {
    if let Some(names) = &wishes.peers {
        for name in names {
            peers::named(name)?;
        }
    }
    let suites = [
        (Suite::Configurations, configurations(wishes)),
        (Suite::Orders, orders(wishes)),
        (Suite::Peers, others(wishes)),
        (Suite::Grid, grid(wishes)),
        (Suite::Profiles, profiles(wishes)),
        (Suite::Growth, growth(wishes)),
    ];
    let wanted = |suite: Suite| match &wishes.suites {
        Some(suites) => suites.contains(&suite),
        None => suite != Suite::Profiles,
    };
    let groups = suites.into_iter().filter(|(suite, _)| wanted(*suite));
    let groups = groups.flat_map(|(_, groups)| groups);
    Ok(groups.filter_map(|group| reduced(group, wishes)).collect())
}

/// The group without what is not wanted or not supported; none if nothing is left.
fn reduced(mut group: Group, wishes: &Wishes) -> Option<Group> {
    let wants = |experiment: Experiment| {
        let chosen = wishes.experiments.as_ref();
        chosen.is_none_or(|chosen| chosen.contains(&experiment))
    };
    group.stores.retain(|spec| {
        let named = wishes.peers.as_ref();
        let codecs = wishes.codecs.as_ref();
        let blocks = wishes.blocks_kib.as_ref();
        named.is_none_or(|names| names.iter().any(|name| name == spec.peer))
            && codecs.is_none_or(|codecs| codecs.contains(&spec.codec))
            && blocks.is_none_or(|kib| kib.contains(&(spec.block_bytes / KIB)))
            && peers::named(spec.peer).is_ok_and(|peer| peer.supports(spec))
    });
    group.reads.retain(|template| {
        let temperature = wishes.temperature;
        wants(template.experiment)
            && temperature.is_none_or(|it| it == template.temperature)
            && template.threads <= wishes.threads
    });
    group.records_builds = wants(Experiment::Build) && wishes.temperature.is_none();
    if wishes.threads_only {
        let scaled: Vec<_> = group
            .reads
            .iter()
            .filter(|it| it.threads > 1)
            .copied()
            .collect();
        let is_scaled = |template: &Template| scaled.contains(&template.on(wishes.threads));
        group.reads.retain(is_scaled);
        group.records_builds &= group.build_threads.len() > 1;
    }
    if let Some(repeats) = wishes.repeats {
        (group.build_repeats, group.read_repeats) = (repeats, repeats);
    }
    if !group.records_builds {
        group.build_threads = group.build_threads.last().copied().into_iter().collect();
        group.build_repeats = 1;
    }
    let is_empty = group.stores.is_empty() || (group.reads.is_empty() && !group.records_builds);
    (!is_empty).then_some(group)
}

/// 1, 2, 4, ... and the last.
fn thread_counts(threads: u32) -> Vec<u32> {
    let doubled = std::iter::successors(Some(1_u32), |it| it.checked_mul(2));
    let mut counts: Vec<u32> = doubled.take_while(|&it| it < threads).collect();
    counts.push(threads.max(1));
    counts
}

fn store(
    wishes: &Wishes,
    peer: &'static str,
    load: Load,
    codec: Codec,
    block_bytes: u32,
) -> StoreSpec {
    StoreSpec {
        peer,
        load,
        codec,
        layout: if block_bytes == 0 { "files" } else { "blocks" },
        block_bytes,
        dictionary_bytes: 0,
        // What holds no decoded blocks has no cache.
        cache_bytes: if block_bytes == 0 {
            0
        } else {
            wishes.cache_bytes
        },
    }
}

fn group(wishes: &Wishes, suite: Suite, stores: Vec<StoreSpec>, reads: Vec<Template>) -> Group {
    Group {
        suite,
        raw_bytes: None,
        stores,
        build_threads: vec![wishes.threads],
        build_repeats: if wishes.quick { 2 } else { 3 },
        reads,
        read_repeats: if wishes.quick { 3 } else { 5 },
        records_builds: true,
    }
}

fn configurations(wishes: &Wishes) -> Vec<Group> {
    let mut reads = vec![
        Template::get(Keys::Uniform, 1),
        Template::get(Keys::Uniform, 100),
        Template::get(Keys::PowerLaw, 1),
        Template::get(Keys::Ordered, 1),
        Template::of(Experiment::Scan, Keys::None),
        Template::of(Experiment::Miss, Keys::Uniform),
    ];
    if !wishes.quick {
        reads.push(Template::get(Keys::PowerLaw, 100));
        reads.push(Template::get(Keys::Ordered, 100));
    }
    for threads in thread_counts(wishes.threads).into_iter().skip(1) {
        reads.push(Template::get(Keys::Uniform, 1).on(threads));
        if !wishes.quick {
            reads.push(Template::get(Keys::Uniform, 100).on(threads));
            reads.push(Template::get(Keys::PowerLaw, 1).on(threads));
        }
    }
    reads.push(Template::get(Keys::Uniform, 1).cold());
    if !wishes.quick {
        reads.push(Template::get(Keys::Uniform, 100).cold());
        reads.push(Template::of(Experiment::Scan, Keys::None).cold());
    }
    reads.push(Template::of(Experiment::Mixed, Keys::Uniform));

    let configuration = |(level, block_bytes): (i32, u32)| {
        let codec = Codec::Zstd(level);
        let mut stores = Vec::new();
        for (peer, load) in [
            ("ppc", Load::Sorted),
            ("rocksdb", Load::Puts),
            ("rocksdb", Load::Sorted),
            ("ppc", Load::Puts),
        ] {
            if wishes.quick && (peer, load) == ("ppc", Load::Puts) && level != 3 {
                // What puts cost shows at one level; the store they come to is the same.
                continue;
            }
            stores.push(store(wishes, peer, load, codec, block_bytes));
        }
        if block_bytes <= 16 * KIB {
            for peer in ["ppc", "rocksdb"] {
                stores.push(StoreSpec {
                    dictionary_bytes: DICTIONARY_BYTES,
                    ..store(wishes, peer, Load::Sorted, codec, block_bytes)
                });
            }
        }
        let mut group = group(wishes, Suite::Configurations, stores, reads.clone());
        group.build_threads = thread_counts(wishes.threads);
        group
    };
    LARGE_CONFIGURATIONS.map(configuration).into()
}

fn orders(wishes: &Wishes) -> Vec<Group> {
    let stores = [
        ("ppc", Load::Shuffled),
        ("rocksdb", Load::ShuffledPuts),
        ("ppc", Load::ShuffledPuts),
    ];
    let stores = stores.map(|(peer, load)| store(wishes, peer, load, Codec::Zstd(3), 64 * KIB));
    let reads = vec![Template::get(Keys::Uniform, 1)];
    vec![group(wishes, Suite::Orders, stores.into(), reads)]
}

fn others(wishes: &Wishes) -> Vec<Group> {
    let mut stores = vec![
        store(wishes, "fjall", Load::Sorted, Codec::Lz4, 64 * KIB),
        store(wishes, "files", Load::Puts, Codec::None, 0),
        store(wishes, "zip", Load::Sorted, Codec::Zstd(6), 0),
        store(wishes, "memcpy", Load::Sorted, Codec::None, 0),
    ];
    if !wishes.quick {
        for (load, block_bytes) in [(Load::Sorted, 4 * KIB), (Load::Puts, 64 * KIB)] {
            stores.push(store(wishes, "fjall", load, Codec::Lz4, block_bytes));
        }
    }
    for level in [3, 6, 9] {
        if level == 6 || !wishes.quick {
            stores.push(store(
                wishes,
                "raw-zstd",
                Load::Sorted,
                Codec::Zstd(level),
                0,
            ));
        }
    }
    let reads = vec![
        Template::get(Keys::Uniform, 1),
        Template::get(Keys::Uniform, 100),
        Template::get(Keys::PowerLaw, 1),
        Template::get(Keys::Ordered, 1),
        Template::of(Experiment::Scan, Keys::None),
        Template::of(Experiment::Miss, Keys::Uniform),
        Template::get(Keys::Uniform, 1).cold(),
        Template::of(Experiment::Mixed, Keys::Uniform),
    ];
    vec![group(wishes, Suite::Peers, stores, reads)]
}

fn grid(wishes: &Wishes) -> Vec<Group> {
    let codecs: &[Codec] = if wishes.quick {
        &[Codec::Zstd(3), Codec::Zstd(6)]
    } else {
        &[
            Codec::Zstd(1),
            Codec::Zstd(3),
            Codec::Zstd(6),
            Codec::Zstd(9),
            Codec::Zstd(12),
            Codec::Zlib(6),
            Codec::Zlib(9),
            Codec::Snappy,
        ]
    };
    let mut groups = Vec::new();
    for &codec in codecs {
        for block_bytes in GRID_BLOCK_BYTES {
            let is_large =
                |&(level, bytes): &(i32, u32)| codec == Codec::Zstd(level) && bytes == block_bytes;
            if LARGE_CONFIGURATIONS.iter().any(is_large) && wishes.suites.is_none() {
                // Measured already, among the large configurations.
                continue;
            }
            let stores = ["ppc", "rocksdb"];
            let stores = stores.map(|peer| store(wishes, peer, Load::Sorted, codec, block_bytes));
            let reads = vec![
                Template::get(Keys::Uniform, 1),
                Template::get(Keys::Uniform, 100),
            ];
            let mut group = group(wishes, Suite::Grid, stores.into(), reads);
            group.build_repeats = if wishes.quick { 1 } else { 3 };
            groups.push(group);
        }
    }
    groups
}

/// One group, so that all stores are measured in turn: any two of them may be compared.
fn profiles(wishes: &Wishes) -> Vec<Group> {
    let own = |profile: Profile| {
        // Each at its own level.
        let codec = match TableOptions::profile(profile).compression {
            Compression::Zstd { level } => Codec::Zstd(level),
            _ => Codec::None,
        };
        StoreSpec {
            layout: profile.name(),
            cache_bytes: wishes.cache_bytes,
            ..store(wishes, "ppc", Load::Sorted, codec, 0)
        }
    };
    let mut stores: Vec<StoreSpec> = Profile::ALL.map(own).into();
    for (level, block_bytes) in [(3, 64 * KIB), (6, 4 * KIB), (9, 128 * KIB)] {
        for load in [Load::Puts, Load::Sorted] {
            stores.push(store(
                wishes,
                "rocksdb",
                load,
                Codec::Zstd(level),
                block_bytes,
            ));
        }
    }
    let reads = vec![
        Template::get(Keys::Uniform, 1),
        Template::get(Keys::Uniform, 100),
        Template::get(Keys::PowerLaw, 1),
        Template::get(Keys::Ordered, 100),
        Template::of(Experiment::Scan, Keys::None),
        Template::of(Experiment::Miss, Keys::Uniform),
    ];
    let mut group = group(wishes, Suite::Profiles, stores, reads);
    // The goals are those of one thread.
    group.build_threads = vec![1];
    vec![group]
}

fn growth(wishes: &Wishes) -> Vec<Group> {
    let below = |&bytes: &u64| bytes < wishes.corpus_bytes;
    let sizes = GROWTH_RAW_BYTES.into_iter().filter(below).map(Some);
    let mut groups = Vec::new();
    for raw_bytes in sizes {
        let stores = ["ppc", "rocksdb"]
            .map(|peer| store(wishes, peer, Load::Sorted, Codec::Zstd(3), 64 * KIB));
        let reads = vec![Template::get(Keys::Uniform, 1)];
        groups.push(Group {
            raw_bytes,
            ..group(wishes, Suite::Growth, stores.into(), reads)
        });
    }
    groups
}
