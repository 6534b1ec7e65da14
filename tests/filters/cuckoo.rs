//! Cuckoo filters in use. The failure guarded against: a filter that evicts tags to insert others loses a tag (when it
//! is full, when a key with the same tag is removed, when it is stored and restored), and from then on answers "absent"
//! for a present key.

use std::collections::HashMap;

use proptest::prelude::*;
use sstfilter::{
    BlockError, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FilterError, HashIdentity, KeyHash,
    KeyHasher,
};

use crate::common::parts::Parts;
use crate::common::{self, effort};

fn identity() -> HashIdentity {
    KeyHasher::default().identity()
}

fn keys(set: u32, count: u64) -> Vec<KeyHash> {
    common::key_set(set, u32::try_from(count).unwrap()).collect()
}

fn bytes(filter: &CuckooFilter) -> Vec<u8> {
    filter.to_block().unwrap().to_vec()
}

/// A change to a filter.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    /// Removes a key, if it is present.
    Remove(u8),
    /// Stores and restores the filter.
    Restore,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..60_u8).prop_map(Step::Insert),
        3 => (0..60_u8).prop_map(Step::Remove),
        1 => Just(Step::Restore),
    ]
}

fn key(number: u8) -> KeyHash {
    KeyHash::mix(number.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(300, 300)))]

    // promise: no-false-negatives
    #[test]
    fn no_key_that_is_in_is_ever_denied_whatever_is_done(
        steps in prop::collection::vec(any_step(), 0..400),
        tag_bits in 4..=32_u8,
        planned in 0..60_u64,
    ) {
        let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), planned, tag_bits).unwrap();
        let mut reference = HashMap::<u8, u32>::new();
        for step in steps {
            let before = bytes(&filter);
            match step {
                Step::Insert(number) => match filter.insert(key(number)) {
                    Ok(()) => *reference.entry(number).or_default() += 1,
                    Err(error) => {
                        let (keys, slots) = (filter.keys(), filter.slots());
                        prop_assert_eq!(error, FilterError::Full { keys, slots });
                        prop_assert_eq!(bytes(&filter), before);
                    }
                },
                Step::Remove(number) => match reference.get_mut(&number).filter(|count| **count > 0) {
                    Some(count) => {
                        filter.remove(key(number)).unwrap();
                        *count -= 1;
                    }
                    None if !filter.contains(key(number)) => {
                        prop_assert_eq!(filter.remove(key(number)), Err(FilterError::NotPresent));
                        prop_assert_eq!(bytes(&filter), before);
                    }
                    // A false positive: removing it could take another key's tag, so the model leaves it.
                    None => (),
                },
                Step::Restore => {
                    filter = CuckooFilter::from_block(&before, identity()).unwrap();
                    prop_assert_eq!(bytes(&filter), before);
                }
            }
            let present = || reference.iter().filter(|(_, count)| **count > 0);
            prop_assert!(present().all(|(number, _)| filter.contains(key(*number))));
            prop_assert_eq!(filter.keys(), present().map(|(_, count)| u64::from(*count)).sum::<u64>());
        }
    }

    #[test]
    fn any_bytes_for_a_payload_make_an_error_or_a_filter_and_no_panic(
        payload in prop::collection::vec(any::<u8>(), 64),
        claimed in 0..300_u64,
        tag_bits in 4..=32_u8,
    ) {
        let mut parts = Parts::of_block(&bytes(&CuckooFilter::with_tag_bits(HashIdentity::default(), 10, 8).unwrap()));
        (parts.payload, parts.params[0]) = (payload, tag_bits.into());
        parts.set_keys(claimed);
        if let Ok(mut filter) = CuckooFilter::from_block(&parts.seal(), identity()) {
            prop_assert_eq!(filter.keys(), claimed);
            if filter.insert(key(1)).is_ok() {
                prop_assert!(filter.contains(key(1)));
            }
        }
    }
}

#[test]
fn a_key_fits_eight_times_and_the_ninth_is_refused_and_changes_nothing() {
    for (planned, tag_bits) in [(0, 4), (1, 8), (8, 16), (100, 12), (10_000, 8), (1_000, 32)] {
        let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), planned, tag_bits).unwrap();
        (0..8).for_each(|_| filter.insert(key(7)).unwrap());
        let before = bytes(&filter);
        let slots = filter.slots();
        assert_eq!(filter.insert(key(7)), Err(FilterError::Full { keys: 8, slots }));
        assert_eq!(bytes(&filter), before);
        (0..8).for_each(|_| {
            assert!(filter.contains(key(7)));
            filter.remove(key(7)).unwrap();
        });
        assert!(!filter.contains(key(7)));
        assert_eq!(filter.remove(key(7)), Err(FilterError::NotPresent));
        let block = bytes(&filter);
        assert!(block[..block.len() - 36].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn the_planned_number_of_keys_fits_at_every_size() {
    for tag_bits in [6, 8, 12, 17, 32] {
        common::on_all_cores(600, |planned| {
            for set in 0..10 {
                let hashes = keys(set, planned as u64);
                let mut filter =
                    CuckooFilter::with_tag_bits(HashIdentity::default(), planned as u64, tag_bits).unwrap();
                filter.insert_all(&hashes).unwrap();
                assert!(hashes.iter().all(|&hash| filter.contains(hash)), "{planned} keys of {tag_bits} bits");
            }
        });
    }
}

/// The share of slots in use when the first key is rejected.
fn load_reached(slots: u64, tag_bits: u8, set: u32) -> f64 {
    let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), slots * 94 / 100, tag_bits).unwrap();
    let all = keys(set, filter.slots());
    let refused = all.iter().position(|&hash| filter.insert(hash).is_err()).unwrap_or(all.len());
    assert!(all[..refused].iter().all(|&hash| filter.contains(hash)), "a key is lost");
    filter.health().fill_ratio
}

