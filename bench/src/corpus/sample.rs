//! Choosing a sample that compresses like the whole.
//!
//! Near-duplicates stand near each other in key order, mostly under one file name. Random files,
//! or the first ones, would hold too few or too many of them. So rows are cut into runs of
//! neighbours, and whole runs are taken, far from each other first.

use std::ops::Range;

/// A run goes on until it has this many bytes, and then to the end of the file name.
const RUN_BYTES: u64 = 1 << 20;
/// Where one name has more files than a sample can hold, a run ends inside it.
const RUN_BYTES_MAX: u64 = 16 << 20;

/// A row, as far as the choice depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// Distinct names up to this one: equal for neighbours of one name.
    pub(super) name_ordinal: u64,
    /// Bytes of its content.
    pub(super) bytes: u64,
}

/// Runs of neighbours, as row ranges, each with its bytes.
///
/// A run ends at the end of a name once it has [`RUN_BYTES`], and anywhere once it has
/// [`RUN_BYTES_MAX`].
pub(super) fn runs(rows: &[Row]) -> Vec<(Range<u64>, u64)> {
    let mut runs = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, row) in rows.iter().enumerate() {
        bytes += row.bytes;
        let is_last_of_name = rows
            .get(at + 1)
            .is_none_or(|next| next.name_ordinal != row.name_ordinal);
        let is_full = bytes >= RUN_BYTES_MAX || (bytes >= RUN_BYTES && is_last_of_name);
        if is_full || at + 1 == rows.len() {
            let end = at as u64 + 1;
            runs.push((start..end, bytes));
            (start, bytes) = (end, 0);
        }
    }
    runs
}

/// Ranges of rows that hold about `raw_bytes` together, ascending and apart from each other.
///
/// Runs are tried in the order of their reversed bits, in which any first few are spread evenly
/// over the whole; one that would pass the size by more than a sixteenth is left out.
pub(super) fn choose(rows: &[Row], raw_bytes: u64) -> Vec<Range<u64>> {
    let runs = runs(rows);
    let bits = usize::BITS - runs.len().leading_zeros();
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|run| run.reverse_bits() >> (usize::BITS - bits).min(usize::BITS - 1));
    let tolerance = raw_bytes / 16;
    let mut chosen = Vec::new();
    let mut chosen_bytes = 0;
    for run in order {
        let Some((range, bytes)) = runs.get(run) else {
            continue;
        };
        if chosen_bytes + bytes <= raw_bytes.saturating_add(tolerance) {
            chosen.push(range.clone());
            chosen_bytes += bytes;
        }
        if chosen_bytes + tolerance >= raw_bytes {
            break;
        }
    }
    chosen.sort_by_key(|range| range.start);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn rows(names: u64, files_of_a_name: u64, bytes: u64) -> Vec<Row> {
        let names = 0..names;
        names
            .flat_map(|name_ordinal| {
                (0..files_of_a_name).map(move |_| Row {
                    name_ordinal,
                    bytes,
                })
            })
            .collect()
    }

    fn bytes(rows: &[Row], ranges: &[Range<u64>]) -> u64 {
        let of_range = |range: &Range<u64>| {
            let rows = &rows[range.start as usize..range.end as usize];
            rows.iter().map(|row| row.bytes).sum::<u64>()
        };
        ranges.iter().map(of_range).sum()
    }

    #[test]
    fn a_sample_has_about_the_size_and_keeps_names_whole() {
        // 512 names of 8 files of 64 KiB: 256 MiB.
        let rows = rows(512, 8, MIB / 16);
        for mib in [8, 32, 100, 200] {
            let chosen = choose(&rows, mib * MIB);
            let sum = bytes(&rows, &chosen);
            assert!(sum.abs_diff(mib * MIB) <= mib * MIB / 16, "{mib}: {sum}");
            for range in &chosen {
                assert_eq!((range.start % 8, range.end % 8), (0, 0));
            }
        }
    }

    #[test]
    fn a_sample_is_spread_over_the_whole() {
        let rows = rows(512, 8, MIB / 16);
        let chosen = choose(&rows, 32 * MIB);
        // Of every eighth of the file, about an eighth of the sample.
        for eighth in 0..8 {
            let part = eighth * 512..(eighth + 1) * 512;
            let inside: Vec<_> = chosen
                .iter()
                .filter(|range| part.contains(&range.start))
                .cloned()
                .collect();
            let sum = bytes(&rows, &inside);
            assert!((3 * MIB..=5 * MIB).contains(&sum), "{eighth}: {sum}");
        }
    }

    #[test]
    fn a_larger_sample_holds_most_of_a_smaller_one() {
        let rows = rows(512, 8, MIB / 16);
        let large = choose(&rows, 64 * MIB);
        for range in choose(&rows, 32 * MIB) {
            let mut holders = large.iter();
            assert!(holders.any(|holder| holder.start <= range.start && range.end <= holder.end));
        }
    }

    #[test]
    fn a_name_larger_than_a_sample_is_cut() {
        let rows = rows(1, 1_000, MIB / 4);
        let chosen = choose(&rows, 32 * MIB);
        let sum = bytes(&rows, &chosen);
        assert!(sum.abs_diff(32 * MIB) <= 2 * MIB, "{sum}");
    }

    #[test]
    fn all_rows_are_chosen_where_there_are_not_enough() {
        let rows = rows(10, 8, MIB / 16);
        let chosen = choose(&rows, 1 << 40);
        assert_eq!(bytes(&rows, &chosen), 5 * MIB);
        assert!(choose(&[], 1).is_empty());
    }
}
