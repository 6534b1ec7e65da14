//! The expected rate, and the number of keys behind a fill, computed from counts alone.
//!
//! The number of keys in a word is binomial. One of a filter's keys misses `d` given bits of a word with probability
//! `1 - (1 - (1 - d / width) ^ probes) / words`, and all of them with that to the power of their number: the
//! distribution needs no walking. Only additions, multiplications and divisions are used, in a fixed order, so
//! that sizes and recorded numbers of keys are the same on every platform.

use super::layout::WordLayout;
use crate::filter::power;

/// No fill stands for more keys than a block can record.
const MOST_KEYS: u64 = (1 << 40) - 1;

/// Partitions of a set of `i` into `d` parts (Stirling numbers of the second kind), at `[i][d]`.
const PARTITIONS: [[f64; 5]; 5] = [
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 1.0, 0.0, 0.0],
    [0.0, 1.0, 3.0, 1.0, 0.0],
    [0.0, 1.0, 7.0, 6.0, 1.0],
];

/// Subsets of `i` of `k` (binomial coefficients), at `[k][i]`.
const SUBSETS: [[f64; 5]; 5] = [
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 0.0, 0.0, 0.0],
    [1.0, 2.0, 1.0, 0.0, 0.0],
    [1.0, 3.0, 3.0, 1.0, 0.0],
    [1.0, 4.0, 6.0, 4.0, 1.0],
];

/// The expected rate of `keys` distinct keys in `words` words of the layout's width.
///
/// By inclusion and exclusion over the asked key's bits, which may coincide as those of the keys in the filter do:
/// exact for hashes that are uniform.
pub(super) fn of_keys(keys: u64, words: u64, layout: WordLayout) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    let probes = layout.bits_per_key() as usize;
    let clear: [f64; 5] = core::array::from_fn(|bits| share_clear(bits as u64, keys, words, layout));
    let width = f64::from(layout.word_bits());
    let mut rate = 0.0;
    for (missed, subsets) in SUBSETS[probes].iter().enumerate().take(probes + 1) {
        let all_clear = all_clear(missed, width, &clear);
        rate += if missed % 2 == 0 { subsets * all_clear } else { -subsets * all_clear };
    }
    rate.clamp(0.0, 1.0)
}

/// The chance that `draws` drawn bits of one word are all clear, from that of so many distinct ones.
fn all_clear(draws: usize, width: f64, clear: &[f64; 5]) -> f64 {
    let mut chance = 0.0;
    // Ways to draw so many distinct bits, over all ways to draw.
    let mut ways = power(1.0 / width, draws as u64);
    for (distinct, (partitions, clear)) in PARTITIONS[draws].iter().zip(clear).enumerate().take(draws + 1) {
        chance += partitions * ways * clear;
        ways *= width - distinct as f64;
    }
    chance
}

/// The chance that `bits` given bits of one word are clear.
fn share_clear(bits: u64, keys: u64, words: u64, layout: WordLayout) -> f64 {
    let missed_in_word = power(1.0 - bits as f64 / f64::from(layout.word_bits()), layout.bits_per_key());
    power(1.0 - (1.0 - missed_in_word) / words as f64, keys)
}

/// The expected share of ones.
pub(super) fn fill_of_keys(keys: u64, words: u64, layout: WordLayout) -> f64 {
    1.0 - share_clear(1, keys, words, layout)
}

