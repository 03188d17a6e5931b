//! Numbers that look random and are the same for the same seed.

use std::time::Duration;

/// A seeded sequence (splitmix64).
#[derive(Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.number() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// Short more often than long.
    pub fn length(&mut self) -> Duration {
        let most = self.pick(&[1, 10, 100, 1000, 20_000]);
        Duration::from_millis(self.below(most))
    }
}
