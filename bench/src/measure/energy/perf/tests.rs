use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::{Source, measured, trees};
use super::*;
use crate::measure::tests::Tree;
use crate::results::EnergyClass;

/// Domain, package, processor, PMU type and event of each counter, in the order of their opening.
fn opened(tree: &Tree) -> Vec<(Domain, u32, usize, u32, u64)> {
    let (events, left_out) = find(&tree.roots()).unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    events
        .iter()
        .map(|event| {
            let builder = Builder::new(event.event);
            let attributes = builder.attrs();
            assert_eq!(event.joules_per_count, 2_f64.powi(-32));
            (
                event.domain,
                event.package,
                event.cpu,
                attributes.type_,
                attributes.config,
            )
        })
        .collect()
}

#[test]
fn amd_gives_the_package_of_each_socket() {
    assert_eq!(opened(&trees::amd(1)), [(Domain::Package, 0, 0, 25, 2)]);
    assert_eq!(
        opened(&trees::amd(2)),
        [
            (Domain::Package, 0, 0, 25, 2),
            (Domain::Package, 1, 64, 25, 2)
        ]
    );
}

#[test]
fn intel_gives_package_cores_memory_and_platform_of_each_socket() {
    assert_eq!(
        opened(&trees::intel(1)),
        [
            (Domain::Package, 0, 0, 25, 2),
            (Domain::Core, 0, 0, 25, 1),
            (Domain::Dram, 0, 0, 25, 3),
            (Domain::Psys, 0, 0, 25, 5),
        ]
    );
    let two = opened(&trees::intel(2));
    assert_eq!(two.len(), 8);
    assert_eq!(two[1], (Domain::Package, 1, 28, 25, 2));
}

/// `rapl_pmu_event_init` answers EINVAL to any of these; no machine of ours has the PMU to show it.
#[test]
fn the_pmu_is_asked_for_nothing_that_it_refuses() {
    let (events, _) = find(&trees::intel(2).roots()).unwrap();
    for event in &events {
        let builder = request(event);
        let asked = builder.attrs();
        assert_eq!(asked.exclude_kernel(), 0);
        assert_eq!(asked.exclude_user(), 0);
        assert_eq!(asked.exclude_hv(), 0);
        assert_eq!(asked.exclude_idle(), 0);
        assert_eq!(asked.inherit(), 0);
        assert_eq!(asked.disabled(), 0);
    }
}

/// Linux 6.9 and 6.10 named one processor for each die of an AMD package in the mask. Each counts
/// the whole package: perf itself printed a multiple of the truth.
#[test]
fn dies_of_one_amd_package_count_once() {
    let cpus = [(0, 0), (8, 0), (16, 0), (64, 1), (72, 1)];
    let tree = trees::power_pmu("AuthenticAMD", &cpus, &[("energy-pkg", "0x02")]);
    let places: Vec<_> = opened(&tree).iter().map(|open| (open.1, open.2)).collect();
    assert_eq!(places, [(0, 0), (1, 64)]);
}

/// Dies of an Intel package have counters of their own.
#[test]
fn dies_of_one_intel_package_are_summed() {
    let cpus = [(0, 0), (24, 0)];
    let tree = trees::power_pmu("GenuineIntel", &cpus, &[("energy-pkg", "0x02")]);
    let meter = detect_with(&tree.roots(), |event| {
        fixed(if event.cpu == 0 { 1 } else { 2 })
    })
    .unwrap();
    let readings = meter.read().unwrap();
    assert_eq!(readings, Readings::from([((Domain::Package, 0), 3.0)]));
}

#[test]
fn an_event_without_unit_or_scale_is_left_out_and_named() {
    for (missing, reason) in [("unit", "has no unit"), ("scale", "has no scale")] {
        let tree = trees::intel(1);
        tree.remove(&format!(
            "sys/bus/event_source/devices/power/events/energy-ram.{missing}"
        ));
        let meter = detect_with(&tree.roots(), |_| fixed(1)).unwrap();
        let domains: Vec<Domain> = meter.read().unwrap().into_keys().map(|key| key.0).collect();
        assert_eq!(domains, [Domain::Package, Domain::Core, Domain::Psys]);
        let left_out = format!("left out: energy-ram: {reason}");
        assert!(
            meter.description().contains(&left_out),
            "{}",
            meter.description()
        );
    }
}

#[test]
fn a_pmu_whose_only_event_has_no_unit_is_no_meter() {
    let tree = trees::amd(1);
    tree.remove("sys/bus/event_source/devices/power/events/energy-pkg.unit");
    let refusal = find(&tree.roots()).unwrap_err();
    assert!(refusal.reason.contains("has no unit"), "{refusal}");
    tree.write(
        "sys/bus/event_source/devices/power/events/energy-pkg.unit",
        "Watts\n",
    );
    let refusal = find(&tree.roots()).unwrap_err();
    assert!(refusal.reason.contains("not joules"), "{refusal}");
}

