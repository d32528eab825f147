//! Order statistics of repeated runs, and the test that tells two sets of them apart.

use std::cmp::Ordering;

use serde::Serialize;

/// Five numbers of a set of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many values there were; at least 1.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// A quarter of the values are at most this.
    pub lower_quartile: f64,
    /// Half of the values are at most this.
    pub median: f64,
    /// Three quarters of the values are at most this.
    pub upper_quartile: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises `values`; `None` if there is none, or one that is not finite.
    ///
    /// Quantiles between two values are interpolated linearly, as spreadsheets and NumPy do.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|value| !value.is_finite()) {
            return None;
        }
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            min: quantile(&sorted, 0.0)?,
            lower_quartile: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            upper_quartile: quantile(&sorted, 0.75)?,
            max: quantile(&sorted, 1.0)?,
        })
    }
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let below = sorted.get(place.floor() as usize)?;
    let above = sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

/// The chance that two sets of positive values, drawn from one distribution, differ in their means
/// by as much as these do: Welch's t-test on the logarithms, two-sided.
///
/// Logarithms, because timings are noisy in proportion to what they time. `None` if a set has fewer
/// than two values, or one that is not positive and finite.
pub fn welch_p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, error_a, degrees_a) = log_mean(a)?;
    let (mean_b, error_b, degrees_b) = log_mean(b)?;
    let error = error_a + error_b;
    if error == 0.0 {
        // Neither set varies: they are the same number, or surely not.
        return Some(if mean_a == mean_b { 1.0 } else { 0.0 });
    }
    let t = (mean_a - mean_b) / error.sqrt();
    // Welch and Satterthwaite's estimate.
    let degrees = error * error / (error_a * error_a / degrees_a + error_b * error_b / degrees_b);
    Some(student_tails(t, degrees))
}

/// Mean of the logarithms, its squared standard error, and the degrees of freedom of that.
fn log_mean(values: &[f64]) -> Option<(f64, f64, f64)> {
    let sound = |value: &f64| value.is_finite() && *value > 0.0;
    if values.len() < 2 || !values.iter().all(sound) {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value.ln() - mean).powi(2)).sum();
    Some((mean, squares / (count - 1.0) / count, count - 1.0))
}

/// The chance that a variable of Student's t distribution lies further from 0 than `t`.
fn student_tails(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// The regularised incomplete beta function I_x(a, b), by Lentz's continued fraction
/// (Numerical Recipes, 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on one side of the mean only; symmetry gives the other.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const STEPS_MAX: u32 = 300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..=STEPS_MAX {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    fraction
}

/// Logarithm of the gamma function, by Lanczos's approximation (g = 7); for arguments from 0.5.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let mut sum = 0.999_999_999_999_809_9;
    for (index, coefficient) in COEFFICIENTS.iter().enumerate() {
        sum += coefficient / (x + index as f64);
    }
    let t = x + 6.5;
    (2.0 * std::f64::consts::PI).sqrt().ln() + (x - 0.5) * t.ln() - t + sum.ln()
}

/// Which of many p-values to believe, so that at most the share `false_alarms` of those believed is
/// expected to be chance (Benjamini and Hochberg 1995). With nothing to find, that is also the
/// chance that any at all is believed.
pub fn believable(p_values: &[f64], false_alarms: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let p = |index: usize| p_values.get(index).copied().unwrap_or(1.0);
    order.sort_by(|&a, &b| p(a).partial_cmp(&p(b)).unwrap_or(Ordering::Equal));
    let count = p_values.len() as f64;
    let bound = order
        .iter()
        .enumerate()
        .filter(|&(rank, &index)| p(index) <= (rank + 1) as f64 / count * false_alarms)
        .map(|(_, &index)| p(index))
        .next_back();
    p_values
        .iter()
        .map(|&value| bound.is_some_and(|bound| value <= bound))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate_between_neighbours() {
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(summary.count, 4);
        assert_eq!((summary.min, summary.max), (1.0, 4.0));
        assert_eq!(summary.lower_quartile, 1.75);
        assert_eq!(summary.median, 2.5);
        assert_eq!(summary.upper_quartile, 3.25);
    }

    #[test]
    fn one_value_is_its_own_summary_and_none_has_none() {
        let summary = Summary::of([7.0]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max), (7.0, 7.0, 7.0));
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([1.0, f64::NAN]), None);
        assert_eq!(Summary::of([1.0, f64::INFINITY]), None);
    }

    /// Against printed tables of Student's t: the two-sided 5 % and 1 % points.
    #[test]
    fn tails_of_students_distribution_match_the_tables() {
        let table = [
            (12.706, 1.0, 0.05),
            (2.776, 4.0, 0.05),
            (4.604, 4.0, 0.01),
            (2.306, 8.0, 0.05),
            (2.042, 30.0, 0.05),
            (2.750, 30.0, 0.01),
        ];
        for (t, degrees, share) in table {
            let tails = student_tails(t, degrees);
            assert!((tails - share).abs() < 2e-4, "t {t}, df {degrees}: {tails}");
        }
        assert_eq!(student_tails(0.0, 5.0), 1.0);
    }

    #[test]
    fn welch_needs_two_values_a_side_and_sees_through_noise() {
        assert_eq!(welch_p_value(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(welch_p_value(&[1.0, 0.0], &[1.0, 2.0]), None);
        assert_eq!(welch_p_value(&[5.0, 5.0], &[5.0, 5.0]), Some(1.0));
        assert_eq!(welch_p_value(&[5.0, 5.0], &[6.0, 6.0]), Some(0.0));
        let same = welch_p_value(&[100.0, 103.0, 98.0], &[101.0, 99.0, 102.0]).unwrap();
        assert!(same > 0.5, "{same}");
        let halved = welch_p_value(&[100.0, 103.0, 98.0], &[50.0, 51.0, 49.0]).unwrap();
        assert!(halved < 1e-3, "{halved}");
    }

    /// The worked example of Benjamini and Hochberg's paper: 15 hypotheses, four rejected at 5 %.
    #[test]
    fn false_discoveries_are_bounded_as_in_the_paper() {
        let p_values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let believed = believable(&p_values, 0.05);
        assert_eq!(believed.iter().filter(|&&yes| yes).count(), 4);
        assert!(believed.iter().take(4).all(|&yes| yes));
        assert!(believable(&[], 0.05).is_empty());
    }
}
