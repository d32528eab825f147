//! The powercap files: the same counters as perf's, in microjoules, readable by root.
//!
//! A zone's `energy_uj` rises to `max_energy_range_uj` and begins again, after minutes under
//! load. A guard thread reads every zone often enough that no wrap goes unseen, and the meter
//! keeps the sums. Some processors of several dies show one counter as several zones, and some
//! laptops show the package once more behind `intel-rapl-mmio`: each counter counts once.
//!
//! Threads: the guard sleeps between its readings, and ends when the meter is dropped.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use ppc_store::{Error, Result};

use super::{Counters, Domain, Readings, Refusal, Roots};
use crate::measure::machine;

/// Twice what a zone draws at most, or the guard misses a wrap. No socket comes near it.
const WATTS_MAX: u64 = 2000;
/// The guard sleeps no longer and no shorter.
const GUARD_MIN: Duration = Duration::from_secs(1);
const GUARD_MAX: Duration = Duration::from_secs(60);
/// Two zones read one after the other may differ by an update between them: tried so often.
const MIRROR_ATTEMPTS: usize = 5;

/// Reads a file; a test denies it.
type ReadFile = fn(&Path) -> io::Result<String>;

/// A counter: what it covers and where it is read.
#[derive(Debug, Clone, PartialEq)]
struct Zone {
    /// The name of its directory, such as `intel-rapl:0:1`.
    directory: String,
    domain: Domain,
    package: u32,
    energy: PathBuf,
    range_microjoules: u64,
}

