//! One key in many filters, and many keys in one filter. The failures guarded against: a mask prepared for one filter
//! is used on a filter of another shape; a batch keeps bits of the previous batch; counters make a damaged filter look
//! sound.

use crate::common;
use bytes::Bytes;
use sstfilter::{
    BitsPerKey, FilterBlock, FilterPolicy, FilterReader, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher,
    LookupOutcome, MatchBitmap, Probe,
};

const KEYS: u32 = 2_000;

fn bloom(bits: f64) -> FixedPolicy {
    FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()).unwrap()
}

/// Filters of key sets 0, 1, 2, ...: with one, six, nine and sixteen probes, and a ribbon among them.
fn filters() -> Vec<FilterBlock<Bytes>> {
    let policies: Vec<Box<dyn FilterPolicy>> = vec![
        Box::new(bloom(10.0)),
        Box::new(bloom(16.0)),
        Box::new(common::ribbon(0.01)),
        Box::new(bloom(1.0)),
        Box::new(bloom(10.0)),
        Box::new(bloom(40.0)),
    ];
    (0..)
        .zip(policies)
        .map(|(set, policy)| {
            let hashes: Vec<KeyHash> = common::key_set(set, KEYS).collect();
            FilterBlock::open_unverified(common::build(policy.as_ref(), &hashes).block.unwrap()).unwrap()
        })
        .collect()
}

fn guarded(keys: u32) -> FilterReader<Bytes> {
    let hashes: Vec<KeyHash> = common::key_set(0, keys).collect();
    let block = common::build(&bloom(10.0), &hashes).block.unwrap();
    Filters::default().reader(FilterBlock::load(block, KeyHasher::default().identity()))
}

fn damaged() -> FilterReader<Bytes> {
    Filters::default().reader(FilterBlock::load(Bytes::from_static(b"not a block"), KeyHasher::default().identity()))
}

#[test]
fn a_set_answers_as_its_filters_do_one_by_one_over_filters_of_all_shapes_in_any_order() {
    let filters = filters();
    let in_both_orders = filters.iter().chain(filters.iter().rev());
    let in_both_orders: Vec<_> = in_both_orders.cloned().map(|block| Filters::default().reader(Ok(block))).collect();
    let set_of_filters = FilterSet::new(&Filters::default(), in_both_orders);
    let mut matches = MatchBitmap::default();
    for set in 0..8 {
        for hash in common::key_set(set, 300) {
            set_of_filters.matches_hash(hash, &mut matches);
            for (index, filter) in filters.iter().chain(filters.iter().rev()).enumerate() {
                assert_eq!(matches.may_contain(index), filter.may_contain(hash));
            }
            if (set as usize) < filters.len() {
                assert!(matches.may_contain(set as usize), "the key is in filter {set}");
            }
        }
    }
}

#[test]
fn a_bitmap_holds_one_bit_for_each_key_of_the_last_batch_and_nothing_of_those_before() {
    let filter = &filters()[0];
    let mut matches = MatchBitmap::default();
    // Around whole words, and shorter batches after longer ones, in which old bits would show.
    for count in [130, 0, 64, 63, 65, 1, 128, 2] {
        let present: Vec<KeyHash> = common::key_set(0, count).collect();
        filter.may_contain_batch(&present, &mut matches);
        assert_eq!(
            (matches.len(), matches.is_empty(), matches.count()),
            (count as usize, count == 0, u64::from(count))
        );
        assert!(matches.iter().eq(0..count as usize));

        let absent: Vec<KeyHash> = common::key_set(9, count).collect();
        filter.may_contain_batch(&absent, &mut matches);
        assert_eq!(matches.len(), count as usize);
        let single: Vec<usize> = (0..absent.len()).filter(|&index| filter.may_contain(absent[index])).collect();
        assert!(matches.iter().eq(single.iter().copied()));
        assert_eq!(matches.count(), single.len() as u64);
    }
}

#[test]
fn a_bitmap_says_maybe_of_keys_that_were_not_asked_for() {
    let mut matches = MatchBitmap::default();
    assert!(matches.may_contain(0));
    matches.reset(3);
    assert_eq!(
        [0, 2, 3, 63, 64, usize::MAX].map(|index| matches.may_contain(index)),
        [false, false, true, true, true, true]
    );
    assert_eq!((matches.count(), matches.iter().count()), (0, 0));
}

#[test]
fn an_unusable_filter_sets_all_bits_of_a_batch_and_no_more() {
    let filter = damaged();
    let mut matches = MatchBitmap::default();
    for count in [0, 1, 63, 64, 65, 128, 130] {
        let hashes: Vec<KeyHash> = common::key_set(0, count).collect();
        filter.probe_batch(&hashes, &mut matches);
        assert_eq!((matches.len(), matches.count()), (count as usize, u64::from(count)));
    }
    // The sum of the batches.
    assert_eq!(filter.stats().unusable, 451);
    assert_eq!(filter.stats().probes(), 451);
}

#[test]
fn every_way_of_asking_is_counted_alike() {
    let filter = guarded(KEYS);
    let asked: Vec<KeyHash> = common::key_set(0, 100).chain(common::key_set(9, 900)).collect();
    let mut matches = MatchBitmap::default();
    filter.probe_batch(&asked, &mut matches);
    let batch = filter.stats();
    assert_eq!((batch.positives, batch.negatives), (matches.count(), 1_000 - matches.count()));
    for &hash in &asked {
        let single = filter.probe_hash(hash);
        assert_eq!(single, filter.probe_hash(hash));
        assert_eq!(single.is_absent(), single == Probe::Absent);
    }
    let all = filter.stats();
    // Each hash was probed once in the batch and twice by itself.
    assert_eq!((all.positives, all.negatives, all.unusable), (batch.positives * 3, batch.negatives * 3, 0));
    assert_eq!(all.probes(), 3_000);
}

#[test]
fn the_observed_rate_comes_from_what_lookups_found() {
    let filter = guarded(KEYS);
    assert_eq!(filter.stats().observed_fpr(), None);
    for hash in common::key_set(0, 500) {
        assert_eq!(filter.probe_hash(hash), Probe::MaybePresent);
        filter.record_lookup(LookupOutcome::Found);
    }
    assert_eq!(filter.stats().observed_fpr(), None, "keys that are there say nothing of the rate");
    for hash in common::key_set(9, 50_000) {
        if !filter.probe_hash(hash).is_absent() {
            filter.record_lookup(LookupOutcome::NotFound);
        }
    }
    let stats = filter.stats();
    assert_eq!((stats.true_positives, stats.absent_probes()), (500, 50_000));
    assert_eq!(stats.positives, stats.true_positives + stats.false_positives);
    let expected = filter.block().unwrap().info().expected_fpr;
    let (low, high) = stats.fpr_interval(5.0).unwrap();
    assert!(low < expected && expected < high, "{low} {expected} {high}");
    assert!(stats.alarm(expected * 3.0).is_some() && stats.alarm(expected / 3.0).is_some());
}
