//! Misuses that MISUSE.md lists, and their consequences. The failure guarded against: the page states a wrong
//! consequence.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, CountingBloom, DynamicFilter, FalsePositiveRate, FileId, FilterBlock,
    Filters, FixedPolicy, FixedPrefix, KeyHash, KeyHasher, KeyParts, LoadContext, Probe, StandardBloom, kind,
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

/// The number of present keys that a reader of `filter` with `hasher` loses.
fn lost(filter: &FilterBlock<Bytes>, hasher: &KeyHasher) -> usize {
    (0..KEYS).filter(|&number| !filter.may_contain(hasher.hash(&key(number)))).count()
}

fn custom(seed: u64) -> KeyHasher {
    KeyHasher::custom(1, move |key| KeyHasher::with_seed(seed).hash(key))
}

// promise: documented-use
// misuse: changed-hash
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
// misuse: foreign-hash
#[test]
fn hashes_of_another_hasher_than_the_filters_are_not_recognised() {
    let (own, other) = (KeyHasher::with_seed(1), KeyHasher::with_seed(2));
    let filter = FilterBlock::load(block_of(&own, None), &own).unwrap();
    assert_eq!(lost(&filter, &own), 0);
    assert!(lost(&filter, &other) > 950);
    // Loading with the other hasher fails: a store has one hasher, and loads with it.
    assert!(FilterBlock::load(block_of(&own, None), &other).is_err());
}

// promise: documented-use
// misuse: spelling
#[test]
fn keys_that_are_equal_to_the_engine_and_not_byte_for_byte_are_lost() {
    // An engine that ignores case in comparisons, but hashes keys unchanged.
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
// misuse: internal-keys
#[test]
fn internal_keys_written_and_user_keys_read_are_found_out_by_known_keys() {
    // The writer hashes keys with a sequence number appended, the reader without.
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
// misuse: prefix-as-key
#[test]
fn a_prefix_asked_of_a_filter_of_whole_keys_is_lost() {
    let hasher = KeyHasher::default();
    let filter = FilterBlock::load(block_of(&hasher, None), &hasher).unwrap();
    let prefixes = (0..KEYS).step_by(256).map(|number| hasher.hash(&key(number)[..3]));
    assert!(prefixes.filter(|&prefix| !filter.may_contain(prefix)).count() >= 3);
}

// promise: documented-use
// misuse: reused-id
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
// misuse: unbound-block
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
// misuse: unverified
#[test]
fn bytes_opened_without_verifying_answer_from_their_damage() {
    let hasher = KeyHasher::default();
    let mut damaged = block_of(&hasher, None).to_vec();
    damaged[..512].fill(0);
    let believed = FilterBlock::open_unverified(Bytes::from(damaged.clone())).unwrap();
    assert!(lost(&believed, &hasher) > 100);
    assert!(believed.verify().is_err() && FilterBlock::load(damaged, &hasher).is_err());
}

/// Returns how many of 300 evenly spread bits of the payload lose a key if they are flipped and the block is probed
/// unverified, and the most keys that one of them loses.
fn flips_that_lose_keys(policy: &FixedPolicy) -> (u32, usize) {
    let (hasher, identity) = (KeyHasher::default(), KeyHasher::default().identity());
    let mut builder = policy.builder(&BuildContext::new(&hasher));
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    let mut block = builder.finish().block.unwrap().to_vec();
    let hashes: Vec<KeyHash> = (0..KEYS).map(|number| hasher.hash(&key(number))).collect();
    let bits = usize::try_from(FilterBlock::open_unverified(&block).unwrap().info().payload_bytes).unwrap() * 8;
    let (mut flips, mut most) = (0, 0);
    for flip in 0..300 {
        let bit = flip * bits / 300 + flip % 8;
        block[bit / 8] ^= 1 << (bit % 8);
        let is_absent = |hash: &&KeyHash| FilterBlock::probe_unverified(&block, identity, **hash) == Ok(false);
        let lost = hashes.iter().filter(is_absent).count();
        (flips, most) = (flips + u32::from(lost > 0), most.max(lost));
        let some = hashes.iter().step_by(199);
        assert!(some.copied().all(|hash| FilterBlock::probe(&block, identity, hash) == Probe::Unusable), "bit {bit}");
        block[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(hashes.iter().all(|&hash| FilterBlock::probe(&block, identity, hash) == Probe::MaybePresent));
    (flips, most)
}

// promise: damage
// misuse: unverified
#[test]
fn a_flipped_bit_loses_keys_by_an_unverified_probe_in_so_many_cases_and_never_by_a_verified_one() {
    // As in the documentation of `FilterBlock::probe_unverified`.
    let documented = [
        ("bloom", (128, 4)),
        ("ribbon", (300, 45)),
        ("standard-bloom", (157, 4)),
        ("counting-bloom", (39, 4)),
        ("register-blocked-bloom", (69, 3)),
        ("cuckoo", (274, 1)),
        ("xor", (275, 9)),
        ("xor+", (282, 554)),
        ("binary-fuse", (248, 10)),
        ("binary-fuse-4", (275, 9)),
        ("line-ribbon", (283, 41)),
    ];
    let measured = kind::all().iter().map(|entry| {
        let policy = entry.configure(FalsePositiveRate::ONE_PERCENT).unwrap().with_min_keys(0);
        (entry.name, flips_that_lose_keys(&policy))
    });
    assert_eq!(measured.collect::<Vec<_>>(), documented);
}

// promise: documented-use
// misuse: caught-panic
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
// misuse: older-block
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

/// A policy stores a key once, however often it was added; counters do not record their keys.
// promise: documented-use
// misuse: removed-twice
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

/// The store's filters, with `hash_seed` and these parts of keys, and the block of `file` by them.
fn written(hash_seed: u64, parts: KeyParts, file: FileId) -> (Filters, Bytes) {
    let filters = Filters::default().with_hasher(KeyHasher::with_seed(hash_seed)).with_key_parts(parts);
    let mut builder = filters.builder(file);
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    (filters, builder.finish().block.unwrap())
}

// promise: documented-use
// misuse: unnamed-part
#[test]
fn a_prefix_is_present_in_a_filter_without_its_part_and_in_a_store_without_extractor() {
    let file = FileId::random();
    let with_prefixes = || KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(3)));
    let (without, of_keys) = written(1, KeyParts::whole_keys(), file);
    let (with, of_both) = written(1, with_prefixes(), file);
    for filter in [with.load(Some(of_keys), file), without.load(Some(of_both), file)] {
        assert!(filter.problem().is_none());
        assert!((0..KEYS).all(|number| !filter.probe_prefix(&key(number)[..3]).is_absent()));
        assert!(!filter.probe_prefix(b"\xff\xff\xff").is_absent(), "it has no such part");
    }
}

// promise: documented-use
// misuse: outside-domain
#[test]
fn a_key_that_the_extractor_leaves_out_is_present_in_a_filter_of_parts_alone() {
    let file = FileId::random();
    let filters = Filters::default().with_key_parts(KeyParts::extracted(Arc::new(FixedPrefix::new(4))));
    let mut builder = filters.builder(file);
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    builder.add_key(b"abc");
    let filter = filters.load(builder.finish().block, file);
    assert!(filter.problem().is_none());
    assert!(filter.probe(&key(KEYS)).is_absent(), "it has no such part");
    assert_eq!(filter.probe(b"abc"), Probe::MaybePresent);
    assert_eq!(filter.probe_hash(filters.hash(b"abc")), Probe::Unusable);
}
