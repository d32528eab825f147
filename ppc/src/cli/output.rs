//! Standard output: text or JSON, buffered, never a panic when the reader goes away.

use std::io::{BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ppc_store::Error;
use serde::Serialize;
use serde_json::json;

use super::failure::Failure;

/// Where a command's result goes.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            stdout: BufWriter::with_capacity(64 << 10, std::io::stdout().lock()),
            json,
        }
    }

    /// Whether a machine reads.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes raw bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.write_all(bytes).map_err(Failure::stdout)
    }

    /// Writes one line of text.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes one JSON document on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.stdout, value)
            .map_err(|error| Failure::stdout(error.into()))?;
        self.bytes(b"\n")
    }

    /// Hands on what is buffered. A command that ends well ends with this.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(Failure::stdout)
    }
}

/// Makes a directory and those above it, unless they are there.
pub(crate) fn make_directory(path: &Path) -> Result<(), Failure> {
    if path.exists() && !path.is_dir() {
        let error = Error::invalid_input("there is a file where a folder is wanted").at_path(path);
        return Err(error.with_remedy("name another folder").into());
    }
    std::fs::create_dir_all(path).map_err(|error| Error::io("make folders up to", path, error))?;
    Ok(())
}

/// Control characters escaped, so that a file name with a newline still makes one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Whether a machine reads standard error.
static SAYS_JSON: AtomicBool = AtomicBool::new(false);

/// From here on all that is said on standard error is JSON, one document a line.
pub(crate) fn say_json() {
    SAYS_JSON.store(true, Ordering::Relaxed);
}

/// Whether [`say_json`] was called.
pub(crate) fn says_json() -> bool {
    SAYS_JSON.load(Ordering::Relaxed)
}

/// Writes one JSON document to standard error.
pub(crate) fn say_document(document: &serde_json::Value) {
    // Nobody to tell if standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "{document}");
}

/// Says something on standard error, on one line.
pub(crate) fn notice(text: &str) {
    if says_json() {
        return say_document(&json!({ "notice": text }));
    }
    // Nobody to tell if standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "ppc: {}", one_line(text));
}

/// Whether colours and cursor movements may go to standard error.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Whether standard error may be coloured: a terminal, and no `NO_COLOR` (<https://no-color.org>).
pub(crate) fn stderr_takes_colour() -> bool {
    stderr_is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Which side of a column its cells keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Columns of text, as wide as their widest cell.
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose first row is `header`.
    pub(crate) fn new(header: &[(&str, Align)]) -> Self {
        Self {
            columns: header.iter().map(|&(_, align)| align).collect(),
            rows: vec![header.iter().map(|&(title, _)| title.to_owned()).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), align) in row.iter().zip(&widths).zip(&self.columns) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}")),
                    Align::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            out.line(line.trim_end())?;
        }
        Ok(())
    }
}