/// The number of keys whose expected fill is nearest to `ones` of all the bits; 0 only for no ones. A full filter
/// counts as one that lacks half a bit.
pub(super) fn keys_of_ones(ones: u64, words: u64, layout: WordLayout) -> u64 {
    if ones == 0 {
        return 0;
    }
    let bits = words as f64 * f64::from(layout.word_bits());
    let fill = (ones as f64).min(bits - 0.5) / bits;
    let is_below = |keys| fill_of_keys(keys, words, layout) < fill;
    let (mut low, mut high) = (1, MOST_KEYS);
    while low < high {
        let middle = low.midpoint(high);
        if is_below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let distance = |keys| (fill_of_keys(keys, words, layout) - fill).abs();
    if low > 1 && distance(low - 1) < distance(low) { low - 1 } else { low }
}

/// The rate of what the words are: the share of all hashes that they let through. Exact, whatever keys are in them.
pub(super) fn of_words(words: impl Iterator<Item = u64>, layout: WordLayout) -> Contents {
    let width = layout.word_bits();
    // Words by their number of ones: sums of integers come out alike in any order.
    let mut with_ones = [0_u64; 65];
    for word in words {
        if width == 32 {
            with_ones[(word & 0xffff_ffff).count_ones() as usize] += 1;
            with_ones[(word >> 32).count_ones() as usize] += 1;
        } else {
            with_ones[word.count_ones() as usize] += 1;
        }
    }
    let mut contents = Contents { ones: 0, rate: 0.0 };
    let all: u64 = with_ones.iter().sum();
    for (ones, &words) in with_ones.iter().enumerate() {
        contents.ones += ones as u64 * words;
        let covered = power(ones as f64 / f64::from(width), layout.bits_per_key());
        contents.rate += covered * (words as f64 / all.max(1) as f64);
    }
    contents
}

/// What counting a filter's ones tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Contents {
    /// Ones in all words.
    pub(super) ones: u64,
    /// The share of hashes all of whose bits are ones.
    pub(super) rate: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: u64 = 1 << 15;
    const KEYS: u64 = 1 << 18;

    fn at_eight_bits(layout: WordLayout) -> f64 {
        of_keys(KEYS, WORDS * 64 / u64::from(layout.word_bits()), layout)
    }

    #[test]
    fn rates_at_eight_bits_per_key_are_those_of_the_docs() {
        for (layout, percent) in WordLayout::ALL.into_iter().zip([5.33, 3.76, 3.35, 11.75, 5.76]) {
            let rate = at_eight_bits(layout) * 100.0;
            assert!((rate - percent).abs() < 0.005, "{}: {rate}", layout.name());
        }
    }

    /// The same by brute force: every way in which two keys can fall into one word, for the layout of two bits.
    #[test]
    fn small_cases_agree_with_counting_them_out() {
        let width = 32_u64;
        let one_key = of_keys(1, 1, WordLayout::FloeTwoBits);
        // Two draws of 32: the same bit in 1 of 32 cases. A key asked for draws twice from what is set.
        let counted = (1.0 / 32.0) * power(1.0 / 32.0, 2_u8) + (31.0 / 32.0) * power(2.0 / 32.0, 2_u8);
        assert!((one_key - counted).abs() < 1e-15, "{one_key}, {counted}");
        let spread = of_keys(1, 8, WordLayout::FloeTwoBits);
        assert!((spread - counted / 8.0).abs() < 1e-15, "{spread}");
        let one_bit = of_keys(3, 4, WordLayout::FloeOneBit);
        assert!((one_bit - (1.0 - power(1.0 - 1.0 / (4.0 * width as f64), 3_u8))).abs() < 1e-15, "{one_bit}");
    }

    #[test]
    fn rates_grow_with_the_keys_from_nothing_to_all() {
        for layout in WordLayout::ALL {
            let rates: Vec<f64> = (0..50).map(|bits| of_keys((1 << bits) - 1, 1 << 12, layout)).collect();
            assert!(rates.is_sorted() && rates[0] == 0.0 && rates[49] == 1.0, "{rates:?}");
        }
    }

    #[test]
    fn the_keys_of_an_expected_fill_are_the_keys_it_was_expected_from() {
        for layout in WordLayout::ALL {
            for words in [16, 1 << 15, 1 << 27] {
                for keys in [1, 2, 3, 10, words / 2, words, words * 4, words * 12] {
                    let bits = words as f64 * f64::from(layout.word_bits());
                    let ones = (fill_of_keys(keys, words, layout) * bits).round();
                    let found = keys_of_ones(ones as u64, words, layout);
                    // Near the full filter one bit more or less is many keys.
                    let slack = 1.0 / (bits - ones).max(0.5) * words as f64 * 16.0;
                    assert!(found.abs_diff(keys) as f64 <= slack.max(0.0), "{layout:?} {words} {keys}: {found}");
                }
            }
            assert_eq!(keys_of_ones(0, 1 << 27, layout), 0);
            assert_eq!(keys_of_ones(1, 1 << 27, layout), 1);
            let full = keys_of_ones(u64::from(layout.word_bits()) << 27, 1 << 27, layout);
            assert!((1 << 30..MOST_KEYS).contains(&full), "{full}");
        }
    }

    #[test]
    fn the_rate_of_words_is_the_share_of_hashes_that_they_cover() {
        let half_full = [u64::from(u32::MAX); 8];
        let rate = |layout| of_words(half_full.into_iter(), layout);
        assert_eq!(rate(WordLayout::TwoBits), Contents { ones: 256, rate: 0.25 });
        assert_eq!(rate(WordLayout::FourBits), Contents { ones: 256, rate: 0.0625 });
        assert_eq!(rate(WordLayout::FloeTwoBits), Contents { ones: 256, rate: 0.5 });
    }
}
