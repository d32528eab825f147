//! Progress on standard error: a bar with bytes, rate and time left on a terminal, a plain line
//! every few seconds elsewhere, a JSON document where `--json` asks for it, nothing when asked to be
//! quiet. Problems of single items are
//! printed between, the first ones of each kind.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ppc_store::progress::{Observer, Phase, Problem, ProblemKind, Progress, Wish};
use ppc_store::{Error, Result};
use serde_json::json;

use super::interrupt;
use super::output::{notice, say_document, says_json, stderr_is_terminal, stderr_takes_colour};
use super::size::{ByteSize, duration, grouped};

/// Time between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// Problems of one kind that are printed; the rest are counted only.
const PROBLEMS_PRINTED_MAX: u64 = 20;

/// Watches one operation on behalf of the person at the terminal.
pub(crate) struct Watcher {
    state: Mutex<State>,
}

struct State {
    display: Display,
    phase: Option<Phase>,
    phase_start: Instant,
    problems: HashMap<ProblemKind, u64>,
    problem_log: Option<BufWriter<File>>,
    /// Problems for standard output, where they go there and not to standard error.
    problem_documents: Option<Vec<serde_json::Value>>,
    interrupts_seen: usize,
    /// What to say at the first Ctrl-C; none for an operation with nothing to finish.
    on_first_interrupt: Option<&'static str>,
}

enum Display {
    Bar(ProgressBar),
    Lines { last: Instant },
    Quiet,
}

impl Watcher {
    /// A watcher that shows progress unless `quiet`.
    ///
    /// `on_first_interrupt` is printed at the first Ctrl-C, which then asks the operation to
    /// finish what it took in; without it the first one already asks it to abandon.
    pub(crate) fn new(quiet: bool, on_first_interrupt: Option<&'static str>) -> Self {
        interrupt::graceful();
        let display = if quiet {
            Display::Quiet
        } else if stderr_is_terminal() && !says_json() {
            Display::Bar(ProgressBar::with_draw_target(
                None,
                ProgressDrawTarget::stderr(),
            ))
        } else {
            Display::Lines {
                last: Instant::now(),
            }
        };
        Self {
            state: Mutex::new(State {
                display,
                phase: None,
                phase_start: Instant::now(),
                problems: HashMap::new(),
                problem_log: None,
                problem_documents: None,
                interrupts_seen: 0,
                on_first_interrupt,
            }),
        }
    }

    /// From here on there is something to finish at the first Ctrl-C; says `notice` then.
    pub(crate) fn finish_on_interrupt(&self, notice: &'static str) {
        self.state().on_first_interrupt = Some(notice);
    }

    /// Writes every problem to `path` as well, a JSON document a line.
    pub(crate) fn log_problems_to(&self, path: &Path) -> Result<()> {
        let file = File::create(path).map_err(|error| Error::io("create", path, error))?;
        self.state().problem_log = Some(BufWriter::new(file));
        Ok(())
    }

    /// Keeps problems for standard output instead of saying them on standard error, for commands
    /// whose result they are.
    pub(crate) fn keep_problems(&self) {
        self.state().problem_documents = Some(Vec::new());
    }

