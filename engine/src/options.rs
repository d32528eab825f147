//! Every option, with its unit, range and default.
//!
//! [`DbOptions`] belong to one opening of a store. [`KeyspaceOptions`] belong to a keyspace: they
//! are persisted in the manifest when the keyspace is created, and checked on open.

mod layout_codec;
mod profiles;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::vfs::{DiskVfs, Vfs};

pub use profiles::Profile;

pub(crate) use layout_codec::{put_layout, take_layout, unknown, unzigzag, zigzag};

/// Number of tree levels: L0 and six sorted levels.
pub const LEVEL_COUNT: usize = 7;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: u64 = 1 << 30;

/// zstd's levels.
const LEVEL_MIN: i64 = -131_072;
const LEVEL_MAX: i64 = 22;

/// Bases before a value that readers take.
const DEPTH_MAX: u32 = crate::table::BASES_MAX as u32;

/// How far a write must have got before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// In memory only: lost if the process dies.
    None,
    /// Handed to the operating system: survives the process, not a power cut.
    #[default]
    Buffered,
    /// On the disk: survives a power cut.
    Sync,
}

/// How table files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Through a read-only memory mapping; the page cache serves stored bytes without a copy.
    #[default]
    Mmap,
    /// Through positioned reads into buffers; keeps the address space small and turns I/O errors
    /// into errors, where a mapping raises a signal.
    Pread,
}

/// Options of one opening of a store. Not persisted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DbOptions {
    /// Create the store if the directory holds none. Default true.
    pub create_if_missing: bool,
    /// Fail if the directory already holds a store. Default false.
    pub error_if_exists: bool,
    /// Bytes of decoded frames kept in memory. 0 turns the cache off. Default 64 MiB.
    pub cache_bytes: usize,
    /// How table files are read. Default [`ReadMode::Mmap`].
    pub read_mode: ReadMode,
    /// Table files kept open at once; at least 16. Default 4096.
    pub open_tables_max: usize,
    /// Bytes of one memtable before it is sealed and flushed. Default 64 MiB.
    pub memtable_bytes: usize,
    /// Sealed memtables waiting for their flush before writers wait. Default 4.
    pub sealed_memtables_max: usize,
    /// Threads that compact; one more flushes. Default 2.
    pub background_threads: usize,
    /// Threads that compress the frames of tables being written, shared by all writers; 1 means
    /// the writing thread does it alone. Default: the machine's cores.
    pub compression_threads: usize,
    /// Threads that work off one large multi-get, its caller among them; 1 means the caller reads
    /// alone. Default: the machine's cores.
    pub multi_get_threads: usize,
    /// L0 tables at which compaction starts. Default 4.
    pub l0_compaction_trigger: usize,
    /// L0 tables at which writers wait for compaction. Tables adopted by bulk loads do not count.
    /// Default 20.
    pub l0_stall_trigger: usize,
    /// Start compactions by themselves. Default true; manual ones work either way.
    pub auto_compaction: bool,
    /// The file system. Default: the disk.
    pub vfs: Arc<dyn Vfs>,
}

impl Default for DbOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            create_if_missing: true,
            error_if_exists: false,
            cache_bytes: 64 * MIB,
            read_mode: ReadMode::default(),
            open_tables_max: 4096,
            memtable_bytes: 64 * MIB,
            sealed_memtables_max: 4,
            background_threads: 2,
            compression_threads: cores,
            multi_get_threads: cores,
            l0_compaction_trigger: 4,
            l0_stall_trigger: 20,
            auto_compaction: true,
            vfs: Arc::new(DiskVfs),
        }
    }
}

