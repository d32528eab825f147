//! `ppc get` and `ppc cat`: contents by id.
//!
//! Several contents on standard output are framed as `git cat-file --batch` frames them, so that
//! any bytes can stand between:
//!
//! ```text
//! <id> found <bytes>\n<content>\n
//! <id> missing\n
//! <id> error <message>\n
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use ppc_store::archive::{Archive, Id, Stored};
use ppc_store::{Error, Result};
use serde_json::json;

use super::failure::Failure;
use super::ids::{self, IdArgs};
use super::output::{Output, make_directory, notice};
use super::store::StoreArgs;

/// Get contents by id, one to standard output or many with a status each
///
/// A single ID prints the bare content. Several, or --batch, print for each id, in the order asked,
/// a line `ID found BYTES`, the content and a newline, or a line `ID missing` or `ID error MESSAGE`:
/// the framing of `git cat-file --batch`. With --into each content becomes a file named by its hash
/// and extension, and one line tells id, status and file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  One file:                 ppc get code.ppc swh:1:cnt:94a9ed024d3859793618152ea559a168bbcbb5e2
  ... into a file:          ppc get code.ppc 94a9ed024d3859793618152ea559a168bbcbb5e2 -o COPYING
  By another hash:
      ppc get code.ppc sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
  All of a list:            ppc get code.ppc --batch --into files < swhids.txt
  As a co-process:          ppc get code.ppc --batch")]
pub(crate) struct GetArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    ids: IdArgs,
    /// Write the one content to this file; - is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["batch", "into"])]
    output: Option<PathBuf>,
    /// Write each content to a file of its own in this directory
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Print contents one after the other, nothing between
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc cat code.ppc swh:1:cnt:94a9ed024d3859793618152ea559a168bbcbb5e2 | less
  ppc ls code.ppc --ext md | ppc cat code.ppc --batch | wc")]
pub(crate) struct CatArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    ids: IdArgs,
}

pub(crate) fn run(args: GetArgs, out: &mut Output) -> Result<(), Failure> {
    args.ids.check()?;
    if args.output.is_some() && args.ids.single().is_none() {
        return Err(Failure::Usage(
            "--output takes one id; use --into for several".to_owned(),
        ));
    }
    if let (Some(text), None) = (args.ids.single(), &args.into) {
        let id = ids::parse(text)?;
        let archive = args.store.open_read_only()?;
        return get_one(&archive, text, &id, args.output.as_deref(), out);
    }
    let archive = args.store.open_read_only()?;
    if let Some(dir) = &args.into {
        make_directory(dir)?;
    }
    let mut tally = Tally::default();
    args.ids.for_each_group(|group| {
        for (text, outcome) in group.iter().zip(look_up(&archive, group)) {
            tally.count(&outcome);
            match &args.into {
                Some(dir) => save(dir, text, outcome, out)?,
                None => print_framed(text, outcome, out)?,
            }
        }
        out.flush()
    })?;
    tally.into_result()
}

pub(crate) fn run_cat(args: CatArgs, out: &mut Output) -> Result<(), Failure> {
    args.ids.check()?;
    let archive = args.store.open_read_only()?;
    let mut tally = Tally::default();
    args.ids.for_each_group(|group| {
        for (text, outcome) in group.iter().zip(look_up(&archive, group)) {
            tally.count(&outcome);
            match outcome {
                Ok(Some(stored)) if out.is_json() => out.json(&to_json(text, &stored))?,
                Ok(Some(stored)) => out.bytes(&stored.content)?,
                Ok(None) => notice(&format!("{text} is not in the store")),
                Err(error) => notice(&format!("{text}: {error}")),
            }
        }
        out.flush()
    })?;
    tally.into_result()
}

/// The outcome of each id of a group; a malformed id has an error like an unreadable content.
fn look_up(archive: &Archive, group: &[String]) -> Vec<Result<Option<Stored>>> {
    let parsed: Vec<Result<Id>> = group.iter().map(|text| text.parse()).collect();
    let good: Vec<Id> = parsed.iter().flatten().cloned().collect();
    let mut found = archive.get_many(&good).into_iter();
    let outcome = |id: Result<Id>| id.and_then(|_| found.next().unwrap_or(Ok(None)));
    parsed.into_iter().map(outcome).collect()
}

