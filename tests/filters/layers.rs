//! Filters of several parts. The failures guarded against: a key that is lost when a part is added, emptied, stored or
//! restored; and a rate that grows with the parts.

#![expect(clippy::float_cmp, reason = "a share of no keys")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::common::{self, key_set};
use proptest::prelude::*;
use sstfilter::layers::{Growth, LateKeys, LayeredFilter, Part, RotatingBloom, ScalableBloom};
use sstfilter::{
    BlockError, BuildContext, DelimitedPrefix, FalsePositiveRate, FileId, FilterError, FixedPolicy, HashIdentity,
    KeyHash, KeyHasher, KeyParts, LoadContext, MatchBitmap, RegisterBlockedBloom, Sizing, StandardBloom, kind,
};

fn keys(set: u32, count: u32) -> Vec<KeyHash> {
    key_set(set, count).collect()
}

fn rate(rate: f64) -> FalsePositiveRate {
    FalsePositiveRate::new(rate).unwrap()
}

/// The false positives of a filter among absent keys, and those expected from its fill.
fn false_positives<P: Part>(filter: &LayeredFilter<P, impl Growth>, absent: &[KeyHash]) -> (f64, f64) {
    let mut matches = MatchBitmap::default();
    filter.contains_batch(absent, &mut matches);
    let single = absent.iter().filter(|&&hash| filter.contains(hash)).count();
    assert_eq!(single as u64, matches.count(), "batches answer as single calls do");
    (single as f64, filter.health().expected_fpr * absent.len() as f64)
}

/// Grows a filter from `first` keys to `times` as many, and checks its rate on the way. Returns bits per key at the
/// end.
fn grow<P: Part>(first: u32, times: u32, planned: f64) -> f64 {
    let all = keys(1, first * times);
    let absent = keys(2, 400_000);
    let mut filter = ScalableBloom::<P>::new(HashIdentity::default(), first.into(), rate(planned)).unwrap();
    for (at, &hash) in (1..).zip(&all) {
        filter.insert(hash).unwrap();
        if at == all.len() || at % (all.len() / 3) == 0 {
            let (found, expected) = false_positives(&filter, &absent);
            let sigma = expected.sqrt();
            assert!((found - expected).abs() < 4.0 * sigma, "{at} keys: {found}, expected {expected}");
            let most = planned * absent.len() as f64;
            assert!(found < most + 4.0 * most.sqrt(), "{at} keys: {found} of at most {most}");
        }
    }
    assert!(all.iter().all(|&hash| filter.contains(hash)));
    let health = filter.health();
    // But for those that were false positives when they came.
    assert!(health.keys as f64 > all.len() as f64 * (1.0 - planned), "{health:?}");
    health.bytes as f64 * 8.0 / all.len() as f64
}

#[test]
fn a_scalable_filter_keeps_its_rate_at_a_hundred_times_its_first_size() {
    for planned in [0.05, 0.01, 0.001] {
        let bits = grow::<StandardBloom>(2_000, 100, planned);
        let alone =
            StandardBloom::for_rate(HashIdentity::default(), 200_000, rate(planned)).unwrap().bits() as f64 / 2e5;
        println!("{planned}: {bits:.2} bits per key, {alone:.2} if planned for all: {:.2} times", bits / alone);
        assert!(bits < 2.5 * alone);
    }
    for planned in [0.2, 0.05] {
        println!("register-blocked, {planned}: {:.2} bits per key", grow::<RegisterBlockedBloom>(2_000, 100, planned));
    }
}

// promise: no-false-negatives
#[test]
fn a_batch_finds_the_keys_of_each_of_twelve_parts() {
    let all = keys(1, 100 << 12);
    let mut filter = <ScalableBloom>::new(HashIdentity::default(), 100, rate(0.1)).unwrap();
    for &hash in &all {
        filter.insert(hash).unwrap();
        // The first key of a part among them.
        assert!(filter.contains(hash));
    }
    assert!(filter.health().parts >= 12, "{:?}", filter.health());
    let mut matches = MatchBitmap::default();
    for chunk in all.chunks(10_000) {
        filter.contains_batch(chunk, &mut matches);
        assert_eq!(matches.count(), chunk.len() as u64);
        assert!(chunk.iter().all(|&hash| filter.contains(hash)));
    }
}

