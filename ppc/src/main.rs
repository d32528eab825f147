//! `ppc`: keep source code in a sixth of its bytes, and get any file of it back at once.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
