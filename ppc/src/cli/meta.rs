//! What the command says about itself: shell completions and man pages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use ppc_store::Error;

use super::Cli;
use super::failure::Failure;
use super::output::{Output, make_directory};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bash:  ppc completions bash > ~/.local/share/bash-completion/completions/ppc
  zsh:   ppc completions zsh > ~/.zfunc/_ppc
  fish:  ppc completions fish > ~/.config/fish/completions/ppc.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run_completions(args: CompletionsArgs, out: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ppc", &mut script);
    out.bytes(&script)
}

/// Print the man page, or write the pages of all commands into a directory
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  Read it:       ppc man | man -l -
  Install all:   ppc man --into ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write ppc.1 and a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub(crate) fn run_man(args: ManArgs, out: &mut Output) -> Result<(), Failure> {
    let Some(dir) = args.into else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command())
            .render(&mut page)
            .map_err(Failure::stdout)?;
        return out.bytes(&page);
    };
    let failed = |error| Error::io("write the man pages into", &dir, error);
    make_directory(&dir)?;
    clap_mangen::generate_to(Cli::command(), &dir).map_err(failed)?;
    Ok(())
}
