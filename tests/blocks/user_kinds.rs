//! User-defined kinds. The failures guarded against: a kind that loses keys is trusted; a kind that panics, reads
//! beyond its payload, claims wrong lengths or shrinks wrongly crashes a reader or breaks other filters; a kind takes
//! one of the library's numbers; a reader uses bytes that disappeared after loading.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sstfilter::kind::{EncodedShape, UserKind};
use sstfilter::{
    BlockError, BuildContext, BuiltFilter, ConfigError, FallbackReason, FilterBlock, FilterSet, Filters, FixedPolicy,
    KeyHash, KeyHasher, KindId, KindRegistry, LoadContext, MatchBitmap, MatchMatrix, ShrinkError,
};

use crate::common::cases::BLOCKS;
use crate::common::parts::Parts;
use crate::common::{self, for_each_set};

/// A kind's fault.
const NOTHING: u8 = 0;
const PANICS_WHEN_PROBED: u8 = 1;
const READS_TOO_FAR: u8 = 2;
const PANICS_WHEN_DECODED: u8 = 3;
const CLAIMS_MORE_BYTES: u8 = 4;
const LOSES_KEYS: u8 = 5;
const PANICS_WHEN_BUILT: u8 = 6;
const PANICS_WHEN_PLANNED: u8 = 7;
const LOSES_KEYS_PROBED_ONE_BY_ONE: u8 = 8;
const SETS_BITS_BEHIND_THE_LAST: u8 = 9;
const PANICS_WHEN_DESCRIBED: u8 = 10;
const PANICS_WHEN_A_SMALLER_SHAPE_IS_CHOSEN: u8 = 11;
const PANICS_WHEN_SHRUNK: u8 = 12;
const GROWS_INSTEAD: u8 = 13;
const CANNOT_READ_SMALLER_SHAPES: u8 = 14;
const DOES_NOT_WRITE_SMALLER_ONES: u8 = 15;
const HAS_NO_RATE: u8 = 16;
const REFUSES_WITHOUT_A_REASON: u8 = 17;
const REFUSES_WITH_ONE_THAT_NO_BLOCK_RECORDS: u8 = 18;

/// A kind with number `ID` and fault `WRONG`: sorted hashes of 8 bytes each, or shrunk to their low 4, 2 or 1. A block
/// records their number and their size.
#[derive(Clone, Copy, Debug)]
struct Hashes<const ID: u8, const WRONG: u8>;

/// The shape for a number of hashes and their size in bytes.
fn shape_of(count: u32, bytes_each: u32) -> EncodedShape {
    EncodedShape::new(&[count, bytes_each], u64::from(count) * u64::from(bytes_each))
}

fn bytes_each(shape: &EncodedShape) -> usize {
    shape.params()[1] as usize
}

fn contains(shape: &EncodedShape, payload: &[u8], hash: KeyHash) -> bool {
    let hash = hash.get().to_le_bytes();
    payload.chunks_exact(bytes_each(shape)).any(|bytes| bytes == &hash[..bytes_each(shape)])
}

impl<const ID: u8, const WRONG: u8> UserKind for Hashes<ID, WRONG> {
    fn id(&self) -> KindId {
        KindId::from_code(ID)
    }

