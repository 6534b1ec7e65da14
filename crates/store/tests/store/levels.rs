//! Measures a plan for the levels of a store on the filters that it builds. The failure guarded against: rates are
//! computed for other filters than the policy then gives its files, so the plan promises few reads, and the store has
//! many.

use sstfilter::{BuildContext, FilterBlock, FilterPolicy, KeyHash, KeyHasher, kind};
use sstfilter_store::{LevelPlan, LevelSize};

use crate::common;

/// The number of lookups, for a standard error of 1 % of the useless reads that a plan of 10 bits per key expects.
const LOOKUPS: u32 = 1_000_000;

/// Returns the levels 1 to 5, of 100 to 1,000,000 keys.
fn levels() -> Vec<LevelSize> {
    (1..=5).map(|level| LevelSize::new(level, 10 * 10_u64.pow(level))).collect()
}

/// Returns the bytes of the filters that the plan's policy builds, and useless reads per lookup of an absent key.
fn built(plan: &LevelPlan) -> (u64, f64) {
    let (mut bytes, mut reads) = (0, 0);
    for planned in &plan.levels {
        let level = planned.size.level;
        let hashes: Vec<KeyHash> = common::key_set(level, planned.size.keys.try_into().unwrap()).collect();
        let context = BuildContext::new(&KeyHasher::default()).with_level(level).with_file_id([7; 16].into());
        let mut builder = plan.builder(&context).unwrap();
        builder.add_hashes(&hashes);
        let block = builder.finish().block.unwrap();
        bytes += block.len() as u64;
        let filter = FilterBlock::open_unverified(block).unwrap();
        assert_eq!(common::matches(&filter, hashes.into_iter()), planned.size.keys, "a key is lost");
        reads += common::matches(&filter, common::key_set(1_000, LOOKUPS));
    }
    (bytes, reads as f64 / f64::from(LOOKUPS))
}

// promise: limited-memory
#[test]
fn five_levels_of_ratio_ten_have_the_useless_reads_that_their_plan_expects() {
    let memory = levels().iter().map(|level| level.keys).sum::<u64>() * 10 / 8;
    for (name, bits_per_key) in [("bloom", 10), ("standard-bloom", 10), ("ribbon", 7)] {
        let entry = kind::KindEntry::named(name).unwrap();
        let memory = memory * bits_per_key / 10;
        let plan = LevelPlan::new(&levels(), memory, |sizing| entry.configure(sizing)).unwrap();
        let equal = LevelPlan::with_equal_bits(&levels(), memory, |sizing| entry.configure(sizing)).unwrap();
        let [planned, compared] = [&plan, &equal].map(|plan| {
            let (bytes, observed) = built(plan);
            let expected = plan.useless_reads();
            println!(
                "{name}: {observed:.5} useless reads per lookup, computed {expected:.5}; {bytes} bytes of {memory}"
            );
            assert!((observed / expected - 1.0).abs() < 0.05, "{name}: {observed}, computed {expected}");
            assert!(bytes as f64 <= memory as f64 * 1.01, "{name}: {bytes} of {memory} bytes");
            observed
        });
        assert!(planned * 3.0 < compared, "{name}: {planned}, and {compared} with equal bits");
    }
}
