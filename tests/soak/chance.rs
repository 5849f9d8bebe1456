//! Chance from a seed, so that a soak can be played again.

/// A row of numbers that looks random and is not (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[usize::try_from(self.below(some.len() as u64)).expect("it is small")]
    }

    /// A row of its own for somebody else.
    pub fn fork(&mut self) -> Chance {
        Chance(self.next())
    }
}