    fn name(&self) -> &'static str {
        "hashes"
    }

    fn plan(&self, keys: u64) -> Result<EncodedShape, FallbackReason> {
        assert!(WRONG != PANICS_WHEN_PLANNED || keys > 1 << 20, "as it does");
        u32::try_from(keys).map(|count| shape_of(count, 8)).map_err(|_| FallbackReason::TooManyKeys)
    }

    fn build(&self, plan: &EncodedShape, hashes: &[KeyHash]) -> Result<(EncodedShape, Vec<u8>), FallbackReason> {
        assert_ne!(WRONG, PANICS_WHEN_BUILT, "as it does");
        match WRONG {
            REFUSES_WITHOUT_A_REASON => return Err(FallbackReason::None),
            REFUSES_WITH_ONE_THAT_NO_BLOCK_RECORDS => return Err(FallbackReason::Panicked),
            _ => (),
        }
        let kept = hashes.iter().map(|hash| if WRONG == LOSES_KEYS { !hash.get() } else { hash.get() });
        let more = u32::from(WRONG == CLAIMS_MORE_BYTES);
        Ok((shape_of(plan.params()[0] + more, 8), kept.flat_map(u64::to_le_bytes).collect()))
    }

    fn payload_bytes(&self, shape: &EncodedShape) -> Result<u64, BlockError> {
        assert_ne!(WRONG, PANICS_WHEN_DECODED, "as it does");
        match *shape.params() {
            [count, 8] => Ok(u64::from(count) * 8),
            [count, bytes_each @ (1 | 2 | 4)] if WRONG != CANNOT_READ_SMALLER_SHAPES => {
                Ok(u64::from(count) * u64::from(bytes_each))
            }
            _ => Err(BlockError::Field { field: "parameter words", expected: "2", got: 0 }),
        }
    }

    fn expected_fpr(&self, shape: &EncodedShape) -> f64 {
        if WRONG == HAS_NO_RATE {
            f64::NAN
        } else {
            1.0 - (-(shape.keys as f64) / 256_f64.powi(i32::try_from(bytes_each(shape)).unwrap())).exp()
        }
    }

    fn describe(&self, shape: &EncodedShape) -> Vec<(&'static str, String)> {
        assert_ne!(WRONG, PANICS_WHEN_DESCRIBED, "as it does");
        vec![("hashes", shape.params()[0].to_string())]
    }

    fn may_contain(&self, shape: &EncodedShape, payload: &[u8], hash: KeyHash) -> bool {
        assert_ne!(WRONG, PANICS_WHEN_PROBED, "as it does");
        if WRONG == READS_TOO_FAR {
            return payload[payload.len() + 7] == 0;
        }
        WRONG != LOSES_KEYS_PROBED_ONE_BY_ONE && contains(shape, payload, hash)
    }

    fn may_contain_batch(&self, shape: &EncodedShape, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        assert_ne!(WRONG, PANICS_WHEN_PROBED, "as it does");
        assert_ne!(WRONG, READS_TOO_FAR, "as it does");
        // The first key is lost, and a bit beyond the last key makes up for it.
        let is_lost = |index| WRONG == SETS_BITS_BEHIND_THE_LAST && index == 0;
        for (chunk, (word, hashes)) in matches.iter_mut().zip(hashes.chunks(64)).enumerate() {
            let found = |(bit, &hash): (usize, _)| contains(shape, payload, hash) && !is_lost(64 * chunk + bit);
            *word = hashes.iter().enumerate().fold(0, |word, (bit, hash)| word | u64::from(found((bit, hash))) << bit);
        }
        if WRONG == SETS_BITS_BEHIND_THE_LAST
            && let Some(last) = matches.last_mut()
        {
            *last |= 1 << 63;
        }
    }

    fn next_smaller(&self, shape: &EncodedShape, max_bytes: u64) -> Option<EncodedShape> {
        assert_ne!(WRONG, PANICS_WHEN_A_SMALLER_SHAPE_IS_CHOSEN, "as it does");
        let &[count, bytes_each] = shape.params() else { return None };
        if WRONG == GROWS_INSTEAD {
            return Some(shape_of(count, bytes_each * 2));
        }
        let smaller = [4, 2, 1].into_iter().filter(|&smaller| smaller < bytes_each);
        smaller.map(|bytes_each| shape_of(count, bytes_each)).find(|shape| shape.payload_bytes <= max_bytes)
    }

    fn shrink_into(&self, shape: &EncodedShape, smaller: &EncodedShape, payload: &[u8], out: &mut [u8]) -> bool {
        assert_ne!(WRONG, PANICS_WHEN_SHRUNK, "as it does");
        let (own, kept) = (bytes_each(shape), bytes_each(smaller));
        for (hash, out) in payload.chunks_exact(own).zip(out.chunks_exact_mut(kept)) {
            out.copy_from_slice(&hash[..kept]);
        }
        WRONG != DOES_NOT_WRITE_SMALLER_ONES
    }
}

