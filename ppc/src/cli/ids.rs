//! Ids on the command line and on standard input.

use std::io::{BufRead, BufReader, StdinLock};

use clap::Args;
use ppc_store::archive::Id;

use super::failure::Failure;

/// Ids answered together; one multi-get.
const GROUP_IDS_MAX: usize = 256;
/// Longest line taken for an id: twice the longest key, for its escapes.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// Which contents: ids as arguments, or on standard input.
#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// What to find: a SWHID, a PPC key as `ppc ls` prints it, 40 hex digits (a git blob id), or
    /// another hash as in sha256:<hex>
    #[arg(value_name = "ID", required_unless_present = "batch")]
    ids: Vec<String>,
    /// Read ids from standard input, one a line
    #[arg(short, long, conflicts_with = "ids")]
    batch: bool,
}

impl IdArgs {
    /// The one id asked for, if it is one and on the command line.
    pub(crate) fn single(&self) -> Option<&str> {
        match self.ids.as_slice() {
            [id] if !self.batch => Some(id),
            _ => None,
        }
    }

    /// Refuses malformed ids on the command line, before anything is done. On standard input they
    /// are answered like any other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.ids.iter().try_for_each(|text| parse(text).map(drop))
    }

    /// Calls `answer` with all ids, a group at a time, in order.
    pub(crate) fn for_each_group(
        &self,
        mut answer: impl FnMut(&[String]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.batch {
            return self.ids.chunks(GROUP_IDS_MAX).try_for_each(answer);
        }
        let mut lines = IdLines::new();
        loop {
            let group = lines.next_group()?;
            if group.is_empty() {
                return Ok(());
            }
            answer(&group)?;
        }
    }
}

/// Lines of standard input. Groups end where reading on would wait, so that a program that writes
/// one id and waits for its answer gets it.
struct IdLines {
    stdin: BufReader<StdinLock<'static>>,
}

impl IdLines {
    fn new() -> Self {
        Self {
            stdin: BufReader::with_capacity(64 << 10, std::io::stdin().lock()),
        }
    }

    /// The next lines that are not blank; none at the end of input.
    fn next_group(&mut self) -> Result<Vec<String>, Failure> {
        let mut group = Vec::new();
        while group.is_empty() || (group.len() < GROUP_IDS_MAX && self.has_whole_line()) {
            let mut line = Vec::new();
            let read = std::io::Read::take(&mut self.stdin, LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)
                .map_err(Failure::stdin)?;
            if read == 0 {
                break;
            }
            if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
                return Err(Failure::Usage(
                    "standard input has a line of more than 256 KiB; give one id a line".into(),
                ));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if !line.is_empty() {
                group.push(line.to_owned());
            }
        }
        Ok(group)
    }

    fn has_whole_line(&self) -> bool {
        self.stdin.buffer().contains(&b'\n')
    }
}

/// An id from the command line, where a malformed one is a usage error.
pub(crate) fn parse(text: &str) -> Result<Id, Failure> {
    text.parse::<Id>()
        .map_err(|error| Failure::Usage(error.to_string()))
}
