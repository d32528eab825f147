//! What a clustered table's dictionary is trained on: the begins of values that have no base, spread
//! over a whole window, since those are what it will serve.

use bytes::Bytes;

use crate::cluster::ClusterPlan;
use crate::codec::{Dictionary, train_once};

/// Bytes of samples for each byte of dictionary.
const SAMPLE_FACTOR: usize = 100;
/// Longest sample: the begins of many files say more than all of a few.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Shares of the window that the samples may take.
const WINDOW_SHARES: usize = 4;
/// Trains a dictionary on a window's values; none if they are too few or too uniform.
pub(super) fn train_on_window(
    values: &[Bytes],
    plan: &ClusterPlan,
    dictionary_bytes: usize,
) -> Option<Dictionary> {
    let begin = |value: &'_ Bytes| value.len().min(SAMPLE_BYTES_MAX);
    let window_bytes: usize = values.iter().map(Bytes::len).sum();
    let wanted = (SAMPLE_FACTOR * dictionary_bytes).min(window_bytes / WINDOW_SHARES);
    let lone: Vec<&Bytes> = values
        .iter()
        .zip(&plan.base)
        .filter_map(|(value, base)| base.is_none().then_some(value))
        .collect();
    let there: usize = lone.iter().copied().map(begin).sum();
    let mut chosen = Vec::new();
    let (mut passed, mut taken) = (0_u64, 0_u64);
    for value in lone {
        passed += begin(value) as u64;
        // Behind its share of what has passed: samples come from all over the window.
        if taken * there as u64 <= passed * wanted as u64 {
            taken += begin(value) as u64;
            chosen.push(value.get(..begin(value)).unwrap_or_default());
        }
    }
    let lengths: Vec<usize> = chosen.iter().map(|sample| sample.len()).collect();
    train_once(&chosen.concat(), &lengths, dictionary_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose every line but its own name is of a kind.
    fn file(kind: &str, n: usize) -> Bytes {
        let line = |line| format!("{kind}_{line} = {kind}.make({n}, \"{kind} {line}\")\n");
        (0..40).map(line).collect::<String>().into()
    }

    fn count(haystack: &[u8], needle: &str) -> usize {
        let windows = haystack.windows(needle.len());
        windows.filter(|it| *it == needle.as_bytes()).count()
    }

    #[test]
    fn the_whole_window_is_sampled_but_for_what_has_a_base() {
        let kinds = ["alpha", "beta", "gamma"];
        let mut values = Vec::new();
        for kind in kinds {
            values.extend((0..300).map(|n| file(kind, n)));
        }
        let mut plan = ClusterPlan {
            order: (0..900).collect(),
            base: vec![None; 900],
        };
        for base in &mut plan.base[300..600] {
            *base = Some(0);
        }
        let dictionary = train_on_window(&values, &plan, 2048).unwrap();
        assert!(count(dictionary.bytes(), "alpha") > 0);
        assert_eq!(count(dictionary.bytes(), "beta"), 0);
        assert!(count(dictionary.bytes(), "gamma") > 0);
    }

    #[test]
    fn nothing_is_learned_from_nothing() {
        let empty = vec![Bytes::new(); 100];
        for values in [&empty[..0], &empty] {
            let plan = ClusterPlan {
                order: (0..values.len() as u32).collect(),
                base: vec![None; values.len()],
            };
            assert!(train_on_window(values, &plan, 1024).is_none());
        }
    }
}