/// A number of keys for which payloads have whole words at any size.
const KEYS: u32 = 320;

// User-defined kinds are self-checked by default.
const CHECKED: bool = true;
const UNCHECKED: bool = false;

fn keys() -> Vec<KeyHash> {
    common::key_set(1, KEYS).collect()
}

fn build(kind: impl UserKind, is_checked: bool) -> BuiltFilter {
    build_in(&BuildContext::new(&KeyHasher::default()).with_expected_keys(KEYS.into()), kind, is_checked)
}

fn build_in(context: &BuildContext, kind: impl UserKind, is_checked: bool) -> BuiltFilter {
    let policy = FixedPolicy::user_defined(kind).unwrap();
    let policy = if is_checked { policy } else { policy.without_self_check() };
    let mut builder = policy.builder(context);
    keys().into_iter().for_each(|hash| builder.add_hash(hash));
    assert!(builder.estimated_bytes() > 0);
    builder.finish()
}

/// A block of a kind, built without a check.
fn block<const ID: u8, const WRONG: u8>() -> Vec<u8> {
    build(Hashes::<ID, WRONG>, UNCHECKED).block.unwrap().to_vec()
}

fn registry(kind: impl UserKind) -> KindRegistry {
    KindRegistry::default().with_kind(kind).unwrap()
}

#[test]
fn blocks_of_a_registered_kind_are_read_like_all_others() {
    let built = build(Hashes::<200, NOTHING>, CHECKED);
    assert_eq!((built.report.used, built.report.reason), (Some(KindId::from_code(200)), FallbackReason::None));
    let (block, kinds) = (built.block.unwrap(), registry(Hashes::<200, NOTHING>));
    let context = LoadContext::from(KeyHasher::default().identity()).with_kinds(&kinds);
    let filter = FilterBlock::load(&block, context).unwrap();
    let info = filter.info();
    assert_eq!((info.keys, info.block_bytes, info.shape), (320, 320 * 8 + 40, vec![("hashes", "320".to_owned())]));
    let absent: Vec<KeyHash> = common::key_set(2, 500).collect();
    let mut matches = MatchBitmap::default();
    for (asked, expected) in [(keys(), 320), (absent, 0)] {
        assert_eq!(asked.iter().filter(|&&hash| filter.may_contain(hash)).count(), expected);
        filter.may_contain_batch(&asked, &mut matches);
        assert_eq!(matches.count(), expected as u64);
    }
    let opened = FilterBlock::open_unverified_with_kinds(&block[..], &kinds).unwrap();
    assert!(opened.verify().is_ok() && kinds.name(opened.info().kind) == Some("hashes"));
}

#[test]
fn a_kind_that_is_not_registered_is_unknown_and_lets_every_key_through() {
    let block = block::<201, NOTHING>();
    let other = registry(Hashes::<202, NOTHING>);
    for context in
        [LoadContext::from(&KeyHasher::default()), LoadContext::from(&KeyHasher::default()).with_kinds(&other)]
    {
        let filter = Filters::default().reader(FilterBlock::load(&block, context));
        assert_eq!(filter.block().err(), Some(&BlockError::UnknownKind { got: 201 }));
        assert!(common::key_set(2, 100).all(|hash| !filter.probe_hash(hash).is_absent()));
    }
}

