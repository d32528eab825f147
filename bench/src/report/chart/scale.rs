//! Axes: from values to places, with round numbers at the ticks.

use crate::results::number;

/// How values spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// How ticks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// `1,500`
    Plain,
    /// Shares as `15 %`
    Percent,
    /// `1 GiB`
    Bytes,
}

/// An axis: what it shows, from where to where, and its ticks.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// What the values are, with their unit.
    pub(crate) label: String,
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

/// Beyond this ratio of largest to smallest, small values would lie flat on a linear axis.
const LINEAR_SPAN_MAX: f64 = 15.0;
/// How many ticks are wanted, about.
const TICKS: f64 = 5.0;

impl Axis {
    /// An axis for values of any size: linear, or logarithmic where they differ too much.
    pub(crate) fn fitted(label: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = extent(values);
        if low > 0.0 && high / low > LINEAR_SPAN_MAX {
            Self::logarithmic(label, unit, low, high)
        } else {
            Self::linear(label, unit, low, high)
        }
    }

    /// An axis for shares, always linear.
    pub(crate) fn shares(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = extent(values);
        Self::linear(label, Unit::Percent, low, high)
    }

    /// A logarithmic axis with a tick at each of the values themselves: threads, sizes.
    pub(crate) fn of_steps(label: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let mut ticks: Vec<f64> = values.into_iter().filter(|&value| value > 0.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let (low, high) = extent(ticks.iter().copied());
        // A little room, so that no point sits on the frame.
        let room = (high / low.max(f64::MIN_POSITIVE)).powf(0.04).max(1.05);
        Self {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
            unit,
            low: low / room,
            high: high * room,
            ticks,
        }
    }

    fn linear(label: &str, unit: Unit, low: f64, high: f64) -> Self {
        // Zero belongs to the picture unless the values lie far from it: lengths then mean something.
        let near_zero = low >= 0.0 && low <= high / 2.0;
        let (low, high) = match (near_zero, high > low) {
            (true, _) => (0.0, if high > 0.0 { high } else { 1.0 }),
            (false, true) => (low - (high - low) * 0.05, high + (high - low) * 0.05),
            (false, false) => (low - low.abs() * 0.1, high + high.abs() * 0.1),
        };
        let step = round_step((high - low) / TICKS);
        let first = (low / step).floor();
        let last = (high / step).ceil();
        let ticks: Vec<f64> = (0..=(last - first) as u32)
            .map(|index| (first + f64::from(index)) * step)
            .collect();
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            unit,
            low: first * step,
            high: last * step,
            ticks,
        }
    }

    fn logarithmic(label: &str, unit: Unit, low: f64, high: f64) -> Self {
        let decades = (high / low).log10();
        let digits: &[f64] = if decades > 3.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let exponents = (low.log10().floor() as i32 - 1)..=(high.log10().ceil() as i32 + 1);
        let all: Vec<f64> = exponents
            .flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)))
            .collect();
        let before = all
            .iter()
            .rev()
            .find(|&&tick| tick <= low * 1.000_001)
            .copied();
        let after = all.iter().find(|&&tick| tick >= high * 0.999_999).copied();
        let (low, high) = (before.unwrap_or(low), after.unwrap_or(high));
        Self {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
            unit,
            low,
            high,
            ticks: all
                .into_iter()
                .filter(|tick| (low..=high).contains(tick))
                .collect(),
        }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high one.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.5
        }
    }

    /// Values to mark, with their texts.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        self.ticks.iter().map(|&tick| (tick, self.text(tick)))
    }

    fn text(&self, tick: f64) -> String {
        match self.unit {
            Unit::Plain => plain(tick),
            Unit::Percent => format!("{} %", plain(tick * 100.0)),
            Unit::Bytes => crate::results::bytes(tick as u64),
        }
    }
}

/// A round number without zeros at its end.
fn plain(tick: f64) -> String {
    // What 3 × 0.1 is short of 0.3 is no part of the number.
    let tick = if tick.abs() < 1e-12 { 0.0 } else { tick };
    if tick.abs() >= 1000.0 {
        return number(tick);
    }
    let text = format!("{tick:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Smallest and largest; 0 to 1 if there is nothing.
fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// The nearest of 1, 2, 5, 10 and so on, by its factor.
fn round_step(step: f64) -> f64 {
    let magnitude = 10f64.powf(step.log10().floor());
    let digit = match step / magnitude {
        digit if digit < 2f64.sqrt() => 1.0,
        digit if digit < 10f64.sqrt() => 2.0,
        digit if digit < 50f64.sqrt() => 5.0,
        _ => 10.0,
    };
    digit * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().map(|(_, text)| text).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_enclose_the_values() {
        let axis = Axis::fitted("", Unit::Plain, [120.0, 731.0]);
        assert_eq!(texts(&axis), ["0", "200", "400", "600", "800"]);
        let axis = Axis::fitted("", Unit::Plain, [0.30, 0.29, 0.28]);
        assert_eq!(
            texts(&axis),
            ["0.275", "0.28", "0.285", "0.29", "0.295", "0.3", "0.305"]
        );
        let axis = Axis::fitted(
            "",
            Unit::Plain,
            [3.0, 1010.0, 500.0].map(|value| value + 100.0),
        );
        assert_eq!(texts(&axis).last().unwrap(), "1,200");
        let axis = Axis::shares("", [0.081, 0.155, 0.2067]);
        assert_eq!(texts(&axis), ["0 %", "5 %", "10 %", "15 %", "20 %", "25 %"]);
    }

    #[test]
    fn values_far_apart_get_a_logarithmic_axis() {
        let axis = Axis::fitted("", Unit::Plain, [9.0, 300.0]);
        assert_eq!(axis.scale, Scale::Logarithmic);
        assert_eq!(texts(&axis), ["5", "10", "20", "50", "100", "200", "500"]);
        let axis = Axis::fitted("", Unit::Plain, [0.02, 90_000.0]);
        assert_eq!(texts(&axis)[0], "0.01");
        assert_eq!(texts(&axis).last().unwrap(), "100,000");
    }

    #[test]
    fn places_run_from_0_to_1_and_are_always_finite() {
        for values in [
            vec![],
            vec![0.0],
            vec![5.0],
            vec![-3.0, 4.0],
            vec![1.0, 1e9],
            vec![f64::NAN],
        ] {
            for axis in [
                Axis::fitted("", Unit::Plain, values.clone()),
                Axis::of_steps("", Unit::Plain, values.clone()),
            ] {
                for value in values
                    .iter()
                    .copied()
                    .chain([0.0, -1.0, f64::NAN, f64::INFINITY])
                {
                    assert!((0.0..=1.0).contains(&axis.place(value)), "{axis:?} {value}");
                }
            }
        }
        let axis = Axis::fitted("", Unit::Plain, [10.0, 1000.0]);
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn steps_are_ticks_themselves() {
        let axis = Axis::of_steps("", Unit::Plain, [4.0, 1.0, 2.0, 2.0]);
        assert_eq!(texts(&axis), ["1", "2", "4"]);
        assert!((axis.place(2.0) - 0.5).abs() < 1e-9);
        let sizes = [1u64 << 28, 1 << 30].map(|size| size as f64);
        assert_eq!(
            texts(&Axis::of_steps("", Unit::Bytes, sizes)),
            ["256 MiB", "1 GiB"]
        );
    }
}
