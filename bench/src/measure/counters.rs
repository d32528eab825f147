//! Instructions and cycles in user mode, of all threads of this process.
//!
//! Perf counts for a thread, and with `inherit` for the threads that it starts later. So a counter
//! is opened on every thread that runs when the measurement begins, each inherited by what these
//! threads start. Counted is what all of them do until the end, also of those that end before it.
//!
//! A count is a count: where the kernel shared the hardware counter with somebody else and would
//! have to extrapolate, there is none.

use std::io;

use super::{Refusal, Roots};

/// How many times the threads may change while counters are opened on them.
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 16;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Instructions,
    Cycles,
}

/// Whether a counter can be opened here, and why not.
pub(super) fn availability(kind: Kind, roots: &Roots) -> Result<(), Refusal> {
    match imp::Counter::open(kind, roots) {
        Ok(_) => Ok(()),
        Err(error) => Err(refusal(kind, &error, roots)),
    }
}

/// Counters that run.
#[derive(Debug)]
pub(super) struct Running {
    counter: imp::Counter,
    before: imp::Reading,
}

impl Running {
    /// Begins to count.
    pub(super) fn start(kind: Kind, roots: &Roots) -> io::Result<Self> {
        let mut counter = imp::Counter::open(kind, roots)?;
        let before = counter.read()?;
        Ok(Self { counter, before })
    }

    /// What was counted since; `None` where the counter did not run all the time.
    pub(super) fn stop(mut self) -> io::Result<Option<u64>> {
        let after = self.counter.read()?;
        Ok(after.since(self.before))
    }
}