#[test]
fn numbers_of_the_library_and_taken_ones_are_refused() {
    let refused = |result: Result<KindRegistry, ConfigError>| matches!(result, Err(ConfigError::OutOfRange { .. }));
    assert!(refused(KindRegistry::default().with_kind(Hashes::<0, NOTHING>)));
    assert!(refused(KindRegistry::default().with_kind(Hashes::<5, NOTHING>)));
    assert!(refused(KindRegistry::default().with_kind(Hashes::<127, NOTHING>)));
    assert!(refused(registry(Hashes::<128, NOTHING>).with_kind(Hashes::<128, LOSES_KEYS>)));
    assert!(registry(Hashes::<128, NOTHING>).with_kind(Hashes::<255, NOTHING>).is_ok());
    for policy in [FixedPolicy::user_defined(Hashes::<1, NOTHING>), FixedPolicy::user_defined(Hashes::<127, NOTHING>)] {
        assert!(matches!(policy, Err(ConfigError::OutOfRange { .. })));
    }
}

/// The key sets for which a set with a sound and a faulty filter answers positive.
fn assert_lets_through<const ID: u8, const WRONG: u8>() {
    let (faulty, sound) = (block::<ID, NOTHING>(), build(Hashes::<220, NOTHING>, CHECKED).block.unwrap());
    let kinds = registry(Hashes::<ID, WRONG>).with_kind(Hashes::<220, NOTHING>).unwrap();
    let context = LoadContext::from(KeyHasher::default().identity()).with_kinds(&kinds);
    let load = || [&faulty[..], &sound[..]].map(|block| Filters::default().reader(FilterBlock::load(block, context)));
    let set = FilterSet::new(&Filters::default(), load());
    let mut matches = MatchBitmap::default();
    for hash in common::key_set(2, 50) {
        set.matches_hash(hash, &mut matches);
        assert!(matches.may_contain(0) && !matches.may_contain(1), "{WRONG}");
    }
    let [faulty, sound] = load();
    let absent: Vec<KeyHash> = common::key_set(2, 200).collect();
    faulty.probe_batch(&absent, &mut matches);
    assert_eq!(matches.count(), 200, "{WRONG}");
    sound.probe_batch(&absent, &mut matches);
    assert_eq!(matches.count(), 0);
    if let Ok(block) = faulty.block() {
        assert!(!block.info().shape.is_empty() && block.fill_ratio().is_none());
    }
}

// promise: never-fails-a-write
#[test]
fn a_kind_that_panics_or_reads_too_far_lets_its_own_keys_through_and_no_others() {
    assert_lets_through::<210, PANICS_WHEN_PROBED>();
    assert_lets_through::<211, READS_TOO_FAR>();
    assert_lets_through::<212, PANICS_WHEN_DECODED>();
}

// promise: never-fails-a-write
#[test]
fn a_kind_that_loses_keys_panics_or_claims_lengths_gets_a_bloom_filter() {
    let built = [
        (build(Hashes::<213, LOSES_KEYS>, CHECKED), FallbackReason::SelfCheckFailed),
        (build(Hashes::<221, LOSES_KEYS_PROBED_ONE_BY_ONE>, CHECKED), FallbackReason::SelfCheckFailed),
        (build(Hashes::<222, SETS_BITS_BEHIND_THE_LAST>, CHECKED), FallbackReason::SelfCheckFailed),
        (build(Hashes::<214, PANICS_WHEN_BUILT>, UNCHECKED), FallbackReason::ConstructionFailed),
        (build(Hashes::<215, CLAIMS_MORE_BYTES>, UNCHECKED), FallbackReason::ConstructionFailed),
        (build(Hashes::<216, PANICS_WHEN_PROBED>, CHECKED), FallbackReason::SelfCheckFailed),
        (build(Hashes::<217, PANICS_WHEN_DECODED>, CHECKED), FallbackReason::ConstructionFailed),
        (build(Hashes::<238, REFUSES_WITHOUT_A_REASON>, UNCHECKED), FallbackReason::ConstructionFailed),
        (build(Hashes::<239, REFUSES_WITH_ONE_THAT_NO_BLOCK_RECORDS>, UNCHECKED), FallbackReason::ConstructionFailed),
    ];
    for (built, reason) in built {
        assert_eq!((built.report.used, built.report.reason), (Some(KindId::BLOCKED_BLOOM), reason));
        let filter = FilterBlock::load(built.block.unwrap(), &KeyHasher::default()).unwrap();
        assert!(keys().into_iter().all(|hash| filter.may_contain(hash)));
    }
    let policy = FixedPolicy::user_defined(Hashes::<223, PANICS_WHEN_DESCRIBED>).unwrap();
    assert!(policy.plan(KEYS.into(), None).unwrap().shape.is_empty());
    let policy = FixedPolicy::user_defined(Hashes::<218, PANICS_WHEN_PLANNED>).unwrap();
    let built = common::build(&policy, &keys());
    assert_eq!(built.report.reason, FallbackReason::ConstructionFailed);
}