impl Zone {
    fn read(&self, read_file: ReadFile) -> io::Result<u64> {
        let text = read_file(&self.energy)?;
        let now: u64 = text.trim().parse().map_err(|_| {
            let what = format!("{:?} is no number of microjoules", text.trim());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        if now > self.range_microjoules {
            let what = format!("{now} uJ lie beyond the counter's range");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(now)
    }
}

/// A zone and its sum over all wraps.
#[derive(Debug)]
struct Sum {
    zone: Zone,
    last: u64,
    total_microjoules: u64,
}

impl Sum {
    /// Takes a reading that is at most one wrap after the last.
    fn advance(&mut self, now: u64) {
        let step = if now >= self.last {
            now - self.last
        } else {
            self.zone.range_microjoules - self.last + now
        };
        self.total_microjoules += step;
        self.last = now;
    }
}

#[derive(Debug)]
struct Shared {
    sums: Mutex<Sums>,
    /// Told when the meter goes.
    stop: Condvar,
    read_file: ReadFile,
}

#[derive(Debug)]
struct Sums {
    zones: Vec<Sum>,
    stopped: bool,
    /// What the guard could not read: a wrap may have gone unseen.
    failed: Option<Error>,
}

impl Shared {
    fn advance(&self, sums: &mut Sums) -> Result<()> {
        for sum in &mut sums.zones {
            let now = sum
                .zone
                .read(self.read_file)
                .map_err(|error| Error::io("read", &sum.zone.energy, error))?;
            sum.advance(now);
        }
        Ok(())
    }

    fn guard(&self, interval: Duration) {
        let mut sums = self.sums.lock();
        while !sums.stopped {
            if self.stop.wait_for(&mut sums, interval).timed_out()
                && let Err(error) = self.advance(&mut sums)
            {
                sums.failed.get_or_insert(error);
            }
        }
    }
}

#[derive(Debug)]
struct Powercap {
    shared: Arc<Shared>,
    guard: Option<JoinHandle<()>>,
    description: String,
}

impl Counters for Powercap {
    fn read(&self) -> Result<Readings> {
        let mut sums = self.shared.sums.lock();
        if let Some(error) = sums.failed.take() {
            return Err(error);
        }
        self.shared.advance(&mut sums)?;
        let mut readings = Readings::new();
        for sum in &sums.zones {
            let place = (sum.zone.domain, sum.zone.package);
            *readings.entry(place).or_default() += sum.total_microjoules as f64 * 1e-6;
        }
        Ok(readings)
    }

    fn description(&self) -> &str {
        &self.description
    }
}

impl Drop for Powercap {
    fn drop(&mut self) {
        self.shared.sums.lock().stopped = true;
        self.shared.stop.notify_all();
        if let Some(guard) = self.guard.take() {
            // A guard that panicked has nothing left to stop.
            guard.join().ok();
        }
    }
}

/// Opens the zones that this user may read.
pub(super) fn detect(roots: &Roots) -> Result<Box<dyn Counters>, Refusal> {
    let meter = detect_with(roots, |path| std::fs::read_to_string(path), None)?;
    Ok(Box::new(meter))
}

fn detect_with(
    roots: &Roots,
    read_file: ReadFile,
    interval: Option<Duration>,
) -> Result<Powercap, Refusal> {
    let Found {
        zones,
        mut left_out,
        mut incomplete,
    } = find(roots)?;
    let mut sums: Vec<Sum> = Vec::new();
    let mut denied = None;
    for zone in zones {
        match zone.read(read_file) {
            Ok(last) => {
                let mirrored = sums
                    .iter()
                    .find(|sum| sum.zone.domain == zone.domain && mirrors(sum, &zone, read_file));
                if let Some(sum) = mirrored {
                    let first = &sum.zone.directory;
                    left_out.push(format!("{}: the same counter as {first}", zone.directory));
                } else {
                    sums.push(Sum {
                        zone,
                        last,
                        total_microjoules: 0,
                    });
                }
            }
            Err(error) => {
                left_out.push(format!("{}: {error}", zone.directory));
                incomplete.insert(zone.domain);
                if error.kind() == io::ErrorKind::PermissionDenied {
                    denied = Some(zone.energy);
                }
            }
        }
    }
    sums.retain(|sum| !incomplete.contains(&sum.zone.domain));
    if sums.is_empty() {
        return Err(unreadable(denied, &left_out));
    }
    let interval = interval.unwrap_or_else(|| guard_interval(&sums));
    let description = describe(&sums, interval, &left_out);
    let shared = Arc::new(Shared {
        sums: Mutex::new(Sums {
            zones: sums,
            stopped: false,
            failed: None,
        }),
        stop: Condvar::new(),
        read_file,
    });
    let for_guard = Arc::clone(&shared);
    let guard = std::thread::Builder::new()
        .name("energy guard".to_owned())
        .spawn(move || for_guard.guard(interval))
        .map_err(|error| {
            Refusal::new(
                "powercap",
                format!("the thread that watches for wraps does not start: {error}"),
                "raise the limit of threads",
            )
        })?;
    Ok(Powercap {
        shared,
        guard: Some(guard),
        description,
    })
}

fn unreadable(denied: Option<PathBuf>, left_out: &[String]) -> Refusal {
    if let Some(path) = denied {
        return Refusal::new(
            "powercap",
            format!("this user may not read {}", path.display()),
            "run as root, or give the program the capability: setcap cap_dac_read_search=ep \
             ppc-bench (the kernel hides the counters because they betray secrets to a patient \
             reader: give the file itself to nobody)",
        );
    }
    Refusal::new(
        "powercap",
        format!("no zone can be read as joules: {}", left_out.join(", ")),
        "use a kernel that knows this processor",
    )
}

fn guard_interval(sums: &[Sum]) -> Duration {
    let narrowest = sums.iter().map(|sum| sum.zone.range_microjoules).min();
    let microseconds = narrowest.unwrap_or(0) / WATTS_MAX;
    Duration::from_micros(microseconds).clamp(GUARD_MIN, GUARD_MAX)
}

fn describe(sums: &[Sum], interval: Duration, left_out: &[String]) -> String {
    let read: Vec<String> = sums
        .iter()
        .map(|sum| {
            let zone = &sum.zone;
            let (directory, domain) = (&zone.directory, zone.domain.name());
            format!("{directory} ({domain} of package {})", zone.package)
        })
        .collect();
    let mut text = format!(
        "powercap in microjoules, read every {} s because of wraps: {}",
        interval.as_secs_f64(),
        read.join(", ")
    );
    if !left_out.is_empty() {
        text += &format!("; left out: {}", left_out.join(", "));
    }
    text
}

/// Whether two zones show one counter: the one lies between two readings of the other, which are
/// a moment apart. Counters of their own lie joules apart, even where the load is the same.
fn mirrors(sum: &Sum, zone: &Zone, read_file: ReadFile) -> bool {
    (0..MIRROR_ATTEMPTS).any(|_| {
        let readings = (
            sum.zone.read(read_file),
            zone.read(read_file),
            sum.zone.read(read_file),
        );
        matches!(readings, (Ok(before), Ok(between), Ok(after))
            if (before..=after).contains(&between))
    })
}

/// What sysfs offers.
#[derive(Debug)]
struct Found {
    /// In the order of their names.
    zones: Vec<Zone>,
    /// Zones that are of no use, and why.
    left_out: Vec<String>,
    /// Their domains, of which some packages have no zone.
    incomplete: BTreeSet<Domain>,
}

fn find(roots: &Roots) -> Result<Found, Refusal> {
    let class = roots.sysfs.join("class/powercap");
    let mut directories: Vec<String> = std::fs::read_dir(&class)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        // `intel-rapl` itself is the controller; `intel-rapl-mmio:0` is the package once more.
        .filter(|name| name.starts_with("intel-rapl:"))
        .collect();
    if directories.is_empty() {
        return Err(no_zones(roots));
    }
    directories.sort();
    let mut zones = Vec::new();
    let mut left_out = Vec::new();
    let mut incomplete = BTreeSet::new();
    for directory in directories {
        let Some((domain, package)) = covered(&class, &directory) else {
            continue;
        };
        let path = class.join(&directory);
        match number(&path.join("max_energy_range_uj")) {
            Some(range_microjoules) if range_microjoules > 0 => zones.push(Zone {
                directory,
                domain,
                package,
                energy: path.join("energy_uj"),
                range_microjoules,
            }),
            _ => {
                left_out.push(format!("{directory}: does not tell where it wraps"));
                incomplete.insert(domain);
            }
        }
    }
    if zones.is_empty() {
        return Err(unreadable(None, &left_out));
    }
    Ok(Found {
        zones,
        left_out,
        incomplete,
    })
}

fn no_zones(roots: &Roots) -> Refusal {
    let cpuinfo = std::fs::read_to_string(roots.procfs.join("cpuinfo")).unwrap_or_default();
    if machine::runs_virtual(&cpuinfo) {
        return Refusal::new(
            "powercap",
            "there are no zones: this is a virtual machine",
            "run on the host, or on a machine of your own",
        );
    }
    Refusal::new(
        "powercap",
        "there are no zones",
        "load the module intel_rapl_msr, which reads AMD's counters too",
    )
}

/// What a zone covers, by its name and, for the parts of a package, its parent's. `None` for
/// parts that are not reported, such as the graphics.
fn covered(class: &Path, directory: &str) -> Option<(Domain, u32)> {
    let name = std::fs::read_to_string(class.join(directory).join("name")).ok()?;
    let name = name.trim();
    if let Some(rest) = name.strip_prefix("package-") {
        return Some((Domain::Package, package_number(rest)?));
    }
    if let Some(rest) = name.strip_prefix("psys") {
        let package = rest.strip_prefix('-').and_then(package_number);
        return Some((Domain::Psys, package.unwrap_or(0)));
    }
    let domain = match name {
        "core" => Domain::Core,
        "dram" => Domain::Dram,
        _ => return None,
    };
    let (parent, _) = directory.rsplit_once(':')?;
    let parent = std::fs::read_to_string(class.join(parent).join("name")).ok()?;
    let package = parent.trim().strip_prefix("package-")?;
    Some((domain, package_number(package)?))
}

/// 1 of `1` and of `1-die-0`.
fn package_number(text: &str) -> Option<u32> {
    text.split('-').next()?.parse().ok()
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
