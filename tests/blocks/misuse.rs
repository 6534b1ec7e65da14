//! Each misuse that MISUSE.md lists, and its consequence. The failure guarded against: a page that promises or warns of
//! something untrue.

use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, CountingBloom, DynamicFilter, FalsePositiveRate, FileId, FilterBlock,
    Filters, FixedPolicy, KeyHash, KeyHasher, LoadContext, StandardBloom,
};

const KEYS: u32 = 1_000;

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// The block of the first keys, written by `hasher`.
fn block_of(hasher: &KeyHasher, bound_to: Option<FileId>) -> Bytes {
    let context = BuildContext::new(hasher);
    let context = bound_to.map_or(context.clone(), |file| context.with_file_id(file));
    let mut builder = FixedPolicy::default().builder(&context);
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    builder.finish().block.unwrap()
}

/// How many of the keys that are there `filter` loses to a reader that hashes with `hasher`.
fn lost(filter: &FilterBlock<Bytes>, hasher: &KeyHasher) -> usize {
    (0..KEYS).filter(|&number| !filter.may_contain(hasher.hash(&key(number)))).count()
}

fn custom(seed: u64) -> KeyHasher {
    KeyHasher::custom(1, move |key| KeyHasher::with_seed(seed).hash(key))
}

// promise: documented-use
#[test]
fn a_custom_hash_changed_under_its_tag_loses_keys_unless_known_ones_are_given() {
    let (before, after) = (custom(1), custom(2));
    let block = block_of(&before, None);
    let believed = FilterBlock::load(block.clone(), &after).unwrap();
    assert!(lost(&believed, &after) > 950);
    let (first, last) = (key(0), key(KEYS - 1));
    let known = [&first[..], &last];
    let refused = FilterBlock::load(block, LoadContext::new(&after).with_known_keys(&known)).unwrap_err();
    assert!(matches!(refused, BlockError::KnownKeyAbsent { .. }));
}

// promise: documented-use
#[test]
fn hashes_of_another_hasher_than_the_filters_are_not_recognised() {
    let (own, other) = (KeyHasher::with_seed(1), KeyHasher::with_seed(2));
    let filter = FilterBlock::load(block_of(&own, None), &own).unwrap();
    assert_eq!(lost(&filter, &own), 0);
    assert!(lost(&filter, &other) > 950);
    // Loading for the other one is refused: a store has one hasher, and loads with it.
    assert!(FilterBlock::load(block_of(&own, None), &other).is_err());
}

// promise: documented-use
#[test]
fn keys_that_are_equal_to_the_engine_and_not_byte_for_byte_are_lost() {
    // An engine that compares without case, and hashes what it was given.
    let hasher = KeyHasher::default();
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
    let names: Vec<String> = (0..KEYS).map(|number| format!("Name-{number}")).collect();
    names.iter().for_each(|name| builder.add_key(name.as_bytes()));
    let filter = FilterBlock::load(builder.finish().block.unwrap(), &hasher).unwrap();
    let lost = |canonical: fn(&String) -> String| {
        names.iter().filter(|name| !filter.may_contain(hasher.hash(canonical(name).as_bytes()))).count()
    };
    assert_eq!((lost(String::clone), lost(|name| name.to_lowercase()) > 950), (0, true));
}

// promise: documented-use
#[test]
fn internal_keys_written_and_user_keys_read_are_found_out_by_known_keys() {
    // The writer hashes the key with its sequence number behind it, the reader without.
    let hasher = KeyHasher::default();
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
    (0..KEYS).for_each(|number| builder.add_key(&[&key(number)[..], &u64::from(number).to_le_bytes()].concat()));
    let block = builder.finish().block.unwrap();
    assert!(lost(&FilterBlock::load(block.clone(), &hasher).unwrap(), &hasher) > 950);
    let (first, last) = (key(0), key(KEYS - 1));
    let known = [&first[..], &last];
    assert!(FilterBlock::load(block, LoadContext::new(&hasher).with_known_keys(&known)).is_err());
}

// promise: documented-use
#[test]
fn a_prefix_asked_of_a_filter_of_whole_keys_is_lost() {
    let hasher = KeyHasher::default();
    let filter = FilterBlock::load(block_of(&hasher, None), &hasher).unwrap();
    let prefixes = (0..KEYS).step_by(256).map(|number| hasher.hash(&key(number)[..3]));
    assert!(prefixes.filter(|&prefix| !filter.may_contain(prefix)).count() >= 3);
}