/// 300 filters of each width in the long form, otherwise 60.
#[test]
fn every_filter_of_some_thousand_places_reaches_95_percent() {
    for tag_bits in [6, 8, 12, 16, 20, 32] {
        let loads = common::on_all_cores(300 / effort::sample(5), |turn| {
            let slots = [2_000, 2_500, 3_001, 5_000, 10_007, 30_000][turn % 6];
            load_reached(slots, tag_bits, u32::try_from(turn).unwrap())
        });
        let least = loads.iter().copied().fold(1.0, f64::min);
        println!("{tag_bits} bits, 2,000 to 30,000 slots: least load {least:.4}");
        assert!(least >= 0.95, "{tag_bits} bits: {least}");
    }
    let large = load_reached(1_000_000, 8, 0);
    println!("8 bits, 1,000,000 slots: load {large:.4}");
    assert!(large >= 0.97, "{large}");
}

#[test]
fn a_full_filter_takes_keys_again_when_some_have_left() {
    let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), 5_000, 12).unwrap();
    let all = keys(0, filter.slots() + 1);
    let mut present: Vec<KeyHash> = all.iter().copied().take_while(|&hash| filter.insert(hash).is_ok()).collect();
    for turn in 1..=20 {
        for hash in present.drain(..500) {
            filter.remove(hash).unwrap();
        }
        for hash in keys(turn, 500) {
            if filter.insert(hash).is_ok() {
                present.push(hash);
            }
        }
        assert!(present.iter().all(|&hash| filter.contains(hash)));
        assert_eq!(filter.keys(), present.len() as u64);
    }
    assert!(filter.health().fill_ratio > 0.95, "{}", filter.health().fill_ratio);
}

#[test]
fn inserting_many_at_once_gives_the_same_bytes_and_stops_where_one_by_one_does() {
    let settings = [(1_000, 8), (1_200_000, 16), (700_000, 32)];
    for (planned, tag_bits) in settings.into_iter().step_by(effort::sample(2)) {
        let (mut one_by_one, mut at_once) =
            [0; 2].map(|_| CuckooFilter::with_tag_bits(HashIdentity::default(), planned, tag_bits).unwrap()).into();
        let hashes = keys(1, one_by_one.slots());
        let refused = hashes.iter().find_map(|&hash| one_by_one.insert(hash).err());
        assert_eq!(at_once.insert_all(&hashes).err(), refused);
        assert!(bytes(&one_by_one) == bytes(&at_once), "{planned} keys of {tag_bits} bits");
    }
}

#[test]
fn a_filter_for_a_rate_keeps_to_it_and_its_block_is_as_long_as_said() {
    for rate in [0.1, 0.03, 0.01, 0.001, 1e-5, 1e-8] {
        for planned in [0, 1, 8, 9, 1_000, 100_000] {
            let rate = FalsePositiveRate::new(rate).unwrap();
            let mut filter = CuckooFilter::for_rate(HashIdentity::default(), planned, rate).unwrap();
            filter.insert_all(&keys(0, planned)).unwrap();
            assert!(filter.health().expected_fpr <= rate.get());
            let tag_bits = filter.tag_bits();
            assert_eq!(bytes(&filter).len() as u64, filter.block_bytes());
            if planned == 100_000 {
                let bits = bytes(&filter).len() as f64 * 8.0 / planned as f64;
                println!("{rate}: {tag_bits} bits a tag, {bits:.2} bits per key");
                assert!(bits <= 1.06 * f64::from(tag_bits), "{rate}: {bits}");
            }
        }
    }
}

#[test]
fn payloads_that_no_writer_makes_are_errors_and_still_answer_as_blocks() {
    // A filter whose buckets do not fill the last word.
    let mut filters =
        (100..1_000).map(|planned| CuckooFilter::with_tag_bits(HashIdentity::default(), planned, 5).unwrap());
    let mut filter = filters.find(|filter| !(filter.slots() / 8 * 5).is_multiple_of(8)).unwrap();
    filter.insert_all(&keys(0, 100)).unwrap();
    let block = bytes(&filter);
    let changed = |at: usize, value: u8| {
        let mut block = block.clone();
        block[at] = value;
        let block = Parts::of_block(&block).seal();
        assert!(FilterBlock::open_unverified(&block[..]).is_ok(), "it is a block");
        CuckooFilter::from_block(&block, identity()).err()
    };
    let (payload, keys_at) = (block.len() - 36, block.len() - 16);
    let keys_error = |got| BlockError::Field { field: "keys", expected: "the number of tags", got };
    assert_eq!(changed(keys_at, 99), Some(keys_error(99).into()));
    assert_eq!(changed(keys_at, 101), Some(keys_error(101).into()));
    let behind = BlockError::Field { field: "bytes behind the last bucket", expected: "0", got: 0x80 };
    assert_eq!(changed(payload - 1, 0x80), Some(behind.into()));
    assert_eq!(changed(keys_at, 100), None);
}
