//! Cuts one large compaction into key ranges of about equal work, which run in parallel.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::error::Result;
use crate::types::KeyRange;

/// Boundaries considered, for each range wanted: the finer, the more equal the ranges.
const CANDIDATES_PER_RANGE: usize = 32;

/// Part of a compaction: the keys from `start` (none: from the first) up to `end` (exclusive;
/// none: to the last).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

impl Slice {
    /// Everything.
    pub(crate) fn whole() -> Self {
        Self {
            start: None,
            end: None,
        }
    }
}

/// Up to `count` slices that together hold every key, with boundaries among the keys of
/// `candidates`. `bytes_in` estimates the bytes of a key range.
pub(crate) fn slices(
    candidates: BTreeSet<Vec<u8>>,
    count: usize,
    mut bytes_in: impl FnMut(&KeyRange) -> Result<u64>,
) -> Result<Vec<Slice>> {
    let candidates = thinned(candidates, count.saturating_mul(CANDIDATES_PER_RANGE));
    if count < 2 || candidates.is_empty() {
        return Ok(vec![Slice::whole()]);
    }
    let starts = std::iter::once(None).chain(candidates.iter().map(Some));
    let ends = candidates.iter().map(Some).chain([None]);
    let stretches = starts.zip(ends).map(|(start, end)| {
        bytes_in(&KeyRange {
            start: start.cloned().map_or(Bound::Unbounded, Bound::Included),
            end: end.cloned().map_or(Bound::Unbounded, Bound::Excluded),
        })
    });
    let stretches: Vec<u64> = stretches.collect::<Result<_>>()?;
    let total: u128 = stretches.iter().copied().map(u128::from).sum();

    let mut slices = Vec::new();
    let mut start = None;
    let mut before = 0u128;
    for (bytes, candidate) in stretches.into_iter().zip(candidates) {
        before += u128::from(bytes);
        // The candidate closes the slice once what lies before it is this slice's share.
        let share = total * (slices.len() as u128 + 1) / count as u128;
        if slices.len() + 1 < count && before > 0 && before >= share {
            slices.push(Slice {
                start: start.replace(candidate.clone()),
                end: Some(candidate),
            });
        }
    }
    slices.push(Slice { start, end: None });
    Ok(slices)
}

/// At most `count` of the keys, evenly chosen.
fn thinned(keys: BTreeSet<Vec<u8>>, count: usize) -> Vec<Vec<u8>> {
    let step = keys.len().div_ceil(count.max(1)).max(1);
    keys.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices_of(keys: &[(u8, u64)], count: usize) -> Vec<Slice> {
        let candidates = keys.iter().map(|(key, _)| vec![*key]).collect();
        slices(candidates, count, |range| {
            let inside = keys.iter().filter(|(key, _)| range.contains(&[*key]));
            Ok(inside.map(|(_, bytes)| bytes).sum())
        })
        .unwrap()
    }

    fn ends(slices: &[Slice]) -> Vec<u8> {
        let ends = slices.iter().filter_map(|slice| slice.end.as_ref());
        ends.map(|end| end[0]).collect()
    }

    #[test]
    fn slices_share_the_bytes_and_hold_every_key() {
        let even: Vec<(u8, u64)> = (0..100).map(|key| (key, 10)).collect();
        let slices = slices_of(&even, 4);
        assert_eq!(ends(&slices), [25, 50, 75]);
        for pair in slices.windows(2) {
            assert_eq!(pair[0].end, pair[1].start);
        }
        assert_eq!(slices[0].start, None);
        assert_eq!(slices[3].end, None);
    }

    #[test]
    fn one_heavy_stretch_does_not_make_empty_slices() {
        let skewed = [(1, 1), (2, 1_000_000), (3, 1), (4, 1)];
        let slices = slices_of(&skewed, 4);
        assert_eq!(ends(&slices), [3, 4]);
    }

    #[test]
    fn without_candidates_there_is_one_slice() {
        assert_eq!(slices_of(&[], 4), [Slice::whole()]);
        assert_eq!(slices_of(&[(1, 1), (2, 1)], 1), [Slice::whole()]);
    }
}
