//! The file of results: a JSON line for every run, appended and synced at once, and read again on
//! the next start to skip what is done.
//!
//! Invariant: the file holds whole lines. An interrupted append leaves a torn last line, which the
//! next opening cuts off.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ppc_store::{Error, Result};

use crate::results::{Cell, Machine, Record};

/// A run that is done: what, which repetition, on what data.
type Done = (Cell, u32, String);

/// The results of one file.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    path: PathBuf,
    done: HashSet<Done>,
}

impl Ledger {
    /// Opens or creates the file. Runs of another machine or commit are kept, but do not count as
    /// done.
    pub(super) fn open(path: &Path, machine: &Machine) -> Result<Self> {
        let failed = |error| Error::io("open", path, error);
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|error| Error::io("read", path, error))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64)
                .and_then(|()| file.seek(SeekFrom::End(0)))
                .map_err(|error| Error::io("cut a torn line off", path, error))?;
            text.truncate(whole);
        }
        let mut done = HashSet::new();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let record: Record = serde_json::from_slice(line).map_err(|error| {
                Error::invalid_input(format!("line {} is no result: {error}", index + 1))
                    .at_path(path)
                    .with_remedy("name another file for the results, or mend the line")
            })?;
            if record.machine == *machine {
                done.insert((record.cell, record.repeat, record.corpus.sha256));
            }
        }
        Ok(Self {
            file,
            path: path.to_path_buf(),
            done,
        })
    }

    /// Whether the run is in the file.
    pub(super) fn has(&self, cell: &Cell, repeat: u32, corpus_sha256: &str) -> bool {
        // Building the key copies three short strings; a run takes half a second.
        let key = (cell.clone(), repeat, corpus_sha256.to_owned());
        self.done.contains(&key)
    }

    /// Appends the run, on disk when this returns.
    pub(super) fn append(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_vec(record)
            .map_err(|error| Error::invalid_input("a result is no JSON").with_source(error))?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(|error| Error::io("append to", &self.path, error))?;
        let cell = record.cell.clone();
        self.done
            .insert((cell, record.repeat, record.corpus.sha256.clone()));
        Ok(())
    }
}
