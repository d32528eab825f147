//! Machines made of files, as their kernels show them.

use crate::measure::tests::Tree;

/// 2^-32 J, as the kernel writes it.
pub(super) const SCALE: &str = "2.3283064365386962890625e-10\n";
/// Where a counter of 2^32 units of 2^-16 J wraps, in microjoules.
pub(super) const RANGE: u64 = 65_532_610_987;

fn cpuinfo(tree: &Tree, vendor: &str, flags: &str) {
    tree.write(
        "proc/cpuinfo",
        &format!("processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu sse {flags}\n"),
    );
}

/// A cloud guest: no power PMU, no powercap.
pub(super) fn guest() -> Tree {
    let tree = Tree::new();
    cpuinfo(&tree, "AuthenticAMD", "hypervisor");
    tree.write("sys/bus/event_source/devices/software/type", "1\n");
    tree
}

/// A power PMU with `events` on the processors `cpus`, each given with its package.
pub(super) fn power_pmu(vendor: &str, cpus: &[(usize, u32)], events: &[(&str, &str)]) -> Tree {
    let tree = Tree::new();
    cpuinfo(&tree, vendor, "");
    let pmu = "sys/bus/event_source/devices/power";
    let mask: Vec<String> = cpus.iter().map(|(cpu, _)| cpu.to_string()).collect();
    tree.write(&format!("{pmu}/type"), "25\n");
    tree.write(&format!("{pmu}/cpumask"), &format!("{}\n", mask.join(",")));
    tree.write(&format!("{pmu}/format/event"), "config:0-7\n");
    for (cpu, package) in cpus {
        tree.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"),
            &format!("{package}\n"),
        );
    }
    for (name, event) in events {
        tree.write(&format!("{pmu}/events/{name}"), &format!("event={event}\n"));
        tree.write(&format!("{pmu}/events/{name}.scale"), SCALE);
        tree.write(&format!("{pmu}/events/{name}.unit"), "Joules\n");
    }
    tree
}

/// An AMD machine: the package and nothing else.
pub(super) fn amd(sockets: u32) -> Tree {
    let cpus: Vec<(usize, u32)> = (0..sockets)
        .map(|socket| (socket as usize * 64, socket))
        .collect();
    power_pmu("AuthenticAMD", &cpus, &[("energy-pkg", "0x02")])
}

/// An Intel server: cores, package, memory and the platform.
pub(super) fn intel(sockets: u32) -> Tree {
    let cpus: Vec<(usize, u32)> = (0..sockets)
        .map(|socket| (socket as usize * 28, socket))
        .collect();
    power_pmu(
        "GenuineIntel",
        &cpus,
        &[
            ("energy-cores", "0x01"),
            ("energy-pkg", "0x02"),
            ("energy-ram", "0x03"),
            ("energy-gpu", "0x04"),
            ("energy-psys", "0x05"),
        ],
    )
}

/// A powercap zone that stands at `microjoules`.
pub(super) fn zone(tree: &Tree, directory: &str, name: &str, microjoules: u64) {
    let path = format!("sys/class/powercap/{directory}");
    tree.write(&format!("{path}/name"), &format!("{name}\n"));
    tree.write(
        &format!("{path}/max_energy_range_uj"),
        &format!("{RANGE}\n"),
    );
    set(tree, directory, microjoules);
}

/// Lets a zone's counter stand elsewhere.
pub(super) fn set(tree: &Tree, directory: &str, microjoules: u64) {
    tree.write(
        &format!("sys/class/powercap/{directory}/energy_uj"),
        &format!("{microjoules}\n"),
    );
}

/// An Intel machine as powercap shows it: per socket the package with its cores and memory, then
/// the platform; and the first package once more through its memory-mapped door.
pub(super) fn intel_powercap(sockets: u32) -> Tree {
    let tree = Tree::new();
    cpuinfo(&tree, "GenuineIntel", "");
    tree.write("sys/class/powercap/intel-rapl/enabled", "1\n");
    for socket in 0..sockets {
        let base = u64::from(socket) * 1_000_000_000;
        let package = format!("intel-rapl:{socket}");
        zone(
            &tree,
            &package,
            &format!("package-{socket}"),
            base + 1_000_000,
        );
        zone(&tree, &format!("{package}:0"), "core", base + 2_000_000);
        zone(&tree, &format!("{package}:1"), "uncore", base + 2_500_000);
        zone(&tree, &format!("{package}:2"), "dram", base + 3_000_000);
    }
    zone(&tree, &format!("intel-rapl:{sockets}"), "psys", 4_000_000);
    zone(&tree, "intel-rapl-mmio:0", "package-0", 1_000_000);
    tree
}

/// An AMD machine as powercap shows it: the packages and their cores.
pub(super) fn amd_powercap(sockets: u32) -> Tree {
    let tree = Tree::new();
    cpuinfo(&tree, "AuthenticAMD", "");
    for socket in 0..sockets {
        let base = u64::from(socket) * 1_000_000_000;
        let package = format!("intel-rapl:{socket}");
        zone(
            &tree,
            &package,
            &format!("package-{socket}"),
            base + 1_000_000,
        );
        zone(&tree, &format!("{package}:0"), "core", base + 2_000_000);
    }
    tree
}