impl DbOptions {
    /// Fails on values outside the documented ranges, naming the option.
    pub fn validate(&self) -> Result<()> {
        let at_least = |name: &str, value: usize, min: usize| {
            if value >= min {
                return Ok(());
            }
            Err(Error::invalid_input(format!(
                "{name} is {value}; it must be at least {min}"
            )))
        };
        at_least("open_tables_max", self.open_tables_max, 16)?;
        at_least("memtable_bytes", self.memtable_bytes, 1)?;
        at_least("sealed_memtables_max", self.sealed_memtables_max, 1)?;
        at_least("background_threads", self.background_threads, 1)?;
        at_least("compression_threads", self.compression_threads, 1)?;
        at_least("multi_get_threads", self.multi_get_threads, 1)?;
        at_least("l0_compaction_trigger", self.l0_compaction_trigger, 1)?;
        at_least(
            "l0_stall_trigger",
            self.l0_stall_trigger,
            self.l0_compaction_trigger,
        )
    }
}

fn within(name: &str, value: i64, min: i64, max: i64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "{name} is {value}; it must lie between {min} and {max}"
    )))
}

/// How a table turns values into frames (design: Permute, Partition, Compress). The writer and the
/// reader of a layout sit behind one interface in `table::layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Values in key order fill a frame until it reaches this many raw bytes; a longer value
    /// stands alone. From 1 KiB to 16 MiB.
    Blocks {
        /// Raw bytes at which a frame is closed.
        bytes: u32,
    },
    /// Values that are alike lie side by side, and each is compressed against at most one other.
    Clustered(ClusterOptions),
}

/// Options of [`Layout::Clustered`].
///
/// The writer holds a window of values in key order, finds which are alike, and picks some as
/// *bases*. A value with a base is a frame of its own, compressed with the base's bytes as prefix: a
/// get of it decodes two frames. Any other value decodes alone. Without compression there are no
/// bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// Bytes of values that a writer holds before it plans their frames. Only values of one window
    /// can help each other, so a larger one makes smaller tables. Every table being written holds
    /// one; a bulk load holds no more than a quarter of its memory in them. From 1 KiB to 1 GiB.
    /// Default 64 MiB.
    pub window_bytes: u32,
    /// Raw bytes at which a frame is closed that values without a base share; a longer value stands
    /// alone. 0 for none: each value is a frame. Up to 1 MiB. Default 8 KiB.
    pub shared_frame_bytes: u32,
    /// Hashes of its pieces that a value is known by, each of 8 bytes: at most so many, and up to
    /// four times as many for a long value, one for each 4 KiB. More find bases better and take
    /// longer. From 8 to 1024. Default 32.
    pub sketch_entries_max: u32,
    /// Stored bytes that a base must be expected to save for each thousand of its own bytes, which
    /// each get of a follower decodes. Higher: fewer and shorter bases, faster gets, larger tables.
    /// Up to 10,000. Default 25.
    pub saved_bytes_per_1000_decoded: u32,
    /// Bases that a get may have to decode before a value. 0 for none: values are compressed with
    /// the dictionary alone, and stay in key order. At most 8. Default 1.
    pub depth_max: u32,
    /// zstd level of values that have a base, where it is below the table's own, which goes for all
    /// others. Those are most of what is stored, and gain more by a higher one. From -131,072 to
    /// 22. Default 3.
    pub follower_level: i32,
    /// Bytes of a value with all before it in the base from which on zstd looks for far matches as
    /// well (long-distance matching): its other tables forget the begin of a long base. From 1 KiB
    /// to 2 GiB, which is as good as never. Default 128 KiB.
    pub long_distance_bytes: u32,
    /// Length of such matches, at least. Below 64 they are looked for in steps of about half of it,
    /// which is slower and finds more; else as seldom as zstd does by itself. From 4 to 4096.
    /// Default 64.
    pub long_distance_match_bytes: u32,
    /// Share of its raw bytes, in per mille, above which a value that took its base's help is
    /// compressed without as well, and stays so unless the base saves at least half of what
    /// `saved_bytes_per_1000_decoded` asks. Smaller tables and faster gets, by little, for slower
    /// writes. From 0 (always) to 1000 (never), the default.
    pub doubt_per_mille: u32,
    /// Bytes from which on a value without a base is compressed without the dictionary, which helps
    /// only short ones, and at a higher level. From 1 KiB to 2 GiB. Default 64 KiB.
    pub large_value_bytes: u32,
    /// By how much that level is above the table's. From 0 to 22. Default 2.
    pub large_value_levels_up: u32,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            window_bytes: 64 * MIB as u32,
            shared_frame_bytes: 8 * KIB as u32,
            sketch_entries_max: 32,
            saved_bytes_per_1000_decoded: 25,
            depth_max: 1,
            follower_level: 3,
            long_distance_bytes: 128 * KIB as u32,
            long_distance_match_bytes: 64,
            doubt_per_mille: 1000,
            large_value_bytes: 64 * KIB as u32,
            large_value_levels_up: 2,
        }
    }
}

