//! Damage as disks and file systems cause it: random bytes, sectors of zeros, unwritten pages that show an earlier file
//! of that name, misplaced blocks, files cut and extended. The failures guarded against: a lost key, a wrong value,
//! undetected damage. (Other tests flip every single bit and cut at every length.)
//!
//! CRC32C detects every change within 32 adjacent bits, and all but one in 2^32 of the others. Of a million cases, none
//! is expected to be accepted; the probability is one in 4,300 for each million. Because all seeds are fixed, it
//! happens always or never, and the test asserts that none of these cases is accepted.
//!
//! Tries some thousand cases, and with `SSTFILTER_LONG=1` more than half a million. `-- --nocapture` prints the
//! outcomes.

mod tables;
mod ways;

use std::collections::BTreeMap;
use std::fmt;

use crate::common;
pub(crate) use tables::data_blocks;
use ways::Way;

/// The outcome of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The damage left every byte as it was.
    Identical,
    /// It does not open.
    Refused,
    /// It opens, and some reads fail.
    ReadsRefused,
    /// It opens, the filter is not used, and all reads are right.
    FilterUnusable,
    /// It opens, all reads are right, and verifying finds the damage.
    Unread,
    /// Accepted by all checks, although it is not as it was written.
    Accepted,
    /// Every byte is another table's.
    OtherTable,
    /// The footer is another table's, so this is that table, damaged: reads fail, or answer like that table.
    OtherFooter,
}

/// The outcomes of all cases.
#[derive(Default)]
struct Totals(BTreeMap<Way, BTreeMap<Outcome, u64>>);

impl Totals {
    fn count(&mut self, way: Way, outcome: Outcome) {
        *self.0.entry(way).or_default().entry(outcome).or_default() += 1;
    }

    fn of(&self, outcome: Outcome) -> u64 {
        self.0.values().filter_map(|outcomes| outcomes.get(&outcome)).sum()
    }

    fn cases(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (way, outcomes) in &self.0 {
            writeln!(f, "  {way:?}: {outcomes:?}")?;
        }
        let all = self.0.values().flatten().fold(BTreeMap::new(), |mut all, (outcome, count)| {
            *all.entry(outcome).or_insert(0) += count;
            all
        });
        write!(f, "  all {}: {all:?}", self.cases())
    }
}

// promise: damage
#[test]
fn damaged_tables_lose_no_key_and_give_no_wrong_value() {
    let totals = tables::try_all(common::effort::of_minutes(20_000, 2_500, 230));
    println!("tables:\n{totals}");
    assert_eq!(totals.of(Outcome::Accepted), 0);
    let reached = [Outcome::Refused, Outcome::ReadsRefused, Outcome::FilterUnusable, Outcome::OtherFooter];
    assert!(reached.into_iter().all(|outcome| totals.of(outcome) > totals.cases() / 100), "{totals}");
    assert!(totals.of(Outcome::Unread) > 0, "{totals}");
}
