//! Which candidate to take: pure, from figures to an index.

use std::str::FromStr;

use super::figures::Figures;
use crate::text::quote;
use crate::{Error, Result};

/// Candidates whose measure lies within this share of the best one's are taken to be equally good:
/// medians of a few rounds tell no finer. Among them the smallest is taken.
const TIE: f64 = 0.03;

/// Most near misses in [`Choice::NoneMeets`].
const NEAR_MISSES_MAX: usize = 3;

/// What is wanted most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Objective {
    /// The fewest stored bytes.
    Smallest,
    /// The fastest single gets.
    FastestGet,
    /// The fastest building of tables.
    FastestBuild,
    /// The least processor time for each byte, built once and got as often as the caller says.
    Cheapest,
    /// Near to the best in all three: ratio, building and gets, each on a scale from the best to
    /// the worst that the Pareto set has.
    #[default]
    Balanced,
}

impl Objective {
    /// Every objective.
    pub const ALL: [Self; 5] = [
        Self::Smallest,
        Self::FastestGet,
        Self::FastestBuild,
        Self::Cheapest,
        Self::Balanced,
    ];

    /// The name by which options call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smallest => "smallest",
            Self::FastestGet => "fastest-get",
            Self::FastestBuild => "fastest-build",
            Self::Cheapest => "cheapest",
            Self::Balanced => "balanced",
        }
    }
}

impl FromStr for Objective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid_input(format!("unknown objective {}", quote(text.as_bytes())))
                .with_remedy(format!("use one of {names}"))
        })
    }
}

/// What a candidate must keep to, whatever the objective.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// At most this ratio.
    pub ratio_max: Option<f64>,
    /// At least this building speed, in bytes a second of one core.
    pub build_min: Option<f64>,
    /// At least this speed of gets, in bytes a second of one core.
    pub get_min: Option<f64>,
}

/// One of the [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// [`Limits::ratio_max`].
    RatioMax,
    /// [`Limits::build_min`].
    BuildMin,
    /// [`Limits::get_min`].
    GetMin,
}

/// A limit that a candidate does not keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Miss {
    /// Which.
    pub limit: Limit,
    /// The limit.
    pub wanted: f64,
    /// What the candidate has.
    pub measured: f64,
}

impl Miss {
    /// By how much, as a share of the limit.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.measured - self.wanted).abs() / self.wanted.abs().max(f64::MIN_POSITIVE)
    }
}

impl Limits {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The limits that these figures do not keep.
    #[must_use]
    pub fn misses(&self, figures: &Figures) -> Vec<Miss> {
        let limits = [
            (Limit::RatioMax, self.ratio_max, figures.ratio),
            (
                Limit::BuildMin,
                self.build_min,
                figures.build_bytes_per_second,
            ),
            (Limit::GetMin, self.get_min, figures.get_bytes_per_second),
        ];
        let misses = limits.into_iter().filter_map(|(limit, wanted, measured)| {
            let wanted = wanted?;
            let keeps = match limit {
                Limit::RatioMax => measured <= wanted,
                Limit::BuildMin | Limit::GetMin => measured >= wanted,
            };
            (!keeps).then_some(Miss {
                limit,
                wanted,
                measured,
            })
        });
        misses.collect()
    }
}

/// A candidate that nearly keeps the limits.
#[derive(Debug, Clone, PartialEq)]
pub struct NearMiss {
    /// Which candidate.
    pub index: usize,
    /// The limits that it does not keep; at least one.
    pub misses: Vec<Miss>,
}

/// What came of choosing.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// One was found.
    Found {
        /// Which.
        index: usize,
        /// How many keep the limits.
        admitted: usize,
    },
    /// None keeps the limits.
    NoneMeets {
        /// Those that come closest, by the limit that each of them misses by most. Empty if there
        /// was nothing to choose from.
        closest: Vec<NearMiss>,
    },
}

