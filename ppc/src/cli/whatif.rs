//! `ppc whatif`: how small and fast a store would be with other options.

use clap::Args;
use ppc_engine::{WhatIfOptions, WhatIfResult};
use serde_json::json;

use super::failure::Failure;
use super::output::Output;
use super::size::ByteSize;
use super::store::StoreArgs;

/// Measure how small and how fast the contents would be with other options
///
/// Takes stretches of neighbours from all over the store, compresses them anew with every
/// combination, on one thread, and prints ratio and speed. The store stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc whatif code.ppc --zstd-level 3,6,9 --block-size 4KiB,64KiB,128KiB")]
pub(crate) struct WhatIfArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// zstd levels to try
    #[arg(
        long,
        value_name = "LEVEL",
        value_delimiter = ',',
        default_value = "3,6,9",
        allow_negative_numbers = true
    )]
    zstd_level: Vec<i32>,
    /// Block sizes to try
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "4KiB,64KiB,128KiB"
    )]
    block_size: Vec<ByteSize>,
    /// Dictionary sizes to try; 0 is none
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "0")]
    dictionary: Vec<ByteSize>,
    /// Bytes of contents to try it on; held in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    sample: ByteSize,
}

pub(crate) fn run(args: WhatIfArgs, out: &mut Output) -> Result<(), Failure> {
    let archive = args.store.open_read_only()?;
    let Some(contents) = archive.db().existing_keyspace("contents")? else {
        return Err(Failure::Usage("the store holds no contents".to_owned()));
    };
    let mut options = WhatIfOptions::default();
    options.levels = args.zstd_level;
    options.block_bytes = sizes(&args.block_size)?;
    options.dictionary_bytes = sizes(&args.dictionary)?;
    options.sample_bytes = args.sample.0;
    let results = contents.what_if(&options, &mut |_, _| {})?;
    if !out.is_json() {
        out.line(
            "  level      block dictionary    ratio  write MiB/s  read MiB/s  decoded/returned",
        )?;
    }
    results.iter().try_for_each(|result| print(result, out))
}

fn print(result: &WhatIfResult, out: &mut Output) -> Result<(), Failure> {
    let ppc_engine::Layout::Blocks { bytes } = result.table.layout else {
        return Ok(());
    };
    let level = match result.table.compression {
        ppc_engine::Compression::Zstd { level } => level,
        _ => 0,
    };
    let dictionary = result.table.dictionary_bytes;
    let (encode, decode) = (
        result.encode_mib_per_second(),
        result.decode_mib_per_second(),
    );
    if out.is_json() {
        return out.json(&json!({
            "zstd_level": level,
            "block_bytes": bytes,
            "dictionary_bytes": dictionary,
            "ratio": result.ratio(),
            "encode_mib_per_second": encode,
            "decode_mib_per_second": decode,
            "get_amplification": result.get_amplification(),
        }));
    }
    out.line(&format!(
        "{level:>7} {:>10} {:>10} {:>7.2} % {encode:>12.1} {decode:>11.1} {:>17.2}",
        ByteSize(bytes.into()).to_string(),
        ByteSize(dictionary.into()).to_string(),
        100.0 * result.ratio(),
        result.get_amplification()
    ))
}

fn sizes(sizes: &[ByteSize]) -> Result<Vec<u32>, Failure> {
    let narrow = |size: &ByteSize| {
        u32::try_from(size.0).map_err(|_| Failure::Usage(format!("{size} is too large")))
    };
    sizes.iter().map(narrow).collect()
}
