//! How full a filter in memory is, and when that is too full.

/// How full a filter is that takes keys while it is in use, and what that does to its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterHealth {
    /// Keys in the filter.
    pub keys: u64,
    /// From 0 to 1: ones over bits in a Bloom filter, counters in use over counters, tags over places.
    pub fill_ratio: f64,
    /// Expected share of absent keys that get through, at this fill.
    pub expected_fpr: f64,
}

/// The limits beyond which a filter in memory no longer does what it is there for.
///
/// ```
/// use sstfilter::{FilterHealth, HealthAlarm, HealthLimits};
///
/// let overfull = FilterHealth { keys: 3_000, fill_ratio: 0.8, expected_fpr: 0.05 };
/// assert_eq!(HealthLimits::BLOOM.alarms(&overfull), [HealthAlarm::Fill { limit: 0.7, got: 0.8 }]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthLimits {
    /// The most that the filter is to be filled.
    pub fill_ratio: f64,
    /// The highest expected rate.
    pub fpr: f64,
}

impl HealthLimits {
    /// For the Bloom family: 70 % of the bits, 10 % of absent keys. A Bloom filter that holds what it was planned
    /// for has half of its bits set.
    pub const BLOOM: Self = Self { fill_ratio: 0.7, fpr: 0.1 };
    /// For cuckoo filters: 95 % of the places, beyond which inserting fails soon, and 10 % of absent keys.
    pub const CUCKOO: Self = Self { fill_ratio: 0.95, fpr: 0.1 };

    /// What is beyond its limit, none if all is well.
    #[must_use]
    pub fn alarms(&self, health: &FilterHealth) -> Vec<HealthAlarm> {
        let fill = HealthAlarm::Fill { limit: self.fill_ratio, got: health.fill_ratio };
        let fpr = HealthAlarm::FalsePositiveRate { limit: self.fpr, got: health.expected_fpr };
        let is_beyond = [health.fill_ratio > self.fill_ratio, health.expected_fpr > self.fpr];
        [fill, fpr].into_iter().zip(is_beyond).filter_map(|(alarm, is_beyond)| is_beyond.then_some(alarm)).collect()
    }
}

/// A limit that a filter in memory has passed: time to build a larger one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum HealthAlarm {
    /// It is fuller than it should be.
    Fill {
        /// The limit, from 0 to 1.
        limit: f64,
        /// The fill.
        got: f64,
    },
    /// It lets more absent keys through than it should.
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
