//! Energy of a run: measured, modelled by the user's watts, or unavailable.
//!
//! [`Source::detect`] asks perf's `power` PMU first, then powercap, then takes the user's model.
//! The two meters are the same hardware counters behind two doors: perf's has the finer permission
//! and lets the kernel handle wrap-around.
//!
//! Invariants:
//! 1. A counter that did not move is no figure: it is left out, and the source says so.
//! 2. A domain is there for all packages or for none: half of a machine is no machine.
//! 3. Domains overlap (a package contains its cores): nothing here adds one to another.

mod model;
#[cfg(target_os = "linux")]
mod perf;
mod powercap;
#[cfg(test)]
mod trees;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ppc_store::Result;
use serde::Serialize;

pub use self::model::PowerModel;
use super::{Refusal, Roots};
use crate::results::{Energy, EnergyClass, EnergyDomain, IdleWatts};

/// What a counter covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Domain {
    Package,
    Core,
    Dram,
    Psys,
}

impl Domain {
    fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Core => "core",
            Self::Dram => "dram",
            Self::Psys => "psys",
        }
    }
}

/// Joules that each domain of each package has counted since some moment before.
pub(super) type Readings = BTreeMap<(Domain, u32), f64>;

/// Counters of the machine. They only rise: wrap-around is theirs to handle.
pub(super) trait Counters: std::fmt::Debug + Send + Sync {
    /// # Errors
    ///
    /// When a counter can no longer be read.
    fn read(&self) -> Result<Readings>;

    /// The meter, where it reads, its unit, and what was left out.
    fn description(&self) -> &str;
}

/// Where the figures come from.
#[derive(Debug)]
pub(super) enum Source {
    /// The machine's own counters.
    Measured(Box<dyn Counters>),
    /// Computed from processor time.
    Model(PowerModel),
    /// Nowhere, and why.
    Unavailable(String),
}

/// The state of the source when a run began.
#[derive(Debug)]
pub(super) struct Start {
    at: Instant,
    readings: Readings,
}

