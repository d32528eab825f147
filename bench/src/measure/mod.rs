//! What a run costs: processor time, instructions, memory, energy.
//!
//! [`Meter::detect`] finds out once what this machine can measure; a [`Probe`] stands around each
//! measured part and gives its [`Costs`]. All figures are those of the whole process (energy: of
//! the whole machine), so two probes at the same time measure each other.
//!
//! Invariants:
//! 1. Nothing is invented: a figure that the machine does not give is `None` or
//!    [`EnergyClass::Unavailable`](crate::results::EnergyClass::Unavailable) with the reason and
//!    the remedy, never a zero.
//! 2. Counters are read at the start and at the end, not in between: measuring costs the measured
//!    part nothing.
//! 3. What the start of a probe itself does lies before the first reading of processor time, what
//!    its stop does lies after the last.

mod command;
mod counters;
mod energy;
mod machine;
mod process;
mod survey;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ppc_store::{Error, ErrorKind, Result};
use serde::Serialize;

pub use self::command::{MeterArguments, MeterOptions};
use self::counters::{Kind, Running};
pub use self::energy::{DomainWatts, Idle, PowerModel};
pub(crate) use self::process::cpu_seconds;
pub use self::survey::Survey;
use crate::results::Costs;

/// What can be measured on this machine.
#[derive(Debug)]
pub struct Meter {
    roots: Roots,
    instructions: Result<(), Refusal>,
    cycles: Result<(), Refusal>,
    energy: energy::Source,
    energy_refusals: Vec<Refusal>,
    /// How long a probe leaves the machine alone before and after a run.
    baseline: Duration,
}

impl Meter {
    /// Looks for an energy meter: perf's `power` PMU, then powercap, then `model`, the watts that
    /// the user states. Without any of them energy is unavailable, and the figures say why.
    #[must_use]
    pub fn detect(model: Option<PowerModel>) -> Self {
        Self::detect_in(Roots::default(), model)
    }

    fn detect_in(roots: Roots, model: Option<PowerModel>) -> Self {
        let (energy, energy_refusals) = energy::Source::detect(&roots, model);
        Self {
            instructions: counters::availability(Kind::Instructions, &roots),
            cycles: counters::availability(Kind::Cycles, &roots),
            energy,
            energy_refusals,
            roots,
            baseline: Duration::ZERO,
        }
    }

    /// Lets every [`Probe`] wait before its run and after it, for so long each, and measure what
    /// the idle machine draws. Where energy is not measured, nothing waits.
    #[must_use]
    pub fn with_idle_baseline(mut self, duration: Duration) -> Self {
        self.baseline = duration;
        self
    }

    /// Sleeps for `duration` and measures what the machine draws meanwhile. Empty, and at once,
    /// where energy is not measured.
    ///
    /// # Errors
    ///
    /// When an energy counter that could be read at [`Meter::detect`] no longer can.
    pub fn idle(&self, duration: Duration) -> Result<Idle> {
        self.energy.idle(duration)
    }

    fn take_baseline(&self) -> Result<Option<Idle>> {
        if self.baseline.is_zero() {
            return Ok(None);
        }
        self.idle(self.baseline).map(Some)
    }

    fn counter_refusals(&self) -> Vec<Refusal> {
        let counters = [&self.instructions, &self.cycles];
        let refused = counters
            .into_iter()
            .filter_map(|counter| counter.as_ref().err());
        refused.cloned().collect()
    }
}

/// A meter that this machine does not have, or does not open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// `instructions`, `cycles`, `perf`, `powercap` or `model`.
    pub meter: String,
    /// Why not.
    pub reason: String,
    /// What would help.
    pub remedy: String,
}

impl Refusal {
    fn new(meter: &str, reason: impl Into<String>, remedy: &str) -> Self {
        Self {
            meter: meter.to_owned(),
            reason: reason.into(),
            remedy: remedy.to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.meter, self.reason, self.remedy)
    }
}

/// A measurement that runs.
#[derive(Debug)]
pub struct Probe<'a> {
    meter: &'a Meter,
    idle: Option<Idle>,
    memory: process::PeakMemory,
    instructions: Option<Running>,
    cycles: Option<Running>,
    energy: energy::Start,
    cpu_seconds: f64,
}

impl<'a> Probe<'a> {
    /// Begins to measure. Everything this process does until [`Probe::stop`] counts, on whatever
    /// thread, whether it ran before or starts later.
    ///
    /// # Errors
    ///
    /// When a counter that could be read at [`Meter::detect`] no longer can.
    pub fn start(meter: &'a Meter) -> Result<Self> {
        let idle = meter.take_baseline()?;
        let memory = process::PeakMemory::start(&meter.roots);
        let count = |available: &Result<(), Refusal>, kind| {
            let running = available
                .is_ok()
                .then(|| Running::start(kind, &meter.roots));
            running.transpose().map_err(lost_counter)
        };
        let instructions = count(&meter.instructions, Kind::Instructions)?;
        let cycles = count(&meter.cycles, Kind::Cycles)?;
        Ok(Self {
            meter,
            idle,
            memory,
            instructions,
            cycles,
            energy: meter.energy.start()?,
            cpu_seconds: process::cpu_seconds(),
        })
    }

