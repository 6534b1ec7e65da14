//! Which filter for which use: a ranked list, with sizes and rates.
//!
//! [`advise`] goes through all kinds. Those that cannot do what is needed are listed with the reason; the others
//! are sized for the number of keys and the wanted rate or memory, and ranked by what they cost: the product of
//! their bytes and the time that they take over their life,
//!
//! ```text
//! time = keys x build + absent lookups x (probe + rate x cost of a false positive)
//! ```
//!
//! with the wanted rate, or the one that the memory gives. So a filter that is probed a thousand times per key
//! may take longer to build if that makes it smaller or sharper, and one that is soon thrown away may not. Sizes and
//! rates are those of the plans that builders follow; times are those measured on one machine, to be
//! compared with each other and not to be relied on.
//!
//! ```
//! use sstfilter::advise::{FilterNeed, FilterTarget, advise};
//! use sstfilter::{BuildContext, FalsePositiveRate, FilterKind, KeyHasher};
//!
//! // A compacted file: built once, probed for ten absent keys per key that it holds.
//! let target = FilterTarget::Rate(FalsePositiveRate::ONE_PERCENT);
//! let compacted = FilterNeed::new(1_000_000, target).with_absent_lookups(10_000_000);
//! let advice = advise(&compacted);
//! assert_eq!(advice.ranked[0].entry.id, FilterKind::RIBBON);
//! let builder = advice.ranked[0].policy.builder(&BuildContext::new(&KeyHasher::default()));
//! # drop(builder);
//!
//! // A flush, probed for a tenth of that number before it is merged away.
//! let flushed = FilterNeed::new(1_000_000, target).with_absent_lookups(100_000);
//! assert_eq!(advise(&flushed).ranked[0].entry.id, FilterKind::BLOCKED_BLOOM);
//! ```

mod measured;

use crate::block::FallbackReason;
use crate::error::ConfigError;
use crate::filter::capabilities::{Updates, Writers};
use crate::policy::kinds::{self, KindEntry};
use crate::policy::{KindPolicy, Plan};
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// The workload that a filter is needed for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterNeed {
    /// The largest expected number of distinct keys.
    pub keys: u64,
    /// The target: a false positive rate or a memory size.
    pub target: FilterTarget,
    /// How keys change while the filter is in use.
    pub updates: Updates,
    /// How many threads change them.
    pub writers: Writers,
    /// Lookups of absent keys before the filter is replaced.
    pub absent_lookups: u64,
    /// The cost of a false positive, in nanoseconds: a block read from a fast disk takes about 10,000.
    pub false_positive_ns: u64,
}

/// The property that a filter is sized by.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterTarget {
    /// At most this false positive rate, in as few bytes as possible.
    Rate(FalsePositiveRate),
    /// At most this many bytes (of Ribbon and xor+: about this many), with as low a rate as possible.
    Bytes(u64),
}

impl FilterNeed {
    /// A filter for `keys` keys that is built once and probed for as many absent keys as it holds present ones; a
    /// false positive costs 10,000 ns.
    #[must_use]
    pub fn new(keys: u64, target: FilterTarget) -> Self {
        let (updates, writers) = (Updates::None, Writers::One);
        Self { keys, target, updates, writers, absent_lookups: keys, false_positive_ns: 10_000 }
    }

    /// Sets how keys change while the filter is in use.
    #[must_use]
    pub fn with_updates(self, updates: Updates) -> Self {
        Self { updates, ..self }
    }

    /// Sets how many threads change keys.
    #[must_use]
    pub fn with_writers(self, writers: Writers) -> Self {
        Self { writers, ..self }
    }

    /// Sets how many absent keys are looked up.
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

/// The result of [`advise`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Advice {
    /// The suitable kinds, best first; possibly none.
    pub ranked: Vec<Recommendation>,
    /// The unsuitable kinds, with reasons.
    pub unsuitable: Vec<(&'static KindEntry, WhyNot)>,
}

/// A suitable kind, and its cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recommendation {
    /// The kind.
    pub entry: &'static KindEntry,
    /// Its size, for the constructor of a dynamic filter.
    pub sizing: Sizing,
    /// The policy that builds it for files.
    pub policy: KindPolicy,
    /// Its bytes, rate and shape, once all keys are inserted.
    pub plan: Plan,
    /// Nanoseconds per key to build or insert, on the measured machine.
    pub build_ns: f64,
    /// Nanoseconds per absent key to probe in batches, on the same machine.
    pub probe_ns: f64,
    /// Whether the workload needs a lock around the filter; the cost includes it.
    pub is_locked: bool,
    /// Bytes times seconds over the filter's life; the ranking sorts by it.
    pub cost: f64,
}

/// Why a kind is unsuitable.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WhyNot {
    /// It does not support the changes to keys that the workload needs.
    CannotUpdate(Updates),
    /// It has no filter of the target rate.
    Config(ConfigError),
    /// It does not support this number of keys.
    Keys(FallbackReason),
    /// The target memory is not enough.
    NeedsBytes(u64),
    /// Its rate would be this.
    Rate(f64),
}

