//! How a command ends: exit codes, and the one line on standard error that says why.

use std::io::Write;
use std::process::ExitCode;

use ppc_store::{Error, ErrorKind};
use serde_json::json;

use super::output::one_line;

/// Exit code when an operation failed.
const EXIT_ERROR: u8 = 1;
/// Exit code when the command line makes no sense.
pub(crate) const EXIT_USAGE: u8 = 2;
/// Exit code when something that was asked for is not there.
const EXIT_MISSING: u8 = 3;
/// Exit code when stored bytes are damaged.
const EXIT_CORRUPT: u8 = 4;
/// Exit code when an import kept what it had read, which is not all: a source failed midway, or held
/// what could not be read.
const EXIT_PARTLY: u8 = 5;
/// Exit code after Ctrl-C, as shells count it: 128 and the signal's number.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// What the help says about exit codes.
pub(crate) const EXIT_CODES_HELP: &str = "\
Exit codes:
    0  done
    1  failed; one line on standard error says what, where and what to do
    2  the command line makes no sense
    3  some of what was asked for is not in the store; of `ppc tune`: nothing that was tried keeps
       to the limits
    4  stored bytes are damaged: run `ppc verify`, then `ppc salvage`
    5  an import could not read everything: a source failed midway, or files in it could not be
       read; what was read is stored
  130  interrupted; what was committed is kept";

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library said no.
    Error(Error),
    /// What was given to read is wrong; if it is damaged, the store is not.
    Input(Error),
    /// An import failed, and kept some of what it had read; the text says how much.
    Partly {
        /// Why.
        error: Error,
        /// Whether it is a source that failed, not the store.
        is_input: bool,
        /// What is kept, and how to go on.
        kept: String,
    },
    /// An import has stored all but some of what it was given; the text says how much is not.
    Incomplete(String),
    /// The arguments parse but contradict each other or the store.
    Usage(String),
    /// Something asked for is not there; the text says what.
    Missing(String),
    /// A check found damage; the text says how much.
    Corrupt(String),
    /// Ctrl-C; the text says what is kept and how to go on.
    Interrupted(String),
    /// Whoever read our output has seen enough. Not worth a word.
    BrokenPipe,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    /// A failed write to standard output.
    pub(crate) fn stdout(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::Error(Error::new(ErrorKind::Io, "cannot write to standard output").with_source(error))
    }

    /// A failed read from standard input.
    pub(crate) fn stdin(error: std::io::Error) -> Self {
        Self::Error(Error::new(ErrorKind::Io, "cannot read from standard input").with_source(error))
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Partly { is_input: true, .. } | Self::Incomplete(_) => EXIT_PARTLY,
            Self::Error(error) | Self::Partly { error, .. }
                if error.kind() == ErrorKind::Corruption =>
            {
                EXIT_CORRUPT
            }
            Self::Error(_) | Self::Input(_) | Self::Partly { .. } => EXIT_ERROR,
            Self::Usage(_) => EXIT_USAGE,
            Self::Missing(_) => EXIT_MISSING,
            Self::Corrupt(_) => EXIT_CORRUPT,
            Self::Interrupted(_) => EXIT_INTERRUPTED,
            Self::BrokenPipe => 0,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Error(error) | Self::Input(error) | Self::Partly { error, .. } => {
                error.kind().name()
            }
            Self::Incomplete(_) => "incomplete",
            Self::Usage(_) => "usage",
            Self::Missing(_) => "missing",
            Self::Corrupt(_) => ErrorKind::Corruption.name(),
            Self::Interrupted(_) => "interrupted",
            Self::BrokenPipe => "broken-pipe",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Error(error) | Self::Input(error) => one_line(&error.to_string()),
            Self::Partly { error, kept, .. } => one_line(&format!("{error}; {kept}")),
            Self::Incomplete(text)
            | Self::Usage(text)
            | Self::Missing(text)
            | Self::Corrupt(text)
            | Self::Interrupted(text) => one_line(text),
            Self::BrokenPipe => "broken pipe".to_owned(),
        }
    }

    /// Says why on standard error, as JSON if asked, and gives the exit code.
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        let code = self.exit_code();
        if !matches!(self, Self::BrokenPipe) {
            let line = if as_json {
                self.to_json(code).to_string()
            } else {
                format!("ppc: {}", self.message())
            };
            // Nobody to tell if standard error is gone as well.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
        ExitCode::from(code)
    }

    fn to_json(&self, code: u8) -> serde_json::Value {
        let mut error = json!({
            "kind": self.kind(),
            "message": self.message(),
            "exit_code": code,
        });
        if let (
            Self::Error(source) | Self::Input(source) | Self::Partly { error: source, .. },
            Some(fields),
        ) = (self, error.as_object_mut())
        {
            if let Some(path) = source.path() {
                fields.insert("path".into(), json!(path.to_string_lossy()));
            }
            if let Some(offset) = source.offset() {
                fields.insert("offset".into(), json!(offset));
            }
            if let Some(remedy) = source.remedy() {
                fields.insert("remedy".into(), json!(remedy));
            }
            if let Self::Partly { kept, .. } = self {
                fields.insert("kept".into(), json!(kept));
            }
        }
        json!({ "error": error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_it_quotes() {
        let failure = Failure::Usage("no file \"a\nb\"".to_owned());
        assert_eq!(failure.message(), "no file \"a\\nb\"");
    }

    #[test]
    fn damage_has_its_own_exit_code() {
        let failure = Failure::from(Error::corruption("bad frame"));
        assert_eq!(failure.exit_code(), EXIT_CORRUPT);
        assert_eq!(failure.to_json(4)["error"]["kind"], "corruption");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::stdout(std::io::ErrorKind::BrokenPipe.into());
        assert_eq!(failure.exit_code(), 0);
    }
}
