//! Counting Bloom filters compared with an exact record of their keys. The failure guarded against: a counter is
//! decremented more often than incremented (two probes of a key on one counter, a counter that was saturated in
//! between, an aborted removal), so that a present key becomes absent.

#![expect(clippy::float_cmp, reason = "both are the same division")]

use std::collections::HashMap;

use crate::common;
use proptest::prelude::*;
use sstfilter::{
    BitsPerKey, CountingBloom, DynamicFilter, FalsePositiveRate, FilterBlock, FilterError, HashIdentity, KeyHash,
    KeyHasher, KindId, MatchBitmap, StandardBloom,
};

/// A change to one of a few keys, so that they often share counters.
#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    /// Removes a present key.
    Remove(u64),
    /// Removes an absent key, which the filter may detect.
    RemoveAbsent(u64),
    StoreAndTakeUp,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..40_u64).prop_map(Step::Insert),
        8 => (0..40_u64).prop_map(Step::Remove),
        2 => (100..140_u64).prop_map(Step::RemoveAbsent),
        1 => Just(Step::StoreAndTakeUp),
    ];
    prop::collection::vec(step, 0..600)
}

fn payload(filter: &CountingBloom) -> Vec<u8> {
    filter.to_block().unwrap().to_vec()
}

fn take_up(filter: &CountingBloom) -> CountingBloom {
    let identity = KeyHasher::default().identity();
    CountingBloom::from_block(&filter.to_block().unwrap(), identity).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(1_000, 20_000)))]

    /// Shapes down to one counter, which all probes of all keys share and which saturates soon.
    // promise: no-false-negatives
    #[test]
    fn no_key_that_is_in_is_denied_after_any_legal_work(
        counters in prop_oneof![1..20_u64, 20..300_u64], probes in 1..=32_u8, steps in steps(),
    ) {
        let mut filter = CountingBloom::with_shape(HashIdentity::default(), counters, probes).unwrap();
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for step in steps {
            match step {
                Step::Insert(key) => {
                    filter.insert(KeyHash::mix(key));
                    *exact.entry(key).or_default() += 1;
                }
                Step::Remove(key) if exact.get(&key).is_some_and(|&count| count > 0) => {
                    filter.remove(KeyHash::mix(key)).unwrap();
                    *exact.get_mut(&key).unwrap() -= 1;
                }
                Step::RemoveAbsent(key) if !filter.contains(KeyHash::mix(key)) => {
                    let before = payload(&filter);
                    prop_assert_eq!(filter.remove(KeyHash::mix(key)), Err(FilterError::NotPresent));
                    prop_assert_eq!(payload(&filter), before);
                }
                Step::StoreAndTakeUp => filter = take_up(&filter),
                Step::Remove(_) | Step::RemoveAbsent(_) => {}
            }
            prop_assert_eq!(filter.keys(), exact.values().sum::<u64>());
            for (&key, &count) in exact.iter().filter(|&(_, &count)| count > 0) {
                prop_assert!(filter.contains(KeyHash::mix(key)));
                prop_assert!(filter.count(KeyHash::mix(key)).is_none_or(|bound| u64::from(bound) >= count));
            }
        }
        let histogram = filter.histogram();
        prop_assert_eq!(histogram.iter().sum::<u64>(), counters);
        prop_assert_eq!(filter.health().fill_ratio, (counters - histogram[0]) as f64 / counters as f64);
        let standard = filter.to_standard_bloom().unwrap();
        for key in (0..300).map(KeyHash::mix) {
            prop_assert_eq!(standard.contains(key), filter.contains(key));
        }
        for (&key, &count) in &exact {
            (0..count).for_each(|_| filter.remove(KeyHash::mix(key)).unwrap());
        }
        prop_assert_eq!(filter.keys(), 0);
        prop_assert_eq!(filter.health().fill_ratio, filter.saturated() as f64 / counters as f64, "all but the saturated are back at 0");
    }
}

fn hashes(set: u32, count: u32) -> Vec<KeyHash> {
    common::key_set(set, count).collect()
}

#[test]
fn removing_half_of_the_keys_leaves_a_filter_of_the_other_half() {
    let mut filter = CountingBloom::for_size(HashIdentity::default(), 10_000, BitsPerKey::TEN).unwrap();
    let (stay, go) = (hashes(0, 5_000), hashes(1, 5_000));
    let new = filter.insert_all(&stay);
    assert!((4_990..=5_000).contains(&new), "but for the false positives: {new}");
    assert_eq!(
        CountingBloom::for_size(HashIdentity::default(), 9, BitsPerKey::TEN).unwrap().insert_all(&[stay[0], stay[0]]),
        1
    );
    let alone = payload(&filter);
    filter.insert_all(&go);
    assert_eq!((filter.keys(), filter.saturated()), (10_000, 0));
    go.iter().for_each(|&hash| filter.remove(hash).unwrap());
    assert_eq!(payload(&filter), alone, "as if they had never been in");
    assert!(stay.iter().all(|&hash| filter.contains(hash)));
    let let_through = go.iter().filter(|&&hash| filter.contains(hash)).count();
    assert!(let_through < 10, "0.025 % at half of the keys: {let_through}");
}