#[test]
fn a_rotating_filter_contains_its_window_and_forgets_what_is_older() {
    for (generations, planned) in [(2, 0.01), (5, 0.01), (2, 0.2)] {
        rotate::<StandardBloom>(generations, planned);
    }
    rotate::<RegisterBlockedBloom>(2, 0.05);
}

fn rotate<P: Part>(generations: u16, planned: f64) {
    let per_generation = 5_000;
    let stream = keys(3, per_generation * u32::from(generations) * 4);
    let mut filter =
        RotatingBloom::<P>::new(HashIdentity::default(), per_generation.into(), generations, rate(planned)).unwrap();
    let window = per_generation as usize * usize::from(generations - 1);
    for (at, &hash) in stream.iter().enumerate() {
        if filter.is_full() {
            filter.rotate();
        }
        filter.insert(hash);
        if at % 1_009 == 0 {
            let recent = &stream[(at + 1).saturating_sub(window)..=at];
            assert!(recent.iter().all(|&hash| filter.contains(hash)), "{generations} generations at {at}");
        }
    }
    let old = &stream[..per_generation as usize * usize::from(generations) * 2];
    let (found, expected) = false_positives(&filter, old);
    assert!((found - expected).abs() < 4.0 * expected.sqrt(), "{found}, expected {expected}");
    assert!(filter.health().expected_fpr <= planned);
    (0..generations).for_each(|_| filter.rotate());
    assert_eq!((filter.health().keys, filter.contains(stream[0])), (0, false));
}

/// A change to a filter that forgets, and to the keys that it must contain.
#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Rotate,
    Store,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(500, 10_000)))]

    // promise: no-false-negatives
    #[test]
    fn no_key_of_the_window_is_denied_whatever_comes(
        generations in 2..5_u16, per_generation in 1..20_u64, is_by_number in any::<bool>(),
        steps in prop::collection::vec(prop_oneof![
            20 => (0..60_u64).prop_map(Step::Insert), 1 => Just(Step::Rotate), 1 => Just(Step::Store),
        ], 0..300),
    ) {
        let hasher = KeyHasher::default();
        let mut filter =
            <RotatingBloom>::new(hasher.identity(), per_generation, generations, rate(0.1)).unwrap();
        // For each key, the rotations before its last insert.
        let mut last: HashMap<u64, u64> = HashMap::new();
        let mut rotations = 0;
        for step in steps {
            match step {
                Step::Insert(key) => {
                    if is_by_number && filter.is_full() {
                        filter.rotate();
                        rotations += 1;
                    }
                    filter.insert(KeyHash::mix(key));
                    last.insert(key, rotations);
                }
                Step::Rotate => {
                    filter.rotate();
                    rotations += 1;
                }
                Step::Store => {
                    filter = RotatingBloom::from_bytes(filter.to_bytes().unwrap(), &hasher).unwrap();
                }
            }
            for (&key, &rotation) in &last {
                let is_held = rotations - rotation < u64::from(generations);
                prop_assert!(!is_held || filter.contains(KeyHash::mix(key)));
            }
        }
    }

    // promise: no-false-negatives
    #[test]
    fn no_key_of_a_scalable_filter_is_denied(
        first in 1..40_u64, inserts in prop::collection::vec(0..2_000_u64, 0..600), stored in 0..600_usize,
    ) {
        let hasher = KeyHasher::default();
        let mut filter = <ScalableBloom>::new(hasher.identity(), first, rate(0.05)).unwrap();
        let mut exact = HashSet::new();
        for (at, key) in inserts.into_iter().enumerate() {
            let is_new = filter.insert(KeyHash::mix(key)).unwrap();
            prop_assert!(exact.insert(key) || !is_new, "a key that was in is not new");
            if at == stored {
                filter = ScalableBloom::from_bytes(filter.to_bytes().unwrap(), &hasher).unwrap();
            }
            prop_assert!(filter.contains(KeyHash::mix(key)));
        }
        prop_assert!(exact.iter().all(|&key| filter.contains(KeyHash::mix(key))));
    }
}

