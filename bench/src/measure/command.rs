//! `ppc-bench meter`: prints what this machine can measure.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use ppc_store::{Error, ErrorKind, Result};

use super::{Meter, PowerModel};

/// The arguments of `ppc-bench meter`.
#[derive(Debug, Args)]
pub struct MeterArguments {
    /// What this machine draws, for one without an energy meter: idle=WATTS,core=WATTS, the second
    /// for each busy core.
    #[arg(long)]
    power_model: Option<PowerModel>,
    /// Leave the machine alone for so many seconds and tell what it draws; 0 does not.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3600))]
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
