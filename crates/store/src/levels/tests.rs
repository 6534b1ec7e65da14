//! Nobody would notice a plan that is worse than equal bits, or takes more than its budget: every filter in it works.
//! So the plan is compared with the paper's closed form, and with all combinations of sizes.

use sstfilter::{AutoPolicy, KeyHasher, kind};

use super::*;
use crate::effort;

const LN_2_SQUARED: f64 = core::f64::consts::LN_2 * core::f64::consts::LN_2;

/// Returns the paper's rates for these levels: proportional to the keys of a run, and 1 where that exceeds 1.
///
/// From the sum of keys x ln(1 / rate) = bits x ln(2)^2 over the levels with filters, and rate = factor x keys / runs.
fn closed_form(levels: &[LevelSize], memory_bits: f64) -> Vec<f64> {
    let of_run = |level: &LevelSize| level.keys as f64 / level.runs as f64;
    let mut largest_first: Vec<_> = levels.iter().collect();
    largest_first.sort_by(|one, other| of_run(other).total_cmp(&of_run(one)));
    for unfiltered in 0..levels.len() {
        let filtered = &largest_first[unfiltered..];
        let keys: f64 = filtered.iter().map(|level| level.keys as f64).sum();
        let logarithms: f64 = filtered.iter().map(|level| level.keys as f64 * of_run(level).ln()).sum();
        let factor = (-(memory_bits * LN_2_SQUARED + logarithms) / keys).exp();
        if factor * of_run(filtered[0]) < 1.0 {
            return levels.iter().map(|level| (factor * of_run(level)).min(1.0)).collect();
        }
    }
    vec![1.0; levels.len()]
}

/// Returns the useless reads of a level whose filters have this rate.
fn reads_of(level: &LevelSize, fpr: f64) -> f64 {
    level.runs as f64 * fpr
}

/// Returns the choices of a level with ideal Bloom filters, in steps of a fiftieth of a bit, up to 60 bits.
fn ideal_curve(level: &LevelSize) -> Vec<PlannedLevel> {
    let choice = |number: u64| PlannedLevel {
        size: *level,
        policy: None,
        bytes: (level.keys * number).div_ceil(400),
        expected_fpr: (-(number as f64) / 50.0 * LN_2_SQUARED).exp(),
    };
    without_waste((0..=3_000).map(choice).collect())
}

/// Returns `count` levels, each `ratio` times as large as the one before.
fn growing(count: u32, ratio: u64) -> Vec<LevelSize> {
    (0..count).map(|level| LevelSize::new(level, 100_000 * ratio.pow(level))).collect()
}

fn all_keys(levels: &[LevelSize]) -> f64 {
    levels.iter().map(|level| level.keys as f64).sum()
}

fn memory(levels: &[LevelSize], bits_per_key: f64) -> u64 {
    (all_keys(levels) * bits_per_key / 8.0) as u64
}

fn sizing_of(name: &str) -> impl Fn(Sizing) -> Result<FixedPolicy, ConfigError> {
    let entry = kind::KindEntry::named(name).unwrap();
    move |sizing| entry.configure(sizing)
}

#[test]
fn with_ideal_bloom_filters_the_plan_is_the_papers_closed_form() {
    let tiered = growing(4, 8).into_iter().map(|level| level.with_runs(7)).collect();
    let overlapping_first = [&[LevelSize::new(0, 400_000).with_runs(4)], &growing(5, 10)[1..]].concat();
    for levels in [growing(5, 10), growing(8, 4), growing(1, 10), tiered, overlapping_first] {
        for bits_per_key in [0.06, 0.5, 1.0, 2.0, 5.0, 10.0, 16.0] {
            let curves: Vec<_> = levels.iter().map(ideal_curve).collect();
            let chosen = Spread::new(&curves, memory(&levels, bits_per_key)).best();
            let rates = closed_form(&levels, all_keys(&levels) * bits_per_key);
            let (mut planned, mut expected) = (0.0, 0.0);
            for (((level, curve), choice), rate) in levels.iter().zip(&curves).zip(chosen).zip(rates) {
                let got = curve[choice].useless_reads() / reads_of(level, 1.0);
                // A step is a fiftieth of a bit, 1 % of the rate; small levels get what the step of a large one leaves.
                assert!((got / rate - 1.0).abs() < 0.1, "{bits_per_key} bits, {level:?}: {got} and {rate}");
                planned += curve[choice].useless_reads();
                expected += reads_of(level, rate);
            }
            assert!((planned / expected - 1.0).abs() < 0.001, "{bits_per_key} bits: {planned} and {expected}");
        }
    }
}

