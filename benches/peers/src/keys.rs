//! The keys: the same 64-bit hashes for all candidates.

use sstfilter::KeyHash;

use crate::random::Random;

/// Distinct well mixed hashes, as numbers for the peers and as [`KeyHash`]es for us.
pub struct KeySet {
    numbers: Vec<u64>,
    hashes: Vec<KeyHash>,
}

/// A part of a [`KeySet`].
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// The hashes as numbers.
    pub numbers: &'a [u64],
    /// The same hashes, in the same order.
    pub hashes: &'a [KeyHash],
}

/// The first absent key, above every present one.
const FIRST_ABSENT: u64 = 1 << 48;

impl KeySet {
    /// Returns `count` keys for the filters.
    pub fn present(count: usize) -> Self {
        Self::mixed(0, count)
    }

    /// Returns `count` keys that are in no filter.
    pub fn absent(count: usize) -> Self {
        Self::mixed(FIRST_ABSENT, count)
    }

    /// Draws `count` keys from `keys` with repetition, in an order that no branch predictor can learn.
    pub fn drawn_from(keys: Keys<'_>, count: usize) -> Self {
        let mut random = Random::new(1);
        Self::of((0..count).map(|_| keys.numbers[random.below(keys.numbers.len())]).collect())
    }

    /// Returns `count` keys of which `percent` of each hundred, at random places, are drawn from `keys`, and the others
    /// are absent.
    pub fn partly_drawn_from(keys: Keys<'_>, count: usize, percent: usize) -> Self {
        let drawn = Self::drawn_from(keys, count * percent / 100);
        let mut all = Self::absent(count - drawn.numbers.len()).numbers;
        all.extend(drawn.numbers);
        Random::new(2).shuffle(&mut all);
        Self::of(all)
    }

    /// Mixing is a bijection, so distinct counters give distinct hashes.
    fn mixed(first: u64, count: usize) -> Self {
        Self::of((first..).take(count).map(|key| KeyHash::mix(key).get()).collect())
    }

    fn of(numbers: Vec<u64>) -> Self {
        let hashes = numbers.iter().map(|&number| KeyHash::from_well_mixed(number)).collect();
        Self { numbers, hashes }
    }

    /// Returns all keys.
    pub fn all(&self) -> Keys<'_> {
        Keys { numbers: &self.numbers, hashes: &self.hashes }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn present_and_absent_keys_are_distinct_and_drawn_ones_are_present() {
        let (present, absent) = (KeySet::present(10_000), KeySet::absent(10_000));
        let all: HashSet<_> = present.numbers.iter().chain(&absent.numbers).collect();
        assert_eq!(all.len(), 20_000);
        let present_only: HashSet<_> = present.numbers.iter().collect();
        let drawn = KeySet::drawn_from(present.all(), 50_000);
        assert!(drawn.numbers.iter().all(|key| present_only.contains(key)));
        let distinct: HashSet<_> = drawn.numbers.iter().collect();
        assert!(distinct.len() > 9_800, "{}", distinct.len());
    }
}
