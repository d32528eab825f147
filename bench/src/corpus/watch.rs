//! Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use ppc_store::progress::{Observer, Phase, Problem, ProblemKind, Progress};

use super::size::ByteSize;

/// Time between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// Problems of one kind that are printed; the rest are counted only.
const PROBLEMS_PRINTED_MAX: u64 = 5;

/// Shows how far a run is.
pub(super) struct Watch {
    bar: ProgressBar,
    is_terminal: bool,
    state: Mutex<State>,
}

struct State {
    phase: Option<Phase>,
    /// What is being fetched or unpacked beside the phase.
    note: String,
    last_line: Instant,
    problems: BTreeMap<ProblemKind, u64>,
}

impl Watch {
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self {
            bar: if is_terminal {
                ProgressBar::no_length()
            } else {
                ProgressBar::hidden()
            },
            is_terminal,
            state: Mutex::new(State {
                phase: None,
                note: String::new(),
                last_line: Instant::now(),
                problems: BTreeMap::new(),
            }),
        }
    }

    /// Says what is being worked on; shown with the next progress.
    pub(super) fn note(&self, note: String) {
        self.bar.set_message(note.clone());
        self.state.lock().note = note;
    }

    /// Prints a line between.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the bar away, and tells how many problems there were.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
        for (kind, count) in &self.state.lock().problems {
            if *count > PROBLEMS_PRINTED_MAX {
                eprintln!("{}: {count} in all", kind.name());
            }
        }
    }

    fn begin(&self, phase: Phase, total: Option<u64>) {
        let counts = match total {
            Some(_) => "{bar:20} {bytes} of {total_bytes}, {eta} left",
            None => "{bytes} {binary_bytes_per_sec}",
        };
        let template = format!("{} {counts} {{wide_msg}}", phase.name());
        // The template is a constant but for words; should it be refused, the default serves.
        if let Ok(style) = ProgressStyle::with_template(&template) {
            self.bar.set_style(style);
        }
        self.bar.reset();
        if let Some(total) = total {
            self.bar.set_length(total);
        }
    }
}

impl Observer for Watch {
    fn progress(&self, progress: &Progress) {
        let mut state = self.state.lock();
        let is_new = state.phase != Some(progress.phase);
        if is_new {
            if state.phase.is_some() {
                // What was read is no news of what is written.
                state.note.clear();
                self.bar.set_message("");
            }
            state.phase = Some(progress.phase);
            self.begin(progress.phase, progress.bytes_total);
        }
        if self.is_terminal {
            self.bar.set_position(progress.bytes);
            return;
        }
        if is_new || state.last_line.elapsed() >= PLAIN_INTERVAL {
            state.last_line = Instant::now();
            let of = progress
                .bytes_total
                .map_or_else(String::new, |total| format!(" of {}", ByteSize(total)));
            eprintln!(
                "{}: {} files, {}{of} {}",
                progress.phase.name(),
                progress.files,
                ByteSize(progress.bytes),
                state.note
            );
        }
    }

    fn problem(&self, problem: &Problem) {
        let mut state = self.state.lock();
        let count = state.problems.entry(problem.kind).or_default();
        *count += 1;
        if *count <= PROBLEMS_PRINTED_MAX {
            self.say(&format!("{}: {}", problem.origin, problem.message));
        }
    }
}
