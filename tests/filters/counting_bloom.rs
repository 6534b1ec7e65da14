//! Counting Bloom filters compared with an exact record of their keys. The failure guarded against: a counter is
//! decremented more often than incremented (two probes of a key on one counter, a counter that was saturated in
//! between, an aborted removal), so that a present key becomes absent.

#![expect(clippy::float_cmp, reason = "both are the same division")]

use std::collections::HashMap;

use proptest::prelude::*;
use sstfilter::{
    BitsPerKey, CountingBloom, DynamicFilter, FilterError, HashIdentity, KeyHash, KeyHasher, StandardBloom,
};

use crate::{common, keys};

/// A change to one of a few keys, so that they often share counters.
#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    /// Removes a present key.
    Remove(u64),
    /// Removes an absent key, which the filter may detect.
    RemoveAbsent(u64),
    Restore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..40_u64).prop_map(Step::Insert),
        8 => (0..40_u64).prop_map(Step::Remove),
        2 => (100..140_u64).prop_map(Step::RemoveAbsent),
        1 => Just(Step::Restore),
    ];
    prop::collection::vec(step, 0..600)
}

fn payload(filter: &CountingBloom) -> Vec<u8> {
    filter.to_block().unwrap().to_vec()
}

fn restored(filter: &CountingBloom) -> CountingBloom {
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
                    let is_new = !filter.contains(KeyHash::mix(key));
                    prop_assert_eq!(filter.insert(KeyHash::mix(key)), is_new);
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
                Step::Restore => filter = restored(&filter),
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

#[test]
fn removing_half_of_the_keys_leaves_a_filter_of_the_other_half() {
    let mut filter = CountingBloom::for_size(HashIdentity::default(), 10_000, BitsPerKey::TEN).unwrap();
    let (stay, go) = (keys(0, 5_000), keys(1, 5_000));
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
    let inside = keys(2, 20);
    filter.insert_all(&inside);
    let looks_present: Vec<KeyHash> = keys(3, 200).into_iter().filter(|&hash| filter.contains(hash)).collect();
    assert!(looks_present.into_iter().any(|hash| filter.remove(hash).is_ok()));
    assert!(inside.into_iter().any(|hash| !filter.contains(hash)), "no present key is lost");
}

#[test]
fn the_standard_filter_of_a_counting_one_is_the_one_of_its_keys() {
    let mut filter = CountingBloom::with_shape(HashIdentity::default(), 9_999, 7).unwrap();
    filter.insert_all(&keys(4, 1_000));
    let standard = filter.to_standard_bloom().unwrap();
    assert_eq!((standard.bits(), standard.probes(), standard.keys()), (9_999, 7, 1_000));
    let mut built = StandardBloom::with_shape(HashIdentity::default(), 9_999, 7).unwrap();
    built.insert_all(&keys(4, 1_000));
    assert_eq!(built.to_block().unwrap()[..1_256], standard.to_block().unwrap()[..1_256]);
}
