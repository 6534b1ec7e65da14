//! Properties of every set of keys and of any bytes. The failure guarded against: an unexpected input (repeated keys,
//! keys out of order, badly mixed hashes, a filter in the middle of another buffer, a false trailer with a valid
//! checksum) for which a filter loses a key, panics, or does not return.
//!
//! `SSTFILTER_LONG=1` tries many more inputs.

use std::sync::Arc;

use proptest::prelude::*;
use sstfilter::kind;
use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FalsePositiveRate, FilterBlock, FilterPolicy, FilterSet,
    Filters, FixedPolicy, KeyHash, KeyHasher, MatchBitmap, Sizing,
};

use crate::common;

/// A policy of any kind and size, or one that chooses the kind.
fn any_policy() -> impl Strategy<Value = Arc<dyn FilterPolicy>> {
    let size = |millibits| BitsPerKey::from_millibits(millibits).unwrap();
    let rate = |(bits, share): (i32, f64)| FalsePositiveRate::new((share * 2.0_f64.powi(-bits)).min(0.5)).unwrap();
    let sizing = prop_oneof![
        (1_000..=100_000_u32).prop_map(move |millibits| Sizing::from(size(millibits))),
        (1..=32_i32, 1.0..2.0_f64).prop_map(move |of_rate| Sizing::from(rate(of_rate))),
        (4..=32_u8).prop_map(Sizing::FingerprintBits),
    ];
    let fixed = (0..kind::all().len(), sizing, any::<bool>()).prop_filter_map(
        "a size of the kind",
        |(number, sizing, is_for_few)| {
            let policy = kind::all()[number].configure(sizing).ok()?;
            let policy = if is_for_few { policy.with_min_keys(0) } else { policy };
            Some(Arc::new(policy) as Arc<dyn FilterPolicy>)
        },
    );
    let auto = (2_000..=50_000_u32)
        .prop_map(move |millibits| Arc::new(AutoPolicy::new(size(millibits)).unwrap()) as Arc<dyn FilterPolicy>);
    prop_oneof![9 => fixed, 1 => auto]
}

/// Keys in any order, some of them repeated: short ones, so that they collide, and a long run.
fn any_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let few = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..200);
    let many = (0..8_000_u32).prop_map(|count| (0..count).map(|key| key.to_le_bytes().to_vec()).collect::<Vec<_>>());
    (few, many, any::<bool>()).prop_map(|(mut few, many, comes_last)| {
        let at = if comes_last { few.len() } else { 0 };
        few.splice(at..at, many);
        few
    })
}

fn any_hasher() -> impl Strategy<Value = KeyHasher> {
    prop_oneof![
        Just(KeyHasher::default()),
        any::<u64>().prop_map(KeyHasher::with_seed),
        any::<u64>().prop_map(KeyHasher::with_secret_seed),
    ]
}