/// Whether the kernel has the counter and keeps it from this user.
pub(super) fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn refusal(kind: Kind, error: &io::Error, roots: &Roots) -> Refusal {
    let name = match kind {
        Kind::Instructions => "instructions",
        Kind::Cycles => "cycles",
    };
    let cpuinfo = std::fs::read_to_string(roots.procfs.join("cpuinfo")).unwrap_or_default();
    if is_denied(error) {
        Refusal::new(
            name,
            format!("the kernel does not let this user count: {error}"),
            "as root: sysctl kernel.perf_event_paranoid=2, and in a container allow the call \
             perf_event_open",
        )
    } else if super::machine::runs_virtual(&cpuinfo) {
        Refusal::new(
            name,
            format!("this virtual machine has no such counter: {error}"),
            "ask the hypervisor for a virtual PMU, or run on the host",
        )
    } else {
        Refusal::new(
            name,
            format!("the kernel offers no such counter: {error}"),
            "run on Linux, on a processor whose counters the kernel knows",
        )
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::collections::BTreeSet;
    use std::io;

    use perf_event::Builder;
    use perf_event::events::{Event, Hardware};

    use super::{ATTEMPTS, Kind, Roots};

    /// One counter for each thread that ran when it was opened.
    #[derive(Debug)]
    pub(super) struct Counter(Vec<perf_event::Counter>);

    /// A count, and the time that it was wanted and that it ran, in nanoseconds.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct Reading {
        pub(super) count: u64,
        pub(super) wanted_ns: u64,
        pub(super) ran_ns: u64,
    }

    impl Reading {
        pub(super) fn since(self, before: Self) -> Option<u64> {
            let wanted = self.wanted_ns.saturating_sub(before.wanted_ns);
            let ran = self.ran_ns.saturating_sub(before.ran_ns);
            // The two clocks are not read in the same instant: one in a thousand is no sharing.
            let all_the_time = ran.saturating_add(wanted / 1000) >= wanted;
            all_the_time.then(|| self.count.saturating_sub(before.count))
        }
    }

    impl Counter {
        pub(super) fn open(kind: Kind, roots: &Roots) -> io::Result<Self> {
            let event = match kind {
                Kind::Instructions => Hardware::INSTRUCTIONS,
                Kind::Cycles => Hardware::CPU_CYCLES,
            };
            Self::open_event(event, roots)
        }

        /// Opens `event` on every thread. A thread that starts meanwhile is counted or not,
        /// depending on whether its parent was open already: then all begins anew.
        pub(super) fn open_event(event: impl Event + Clone, roots: &Roots) -> io::Result<Self> {
            for _ in 0..ATTEMPTS {
                let threads = threads(roots)?;
                let mut counters = Vec::with_capacity(threads.len());
                for &thread in &threads {
                    let mut builder = Builder::new(event.clone());
                    builder.observe_pid(thread).any_cpu();
                    match builder.inherit(true).enabled(true).build() {
                        Ok(counter) => counters.push(counter),
                        Err(error) if has_ended(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
                if self::threads(roots)?.is_subset(&threads) {
                    return Ok(Self(counters));
                }
            }
            let what = "threads start faster than counters can be opened on them";
            Err(io::Error::other(what))
        }

        pub(super) fn read(&mut self) -> io::Result<Reading> {
            let mut sum = Reading::default();
            for counter in &mut self.0 {
                let reading = counter.read_count_and_time()?;
                sum.count += reading.count;
                sum.wanted_ns += reading.time_enabled;
                sum.ran_ns += reading.time_running;
            }
            Ok(sum)
        }
    }

    /// No such process: the thread ended between the listing and the opening.
    fn has_ended(error: &io::Error) -> bool {
        error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
    }

    /// The threads of this process.
    fn threads(roots: &Roots) -> io::Result<BTreeSet<i32>> {
        let mut threads = BTreeSet::new();
        for entry in std::fs::read_dir(roots.procfs.join("self/task"))? {
            if let Some(thread) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            {
                threads.insert(thread);
            }
        }
        Ok(threads)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    use super::{Kind, Roots};

    /// Perf is a part of Linux: there are no counters to open.
    #[derive(Debug)]
    pub(super) enum Counter {}

    #[derive(Debug, Clone, Copy)]
    pub(super) enum Reading {}

    impl Reading {
        pub(super) fn since(self, _: Self) -> Option<u64> {
            match self {}
        }
    }

    impl Counter {
        pub(super) fn open(_: Kind, _: &Roots) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn read(&mut self) -> io::Result<Reading> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use perf_event::events::Software;
    use rustix::time::{ClockId, clock_gettime};

    use super::imp::{Counter, Reading};
    use super::*;
    use crate::measure::tests::Tree;

    const SPUN_NS: i64 = 20_000_000;

    /// Uses up processor time on the thread that calls.
    fn spin() {
        let nanoseconds = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            now.tv_sec * 1_000_000_000 + now.tv_nsec
        };
        let end = nanoseconds() + SPUN_NS;
        while nanoseconds() < end {
            std::hint::spin_loop();
        }
    }

    /// Inheritance alone would miss a thread that ran before, as the workers of a pool do. The
    /// event is the kernel's own clock of a thread, which needs no hardware counter.
    #[test]
    fn threads_from_before_and_after_count_and_so_do_those_that_end() {
        let (go, wait) = mpsc::channel::<()>();
        let (tell, begun) = mpsc::channel::<()>();
        let older = thread::spawn(move || {
            tell.send(()).unwrap();
            wait.recv().unwrap();
            spin();
        });
        begun.recv().unwrap();
        let mut clock = Counter::open_event(Software::TASK_CLOCK, &Roots::default()).unwrap();
        let before = clock.read().unwrap();
        go.send(()).unwrap();
        older.join().unwrap();
        let between = clock.read().unwrap();
        assert!(between.since(before).unwrap() >= SPUN_NS as u64);
        let younger = thread::spawn(|| thread::spawn(spin).join().unwrap());
        younger.join().unwrap();
        assert!(clock.read().unwrap().since(between).unwrap() >= SPUN_NS as u64);
    }

    #[test]
    fn a_count_that_was_shared_is_no_count() {
        let before = Reading {
            count: 100,
            wanted_ns: 50,
            ran_ns: 50,
        };
        let at = |wanted_ns, ran_ns| Reading {
            count: 300,
            wanted_ns,
            ran_ns,
        };
        assert_eq!(at(1_000_050, 1_000_050).since(before), Some(200));
        assert_eq!(at(1_000_050, 999_950).since(before), Some(200));
        assert_eq!(at(1_000_050, 500_050).since(before), None);
    }

    #[test]
    fn a_refusal_tells_permission_from_a_guest_without_counters() {
        let tree = Tree::new();
        let denied = io::Error::from_raw_os_error(13);
        let told = refusal(Kind::Cycles, &denied, &tree.roots());
        assert!(told.remedy.contains("perf_event_paranoid"), "{told}");
        let missing = io::Error::from_raw_os_error(2);
        let told = refusal(Kind::Cycles, &missing, &tree.roots());
        assert!(told.remedy.contains("processor"), "{told}");
        tree.write("proc/cpuinfo", "flags : hypervisor\n");
        let told = refusal(Kind::Instructions, &missing, &tree.roots());
        assert!(told.remedy.contains("virtual PMU"), "{told}");
    }
}
