//! The map file of a directory that was exported: which file is which content, under which key.
//!
//! It is taken for one only if it has the name and the first line that [`crate::sink::DirectorySink`]
//! gives it. A line that is not of its form is reported, and the file it may mean is read as any other.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::key::PpcKey;
use crate::sink::{MAP_FILE, MAP_HEADER};

/// Longest line that is read: twice a key of the greatest length with all its bytes escaped.
const LINE_BYTES_MAX: u64 = 512 << 10;

/// What a map says.
#[derive(Debug, Default)]
pub(super) struct Map {
    /// Keys by the files' paths below the directory, with `/` between their parts.
    pub(super) keys: HashMap<Vec<u8>, PpcKey>,
    /// What is wrong with it, each with its place.
    pub(super) problems: Vec<String>,
}

impl Map {
    /// The map in `directory`; none if there is no file of that name that begins like one.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        let path = directory.join(MAP_FILE);
        // A pipe of that name would be waited for, a link might lead anywhere.
        if !path.symlink_metadata().ok()?.is_file() {
            return None;
        }
        let mut lines = BufReader::new(File::open(path).ok()?);
        let header = next_line(&mut lines).ok()??;
        if header != MAP_HEADER.as_bytes() {
            return None;
        }
        let mut map = Self::default();
        for number in 2_u64.. {
            let line = match next_line(&mut lines) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    map.problems
                        .push(format!("line {number} cannot be read: {error}"));
                    break;
                }
            };
            match parse(&line) {
                Ok((place, key)) => {
                    map.keys.insert(place.as_bytes().to_vec(), key);
                }
                Err(reason) => map.problems.push(format!(
                    "line {number} is malformed: {reason}; a file it names is taken by its own name"
                )),
            }
        }
        Some(map)
    }
}

/// The next line without its end; none after the last.
fn next_line(lines: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = lines
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read as u64 == LINE_BYTES_MAX {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "it is longer than any that an export writes",
        ));
    }
    Ok((read > 0).then_some(line))
}

/// The place and key of a line.
fn parse(line: &[u8]) -> Result<(&str, PpcKey), String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let fields: Vec<&str> = line.split('\t').collect();
    let [swhid, size, place, key] = fields[..] else {
        return Err(format!("it has {} columns, not 4", fields.len()));
    };
    let key: PpcKey = key
        .parse()
        .map_err(|error: ppc_engine::Error| error.to_string())?;
    if key.swhid().to_string() != swhid {
        return Err("its SWHID is not that of its key".to_owned());
    }
    if size.parse::<u64>().is_err() {
        return Err("its size is no number".to_owned());
    }
    if place.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("its file does not lie below the folder".to_owned());
    }
    Ok((place, key))
}