#[test]
fn five_levels_of_ratio_ten_have_less_than_a_third_of_the_useless_reads_of_equal_bits() {
    let levels = growing(5, 10);
    let memory = memory(&levels, 10.0);
    let ideal: f64 = closed_form(&levels, memory as f64 * 8.0).iter().sum();
    let equal: f64 = 5.0 * (-10.0 * LN_2_SQUARED).exp();
    // The paper's closed form: 0.0118 reads instead of 0.0410.
    assert!((ideal - 0.011_755).abs() < 1e-6 && (equal / ideal - 3.485).abs() < 1e-3, "{ideal} {equal}");
    for (name, better_than_ideal, ratios) in
        [("bloom", 0.8, 7.0..13.0), ("standard-bloom", 0.99, 8.0..12.0), ("ribbon", 7.5, 5.0..20.0)]
    {
        let configure = sizing_of(name);
        let plan = LevelPlan::new(&levels, memory, &configure).unwrap();
        let equal = LevelPlan::with_equal_bits(&levels, memory, &configure).unwrap();
        assert!(plan.useless_reads() * 3.0 < equal.useless_reads(), "{name}: {}", plan.useless_reads());
        assert!(ideal / plan.useless_reads() > better_than_ideal, "{name}: {} and {ideal}", plan.useless_reads());
        for pair in plan.levels.windows(2) {
            let ratio = pair[1].expected_fpr / pair[0].expected_fpr;
            // Ribbon has whole columns in all levels except one: between two numbers of columns its rate falls in
            // proportion to its bytes.
            assert!(ratios.contains(&ratio), "{name}: {ratio} from {} on", pair[0].size.level);
        }
    }
}

#[test]
fn no_combination_of_sizes_is_better() {
    let levels = [LevelSize::new(0, 3_000).with_runs(3), LevelSize::new(1, 20_000), LevelSize::new(2, 150_000)];
    for (name, stride) in [("bloom", 25), ("ribbon", 25), ("binary-fuse", 20), ("xor", 100), ("cuckoo", 20)] {
        let configure = sizing_of(name);
        let policies: Vec<_> = sizes().step_by(stride).filter_map(|size| configure(size.into()).ok()).collect();
        let curves: Vec<_> = levels.iter().map(|level| curve(level, &policies)).collect();
        for bits_per_key in [0.3, 0.9, 1.5, 3.0, 5.5, 9.0, 9.9, 11.0, 14.0, 20.0, 29.0] {
            let memory = memory(&levels, bits_per_key);
            let spread = Spread::new(&curves, memory);
            let chosen = spread.best();
            assert!(spread.bytes(&chosen) <= memory);
            let least = least_of_all_combinations(&spread);
            let got = spread.useless_reads(&chosen);
            assert!(got <= least * 1.03 + 1e-12, "{name}, {bits_per_key} bits: {got}, and {least} is possible");
        }
    }
}

fn least_of_all_combinations(spread: &Spread<'_>) -> f64 {
    let [first, second, third] = spread.curves else { panic!("three levels") };
    let mut least = f64::INFINITY;
    for one in first {
        for other in second {
            let Some(left) = spread.memory_bytes.checked_sub(one.bytes + other.bytes) else { break };
            let last = third.iter().rev().find(|choice| choice.bytes <= left).unwrap();
            least = least.min(one.useless_reads() + other.useless_reads() + last.useless_reads());
        }
    }
    least
}

