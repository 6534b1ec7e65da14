//! Ranks the kinds of filter for a use case.
//!
//! Kinds that do not meet the requirements are refused with the reason. The others are sized for the number of keys and
//! the target rate or memory, and ranked by cost: their bytes times their time over the filter's life,
//!
//! ```text
//! time = keys x build + absent lookups x (probe + rate x cost of a false positive)
//! ```
//!
//! with the target rate, or the rate that the memory allows. So a filter that is probed a thousand times per key may
//! take longer to build if that makes it smaller or its rate lower, and a short-lived filter may not. Sizes and rates
//! come from the plans that builders follow. Times were measured on one machine; compare them only with each other.

use sstfilter::kind::{self, KindEntry, Plan, Updates};
use sstfilter::{BitsPerKey, FallbackReason, FalsePositiveRate, Sizing};

use super::measured::MEASURED;
use crate::words::units;

/// The requirements for a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Maximum expected number of distinct keys.
    pub(super) keys: u64,
    pub(super) target: Target,
    pub(super) updates: Updates,
    /// Whether several threads add and remove keys.
    pub(super) has_many_writers: bool,
    /// Lookups of absent keys over the filter's life.
    pub(super) absent_lookups: u64,
    pub(super) false_positive_ns: u64,
}

/// The limit that sizes a filter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// At most this false positive rate, in as few bytes as possible.
    Rate(FalsePositiveRate),
    /// At most this many bytes (for Ribbon and xor+, about this many), with as low a rate as possible.
    Bytes(u64),
}

/// A suitable kind.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) kind: &'static KindEntry,
    pub(super) plan: Plan,
    pub(super) build_ns: f64,
    pub(super) probe_ns: f64,
    /// Whether it needs a lock, whose time is included.
    pub(super) is_locked: bool,
    /// Its time over the filter's life.
    pub(super) seconds: f64,
}

impl Candidate {
    /// Returns bytes times seconds.
    pub(super) fn cost(&self) -> f64 {
        self.seconds * self.plan.block_bytes as f64
    }
}

/// Nanoseconds that a contended lock adds to each call: an estimate.
const LOCK_NS: f64 = 100.0;

/// The rate above which a filter is not worth probing.
const USELESS_FPR: f64 = 0.9;

/// Returns the suitable kinds, best first, and the others with the reasons.
pub(super) fn rank(need: &Need) -> (Vec<Candidate>, Vec<String>) {
    let (mut ranked, mut refused) = (Vec::new(), Vec::new());
    for kind in kind::all() {
        match need.candidate(kind) {
            Ok(candidate) => ranked.push(candidate),
            Err(why) => refused.push(format!("{} {why}", kind.name)),
        }
    }
    ranked.sort_by(|one, other| one.cost().total_cmp(&other.cost()));
    (ranked, refused)
}

impl Need {
    fn candidate(&self, kind: &'static KindEntry) -> Result<Candidate, String> {
        // Ordered: kinds that can remove keys can also insert them.
        if self.updates > kind.updates {
            let cannot =
                if self.updates == Updates::Insert { "accepts no keys once it is built" } else { "cannot remove keys" };
            return Err(cannot.to_owned());
        }
        let plan = match self.target {
            Target::Rate(rate) => self.plan(kind, rate.into())?,
            Target::Bytes(bytes) => self.largest_plan(kind, bytes)?,
        };
        let rate = match self.target {
            // A rate below the target gives no advantage. With few keys, it may exceed the target by some percent.
            Target::Rate(rate) if plan.expected_fpr <= rate.get() * 1.1 + 1e-12 => rate.get(),
            Target::Bytes(_) if plan.expected_fpr <= USELESS_FPR => plan.expected_fpr,
            _ => return Err(format!("would have a false positive rate of {}", units::percent(plan.expected_fpr))),
        };
        // A filter without updates is only read, which needs no lock.
        let is_locked = self.updates > Updates::None && self.has_many_writers && !kind.is_concurrent;
        let lock_ns = if is_locked { LOCK_NS } else { 0.0 };
        let [build_ns, probe_ns] = measured_times(kind.name, self.keys).map(|time| time + lock_ns);
        // Only lookups of absent keys: a found key costs its read with any filter.
        let per_lookup = probe_ns + rate * self.false_positive_ns as f64;
        let seconds = (self.keys as f64 * build_ns + self.absent_lookups as f64 * per_lookup) / 1e9;
        Ok(Candidate { kind, plan, build_ns, probe_ns, is_locked, seconds })
    }

