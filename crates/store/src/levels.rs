//! Plans the bits per key of each level, before filters are built, for one amount of memory.
//!
//! A lookup of an absent key probes the filter of each sorted run, and reads in vain after a false positive: the
//! useless reads to expect are the sum of the rates over the runs. With equal bits per key everywhere, each run adds
//! the same to the sum, although the last level takes nine tenths of the memory. A bit per key for a level of a tenth
//! of the keys costs a tenth as much and lowers its rate by the same factor. So the sum is smallest if small levels
//! have more bits per key, and lower rates, than large ones.
//!
//! N. Dayan, M. Athanassoulis, S. Idreos, *Monkey: Optimal Navigable Key-Value Store* (SIGMOD 2017, section 4) solve
//! this for ideal Bloom filters, which take ln(1/p) / ln(2)^2 bits per key for the rate p. One more bit must gain the
//! same in all levels, so the rate of a run is proportional to its keys. A level where that rate exceeds 1 has no
//! filter: its memory serves the others better.
//!
//! Real filters have steps in their sizes, a largest size, fixed bytes in each file, and other kinds for few keys. So
//! this plan uses no formula: it takes the bytes and rates of the filters that the kind would build, for many sizes per
//! level, and follows the lower convex hull of each level's choices, always with the step that saves the most reads per
//! byte. That is the paper's condition, and `tests` compares the two.

use std::sync::Arc;

use sstfilter::{
    BitsPerKey, BlockBuilder, BlockIdentity, BuildContext, ConfigError, FilterPolicy, FixedPolicy, Sizing,
};

use super::allocation::{self, Step, gain_per_byte};

#[cfg(test)]
mod tests;

/// The keys, runs and files of a level, now or when it is full.
///
/// ```
/// use sstfilter_store::LevelSize;
///
/// let newest = LevelSize::new(0, 40_000).with_runs(4);
/// let last = LevelSize::new(6, 1_000_000_000).with_files(500).without_filter();
/// assert_eq!((newest.files, last.runs), (4, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelSize {
    /// Its number, as in [`BuildContext::level`].
    pub level: u32,
    /// Distinct keys, summed over its runs.
    pub keys: u64,
    /// Sorted runs: the maximum number of its files that one lookup reads. 1 if files do not overlap.
    pub runs: u64,
    /// Files, each with its own filter and an equal share of the keys.
    pub files: u64,
    /// Whether its files may have filters.
    pub may_have_filter: bool,
}

impl LevelSize {
    /// Creates a level of one run in one file.
    #[must_use]
    pub const fn new(level: u32, keys: u64) -> Self {
        Self { level, keys, runs: 1, files: 1, may_have_filter: true }
    }

    /// Sets the number of runs, at least 1: for level 0, where files overlap, and for tiered levels. Raises the number
    /// of files to that of the runs if it is lower.
    #[must_use]
    pub fn with_runs(self, runs: u64) -> Self {
        let runs = runs.max(1);
        Self { runs, files: self.files.max(runs), ..self }
    }

    /// Sets the number of files, at least that of the runs. It matters for small files, whose filters cost more per
    /// key.
    #[must_use]
    pub fn with_files(self, files: u64) -> Self {
        Self { files: files.max(self.runs), ..self }
    }

    /// Leaves the level without filters. Use it for the last level if most lookups find their key there, so that its
    /// filters would save nothing. The RocksDB option is `optimize_filters_for_hits`.
    #[must_use]
    pub fn without_filter(self) -> Self {
        Self { may_have_filter: false, ..self }
    }
}

/// The filters of one level in a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedLevel {
    /// The level.
    pub size: LevelSize,
    /// The policy of its files; `None` for no filter.
    pub policy: Option<FixedPolicy>,
    /// Bytes of all filters of the level, as whole blocks that are bound to their files. As exact as
    /// [`FixedPolicy::block_bytes`].
    pub bytes: u64,
    /// False positive rate of each filter; 1 without a filter.
    pub expected_fpr: f64,
}

impl PlannedLevel {
    /// Returns the bits of filters per distinct key; 0 without filters or keys.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.size.keys.max(1) as f64
    }

    /// Returns the expected useless reads of the level per lookup of an absent key: the rate times the runs, 0 without
    /// keys.
    #[must_use]
    pub fn useless_reads(&self) -> f64 {
        if self.size.keys == 0 { 0.0 } else { self.size.runs as f64 * self.expected_fpr }
    }
}

