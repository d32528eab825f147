//! `ppc-bench meter`: prints what this machine can measure. And the options of the meter, for
//! every subcommand that measures.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use ppc_store::{Error, ErrorKind, Result};

use super::{Meter, PowerModel};

/// How a subcommand measures energy.
#[derive(Debug, Args)]
pub struct MeterOptions {
    /// What this machine draws, for one without an energy meter: idle=WATTS,core=WATTS, the second
    /// for each busy core. Figures from it are called modelled.
    #[arg(long, value_name = "WATTS")]
    power_model: Option<PowerModel>,
    /// Where energy is measured: seconds to leave the machine alone before and after each run, to
    /// tell what it draws when idle; 0 takes no baseline.
    #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    idle_seconds: u64,
}

impl MeterOptions {
    /// The meter of this machine.
    #[must_use]
    pub fn detect(&self) -> Meter {
        Meter::detect(self.power_model).with_idle_baseline(Duration::from_secs(self.idle_seconds))
    }
}

/// The arguments of `ppc-bench meter`.
#[derive(Debug, Args)]
pub struct MeterArguments {
    /// What this machine draws, for one without an energy meter: idle=WATTS,core=WATTS, the second
    /// for each busy core.
    #[arg(long, value_name = "WATTS")]
    power_model: Option<PowerModel>,
    /// Leave the machine alone for so many seconds and tell what it draws; 0 does not.
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    idle_seconds: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl MeterArguments {
    /// Prints the survey to standard output.
    ///
    /// # Errors
    ///
    /// When an energy counter fails while it is read, or standard output does.
    pub fn run(&self) -> Result<()> {
        let meter = Meter::detect(self.power_model);
        let survey = meter.survey(Duration::from_secs(self.idle_seconds))?;
        let text = if self.json {
            let cannot = |error| {
                Error::new(ErrorKind::Io, "cannot write the survey as JSON").with_source(error)
            };
            let json: Result<String, serde_json::Error> = serde_json::to_string_pretty(&survey);
            json.map_err(cannot)? + "\n"
        } else {
            survey.to_text()
        };
        std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| {
                Error::new(ErrorKind::Io, "cannot write to standard output").with_source(error)
            })
    }
}