    fn plan(&self, kind: &KindEntry, sizing: Sizing) -> Result<Plan, String> {
        let policy = kind.configure(sizing).map_err(|error| error.to_string())?;
        policy.plan(self.keys, None).map_err(|reason| match reason {
            FallbackReason::TooFewKeys => {
                "is for more keys: by default, builders make a bloom filter of so few".to_owned()
            }
            reason => format!("does not support this number of keys: {reason}"),
        })
    }

    /// Returns the plan with the largest size whose block has at most `bytes`.
    fn largest_plan(&self, kind: &KindEntry, bytes: u64) -> Result<Plan, String> {
        let plan = |size: BitsPerKey| self.plan(kind, size.into());
        let least = smallest_size(|size| kind.configure(size).is_ok()).unwrap_or(BitsPerKey::MAX);
        // Checked first, because the bisection assumes that the smallest size fits.
        let min_bytes = plan(least)?.block_bytes;
        if min_bytes > bytes {
            return Err(format!("needs at least {} for this number of keys", units::bytes(min_bytes)));
        }
        let is_too_large = |size| size > least && plan(size).map_or(true, |plan| plan.block_bytes > bytes);
        let below = |size: BitsPerKey| BitsPerKey::from_millibits(size.millibits() - 1).ok();
        plan(smallest_size(is_too_large).and_then(below).unwrap_or(BitsPerKey::MAX))
    }
}

