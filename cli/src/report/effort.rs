//! How much is measured.

use serde::Serialize;

use crate::args::ReportArgs;

/// Sizes and repetitions of one report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effort {
    /// Numbers of keys, ascending.
    pub(super) ladder: Vec<u64>,
    /// Keys of the filters whose rates are measured.
    pub(super) rate_keys: u64,
    /// Keys of the filters that the articles' figures are compared with.
    pub(super) article_keys: u64,
    /// The most absent keys that one filter is asked for.
    pub(super) most_probes: u64,
    /// Repetitions of each time; the best counts.
    pub(super) repetitions: u32,
    /// Keys that the filters are planned for that are then overfilled.
    pub(super) overfill_keys: u64,
}

/// Steps of the ladder within a power of ten.
const STEPS: [u64; 2] = [1, 3];

/// The articles are about filters of a million keys, or of as many as make no difference.
const ARTICLE_KEYS: u64 = 1_000_000;

/// For tests: enough for every kind.
const FEWEST_ARTICLE_KEYS: u64 = 10_000;

impl Effort {
    pub(super) fn from_args(args: &ReportArgs) -> Self {
        match (args.most_keys, args.quick) {
            (Some(most), _) => {
                Self::new(most.into(), FEWEST_ARTICLE_KEYS.max(most.into()), u64::from(most) * 20, 1, 1_000)
            }
            (None, true) => Self::new(100_000, ARTICLE_KEYS, 10_000_000, 7, 20_000),
            (None, false) => Self::new(1_000_000, ARTICLE_KEYS, 50_000_000, 15, 100_000),
        }
    }

    fn new(most_keys: u64, article_keys: u64, most_probes: u64, repetitions: u32, overfill_keys: u64) -> Self {
        let decades = (2..=9).map(|exponent| 10_u64.pow(exponent));
        let ladder = decades.flat_map(|decade| STEPS.map(|step| step * decade)).filter(|&keys| keys <= most_keys);
        Self { ladder: ladder.collect(), rate_keys: most_keys, article_keys, most_probes, repetitions, overfill_keys }
    }
}