/// Bits after the last key are ignored, whatever a kind writes there.
#[test]
fn a_batch_of_any_length_has_its_keys_and_no_bits_behind_them() {
    let block = block::<224, NOTHING>();
    let (sound, faulty) = (registry(Hashes::<224, NOTHING>), registry(Hashes::<224, SETS_BITS_BEHIND_THE_LAST>));
    let count = |kinds: &KindRegistry, hashes: &[KeyHash]| {
        let context = LoadContext::from(KeyHasher::default().identity()).with_kinds(kinds);
        let mut matches = MatchBitmap::default();
        Filters::default().reader(FilterBlock::load(&block, context)).probe_batch(hashes, &mut matches);
        (matches.count(), matches.iter().count())
    };
    assert_eq!(count(&faulty, &common::key_set(2, 50).collect::<Vec<_>>()), (0, 0));
    for length in [1, 50, 63, 64, 65, 150] {
        assert_eq!(count(&sound, &keys()[..length]), (length as u64, length));
    }
}

/// The checksums hold, but the parameter words are false.
#[test]
fn lengths_that_a_block_claims_for_a_users_kind_are_checked() {
    let sound = block::<219, NOTHING>();
    let kinds = registry(Hashes::<219, NOTHING>);
    for count in [0, KEYS - 1, KEYS + 1, u32::MAX] {
        let mut forged = Parts::of_block(&sound);
        forged.params[0] = count;
        let forged = forged.seal();
        let opened = FilterBlock::open_unverified_with_kinds(&forged[..], &kinds);
        assert!(matches!(opened, Err(BlockError::Field { .. })), "{count}: {opened:?}");
    }
}

/// The sizes to which the kind's block shrinks, in bytes of payload.
fn shrunk_sizes<const ID: u8, const WRONG: u8>() -> Vec<u64> {
    let (block, kinds) = (block::<ID, NOTHING>(), registry(Hashes::<ID, WRONG>));
    let context = LoadContext::from(KeyHasher::default().identity()).with_kinds(&kinds);
    let block = FilterBlock::load(block, context).unwrap();
    let info = block.info();
    let tail_bytes = info.block_bytes - info.payload_bytes;
    let chosen_wrongly =
        [PANICS_WHEN_A_SMALLER_SHAPE_IS_CHOSEN, GROWS_INSTEAD, CANNOT_READ_SMALLER_SHAPES, HAS_NO_RATE];
    let claims_none = chosen_wrongly.contains(&WRONG);
    let shrunk = |payload_bytes: u64| match block.shrink_to(payload_bytes + tail_bytes).map(FilterBlock::into_inner) {
        Ok(smaller) => {
            let smaller = FilterBlock::load(smaller, context).unwrap();
            assert!(keys().into_iter().all(|hash| smaller.may_contain(hash)));
            Some(smaller.info().payload_bytes)
        }
        Err(ShrinkError::TooSmall { min_bytes, block_bytes, .. }) => {
            let is_too_little = payload_bytes < 320 && !claims_none;
            assert_eq!(min_bytes, if is_too_little { 320 + tail_bytes } else { block_bytes }, "{WRONG}");
            None
        }
        Err(other) => panic!("{other}"),
    };
    let steps: Vec<u64> = block.shrink_steps().iter().map(|(bytes, _)| bytes - tail_bytes).collect();
    assert_eq!(steps, if claims_none { &[][..] } else { &[1_280, 640, 320] });
    [2_559, 1_900, 640, 320, 319].into_iter().filter_map(shrunk).collect()
}

