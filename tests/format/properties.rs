//! Properties of every set of keys and of any bytes. The failure guarded against: an unexpected input (repeated keys,
//! keys out of order, badly mixed hashes, a filter in the middle of another buffer, a false trailer with a valid
//! checksum) for which a filter loses a key, panics, or does not return.
//!
//! `SSTFILTER_LONG=1` tries many more inputs.

use std::ops::Range;
use std::sync::Arc;

use crate::common;
use crate::common::random::Random;
use proptest::prelude::*;
use sstfilter::kind::{BinaryFuseKind, LineRibbonKind};
use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FilterBlock, FilterPolicy, FilterSet, Filters, FixedPolicy,
    KeyHash, KeyHasher, KindId, MatchBitmap, Sizing,
};

fn bloom(millibits: u32) -> FixedPolicy {
    FixedPolicy::bloom(BitsPerKey::from_millibits(millibits).unwrap()).unwrap()
}

fn standard_bloom(millibits: u32) -> FixedPolicy {
    FixedPolicy::standard_bloom(BitsPerKey::from_millibits(millibits).unwrap()).unwrap()
}

fn any_policy() -> impl Strategy<Value = Arc<dyn FilterPolicy>> {
    prop_oneof![
        (1_000..=100_000_u32).prop_map(|size| Arc::new(bloom(size)) as Arc<dyn FilterPolicy>),
        (1_000..=100_000_u32).prop_map(|size| Arc::new(standard_bloom(size)) as Arc<dyn FilterPolicy>),
        (1..=32_i32, 1.0..2.0_f64)
            .prop_map(|(bits, share)| (share * 2.0_f64.powi(-bits)).min(0.5))
            .prop_map(|rate| Arc::new(common::ribbon(rate)) as Arc<dyn FilterPolicy>),
        prop::sample::select(common::xor_policies()).prop_map(|policy| Arc::new(policy) as Arc<dyn FilterPolicy>),
        (2_000..=50_000_u32).prop_map(|size| {
            Arc::new(AutoPolicy::new(BitsPerKey::from_millibits(size).unwrap()).unwrap()) as Arc<dyn FilterPolicy>
        }),
        (prop::sample::select(vec![4_u8, 7, 8, 11, 16, 17, 26, 31, 32]), any::<bool>()).prop_map(|(bits, is_small)| {
            let arity = if is_small { 4 } else { 3 };
            let kind = BinaryFuseKind::new(arity, Sizing::FingerprintBits(bits)).unwrap();
            Arc::new(FixedPolicy::from(kind)) as Arc<dyn FilterPolicy>
        }),
        (prop::sample::select(vec![90, 100, 105]), prop::sample::select(vec![0, 3_000])).prop_map(
            |(load, min_keys)| {
                let kind = LineRibbonKind::of_load(load).unwrap();
                Arc::new(FixedPolicy::from(kind).with_min_keys(min_keys)) as Arc<dyn FilterPolicy>
            }
        ),
    ]
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

    // promise: same-bytes
    #[test]
    fn the_same_keys_in_any_order_and_any_number_of_times_give_the_same_ribbon(
        count in 1..12_000_u32, bits in 1..=32_i32, shuffled_by: u64, repeated in 1..4_u32,
    ) {
        let policy = common::ribbon(2.0_f64.powi(-bits));
        let ascending: Vec<KeyHash> = common::key_set(0, count).collect();
        let mut mixed: Vec<KeyHash> = (0..repeated).flat_map(|_| common::key_set(0, count)).collect();
        Random::new(shuffled_by).shuffle(&mut mixed);
        let (one, other) = (common::build(&policy, &ascending), common::build(&policy, &mixed));
        prop_assert_eq!(one.block.unwrap(), other.block.unwrap());
        prop_assert_eq!(one.report.distinct_keys, other.report.distinct_keys);
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

/// Builds a filter of `hashes`, and asserts that it contains all of them, whatever its kind.
fn build_of_hostile(rate: f64, hashes: &[u64], what: &str) -> (Option<KindId>, u32) {
    let hashes: Vec<KeyHash> = hashes.iter().copied().map(KeyHash::from_well_mixed).collect();
    let built = common::build(&common::ribbon(rate), &hashes);
    let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
    filter.verify().unwrap();
    assert!(hashes.iter().all(|&hash| filter.may_contain(hash)), "{what}: a key is lost");
    (built.report.used, built.report.attempts)
}

// promise: no-false-negatives
// misuse: weak-hash
#[test]
fn hashes_that_are_not_well_mixed_cost_no_key_no_panic_and_little_time() {
    type Make = fn(u64) -> u64;
    let makes: [(&str, Make); 9] = [
        ("0, 1, 2, ...", |number| number),
        ("the last ones", |number| u64::MAX - number),
        ("all equal to 0", |_| 0),
        ("all equal to the largest", |_| u64::MAX),
        ("equal low 32 bits", |number| number << 32 | 0x1234_5678),
        ("equal high 32 bits, mixed low ones", |number| KeyHash::mix(number).get() >> 32),
        ("multiples of 2^40", |number| number << 40),
        ("two values", |number| (number & 1) << 63),
        ("a shard: the high byte is one", |number| KeyHash::mix(number).get() >> 8 | 1 << 56),
    ];
    for (what, make) in makes {
        for count in [1, 100, 5_000, 5_001, 60_000] {
            let hashes: Vec<u64> = (0..count).map(make).collect();
            let (used, attempts) = build_of_hostile(0.01, &hashes, &format!("{what}, {count}"));
            println!("{what}, {count}: {used:?} in {attempts} attempts");
        }
        let hashes: Vec<KeyHash> = (0..96_000).map(make).map(KeyHash::from_well_mixed).collect();
        common::assert_not_quadratic(&common::ribbon(0.01), &hashes, what);
    }
}

#[test]
fn bloom_filters_of_hostile_hashes_deny_none() {
    for hashes in [vec![0; 10], (0..5_000).collect(), (0..5_000).map(|hash| hash << 32).collect::<Vec<u64>>()] {
        let hashes: Vec<KeyHash> = hashes.into_iter().map(KeyHash::from_well_mixed).collect();
        let policy = FixedPolicy::default().with_self_check();
        let filter = FilterBlock::open_unverified(common::build(&policy, &hashes).block.unwrap()).unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
    }
}

/// The threshold codes of a ribbon block's first layer, read from the bytes as the format specifies.
fn threshold_codes(block: &[u8]) -> Vec<u8> {
    let info = FilterBlock::open_unverified(block).unwrap().info();
    let shape = |name| common::shape_field(&info, name).unwrap();
    let slots: Vec<usize> = shape("slots per layer").split(", ").map(|slots| slots.parse().unwrap()).collect();
    let buckets: Vec<usize> = slots.iter().map(|slots| (slots - 63).div_ceil(128)).collect();
    let bumping = buckets.len() - 1;
    let words: usize = buckets.iter().take(bumping).map(|buckets| buckets.div_ceil(32)).sum();
    let payload = &block[..usize::try_from(info.payload_bytes).unwrap()];
    let thresholds = &payload[payload.len() - words * 8..];
    (0..buckets[0]).map(|bucket| thresholds[bucket / 4] >> (bucket % 4 * 2) & 3).collect()
}

#[test]
fn buckets_at_the_wall_between_sections_are_bumped_whole_and_lose_no_key() {
    let hashes: Vec<u64> = common::key_set(3, 400_000).map(KeyHash::get).collect();
    assert_eq!(build_of_hostile(0.01, &hashes, "walls").0, Some(KindId::RIBBON));
    let key_hashes: Vec<KeyHash> = common::key_set(3, 400_000).collect();
    let block = common::build(&common::ribbon(0.01), &key_hashes).block.unwrap();
    let codes = threshold_codes(&block);
    // Sections have 2^18 slots, buckets 128: bucket 2047 is the last of the first section.
    assert_eq!(codes[2_047], 3);
    assert!([0, 1, 2].iter().all(|code| codes.contains(code)), "all thresholds occur");
}

/// Key hashes that start in `slots` of a first layer of `layer_slots`, mixed in all lower bits.
fn crowd(slots: Range<u64>, layer_slots: u64, count: u64) -> impl Iterator<Item = u64> {
    let starts = u128::from(layer_slots - 63);
    let first = (u128::from(slots.start) << 64).div_ceil(starts);
    let span = (u128::from(slots.end) << 64).div_ceil(starts) - first;
    (0..count).map(move |number| {
        let part = (u128::from(KeyHash::mix(number).get()) * span) >> 64;
        u64::try_from(first + part).unwrap()
    })
}

#[test]
fn overfull_buckets_are_bumped_whole_and_lose_no_key() {
    let total = 20_000_u64;
    // Slots of the first layer: 960 for a thousand keys, in whole blocks.
    let layer_slots = (total * 960).div_ceil(64_000) * 64;
    for crowded in [200, 400, 1_000, 4_000] {
        let others = common::key_set(4, u32::try_from(total - crowded).unwrap()).map(KeyHash::get);
        let hashes: Vec<u64> = crowd(128 * 20..128 * 21, layer_slots, crowded).chain(others).collect();
        let (used, _) = build_of_hostile(0.01, &hashes, &format!("{crowded} keys in one bucket"));
        let key_hashes: Vec<KeyHash> = hashes.iter().copied().map(KeyHash::from_well_mixed).collect();
        let block = common::build(&common::ribbon(0.01), &key_hashes).block.unwrap();
        if used == Some(KindId::RIBBON) {
            assert_eq!(threshold_codes(&block)[20], 3, "{crowded} keys in one bucket");
        }
        assert!(crowded > 1_000 || used == Some(KindId::RIBBON), "{crowded} keys in one bucket: {used:?}");
    }
}
