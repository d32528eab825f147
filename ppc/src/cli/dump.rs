//! `ppc dump`: what the files of a store say of themselves.

use std::path::PathBuf;

use clap::Args;
use ppc_engine::{describe_store, describe_table};
use serde_json::json;

use super::failure::Failure;
use super::output::Output;

/// Describe a store's manifest, or one of its table files
///
/// For looking into a store that misbehaves. Of a store: its keyspaces, levels, tables and logs. Of
/// a table: how it was built, and where its parts lie. Reads no content.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc dump code.ppc
  ppc dump code.ppc/000007.table")]
pub(crate) struct DumpArgs {
    /// Directory of a store, or a table file
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

pub(crate) fn run(args: DumpArgs, out: &mut Output) -> Result<(), Failure> {
    let text = if args.path.is_dir() {
        describe_store(&args.path)?.to_string()
    } else {
        describe_table(&args.path)?.to_string()
    };
    if out.is_json() {
        return out.json(&json!({ "description": text }));
    }
    out.line(text.trim_end())
}