impl ClusterOptions {
    fn validate(&self) -> Result<()> {
        let kib = KIB as u32;
        for (name, value, min, max) in [
            ("window_bytes", self.window_bytes, kib, 1 << 30),
            ("shared_frame_bytes", self.shared_frame_bytes, 0, 1 << 20),
            ("sketch_entries_max", self.sketch_entries_max, 8, 1024),
            (
                "saved_bytes_per_1000_decoded",
                self.saved_bytes_per_1000_decoded,
                0,
                10_000,
            ),
            ("depth_max", self.depth_max, 0, DEPTH_MAX),
            (
                "long_distance_bytes",
                self.long_distance_bytes,
                kib,
                2 << 30,
            ),
            (
                "long_distance_match_bytes",
                self.long_distance_match_bytes,
                4,
                4096,
            ),
            ("doubt_per_mille", self.doubt_per_mille, 0, 1000),
            ("large_value_bytes", self.large_value_bytes, kib, 2 << 30),
            ("large_value_levels_up", self.large_value_levels_up, 0, 22),
        ] {
            within(name, value.into(), min.into(), max.into())?;
        }
        let level = i64::from(self.follower_level);
        within("follower_level", level, LEVEL_MIN, LEVEL_MAX)
    }
}

/// How frames are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Stored as they are.
    None,
    /// zstd at this level: 1 to 22, or negative (down to -131072) for speed.
    Zstd {
        /// The level.
        level: i32,
    },
}

/// Which filter a table carries, so that most misses touch no key block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterPolicy {
    /// None.
    None,
    /// Binary fuse, 8 bits: about 9 bits a key, one false positive in 256.
    Fuse8,
    /// Binary fuse, 16 bits: about 18 bits a key, one false positive in 65,536.
    Fuse16,
}

/// How the tables of one tree level are written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableOptions {
    /// How values become frames. Default 64 KiB blocks.
    pub layout: Layout,
    /// How frames are compressed. Default zstd 3. A frame that does not shrink by an eighth is
    /// stored raw.
    pub compression: Compression,
    /// Bytes of a zstd dictionary trained on each table's own values; 0 for none. Up to 1 MiB.
    /// Default 0. While a table of blocks is written, values are held back until there are 64 MiB of
    /// them, or a hundred times the dictionary's size if that is more; a sample of all of these
    /// trains it. A bulk load holds back half of its memory.
    pub dictionary_bytes: u32,
    /// Default [`FilterPolicy::Fuse8`].
    pub filter: FilterPolicy,
    /// Raw bytes at which a key block is closed. From 256 B to 1 MiB. Default 4 KiB.
    pub key_block_bytes: u32,
    /// Values up to this long sit in the key block itself. From 0 to 4096. Default 128.
    pub inline_value_bytes_max: u32,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            layout: Layout::Blocks {
                bytes: 64 * KIB as u32,
            },
            compression: Compression::Zstd { level: 3 },
            dictionary_bytes: 0,
            filter: FilterPolicy::Fuse8,
            key_block_bytes: 4 * KIB as u32,
            inline_value_bytes_max: 128,
        }
    }
}

impl TableOptions {
    /// Blocks of `bytes` raw bytes, compressed by zstd at `level`; the rest at its default.
    #[must_use]
    pub fn blocks(level: i32, bytes: u32) -> Self {
        Self {
            layout: Layout::Blocks { bytes },
            compression: Compression::Zstd { level },
            ..Self::default()
        }
    }