    /// The problems that were kept.
    pub(crate) fn kept_problems(&self) -> Vec<serde_json::Value> {
        let kept = &mut self.state().problem_documents;
        kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the bar off the screen and completes the problem log. Call before printing results.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut state = self.state();
        if let Display::Bar(bar) = &state.display {
            bar.finish_and_clear();
        }
        let is_kept = state.problem_documents.is_some();
        let hidden: Vec<_> = state
            .problems
            .iter()
            .filter(|(_, count)| **count > PROBLEMS_PRINTED_MAX && !is_kept)
            .map(|(kind, count)| (kind.name(), count - PROBLEMS_PRINTED_MAX))
            .collect();
        for (kind, count) in hidden {
            state.say(&format!("{} more of kind {kind}", grouped(count)));
        }
        if let Some(log) = &mut state.problem_log {
            log.flush().map_err(|error| {
                Error::new(ppc_store::ErrorKind::Io, "cannot write the problem log")
                    .with_source(error)
            })?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while printing leaves nothing half done that matters here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A problem for machines.
fn problem_document(problem: &Problem) -> serde_json::Value {
    let mut document = json!({
        "kind": problem.kind.name(),
        "origin": problem.origin,
        "message": problem.message,
    });
    let Some(fields) = document.as_object_mut() else {
        return document;
    };
    if let Some(place) = &problem.place {
        fields.insert("file".into(), json!(place.path.to_string_lossy()));
        if let Some(bytes) = &place.bytes {
            fields.insert("from".into(), json!(bytes.start));
            fields.insert("to".into(), json!(bytes.end));
        }
        if let Some(keyspace) = &place.keyspace {
            fields.insert("keyspace".into(), json!(keyspace));
        }
    }
    if let Some(key) = &problem.key {
        fields.insert("key".into(), json!(key.to_string()));
        fields.insert("swhid".into(), json!(key.swhid().to_string()));
    }
    document
}

impl Observer for Watcher {
    fn progress(&self, progress: &Progress) {
        self.state().show(progress);
    }

    fn problem(&self, problem: &Problem) {
        let mut state = self.state();
        let document = problem_document(problem);
        if let Some(log) = &mut state.problem_log {
            // A full disk shows up at the flush in `finish`.
            let _ = writeln!(log, "{document}");
        }
        let count = state.problems.entry(problem.kind).or_default();
        *count += 1;
        let is_first = *count <= PROBLEMS_PRINTED_MAX;
        if let Some(documents) = &mut state.problem_documents {
            documents.push(document);
        } else if is_first && says_json() {
            say_document(&json!({ "problem": document }));
        } else if is_first {
            state.say(&format!("{}: {}", problem.origin, problem.message));
        }
    }

    fn wish(&self) -> Wish {
        let requests = interrupt::requests();
        if requests == 0 {
            return Wish::GoOn;
        }
        let mut state = self.state();
        let Some(notice) = state.on_first_interrupt else {
            return Wish::Abandon;
        };
        if state.interrupts_seen == 0 {
            state.say(notice);
        }
        state.interrupts_seen = requests;
        match requests {
            1 => Wish::Finish,
            _ => Wish::Abandon,
        }
    }
}

impl State {
    fn show(&mut self, progress: &Progress) {
        let new_phase = self.phase != Some(progress.phase);
        if new_phase {
            self.phase = Some(progress.phase);
            self.phase_start = Instant::now();
        }
        match &mut self.display {
            Display::Bar(bar) => {
                if new_phase {
                    begin_bar(bar, progress);
                }
                bar.set_position(progress.bytes);
                bar.set_message(counted(progress));
            }
            Display::Lines { last } => {
                if last.elapsed() >= PLAIN_INTERVAL {
                    *last = Instant::now();
                    if says_json() {
                        return say_document(&document(progress, self.phase_start.elapsed()));
                    }
                    let line = plain_line(progress, self.phase_start.elapsed());
                    let _ = writeln!(std::io::stderr().lock(), "{line}");
                }
            }
            Display::Quiet => {}
        }
    }

    /// Prints a notice above the bar.
    fn say(&mut self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| notice(text)),
            _ => notice(text),
        }
    }
}

fn begin_bar(bar: &ProgressBar, progress: &Progress) {
    let numbers = "{binary_bytes_per_sec}, {msg}";
    let template = if progress.bytes_total.is_some() {
        let bar = if stderr_takes_colour() {
            "{bar:30.cyan/dim}"
        } else {
            "{bar:30}"
        };
        format!(
            "{{prefix}} {bar} {{binary_bytes}} of {{binary_total_bytes}}, {numbers}, {{eta}} left"
        )
    } else {
        format!("{{prefix}} {{spinner}} {{binary_bytes}}, {numbers}, {{elapsed}}")
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.reset();
    bar.set_prefix(progress.phase.name());
    if let Some(total) = progress.bytes_total {
        bar.set_length(total);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
}

/// How many files there were, or what is counted instead.
fn counted(progress: &Progress) -> String {
    let what = match progress.phase {
        Phase::ReadingNames | Phase::SortingNames => "rows",
        Phase::Measuring => "measurements",
        _ => "files",
    };
    format!("{} {what}", grouped(progress.files))
}

/// A plain line, for machines.
fn document(progress: &Progress, elapsed: Duration) -> serde_json::Value {
    json!({ "progress": {
        "phase": progress.phase.name(),
        "files": progress.files,
        "bytes": progress.bytes,
        "bytes_total": progress.bytes_total,
        "seconds": elapsed.as_secs_f64(),
    } })
}

fn plain_line(progress: &Progress, elapsed: Duration) -> String {
    let rate = progress.bytes as f64 / elapsed.as_secs_f64().max(0.001);
    let mut line = format!("{} {}", progress.phase.name(), ByteSize(progress.bytes));
    if let Some(total) = progress.bytes_total {
        line.push_str(&format!(" of {}", ByteSize(total)));
    }
    line.push_str(&format!(
        ", {}/s, {}",
        ByteSize(rate as u64),
        counted(progress)
    ));
    if let Some(total) = progress.bytes_total
        && rate >= 1.0
    {
        let left = total.saturating_sub(progress.bytes) as f64 / rate;
        let left = Duration::try_from_secs_f64(left).unwrap_or_default();
        line.push_str(&format!(", {} left", duration(left)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_tells_bytes_rate_and_time_left() {
        let mut progress = Progress::start(Phase::Reading, Some(4 << 30));
        progress.bytes = 1 << 30;
        progress.files = 123_456;
        assert_eq!(
            plain_line(&progress, Duration::from_secs(10)),
            "reading 1.00 GiB of 4.00 GiB, 102 MiB/s, 123,456 files, 30 s left"
        );
    }
}