// promise: documented-use
#[test]
fn a_file_id_used_again_makes_a_stale_block_believed() {
    let hasher = KeyHasher::default();
    let id = FileId::new(&7_u64.to_le_bytes()).unwrap();
    let stale = block_of(&hasher, Some(id));
    let context = LoadContext::new(&hasher).with_file_id(id);
    let believed = FilterBlock::load(stale.clone(), context).unwrap();
    // The file of this number now has other keys.
    let now: Vec<[u8; 4]> = (KEYS..2 * KEYS).map(key).collect();
    assert!(now.iter().filter(|now| !believed.may_contain(hasher.hash(&now[..]))).count() > 950);
    let known = [&now[0][..], &now[1]];
    assert!(FilterBlock::load(stale, context.with_known_keys(&known)).is_err(), "known keys find most of them");
}

// promise: documented-use
#[test]
fn an_unbound_block_of_another_file_is_believed_but_for_known_keys() {
    let hasher = KeyHasher::default();
    let other = block_of(&hasher, None);
    let own: Vec<[u8; 4]> = (KEYS..2 * KEYS).map(key).collect();
    let believed = Filters::default().reader(FilterBlock::load(other.clone(), &hasher));
    assert!(own.iter().filter(|own| believed.probe_hash(hasher.hash(&own[..])).is_absent()).count() > 950);
    let known = [&own[0][..], &own[1]];
    let found_out =
        Filters::default().reader(FilterBlock::load(other, LoadContext::new(&hasher).with_known_keys(&known)));
    assert!(found_out.block().is_err());
}

// promise: documented-use
#[test]
fn bytes_opened_without_verifying_answer_from_their_damage() {
    let hasher = KeyHasher::default();
    let mut damaged = block_of(&hasher, None).to_vec();
    damaged[..512].fill(0);
    let believed = FilterBlock::open_unverified(Bytes::from(damaged.clone())).unwrap();
    assert!(lost(&believed, &hasher) > 100);
    assert!(believed.verify().is_err() && FilterBlock::load(damaged, &hasher).is_err());
}

// promise: documented-use
#[test]
fn a_panic_before_a_hash_is_added_is_not_seen() {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let hasher = KeyHasher::custom(1, move |key| {
        assert_ne!(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed), 500, "as planned");
        KeyHasher::default().hash(key)
    });
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
    for number in 0..KEYS {
        let hash = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hasher.hash(&key(number))));
        hash.into_iter().for_each(|hash| builder.add_hash(hash));
    }
    let filter = FilterBlock::load(builder.finish().block.unwrap(), &hasher).unwrap();
    assert_eq!(lost(&filter, &hasher), 1);
}

// promise: documented-use
#[test]
fn an_older_block_of_a_filter_that_went_on_lacks_the_newer_keys() {
    let (hasher, id) = (KeyHasher::default(), FileId::new(&7_u64.to_le_bytes()).unwrap());
    let mut filter = StandardBloom::for_rate(hasher.identity(), KEYS.into(), FalsePositiveRate::ONE_PERCENT).unwrap();
    (0..KEYS / 2).for_each(|number| _ = filter.insert(hasher.hash(&key(number))));
    let older = FilterBlock::load(filter.to_block().unwrap(), &hasher).unwrap().bound_to(id);
    (KEYS / 2..KEYS).for_each(|number| _ = filter.insert(hasher.hash(&key(number))));
    let context = LoadContext::new(&hasher).with_file_id(id);
    assert!(lost(&FilterBlock::load(older, context).unwrap(), &hasher) > 450);
}

/// A policy stores a key once, however often it was added; counters do not know of whom they are.
// promise: documented-use
#[test]
fn keys_of_a_block_that_a_policy_built_are_removed_once() {
    let hasher = KeyHasher::default();
    let hashes: Vec<KeyHash> = (0..1_000_u32).map(|key| hasher.hash(&key.to_le_bytes())).collect();
    let mut builder = FixedPolicy::counting_bloom(BitsPerKey::TEN).unwrap().builder(&BuildContext::new(&hasher));
    hashes.iter().for_each(|&hash| (0..2).for_each(|_| builder.add_hash(hash)));
    let block = builder.finish().block.unwrap();
    let (removed, kept) = hashes.split_at(500);
    let lost_after = |times: usize| {
        let mut filter = CountingBloom::from_block(&block, &hasher).unwrap();
        for &hash in removed.iter().flat_map(|hash| std::iter::repeat_n(hash, times)) {
            let _ = filter.remove(hash);
        }
        kept.iter().filter(|&&hash| !filter.contains(hash)).count()
    };
    assert_eq!(lost_after(1), 0);
    assert!(lost_after(2) > 0, "the page says that they are lost");
}