// promise: limited-memory
#[test]
fn no_plan_takes_more_than_its_memory_or_is_worse_than_equal_bits() {
    for entry in kind::all() {
        let all_levels =
            [growing(3, 10), growing(1, 10), vec![LevelSize::new(3, 1), LevelSize::new(1, 70).with_files(9)]];
        for levels in all_levels.into_iter().step_by(effort::stride(2)) {
            for bits_per_key in [3.0, 0.2, 40.0].into_iter().step_by(effort::stride(3)) {
                let memory = memory(&levels, bits_per_key);
                let plan = LevelPlan::new(&levels, memory, |sizing| entry.configure(sizing)).unwrap();
                let equal = LevelPlan::with_equal_bits(&levels, memory, |sizing| entry.configure(sizing)).unwrap();
                let told = format!("{}, {bits_per_key} bits, {plan:?}", entry.name);
                assert!(plan.bytes() <= memory && equal.bytes() <= memory, "{told}");
                assert!(plan.useless_reads() <= equal.useless_reads(), "{told}");
                assert!(plan.levels.is_sorted_by_key(|planned| planned.size.level), "{told}");
                let rates = plan.levels.iter().map(|planned| (planned.expected_fpr, planned.policy.is_some()));
                assert!(
                    rates.into_iter().all(|(rate, has_filter)| rate <= 1.0 && (rate < 1.0) == has_filter),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn without_memory_no_level_has_a_filter() {
    for memory in [0, 1, 43] {
        let plan = LevelPlan::new(&growing(5, 10), memory, FixedPolicy::bloom).unwrap();
        assert_eq!((plan.bytes(), plan.useless_reads()), (0, 5.0));
        let context = BuildContext::new(&KeyHasher::default());
        assert!(plan.builder(&context.clone().with_level(2)).is_none());
        assert!(plan.builder(&context.with_level(9)).is_none());
    }
}

#[test]
fn where_memory_is_short_the_large_levels_have_no_filters() {
    let levels = growing(5, 10);
    let plan = LevelPlan::new(&levels, memory(&levels, 0.5), FixedPolicy::ribbon).unwrap();
    let has_filter: Vec<_> = plan.levels.iter().map(|planned| planned.policy.is_some()).collect();
    assert_eq!(has_filter, [true, true, true, true, false]);
    assert_eq!(plan.levels[4].expected_fpr, 1.0);
    assert!(plan.useless_reads() < 1.2, "{plan:?}");
    let equal = LevelPlan::with_equal_bits(&levels, memory(&levels, 0.5), FixedPolicy::ribbon).unwrap();
    assert_eq!(equal.useless_reads(), 5.0);
}

#[test]
fn memory_beyond_what_a_kind_can_use_is_left_over() {
    let levels = growing(3, 10);
    let plan = LevelPlan::new(&levels, u64::MAX, FixedPolicy::ribbon).unwrap();
    // Ribbon has at most 32 columns.
    assert!(plan.levels.iter().all(|planned| (31.0..34.0).contains(&planned.bits_per_key())), "{plan:?}");
    assert!((plan.useless_reads() / 3.0 * (1_u64 << 32) as f64 - 1.0).abs() < 0.01, "{plan:?}");
}

#[test]
fn a_level_without_keys_costs_nothing_and_gets_equal_bits_later() {
    let levels = [LevelSize::new(1, 0), LevelSize::new(2, 100_000)];
    let plan = LevelPlan::new(&levels, 100_000, FixedPolicy::bloom).unwrap();
    let (empty, full) = (&plan.levels[0], &plan.levels[1]);
    assert_eq!((empty.bytes, empty.useless_reads(), empty.bits_per_key()), (0, 0.0, 0.0));
    assert_eq!(plan.useless_reads(), full.useless_reads());
    assert!((7.9..=8.0).contains(&full.bits_per_key()), "{full:?}");
    assert_eq!(bits_of_level(&plan, Some(1)), Some(8));

    let nothing = LevelPlan::new(&[], 1 << 30, FixedPolicy::bloom).unwrap();
    assert_eq!((nothing.bytes(), nothing.useless_reads()), (0, 0.0));
    assert_eq!(bits_of_level(&nothing, Some(1)), Some(10));
}

/// Returns the rounded bits per key of the filter that a policy builds for a file of 50,000 keys.
fn bits_of_level(policy: &LevelPlan, level: Option<u32>) -> Option<u64> {
    let mut context = BuildContext::new(&KeyHasher::default());
    context.level = level;
    let mut builder = policy.builder(&context)?;
    (0..50_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
    let report = builder.finish().report;
    // Partitions are cut by it.
    assert_eq!(policy.block_bytes(&context, 50_000), Some(report.block_bytes));
    Some(report.bits_per_key().round() as u64)
}

#[test]
fn files_of_unknown_levels_get_equal_bits_unless_another_policy_is_set() {
    let levels = [LevelSize::new(0, 10_000), LevelSize::new(1, 1_000_000)];
    let policy = LevelPlan::new(&levels, memory(&levels, 8.0), FixedPolicy::bloom).unwrap();
    assert!(bits_of_level(&policy, Some(0)).unwrap() > 14);
    assert_eq!(bits_of_level(&policy, Some(1)), Some(8));
    assert_eq!((bits_of_level(&policy, None), bits_of_level(&policy, Some(2))), (Some(8), Some(8)));
    let five = Arc::new(FixedPolicy::bloom(BitsPerKey::new(5.0).unwrap()).unwrap());
    let policy = policy.with_other_levels(five);
    assert_eq!((bits_of_level(&policy, None), bits_of_level(&policy, Some(2))), (Some(5), Some(5)));
    assert_eq!(bits_of_level(&policy, Some(1)), Some(8));
    let auto = policy.with_other_levels(Arc::new(AutoPolicy::default()));
    assert_eq!(bits_of_level(&auto, Some(9)), Some(10));
}

#[test]
fn optimized_for_hits_the_last_level_has_no_filter_and_the_others_have_its_memory() {
    let levels = growing(3, 10);
    let memory = memory(&levels, 2.0);
    let all = LevelPlan::new(&levels, memory, FixedPolicy::bloom).unwrap();
    let for_hits = [levels[0], levels[1], levels[2].without_filter()];
    let plan = LevelPlan::new(&for_hits, memory, FixedPolicy::bloom).unwrap();
    assert!(plan.levels[2].policy.is_none() && plan.levels[2].expected_fpr == 1.0);
    assert!(plan.levels[0].expected_fpr < all.levels[0].expected_fpr);
    assert_eq!(bits_of_level(&plan, Some(2)), None);
    // Equal bits are compared on the same terms.
    let equal = LevelPlan::with_equal_bits(&for_hits, memory, FixedPolicy::bloom).unwrap();
    assert!(equal.levels[2].policy.is_none() && equal.levels[1].bits_per_key() > 7.0);
}

#[test]
fn many_small_files_count_the_bytes_that_each_filter_adds() {
    let one = LevelPlan::new(&[LevelSize::new(1, 100_000)], 100_000, FixedPolicy::bloom).unwrap();
    let files = LevelSize::new(1, 100_000).with_files(1_000);
    let many = LevelPlan::new(&[files], 100_000, FixedPolicy::bloom).unwrap();
    assert!(many.bytes() <= 100_000 && many.useless_reads() > one.useless_reads() * 1.5, "{many:?}");
    assert!(
        (LevelSize::new(1, 10).with_files(0).with_runs(0).files, LevelSize::new(1, 10).with_runs(0).runs) == (1, 1)
    );
    assert_eq!(LevelSize::new(1, 10).with_files(2).with_runs(5).files, 5);
}

#[test]
fn a_level_of_more_keys_than_a_filter_can_have_is_left_without() {
    let levels = [LevelSize::new(1, u64::MAX), LevelSize::new(2, 1_000)];
    let plan = LevelPlan::new(&levels, u64::MAX, FixedPolicy::bloom).unwrap();
    assert!(plan.levels[0].policy.is_none() && plan.levels[1].policy.is_some(), "{plan:?}");
}

#[test]
fn a_level_given_twice_is_refused_and_so_is_a_kind_without_sizes() {
    let twice = [LevelSize::new(4, 10), LevelSize::new(1, 5), LevelSize::new(4, 20)];
    let refused = LevelPlan::new(&twice, 100, FixedPolicy::bloom).unwrap_err();
    assert!(matches!(refused, ConfigError::OutOfRange { option: "level", got: 4, .. }), "{refused}");
    let none = |_: Sizing| Err(ConfigError::BitsPerKey { got: 7.0 });
    assert!(matches!(LevelPlan::new(&growing(2, 10), 100, none), Err(ConfigError::BitsPerKey { .. })));
}