fn block(policy: &FixedPolicy, context: &BuildContext, hashes: &[KeyHash]) -> bytes::Bytes {
    let mut builder = policy.builder(context);
    builder.add_hashes(hashes);
    builder.finish().block.unwrap()
}

// promise: no-false-negatives
#[test]
fn late_keys_are_found_over_every_kind_and_the_rates_add_up() {
    let (hasher, file) = (KeyHasher::default(), FileId::random());
    let context = BuildContext::new(&hasher).with_file_id(file);
    let load = LoadContext::new(&hasher).with_file_id(file);
    let (own, late, absent) = (keys(1, 20_000), keys(2, 2_000), keys(3, 300_000));
    for entry in kind::all() {
        let policy = entry.configure(Sizing::Rate(rate(1.0 / 256.0))).unwrap();
        let mut filter = <LateKeys>::over(block(&policy, &context, &own), load, 1_000, rate(0.01)).unwrap();
        assert_eq!(filter.late_share(), 0.0);
        late[..900].iter().for_each(|&hash| _ = filter.insert(hash));
        assert!(!filter.is_due() && !filter.insert(own[0]) && !filter.insert(late[0]));
        let (found, expected) = false_positives(&filter, &absent);
        assert!(
            (found - expected).abs() < 4.0 * expected.sqrt() + 0.01 * expected,
            "{}: {found}, {expected}",
            entry.name
        );
        let mut restored = <LateKeys>::from_bytes(filter.to_bytes().unwrap(), load).unwrap();
        late.iter().for_each(|&hash| _ = restored.insert(hash));
        assert!(restored.is_due() && (0.09..0.1).contains(&restored.late_share()), "{}", restored.late_share());
        assert!(own.iter().chain(&late).all(|&hash| restored.contains(hash)), "{}", entry.name);
        let rebuilt = restored.rebuilt(&policy, &context, load, &[own.clone(), late.clone()].concat()).unwrap();
        assert!(own.iter().chain(&late).all(|&hash| rebuilt.contains(hash)) && rebuilt.late_share() == 0.0);
        assert!(<LateKeys>::from_bytes(rebuilt.to_bytes().unwrap(), load).is_ok());
    }
}

/// Stored filters of all types, each with a function that loads one, inserts a key, and returns its bytes.
type Loader = fn(bytes::Bytes, &KeyHasher) -> Result<u64, FilterError>;

fn stored() -> Vec<(bytes::Bytes, Loader)> {
    let (hasher, hashes) = (KeyHasher::default(), keys(5, 40));
    let mut scalable = <ScalableBloom>::new(hasher.identity(), 10, rate(0.1)).unwrap();
    let mut rotating = RotatingBloom::<RegisterBlockedBloom>::new(hasher.identity(), 10, 3, rate(0.1)).unwrap();
    let built = block(&FixedPolicy::default(), &BuildContext::new(&hasher), &hashes);
    let mut late = <LateKeys>::over(built, &hasher, 10, rate(0.1)).unwrap();
    for &hash in &hashes {
        scalable.insert(hash).unwrap();
        rotating.insert(hash);
        late.insert(KeyHash::mix(hash.get()));
    }
    vec![
        (scalable.to_bytes().unwrap(), |bytes, hasher| {
            let mut filter = <ScalableBloom>::from_bytes(bytes, hasher)?;
            let _ = filter.insert(KeyHash::mix(7));
            Ok(filter.health().bytes)
        }),
        (rotating.to_bytes().unwrap(), |bytes, hasher| {
            let mut filter = RotatingBloom::<RegisterBlockedBloom>::from_bytes(bytes, hasher)?;
            filter.insert(KeyHash::mix(7));
            Ok(filter.health().bytes)
        }),
        (late.to_bytes().unwrap(), |bytes, hasher| {
            let mut filter = <LateKeys>::from_bytes(bytes, hasher)?;
            filter.insert(KeyHash::mix(7));
            Ok(filter.health().bytes)
        }),
    ]
}

