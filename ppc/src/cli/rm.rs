//! `ppc rm`: delete contents.

use clap::Args;
use ppc_engine::Durability;
use ppc_store::Result;
use ppc_store::archive::{Deleted, Id};
use serde_json::json;

use super::failure::Failure;
use super::get::Tally;
use super::ids::IdArgs;
use super::output::Output;
use super::store::StoreArgs;

/// Delete contents, by whichever id
///
/// When the command returns, nobody can get them any more, and that survives a power cut. Their
/// bytes leave the disk when their tables are next rewritten: run `ppc compact` to have that now.
/// Exits with 3 if any was not there.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc rm code.ppc swh:1:cnt:94a9ed024d3859793618152ea559a168bbcbb5e2
  A takedown list, gone from the disk as well:
      ppc rm code.ppc --batch < takedown.txt && ppc compact code.ppc")]
pub(crate) struct RmArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    ids: IdArgs,
}

pub(crate) fn run(args: RmArgs, out: &mut Output) -> Result<(), Failure> {
    args.ids.check()?;
    let archive = args.store.open_existing()?;
    let mut tally = Tally::default();
    args.ids.for_each_group(|group| {
        let outcomes: Vec<Result<Option<Deleted>>> = group
            .iter()
            .map(|text| archive.delete(&text.parse::<Id>()?, Durability::Buffered))
            .collect();
        // Said only once it is so.
        archive.sync()?;
        for (text, outcome) in group.iter().zip(outcomes) {
            tally.count(&outcome);
            report(text, outcome, out)?;
        }
        out.flush()
    })?;
    archive.close()?;
    tally.into_result()
}

fn report(text: &str, outcome: Result<Option<Deleted>>, out: &mut Output) -> Result<(), Failure> {
    let (status, detail) = match outcome {
        Ok(Some(deleted)) => ("deleted", Some(deleted.key.to_string())),
        Ok(None) => ("missing", None),
        Err(error) => ("error", Some(error.to_string())),
    };
    if out.is_json() {
        let field = if status == "error" { "message" } else { "key" };
        return out.json(&json!({ "id": text, "status": status, field: detail }));
    }
    let detail = detail.map(|text| format!(" {text}")).unwrap_or_default();
    out.line(&format!("{text} {status}{detail}"))
}
