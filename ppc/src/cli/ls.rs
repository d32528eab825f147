//! `ppc ls`: the keys of what is stored.

use clap::Args;
use ppc_store::key::PpcKey;
use serde_json::json;

use super::failure::Failure;
use super::output::Output;
use super::store::{SelectionArgs, StoreArgs};

/// List what is stored, in key order: by extension, file name, and hash
///
/// Reads no content, whatever it lists. A line is a PPC key: extension, name and SWHID; bytes that
/// would not print are written %XX. Every command that takes an ID takes such a line.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  Everything:                    ppc ls code.ppc
  Python files:                  ppc ls code.ppc --ext py
  Files named Makefile:          ppc ls code.ppc --name Makefile
  C headers that begin with x:   ppc ls code.ppc --prefix h.x
  SWHIDs alone:                  ppc ls code.ppc --swhid
  Delete all JSON files:         ppc ls code.ppc --ext json | ppc rm code.ppc --batch")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Print SWHIDs instead of keys
    #[arg(long)]
    swhid: bool,
    /// Print at most this many
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Begin at the end
    #[arg(long)]
    reverse: bool,
}

pub(crate) fn run(args: LsArgs, out: &mut Output) -> Result<(), Failure> {
    let selection = args.selection.selection()?;
    let archive = args.store.open_read_only()?;
    let keys = archive.keys(&selection)?;
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut print = |key: PpcKey| {
        if out.is_json() {
            return out.json(&json!({
                "key": key.to_string(),
                "swhid": key.swhid().to_string(),
                "name": String::from_utf8_lossy(key.name()),
                "ext": String::from_utf8_lossy(key.ext()),
            }));
        }
        if args.swhid {
            return out.line(&key.swhid().to_string());
        }
        out.line(&key.to_string())
    };
    if args.reverse {
        for key in keys.rev().take(limit) {
            print(key?)?;
        }
    } else {
        for key in keys.take(limit) {
            print(key?)?;
        }
    }
    Ok(())
}
