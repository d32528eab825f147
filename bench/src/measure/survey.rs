//! What this machine can measure, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use ppc_store::Result;
use serde::Serialize;

use super::{Idle, Meter, Refusal, process};
use crate::results::{EnergyClass, Machine};

/// What a [`Meter`] measures on this machine, and why not the rest.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// The machine.
    pub machine: Machine,
    /// Processor time; always there.
    pub cpu_seconds: bool,
    /// Whether the kernel tells the peak of resident memory.
    pub peak_resident_bytes: bool,
    /// Whether that peak can be set back before a run. If not, a run whose peak lies below an
    /// earlier one has no figure.
    pub peak_can_be_reset: bool,
    /// Whether instructions in user mode can be counted.
    pub instructions: bool,
    /// Whether cycles in user mode can be counted.
    pub cycles: bool,
    /// What kind of energy figures a run will have.
    pub energy: EnergyClass,
    /// The meter, the model, or why there is neither.
    pub energy_source: String,
    /// What the idle machine drew, where it was asked for and can be measured.
    pub idle: Idle,
    /// What cannot be measured, and what would help.
    pub refusals: Vec<Refusal>,
}

impl Meter {
    /// Tells what can be measured; for `idle`, if not zero, it also waits and measures what the
    /// machine draws meanwhile.
    ///
    /// # Errors
    ///
    /// When an energy counter that could be read at [`Meter::detect`] no longer can.
    pub fn survey(&self, idle: Duration) -> Result<Survey> {
        let mut refusals = self.counter_refusals();
        refusals.extend(self.energy_refusals.iter().cloned());
        Ok(Survey {
            machine: Machine::detect(),
            cpu_seconds: true,
            peak_resident_bytes: process::peak_resident_bytes(&self.roots.procfs).is_some(),
            peak_can_be_reset: process::can_reset(&self.roots),
            instructions: self.instructions.is_ok(),
            cycles: self.cycles.is_ok(),
            energy: self.energy.class(),
            energy_source: self.energy.description(),
            idle: if idle.is_zero() {
                Idle::default()
            } else {
                self.idle(idle)?
            },
            refusals,
        })
    }
}

impl Survey {
    /// The survey as text, a line for each kind of figure.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a string does not fail.
            writeln!(text, "{name:<14} {value}").ok();
        };
        line("machine", &self.machine_text());
        line("cpu seconds", "measured: all threads, user and system");
        let memory = match (self.peak_resident_bytes, self.peak_can_be_reset) {
            (true, true) => "measured: set back before each run",
            (true, false) => {
                "measured in part: the peak cannot be set back, so a run has a figure only if it exceeds all before it"
            }
            (false, _) => "unavailable: the kernel does not tell VmHWM in /proc/self/status",
        };
        line("peak memory", memory);
        for (name, is_measured) in [("instructions", self.instructions), ("cycles", self.cycles)] {
            if is_measured {
                line(name, "measured: user mode, all threads");
            } else {
                line(name, "unavailable");
                self.tell_refusals(&mut line, &[name]);
            }
        }
        match self.energy {
            EnergyClass::Measured => {
                line("energy", &format!("measured: {}", self.energy_source));
            }
            EnergyClass::Modelled => {
                line(
                    "energy",
                    &format!("MODELLED, not measured: {}", self.energy_source),
                );
            }
            EnergyClass::Unavailable => line("energy", "unavailable"),
        }
        self.tell_refusals(&mut line, &["perf", "powercap", "model"]);
        for idle in self.idle.domains() {
            let what = format!(
                "{:.2} W, {} of package {}",
                idle.watts, idle.domain, idle.package
            );
            line("idle", &what);
        }
        text
    }

    fn machine_text(&self) -> String {
        let machine = &self.machine;
        let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
        let mut text = format!(
            "{}, {} processors, {gib:.1} GiB, {}",
            machine.cpu, machine.cpus, machine.kernel
        );
        if let Some(governor) = &machine.governor {
            text += &format!(", governor {governor}");
        }
        if let Some(hypervisor) = &machine.hypervisor {
            text += &format!(", guest of {hypervisor}");
        }
        text
    }

    fn tell_refusals(&self, line: &mut impl FnMut(&str, &str), meters: &[&str]) {
        for refusal in &self.refusals {
            if meters.contains(&refusal.meter.as_str()) {
                let name = format!("  {}", refusal.meter);
                line(&name, &refusal.reason);
                line("", &format!("-> {}", refusal.remedy));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::Tree;

    #[test]
    fn a_guest_is_told_what_it_lacks_and_what_to_do() {
        let tree = Tree::new();
        tree.write("proc/cpuinfo", "model name : x\nflags : hypervisor\n");
        let meter = Meter::detect_in(tree.roots(), None);
        let survey = meter.survey(Duration::ZERO).unwrap();
        assert_eq!(survey.energy, EnergyClass::Unavailable);
        let text = survey.to_text();
        assert!(text.contains("energy         unavailable\n"), "{text}");
        assert!(text.contains("this is a virtual machine"), "{text}");
        assert!(
            text.contains("-> if you know what this machine draws"),
            "{text}"
        );
        assert!(!text.contains(" J") && !text.contains(" 0 W"), "{text}");
        let json = serde_json::to_value(&survey).unwrap();
        assert_eq!(json["energy"], "unavailable");
        assert_eq!(json["idle"], serde_json::json!([]));
        let meters: Vec<_> = survey
            .refusals
            .iter()
            .map(|told| told.meter.as_str())
            .collect();
        assert!(
            meters.ends_with(&["perf", "powercap", "model"]),
            "{meters:?}"
        );
    }

    #[test]
    fn a_model_is_called_one() {
        let tree = Tree::new();
        let model = "idle=20,core=5".parse().unwrap();
        let meter = Meter::detect_in(tree.roots(), Some(model));
        let text = meter.survey(Duration::ZERO).unwrap().to_text();
        assert!(text.contains("MODELLED, not measured"), "{text}");
    }
}
