//! The command line: what can be asked, and how a run begins and ends.
//!
//! Conventions that every command keeps: the store comes first; results go to standard output,
//! progress, notices and the one error line to standard error; `--json` makes both readable to
//! machines, a document a line: on standard error an object whose one member is called `error`,
//! `notice`, `problem` or `progress`; sizes are written as in [`size`]; exit codes are those of [`failure`].

mod failure;
mod ids;
mod interrupt;
mod output;
mod progress;
mod size;
mod sources;
mod store;

mod checkpoint;
mod compact;
mod dump;
mod export;
mod get;
mod has;
mod import;
mod ls;
mod meta;
mod put;
mod rm;
mod salvage;
mod stats;
mod tune;
mod verify;
mod whatif;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use failure::{EXIT_CODES_HELP, EXIT_USAGE, Failure};
use output::Output;

const ABOUT: &str = "Keep source code in a sixth of its bytes, and get any file of it back at once";

const LONG_ABOUT: &str = "\
Keep source code in a sixth of its bytes, and get any file of it back at once.

ppc keeps the contents of files in a STORE, a directory of compressed tables. Contents are stored \
once, under the file name they were first seen with, and are found by SWHID (swh:1:cnt:...), by \
PPC key (h.doxygen.swh:1:cnt:..., as `ppc ls` prints it) or by hash.";

const EXAMPLES: &str = "\
Examples:
  Import a folder, and look at what it takes:
      ppc import code.ppc ~/src
      ppc stats code.ppc
  Import a dataset, within 400 MiB of memory:
      ppc import code.ppc data/*.parquet --memory 400MiB
  Get a file back by its SWHID:
      ppc cat code.ppc swh:1:cnt:94a9ed024d3859793618152ea559a168bbcbb5e2
  Every Python file, as Parquet:
      ppc export code.ppc python.parquet --ext py
  Check every byte:
      ppc verify code.ppc";

/// Everything that can be asked.
#[derive(Debug, Parser)]
#[command(
    name = "ppc",
    version,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = "Run `ppc COMMAND --help` for examples of each command.",
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES_HELP}"),
    max_term_width = 100,
    infer_subcommands = false,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Global {
    /// Print results as JSON, one document a line, and on standard error the error, notices,
    /// problems and progress likewise
    #[arg(long, global = true, display_order = 100)]
    json: bool,
    /// Print no progress
    #[arg(short, long, global = true, display_order = 101)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Get(get::GetArgs),
    Cat(get::CatArgs),
    Ls(ls::LsArgs),
    Has(has::HasArgs),
    Put(put::PutArgs),
    Rm(rm::RmArgs),
    Stats(stats::StatsArgs),
    Verify(verify::VerifyArgs),
    Salvage(salvage::SalvageArgs),
    Compact(compact::CompactArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Dump(dump::DumpArgs),
    Tune(tune::TuneArgs),
    #[command(name = "whatif")]
    WhatIf(whatif::WhatIfArgs),
    Completions(meta::CompletionsArgs),
    Man(meta::ManArgs),
}

/// Runs the command of this process.
pub(crate) fn main() -> ExitCode {
    interrupt::install();
    silence_caught_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_usage(&error),
    };
    let global = cli.global;
    if global.json {
        output::say_json();
    }
    let mut out = Output::new(global.json);
    let outcome = run(cli, &mut out);
    // What was found before a failure is still worth having.
    let flushed = out.flush();
    match outcome.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(global.json),
    }
}

/// Keeps panics that become errors off standard error, which has one line for each error.
fn silence_caught_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !ppc_store::source::panics_become_errors() {
            print(panic);
        }
    }));
}

fn run(cli: Cli, out: &mut Output) -> Result<(), Failure> {
    let global = cli.global;
    match cli.command {
        Command::Import(args) => import::run(args, global, out),
        Command::Export(args) => export::run(args, global, out),
        Command::Get(args) => get::run(args, out),
        Command::Cat(args) => get::run_cat(args, out),
        Command::Ls(args) => ls::run(args, out),
        Command::Has(args) => has::run(args, out),
        Command::Put(args) => put::run(args, out),
        Command::Rm(args) => rm::run(args, out),
        Command::Stats(args) => stats::run(args, global, out),
        Command::Verify(args) => verify::run(args, global, out),
        Command::Salvage(args) => salvage::run(args, global, out),
        Command::Compact(args) => compact::run(args, global, out),
        Command::Checkpoint(args) => checkpoint::run(args, out),
        Command::Dump(args) => dump::run(args, out),
        Command::Tune(args) => tune::run(args, global, out),
        Command::WhatIf(args) => whatif::run(args, global, out),
        Command::Completions(args) => meta::run_completions(args, out),
        Command::Man(args) => meta::run_man(args, out),
    }
}

/// Help and version are answers; anything else is clap's error, as JSON where that was asked for.
fn refuse_usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        return Failure::Usage(usage_message(&error.to_string())).report(true);
    }
    // Nobody to tell if the terminal is gone.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 })
}

/// All that clap says of what is wrong, on one line: its lines up to the usage and the pointer to the
/// help.
fn usage_message(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines = text.lines().map(str::trim);
    let said = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let said: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an error of several lines the first alone was told, and it ended in a colon.
    #[test]
    fn usage_messages_are_whole() {
        for (words, message) in [
            (
                &["ppc", "get"][..],
                "the following required arguments were not provided: <STORE> <ID>...",
            ),
            (
                &["ppc", "completions", "tcsh"],
                "invalid value 'tcsh' for '<SHELL>' [possible values: bash, elvish, fish, \
                 powershell, zsh] tip: a similar value exists: 'zsh'",
            ),
        ] {
            let error = Cli::try_parse_from(words).unwrap_err();
            assert_eq!(usage_message(&error.to_string()), message);
        }
    }
}
