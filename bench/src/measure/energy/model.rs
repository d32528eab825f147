//! Energy computed from processor time by the watts that the user states.

use std::fmt;
use std::str::FromStr;

use crate::results::{Energy, EnergyClass, EnergyDomain};

/// The user's own statement of what their machine draws, for machines without a meter.
///
/// Written `idle=30,core=7.5`, in watts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerModel {
    /// What the machine draws when it does nothing, in watts.
    pub idle_watts: f64,
    /// What one core adds while it is busy, in watts.
    pub busy_core_watts: f64,
}

impl PowerModel {
    pub(super) fn energy(self, seconds: f64, cpu_seconds: f64) -> Energy {
        Energy {
            class: EnergyClass::Modelled,
            source: self.to_string(),
            domains: vec![EnergyDomain {
                domain: "model".to_owned(),
                package: 0,
                joules: self.idle_watts * seconds + self.busy_core_watts * cpu_seconds,
                idle_watts: None,
            }],
        }
    }
}

impl fmt::Display for PowerModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the user's model: {} W idle and {} W for each busy core",
            self.idle_watts, self.busy_core_watts
        )
    }
}

impl FromStr for PowerModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut idle = None;
        let mut core = None;
        for part in text.split(',') {
            let (name, watts) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is no `name=watts`; write idle=30,core=7.5"))?;
            let slot = match name.trim() {
                "idle" => &mut idle,
                "core" => &mut core,
                other => return Err(format!("{other:?} is neither idle nor core")),
            };
            let watts: f64 = watts
                .trim()
                .parse()
                .map_err(|_| format!("{watts:?} is not a number of watts"))?;
            if !watts.is_finite() || watts < 0.0 {
                return Err(format!("{watts} W cannot be: give 0 or more"));
            }
            if slot.replace(watts).is_some() {
                return Err(format!("{} is given twice", name.trim()));
            }
        }
        match (idle, core) {
            (Some(idle_watts), Some(busy_core_watts)) if idle_watts + busy_core_watts > 0.0 => {
                Ok(Self {
                    idle_watts,
                    busy_core_watts,
                })
            }
            (Some(_), Some(_)) => Err("a machine that draws nothing needs no model".to_owned()),
            (None, _) => Err("idle is missing; write idle=30,core=7.5".to_owned()),
            (_, None) => Err("core is missing; write idle=30,core=7.5".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_charges_idle_by_the_clock_and_cores_by_their_time() {
        let model: PowerModel = "idle=20, core=5".parse().unwrap();
        let energy = model.energy(10.0, 15.0);
        assert_eq!(energy.class, EnergyClass::Modelled);
        assert_eq!(energy.domains[0].joules, 275.0);
        assert!(energy.source.contains("20 W idle"));
    }

    #[test]
    fn a_model_that_says_too_little_or_nonsense_is_refused() {
        for (text, word) in [
            ("20", "name=watts"),
            ("idle=20", "core is missing"),
            ("core=20", "idle is missing"),
            ("idle=20,core=5,idle=3", "twice"),
            ("idle=-1,core=5", "cannot be"),
            ("idle=NaN,core=5", "cannot be"),
            ("idle=x,core=5", "not a number"),
            ("idle=0,core=0", "draws nothing"),
            ("tdp=200", "neither"),
        ] {
            let error = text.parse::<PowerModel>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
