//! Unions of stored filters. The failures guarded against: a key of one of them is lost; filters are combined whose
//! bits mean different things.

use crate::common::key_set;
use sstfilter::{
    BlockError, BuildContext, DelimitedPrefix, FileId, FilterBlock, FilterError, Filters, FixedPolicy, KeyHash,
    KeyHasher, KeyParts, LoadContext, Probe, Sizing, kind,
};
use std::sync::Arc;

fn keys(set: u32, count: u32) -> Vec<KeyHash> {
    key_set(set, count).collect()
}

fn load(policy: &FixedPolicy, context: &BuildContext, hashes: &[KeyHash]) -> FilterBlock<bytes::Bytes> {
    let mut builder = policy.builder(context);
    builder.add_hashes(hashes);
    FilterBlock::load(builder.finish().block.unwrap(), context.hasher.identity()).unwrap()
}

// promise: no-false-negatives
#[test]
fn a_union_of_bloom_filters_has_the_keys_of_both_and_the_rate_it_states() {
    let context = BuildContext::new(&KeyHasher::default());
    let (one, other, absent) = (keys(1, 20_000), keys(2, 20_000), keys(3, 400_000));
    let mut united = 0;
    for entry in kind::all() {
        let policy = entry.configure(Sizing::Rate(sstfilter::FalsePositiveRate::ONE_PERCENT)).unwrap();
        let [first, second] = [&one, &other].map(|hashes| load(&policy, &context, hashes));
        let block = match first.union(&second) {
            Ok(block) => FilterBlock::load(block, &KeyHasher::default()).unwrap(),
            Err(error) => {
                assert_eq!(error, FilterError::NotMergeable { got: first.kind() }, "{}", entry.name);
                continue;
            }
        };
        united += 1;
        assert!(one.iter().chain(&other).all(|&hash| block.may_contain(hash)), "{}", entry.name);
        let or = first.as_bytes().iter().zip(second.as_bytes()).map(|(one, other)| one | other);
        let payload = usize::try_from(block.info().payload_bytes).unwrap();
        assert!(or.take(payload).eq(block.as_bytes()[..payload].iter().copied()), "{}", entry.name);
        let found = absent.iter().filter(|&&hash| block.may_contain(hash)).count() as f64;
        let expected = block.info().expected_fpr * absent.len() as f64;
        println!("{}: {:.2} %, expected {:.2} %", entry.name, found / 4_000.0, expected / 4_000.0);
        // The filter's own fill varies around its mean, too.
        assert!(
            (found - expected).abs() < 4.0 * expected.sqrt() + 0.015 * expected,
            "{}: {found}, {expected}",
            entry.name
        );
        assert_eq!((block.info().file, block.info().keys), (None, first.info().keys + second.info().keys));
        assert_eq!(first.union(&second), second.union(&first));
    }
    assert_eq!(united, 3, "blocked, standard and register-blocked Bloom");
}

// promise: no-false-negatives
#[test]
fn a_union_of_filters_of_the_same_parts_holds_the_parts_and_is_bound_to_no_file() {
    let (hasher, parts) =
        (KeyHasher::default(), KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b'/'))));
    let load = |first: u32| {
        let context = BuildContext::new(&hasher).with_key_parts(parts.clone()).with_file_id(FileId::random());
        let mut builder = FixedPolicy::default().builder(&context);
        (first..first + 1_000).for_each(|key| builder.add_key(format!("{key}/x").as_bytes()));
        FilterBlock::open_unverified(builder.finish().block.unwrap()).unwrap()
    };
    let block = load(0).union(&load(1_000)).unwrap();
    let both = FilterBlock::load(block, LoadContext::new(&hasher).with_key_parts(&parts)).unwrap();
    assert_eq!((both.info().file, both.info().extractors.len()), (None, 1));
    let both = Filters::default().with_key_parts(parts.clone()).reader(Ok(both));
    for key in 0..2_000_u32 {
        assert_eq!(both.probe(format!("{key}/x").as_bytes()), Probe::MaybePresent);
        assert_eq!(both.probe_prefix(format!("{key}/").as_bytes()), Probe::MaybePresent);
    }
}

#[test]
fn filters_that_differ_in_hash_kind_shape_or_parts_are_refused() {
    let (context, policy) = (BuildContext::new(&KeyHasher::default()), FixedPolicy::default());
    let own = load(&policy, &context, &keys(1, 1_000));
    let foreign = load(&policy, &BuildContext::new(&KeyHasher::with_seed(5)), &keys(1, 1_000));
    assert!(matches!(own.union(&foreign), Err(FilterError::HashMismatch { .. })));
    let larger = own.union(&load(&policy, &context, &keys(2, 5_000)));
    let expected = (own.info().payload_bytes * 8, 6);
    assert!(
        matches!(larger, Err(FilterError::ShapeMismatch { expected: found, .. }) if found == expected),
        "{larger:?}"
    );
    let standard = load(&FixedPolicy::standard_bloom(sstfilter::BitsPerKey::TEN).unwrap(), &context, &keys(2, 1_000));
    assert!(matches!(own.union(&standard), Err(FilterError::ShapeMismatch { .. })));
    let ribbon =
        load(&FixedPolicy::ribbon(sstfilter::BitsPerKey::TEN).unwrap().with_min_keys(1), &context, &keys(2, 1_000));
    assert_eq!(own.union(&ribbon), Err(FilterError::NotMergeable { got: ribbon.kind() }));
    assert_eq!(ribbon.union(&own), Err(FilterError::NotMergeable { got: ribbon.kind() }));
}

#[test]
fn filters_of_other_parts_or_damaged_ones_are_refused() {
    let hasher = KeyHasher::default();
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b'/')));
    let build = |parts: KeyParts| {
        let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_key_parts(parts));
        (0..1_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
        builder.finish().block.unwrap()
    };
    let (whole, with_parts) = (build(KeyParts::whole_keys()), build(parts));
    let [whole_block, parts_block] = [&whole, &with_parts].map(|block| FilterBlock::load(block, &hasher).unwrap());
    let refused = whole_block.union(&parts_block);
    assert!(matches!(refused, Err(FilterError::Block(BlockError::ExtractorMismatch { .. }))), "{refused:?}");
    let mut damaged = whole.to_vec();
    damaged[3] ^= 1;
    let damaged = FilterBlock::open_unverified(damaged).unwrap();
    for refused in [whole_block.union(&damaged), damaged.union(&whole_block)] {
        assert!(matches!(refused, Err(FilterError::Block(BlockError::PayloadChecksum { .. }))), "{refused:?}");
    }
}
