//! Tells the program which commit it was built from: a figure without one cannot be repeated.

use std::process::Command;

fn main() {
    // A commit made, or another branch checked out.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    // Changes that are not committed.
    let sources = ["../engine", "../ppc", "../Cargo.toml", "../Cargo.lock", "."];
    for source in [
        "../engine/src",
        "../ppc/src",
        "src",
        "build.rs",
        "../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    // Without optional locks, or `status` would write to the index and disturb whoever works there.
    let mut status = vec![
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
    ];
    status.extend(sources);
    let changed = git(&status).is_some_and(|changes| !changes.is_empty());
    let mark = if changed { "-dirty" } else { "" };
    println!("cargo::rustc-env=PPC_BENCH_COMMIT={commit}{mark}");
}

/// What git prints, where it runs and succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
