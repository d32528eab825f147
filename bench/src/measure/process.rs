//! What needs no meter: processor time and peak memory of this process.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use super::Roots;

/// Processor time of all threads of this process since it began, those that have ended too, user
/// and system, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Peak resident memory since [`PeakMemory::start`].
#[derive(Debug)]
pub(super) struct PeakMemory {
    roots: Roots,
    /// The peak at the start: what may belong to the time before. `None` where the kernel does not
    /// tell.
    before: Option<u64>,
    was_reset: bool,
}

impl PeakMemory {
    /// Sets the kernel's mark back to what is resident now, where it lets us.
    pub(super) fn start(roots: &Roots) -> Self {
        let was_reset = can_reset(roots);
        Self {
            roots: roots.clone(),
            before: peak_resident_bytes(&roots.procfs),
            was_reset,
        }
    }

    /// The peak in bytes. `None` where the kernel does not tell, or where the mark was not set back
    /// and still shows the time before.
    pub(super) fn stop(&self) -> Option<u64> {
        let before = self.before?;
        let after = peak_resident_bytes(&self.roots.procfs)?;
        (self.was_reset || after > before).then_some(after)
    }
}

/// Sets the mark of peak memory back; tells whether that worked.
pub(super) fn can_reset(roots: &Roots) -> bool {
    // 5 sets back the peak and leaves every page as it is. (proc_pid_clear_refs(5))
    std::fs::write(roots.procfs.join("self/clear_refs"), "5").is_ok()
}

/// The peak that the kernel keeps, in bytes.
pub(super) fn peak_resident_bytes(procfs: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(procfs.join("self/status")).ok()?;
    let kib = super::field(&status, "VmHWM").and_then(super::leading_number)?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::Tree;

    #[test]
    fn cpu_time_counts_threads_that_ended() {
        let before = cpu_seconds();
        let spun = std::thread::spawn(|| {
            let start = clock_gettime(ClockId::ThreadCPUTime);
            loop {
                let now = clock_gettime(ClockId::ThreadCPUTime);
                let nanos =
                    (now.tv_sec - start.tv_sec) * 1_000_000_000 + now.tv_nsec - start.tv_nsec;
                if nanos >= 20_000_000 {
                    return nanos as f64 * 1e-9;
                }
            }
        });
        let spun = spun.join().unwrap();
        assert!(cpu_seconds() - before >= spun);
    }

    #[test]
    fn the_peak_holds_what_the_run_allocated() {
        let roots = Roots::default();
        let peak = PeakMemory::start(&roots);
        let before = peak.before.unwrap();
        let bytes = 64 << 20;
        // Held until the end: another test of this process may set the mark back meanwhile.
        let held = std::hint::black_box(vec![1_u8; bytes]);
        let after = peak.stop().unwrap();
        drop(held);
        // Other tests share this process, and may free memory meanwhile: half will do.
        assert!(after >= before + bytes as u64 / 2, "{before} to {after}");
    }

    #[test]
    fn without_a_reset_an_older_peak_is_no_figure() {
        let tree = Tree::new();
        tree.write("proc/self/status", "Name:\tx\nVmHWM:\t    2000 kB\n");
        tree.deny("proc/self/clear_refs");
        let peak = PeakMemory::start(&tree.roots());
        assert!(!peak.was_reset);
        assert_eq!(peak.stop(), None);
        tree.write("proc/self/status", "Name:\tx\nVmHWM:\t    3000 kB\n");
        assert_eq!(peak.stop(), Some(3000 * 1024));
    }

    #[test]
    fn a_reset_peak_is_a_figure_even_when_it_did_not_rise() {
        let tree = Tree::new();
        tree.write("proc/self/status", "VmHWM:\t    2000 kB\n");
        tree.write("proc/self/clear_refs", "");
        let peak = PeakMemory::start(&tree.roots());
        assert_eq!(peak.stop(), Some(2000 * 1024));
        assert_eq!(tree.read("proc/self/clear_refs"), "5");
    }
}