/// The announced number of keys: none, the true one, too few, or too many.
fn expected_keys(truth: usize, choice: u8) -> Option<u64> {
    let truth = truth as u64;
    [None, Some(truth), Some(truth / 3), Some(truth * 3 + 10), Some(0)][usize::from(choice % 5)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(400, 10_000)))]

    // promise: no-false-negatives
    #[test]
    fn no_key_is_denied_whatever_the_keys_their_order_the_policy_and_what_it_was_told(
        keys in any_keys(), policy in any_policy(), hasher in any_hasher(), choice: u8,
        purpose in prop::sample::select(vec![BuildPurpose::Flush, BuildPurpose::Compaction, BuildPurpose::Ingest]),
    ) {
        let mut context = BuildContext::new(&hasher).with_purpose(purpose);
        context.expected_keys = expected_keys(keys.len(), choice);
        let mut builder = policy.builder(&context).unwrap();
        keys.iter().for_each(|key| builder.add_key(key));
        let built = builder.finish();
        let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
        filter.verify().unwrap();
        prop_assert_eq!(filter.hash_identity(), hasher.identity());
        prop_assert_eq!(built.report.keys_added, keys.len() as u64);
        for key in &keys {
            prop_assert!(filter.may_contain(hasher.hash(key)), "{:?} is absent from {:?}", key, filter);
        }
    }

    // promise: no-false-negatives
    #[test]
    fn single_set_and_batch_probes_agree_at_every_alignment(
        count in 0..3_000_u32, policy in any_policy(), offset in 0..64_usize, asked in 0..300_u32,
    ) {
        let hashes: Vec<KeyHash> = common::key_set(0, count).collect();
        let block = common::build(policy.as_ref(), &hashes).block.unwrap();
        let aligned = FilterBlock::open_unverified(&block).unwrap();
        let buffer = [&vec![0xa5; offset][..], &block, &[0xa5; 64]].concat();
        let shifted = FilterBlock::open_unverified(&buffer[offset..offset + block.len()]).unwrap();
        shifted.verify().unwrap();
        let identity = aligned.hash_identity();
        let asked: Vec<KeyHash> = common::key_set(0, asked).chain(common::key_set(1, asked * 3)).collect();
        let (mut matches, mut shifted_hits) = (MatchBitmap::default(), MatchBitmap::default());
        aligned.may_contain_batch(&asked, &mut matches);
        shifted.may_contain_batch(&asked, &mut shifted_hits);
        prop_assert_eq!(&matches, &shifted_hits);
        let filters = [&block[..], &buffer[offset..offset + block.len()]];
        let set = FilterSet::new(&Filters::default(), filters.map(|block| Filters::default().reader(FilterBlock::load(block, identity))));
        let mut in_set = MatchBitmap::default();
        for (index, &hash) in asked.iter().enumerate() {
            set.matches_hash(hash, &mut in_set);
            let answers = [
                aligned.may_contain(hash), shifted.may_contain(hash), matches.may_contain(index),
                in_set.may_contain(0), in_set.may_contain(1),
            ];
            prop_assert!(answers == [answers[0]; 5], "{:?}", answers);
        }
    }

    // promise: safe-to-open
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), hash: u64) {
        ask(&bytes, hash);
    }

    // promise: safe-to-open
    #[test]
    fn a_trailer_that_lies_under_a_checksum_that_holds_never_panics(
        count in prop::sample::select(vec![0_u32, 1, 60, 1_100, 5_500]), policy in any_policy(),
        lies in prop::collection::vec((0..64_usize, any::<u8>()), 1..6),
        cut in 0..200_usize, hashes in prop::array::uniform8(any::<u64>()),
    ) {
        let hashes_in: Vec<KeyHash> = common::key_set(0, count).collect();
        let mut block = common::build(policy.as_ref(), &hashes_in).block.unwrap().to_vec();
        for (from_end, value) in lies {
            let at = block.len().saturating_sub(5 + from_end);
            block[at] = value;
        }
        block.drain(..cut.min(block.len() - 32) / 8 * 8);
        make_it_a_block_again(&mut block);
        hashes.into_iter().chain([0, u64::MAX]).for_each(|hash| ask(&block, hash));
    }
}

/// Calls everything that accepts bytes that may be a block.
fn ask(bytes: &[u8], hash: u64) {
    let hash = KeyHash::from_well_mixed(hash);
    if let Ok(filter) = FilterBlock::open_unverified(bytes) {
        let answer = filter.may_contain(hash);
        let set = FilterSet::new(&Filters::default(), [Filters::default().reader(Ok(filter.clone()))]);
        let mut in_set = MatchBitmap::default();
        set.matches_hash(hash, &mut in_set);
        assert_eq!(in_set.may_contain(0), answer || set.problem(0).is_some());
        let mut matches = MatchBitmap::default();
        filter.may_contain_batch(&[hash; 65], &mut matches);
        assert_eq!(matches.count(), if answer { 65 } else { 0 });
        let _ = (filter.verify(), filter.fill_ratio(), filter.hash_identity());
    }
    let guarded = Filters::default().reader(FilterBlock::load(bytes, KeyHasher::default().identity()));
    let is_unusable = guarded.block().is_err();
    assert!(!(is_unusable && guarded.probe_hash(hash).is_absent()));
}

/// Restores magic and version, and corrects the payload's length and the trailer's checksum. Other fields stay.
fn make_it_a_block_again(block: &mut [u8]) {
    let length = block.len();
    block[length - 7..length - 4].copy_from_slice(b"\x01SF");
    let tail = 32 + usize::from(block[length - 8] >> 4) * 4;
    if tail > length {
        return;
    }
    let words = u32::try_from((length - tail) / 8).unwrap();
    block[length - 24..length - 20].copy_from_slice(&words.to_le_bytes());
    let sum = crc32c::crc32c(&block[length - tail..length - 4]);
    block[length - 4..].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn blocks_remade_without_a_lie_open_so_that_the_lies_are_not_refused_for_their_checksum() {
    for policy in [&common::ribbon(0.01) as &dyn FilterPolicy, &FixedPolicy::default()] {
        let hashes: Vec<KeyHash> = common::key_set(0, 1_100).collect();
        let block = common::build(policy, &hashes).block.unwrap();
        let mut remade = block.to_vec();
        make_it_a_block_again(&mut remade);
        assert_eq!(remade, block);
    }
}
