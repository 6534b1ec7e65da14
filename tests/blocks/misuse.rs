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

fn keys(first: u32) -> Vec<Vec<u8>> {
    (first..first + KEYS).map(|number| key(number).to_vec()).collect()
}

/// The block of some keys, written by `hasher`.
fn block_of(hasher: &KeyHasher, bound_to: Option<FileId>, keys: &[Vec<u8>]) -> Bytes {
    let context = BuildContext::new(hasher);
    let context = bound_to.map_or(context.clone(), |file| context.with_file_id(file));
    let mut builder = FixedPolicy::default().builder(&context);
    keys.iter().for_each(|key| builder.add_key(key));
    builder.finish().block.unwrap()
}

/// The number of keys that a reader of `filter` with `hasher` loses.
fn lost(filter: &FilterBlock<Bytes>, hasher: &KeyHasher, keys: &[Vec<u8>]) -> usize {
    keys.iter().filter(|key| !filter.may_contain(hasher.hash(key))).count()
}

fn custom(seed: u64) -> KeyHasher {
    KeyHasher::custom(1, move |key| KeyHasher::with_seed(seed).hash(key))
}

// promise: documented-use
// misuse: changed-hash
// misuse: internal-keys
// misuse: reused-id
// misuse: unbound-block
#[test]
fn a_block_of_other_keys_or_of_a_changed_hash_is_believed_unless_known_keys_are_given() {
    let (usual, id) = (KeyHasher::default(), FileId::new(&7_u64.to_le_bytes()).unwrap());
    // The writer hashes keys with a sequence number appended, the reader without.
    let internal: Vec<Vec<u8>> = keys(0).iter().map(|key| [&key[..], &[0; 8]].concat()).collect();
    let mistakes = [
        ("a custom hash changes under its tag", block_of(&custom(1), None, &keys(0)), custom(2), None, keys(0)),
        ("internal keys are added", block_of(&usual, None, &internal), usual.clone(), None, keys(0)),
        ("a file id is used again", block_of(&usual, Some(id), &keys(0)), usual.clone(), Some(id), keys(KEYS)),
        ("a block of another file is unbound", block_of(&usual, None, &keys(0)), usual, None, keys(KEYS)),
    ];
    for (what, block, hasher, file, own) in mistakes {
        let context = LoadContext::new(&hasher);
        let context = file.map_or(context, |file| context.with_file_id(file));
        let believed = FilterBlock::load(block.clone(), context).unwrap();
        assert!(lost(&believed, &hasher, &own) > 950, "{what}");
        let known = [&own[0][..], &own[own.len() - 1]];
        let refused = FilterBlock::load(block, context.with_known_keys(&known)).unwrap_err();
        assert!(matches!(refused, BlockError::KnownKeyAbsent { .. }), "{what}: {refused}");
    }
}

// promise: documented-use
// misuse: foreign-hash
#[test]
fn hashes_of_another_hasher_than_the_filters_are_not_recognised() {
    let (own, other) = (KeyHasher::with_seed(1), KeyHasher::with_seed(2));
    let filter = FilterBlock::load(block_of(&own, None, &keys(0)), &own).unwrap();
    assert_eq!(lost(&filter, &own, &keys(0)), 0);
    assert!(lost(&filter, &other, &keys(0)) > 950);
    // Loading with the other hasher fails: a store has one hasher, and loads with it.
    assert!(FilterBlock::load(block_of(&own, None, &keys(0)), &other).is_err());
}

// promise: documented-use
// misuse: spelling
#[test]
fn keys_that_are_equal_to_the_engine_and_not_byte_for_byte_are_lost() {
    // An engine that ignores case in comparisons, but hashes keys unchanged.
    let hasher = KeyHasher::default();
    let spelled = |name: &str| (0..KEYS).map(|number| format!("{name}-{number}").into_bytes()).collect::<Vec<_>>();
    let filter = FilterBlock::load(block_of(&hasher, None, &spelled("Name")), &hasher).unwrap();
    assert_eq!(lost(&filter, &hasher, &spelled("Name")), 0);
    assert!(lost(&filter, &hasher, &spelled("name")) > 950);
}

// promise: documented-use
// misuse: prefix-as-key
#[test]
fn a_prefix_asked_of_a_filter_of_whole_keys_is_lost() {
    let hasher = KeyHasher::default();
    let filter = FilterBlock::load(block_of(&hasher, None, &keys(0)), &hasher).unwrap();
    let prefixes = (0..KEYS).step_by(256).map(|number| hasher.hash(&key(number)[..3]));
    assert!(prefixes.filter(|&prefix| !filter.may_contain(prefix)).count() >= 3);
}

// promise: documented-use
// misuse: unverified
#[test]
fn bytes_opened_without_verifying_answer_from_their_damage() {
    let hasher = KeyHasher::default();
    let mut damaged = block_of(&hasher, None, &keys(0)).to_vec();
    damaged[..512].fill(0);
    let believed = FilterBlock::open_unverified(Bytes::from(damaged.clone())).unwrap();
    assert!(lost(&believed, &hasher, &keys(0)) > 100);
    assert!(believed.verify().is_err() && FilterBlock::load(damaged, &hasher).is_err());
}

/// Returns how many of 300 evenly spread bits of the payload lose a key if they are flipped and the block is probed
/// unverified, and the most keys that one of them loses.
fn flips_that_lose_keys(policy: &FixedPolicy) -> (u32, usize) {
    let (hasher, identity) = (KeyHasher::default(), KeyHasher::default().identity());
    let hashes: Vec<KeyHash> = keys(0).iter().map(|key| hasher.hash(key)).collect();
    let mut block = crate::common::build(policy, &hashes).block.unwrap().to_vec();
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
    assert_eq!(lost(&filter, &hasher, &keys(0)), 1);
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
    assert!(lost(&FilterBlock::load(older, context).unwrap(), &hasher, &keys(0)) > 450);
}

/// A policy stores a key once, however often it was added; counters do not record their keys.
// promise: documented-use
// misuse: removed-twice
#[test]
fn keys_of_a_block_that_a_policy_built_are_removed_once() {
    let hasher = KeyHasher::default();
    let hashes: Vec<KeyHash> = keys(0).iter().map(|key| hasher.hash(key)).collect();
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
