//! The empty key among others, and keys in descending order. The failure guarded against: a builder takes the empty key
//! for no key, or expects it to come first.

use std::sync::Arc;

use sstfilter::layers::{LateKeys, RotatingBloom, ScalableBloom};
use sstfilter::{
    BuildContext, FalsePositiveRate, FileId, FilterBlock, Filters, FixedPolicy, FixedPrefix, KeyHash, KeyHasher,
    KeyParts, LoadContext, kind,
};

use crate::{common, growing};

const KEYS: u32 = 1_500;
const ONE_PERCENT: FalsePositiveRate = FalsePositiveRate::ONE_PERCENT;

/// Descending keys, with the empty one first, in the middle, and last.
fn key_sets() -> [Vec<Vec<u8>>; 3] {
    let keys: Vec<Vec<u8>> = (0..KEYS).rev().map(|number| format!("{number:08}").into_bytes()).collect();
    [0, KEYS as usize / 2, KEYS as usize].map(|at| {
        let mut keys = keys.clone();
        keys.insert(at, Vec::new());
        keys
    })
}

// promise: no-false-negatives
#[test]
fn every_kind_finds_the_empty_key_wherever_it_was_added() {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(5)));
    let custom = KeyHasher::custom(1, |key| KeyHasher::with_seed(7).hash(key));
    for entry in kind::all() {
        let policy = common::policy(entry.name, ONE_PERCENT).with_min_keys(0);
        let plain = Filters::new(policy);
        let of_parts = plain.clone().with_key_parts(parts.clone());
        for filters in [plain.clone().with_hasher(custom.clone()), plain, of_parts] {
            for (at, keys) in key_sets().iter().enumerate() {
                for announced in [None, Some(1), Some(u64::from(KEYS) + 1)] {
                    let id = FileId::random();
                    let by_hash = filters.policy().builder(&filters.build_context(id)).unwrap();
                    let (mut builder, mut by_hash) = (filters.builder(id), by_hash);
                    if let Some(announced) = announced {
                        builder = builder.with_expected_keys(announced);
                    }
                    keys.iter().for_each(|key| builder.add_key(key));
                    keys.iter().for_each(|key| by_hash.add_hash(filters.hash(key)));
                    let known = [&keys[0], &keys[keys.len() - 1], &Vec::new()];
                    for built in [builder.finish(), by_hash.finish()] {
                        assert_eq!(built.report.keys_added, u64::from(KEYS) + 1);
                        let loaded = filters.load_with_known_keys(built.block, id, &known);
                        let what = format!("{}, empty key {at}, {announced:?} announced", entry.name);
                        assert_eq!(loaded.problem(), None, "{what}");
                        assert!(keys.iter().all(|key| !loaded.probe(key).is_absent()), "{what}");
                    }
                }
            }
        }
    }
}

// promise: no-false-negatives
#[test]
fn filters_that_grow_find_the_empty_key_wherever_it_was_inserted() {
    let (hasher, keys) = (KeyHasher::default(), u64::from(KEYS) + 1);
    let id = hasher.identity();
    for (at, set) in key_sets().iter().enumerate() {
        let hashes: Vec<KeyHash> = set.iter().map(|key| hasher.hash(key)).collect();
        let mut growing = growing::planned_for(keys);
        let mut scalable = <ScalableBloom>::new(id, 100, ONE_PERCENT).unwrap();
        let mut rotating = <RotatingBloom>::new(id, keys, 2, ONE_PERCENT).unwrap();
        let base = FixedPolicy::default().builder(&BuildContext::new(&hasher)).finish().block.unwrap();
        let mut late = <LateKeys>::over(base, LoadContext::new(&hasher), keys, ONE_PERCENT).unwrap();
        for &hash in &hashes {
            growing.iter_mut().for_each(|filter| filter.try_insert(hash).unwrap());
            scalable.insert(hash).unwrap();
            rotating.insert(hash);
            late.insert(hash);
        }
        let blocks = growing.map(|filter| FilterBlock::load(filter.to_block().unwrap(), &hasher).unwrap());
        for &hash in &hashes {
            assert!(blocks.iter().all(|block| block.may_contain(hash)), "empty key {at}");
            assert!(scalable.contains(hash) && rotating.contains(hash) && late.contains(hash), "empty key {at}");
        }
    }
}
