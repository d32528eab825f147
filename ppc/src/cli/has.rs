//! `ppc has`: which ids are stored.

use clap::Args;
use ppc_store::Result;
use ppc_store::archive::Id;
use serde_json::json;

use super::failure::Failure;
use super::get::Tally;
use super::ids::IdArgs;
use super::output::Output;
use super::store::StoreArgs;

/// Tell whether contents are stored, without reading them
///
/// Prints a line `ID found` or `ID missing` for each id, in the order asked. Exits with 3 if any is
/// missing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc has code.ppc swh:1:cnt:94a9ed024d3859793618152ea559a168bbcbb5e2
  What a list still lacks:   ppc has code.ppc --batch < swhids.txt | grep missing")]
pub(crate) struct HasArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    ids: IdArgs,
}

pub(crate) fn run(args: HasArgs, out: &mut Output) -> Result<(), Failure> {
    args.ids.check()?;
    let archive = args.store.open_read_only()?;
    let mut tally = Tally::default();
    args.ids.for_each_group(|group| {
        for text in group {
            let outcome = text
                .parse::<Id>()
                .and_then(|id| Ok(archive.has(&id)?.then_some(())));
            tally.count(&outcome);
            let status = match &outcome {
                Ok(Some(())) => "found",
                Ok(None) => "missing",
                Err(_) => "error",
            };
            let message = outcome.err().map(|error| error.to_string());
            if out.is_json() {
                out.json(&json!({ "id": text, "status": status, "message": message }))?;
            } else {
                let message = message.map(|text| format!(" {text}")).unwrap_or_default();
                out.line(&format!("{text} {status}{message}"))?;
            }
        }
        out.flush()
    })?;
    tally.into_result()
}