    /// Clusters with default options, compressed by zstd at `level`; the rest at its default. See
    /// also the profiles: [`TableOptions::fast`], [`TableOptions::balanced`] and
    /// [`TableOptions::dense`].
    #[must_use]
    pub fn clustered(level: i32) -> Self {
        Self {
            layout: Layout::Clustered(ClusterOptions::default()),
            compression: Compression::Zstd { level },
            ..Self::default()
        }
    }

    /// Fails on values outside the documented ranges, naming the option.
    pub fn validate(&self) -> Result<()> {
        match self.layout {
            Layout::Blocks { bytes } => {
                within("block bytes", i64::from(bytes), KIB as i64, 16 * MIB as i64)?;
            }
            Layout::Clustered(cluster) => cluster.validate()?,
        }
        if let Compression::Zstd { level } = self.compression {
            within("zstd level", i64::from(level), LEVEL_MIN, LEVEL_MAX)?;
        }
        within(
            "dictionary_bytes",
            i64::from(self.dictionary_bytes),
            0,
            MIB as i64,
        )?;
        within(
            "key_block_bytes",
            i64::from(self.key_block_bytes),
            256,
            MIB as i64,
        )?;
        within(
            "inline_value_bytes_max",
            i64::from(self.inline_value_bytes_max),
            0,
            4096,
        )
    }
}

/// Options of one keyspace. Persisted when it is created; opening it with other options changes
/// how tables are written from then on, never how existing ones are read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// How tables are written, by tree level: L0 first, the last level last.
    pub levels: [TableOptions; LEVEL_COUNT],
    /// Raw bytes (keys and values) at which a table is closed. A clustered table grows by up to half
    /// beyond, as long as merges copy its frames. From 4 KiB to 16 GiB. Default 256 MiB.
    pub table_bytes_target: u64,
    /// Stored bytes that the first sorted level in use may hold. At least 4 KiB. Default 256 MiB.
    pub base_level_bytes: u64,
    /// How many times more each next level may hold. From 2 to 100. Default 10.
    pub level_multiplier: u32,
    /// Share of tombstones, in percent, at which a table is compacted on their account. From 1 to
    /// 100. Default 50.
    pub tombstone_percent_trigger: u8,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self::uniform(TableOptions::default())
    }
}

impl KeyspaceOptions {
    /// The same table options at every level.
    #[must_use]
    pub fn uniform(table: TableOptions) -> Self {
        Self {
            levels: std::array::from_fn(|_| table.clone()),
            table_bytes_target: 256 * MIB as u64,
            base_level_bytes: 256 * MIB as u64,
            level_multiplier: 10,
            tombstone_percent_trigger: 50,
        }
    }

    /// `upper` for every level but the last, which gets `last`: cheap to write where data is soon
    /// rewritten, small where it stays.
    #[must_use]
    pub fn tiered(upper: TableOptions, last: TableOptions) -> Self {
        let mut options = Self::uniform(upper);
        if let Some(level) = options.levels.last_mut() {
            *level = last;
        }
        options
    }

    /// Fails on values outside the documented ranges, naming the option.
    pub fn validate(&self) -> Result<()> {
        for table in &self.levels {
            table.validate()?;
        }
        let within = |name: &str, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            Err(Error::invalid_input(format!(
                "{name} is {value}; it must lie between {min} and {max}"
            )))
        };
        within(
            "table_bytes_target",
            self.table_bytes_target,
            4 * KIB as u64,
            16 * GIB,
        )?;
        within(
            "base_level_bytes",
            self.base_level_bytes,
            4 * KIB as u64,
            1 << 50,
        )?;
        within("level_multiplier", u64::from(self.level_multiplier), 2, 100)?;
        within(
            "tombstone_percent_trigger",
            u64::from(self.tombstone_percent_trigger),
            1,
            100,
        )
    }
}
