//! What is computed of a measurement. Rates are per repetition first, and summarised then.

use super::{Energy, EnergyClass, Measurement, Record, Summary};

const MIB: f64 = 1024.0 * 1024.0;
const MB: f64 = 1e6;

/// Energy of every repetition of a measurement, all of one class and domain.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyReading {
    /// Measured or modelled.
    pub class: EnergyClass,
    /// Which consumption it covers: `package`, `psys`, `model`, `core` or `dram`.
    pub domain: &'static str,
    /// Joules of each repetition, over all packages, idle consumption included.
    pub joules: Vec<f64>,
    /// Megabytes (10^6 bytes) of values for each joule, of each repetition; empty where no values
    /// moved or no joule was counted.
    pub mb_per_joule: Vec<f64>,
}

impl EnergyReading {
    /// Class and domain in words: `measured, package`.
    pub fn kind(&self) -> String {
        format!("{}, {}", class_name(self.class), self.domain)
    }
}

/// The class in a word.
pub fn class_name(class: EnergyClass) -> &'static str {
    match class {
        EnergyClass::Measured => "measured",
        EnergyClass::Modelled => "modelled",
        EnergyClass::Unavailable => "unavailable",
    }
}

impl Measurement {
    /// Summarises `figure` over the repetitions; `None` if one of them lacks it.
    pub fn summary(&self, figure: impl Fn(&Record) -> Option<f64>) -> Option<Summary> {
        let values: Option<Vec<f64>> = self.records.iter().map(figure).collect();
        Summary::of(values?)
    }

    /// MiB of values a second; `None` where no values moved.
    pub fn mib_per_second(&self) -> Option<Summary> {
        self.summary(mib_per_second)
    }

    /// MiB of values for each second of processor time; `None` where no values moved.
    pub fn mib_per_cpu_second(&self) -> Option<Summary> {
        self.summary(mib_per_cpu_second)
    }

    /// Operations a second.
    pub fn operations_per_second(&self) -> Option<Summary> {
        self.summary(operations_per_second)
    }

    /// Bytes of all files of the store.
    pub fn stored_bytes(&self) -> Option<Summary> {
        self.summary(|record| Some(record.space.stored_bytes as f64))
    }

    /// Stored bytes for each byte of values: lower is better.
    pub fn ratio(&self) -> Option<f64> {
        self.summary(|record| {
            quotient(
                record.space.stored_bytes as f64,
                record.corpus.raw_bytes as f64,
            )
        })
        .map(|summary| summary.median)
    }

    /// Bytes decompressed for each byte returned, where the store counts them.
    pub fn decoded_per_returned(&self) -> Option<Summary> {
        self.summary(decoded_per_returned)
    }

    /// Instructions in user mode for each byte of values, where the kernel grants the counter.
    pub fn instructions_per_byte(&self) -> Option<Summary> {
        self.summary(instructions_per_byte)
    }

    /// Processor time for each byte of values, in nanoseconds.
    pub fn cpu_ns_per_byte(&self) -> Option<Summary> {
        self.summary(|record| quotient(record.costs.cpu_seconds * 1e9, record.value_bytes as f64))
    }

    /// Peak resident memory in bytes, where the kernel tells.
    pub fn peak_resident_bytes(&self) -> Option<Summary> {
        self.summary(|record| record.costs.peak_resident_bytes.map(|bytes| bytes as f64))
    }

    /// Bytes written for each byte of values, where the store counts them.
    pub fn write_amplification(&self) -> Option<Summary> {
        self.summary(|record| {
            quotient(
                record.space.written_bytes? as f64,
                record.value_bytes as f64,
            )
        })
    }

    /// Energy, if all repetitions give a figure of the same class and domain.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn energy(&self) -> Result<EnergyReading, String> {
        let mut reading: Option<EnergyReading> = None;
        for record in &self.records {
            let (class, domain, joules) = total(&record.costs.energy)?;
            let reading = reading.get_or_insert_with(|| EnergyReading {
                class,
                domain,
                joules: Vec::new(),
                mb_per_joule: Vec::new(),
            });
            if (reading.class, reading.domain) != (class, domain) {
                return Err("repetitions differ in the class or domain of their energy".to_owned());
            }
            reading.joules.push(joules);
            reading
                .mb_per_joule
                .extend(rate(record.value_bytes as f64 / MB, joules));
        }
        let mut reading = reading.ok_or("no repetition")?;
        if reading.mb_per_joule.len() < reading.joules.len() {
            reading.mb_per_joule.clear();
        }
        Ok(reading)
    }
}