#[test]
fn a_denied_counter_names_the_permission() {
    for errno in [1, 13] {
        let denied = |_: &PmuEvent| Err(io::Error::from_raw_os_error(errno));
        let refusal = detect_with(&trees::amd(2).roots(), denied).unwrap_err();
        assert!(
            refusal.reason.contains("does not let this user"),
            "{refusal}"
        );
        assert!(refusal.remedy.contains("perf_event_paranoid"), "{refusal}");
    }
}

#[test]
fn a_domain_that_one_package_does_not_open_is_left_out_for_all() {
    let open = |event: &PmuEvent| match (event.domain, event.package) {
        (Domain::Dram, 1) => Err(io::Error::from_raw_os_error(22)),
        _ => fixed(1),
    };
    let meter = detect_with(&trees::intel(2).roots(), open).unwrap();
    let read: Vec<_> = meter.read().unwrap().into_keys().collect();
    assert_eq!(read.len(), 6, "{read:?}");
    assert!(read.iter().all(|(domain, _)| *domain != Domain::Dram));
    assert!(meter.description().contains("dram of package 1"));
}

#[test]
fn a_machine_without_the_pmu_says_whether_it_is_a_guest() {
    let refusal = find(&trees::guest().roots()).unwrap_err();
    assert!(refusal.reason.contains("virtual machine"), "{refusal}");
    let refusal = find(&Tree::new().roots()).unwrap_err();
    assert!(!refusal.reason.contains("virtual machine"), "{refusal}");
    assert!(refusal.remedy.contains("module rapl"), "{refusal}");
}

#[derive(Debug)]
struct Fixed(Arc<AtomicU64>);

impl Count for Fixed {
    fn count(&mut self) -> io::Result<u64> {
        match self.0.load(Ordering::Relaxed) {
            u64::MAX => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}

/// A counter that stands at a number of joules.
fn fixed(joules: u64) -> io::Result<Box<dyn Count>> {
    Ok(Box::new(Fixed(Arc::new(AtomicU64::new(joules << 32)))))
}

#[test]
fn joules_are_the_difference_of_two_readings_and_a_lost_counter_is_an_error() {
    let count = Arc::new(AtomicU64::new(7 << 32));
    let open = |_: &PmuEvent| Ok(Box::new(Fixed(Arc::clone(&count))) as Box<dyn Count>);
    let meter = detect_with(&trees::amd(1).roots(), open).unwrap();
    let source = Source::Measured(meter);
    let start = source.start().unwrap();
    count.store((7 << 32) + (1 << 31), Ordering::Relaxed);
    let energy = source.stop(&start, 0.0).unwrap();
    assert_eq!(energy.class, EnergyClass::Measured);
    assert_eq!(energy.domains[0].joules, 0.5);
    count.store(u64::MAX, Ordering::Relaxed);
    let error = source.stop(&start, 0.0).unwrap_err();
    assert!(
        error.to_string().contains("package on processor 0"),
        "{error}"
    );
}

/// The whole path on any machine: a PMU tree whose type is the kernel's software PMU and whose
/// event is its processor clock, so that a "joule" is a second of processor 0.
#[test]
fn the_path_from_sysfs_to_joules_runs_on_a_software_event() {
    let tree = trees::power_pmu("GenuineIntel", &[(0, 0)], &[("energy-pkg", "0x00")]);
    let pmu = "sys/bus/event_source/devices/power";
    tree.write(&format!("{pmu}/type"), "1\n");
    tree.write(&format!("{pmu}/events/energy-pkg.scale"), "1e-9\n");
    match detect(&tree.roots()) {
        Ok(meter) => {
            let before = meter.read().unwrap();
            let start = super::super::Start {
                at: std::time::Instant::now(),
                readings: before,
            };
            while start.at.elapsed().as_millis() < 5 {
                std::hint::spin_loop();
            }
            let after = meter.read().unwrap();
            let seconds = start.at.elapsed().as_secs_f64();
            let energy = measured(String::new(), &start, &after, seconds);
            let joules = energy.domains[0].joules;
            assert!(joules >= 0.005, "{joules} in {seconds} s");
            // The reading before and the clock are apart by no more than a moment of scheduling.
            assert!(joules <= seconds + 1.0, "{joules} in {seconds} s");
        }
        // Not root, and the kernel is strict: then it must say so.
        Err(refusal) => assert!(refusal.remedy.contains("perf_event_paranoid"), "{refusal}"),
    }
}
