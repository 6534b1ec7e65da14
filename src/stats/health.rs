//! How full a growing filter is, and when it is too full.

/// How full a growing filter is, and its false positive rate at that fill.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterHealth {
    /// Keys in the filter.
    pub keys: u64,
    /// From 0 to 1: ones over bits in a Bloom filter, counters in use over counters, tags over slots.
    pub fill_ratio: f64,
    /// Expected false positive rate at this fill.
    pub expected_fpr: f64,
}

impl FilterHealth {
    /// The health of a filter with `keys` keys, at this fill and expected false positive rate, each from 0 to 1.
    #[must_use]
    pub const fn new(keys: u64, fill_ratio: f64, expected_fpr: f64) -> Self {
        Self { keys, fill_ratio, expected_fpr }
    }
}

/// Limits beyond which a growing filter should be replaced by a larger one.
///
/// ```
/// use sstfilter::{FilterHealth, HealthAlarm, HealthLimits};
///
/// let overfull = FilterHealth::new(3_000, 0.8, 0.05);
/// assert_eq!(HealthLimits::BLOOM.alarms(&overfull), [HealthAlarm::Fill { limit: 0.7, got: 0.8 }]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HealthLimits {
    /// The highest fill ratio.
    pub fill_ratio: f64,
    /// The highest expected rate.
    pub fpr: f64,
}

impl HealthLimits {
    /// Custom limits: the highest fill ratio and false positive rate, each from 0 to 1.
    #[must_use]
    pub const fn new(fill_ratio: f64, fpr: f64) -> Self {
        Self { fill_ratio, fpr }
    }

    /// For the Bloom family: 70 % of the bits set, and a false positive rate of 10 %. At its planned number of keys, a
    /// Bloom filter has half of its bits set.
    pub const BLOOM: Self = Self { fill_ratio: 0.7, fpr: 0.1 };
    /// For cuckoo filters: 95 % of the slots, beyond which insertions soon fail, and a false positive rate of 10 %.
    pub const CUCKOO: Self = Self { fill_ratio: 0.95, fpr: 0.1 };

    /// The limits that are exceeded.
    #[must_use]
    pub fn alarms(&self, health: &FilterHealth) -> Vec<HealthAlarm> {
        let mut alarms = Vec::new();
        if health.fill_ratio > self.fill_ratio {
            alarms.push(HealthAlarm::Fill { limit: self.fill_ratio, got: health.fill_ratio });
        }
        if health.expected_fpr > self.fpr {
            alarms.push(HealthAlarm::FalsePositiveRate { limit: self.fpr, got: health.expected_fpr });
        }
        alarms
    }
}

/// A limit that a growing filter has exceeded: time to build a larger one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum HealthAlarm {
    /// The fill ratio is above its limit.
    Fill {
        /// The limit, from 0 to 1.
        limit: f64,
        /// The fill.
        got: f64,
    },
    /// The expected false positive rate is above its limit.
    FalsePositiveRate {
        /// The limit, from 0 to 1.
        limit: f64,
        /// The expected rate.
        got: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_alarms_on_its_own_and_not_at_the_limit() {
        let health = |fill_ratio, expected_fpr| FilterHealth { keys: 1, fill_ratio, expected_fpr };
        let limits = HealthLimits::BLOOM;
        assert!(limits.alarms(&health(0.7, 0.1)).is_empty());
        assert_eq!(limits.alarms(&health(0.71, 0.1)), [HealthAlarm::Fill { limit: 0.7, got: 0.71 }]);
        assert_eq!(limits.alarms(&health(0.5, 0.2)), [HealthAlarm::FalsePositiveRate { limit: 0.1, got: 0.2 }]);
        assert_eq!(limits.alarms(&health(1.0, 1.0)).len(), 2);
    }
}
