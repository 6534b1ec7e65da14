//! A sound block in the wrong place: a swapped sidecar, a misdirected or stale write, a reused file number. All its
//! checksums hold, and it answers "absent" for nearly every key of the other file. The failure guarded against: a
//! reader that accepts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::Bytes;
use sstfilter::{
    BlockBuilder, BlockError, BuildContext, BuildPurpose, DynamicFilter, FallbackReason, FileId, FilterBlock,
    FilterPolicy, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher, KindId, LoadContext, StandardBloom,
};

use crate::common;
use crate::common::policies::{Declining, building_policies as policies};

const KEYS: u32 = 1_000;

fn hashes(file: u64) -> Vec<KeyHash> {
    common::key_set(u32::try_from(file).unwrap(), KEYS).collect()
}

fn id(file: u64) -> FileId {
    FileId::new(&file.to_le_bytes()).unwrap()
}

/// The block of every policy for `file`, bound to it or not.
fn blocks(file: u64, bound: Option<FileId>) -> Vec<Bytes> {
    let context = BuildContext::new(&KeyHasher::default());
    let context = bound.map_or(context.clone(), |file| context.with_file_id(file));
    let built = |policy: Arc<dyn FilterPolicy>| {
        let built = common::build_in(policy.as_ref(), &context, &hashes(file));
        assert_eq!(built.report.block_bytes, built.block.as_ref().unwrap().len() as u64);
        built.block.unwrap()
    };
    policies().map(built).collect()
}

fn context(file: u64) -> LoadContext<'static> {
    LoadContext::from(KeyHasher::default().identity()).with_file_id(id(file))
}

#[test]
fn a_bound_block_is_8_bytes_longer_and_says_so_without_its_id() {
    for (policy, (bound, unbound)) in policies().zip(blocks(7, Some(id(7))).into_iter().zip(blocks(7, None))) {
        assert_eq!(bound.len(), unbound.len() + 8);
        let [bound, unbound] = [bound, unbound].map(|block| FilterBlock::open_unverified(block).unwrap());
        bound.verify().unwrap();
        let info = bound.info();
        assert_eq!((info.file, unbound.info().file), (Some(id(7)), None));
        assert_eq!(info.block_bytes, bound.as_bytes().len() as u64);
        assert_eq!(info.payload_checksum, unbound.info().payload_checksum);
        assert_eq!(bound.as_bytes(), &unbound.bound_to(id(7))[..], "bound when built, or afterwards");
        assert_eq!(bound.bound_to(id(8)), unbound.bound_to(id(8)), "an ingested file gets another number");
        let estimate = |context: &BuildContext| {
            let mut builder = policy.builder(context).unwrap();
            builder.add_hashes(&hashes(7));
            builder.estimated_bytes()
        };
        let context = BuildContext::new(&KeyHasher::default());
        assert_eq!(estimate(&context.clone().with_file_id(id(7))), estimate(&context) + 8, "{}", policy.name());
    }
}

#[test]
fn damage_that_a_block_has_stays_damage_when_it_is_bound() {
    let mut damaged = blocks(7, None)[0].to_vec();
    damaged[5] ^= 1;
    let bound = FilterBlock::open_unverified(damaged).unwrap().bound_to(id(7));
    assert!(matches!(FilterBlock::load(bound, context(7)), Err(BlockError::PayloadChecksum { .. })));
}

// promise: documented-use
// misuse: unchecked-binding
#[test]
fn a_block_without_a_known_key_is_not_used() {
    let hasher = KeyHasher::default();
    let keys = |from: u32| (from..from + KEYS).map(u32::to_le_bytes).collect::<Vec<_>>();
    let (own, other) = (keys(0), keys(KEYS));
    for policy in policies() {
        let mut builder = policy.builder(&BuildContext::new(&hasher)).unwrap();
        own.iter().for_each(|key| builder.add_key(key));
        let block = builder.finish().block.unwrap();
        let load = |known: &[&[u8]]| {
            FilterBlock::load(block.clone(), LoadContext::new(&hasher).with_known_keys(known)).map(drop)
        };
        assert_eq!(load(&[&own[0], &own[999]]), Ok(()));
        let refused = BlockError::KnownKeyAbsent { hash: hasher.identity() };
        // A single absent key may be a false positive; twenty never all are.
        let others: Vec<&[u8]> = other[..20].iter().map(|key| &key[..]).collect();
        assert_eq!(load(&others), Err(refused.clone()));
        // Every known key is checked, whatever its position. For this one, the filter is certainly negative.
        let absent = other.iter().find(|key| load(&[&key[..]]).is_err()).unwrap();
        assert_eq!(load(&[&own[0], &own[1], absent]), Err(refused.clone()));
        assert_eq!(load(&[absent, &own[0], &own[1]]), Err(refused));
    }
}