/// A plan of filter sizes by level, so that lookups of absent keys read as little as one memory budget allows.
///
/// Small levels get more bits per key than large ones. If memory is short, the largest levels get no filters; if there
/// is more than the kind can use, some is left over. A plan is a policy: each file gets the filter of its level
/// ([`BuildContext::level`]). Files of an unknown level, of a level outside the plan, or of one that the plan has no
/// keys for, get what the memory would give all levels at equal bits per key
/// ([`with_equal_bits`](Self::with_equal_bits)), unless [`with_other_levels`](Self::with_other_levels) sets another
/// policy. Files of levels that the plan leaves without filters get none.
///
/// The method is that of *Monkey* (N. Dayan, M. Athanassoulis, S. Idreos, SIGMOD 2017), with the real sizes and rates
/// of a kind instead of the formula of an ideal Bloom filter.
///
/// ```
/// use sstfilter_store::{LevelPlan, LevelSize};
/// use sstfilter::{BlockIdentity, BuildContext, FilterPolicy, KeyHasher, FixedPolicy};
///
/// // Five levels, each ten times as large as the one before, and 10 bits for each of their keys.
/// let levels: Vec<_> = (1..=5).map(|level| LevelSize::new(level, 1_000 * 10_u64.pow(level))).collect();
/// let memory = levels.iter().map(|level| level.keys).sum::<u64>() * 10 / 8;
/// let plan = LevelPlan::new(&levels, memory, FixedPolicy::ribbon)?;
/// let equal = LevelPlan::with_equal_bits(&levels, memory, FixedPolicy::ribbon)?;
///
/// assert!(plan.bytes() <= memory && equal.bytes() <= memory);
/// assert!(plan.useless_reads() < equal.useless_reads() / 3.0);
/// assert!(plan.levels[0].bits_per_key() > 2.0 * plan.levels[4].bits_per_key());
///
/// let context = |level| BuildContext::new(&KeyHasher::default()).with_level(level);
/// assert!(plan.builder(&context(1)).is_some());
/// let without_last = LevelPlan::new(&[levels[0], levels[1].without_filter()], memory, FixedPolicy::bloom)?;
/// assert!(without_last.builder(&context(2)).is_none());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelPlan {
    /// The levels, in the order of their numbers.
    pub levels: Vec<PlannedLevel>,
    /// For levels outside the plan.
    others: Option<Arc<dyn FilterPolicy>>,
}

impl LevelPlan {
    /// Computes the plan with the fewest useless reads in `memory_bytes`. `configure` makes the policy of a size:
    /// `FixedPolicy::ribbon`, [`FixedPolicy::bloom`], or a function of the engine.
    ///
    /// It compares some 700 sizes per level, 1 to 100 bits per key, and comes within about a percent of the fewest
    /// reads possible. Compute it once for a store, or when its levels have grown, not for each file.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if two levels have one number; the error of `configure` if the kind has no filter of
    /// any size.
    pub fn new(
        levels: &[LevelSize],
        memory_bytes: u64,
        configure: impl Fn(Sizing) -> Result<FixedPolicy, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let equal = Self::with_equal_bits(levels, memory_bytes, &configure)?;
        let mut policies: Vec<_> = sizes().filter_map(|size| configure(size.into()).ok()).collect();
        // With the size of equal bits, a plan is never worse than it: one level gets all the memory, not the next lower
        // size.
        policies.extend(equal.levels.iter().find_map(|level| level.policy.clone()));
        let curves: Vec<_> = equal.levels.iter().map(|level| curve(&level.size, &policies)).collect();
        let chosen = Spread::new(&curves, memory_bytes).best();
        let levels = curves.iter().zip(chosen).map(|(curve, choice)| curve[choice].clone()).collect();
        let plan = Self { levels, ..equal.clone() };
        Ok(if plan.useless_reads() <= equal.useless_reads() { plan } else { equal })
    }

