//! How far a run has come: a bar on a terminal, a line a result everywhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::peers::StoreSpec;
use crate::results::{Experiment, Keys, Record, Temperature};

const MIB: f64 = (1 << 20) as f64;

/// Counts runs, and seconds by the estimate, whose error it learns as it goes.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    runs: usize,
    runs_done: usize,
    seconds_left: f64,
    /// By the estimate, of what was run and not skipped.
    seconds_estimated: f64,
    started: Instant,
}

impl Progress {
    /// Of so many runs, that take so long by the estimate.
    pub(super) fn new(runs: usize, seconds: f64) -> Self {
        let bar = ProgressBar::new(runs as u64);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} runs, {msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self {
            bar,
            runs,
            runs_done: 0,
            seconds_left: seconds,
            seconds_estimated: 0.0,
            started: Instant::now(),
        }
    }

    /// Names what is being done, where there is a bar.
    pub(super) fn say(&self, what: &str) {
        let left = self.left();
        self.bar
            .set_message(format!("{} left, {what}", minutes(left)));
    }

    /// Seconds left, from the estimate and what came of it so far.
    fn left(&self) -> f64 {
        let elapsed = self.started.elapsed().as_secs_f64();
        let error = if self.seconds_estimated > 0.0 {
            (elapsed / self.seconds_estimated).clamp(0.2, 5.0)
        } else {
            1.0
        };
        (self.seconds_left * error).max(0.0)
    }

    /// A run that took about `estimated` seconds by the estimate is done.
    pub(super) fn done(&mut self, record: &Record, spec: &StoreSpec, estimated: f64) {
        self.seconds_estimated += estimated;
        self.pass(estimated);
        let line = format!(
            "{:>4}/{} {:>7} left  {spec:<34} {}",
            self.runs_done,
            self.runs,
            minutes(self.left()),
            summary(record)
        );
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// A run was found in the file of results.
    pub(super) fn skipped(&mut self, estimated: f64) {
        self.pass(estimated);
    }

    fn pass(&mut self, estimated: f64) {
        self.runs_done += 1;
        self.seconds_left -= estimated;
        self.bar.inc(1);
    }

    /// Seconds since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}m{:02}s", seconds / 60, seconds % 60)
}

/// What was measured, and its figure.
fn summary(record: &Record) -> String {
    let cell = &record.cell;
    let keys = match cell.keys {
        Keys::None => "",
        Keys::Uniform => " uniform",
        Keys::PowerLaw => " power law",
        Keys::Ordered => " ordered",
    };
    let what = match cell.experiment {
        Experiment::Build => "build".to_owned(),
        Experiment::Get if cell.batch > 1 => format!("get{keys} x{}", cell.batch),
        Experiment::Get => format!("get{keys}"),
        Experiment::Miss => "miss".to_owned(),
        Experiment::Scan => "scan".to_owned(),
        Experiment::Mixed => "mixed".to_owned(),
    };
    let cold = match cell.temperature {
        Temperature::Cold => ", cold",
        Temperature::Warm => "",
    };
    let threads = if cell.threads > 1 {
        format!(", {} threads", cell.threads)
    } else {
        String::new()
    };
    let mib = record.value_bytes as f64 / MIB;
    let figure = match cell.experiment {
        Experiment::Miss => {
            let a_second = record.operations as f64 / record.seconds;
            format!("{a_second:.0} misses/s")
        }
        Experiment::Build => format!(
            "{:.0} MiB/s, {:.0} MiB/CPU-s, {:.2} %",
            mib / record.seconds,
            mib / record.costs.cpu_seconds.max(1e-9),
            record.space.stored_bytes as f64 * 100.0 / record.corpus.raw_bytes.max(1) as f64
        ),
        _ => format!("{:.0} MiB/s", mib / record.seconds),
    };
    format!("{what}{cold}{threads}: {figure}")
}
