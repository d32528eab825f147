use super::super::trees::{self, RANGE, set, zone};
use super::super::{Source, measured};
use super::*;
use crate::measure::tests::Tree;
use crate::results::{Energy, EnergyClass};

fn read_file(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

fn meter(tree: &Tree) -> Powercap {
    detect_with(&tree.roots(), read_file, None).unwrap()
}

/// The domains that a machine's meter gives, with their packages.
fn places(tree: &Tree) -> Vec<(Domain, u32)> {
    meter(tree).read().unwrap().into_keys().collect()
}

#[test]
fn one_and_two_sockets_give_their_domains_and_the_mapped_door_is_not_another() {
    use Domain::{Core, Dram, Package, Psys};
    assert_eq!(places(&trees::amd_powercap(1)), [(Package, 0), (Core, 0)]);
    assert_eq!(
        places(&trees::amd_powercap(2)),
        [(Package, 0), (Package, 1), (Core, 0), (Core, 1)]
    );
    assert_eq!(
        places(&trees::intel_powercap(1)),
        [(Package, 0), (Core, 0), (Dram, 0), (Psys, 0)]
    );
    let two = trees::intel_powercap(2);
    assert_eq!(places(&two).len(), 7);
    assert!(!meter(&two).description().contains("mmio"));
}

/// Joules of the first domain, from one reading to the next.
fn run(tree: &Tree, directory: &str, steps: &[u64]) -> Energy {
    let source = Source::Measured(Box::new(meter(tree)));
    let start = source.start().unwrap();
    for &step in steps {
        set(tree, directory, step);
        source.read().unwrap();
    }
    source.stop(&start, 0.0).unwrap()
}

#[test]
fn microjoules_become_joules() {
    let energy = run(&trees::amd_powercap(1), "intel-rapl:0", &[3_500_000]);
    assert_eq!(energy.class, EnergyClass::Measured);
    assert_eq!(energy.domains.len(), 1, "the cores stood still");
    assert_eq!(energy.domains[0].domain, "package");
    assert!((energy.domains[0].joules - 2.5).abs() < 1e-9);
}

#[test]
fn a_counter_may_wrap_and_wrap_again() {
    let tree = trees::amd_powercap(1);
    let from = RANGE - 1_000_000;
    set(&tree, "intel-rapl:0", from);
    let once = run(&tree, "intel-rapl:0", &[2_000_000]);
    assert!((once.domains[0].joules - 3.0).abs() < 1e-9);

    set(&tree, "intel-rapl:0", from);
    let steps = [2_000_000, RANGE / 2, RANGE - 5, 1_000_000];
    let twice = run(&tree, "intel-rapl:0", &steps);
    let expected = 3.0 + (RANGE - 1_000_000) as f64 * 1e-6;
    assert!((twice.domains[0].joules - expected).abs() < 1e-6);
}

/// Between two readings of the caller the counter passes its start again: the difference alone
/// would miss a whole range.
#[test]
fn the_guard_sees_the_wraps_that_the_caller_does_not() {
    let tree = trees::amd_powercap(1);
    set(&tree, "intel-rapl:0", 1_000_000);
    let interval = Some(Duration::from_millis(1));
    let meter = detect_with(&tree.roots(), read_file, interval).unwrap();
    let before = meter.read().unwrap();
    for microjoules in [RANGE - 1, 2_000_000, RANGE - 1, 3_000_000] {
        set(&tree, "intel-rapl:0", microjoules);
        while meter.shared.sums.lock().zones[0].last != microjoules {
            std::thread::yield_now();
        }
    }
    let after = meter.read().unwrap();
    let joules = after[&(Domain::Package, 0)] - before[&(Domain::Package, 0)];
    let expected = 2.0 * RANGE as f64 * 1e-6 + 2.0;
    assert!((joules - expected).abs() < 1e-3, "{joules} not {expected}");
}

#[test]
fn the_guard_reads_before_the_fastest_zone_can_wrap() {
    let shared = Arc::clone(&meter(&trees::amd_powercap(2)).shared);
    let interval = guard_interval(&shared.sums.lock().zones);
    assert_eq!(interval.as_secs(), 32);
    let mut sums = shared.sums.lock();
    sums.zones[0].zone.range_microjoules = 1;
    assert_eq!(guard_interval(&sums.zones), GUARD_MIN);
}

/// One counter of a package of several dies appears as a zone for each die; tools that add them
/// up report a multiple of what the machine draws.
#[test]
fn mirrored_zones_count_once() {
    let tree = Tree::new();
    for die in 0..4 {
        zone(
            &tree,
            &format!("intel-rapl:{die}"),
            &format!("package-0-die-{die}"),
            5_000_000,
        );
    }
    let meter = meter(&tree);
    assert_eq!(meter.shared.sums.lock().zones.len(), 1);
    let told = "intel-rapl:3: the same counter as intel-rapl:0";
    assert!(
        meter.description().contains(told),
        "{}",
        meter.description()
    );
}

#[test]
fn dies_with_counters_of_their_own_are_summed() {
    let tree = Tree::new();
    zone(&tree, "intel-rapl:0", "package-0-die-0", 5_000_000);
    zone(&tree, "intel-rapl:1", "package-0-die-1", 6_000_000);
    let meter = meter(&tree);
    let before = meter.read().unwrap();
    set(&tree, "intel-rapl:0", 7_000_000);
    set(&tree, "intel-rapl:1", 9_000_000);
    let after = meter.read().unwrap();
    let start = super::super::Start {
        at: std::time::Instant::now(),
        readings: before,
    };
    let energy = measured(String::new(), &start, &after, 1.0);
    assert_eq!(energy.domains.len(), 1);
    assert!((energy.domains[0].joules - 5.0).abs() < 1e-9);
}

#[test]
fn a_denied_counter_names_file_and_capability() {
    let denied = |path: &Path| {
        if path.ends_with("energy_uj") {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            std::fs::read_to_string(path)
        }
    };
    let roots = trees::intel_powercap(2);
    let refusal = detect_with(&roots.roots(), denied, None).unwrap_err();
    assert!(refusal.reason.contains("energy_uj"), "{refusal}");
    assert!(refusal.remedy.contains("cap_dac_read_search"), "{refusal}");
}

#[test]
fn a_zone_that_does_not_tell_its_range_is_left_out() {
    let tree = trees::amd_powercap(1);
    tree.remove("sys/class/powercap/intel-rapl:0:0/max_energy_range_uj");
    assert_eq!(places(&tree), [(Domain::Package, 0)]);
    assert!(
        meter(&tree)
            .description()
            .contains("does not tell where it wraps")
    );
    tree.write("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "0\n");
    let refusal = detect_with(&tree.roots(), read_file, None).unwrap_err();
    assert!(
        refusal.reason.contains("does not tell where it wraps"),
        "{refusal}"
    );
}

#[test]
fn a_domain_without_a_zone_for_every_package_is_left_out_for_all() {
    let tree = trees::intel_powercap(2);
    tree.write("sys/class/powercap/intel-rapl:1:2/energy_uj", "what\n");
    let read = places(&tree);
    assert_eq!(read.len(), 5, "{read:?}");
    assert!(read.iter().all(|(domain, _)| *domain != Domain::Dram));
    assert!(meter(&tree).description().contains("intel-rapl:1:2"));
}

#[test]
fn a_counter_that_turns_to_nonsense_is_an_error_with_its_file() {
    let tree = trees::amd_powercap(1);
    let meter = meter(&tree);
    for text in ["", "abc\n", "99999999999999\n"] {
        tree.write("sys/class/powercap/intel-rapl:0/energy_uj", text);
        let error = meter.read().unwrap_err();
        assert!(error.to_string().contains("energy_uj"), "{error}");
    }
}

#[test]
fn what_the_guard_could_not_read_is_told_at_the_next_reading() {
    let tree = trees::amd_powercap(1);
    let interval = Some(Duration::from_millis(1));
    let meter = detect_with(&tree.roots(), read_file, interval).unwrap();
    tree.remove("sys/class/powercap/intel-rapl:0/energy_uj");
    while meter.shared.sums.lock().failed.is_none() {
        std::thread::yield_now();
    }
    set(&tree, "intel-rapl:0", 5_000_000);
    let error = meter.read().unwrap_err();
    assert!(error.to_string().contains("energy_uj"), "{error}");
}

#[test]
fn a_guest_without_zones_is_told_from_a_machine_without_the_module() {
    let refusal = find(&trees::guest().roots()).unwrap_err();
    assert!(refusal.reason.contains("virtual machine"), "{refusal}");
    let refusal = find(&Tree::new().roots()).unwrap_err();
    assert!(refusal.remedy.contains("intel_rapl_msr"), "{refusal}");
}