/// Seals changed bytes of an unbound filter again: both checksums hold, if the length of the index does.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let ending = bytes.len() - 32;
    let index_bytes = u32::from_le_bytes(bytes[ending + 8..ending + 12].try_into().unwrap());
    let Some(index) = ending.checked_sub(index_bytes as usize) else { return bytes };
    let of_blocks = crc32c::crc32c(&bytes[..index]);
    bytes[ending + 12..ending + 16].copy_from_slice(&of_blocks.to_le_bytes());
    let of_tail = crc32c::crc32c(&bytes[index..ending + 28]);
    bytes[ending + 28..].copy_from_slice(&of_tail.to_le_bytes());
    bytes
}

/// Changes fields of the ending and the index, with checksums that hold. A filter that loads takes a key, and is at most
/// three times as large then: its next part is at most twice the newest, rounded up.
#[test]
fn forged_layers_cause_no_panic_and_no_allocation() {
    let hasher = KeyHasher::default();
    for (bytes, load) in stored() {
        for at in bytes.len() - 32 - 56..bytes.len() - 4 {
            for value in [0, 1, 2, 3, 0x7f, 0x80, 0xff] {
                let mut forged = bytes.to_vec();
                forged[at] = value;
                let size = load(sealed(forged).into(), &hasher).unwrap_or(0);
                assert!(size <= 3 * bytes.len() as u64 + 256, "{size} of {} bytes, {value} at {at}", bytes.len());
            }
        }
    }
}

#[test]
fn a_generation_takes_more_keys_than_planned_and_says_that_it_is_full() {
    let mut filter = <RotatingBloom>::new(HashIdentity::default(), 10, 2, rate(1e-9)).unwrap();
    let keys = keys(6, 40);
    for hash in &keys[..30] {
        assert_eq!(filter.is_full(), filter.health().keys >= 10);
        assert!(filter.insert(*hash));
    }
    assert!(filter.health().expected_fpr > 1e-9, "more than planned");
    filter.rotate();
    assert!(!filter.is_full() && keys[..30].iter().all(|&hash| filter.contains(hash)));
    assert!(!filter.insert(keys[0]), "it is in the generation before");
    filter.rotate();
    assert!(filter.contains(keys[0]) && !filter.contains(keys[1]), "one came once more");
}

#[test]
fn late_keys_are_whole_keys_like_those_of_their_base() {
    let (hasher, parts) = (KeyHasher::default(), KeyParts::extracted(Arc::new(DelimitedPrefix::new(b'/'))));
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_key_parts(parts.clone()));
    (0..100).for_each(|key| builder.add_key(format!("{key}/x").as_bytes()));
    let context = LoadContext::new(&hasher).with_key_parts(&parts);
    let refused = <LateKeys>::over(builder.finish().block.unwrap(), context, 10, rate(0.01));
    assert!(matches!(refused, Err(FilterError::Block(BlockError::ExtractorMismatch { .. }))), "{refused:?}");
}

#[test]
fn known_keys_are_looked_for_in_all_parts() {
    let hasher = KeyHasher::default();
    let (apple, plum): (&[u8], &[u8]) = (b"apple", b"plum");
    let built = block(&FixedPolicy::default(), &BuildContext::new(&hasher), &[hasher.hash(apple)]);
    let mut late = <LateKeys>::over(built, &hasher, 10, rate(0.01)).unwrap();
    late.insert(hasher.hash(plum));
    let bytes = late.to_bytes().unwrap();
    assert!(<LateKeys>::from_bytes(bytes.clone(), LoadContext::new(&hasher).with_known_keys(&[apple, plum])).is_ok());
    let refused = <LateKeys>::from_bytes(bytes.clone(), LoadContext::new(&hasher).with_known_keys(&[b"quince"]));
    assert!(matches!(refused, Err(FilterError::Block(BlockError::KnownKeyAbsent { .. }))), "{refused:?}");
    let unhashed = <LateKeys>::from_bytes(bytes, LoadContext::from(hasher.identity()).with_known_keys(&[apple]));
    assert!(matches!(unhashed, Err(FilterError::Block(BlockError::Unreadable { .. }))), "{unhashed:?}");
}

