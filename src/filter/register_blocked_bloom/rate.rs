//! The expected rate, and the number of keys that a fill stands for, computed only from counts.
//!
//! The number of keys in a word is binomial. One of a filter's keys misses `d` given bits of a word with probability
//! `1 - (1 - (1 - d / 64) ^ bits) / words`, and all keys miss them with that probability to the power of the number of
//! keys, so the distribution needs no summation. Only additions, multiplications and divisions are used, in a fixed
//! order, so that sizes and recorded numbers of keys are the same on every platform.

use crate::filter::{MAX_KEYS, power};

/// The bits in a word.
const WIDTH: f64 = 64.0;

/// The number of partitions of a set of `i` into `d` parts (Stirling numbers of the second kind), at `[i][d]`.
const PARTITIONS: [[f64; 5]; 5] = [
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 1.0, 0.0, 0.0],
    [0.0, 1.0, 3.0, 1.0, 0.0],
    [0.0, 1.0, 7.0, 6.0, 1.0],
];

/// The number of subsets of `i` of `k` (binomial coefficients), at `[k][i]`.
const SUBSETS: [[f64; 5]; 5] = [
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 0.0, 0.0, 0.0],
    [1.0, 2.0, 1.0, 0.0, 0.0],
    [1.0, 3.0, 3.0, 1.0, 0.0],
    [1.0, 4.0, 6.0, 4.0, 1.0],
];

/// Returns the expected rate of `keys` distinct keys in `words` words.
///
/// Uses inclusion and exclusion over the probed key's bits, which may coincide, as may the bits of the keys in the
/// filter. Exact for uniform hashes.
pub(super) fn of_keys(keys: u64, words: u64, probes: u8) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    let clear: [f64; 5] = core::array::from_fn(|bits| share_clear(bits as u64, keys, words, probes));
    let mut rate = 0.0;
    for (missed, subsets) in SUBSETS[usize::from(probes)].iter().enumerate() {
        let all_clear = all_clear(missed, &clear);
        rate += if missed % 2 == 0 { subsets * all_clear } else { -subsets * all_clear };
    }
    rate.clamp(0.0, 1.0)
}

/// Returns the chance that `draws` drawn bits of one word are all clear, from the chances for each number of distinct
/// ones.
fn all_clear(draws: usize, clear: &[f64; 5]) -> f64 {
    let mut chance = 0.0;
    // The ways to draw `distinct` distinct bits, over all ways to draw.
    let mut ways = power(1.0 / WIDTH, draws as u64);
    for (distinct, (partitions, clear)) in PARTITIONS[draws].iter().zip(clear).enumerate() {
        chance += partitions * ways * clear;
        ways *= WIDTH - distinct as f64;
    }
    chance
}

/// Returns the chance that `bits` given bits of one word are clear.
fn share_clear(bits: u64, keys: u64, words: u64, probes: u8) -> f64 {
    let missed_in_word = power(1.0 - bits as f64 / WIDTH, probes);
    power(1.0 - (1.0 - missed_in_word) / words as f64, keys)
}

/// Returns the expected share of ones.
fn fill_of_keys(keys: u64, words: u64, probes: u8) -> f64 {
    1.0 - share_clear(1, keys, words, probes)
}