    /// Ends the measurement. The caller fills in [`Costs::decoded_bytes`], which only the store
    /// can count.
    ///
    /// # Errors
    ///
    /// When a counter that could be read at the start no longer can.
    pub fn stop(self) -> Result<Costs> {
        let cpu_seconds = process::cpu_seconds() - self.cpu_seconds;
        let energy = self.meter.energy.stop(&self.energy, cpu_seconds)?;
        let count = |running: Option<Running>| {
            let count = running.map(Running::stop).transpose();
            count.map(Option::flatten).map_err(lost_counter)
        };
        let cycles = count(self.cycles)?;
        let instructions = count(self.instructions)?;
        let peak_resident_bytes = self.memory.stop();
        let idle = self.idle.zip(self.meter.take_baseline()?);
        Ok(Costs {
            cpu_seconds,
            instructions,
            cycles,
            peak_resident_bytes,
            decoded_bytes: None,
            energy: match idle {
                Some((before, after)) => energy.with_idle(&before, &after),
                None => energy,
            },
        })
    }
}

fn lost_counter(error: io::Error) -> Error {
    Error::new(
        ErrorKind::Io,
        "a counter of instructions or cycles was lost",
    )
    .with_remedy("see what `ppc-bench meter` says now")
    .with_source(error)
}

/// Where the kernel's files lie; a test has its own.
#[derive(Debug, Clone)]
struct Roots {
    sysfs: PathBuf,
    procfs: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            sysfs: "/sys".into(),
            procfs: "/proc".into(),
        }
    }
}

/// The value of the first line `name : value`, as the files of procfs have them.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The number that a text begins with: 12 of `12 kB`.
fn leading_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The processors of a kernel's list such as `0-3,8`, at most 65,536 of them.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    const CPUS_MAX: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::results::EnergyClass;

    /// A machine made of files.
    pub(super) struct Tree(TempDir);

    impl Tree {
        pub(super) fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        pub(super) fn roots(&self) -> Roots {
            Roots {
                sysfs: self.0.path().join("sys"),
                procfs: self.0.path().join("proc"),
            }
        }

        /// Replaces a file at once, as a reader on another thread may look.
        pub(super) fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::rename(new, path).unwrap();
        }

        pub(super) fn read(&self, path: &str) -> String {
            fs::read_to_string(self.0.path().join(path)).unwrap()
        }

        pub(super) fn remove(&self, path: &str) {
            fs::remove_file(self.0.path().join(path)).unwrap();
        }

        /// Makes a file that nobody can read or write, root neither.
        pub(super) fn deny(&self, path: &str) {
            fs::create_dir_all(self.0.path().join(path)).unwrap();
        }
    }

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0\n"), Some(vec![0]));
        assert_eq!(cpu_list("0,64"), Some(vec![0, 64]));
        assert_eq!(cpu_list("0-2,8"), Some(vec![0, 1, 2, 8]));
        for wrong in ["", "a", "3-1", "0-", "0-4294967295"] {
            assert_eq!(cpu_list(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_probe_gives_what_needs_no_meter() {
        let meter = Meter::detect(None);
        let probe = Probe::start(&meter).unwrap();
        let sum: u64 = (0..3_000_000_u64).map(std::hint::black_box).sum();
        std::hint::black_box(sum);
        let costs = probe.stop().unwrap();
        assert!(costs.cpu_seconds > 0.0);
        assert!(costs.peak_resident_bytes.unwrap() > 0);
        assert_eq!(costs.decoded_bytes, None);
    }

    #[test]
    fn the_baselines_stand_beside_the_run_and_not_in_it() {
        let tree = Tree::new();
        let mut meter = Meter::detect_in(tree.roots(), None);
        meter.energy = energy::Source::risen_by_a_joule_at_each_reading();
        let costs = Probe::start(&meter).unwrap().stop().unwrap();
        assert_eq!(costs.energy.domains[0].joules, 1.0);
        assert_eq!(costs.energy.domains[0].idle_watts, None);

        let meter = meter.with_idle_baseline(Duration::from_millis(1));
        let costs = Probe::start(&meter).unwrap().stop().unwrap();
        assert_eq!(costs.energy.domains[0].joules, 1.0);
        let idle = costs.energy.domains[0].idle_watts.unwrap();
        assert!(idle.before > 0.0 && idle.after > 0.0, "{idle:?}");
    }

    #[test]
    fn energy_is_modelled_only_by_the_users_watts() {
        let tree = Tree::new();
        let meter = Meter::detect_in(tree.roots(), Some("idle=20,core=5".parse().unwrap()));
        let costs = Probe::start(&meter).unwrap().stop().unwrap();
        assert_eq!(costs.energy.class, EnergyClass::Modelled);
        assert_eq!(costs.energy.domains.len(), 1);
        assert_eq!(costs.energy.domains[0].domain, "model");
        assert!(costs.energy.domains[0].joules > 0.0);
        let meter = Meter::detect_in(tree.roots(), None);
        let costs = Probe::start(&meter).unwrap().stop().unwrap();
        assert_eq!(costs.energy.class, EnergyClass::Unavailable);
        assert!(costs.energy.domains.is_empty());
    }
}
