//! What bears on every figure of a machine: its processor, memory, kernel, governor, hypervisor.

use std::path::Path;

use super::Roots;
use crate::results::Machine;

impl Machine {
    /// This machine, as far as its kernel tells.
    #[must_use]
    pub fn detect() -> Self {
        detect(&Roots::default(), hypervisor_name)
    }
}

fn detect(roots: &Roots, name_hypervisor: impl Fn() -> Option<String>) -> Machine {
    let cpuinfo = read(&roots.procfs.join("cpuinfo")).unwrap_or_default();
    let online = read(&roots.sysfs.join("devices/system/cpu/online"))
        .and_then(|list| super::cpu_list(&list))
        .and_then(|cpus| u32::try_from(cpus.len()).ok());
    let cpus = online.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
    });
    let memory_kib = read(&roots.procfs.join("meminfo"))
        .and_then(|text| super::field(&text, "MemTotal").and_then(super::leading_number));
    let governor = roots
        .sysfs
        .join("devices/system/cpu/cpu0/cpufreq/scaling_governor");
    Machine {
        cpu: super::field(&cpuinfo, "model name")
            .unwrap_or(std::env::consts::ARCH)
            .to_owned(),
        cpus,
        memory_bytes: memory_kib.unwrap_or(0).saturating_mul(1024),
        kernel: read(&roots.procfs.join("sys/kernel/osrelease"))
            .unwrap_or_else(|| std::env::consts::OS.to_owned()),
        governor: read(&governor),
        hypervisor: runs_virtual(&cpuinfo)
            .then(|| name_hypervisor().unwrap_or_else(|| "unnamed".to_owned())),
        commit: env!("PPC_BENCH_COMMIT").to_owned(),
    }
}

/// Whether the processor says that a hypervisor stands between it and this kernel.
pub(super) fn runs_virtual(cpuinfo: &str) -> bool {
    super::field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The name that the hypervisor gives itself to its guests.
fn hypervisor_name() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
        let bytes = [leaf.ebx, leaf.ecx, leaf.edx]
            .map(u32::to_le_bytes)
            .concat();
        let name: String = bytes
            .iter()
            .map(|&byte| char::from(byte))
            .filter(char::is_ascii_graphic)
            .collect();
        match name.as_str() {
            "" => None,
            "KVMKVMKVM" => Some("KVM".to_owned()),
            "VMwareVMware" => Some("VMware".to_owned()),
            "XenVMMXenVMM" => Some("Xen".to_owned()),
            "MicrosoftHv" => Some("Hyper-V".to_owned()),
            _ => Some(name),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::Tree;

    #[test]
    fn a_guest_is_told_from_its_files() {
        let tree = Tree::new();
        tree.write(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\n",
        );
        tree.write(
            "proc/meminfo",
            "MemTotal:       16374216 kB\nMemFree: 1 kB\n",
        );
        tree.write("proc/sys/kernel/osrelease", "6.18.44\n");
        tree.write("sys/devices/system/cpu/online", "0-2,8\n");
        let machine = detect(&tree.roots(), || Some("KVM".to_owned()));
        assert_eq!(machine.cpu, "AMD EPYC");
        assert_eq!(machine.cpus, 4);
        assert_eq!(machine.memory_bytes, 16_374_216 * 1024);
        assert_eq!(machine.kernel, "6.18.44");
        assert_eq!(machine.governor, None);
        assert_eq!(machine.hypervisor.as_deref(), Some("KVM"));
    }

    #[test]
    fn a_machine_without_the_flag_has_no_hypervisor() {
        let tree = Tree::new();
        tree.write("proc/cpuinfo", "model name : Xeon\nflags : fpu sse\n");
        tree.write(
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance\n",
        );
        let machine = detect(&tree.roots(), || Some("KVM".to_owned()));
        assert_eq!(machine.hypervisor, None);
        assert_eq!(machine.governor.as_deref(), Some("performance"));
    }
}