/// Returns the number of keys whose expected fill is nearest to `ones` set bits; 0 only if no bit is set. A full filter
/// counts as lacking half a bit, because no finite number of keys has its fill as expectation.
pub(super) fn keys_of_ones(ones: u64, words: u64, probes: u8) -> u64 {
    if ones == 0 {
        return 0;
    }
    let bits = words as f64 * WIDTH;
    let fill = (ones as f64).min(bits - 0.5) / bits;
    let (mut low, mut high) = (1, MAX_KEYS);
    while low < high {
        let middle = low.midpoint(high);
        if fill_of_keys(middle, words, probes) < fill {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let distance = |keys| (fill_of_keys(keys, words, probes) - fill).abs();
    if low > 1 && distance(low - 1) < distance(low) { low - 1 } else { low }
}

/// The result of counting a filter's set bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fill {
    /// The ones in all words.
    pub(super) ones: u64,
    /// The share of all hashes that are positive. Exact for this filter, because it sums over the actual fill of each
    /// word.
    pub(super) rate: f64,
}

impl Fill {
    pub(super) fn of_words(words: impl Iterator<Item = u64>, probes: u8) -> Self {
        // A histogram of words by their number of ones: integer counts do not depend on the order of words, so neither
        // do the floating-point sums below.
        let mut with_ones = [0_u64; 65];
        words.for_each(|word| with_ones[word.count_ones() as usize] += 1);
        let all: u64 = with_ones.iter().sum();
        let mut fill = Self { ones: 0, rate: 0.0 };
        for (ones, &words) in with_ones.iter().enumerate() {
            fill.ones += ones as u64 * words;
            let contained = power(ones as f64 / WIDTH, probes);
            fill.rate += contained * (words as f64 / all.max(1) as f64);
        }
        fill
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::PROBES;
    use super::*;

    const WORDS: u64 = 1 << 15;
    const KEYS: u64 = 1 << 18;

    #[test]
    fn rates_at_eight_bits_per_key_are_those_of_the_docs() {
        for (probes, percent) in PROBES.zip([5.33, 3.76, 3.35]) {
            let rate = of_keys(KEYS, WORDS, probes) * 100.0;
            assert!((rate - percent).abs() < 0.005, "{probes}: {rate}");
        }
    }

    /// Computes the rate by brute force, for the layout of two bits: every way in which one key's bits can fall.
    #[test]
    fn small_cases_agree_with_counting_them_out() {
        let one_key = of_keys(1, 1, 2);
        // Two draws of 64 take the same bit in 1 of 64 cases. A probed key draws twice from the set bits.
        let counted = (1.0 / 64.0) * power(1.0 / 64.0, 2_u8) + (63.0 / 64.0) * power(2.0 / 64.0, 2_u8);
        assert!((one_key - counted).abs() < 1e-15, "{one_key}, {counted}");
        let in_eight_words = of_keys(1, 8, 2);
        assert!((in_eight_words - counted / 8.0).abs() < 1e-15, "{in_eight_words}");
    }

    #[test]
    fn rates_grow_with_the_keys_from_nothing_to_all() {
        for probes in PROBES {
            let rates: Vec<f64> = (0..50).map(|bits| of_keys((1 << bits) - 1, 1 << 12, probes)).collect();
            assert!(rates.is_sorted() && rates[0] == 0.0 && rates[49] == 1.0, "{rates:?}");
        }
    }

    #[test]
    fn the_keys_of_an_expected_fill_are_the_keys_it_was_expected_from() {
        for probes in PROBES {
            for words in [16, 1 << 15, 1 << 27] {
                for keys in [1, 2, 3, 10, words / 2, words, words * 4, words * 12] {
                    let bits = words as f64 * WIDTH;
                    let ones = (fill_of_keys(keys, words, probes) * bits).round();
                    let found = keys_of_ones(ones as u64, words, probes);
                    // Near the full filter, one bit more or less means many keys.
                    let slack = 1.0 / (bits - ones).max(0.5) * words as f64 * 16.0;
                    assert!(found.abs_diff(keys) as f64 <= slack.max(0.0), "{probes} {words} {keys}: {found}");
                }
            }
            assert_eq!(keys_of_ones(0, 1 << 27, probes), 0);
            assert_eq!(keys_of_ones(1, 1 << 27, probes), 1);
            let full = keys_of_ones(64 << 27, 1 << 27, probes);
            assert!((1 << 30..MAX_KEYS).contains(&full), "{full}");
        }
    }

    #[test]
    fn the_rate_of_words_is_the_share_of_hashes_that_they_contain() {
        let half_full = [u64::from(u32::MAX); 8];
        let fill = |probes| Fill::of_words(half_full.into_iter(), probes);
        assert_eq!(fill(2), Fill { ones: 256, rate: 0.25 });
        assert_eq!(fill(4), Fill { ones: 256, rate: 0.0625 });
    }
}
