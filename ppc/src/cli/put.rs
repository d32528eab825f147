//! `ppc put`: store single files.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ppc_engine::Durability;
use ppc_store::archive::{Archive, ArchiveOptions};
use ppc_store::{Error, key};
use serde_json::json;

use super::failure::Failure;
use super::output::Output;
use super::store::StoreArgs;

/// Store single files; for many, `ppc import` is faster and smaller
///
/// Prints for each file a line `FILE new KEY`, or `FILE present KEY` if its content was stored already,
/// perhaps under another name. When the command returns, the contents survive a power cut.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc put code.ppc setup.py
  curl -s https://example.org/x.c | ppc put code.ppc - --name x.c")]
pub(crate) struct PutArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Files to store; - is standard input, and needs --name
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// File name to store it under, instead of the file's own
    #[arg(long, value_name = "NAME")]
    name: Option<OsString>,
}

pub(crate) fn run(args: PutArgs, out: &mut Output) -> Result<(), Failure> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Failure::Usage("--name goes with one file".to_owned()));
    }
    // Everything that can be wrong with the files is found before the store is touched.
    for file in &args.files {
        if !is_stdin(file) {
            check(file)?;
        } else if args.name.is_none() {
            return Err(Failure::Usage(
                "standard input has no file name; give one with --name".to_owned(),
            ));
        }
    }
    let archive = args.store.open(ArchiveOptions::default())?;
    for file in &args.files {
        put_one(&archive, file, args.name.as_ref(), out)?;
    }
    archive.sync()?;
    archive.close()?;
    Ok(())
}

/// Fails on what is no regular file, or cannot be opened. A pipe is not even opened: that would wait
/// for whoever writes to it.
fn check(file: &Path) -> Result<(), Failure> {
    let cannot_open = |error| Error::io("open", file, error);
    let metadata = std::fs::metadata(file).map_err(cannot_open)?;
    let error = |message: &str, remedy: &str| {
        let error = Error::invalid_input(message).at_path(file);
        Err(error.with_remedy(remedy).into())
    };
    if metadata.is_dir() {
        return error("a folder, not a file", "`ppc import` takes folders");
    }
    if !metadata.is_file() {
        return error(
            "a special file, not a regular one",
            "give what comes from it on standard input, as -, with --name",
        );
    }
    std::fs::File::open(file).map_err(cannot_open)?;
    Ok(())
}

fn put_one(
    archive: &Archive,
    file: &Path,
    name: Option<&OsString>,
    out: &mut Output,
) -> Result<(), Failure> {
    let content = if is_stdin(file) {
        let mut content = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut content);
        read.map_err(Failure::stdin)?;
        content
    } else {
        std::fs::read(file).map_err(|error| Error::io("read", file, error))?
    };
    let name = match name {
        Some(name) => name.as_encoded_bytes(),
        None => key::file_name(file.as_os_str().as_encoded_bytes()),
    };
    let put = archive.put(name, &content, Durability::Buffered)?;
    let status = if put.is_new { "new" } else { "present" };
    if out.is_json() {
        return out.json(&json!({
            "file": file.to_string_lossy(),
            "key": put.key.to_string(),
            "swhid": put.key.swhid().to_string(),
            "new": put.is_new,
        }));
    }
    out.line(&format!("{} {status} {}", file.display(), put.key))
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}
