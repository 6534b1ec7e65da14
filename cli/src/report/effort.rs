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
    /// The most absent keys that one filter is probed for.
    pub(super) most_probes: u64,
    /// Repetitions of each time; the best counts.
    pub(super) repetitions: u32,
    /// Keys that the filters are planned for that are then overfilled.
    pub(super) overfill_keys: u64,
}

/// Steps of the ladder within a power of ten.
const STEPS: [u64; 2] = [1, 3];

impl Effort {
    pub(super) fn from_args(args: &ReportArgs) -> Self {
        match (args.most_keys, args.quick) {
            (Some(most), _) => Self::new(most.into(), u64::from(most) * 20, 1, 1_000),
            (None, true) => Self::new(100_000, 10_000_000, 7, 20_000),
            (None, false) => Self::new(1_000_000, 50_000_000, 15, 100_000),
        }
    }

    fn new(most_keys: u64, most_probes: u64, repetitions: u32, overfill_keys: u64) -> Self {
        let decades = (2..=9).map(|exponent| 10_u64.pow(exponent));
        let ladder = decades.flat_map(|decade| STEPS.map(|step| step * decade)).filter(|&keys| keys <= most_keys);
        Self { ladder: ladder.collect(), rate_keys: most_keys, most_probes, repetitions, overfill_keys }
    }
}