impl Source {
    /// The best source of this machine, and the meters that it does not have or does not open.
    pub(super) fn detect(roots: &Roots, model: Option<PowerModel>) -> (Self, Vec<Refusal>) {
        let mut refusals = Vec::new();
        for meter in [perf_counters, powercap::detect] {
            match meter(roots) {
                Ok(counters) => return (Self::Measured(counters), refusals),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if let Some(model) = model {
            return (Self::Model(model), refusals);
        }
        refusals.push(Refusal::new(
            "model",
            "no power model was stated",
            "if you know what this machine draws, state it: --power-model idle=30,core=7.5",
        ));
        let reasons: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        (Self::Unavailable(reasons.join("; ")), refusals)
    }

    pub(super) fn class(&self) -> EnergyClass {
        match self {
            Self::Measured(_) => EnergyClass::Measured,
            Self::Model(_) => EnergyClass::Modelled,
            Self::Unavailable(_) => EnergyClass::Unavailable,
        }
    }

    pub(super) fn description(&self) -> String {
        match self {
            Self::Measured(counters) => counters.description().to_owned(),
            Self::Model(model) => model.to_string(),
            Self::Unavailable(reason) => reason.clone(),
        }
    }

    fn read(&self) -> Result<Readings> {
        match self {
            Self::Measured(counters) => counters.read(),
            Self::Model(_) | Self::Unavailable(_) => Ok(Readings::new()),
        }
    }

    pub(super) fn start(&self) -> Result<Start> {
        let readings = self.read()?;
        Ok(Start {
            at: Instant::now(),
            readings,
        })
    }

    pub(super) fn stop(&self, start: &Start, cpu_seconds: f64) -> Result<Energy> {
        let seconds = start.at.elapsed().as_secs_f64();
        let readings = self.read()?;
        Ok(match self {
            Self::Measured(_) => measured(self.description(), start, &readings, seconds),
            Self::Model(model) => model.energy(seconds, cpu_seconds),
            Self::Unavailable(reason) => unavailable(reason.clone()),
        })
    }

    /// Sleeps for `duration` and reads what the machine draws meanwhile.
    pub(super) fn idle(&self, duration: Duration) -> Result<Idle> {
        if !matches!(self, Self::Measured(_)) {
            return Ok(Idle::default());
        }
        let start = self.start()?;
        std::thread::sleep(duration);
        let energy = self.stop(&start, 0.0)?;
        let seconds = start.at.elapsed().as_secs_f64();
        let watts = energy.domains.into_iter().map(|domain| DomainWatts {
            watts: domain.joules / seconds,
            domain: domain.domain,
            package: domain.package,
        });
        Ok(Idle(watts.collect()))
    }
}

#[cfg(target_os = "linux")]
fn perf_counters(roots: &Roots) -> Result<Box<dyn Counters>, Refusal> {
    perf::detect(roots)
}

#[cfg(not(target_os = "linux"))]
fn perf_counters(_: &Roots) -> Result<Box<dyn Counters>, Refusal> {
    Err(Refusal::new(
        "perf",
        "perf is a part of Linux",
        "run the bench on Linux",
    ))
}

fn unavailable(reason: String) -> Energy {
    Energy {
        class: EnergyClass::Unavailable,
        source: reason,
        domains: Vec::new(),
    }
}

/// What was counted between two readings.
fn measured(source: String, start: &Start, readings: &Readings, seconds: f64) -> Energy {
    let counted = |(place, after): (&(Domain, u32), &f64)| {
        let before = start.readings.get(place).unwrap_or(after);
        (*place, after - before)
    };
    let counted: Vec<_> = readings.iter().map(counted).collect();
    let still: Vec<String> = counted
        .iter()
        .filter(|(_, joules)| *joules <= 0.0)
        .map(|((domain, package), _)| format!("{} of package {package}", domain.name()))
        .collect();
    let is_whole = |domain| {
        let mut parts = counted.iter().filter(|((of, _), _)| *of == domain);
        parts.all(|(_, joules)| *joules > 0.0)
    };
    let whole = counted.iter().filter(|((domain, _), _)| is_whole(*domain));
    let domains: Vec<EnergyDomain> = whole
        .map(|&((domain, package), joules)| EnergyDomain {
            domain: domain.name().to_owned(),
            package,
            joules,
            idle_watts: None,
        })
        .collect();
    if domains.is_empty() {
        return unavailable(format!(
            "{source}: these counters did not move in {seconds:.3} s: {}; they move about every \
             millisecond, and one that stands still is fed by nobody, as under some hypervisors \
             (measure longer; if it stays so, this machine has no meter)",
            still.join(", ")
        ));
    }
    let source = if still.is_empty() {
        source
    } else {
        format!(
            "{source}; stood still, and their domains were left out: {}",
            still.join(", ")
        )
    };
    Energy {
        class: EnergyClass::Measured,
        source,
        domains,
    }
}

/// What the idle machine drew, by domain. Empty without counters: a model has no baseline.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Idle(Vec<DomainWatts>);

/// Mean power of a domain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DomainWatts {
    /// As in [`EnergyDomain::domain`].
    pub domain: String,
    /// Package (socket) number.
    pub package: u32,
    /// Mean power, in watts.
    pub watts: f64,
}

impl Idle {
    /// Power by domain.
    #[must_use]
    pub fn domains(&self) -> &[DomainWatts] {
        &self.0
    }

