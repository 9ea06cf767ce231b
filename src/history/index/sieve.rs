//! Which keys a table certainly does not hold, without asking the disk: a Bloom filter.

/// Bits per key; with [`PROBES`] one foreign key in about a hundred passes.
const BITS_PER_KEY: usize = 10;
const PROBES: u64 = 5;

/// A Bloom filter of 64-bit keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sieve {
    words: Vec<u64>,
}

impl Sieve {
    pub(super) fn of(keys: &[u64]) -> Self {
        let words = (keys.len() * BITS_PER_KEY).div_ceil(64).max(1);
        let mut sieve = Self {
            words: vec![0; words],
        };
        for key in keys {
            for bit in sieve.probes(*key) {
                sieve.words[bit / 64] |= 1 << (bit % 64);
            }
        }
        sieve
    }

    /// One that was written before; `None` if there is nothing of it.
    pub(super) fn from_words(words: Vec<u64>) -> Option<Self> {
        (!words.is_empty()).then_some(Self { words })
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// False: the key was not put in.
    pub(super) fn may_hold(&self, key: u64) -> bool {
        self.probes(key)
            .all(|bit| self.words[bit / 64] & (1 << (bit % 64)) != 0)
    }

    /// The key is a hash already: its halves are two hashes, and their sums as many as are wanted.
    fn probes(&self, key: u64) -> impl Iterator<Item = usize> + use<> {
        let bits = self.words.len() as u64 * 64;
        let (first, step) = (key & 0xffff_ffff, (key >> 32) | 1);
        (0..PROBES).map(move |probe| {
            let bit = first.wrapping_add(step.wrapping_mul(probe + 1)) % bits;
            usize::try_from(bit).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_passes_and_almost_nothing_else() {
        let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number << 7);
        let keys: Vec<u64> = (0..10_000).map(key).collect();
        let sieve = Sieve::of(&keys);
        assert!(keys.iter().all(|key| sieve.may_hold(*key)));
        let foreign = (10_000..110_000)
            .filter(|n| sieve.may_hold(key(*n)))
            .count();
        assert!(foreign < 5_000, "{foreign} of 100,000 foreign keys pass");
        assert_eq!(Sieve::from_words(sieve.words().to_vec()), Some(sieve));
        assert_eq!(Sieve::from_words(Vec::new()), None);
        assert!(!Sieve::of(&[]).may_hold(7));
    }
}
