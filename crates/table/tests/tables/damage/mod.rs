//! What disks and file systems do to files: bytes at random, sectors of zeros, pages that were never written and
//! show what an earlier file of that name had there, blocks in the place of others, files cut and prolonged. The
//! failures guarded against: a key that is lost, a value that is wrong, damage that passes for sound. (Every single
//! bit and every cut are tried elsewhere.)
//!
//! CRC32C finds every change within 32 adjacent bits, and of others all but one in 2^32. Of a million cases none is
//! therefore expected to be accepted, but it could happen: by one in 4,300 for each million. As all seeds are
//! fixed, it does so always or never: what is asserted is that of these cases none is.
//!
//! Some 11,000 cases; `SSTFILTER_LONG=1` tries more than half a million. With `-- --nocapture` they print what came of
//! them.

mod blocks;
mod tables;
mod ways;

use std::collections::BTreeMap;
use std::fmt;

use crate::common;
pub(crate) use tables::data_blocks;
use ways::Way;

/// What came of one case.
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
    /// Sound by all tests, and not as it was written.
    Accepted,
    /// Every byte is another table's.
    OtherTable,
    /// The footer is another table's, so that this is that table, damaged: reads fail, or answer as that table did.
    OtherFooter,
}

/// What came of all cases.
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
    let totals = tables::try_all(if common::is_long() { 20_000 } else { 230 });
    println!("tables:\n{totals}");
    assert_eq!(totals.of(Outcome::Accepted), 0);
    let reached = [Outcome::Refused, Outcome::ReadsRefused, Outcome::FilterUnusable, Outcome::OtherFooter];
    assert!(reached.into_iter().all(|outcome| totals.of(outcome) > totals.cases() / 100), "{totals}");
    assert!(totals.of(Outcome::Unread) > 0, "{totals}");
}

// promise: damage
// promise: documented-use
#[test]
fn damaged_filter_blocks_deny_no_key() {
    let totals = blocks::try_all(if common::is_long() { 7_500 } else { 250 });
    println!("filter blocks:\n{totals}");
    assert_eq!(totals.of(Outcome::Accepted), 0);
    assert!(totals.of(Outcome::Refused) + totals.of(Outcome::FilterUnusable) > totals.cases() * 3 / 4, "{totals}");
}