#[test]
fn a_key_inserted_twice_is_in_until_it_is_removed_twice() {
    let mut filter = CountingBloom::for_rate(HashIdentity::default(), 100, FalsePositiveRate::ONE_PERCENT).unwrap();
    let key = KeyHash::mix(1);
    assert!(filter.insert(key));
    assert!(!filter.insert(key));
    filter.remove(key).unwrap();
    assert!(filter.contains(key));
    filter.remove(key).unwrap();
    assert!(!filter.contains(key));
    assert_eq!(filter.remove(key), Err(FilterError::NotPresent));
    assert_eq!((filter.keys(), filter.health().fill_ratio), (0, 0.0));
}

#[test]
fn counters_stay_at_fifteen_for_good_and_are_counted() {
    let mut filter = CountingBloom::with_shape(HashIdentity::default(), 10_000, 5).unwrap();
    let (often, once) = (KeyHash::mix(1), KeyHash::mix(2));
    filter.insert(once);
    (0..40).for_each(|_| {
        filter.insert(often);
    });
    assert_eq!((filter.saturated(), filter.keys()), (5, 41));
    assert_eq!((filter.count(often), filter.count(once)), (None, Some(1)));
    assert_eq!(filter.histogram(), [9_990, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    (0..40).for_each(|_| filter.remove(often).unwrap());
    assert!(filter.contains(often), "its counters are lost");
    assert_eq!(filter.saturated(), 5);
    filter.remove(once).unwrap();
    assert!(!filter.contains(once));
    assert_eq!(filter.keys(), 0);
}

/// The documentation warns of this. The test shows that it is not harmless.
// misuse: false-removal
#[test]
fn removing_a_key_that_only_looks_present_can_lose_another_key() {
    let mut filter = CountingBloom::with_shape(HashIdentity::default(), 64, 2).unwrap();
    let inside = hashes(2, 20);
    filter.insert_all(&inside);
    let looks_present: Vec<KeyHash> = hashes(3, 200).into_iter().filter(|&hash| filter.contains(hash)).collect();
    assert!(looks_present.into_iter().any(|hash| filter.remove(hash).is_ok()));
    assert!(inside.into_iter().any(|hash| !filter.contains(hash)), "no present key is lost");
}

#[test]
fn the_standard_filter_of_a_counting_one_answers_alike_and_is_a_block_of_kind_three() {
    let mut filter = CountingBloom::with_shape(HashIdentity::default(), 9_999, 7).unwrap();
    filter.insert_all(&hashes(4, 1_000));
    let standard = filter.to_standard_bloom().unwrap();
    assert_eq!((standard.bits(), standard.probes(), standard.keys()), (9_999, 7, 1_000));
    assert_eq!(standard.health().fill_ratio, filter.health().fill_ratio);
    let block = standard.to_block().unwrap();
    let opened = FilterBlock::open_unverified(&block).unwrap();
    assert_eq!((opened.info().kind, opened.info().payload_bytes), (KindId::STANDARD_BLOOM, 157 * 8));
    let asked = [hashes(4, 1_000), hashes(5, 20_000)].concat();
    let mut matches = MatchBitmap::default();
    filter.contains_batch(&asked, &mut matches);
    for (at, &hash) in asked.iter().enumerate() {
        assert_eq!((opened.may_contain(hash), matches.may_contain(at)), (filter.contains(hash), filter.contains(hash)));
    }
    let mut built = StandardBloom::with_shape(HashIdentity::default(), 9_999, 7).unwrap();
    built.insert_all(&hashes(4, 1_000));
    assert_eq!(built.to_block().unwrap()[..1_256], block[..1_256]);
}

#[test]
fn batches_of_filters_larger_than_the_near_cache_answer_as_single_calls_do() {
    let mut filter = CountingBloom::for_size(HashIdentity::default(), 100_000, BitsPerKey::TEN).unwrap();
    filter.insert_all(&hashes(6, 100_000));
    let asked = [hashes(6, 777), hashes(7, 777)].concat();
    let mut matches = MatchBitmap::default();
    filter.contains_batch(&asked, &mut matches);
    let single: Vec<usize> = (0..asked.len()).filter(|&at| filter.contains(asked[at])).collect();
    assert_eq!(matches.iter().collect::<Vec<_>>(), single);
}

#[test]
fn overfull_and_absurd_filters_deny_none_and_are_refused() {
    let mut filter = CountingBloom::for_size(HashIdentity::default(), 10, BitsPerKey::TEN).unwrap();
    filter.insert_all(&hashes(8, 50_000));
    assert!(hashes(8, 50_000).into_iter().all(|hash| filter.contains(hash)));
    assert_eq!((filter.saturated(), filter.health().expected_fpr), (filter.counters(), 1.0));
    assert!(filter.health().fill_ratio > filter.health().max_fill_ratio);
    hashes(8, 50_000).into_iter().for_each(|hash| filter.remove(hash).unwrap());
    assert_eq!(filter.keys(), 0);
    for keys in [1 << 34, u64::MAX] {
        assert!(matches!(
            CountingBloom::for_size(HashIdentity::default(), keys, BitsPerKey::TEN),
            Err(FilterError::TooLarge { .. })
        ));
    }
    assert!(matches!(CountingBloom::with_shape(HashIdentity::default(), 0, 1), Err(FilterError::Config(_))));
    assert!(matches!(CountingBloom::with_shape(HashIdentity::default(), 1, 33), Err(FilterError::Config(_))));
}
