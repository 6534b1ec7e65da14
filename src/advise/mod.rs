//! Which filter for which use: a ranked list, with exact sizes and reasons.
//!
//! [`advise`] goes through all kinds. Those that cannot do what is needed are listed with the reason; the others
//! are sized for the number of keys and the wanted rate or memory, and ranked by what they cost: the product of
//! their bytes and the time that they take over their life,
//!
//! ```text
//! time = keys x build + absent lookups x (probe + rate x cost of a false positive)
//! ```
//!
//! with the rate asked for, or the one that the memory gives. So a filter that is asked a thousand times per key
//! may take longer to build if that makes it smaller or sharper, and one that is soon thrown away may not. Sizes and
//! rates are computed by the same functions that the builders use; times are those measured on one machine, to be
//! compared with each other and not to be relied on.
//!
//! ```
//! use sstfilter::advise::{FilterNeed, FilterTarget, Updates, advise};
//! use sstfilter::{FalsePositiveRate, FilterKind};
//!
//! // A compacted file: built once, asked for ten absent keys per key that it holds.
//! let target = FilterTarget::Rate(FalsePositiveRate::ONE_PERCENT);
//! let compacted = FilterNeed::new(1_000_000, target).with_absent_lookups(10_000_000);
//! assert_eq!(advise(&compacted).ranked[0].kind, FilterKind::RIBBON);
//!
//! // A flush, asked for a tenth of that number before it is merged away.
//! let flushed = FilterNeed::new(1_000_000, target).with_absent_lookups(100_000);
//! assert_eq!(advise(&flushed).ranked[0].kind, FilterKind::BLOCKED_BLOOM);
//! ```

mod explain;
mod kinds;
mod speed;

use crate::filter::FilterKind;
use crate::units::FalsePositiveRate;
use speed::Speed;

/// What a filter is needed for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterNeed {
    /// Distinct keys, at the most.
    pub keys: u64,
    /// The rate or the memory wanted.
    pub target: FilterTarget,
    /// What happens to the keys once the filter is in use.
    pub updates: Updates,
    /// Who adds and removes keys then.
    pub writers: Writers,
    /// Absent keys that the filter is asked for before it is built anew.
    pub absent_lookups: u64,
    /// What a false positive costs, in nanoseconds: a block read from a fast disk takes about 10,000.
    pub false_positive_ns: u64,
}

/// What is wanted of a filter: the rest follows.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterTarget {
    /// At most this false positive rate, in as few bytes as possible.
    Rate(FalsePositiveRate),
    /// At most so many bytes (of Ribbon and xor+: about so many), with as low a rate as possible.
    Bytes(u64),
}

/// What happens to the keys of a filter while it is in use, from little to much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Updates {
    /// Nothing: all keys are known when it is built.
    None,
    /// Keys are added.
    Insert,
    /// Keys are added and removed.
    InsertAndRemove,
}

/// How many threads add and remove keys while the filter is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writers {
    /// One, while nobody reads; or everybody goes through a lock that is there already.
    One,
    /// Many at once, with readers between them.
    Many,
}

impl FilterNeed {
    /// A filter for `keys` keys that is built once and asked for as many absent keys as it holds present ones; a
    /// false positive costs 10,000 ns.
    #[must_use]
    pub fn new(keys: u64, target: FilterTarget) -> Self {
        let (updates, writers) = (Updates::None, Writers::One);
        Self { keys, target, updates, writers, absent_lookups: keys, false_positive_ns: 10_000 }
    }

    /// Sets what happens to the keys.
    #[must_use]
    pub fn with_updates(self, updates: Updates) -> Self {
        Self { updates, ..self }
    }

    /// Sets who adds and removes keys.
    #[must_use]
    pub fn with_writers(self, writers: Writers) -> Self {
        Self { writers, ..self }
    }

    /// Sets how many absent keys are asked for.
    #[must_use]
    pub fn with_absent_lookups(self, absent_lookups: u64) -> Self {
        Self { absent_lookups, ..self }
    }

    /// Sets the cost of a false positive.
    #[must_use]
    pub fn with_false_positive_ns(self, false_positive_ns: u64) -> Self {
        Self { false_positive_ns, ..self }
    }
}

/// What [`advise`] found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// The kinds that do what is needed, the best first; possibly none.
    pub ranked: Vec<Recommendation>,
    /// The kinds that do not.
    pub unsuitable: Vec<Unsuitable>,
}

/// A kind that does what is needed, and what it would cost.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recommendation {
    /// The kind.
    pub kind: FilterKind,
    /// Its name, with the variant where several are ranked.
    pub name: &'static str,
    /// How it is to be set, in words: "6 probes, 19532 lines".
    pub setting: String,
    /// Bytes of the whole block: exact, but for Ribbon, where it is within 1 % (see
    /// [`RibbonPolicy`](crate::RibbonPolicy)), and for xor+, where it is within 2 % from 1,000 keys on (see
    /// [`XorPolicy::estimated_block_bytes`](crate::XorPolicy::estimated_block_bytes)).
    pub block_bytes: u64,
    /// The share of absent keys let through, once all keys are in.
    pub expected_fpr: f64,
    /// Nanoseconds that building or adding takes per key, on the machine that was measured.
    pub build_ns: f64,
    /// Nanoseconds per absent key asked for, on the same machine, in batches.
    pub probe_ns: f64,
    /// Bytes times seconds over the filter's life: what the ranking is by.
    pub cost: f64,
    /// Why it stands where it stands, in a sentence.
    pub why: String,
}

/// A kind that does not do what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsuitable {
    /// The kind.
    pub kind: FilterKind,
    /// Its name, with the variant where several are ranked.
    pub name: &'static str,
    /// Why not, in a sentence.
    pub why_not: String,
}

/// Ranks all kinds for a need.
#[must_use]
pub fn advise(need: &FilterNeed) -> Advice {
    let (mut ranked, mut unsuitable) = (Vec::new(), Vec::new());
    for entry in kinds::ALL {
        match entry.size(need) {
            Ok(sized) => ranked.push((entry, recommendation(need, entry, sized))),
            Err(why_not) => unsuitable.push(Unsuitable { kind: entry.kind, name: entry.name(), why_not }),
        }
    }
    ranked.sort_by(|(_, one), (_, other)| one.cost.total_cmp(&other.cost));
    explain::explain(&mut ranked, need);
    Advice { ranked: ranked.into_iter().map(|(_, found)| found).collect(), unsuitable }
}

fn recommendation(need: &FilterNeed, entry: &kinds::Entry, sized: kinds::Sized) -> Recommendation {
    let Speed { build_ns, probe_ns } = entry.speed(need);
    // A lower rate than the one asked for is nothing that was asked for.
    let fpr = match need.target {
        FilterTarget::Rate(rate) => rate.get(),
        FilterTarget::Bytes(_) => sized.expected_fpr,
    };
    let per_lookup = probe_ns + fpr * need.false_positive_ns as f64;
    let seconds = (need.keys as f64 * build_ns + need.absent_lookups as f64 * per_lookup) / 1e9;
    Recommendation {
        kind: entry.kind,
        name: entry.name(),
        setting: sized.setting,
        block_bytes: sized.block_bytes,
        expected_fpr: sized.expected_fpr,
        build_ns,
        probe_ns,
        cost: seconds * sized.block_bytes as f64,
        why: String::new(),
    }
}

#[cfg(test)]
mod tests;
