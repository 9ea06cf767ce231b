//! Randomness that can be repeated: the seed is printed and can be given.

use std::hash::{BuildHasher, RandomState};

/// Seed of a run: `EUREKAD_TEST_SEED`, or a new one. Printed, so that a failure can be repeated as
/// far as the timing of processes allows.
pub(crate) fn seed(test: &str) -> u64 {
    let fresh = RandomState::new().hash_one(std::process::id()) >> 16;
    let seed = super::number_from_env("EUREKAD_TEST_SEED", fresh);
    println!("{test}: EUREKAD_TEST_SEED={seed}");
    seed
}

/// A small generator with a fixed sequence per seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `of` times.
    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let place = usize::try_from(self.below(from.len() as u64)).expect("below a usize");
        from[place]
    }
}
