//! Guesses from a few keys whether a load comes in the order of its keys: what comes in order can be
//! written for good at once, what does not will be merged.

/// Keys remembered. Fewer than half of them are dropped again.
const KEYS_MAX: usize = 128;

/// Entries come in order if, of the later half, at most one in so many belongs before half of the
/// earlier ones. It is none where every entry is near its place, and about half of them where there
/// is no order at all.
const STRAYS_SHARE: usize = 8;

/// Keys in the order of their arrival, evenly spread over it. Pure, and the same for the same input.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    keys: Vec<Box<[u8]>>,
    /// One key in this many is kept, less one.
    skipped_between: u64,
    to_skip: u64,
}

impl Arrival {
    /// The next entry has this key.
    pub(super) fn note(&mut self, key: &[u8]) {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        if self.keys.len() >= KEYS_MAX {
            let mut position = 0;
            self.keys.retain(|_| {
                position += 1;
                position % 2 == 1
            });
            self.skipped_between = self.skipped_between * 2 + 1;
        }
        self.keys.push(key.into());
        self.to_skip = self.skipped_between;
    }

    /// Whether the entries came in the order of their keys, or nearly. So do few.
    pub(super) fn is_in_order(&self) -> bool {
        let (earlier, later) = self.keys.split_at(self.keys.len() / 2);
        let mut earlier: Vec<&[u8]> = earlier.iter().map(AsRef::as_ref).collect();
        earlier.sort_unstable();
        let Some(&median) = earlier.get(earlier.len() / 2) else {
            return true;
        };
        let strays = later.iter().filter(|key| key.as_ref() < median).count();
        strays * STRAYS_SHARE <= later.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in_order(numbers: impl IntoIterator<Item = u32>) -> bool {
        let mut arrival = Arrival::default();
        for number in numbers {
            arrival.note(&number.to_be_bytes());
        }
        assert!(arrival.keys.len() <= KEYS_MAX);
        arrival.is_in_order()
    }

    fn scattered(count: u32) -> impl Iterator<Item = u32> {
        (0..count).map(|number| number.wrapping_mul(2_654_435_761))
    }

    #[test]
    fn order_is_told_from_disorder_at_any_length() {
        for count in [20, 100, 129, 1000, 100_000] {
            assert!(is_in_order(0..count), "{count}");
            // Everything within a tenth of the way from its place.
            let near = (0..count).map(|number| number + number * 7 % (count / 10));
            assert!(is_in_order(near), "{count}");
            assert!(!is_in_order(scattered(count)), "{count}");
            assert!(!is_in_order((0..count).rev()), "{count}");
            // Two sorted sources, one after the other, that overlap.
            assert!(!is_in_order((0..count).chain(0..count)), "{count}");
        }
        assert!(is_in_order([]));
        assert!(is_in_order([7]));
    }

    #[test]
    fn what_came_too_late_for_a_run_of_scattered_keys_is_in_no_order() {
        // The run has come to `last` when a key below it arrives.
        let late = scattered(50_000).enumerate().filter(|(at, number)| {
            let last = (*at as f64 / 50_000.0 * f64::from(u32::MAX)) as u32;
            *number < last
        });
        assert!(!is_in_order(late.map(|(_, number)| number)));
    }
}