/// Returns the smallest size for which the monotone predicate is true, by bisection.
fn smallest_size(holds: impl Fn(BitsPerKey) -> bool) -> Option<BitsPerKey> {
    let (mut low, mut high) = (BitsPerKey::MIN.millibits(), BitsPerKey::MAX.millibits() + 1);
    while low < high {
        let middle = low.midpoint(high);
        if BitsPerKey::from_millibits(middle).is_ok_and(&holds) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    BitsPerKey::from_millibits(low).ok()
}

/// Returns nanoseconds per key to build and per absent key to probe. A kind that was not measured gets times that rank
/// it last.
fn measured_times(name: &str, keys: u64) -> [f64; 2] {
    let found = MEASURED.iter().find(|(measured, _)| *measured == name);
    between(found.map_or(&[(1e3, 1e3); 4], |(_, times)| times), keys)
}

/// Interpolates times between measured numbers of keys, linearly in the logarithm. Beyond them, the nearest times hold.
fn between(measured: &[(f64, f64); 4], keys: u64) -> [f64; 2] {
    // The first is measured at 10^4 keys, the last at 10^7.
    let position = ((keys as f64).log10() - 4.0).clamp(0.0, 3.0);
    let left = [1.0, 2.0].iter().filter(|&&limit| position >= limit).count();
    let share = position - left as f64;
    let mix = |one: f64, other: f64| one + (other - one) * share;
    let (one, other) = (measured[left], measured[left + 1]);
    [mix(one.0, other.0), mix(one.1, other.1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort;
    use sstfilter::KindId;

    fn rate(rate: f64) -> Target {
        Target::Rate(FalsePositiveRate::new(rate).unwrap())
    }

    fn need(keys: u64, target: Target) -> Need {
        let updates = Updates::None;
        Need { keys, target, updates, has_many_writers: false, absent_lookups: keys, false_positive_ns: 10_000 }
    }

    #[test]
    fn every_kind_is_measured_and_nothing_else() {
        let names: Vec<&str> = kind::all().iter().map(|kind| kind.name).collect();
        assert_eq!(MEASURED.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    }

    /// The failure guarded against: a size that wraps at 2^31, 2^32 or 2^64 keys, and so advice for a filter that
    /// cannot be built. The long form tries all pairs of keys and memory; otherwise one in five, which is coprime to
    /// the number of either.
    #[test]
    fn every_kind_is_ranked_or_refused_whatever_the_keys_and_the_memory() {
        const MAX_BLOCK_BYTES: u64 = kind::MAX_PAYLOAD_BYTES + 32 + 15 * 4;
        let edges =
            [31, 32, 33, 35, 38, 40, 63].into_iter().flat_map(|log2| [(1_u64 << log2) - 1, 1 << log2, (1 << log2) + 1]);
        let numbers = [0, 1, 2, 3, 1_000, 1_000_000, u64::MAX - 1, u64::MAX].into_iter().chain(edges);
        let rates = [0.5, 0.01, 1e-9, 1e-300].map(rate);
        let memories = [0, 1, 64, 100, 1 << 30, 1 << 32, 1 << 35, 1 << 40, 1 << 63, u64::MAX].map(Target::Bytes);
        let all = numbers.flat_map(|keys| rates.into_iter().chain(memories).map(move |it| (keys, it)));
        for (keys, target) in all.step_by(effort::sample(5)) {
            for updates in [Updates::None, Updates::Insert, Updates::InsertAndRemove] {
                let need = Need { updates, has_many_writers: true, ..need(keys, target) };
                let need = Need { absent_lookups: u64::MAX, false_positive_ns: u64::MAX, ..need };
                let (ranked, refused) = rank(&need);
                assert_eq!(ranked.len() + refused.len(), kind::all().len());
                assert!(ranked.is_sorted_by(|one, other| one.cost() <= other.cost()), "{need:?}");
                assert!(keys < 1 << 40 || ranked.is_empty(), "{need:?}: {ranked:?}");
                for found in &ranked {
                    let Plan { block_bytes, expected_fpr, .. } = found.plan;
                    assert!(block_bytes <= MAX_BLOCK_BYTES && found.cost().is_finite(), "{need:?}: {found:?}");
                    // The register-blocked filter has the rate that its memory allows.
                    assert!(block_bytes * 8 >= keys || expected_fpr > 0.4, "{need:?}: {found:?}");
                    assert!(found.cost() >= 0.0 && (0.0..=1.0).contains(&expected_fpr), "{need:?}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_recommended_meets_the_target() {
        for keys in [1_000, 100_000, 3_000_000] {
            for wanted in [0.05, 0.01, 0.000_1] {
                for found in rank(&need(keys, rate(wanted))).0 {
                    assert!(found.plan.expected_fpr <= wanted * 1.11, "{keys} {wanted} {found:?}");
                }
            }
            for bytes in [keys, keys * 2] {
                let (ranked, refused) = rank(&need(keys, Target::Bytes(bytes)));
                assert!(ranked.len() >= 6, "{refused:?}");
                assert!(ranked.iter().all(|found| found.plan.block_bytes <= bytes), "{keys} in {bytes}: {ranked:?}");
            }
        }
    }

    #[test]
    fn a_filter_that_is_probed_more_is_made_smaller() {
        let first = |absent_lookups| rank(&Need { absent_lookups, ..need(1_000_000, rate(0.01)) }).0[0].kind.id;
        assert_eq!([0, 100_000].map(first), [KindId::BLOCKED_BLOOM; 2]);
        assert_eq!([10_000_000, 100_000_000].map(first), [KindId::RIBBON; 2]);
    }

    #[test]
    fn times_are_taken_from_between_the_columns_and_not_from_beyond() {
        let measured = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 80.0)];
        let expected = [(0, 1.0), (100_000, 2.0), (316_228, 3.0), (u64::MAX, 8.0)];
        for (keys, build_ns) in expected {
            let [build, probe] = between(&measured, keys);
            assert!(
                (build - build_ns).abs() < 1e-5 && (probe - 10.0 * build_ns).abs() < 1e-4,
                "{keys}: {build} {probe}"
            );
        }
    }
}
