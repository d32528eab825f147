//! Numbers that look random, the same in each run: two runs on the same data try the same things.

/// A generator of 64-bit xorshift numbers.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 where there is none.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let below = self.next() % (end as u64).max(1);
        usize::try_from(below).unwrap_or_default()
    }

    /// A number above 0 and up to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
