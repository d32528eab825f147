//! The `power` PMU of perf: the energy counters of x86 processors, accumulated by the kernel.
//!
//! The PMU counts for a package, not for a process: each event is opened on one processor of each
//! package, as its `cpumask` names them, for all processes. The kernel reads the 32-bit registers
//! often enough that they do not wrap unseen, and gives 64 bits. Unit and scale come from sysfs.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use parking_lot::Mutex;
use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};
use ppc_store::{Error, ErrorKind, Result};

use super::{Counters, Domain, Readings, Refusal, Roots};
use crate::measure::{counters, cpu_list, field, machine};

/// The events of the PMU, and what they cover. (`energy-gpu` is a part of the package.)
const EVENTS: [(&str, Domain); 4] = [
    ("energy-pkg", Domain::Package),
    ("energy-cores", Domain::Core),
    ("energy-ram", Domain::Dram),
    ("energy-psys", Domain::Psys),
];

/// An event on one processor of the package that it counts for.
#[derive(Debug, Clone)]
struct PmuEvent {
    domain: Domain,
    package: u32,
    cpu: usize,
    event: Dynamic,
    joules_per_count: f64,
}

/// The count of an open event.
trait Count: std::fmt::Debug + Send {
    fn count(&mut self) -> io::Result<u64>;
}

impl Count for Counter {
    fn count(&mut self) -> io::Result<u64> {
        self.read()
    }
}

#[derive(Debug)]
struct PowerPmu {
    open: Mutex<Vec<(PmuEvent, Box<dyn Count>)>>,
    description: String,
}

impl Counters for PowerPmu {
    fn read(&self) -> Result<Readings> {
        let mut readings = Readings::new();
        for (event, counter) in self.open.lock().iter_mut() {
            let count = counter.count().map_err(|error| {
                let what = format!(
                    "cannot read perf's energy counter {} on processor {}",
                    event.domain.name(),
                    event.cpu
                );
                Error::new(ErrorKind::Io, what).with_source(error)
            })?;
            let joules = count as f64 * event.joules_per_count;
            *readings.entry((event.domain, event.package)).or_default() += joules;
        }
        Ok(readings)
    }

    fn description(&self) -> &str {
        &self.description
    }
}

/// Opens the energy counters of every package.
pub(super) fn detect(roots: &Roots) -> Result<Box<dyn Counters>, Refusal> {
    detect_with(roots, |event| Ok(Box::new(open(event)?)))
}

fn open(event: &PmuEvent) -> io::Result<Counter> {
    request(event).build()
}

/// What the kernel is asked for: the PMU refuses sampling, and to tell kernel from user.
fn request(event: &PmuEvent) -> Builder<'static> {
    let mut builder = Builder::new(event.event);
    builder.include_kernel().include_hv();
    builder.any_pid().one_cpu(event.cpu).enabled(true);
    builder
}

fn detect_with(
    roots: &Roots,
    open: impl Fn(&PmuEvent) -> io::Result<Box<dyn Count>>,
) -> Result<Box<dyn Counters>, Refusal> {
    let (events, mut left_out) = find(roots)?;
    let mut counters = Vec::new();
    let mut incomplete = HashSet::new();
    for event in events {
        match open(&event) {
            Ok(counter) => counters.push((event, counter)),
            Err(error) if counters::is_denied(&error) => {
                return Err(Refusal::new(
                    "perf",
                    format!("the kernel does not let this user open the power PMU: {error}"),
                    "as root: sysctl kernel.perf_event_paranoid=0, or give the program the \
                     capability: setcap cap_perfmon=ep ppc-bench",
                ));
            }
            Err(error) => {
                let (domain, package) = (event.domain, event.package);
                left_out.push(format!("{} of package {package}: {error}", domain.name()));
                incomplete.insert(domain);
            }
        }
    }
    counters.retain(|(event, _)| !incomplete.contains(&event.domain));
    if counters.is_empty() {
        return Err(unusable(&left_out));
    }
    let description = describe(&counters, &left_out);
    Ok(Box::new(PowerPmu {
        open: Mutex::new(counters),
        description,
    }))
}

fn describe(counters: &[(PmuEvent, Box<dyn Count>)], left_out: &[String]) -> String {
    let opened: Vec<String> = counters
        .iter()
        .map(|(event, _)| {
            format!(
                "{} of package {} on processor {} at {:e} J a count",
                event.domain.name(),
                event.package,
                event.cpu,
                event.joules_per_count
            )
        })
        .collect();
    let mut text = format!(
        "perf's power PMU, wraps handled by the kernel: {}",
        opened.join(", ")
    );
    if !left_out.is_empty() {
        text += &format!("; left out: {}", left_out.join(", "));
    }
    text
}

