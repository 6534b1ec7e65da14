//! How full a growing filter is, and when it is too full.

/// How full a growing filter is, and its false positive rate at that fill.
///
/// ```
/// use sstfilter::{BitsPerKey, DynamicFilter, HashIdentity, KeyHash, StandardBloom};
///
/// let mut filter = StandardBloom::for_size(HashIdentity::default(), 1_000, BitsPerKey::TEN)?;
/// assert!(!filter.health().is_overfull());
/// (0..3_000).for_each(|key| _ = filter.insert(KeyHash::mix(key)));
/// assert!(filter.health().is_overfull(), "three times the planned keys: time for a larger filter");
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterHealth {
    /// Keys in the filter.
    pub keys: u64,
    /// From 0 to 1: ones over bits in a Bloom filter, counters in use over counters, tags over slots.
    pub fill_ratio: f64,
    /// The fill ratio above which you should build a larger filter: 0.7 in the Bloom family, where the planned number
    /// of keys sets half of the bits; 0.95 of the slots of a cuckoo filter, above which insertions soon fail.
    pub max_fill_ratio: f64,
    /// The expected false positive rate at this fill.
    pub expected_fpr: f64,
}

impl FilterHealth {
    /// The expected false positive rate above which you should build a larger filter: 10 %.
    pub const MAX_FPR: f64 = 0.1;

    pub(crate) const fn of_bloom(keys: u64, fill_ratio: f64, expected_fpr: f64) -> Self {
        Self { keys, fill_ratio, max_fill_ratio: 0.7, expected_fpr }
    }

    pub(crate) const fn of_cuckoo(keys: u64, fill_ratio: f64, expected_fpr: f64) -> Self {
        Self { keys, fill_ratio, max_fill_ratio: 0.95, expected_fpr }
    }

    /// Returns whether it is time to build a larger filter: the fill ratio is above
    /// [`max_fill_ratio`](Self::max_fill_ratio), or the expected rate above [`MAX_FPR`](Self::MAX_FPR). To use other
    /// limits, compare the fields.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        // Either limit alone: a small tag has a high rate long before its table is full.
        self.fill_ratio > self.max_fill_ratio || self.expected_fpr > Self::MAX_FPR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_alarms_on_its_own_and_not_at_the_limit() {
        let is_overfull = |fill_ratio, rate| FilterHealth::of_bloom(1, fill_ratio, rate).is_overfull();
        assert!(!is_overfull(0.7, 0.1));
        assert!(is_overfull(0.71, 0.1) && is_overfull(0.5, 0.2) && is_overfull(1.0, 1.0));
        assert!(!FilterHealth::of_cuckoo(1, 0.95, 0.1).is_overfull());
        assert!(FilterHealth::of_cuckoo(1, 0.96, 0.1).is_overfull());
    }
}