/// The figure that stands for the whole of a run: the packages, as in the paper; else what is there.
/// Domains overlap (a package contains its cores), so different ones are never added up.
fn total(energy: &Energy) -> Result<(EnergyClass, &'static str, f64), String> {
    if energy.class == EnergyClass::Unavailable {
        return Err(energy.source.clone());
    }
    for domain in ["package", "psys", "model", "core", "dram"] {
        let mut parts = energy
            .domains
            .iter()
            .filter(|part| part.domain == domain)
            .peekable();
        if parts.peek().is_some() {
            return Ok((energy.class, domain, parts.map(|part| part.joules).sum()));
        }
    }
    Err("the meter gave no domain that is known here".to_owned())
}

pub(crate) fn mib_per_second(record: &Record) -> Option<f64> {
    rate(record.value_bytes as f64 / MIB, record.seconds)
}

pub(crate) fn mib_per_cpu_second(record: &Record) -> Option<f64> {
    rate(record.value_bytes as f64 / MIB, record.costs.cpu_seconds)
}

pub(crate) fn operations_per_second(record: &Record) -> Option<f64> {
    rate(record.operations as f64, record.seconds)
}

pub(crate) fn decoded_per_returned(record: &Record) -> Option<f64> {
    quotient(
        record.costs.decoded_bytes? as f64,
        record.value_bytes as f64,
    )
}

pub(crate) fn instructions_per_byte(record: &Record) -> Option<f64> {
    quotient(record.costs.instructions? as f64, record.value_bytes as f64)
}

/// A rate of nothing is no rate: misses return no values.
fn rate(amount: f64, seconds: f64) -> Option<f64> {
    quotient(amount, seconds).filter(|&rate| rate > 0.0)
}

fn quotient(amount: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| amount / of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::group;
    use crate::results::testing::{Builder, record};

    fn measure(builders: impl IntoIterator<Item = Builder>) -> Measurement {
        let mut runs = group(builders.into_iter().map(Builder::build));
        runs.remove(0)
            .corpora
            .remove(0)
            .cells
            .pop_first()
            .unwrap()
            .1
    }

    #[test]
    fn rates_ratio_and_costs_are_those_of_the_record() {
        let measurement = measure([
            record().value_mib(100).seconds(2.0).cpu_seconds(4.0),
            record().value_mib(100).seconds(1.0).cpu_seconds(2.0),
            record().value_mib(100).seconds(4.0).cpu_seconds(8.0),
        ]);
        assert_eq!(measurement.mib_per_second().unwrap().median, 50.0);
        assert_eq!(measurement.mib_per_second().unwrap().max, 100.0);
        assert_eq!(measurement.mib_per_cpu_second().unwrap().median, 25.0);

        let mib = 1 << 20;
        let measurement = measure([record()
            .corpus("python", 64)
            .stored_bytes(16 * mib)
            .value_mib(2)
            .decoded_bytes(6 * mib)
            .instructions(20 * mib)]);
        assert_eq!(measurement.ratio(), Some(0.25));
        assert_eq!(measurement.decoded_per_returned().unwrap().median, 3.0);
        assert_eq!(measurement.instructions_per_byte().unwrap().median, 10.0);
    }

    #[test]
    fn what_moved_nothing_or_took_no_time_has_no_rate() {
        let measurement = measure([record().value_mib(0)]);
        assert_eq!(measurement.mib_per_second(), None);
        assert!(measurement.operations_per_second().is_some());
        assert_eq!(measure([record().seconds(0.0)]).mib_per_second(), None);
    }

    #[test]
    fn packages_are_added_up_and_their_cores_are_not() {
        let measurement = measure([record().value_mib(1).energy(
            EnergyClass::Measured,
            &[("package", 0, 2.0), ("core", 0, 1.5), ("package", 1, 2.0)],
        )]);
        let energy = measurement.energy().unwrap();
        assert_eq!(energy.kind(), "measured, package");
        assert_eq!(energy.joules, [4.0]);
        assert_eq!(energy.mb_per_joule, [1.048_576 / 4.0]);
    }

    #[test]
    fn energy_is_never_mixed_nor_made_up() {
        let measured = record().energy(EnergyClass::Measured, &[("package", 0, 2.0)]);
        let modelled = record().energy(EnergyClass::Modelled, &[("model", 0, 2.0)]);
        let reason = measure([measured.clone(), modelled]).energy().unwrap_err();
        assert!(reason.contains("differ"), "{reason}");
        let reason = measure([measured, record()]).energy().unwrap_err();
        assert_eq!(reason, "no meter: a virtual machine");
    }
}
