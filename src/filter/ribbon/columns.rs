//! The number of columns of each block: the part of the shape that sets the false positive rate.

use crate::error::ConfigError;
use crate::filter::KindId;
use crate::units::FalsePositiveRate;

/// The maximum number of columns of a block; results have as many bits.
pub(crate) const MAX_COLUMNS: u8 = 32;

/// The unit of lower shares: 65,536ths of a layer.
const SHARES: u64 = 1 << 16;

/// The first blocks of each layer have one column less than the others, so that any size, and any rate between 2^-r and
/// 2^-(r+1), is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The columns of the later blocks, 1 to 32.
    upper: u8,
    /// The share of starts, in 65,536ths, whose blocks have `upper - 1` columns. 0 if `upper` is 1.
    lower_share: u16,
}

impl Columns {
    /// One column in every block: the highest rate.
    pub(crate) const ONE: Self = Self { upper: 1, lower_share: 0 };

    /// Returns `None` if no filter has such columns.
    pub(crate) fn new(upper: u8, lower_share: u16) -> Option<Self> {
        let valid = (1..=MAX_COLUMNS).contains(&upper) && (upper > 1 || lower_share == 0);
        valid.then_some(Self { upper, lower_share })
    }

    /// Decodes a parameter word; `None` if no filter has such columns.
    pub(crate) fn decode(word: u32) -> Option<Self> {
        let [upper, reserved, low, high] = word.to_le_bytes();
        Self::new(upper, u16::from_le_bytes([low, high])).filter(|_| reserved == 0)
    }

    /// Returns the columns for `rate`: their rate is never higher, and lower by at most 2^-16 of it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RateOutOfRange`] when the rate is above 1/2 or below 2^-32.
    pub(crate) fn for_rate(rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let mut upper = 1;
        // Doubling is exact, so that the result is equal on every platform.
        let mut scaled = rate.get() * 2.0;
        while scaled < 1.0 && upper < MAX_COLUMNS {
            scaled *= 2.0;
            upper += 1;
        }
        // Now rate = scaled x 2^-upper, and the mix of s x 2^-(upper-1) and (1-s) x 2^-upper is (1+s) x 2^-upper.
        if scaled < 1.0 || (upper == 1 && scaled > 1.0) {
            return Err(ConfigError::RateOutOfRange {
                kind: KindId::RIBBON,
                min: 1.0 / (1_u64 << MAX_COLUMNS) as f64,
                max: 0.5,
                got: rate.get(),
            });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 65,535")]
        let lower_share = ((scaled - 1.0) * SHARES as f64).clamp(0.0, (SHARES - 1) as f64) as u16;
        Ok(Self { upper, lower_share })
    }

    /// Returns the columns with which `blocks` blocks fill at most `words` words, with at least one column per block.
    pub(crate) fn filling(words: u64, blocks: u64) -> Self {
        let Some(upper) = u8::try_from(words.div_ceil(blocks)).ok().filter(|&upper| upper <= MAX_COLUMNS) else {
            return Self { upper: MAX_COLUMNS, lower_share: 0 };
        };
        if upper <= 1 {
            return Self { upper: 1, lower_share: 0 };
        }
        let lower_blocks = u64::from(upper) * blocks - words;
        let share = (u128::from(lower_blocks) * u128::from(SHARES)).div_ceil(u128::from(blocks));
        match u16::try_from(share) {
            Ok(lower_share) => Self { upper, lower_share },
            Err(_) => Self { upper: upper - 1, lower_share: 0 },
        }
    }

    /// Returns the mean number of columns, in 65,536ths: it orders columns by the words that they take.
    pub(crate) fn shares(self) -> u32 {
        (u32::from(self.upper) << 16) - u32::from(self.lower_share)
    }

    /// Returns the columns with this mean, which is at least that of [`ONE`](Self::ONE).
    #[expect(clippy::cast_possible_truncation, reason = "at most 32, and less than one share")]
    pub(crate) fn of_shares(shares: u32) -> Self {
        let upper = shares.div_ceil(1 << 16);
        Self { upper: upper as u8, lower_share: ((upper << 16) - shares) as u16 }
    }

    pub(crate) fn upper(self) -> u8 {
        self.upper
    }

    pub(crate) fn lower_share(self) -> u16 {
        self.lower_share
    }

    /// Returns a mask of the result bits that any block stores.
    pub(crate) fn result_mask(self) -> u32 {
        u32::MAX >> (MAX_COLUMNS - self.upper)
    }

    /// Returns the lower share of `weight`, rounded down.
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of a u64")]
    pub(crate) fn lower_part(self, weight: u64) -> u64 {
        ((u128::from(weight) * u128::from(self.lower_share)) >> 16) as u64
    }

    /// Returns the rate if `lower` of `all` starts lie in blocks of one column less.
    pub(crate) fn rate(self, lower: u64, all: u64) -> f64 {
        // Halving is exact, so that the rate is equal on every platform.
        let upper_rate = (0..self.upper).fold(1.0, |rate, _| rate / 2.0);
        upper_rate * (1.0 + lower as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_rate(rate: f64) -> Result<Columns, ConfigError> {
        Columns::for_rate(FalsePositiveRate::new(rate).unwrap())
    }

    #[test]
    fn powers_of_two_need_no_mixing() {
        for upper in 1..=32_u8 {
            let columns = for_rate(0.5_f64.powi(upper.into())).unwrap();
            assert_eq!((columns.upper(), columns.lower_share()), (upper, 0));
            assert_eq!(columns.result_mask().count_ones(), u32::from(upper));
        }
    }

    #[test]
    fn other_rates_are_mixed_and_never_exceeded() {
        for rate in [0.3, 0.1, 0.01, 0.0099, 0.001, 1e-6, 2.4e-10] {
            let columns = for_rate(rate).unwrap();
            let got = columns.rate(columns.lower_share().into(), 1 << 16);
            assert!(got <= rate && got > rate * 0.9999, "{rate}: {got}");
        }
    }

    #[test]
    fn columns_are_found_by_their_mean_again_and_ordered_by_it() {
        let mut mean = Columns::ONE.shares();
        for (upper, lower_share) in [(2, u16::MAX), (2, 1), (2, 0), (7, 40_000), (7, 39_999), (MAX_COLUMNS, 0)] {
            let columns = Columns { upper, lower_share };
            assert!(columns.shares() > mean, "{columns:?}");
            mean = columns.shares();
            assert_eq!(Columns::of_shares(mean), columns);
        }
    }

    #[test]
    fn rates_that_ribbon_cannot_give_are_refused() {
        for rate in [0.5001, 0.9, 2.3e-10, 1e-300] {
            assert!(matches!(for_rate(rate), Err(ConfigError::RateOutOfRange { .. })), "{rate}");
        }
    }

    #[test]
    fn filling_uses_the_words_and_no_more() {
        for (words, blocks) in [(1, 1), (70, 10), (75, 10), (79, 10), (1_000_003, 99_999), (5, 10), (3_300, 100)] {
            let columns = Columns::filling(words, blocks);
            let lower = columns.lower_part(blocks);
            let used = blocks * u64::from(columns.upper()) - lower;
            assert!(
                used <= words.max(blocks) + 1 && (used + blocks >= words || words > 32 * blocks),
                "{words} {blocks} {columns:?}"
            );
        }
    }
}