// misuse: damaged-block
#[test]
fn a_guarded_filter_of_an_unverified_block_is_verified() {
    for block in blocks(7, None) {
        let mut damaged = block.to_vec();
        damaged[3] ^= 1;
        let opened = FilterBlock::open_unverified(Bytes::from(damaged));
        let filter = Filters::default().reader(opened.clone());
        assert!(matches!(filter.block(), Err(BlockError::PayloadChecksum { .. })));
        let set = FilterSet::new(&Filters::default(), [Filters::default().reader(opened)]);
        assert!(set.problem(0).is_some());
        assert!(Filters::default().reader(FilterBlock::open_unverified(block)).block().is_ok());
    }
}

// promise: documented-use
#[test]
fn a_filter_that_is_restored_belongs_to_its_file() {
    let hasher = KeyHasher::default();
    let mut filter = StandardBloom::with_shape(hasher.identity(), 1_000, 7).unwrap();
    filter.insert_all(&hashes(7)[..50]);
    let block = FilterBlock::load(filter.to_block().unwrap(), &hasher).unwrap().bound_to(id(7));
    assert!(StandardBloom::from_block(&block, context(7)).is_ok());
    for wrong in [context(8), LoadContext::new(&hasher)] {
        assert!(StandardBloom::from_block(&block, wrong).is_err());
    }
}

/// Panics at its first call.
#[derive(Debug, Default)]
struct PanicsOnce(AtomicBool);

impl FilterPolicy for PanicsOnce {
    fn name(&self) -> &'static str {
        "panics-once"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        assert!(self.0.swap(true, Ordering::Relaxed), "as planned");
        Some(FixedPolicy::default().builder(context))
    }
}

/// It is called at the first key, which the filter then lacks.
// promise: documented-use
// misuse: panicking-hash
#[test]
fn a_panic_in_the_engines_policy_leaves_no_filter_behind() {
    let mut builder = Filters::new(PanicsOnce::default()).builder(id(7));
    let first = std::panic::AssertUnwindSafe(|| builder.add_key(b"first"));
    assert!(std::panic::catch_unwind(first).is_err());
    builder.add_key(b"second");
    let built = builder.finish();
    assert_eq!((built.block, built.report.reason), (None, FallbackReason::Panicked));
}

#[test]
fn what_is_known_of_a_file_counts_until_its_first_key() {
    let filters = Filters::default();
    let builder = filters.builder(id(7)).with_level(3).with_purpose(BuildPurpose::Compaction).at_bottommost_level();
    let builder = builder.with_expected_keys(2_000).with_memory_budget(1 << 20).with_threads(2);
    let mut late = filters.builder(id(7));
    late.add_key(b"0");
    let built = [builder, late.with_purpose(BuildPurpose::Compaction).with_expected_keys(2_000)].map(|mut builder| {
        (0..2_000_u32).for_each(|key| builder.add_key(key.to_string().as_bytes()));
        builder.finish().report.requested
    });
    assert_eq!(built, [KindId::RIBBON, KindId::BLOCKED_BLOOM]);
}

#[test]
fn a_policy_that_wants_no_filter_gets_none() {
    let built = Filters::new(Declining).builder(id(7)).finish();
    assert_eq!((built.block, built.report.used, built.report.reason), (None, None, FallbackReason::None));
    assert_eq!(Filters::new(Declining).builder(id(7)).estimated_bytes(), 0);
}

// promise: documented-use
// misuse: panicking-hash
#[test]
fn a_panic_in_the_engines_hash_leaves_no_filter_behind() {
    // It panics once, at the 501st key, after the engine has written that key.
    let hasher = || {
        let calls = AtomicU32::new(0);
        KeyHasher::custom(1, move |key| {
            assert_ne!(calls.fetch_add(1, Ordering::Relaxed), 500, "as planned");
            KeyHasher::default().hash(key)
        })
    };
    for policy in policies() {
        // Hashes are buffered without a number of keys, and a Bloom filter is filled at once with it.
        for expected_keys in [None, Some(1_000)] {
            let context = BuildContext::new(&hasher());
            let context = expected_keys.map_or(context.clone(), |keys| context.with_expected_keys(keys));
            let mut builder = policy.builder(&context).unwrap();
            let mut caught = 0;
            for key in 0..1_000_u32 {
                let add = std::panic::AssertUnwindSafe(|| builder.add_key(&key.to_le_bytes()));
                caught += u32::from(std::panic::catch_unwind(add).is_err());
            }
            assert_eq!(caught, 1);
            let built = builder.finish();
            assert_eq!((built.block, built.report.reason), (None, FallbackReason::Panicked), "{}", policy.name());
        }
    }
}
