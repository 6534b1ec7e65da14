//! Answers for many keys, and their counts. The failures guarded against: a batch keeps bits of the previous batch;
//! counters make a damaged filter look sound.

use bytes::Bytes;
use sstfilter::{
    FilterBlock, FilterReader, Filters, FixedPolicy, KeyHash, KeyHasher, LookupOutcome, MatchBitmap, Probe,
};

use crate::common;

fn reader(keys: u32) -> FilterReader<Bytes> {
    let hashes: Vec<KeyHash> = common::key_set(0, keys).collect();
    let block = common::build(&FixedPolicy::default(), &hashes).block.unwrap();
    Filters::default().reader(FilterBlock::load(block, KeyHasher::default().identity()))
}

#[test]
fn a_bitmap_holds_one_bit_for_each_key_of_the_last_batch_and_nothing_of_those_before() {
    let filter = reader(2_000);
    let filter = filter.block().unwrap();
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
        // The words of the keys are written, and no word after them.
        for given in 0..=4 {
            let (mut words, own) = ([0x5555; 4], absent.len().div_ceil(64).min(given));
            filter.may_contain_words(&absent, &mut words[..given]);
            let found = (0..own * 64).filter(|&index| words[index / 64] >> (index % 64) & 1 == 1);
            assert!(found.eq(single.iter().copied().filter(|&index| index < own * 64)));
            assert_eq!(words[own..], [0x5555; 4][own..]);
        }
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
    let filter =
        Filters::default().reader(FilterBlock::load(Bytes::from_static(b"not a block"), &KeyHasher::default()));
    let mut matches = MatchBitmap::default();
    for count in [0, 1, 63, 64, 65, 128, 130] {
        let hashes: Vec<KeyHash> = common::key_set(0, count).collect();
        filter.probe_batch(&hashes, &mut matches);
        assert_eq!((matches.len(), matches.count()), (count as usize, u64::from(count)));
    }
    filter.record_lookup(LookupOutcome::NotFound);
    let stats = filter.stats();
    // The sum of the batches, and no outcome.
    assert_eq!((stats.unusable, stats.probes(), stats.false_positives), (451, 451, 0));
    assert!(stats.is_consistent());
}

#[test]
fn every_way_of_asking_is_counted_alike() {
    let filter = reader(2_000);
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