    /// Computes the largest filters of equal bits per key that fit `memory_bytes`, to compare a plan with. No level has
    /// a filter if the smallest filters do not fit. If no level that may have filters has keys yet, filters of 10 bits
    /// per key are planned for levels that get keys later.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn with_equal_bits(
        levels: &[LevelSize],
        memory_bytes: u64,
        configure: impl Fn(Sizing) -> Result<FixedPolicy, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let mut levels = levels.to_vec();
        levels.sort_by_key(|size| size.level);
        if let Some(pair) = levels.windows(2).find(|pair| pair[0].level == pair[1].level) {
            let (option, got) = ("level", u64::from(pair[0].level));
            return Err(ConfigError::OutOfRange { option, expected: "each level once", got });
        }
        let everywhere = |policy: Option<FixedPolicy>| Self::with_policy_everywhere(&levels, policy.as_ref());
        if levels.iter().all(|size| size.keys == 0 || !size.may_have_filter) {
            // Any size fits, so the memory does not determine one.
            return Ok(everywhere(Some(configure(BitsPerKey::TEN.into())?)));
        }
        let is_too_large = |policy| everywhere(Some(policy)).bytes() > memory_bytes;
        let largest = BitsPerKey::smallest_where(|size| configure(size.into()).is_ok_and(is_too_large));
        // No size is too large: the maximum, 100 bits per key.
        let largest = largest.map_or(100_000, |size| size.millibits() - 1);
        let least = BitsPerKey::smallest_where(|size| configure(size.into()).is_ok());
        let least = least.map_or_else(|| configure(BitsPerKey::MAX.into()).map(|_| BitsPerKey::MAX), Ok)?;
        let size = BitsPerKey::from_millibits(largest).ok().filter(|size| *size >= least);
        Ok(everywhere(size.map(|size| configure(size.into())).transpose()?))
    }

    fn with_policy_everywhere(levels: &[LevelSize], policy: Option<&FixedPolicy>) -> Self {
        let levels = levels.iter().map(|level| PlannedLevel::new(*level, policy)).collect();
        Self { levels, others: policy.map(|policy| Arc::new(policy.clone()) as Arc<dyn FilterPolicy>) }
    }

    /// Sets the policy for files whose level is unknown or outside the plan.
    #[must_use]
    pub fn with_other_levels(self, policy: Arc<dyn FilterPolicy>) -> Self {
        Self { others: Some(policy), ..self }
    }

    /// Returns the bytes of all filters.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.levels.iter().fold(0, |sum: u64, level| sum.saturating_add(level.bytes))
    }

    /// Returns the expected useless reads per lookup of an absent key: the sum of the rates over all runs.
    #[must_use]
    pub fn useless_reads(&self) -> f64 {
        self.levels.iter().map(PlannedLevel::useless_reads).sum()
    }

    fn policy_for(&self, context: &BuildContext) -> Option<&dyn FilterPolicy> {
        let is_known = |PlannedLevel { size, .. }: &&PlannedLevel| {
            Some(size.level) == context.level && (size.keys > 0 || !size.may_have_filter)
        };
        match self.levels.iter().find(is_known) {
            Some(planned) => planned.policy.as_ref().map(|policy| policy as &dyn FilterPolicy),
            None => self.others.as_deref(),
        }
    }
}

impl FilterPolicy for LevelPlan {
    fn name(&self) -> &'static str {
        "levels"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        self.policy_for(context)?.builder(context)
    }

    fn block_bytes(&self, context: &BuildContext, keys: u64) -> Option<u64> {
        self.policy_for(context)?.block_bytes(context, keys)
    }
}

impl PlannedLevel {
    /// Returns the level with filters of `policy`, if it can have any: it needs keys, and no more than a filter can
    /// have.
    fn new(size: LevelSize, policy: Option<&FixedPolicy>) -> Self {
        let keys_per_file = size.keys.div_ceil(size.files.max(1));
        let policy = policy.filter(|_| size.keys > 0 && size.may_have_filter);
        let filter = policy.and_then(|policy| Some((policy.clone(), policy.bytes_and_fpr(keys_per_file)?)));
        let Some((policy, (block_bytes, expected_fpr))) = filter else {
            return Self { size, policy: None, bytes: 0, expected_fpr: 1.0 };
        };
        let bytes = (block_bytes + BlockIdentity::FILE_BYTES).saturating_mul(size.files);
        Self { size, policy: Some(policy), bytes, expected_fpr }
    }
}

/// Returns the sizes that a plan chooses from.
///
/// A twentieth of a bit changes a rate by 2.4 %. Rates that are off by half of that, some up and some down, raise the
/// sum by less than a ten-thousandth, because it is flat around its minimum. Above 34 bits, beyond Ribbon's largest
/// size, a rate hardly contributes to any sum, so whole bits are enough.
fn sizes() -> impl Iterator<Item = BitsPerKey> {
    let millibits = (1_000..34_000).step_by(50).chain((34_000..=100_000).step_by(1_000));
    millibits.filter_map(|millibits| BitsPerKey::from_millibits(millibits).ok())
}

/// Returns the choices of a level, beginning with no filter: each has more bytes and fewer reads than the one before.
fn curve(level: &LevelSize, policies: &[FixedPolicy]) -> Vec<PlannedLevel> {
    let choices = core::iter::once(None).chain(policies.iter().map(Some));
    without_waste(choices.map(|policy| PlannedLevel::new(*level, policy)).collect())
}