    fn watts(&self, of: &EnergyDomain) -> Option<f64> {
        let same = |idle: &&DomainWatts| idle.domain == of.domain && idle.package == of.package;
        self.0.iter().find(same).map(|idle| idle.watts)
    }
}

impl Energy {
    /// Sets beside every domain what the idle machine drew before and after the run.
    #[must_use]
    pub fn with_idle(mut self, before: &Idle, after: &Idle) -> Self {
        for domain in &mut self.domains {
            let watts = before.watts(domain).zip(after.watts(domain));
            domain.idle_watts = watts.map(|(before, after)| IdleWatts { before, after });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Rising(AtomicU64);

    impl Counters for Rising {
        fn read(&self) -> Result<Readings> {
            let joules = self.0.fetch_add(1, Ordering::Relaxed) as f64;
            Ok(Readings::from([((Domain::Package, 0), joules)]))
        }

        fn description(&self) -> &str {
            "a counter of readings"
        }
    }

    impl Source {
        pub(crate) fn risen_by_a_joule_at_each_reading() -> Self {
            Self::Measured(Box::new(Rising::default()))
        }
    }

    fn start(readings: &[((Domain, u32), f64)]) -> Start {
        Start {
            at: Instant::now(),
            readings: readings.iter().copied().collect(),
        }
    }

    #[test]
    fn a_counter_that_stands_still_is_left_out_and_named() {
        let before = start(&[((Domain::Package, 0), 5.0), ((Domain::Dram, 0), 7.0)]);
        let after = Readings::from([((Domain::Package, 0), 9.0), ((Domain::Dram, 0), 7.0)]);
        let energy = measured("perf".to_owned(), &before, &after, 1.0);
        assert_eq!(energy.class, EnergyClass::Measured);
        assert_eq!(energy.domains.len(), 1);
        assert_eq!(energy.domains[0].joules, 4.0);
        assert!(
            energy.source.contains("dram of package 0"),
            "{}",
            energy.source
        );
    }

    #[test]
    fn a_machine_is_not_half_of_its_packages() {
        let before = start(&[
            ((Domain::Package, 0), 5.0),
            ((Domain::Package, 1), 5.0),
            ((Domain::Psys, 0), 5.0),
        ]);
        let mut after = before.readings.clone();
        after.insert((Domain::Package, 1), 6.0);
        after.insert((Domain::Psys, 0), 9.0);
        let energy = measured("perf".to_owned(), &before, &after, 1.0);
        let told: Vec<_> = energy
            .domains
            .iter()
            .map(|told| told.domain.as_str())
            .collect();
        assert_eq!(told, ["psys"]);
        assert!(
            energy.source.contains("package of package 0"),
            "{}",
            energy.source
        );
    }

    /// Some hypervisors show the counters and never feed them; other tools then print 0 W.
    #[test]
    fn counters_that_all_stand_still_are_no_meter() {
        let before = start(&[((Domain::Package, 0), 5.0)]);
        let energy = measured("perf".to_owned(), &before, &before.readings, 1.0);
        assert_eq!(energy.class, EnergyClass::Unavailable);
        assert!(energy.domains.is_empty());
        let told = "did not move in 1.000 s: package of package 0";
        assert!(energy.source.contains(told), "{}", energy.source);
    }

    #[test]
    fn idle_power_stands_beside_the_gross_figure_of_its_own_domain() {
        let idle = |watts| {
            Idle(vec![DomainWatts {
                domain: "package".to_owned(),
                package: 1,
                watts,
            }])
        };
        let before = start(&[((Domain::Package, 0), 0.0), ((Domain::Package, 1), 0.0)]);
        let after = Readings::from([((Domain::Package, 0), 10.0), ((Domain::Package, 1), 20.0)]);
        let energy =
            measured("perf".to_owned(), &before, &after, 1.0).with_idle(&idle(3.0), &idle(4.0));
        assert_eq!(energy.domains[0].idle_watts, None);
        assert_eq!(energy.domains[1].joules, 20.0);
        let beside = IdleWatts {
            before: 3.0,
            after: 4.0,
        };
        assert_eq!(energy.domains[1].idle_watts, Some(beside));
    }

    #[test]
    fn a_guest_without_meters_says_what_is_missing_and_what_to_do() {
        let tree = trees::guest();
        let (source, refusals) = Source::detect(&tree.roots(), None);
        let energy = source.stop(&source.start().unwrap(), 1.0).unwrap();
        assert_eq!(energy.class, EnergyClass::Unavailable);
        assert!(energy.domains.is_empty());
        for word in [
            "perf",
            "powercap",
            "model",
            "virtual machine",
            "--power-model",
        ] {
            assert!(energy.source.contains(word), "{word}: {}", energy.source);
        }
        assert_eq!(refusals.len(), 3);
        assert_eq!(source.idle(Duration::ZERO).unwrap(), Idle::default());
    }

    #[test]
    fn a_stated_model_never_takes_the_place_of_a_meter() {
        let tree = trees::intel_powercap(1);
        let model = "idle=20,core=5".parse().unwrap();
        let (source, refusals) = Source::detect(&tree.roots(), Some(model));
        assert_eq!(source.class(), EnergyClass::Measured);
        assert_eq!(refusals.len(), 1, "perf was asked first");
        let (source, _) = Source::detect(&trees::guest().roots(), Some(model));
        assert_eq!(source.class(), EnergyClass::Modelled);
    }
}