#[test]
fn absurd_options_are_refused() {
    let hash = HashIdentity::default();
    for generations in [0, 1, 65] {
        assert!(matches!(<RotatingBloom>::new(hash, 10, generations, rate(0.1)), Err(FilterError::Config(_))));
    }
    assert!(matches!(<ScalableBloom>::new(hash, u64::MAX, rate(0.1)), Err(FilterError::TooLarge { .. })));
    assert!(ScalableBloom::<RegisterBlockedBloom>::new(hash, 1_000, rate(1e-9)).is_err());
}

/// The bytes of a filter of `parts` with another number: 0 its rate, 1 the planned keys, 2 the inserted ones.
fn with_number(bytes: &[u8], parts: usize, which: usize, number: u64) -> Vec<u8> {
    let (mut bytes, ending) = (bytes.to_vec(), bytes.len() - 32);
    if which == 2 {
        bytes[ending + 16..ending + 21].copy_from_slice(&number.to_le_bytes()[..5]);
    } else {
        let at = ending - 8 * (2 + parts) + 8 * which;
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    sealed(bytes)
}

#[test]
fn a_scalable_filter_grows_by_what_its_parts_explain_and_not_by_what_a_container_claims() {
    let hasher = KeyHasher::default();
    let mut filter = <ScalableBloom>::new(hasher.identity(), 1_000, rate(0.1)).unwrap();
    keys(9, 3_500).into_iter().for_each(|hash| _ = filter.insert(hash).unwrap());
    let bytes = filter.to_bytes().unwrap();
    // The last of the three sizes, of a part for 4,000 keys.
    let newest = u64::from_le_bytes(bytes[bytes.len() - 40..bytes.len() - 32].try_into().unwrap());
    for (planned, is_sound) in [(500, true), (1_000, true), (1_010, false), (newest, false), (u64::MAX, false)] {
        let loaded = <ScalableBloom>::from_bytes(with_number(&bytes, 3, 1, planned), &hasher);
        assert_eq!(loaded.is_ok(), is_sound, "{planned} keys beside {newest} bytes: {loaded:?}");
    }
    for (rate, is_sound) in [(0.2, true), (0.1, true), (0.098, false), (1e-16, false)] {
        let loaded = <ScalableBloom>::from_bytes(with_number(&bytes, 3, 0, f64::to_bits(rate)), &hasher);
        assert_eq!(loaded.is_ok(), is_sound, "{rate}: {loaded:?}");
    }
}

#[test]
fn a_container_that_plans_for_no_keys_is_refused_and_one_that_claims_all_is_not_counted_beyond() {
    let hasher = KeyHasher::default();
    let filter = <RotatingBloom>::new(hasher.identity(), 4_000, 2, rate(0.1)).unwrap();
    let stored = filter.to_bytes().unwrap();
    let forged =
        |which: usize, number: u64| <RotatingBloom>::from_bytes(with_number(&stored, 2, which, number), &hasher);
    assert!(matches!(forged(1, 0), Err(FilterError::Block(BlockError::Field { .. }))));
    // Never full, and full for good: neither number may overflow.
    let mut never = forged(1, u64::MAX).unwrap();
    let mut full = forged(2, u64::MAX).unwrap();
    for hash in keys(7, 100) {
        assert!(never.insert(hash) || never.contains(hash));
        full.insert(hash);
        assert!(full.contains(hash));
    }
    let both = with_number(&with_number(&stored, 2, 1, u64::MAX), 2, 2, u64::MAX - 1);
    let mut both = <RotatingBloom>::from_bytes(both, &hasher).unwrap();
    keys(8, 10).into_iter().for_each(|hash| _ = both.insert(hash));
    assert!(keys(8, 10).into_iter().all(|hash| both.contains(hash)));
}