/// Ranks all kinds for a need.
#[must_use]
pub fn advise(need: &FilterNeed) -> Advice {
    let mut advice = Advice { ranked: Vec::new(), unsuitable: Vec::new() };
    for entry in kinds::all() {
        match recommendation(entry, need) {
            Ok(recommendation) => advice.ranked.push(recommendation),
            Err(why_not) => advice.unsuitable.push((entry, why_not)),
        }
    }
    advice.ranked.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    advice
}

/// Nanoseconds that a contended lock adds to each call: an estimate.
const LOCK_NS: f64 = 100.0;

/// The rate above which a filter is not worth probing.
const USELESS_FPR: f64 = 0.9;

fn recommendation(entry: &'static KindEntry, need: &FilterNeed) -> Result<Recommendation, WhyNot> {
    if need.updates > entry.capabilities.updates {
        return Err(WhyNot::CannotUpdate(need.updates));
    }
    // What serves few keys badly is ranked by what it costs.
    let configure = |sizing| entry.configure(sizing).map(|policy| policy.with_min_keys(0));
    let sizing = match need.target {
        FilterTarget::Rate(rate) => Sizing::Rate(rate),
        FilterTarget::Bytes(bytes) => largest_fitting(configure, need.keys, bytes)?.into(),
    };
    let policy = configure(sizing).map_err(WhyNot::Config)?;
    let plan = policy.plan(need.keys, None).map_err(WhyNot::Keys)?;
    let rate = match need.target {
        // A lower rate than the wanted one earns no credit; few keys may miss it by some percent.
        FilterTarget::Rate(rate) if plan.expected_fpr <= rate.get() * 1.1 + 1e-12 => rate.get(),
        FilterTarget::Bytes(_) if plan.expected_fpr <= USELESS_FPR => plan.expected_fpr,
        _ => return Err(WhyNot::Rate(plan.expected_fpr)),
    };
    let (build_ns, probe_ns) = times(entry.name, need.keys);
    let is_locked =
        need.updates > Updates::None && need.writers == Writers::Many && entry.capabilities.writers == Writers::One;
    let lock_ns = if is_locked { LOCK_NS } else { 0.0 };
    let (build_ns, probe_ns) = (build_ns + lock_ns, probe_ns + lock_ns);
    let per_lookup = probe_ns + rate * need.false_positive_ns as f64;
    let seconds = (need.keys as f64 * build_ns + need.absent_lookups as f64 * per_lookup) / 1e9;
    let cost = seconds * plan.block_bytes as f64;
    Ok(Recommendation { entry, sizing, policy, plan, build_ns, probe_ns, is_locked, cost })
}

/// The largest size whose block of `keys` keys has at most `bytes`.
fn largest_fitting(
    configure: impl Fn(Sizing) -> Result<KindPolicy, ConfigError>,
    keys: u64,
    bytes: u64,
) -> Result<BitsPerKey, WhyNot> {
    let plan = |size: BitsPerKey| {
        let policy = configure(size.into()).map_err(WhyNot::Config)?;
        policy.plan(keys, None).map_err(WhyNot::Keys)
    };
    let least = BitsPerKey::smallest_where(|size| configure(size.into()).is_ok()).unwrap_or(BitsPerKey::MAX);
    let least_bytes = plan(least)?.block_bytes;
    if least_bytes > bytes {
        return Err(WhyNot::NeedsBytes(least_bytes));
    }
    let is_too_large = |size| size > least && plan(size).map_or(true, |plan| plan.block_bytes > bytes);
    let too_large = BitsPerKey::smallest_where(is_too_large).map(|size| size.millibits() - 1);
    Ok(too_large.and_then(|size| BitsPerKey::from_millibits(size).ok()).unwrap_or(BitsPerKey::MAX))
}

/// The nanoseconds to build and to probe a filter of `keys` keys. Between two measured numbers of keys they are in
/// proportion to the logarithm, outside those of the nearest. What was not measured ranks behind what was.
fn times(name: &str, keys: u64) -> (f64, f64) {
    let found = measured::MEASURED.iter().find(|(measured, _)| *measured == name);
    between(found.map_or(&[(1e3, 1e3); 4], |(_, times)| times), keys)
}

fn between(measured: &[(f64, f64); 4], keys: u64) -> (f64, f64) {
    // The first is measured at 10^4 keys, the last at 10^7.
    let place = ((keys.max(1) as f64).log10() - 4.0).clamp(0.0, 3.0);
    let left = [1.0, 2.0].iter().filter(|&&limit| place >= limit).count();
    let share = place - left as f64;
    let mix = |one: f64, other: f64| one + (other - one) * share;
    let (one, other) = (measured[left], measured[left + 1]);
    (mix(one.0, other.0), mix(one.1, other.1))
}

#[cfg(test)]
mod tests;