/// Drops each choice that has no fewer reads than a smaller one.
fn without_waste(mut choices: Vec<PlannedLevel>) -> Vec<PlannedLevel> {
    choices.sort_by(|choice, other| {
        choice.bytes.cmp(&other.bytes).then(choice.useless_reads().total_cmp(&other.useless_reads()))
    });
    // After the sort, a choice must beat only the last one that stays.
    choices.dedup_by(|choice, smaller| choice.useless_reads() >= smaller.useless_reads());
    choices
}

/// The maximum rounds of [`Spread::best`], each of which makes the sum smaller. Two are usual.
const MAX_ROUNDS: usize = 16;

fn bytes_and_reads(choice: &PlannedLevel) -> (u64, f64) {
    (choice.bytes, choice.useless_reads())
}

/// Spreads memory over levels, given their curves.
#[derive(Debug)]
struct Spread<'a> {
    curves: &'a [Vec<PlannedLevel>],
    memory_bytes: u64,
    /// The corners of the lower convex hull of each curve.
    hulls: Vec<Vec<usize>>,
}

impl<'a> Spread<'a> {
    fn new(curves: &'a [Vec<PlannedLevel>], memory_bytes: u64) -> Self {
        let corners = |curve: &Vec<PlannedLevel>| allocation::corners(curve.iter().map(bytes_and_reads));
        Self { curves, memory_bytes, hulls: curves.iter().map(corners).collect() }
    }

    /// Returns the choice of each level.
    ///
    /// Taking the steps in the order of their savings per byte is optimal until one does not fit. If that step is large
    /// (the first filter of the last level, or a fingerprint one bit longer), the smaller steps of other levels that
    /// fit into the rest may save less than it does. So each such step is tried ahead of the others.
    fn best(&self) -> Vec<usize> {
        let mut floor = vec![0; self.curves.len()];
        let mut best = self.above(&floor).unwrap_or_default();
        for _ in 0..MAX_ROUNDS {
            let steps = best.iter().enumerate().filter_map(|(level, &from)| self.next_step(level, from, u64::MAX));
            let raised = steps.map(|step| {
                let mut raised = floor.clone();
                raised[step.item] = step.to;
                raised
            });
            let tried = raised.filter_map(|raised| Some((self.above(&raised)?, raised)));
            let reads = |(chosen, _): &(Vec<usize>, Vec<usize>)| self.useless_reads(chosen);
            match tried.min_by(|one, other| reads(one).total_cmp(&reads(other))) {
                Some(better) if reads(&better) < self.useless_reads(&best) => (best, floor) = better,
                _ => break,
            }
        }
        best
    }

    /// Returns the choices from `floor` upwards that fit; `None` if `floor` does not fit. Each step is the one that
    /// saves the most per byte.
    fn above(&self, floor: &[usize]) -> Option<Vec<usize>> {
        let mut chosen = floor.to_vec();
        let mut left = self.memory_bytes.checked_sub(self.bytes(floor))?;
        let firsts = floor.iter().enumerate().filter_map(|(level, &from)| self.next_step(level, from, left));
        allocation::allocate_greedily(firsts.collect::<Vec<_>>(), |Step { item: level, to, .. }| {
            let from = chosen[level];
            // Other levels have taken bytes since the step was queued: a smaller one may still fit.
            let fitting = self.next_step(level, from, left)?;
            if fitting.to != to {
                return Some(fitting);
            }
            left -= self.curves[level][to].bytes - self.curves[level][from].bytes;
            chosen[level] = to;
            self.next_step(level, to, left)
        });
        Some(chosen)
    }

    /// Returns the step to the next corner of the level's hull; if `left` bytes are too few for it, to the largest
    /// choice that fits.
    fn next_step(&self, level: usize, from: usize, left: u64) -> Option<Step> {
        let (curve, hull) = (&self.curves[level], &self.hulls[level]);
        let corner = *hull.get(hull.partition_point(|&corner| corner <= from))?;
        let max_bytes = curve[from].bytes.saturating_add(left);
        let to = corner.min(curve.partition_point(|choice| choice.bytes <= max_bytes) - 1);
        let gain = gain_per_byte(bytes_and_reads(&curve[from]), bytes_and_reads(&curve[to]));
        (to > from).then_some(Step { gain, item: level, to })
    }

    fn bytes(&self, chosen: &[usize]) -> u64 {
        self.choices(chosen).fold(0, |sum: u64, choice| sum.saturating_add(choice.bytes))
    }

    fn useless_reads(&self, chosen: &[usize]) -> f64 {
        self.choices(chosen).map(PlannedLevel::useless_reads).sum()
    }

    fn choices(&self, chosen: &[usize]) -> impl Iterator<Item = &PlannedLevel> {
        self.curves.iter().zip(chosen).map(|(curve, &choice)| &curve[choice])
    }
}