#[test]
fn a_users_kind_shrinks_and_one_that_does_it_wrongly_is_refused() {
    assert_eq!(shrunk_sizes::<230, NOTHING>(), [1_280, 1_280, 640, 320]);
    assert_eq!(shrunk_sizes::<231, PANICS_WHEN_A_SMALLER_SHAPE_IS_CHOSEN>(), []);
    assert_eq!(shrunk_sizes::<232, PANICS_WHEN_SHRUNK>(), []);
    assert_eq!(shrunk_sizes::<233, GROWS_INSTEAD>(), []);
    assert_eq!(shrunk_sizes::<234, CANNOT_READ_SMALLER_SHAPES>(), []);
    assert_eq!(shrunk_sizes::<235, DOES_NOT_WRITE_SMALLER_ONES>(), []);
    assert_eq!(shrunk_sizes::<236, HAS_NO_RATE>(), []);
}

/// The bytes of a block that are left: a mapped file becomes shorter when it is truncated.
#[derive(Clone, Copy)]
struct Cut<'a>(&'a [u8], &'a AtomicUsize);

impl AsRef<[u8]> for Cut<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1.load(Relaxed)]
    }
}

/// Loads the block, cuts its payload, and probes for the keys that it contained.
fn assert_no_key_is_lost_once_it_is_cut(block: &[u8], context: LoadContext<'_>, keys: &[KeyHash], what: &str) {
    let length = AtomicUsize::new(block.len());
    let filter = FilterBlock::load(Cut(block, &length), context).unwrap();
    let payload_bytes = usize::try_from(filter.info().payload_bytes).unwrap();
    let set = FilterSet::new(&Filters::default(), [Filters::default().reader(Ok(filter.clone()))]);
    let (mut matches, mut matrix) = (MatchBitmap::default(), MatchMatrix::default());
    for cut in [0, 1, payload_bytes / 2, payload_bytes - 1] {
        length.store(cut, Relaxed);
        filter.may_contain_batch(keys, &mut matches);
        set.matches_batch(keys, &mut matrix);
        let batches = (matches.count(), matrix.count());
        assert_eq!(
            batches,
            (keys.len() as u64, keys.len() as u64),
            "{what}: batches in {cut} of {payload_bytes} bytes"
        );
        for &hash in keys {
            assert!(filter.may_contain(hash), "{what}: {cut} of {payload_bytes} bytes");
            set.matches_hash(hash, &mut matches);
            assert!(matches.may_contain(0), "{what}: a set in {cut} of {payload_bytes} bytes");
        }
    }
}

// promise: no-false-negatives
#[test]
fn no_key_is_lost_in_a_filter_whose_payload_was_cut_after_it_was_loaded() {
    let (block, kinds) = (block::<237, NOTHING>(), registry(Hashes::<237, NOTHING>));
    let with_keys = BLOCKS.iter().filter(|case| case.keys > 0);
    let stored: Vec<_> = with_keys.map(|case| (case, case.read(), case.hashes())).collect();
    for_each_set(|set| {
        let context = LoadContext::from(KeyHasher::default().identity()).with_kinds(&kinds);
        assert_no_key_is_lost_once_it_is_cut(&block, context, &keys(), &format!("a user's kind with {set}"));
        for (case, block, keys) in &stored {
            let what = format!("{} with {set}", case.name);
            assert_no_key_is_lost_once_it_is_cut(block, case.load_context(), keys, &what);
        }
    });
    let kind_of = |block: &Vec<u8>| FilterBlock::open_unverified(block).unwrap().info().kind;
    let kinds: Vec<KindId> = stored.iter().map(|(_, block, _)| kind_of(block)).collect();
    assert!(sstfilter::kind::all().iter().all(|entry| kinds.contains(&entry.id)));
}
