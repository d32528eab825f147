//! Reading files of results: one JSON line for each measured run.

use std::path::{Path, PathBuf};

use ppc_store::{Error, Result};

use super::Record;

/// The records of some files, in the order in which they stand there.
#[derive(Debug, Default)]
pub struct Results {
    /// The runs.
    pub records: Vec<Record>,
    /// What a reader should know about the files: lines that were skipped, and why.
    pub notes: Vec<String>,
}

impl Results {
    /// Reads files of JSON lines.
    ///
    /// A last line that an interruption cut short is skipped, and noted.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, a line that is not a record, or no record at all. The message
    /// names file and line.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut results = Self::default();
        for path in paths {
            let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
            results.add(path, &bytes)?;
        }
        if results.records.is_empty() {
            let mut error = Error::invalid_input("no results in it")
                .with_remedy("measure some, for instance with `ppc-bench paper --quick`");
            if let Some(path) = paths.first() {
                error = error.at_path(path);
            }
            return Err(error);
        }
        Ok(results)
    }

    fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let ended = bytes.ends_with(b"\n");
        let mut lines = bytes.split(|&byte| byte == b'\n').enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let number = index + 1;
            match parse(line) {
                Ok(record) => self.records.push(record),
                Err(_) if lines.peek().is_none() && !ended => self.notes.push(format!(
                    "{}, line {number}: cut short, as an interruption leaves it; skipped",
                    path.display()
                )),
                Err(reason) => {
                    return Err(Error::invalid_input(format!(
                        "line {number} is not a result of ppc-bench: {reason}"
                    ))
                    .at_path(path)
                    .with_remedy(format!(
                        "delete the line, for instance with `sed -i {number}d`, or read the file \
                         with the version of ppc-bench that wrote it"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// A record that later arithmetic can trust.
fn parse(line: &[u8]) -> Result<Record, String> {
    let record: Record = serde_json::from_slice(line).map_err(|error| {
        // The parser counts lines of its own; ours is told already.
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or_default();
        format!("{reason} at column {}", error.column())
    })?;
    let domains = &record.costs.energy.domains;
    let energies = domains.iter().flat_map(|domain| {
        let idle = domain.idle_watts.map(|idle| [idle.before, idle.after]);
        std::iter::once(domain.joules).chain(idle.into_iter().flatten())
    });
    let times = [record.seconds, record.costs.cpu_seconds];
    if times.into_iter().chain(energies).any(|figure| figure < 0.0) {
        return Err("a time, an energy or a power is below zero".to_owned());
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::record;

    fn read(text: &str) -> Result<Results> {
        let mut results = Results::default();
        results.add(Path::new("runs.jsonl"), text.as_bytes())?;
        Ok(results)
    }

    fn line() -> String {
        serde_json::to_string(&record().build()).unwrap()
    }

    #[test]
    fn reads_what_was_written() {
        let results = read(&format!("{}\n\n{}\r\n", line(), line())).unwrap();
        assert_eq!(results.records, [record().build(), record().build()]);
        assert!(results.notes.is_empty());
    }

    #[test]
    fn a_torn_last_line_is_skipped_with_a_note() {
        let torn = format!("{}\n{}", line(), &line()[..100]);
        let results = read(&torn).unwrap();
        assert_eq!(results.records.len(), 1);
        assert_eq!(results.notes.len(), 1);
        assert!(
            results.notes[0].contains("runs.jsonl, line 2"),
            "{}",
            results.notes[0]
        );
    }

    #[test]
    fn a_whole_last_line_counts_without_its_newline() {
        let results = read(&line()).unwrap();
        assert_eq!(results.records.len(), 1);
        assert!(results.notes.is_empty());
    }

    #[test]
    fn a_bad_line_elsewhere_is_an_error_that_names_it() {
        for text in [
            format!("{}\nrubbish\n{}\n", line(), line()),
            format!("{}\n{}\n", line(), &line()[..100]),
            format!(
                "{}\n{}\n",
                line(),
                line().replace("\"seconds\":", "\"seconds\":-")
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains("runs.jsonl"), "{error}");
            assert!(error.contains("line 2"), "{error}");
            assert!(error.contains("sed -i 2d"), "{error}");
        }
    }

    #[test]
    fn an_empty_file_says_how_to_fill_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Results::read(&[file.path().to_owned()])
            .unwrap_err()
            .to_string();
        assert!(error.contains("ppc-bench paper"), "{error}");
    }
}
