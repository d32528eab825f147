//! `ppc whatif`: what other options would make of the contents.

use clap::{Args, ValueEnum};
use ppc_engine::{Compression, Layout, Profile, TableOptions, WhatIfOptions, WhatIfResult};
use ppc_store::ErrorKind;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{Align, Output, Table};
use super::progress::Watcher;
use super::size::ByteSize;
use super::store::StoreArgs;

/// Measure what the profiles, other levels, block sizes and dictionaries would make of the contents
///
/// Writes a sample with each profile and each combination, to memory, and tells size and speed of one
/// thread, and how many bytes a single get decodes for each byte it returns. The store is only read. `ppc
/// compact --rewrite` applies a choice, with --profile, --zstd-level, --block-size and --dictionary.
///
/// Clusters gain from files that are alike: the larger the sample, the closer balanced and dense come
/// to what they make of the whole store.
///
/// It measures what it is told, once, and leaves the choice to you. `ppc tune` chooses: it builds
/// tables on the disk, gets from them, repeats that, and recommends one for an objective; and it
/// can sample what is not imported yet.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc whatif code.ppc
  ppc whatif code.ppc --profiles balanced,dense --levels 9 --block-sizes 128KiB --sample 512MiB
  ppc whatif code.ppc --levels 1,6,12 --block-sizes 16KiB,64KiB,1MiB --dictionaries 0,110KiB")]
pub(crate) struct WhatIfArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Profiles to try: fast, balanced, dense, or none
    #[arg(
        long,
        value_enum,
        value_name = "PROFILE,...",
        value_delimiter = ',',
        default_value = "fast,balanced,dense"
    )]
    profiles: Vec<TriedProfile>,
    /// zstd levels to try
    #[arg(
        long,
        value_name = "LEVEL,...",
        value_delimiter = ',',
        allow_hyphen_values = true,
        default_value = "3,9,19"
    )]
    levels: Vec<i32>,
    /// Block sizes to try
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        default_value = "64KiB,256KiB,1MiB"
    )]
    block_sizes: Vec<ByteSize>,
    /// Sizes of trained dictionaries to try; 0 is none
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        default_value = "0"
    )]
    dictionaries: Vec<ByteSize>,
    /// Raw bytes of the sample
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    sample: ByteSize,
}

/// A profile to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TriedProfile {
    Fast,
    Balanced,
    Dense,
    /// Combinations alone
    None,
}

impl TriedProfile {
    fn options(self) -> Option<TableOptions> {
        match self {
            Self::Fast => Some(TableOptions::fast()),
            Self::Balanced => Some(TableOptions::balanced()),
            Self::Dense => Some(TableOptions::dense()),
            Self::None => None,
        }
    }
}

pub(crate) fn run(args: WhatIfArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let mut options = WhatIfOptions::default();
    let profiles = args.profiles.into_iter();
    options.tables = profiles.filter_map(TriedProfile::options).collect();
    options.levels = args.levels;
    options.block_bytes = sizes("--block-sizes", &args.block_sizes)?;
    options.dictionary_bytes = sizes("--dictionaries", &args.dictionaries)?;
    options.sample_bytes = args.sample.0;
    let archive = args.store.open_read_only()?;
    let watcher = Watcher::new(global.quiet, None);
    let results = archive.what_if(&options, &watcher);
    watcher.finish()?;
    let results = match results {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Err(Failure::Interrupted(
                "stopped before everything was measured".to_owned(),
            ));
        }
        results => results?,
    };
    if out.is_json() {
        return results
            .iter()
            .try_for_each(|result| out.json(&to_json(result)));
    }
    print(&results, out)
}

pub(crate) fn sizes(option: &str, sizes: &[ByteSize]) -> Result<Vec<u32>, Failure> {
    let narrow = |size: &ByteSize| {
        u32::try_from(size.0).map_err(|_| Failure::Usage(format!("{option}: {size} is too large")))
    };
    sizes.iter().map(narrow).collect()
}

fn print(results: &[WhatIfResult], out: &mut Output) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("profile", Align::Left),
        ("level", Align::Right),
        ("block", Align::Right),
        ("dictionary", Align::Right),
        ("ratio", Align::Right),
        ("write MiB/s", Align::Right),
        ("read MiB/s", Align::Right),
        ("get MiB/s", Align::Right),
        ("decoded/returned", Align::Right),
    ]);
    for result in results {
        let (level, block_bytes) = shape(&result.table);
        table.row(vec![
            profile_of(&result.table)
                .map_or("", Profile::name)
                .to_owned(),
            level.map_or("-".to_owned(), |level| level.to_string()),
            match block_bytes {
                0 => "clusters".to_owned(),
                bytes => ByteSize(bytes).to_string(),
            },
            ByteSize(result.table.dictionary_bytes.into()).to_string(),
            format!("{:.2} %", result.ratio() * 100.0),
            format!("{:.0}", result.encode_mib_per_second()),
            format!("{:.0}", result.decode_mib_per_second()),
            format!("{:.0}", result.get_mib_per_second()),
            format!("{:.1}", result.get_amplification()),
        ]);
    }
    table.print(out)
}

/// The profile that these options are.
fn profile_of(table: &TableOptions) -> Option<Profile> {
    let mut profiles = Profile::ALL.into_iter();
    profiles.find(|profile| TableOptions::profile(*profile) == *table)
}

/// A table's zstd level and block size, as far as it has them.
pub(crate) fn shape(table: &TableOptions) -> (Option<i32>, u64) {
    let level = match table.compression {
        Compression::Zstd { level } => Some(level),
        _ => None,
    };
    let block_bytes = match table.layout {
        Layout::Blocks { bytes } => bytes.into(),
        _ => 0,
    };
    (level, block_bytes)
}

fn to_json(result: &WhatIfResult) -> serde_json::Value {
    let (level, block_bytes) = shape(&result.table);
    json!({
        "profile": profile_of(&result.table).map(Profile::name),
        "zstd_level": level,
        "block_bytes": block_bytes,
        "dictionary_bytes": result.table.dictionary_bytes,
        "raw_bytes": result.raw_bytes,
        "stored_bytes": result.stored_bytes,
        "ratio": result.ratio(),
        "encode_mib_per_second": result.encode_mib_per_second(),
        "decode_mib_per_second": result.decode_mib_per_second(),
        "get_mib_per_second": result.get_mib_per_second(),
        "get_decoded_per_returned": result.get_amplification(),
    })
}