fn get_one(
    archive: &Archive,
    text: &str,
    id: &Id,
    file: Option<&Path>,
    out: &mut Output,
) -> Result<(), Failure> {
    let Some(stored) = archive.get(id)? else {
        return Err(Failure::Missing(format!("{text} is not in the store")));
    };
    if let Some(file) = file.filter(|file| file.as_os_str() != "-") {
        fs::write(file, &stored.content).map_err(|error| Error::io("write", file, error))?;
        return Ok(());
    }
    if out.is_json() {
        return out.json(&to_json(text, &stored));
    }
    out.bytes(&stored.content)
}

fn print_framed(
    text: &str,
    outcome: Result<Option<Stored>>,
    out: &mut Output,
) -> Result<(), Failure> {
    if out.is_json() {
        return match outcome {
            Ok(Some(stored)) => out.json(&to_json(text, &stored)),
            Ok(None) => out.json(&json!({ "id": text, "status": "missing" })),
            Err(error) => out.json(&json!({
                "id": text, "status": "error", "message": error.to_string(),
            })),
        };
    }
    match outcome {
        Ok(Some(stored)) => {
            out.line(&format!("{text} found {}", stored.content.len()))?;
            out.bytes(&stored.content)?;
            out.bytes(b"\n")
        }
        Ok(None) => out.line(&format!("{text} missing")),
        Err(error) => out.line(&format!("{text} error {error}")),
    }
}

/// Writes one content into `dir` and says so.
fn save(
    dir: &Path,
    text: &str,
    outcome: Result<Option<Stored>>,
    out: &mut Output,
) -> Result<(), Failure> {
    let stored = match outcome {
        Ok(Some(stored)) => stored,
        missing_or_bad => return print_framed(text, missing_or_bad, out),
    };
    let path = dir.join(safe_name(&stored));
    fs::write(&path, &stored.content).map_err(|error| Error::io("write", &path, error))?;
    if out.is_json() {
        return out.json(&json!({
            "id": text,
            "status": "found",
            "key": stored.key.to_string(),
            "bytes": stored.content.len(),
            "file": path.to_string_lossy(),
        }));
    }
    out.line(&format!("{text} found {}", path.display()))
}

/// A file name that any file system takes: the hash, and the extension if it is a plain one.
fn safe_name(stored: &Stored) -> String {
    const EXT_BYTES_MAX: usize = 16;
    let hash = stored.key.hash();
    let ext = stored.key.ext();
    let plain =
        (1..=EXT_BYTES_MAX).contains(&ext.len()) && ext.iter().all(u8::is_ascii_alphanumeric);
    match std::str::from_utf8(ext) {
        Ok(ext) if plain => format!("{hash}.{ext}"),
        _ => hash.to_string(),
    }
}

/// A content for machines. JSON cannot hold bytes: a content that is text is given as it is, any
/// other one as hex digits.
fn to_json(text: &str, stored: &Stored) -> serde_json::Value {
    let mut answer = json!({
        "id": text,
        "status": "found",
        "key": stored.key.to_string(),
        "swhid": stored.key.swhid().to_string(),
        "bytes": stored.content.len(),
    });
    let (field, content) = match std::str::from_utf8(&stored.content) {
        Ok(text) => ("text", text.to_owned()),
        Err(_) => ("hex", hex(&stored.content)),
    };
    if let Some(fields) = answer.as_object_mut() {
        fields.insert(field.to_owned(), content.into());
    }
    answer
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// How many ids had no content to give.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    asked: u64,
    missing: u64,
    failed: u64,
    corrupt: u64,
}

impl Tally {
    pub(crate) fn count<T>(&mut self, outcome: &Result<Option<T>>) {
        self.asked += 1;
        match outcome {
            Ok(Some(_)) => {}
            Ok(None) => self.missing += 1,
            Err(error) if error.kind() == ppc_store::ErrorKind::Corruption => self.corrupt += 1,
            Err(_) => self.failed += 1,
        }
    }

    pub(crate) fn into_result(self) -> Result<(), Failure> {
        let Self {
            asked,
            missing,
            failed,
            corrupt,
        } = self;
        if corrupt > 0 {
            return Err(Failure::Corrupt(format!(
                "{corrupt} of {asked} could not be read for damage; run `ppc verify` to see its \
                 extent"
            )));
        }
        let verb = if missing == 1 { "is" } else { "are" };
        match (missing, failed) {
            (0, 0) => Ok(()),
            (_, 0) => Err(Failure::Missing(format!(
                "{missing} of {asked} {verb} not in the store"
            ))),
            (0, _) => Err(Failure::Missing(format!(
                "{failed} of {asked} could not be looked up"
            ))),
            _ => Err(Failure::Missing(format!(
                "{missing} of {asked} {verb} not in the store, {failed} could not be looked up"
            ))),
        }
    }
}