/// The best for `objective` among the candidates within the limits. `reads` is how often each byte
/// is got for each time it is built, for [`Objective::Cheapest`].
#[must_use]
pub fn choose(figures: &[Figures], objective: Objective, limits: &Limits, reads: f64) -> Choice {
    let admitted: Vec<usize> = (0..figures.len())
        .filter(|&index| {
            let figures = figures.get(index);
            figures.is_some_and(|figures| limits.misses(figures).is_empty())
        })
        .collect();
    let costs = costs(figures, objective, reads);
    let cost = |index: usize| costs.get(index).copied().unwrap_or(f64::INFINITY);
    let ratio = |index: usize| figures.get(index).map_or(f64::INFINITY, |it| it.ratio);
    let best = admitted.iter().map(|&index| cost(index));
    let best = best.min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
    // Stored bytes are exact, and a distance to the best is no measure of time.
    let tie = match objective {
        Objective::Smallest | Objective::Balanced => 0.0,
        Objective::FastestGet | Objective::FastestBuild | Objective::Cheapest => TIE,
    };
    let equals = admitted
        .iter()
        .copied()
        .filter(|&index| cost(index) <= best * (1.0 + tie));
    let found = equals.min_by(|&a, &b| {
        let by_ratio = ratio(a).total_cmp(&ratio(b));
        let by_speed = |it: usize| figures.get(it).map_or(0.0, |it| it.get_bytes_per_second);
        by_ratio.then_with(|| by_speed(b).total_cmp(&by_speed(a)))
    });
    match found {
        Some(index) => Choice::Found {
            index,
            admitted: admitted.len(),
        },
        None => Choice::NoneMeets {
            closest: closest(figures, limits),
        },
    }
}

/// Which candidates are in the Pareto set: none other is at least as good in ratio, building and
/// gets, and better in one of them.
#[must_use]
pub fn pareto(figures: &[Figures]) -> Vec<bool> {
    let dominates = |a: &Figures, b: &Figures| {
        let (a, b) = (to_minimise(a), to_minimise(b));
        let mut pairs = a.iter().zip(&b);
        pairs.all(|(a, b)| a <= b) && a != b
    };
    let is_dominated = |one: &Figures| figures.iter().any(|other| dominates(other, one));
    figures.iter().map(|one| !is_dominated(one)).collect()
}

fn to_minimise(figures: &Figures) -> [f64; 3] {
    [
        figures.ratio,
        -figures.build_bytes_per_second,
        -figures.get_bytes_per_second,
    ]
}

/// What the objective would have least, for each candidate.
fn costs(figures: &[Figures], objective: Objective, reads: f64) -> Vec<f64> {
    let slowness = |bytes_per_second: f64| 1.0 / bytes_per_second.max(1e-9);
    let each = |cost: &dyn Fn(&Figures) -> f64| figures.iter().map(cost).collect();
    match objective {
        Objective::Smallest => each(&|it| it.ratio),
        Objective::FastestGet => each(&|it| slowness(it.get_bytes_per_second)),
        Objective::FastestBuild => each(&|it| slowness(it.build_bytes_per_second)),
        Objective::Cheapest => each(&|it| it.seconds_per_byte(reads)),
        Objective::Balanced => distances(figures),
    }
}

/// Distance of each candidate to a point that is the best in everything. Ratio, building and gets
/// each lie on a scale of factors, on which the Pareto set spans from 0 to 1.
fn distances(figures: &[Figures]) -> Vec<f64> {
    let scale = |it: &Figures| {
        [
            it.ratio.max(1e-9).ln(),
            -it.build_bytes_per_second.max(1e-9).ln(),
            -it.get_bytes_per_second.max(1e-9).ln(),
        ]
    };
    let mut bounds = [(f64::INFINITY, f64::NEG_INFINITY); 3];
    let in_set = figures.iter().zip(pareto(figures));
    for (it, _) in in_set.filter(|(_, is_in)| *is_in) {
        for ((min, max), value) in bounds.iter_mut().zip(scale(it)) {
            *min = min.min(value);
            *max = max.max(value);
        }
    }
    let distance = |it: &Figures| {
        let squares = scale(it)
            .into_iter()
            .zip(bounds)
            .map(|(value, (min, max))| {
                // Where all are alike, none is far.
                let span = (max - min).max(1e-9);
                ((value - min) / span).powi(2)
            });
        squares.sum::<f64>().sqrt()
    };
    figures.iter().map(distance).collect()
}

fn closest(figures: &[Figures], limits: &Limits) -> Vec<NearMiss> {
    let mut misses: Vec<NearMiss> = figures
        .iter()
        .enumerate()
        .map(|(index, figures)| NearMiss {
            index,
            misses: limits.misses(figures),
        })
        .collect();
    let worst = |near: &NearMiss| near.misses.iter().map(Miss::share).fold(0.0, f64::max);
    misses.sort_by(|a, b| worst(a).total_cmp(&worst(b)));
    misses.truncate(NEAR_MISSES_MAX);
    misses
}