fn unusable(left_out: &[String]) -> Refusal {
    Refusal::new(
        "perf",
        format!(
            "the power PMU has no event that can be read as joules: {}",
            left_out.join(", ")
        ),
        "use a kernel that knows this processor",
    )
}

/// The events that sysfs offers, and those that it offers in part.
fn find(roots: &Roots) -> Result<(Vec<PmuEvent>, Vec<String>), Refusal> {
    let pmu = roots.sysfs.join("bus/event_source/devices/power");
    let cpuinfo = std::fs::read_to_string(roots.procfs.join("cpuinfo")).unwrap_or_default();
    if !pmu.exists() {
        return Err(no_pmu(&cpuinfo));
    }
    let mask = pmu.join("cpumask");
    let cpus = std::fs::read_to_string(&mask)
        .ok()
        .and_then(|text| cpu_list(&text))
        .ok_or_else(|| {
            Refusal::new(
                "perf",
                format!("{} names no processors", mask.display()),
                "use a kernel that knows this processor",
            )
        })?;
    // AMD counts for packages. Kernels 6.9 and 6.10 nevertheless named a processor for each die,
    // and every one of them gives the whole package.
    let whole_packages = matches!(
        field(&cpuinfo, "vendor_id"),
        Some("AuthenticAMD" | "HygonGenuine")
    );
    let mut packages = HashSet::new();
    let mut places = Vec::new();
    for cpu in cpus {
        let package = package_of(roots, cpu)?;
        if packages.insert(package) || !whole_packages {
            places.push((cpu, package));
        }
    }
    let mut events = Vec::new();
    let mut left_out = Vec::new();
    for (name, domain) in EVENTS {
        if !pmu.join("events").join(name).exists() {
            continue;
        }
        match event(&pmu, name) {
            Ok((event, joules_per_count)) => {
                events.extend(places.iter().map(|&(cpu, package)| PmuEvent {
                    domain,
                    package,
                    cpu,
                    event,
                    joules_per_count,
                }));
            }
            Err(reason) => left_out.push(format!("{name}: {reason}")),
        }
    }
    if events.is_empty() {
        if left_out.is_empty() {
            left_out.push("none of the events is there".to_owned());
        }
        return Err(unusable(&left_out));
    }
    Ok((events, left_out))
}

fn no_pmu(cpuinfo: &str) -> Refusal {
    if machine::runs_virtual(cpuinfo) {
        return Refusal::new(
            "perf",
            "the kernel has no power PMU: this is a virtual machine, and hypervisors do not pass \
             energy counters on",
            "run on the host, or on a machine of your own",
        );
    }
    Refusal::new(
        "perf",
        "the kernel has no power PMU",
        "load the module rapl, or use a kernel that knows this processor; outside of x86 there \
         is none",
    )
}

fn package_of(roots: &Roots, cpu: usize) -> Result<u32, Refusal> {
    let path = roots.sysfs.join(format!(
        "devices/system/cpu/cpu{cpu}/topology/physical_package_id"
    ));
    std::fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| {
            Refusal::new(
                "perf",
                format!("{} does not tell the package", path.display()),
                "mount sysfs whole",
            )
        })
}

/// An event of the PMU and the joules of one count, from the files that describe it.
fn event(pmu: &Path, name: &str) -> Result<(Dynamic, f64), String> {
    let mut builder = Dynamic::builder(pmu).map_err(|error| error.to_string())?;
    builder.event(name).map_err(|error| error.to_string())?;
    let unit = builder.unit().map_err(|error| error.to_string())?;
    match unit.as_deref().map(str::trim) {
        Some("Joules") => {}
        Some(unit) => return Err(format!("counts {unit:?}, not joules")),
        None => return Err("has no unit".to_owned()),
    }
    let scale = builder.scale().map_err(|error| error.to_string())?;
    let scale = scale.ok_or("has no scale")?;
    if !scale.is_finite() || scale <= 0.0 {
        return Err(format!("has a scale of {scale}"));
    }
    let event = builder.build().map_err(|error| error.to_string())?;
    Ok((event, scale))
}

#[cfg(test)]
mod tests;
