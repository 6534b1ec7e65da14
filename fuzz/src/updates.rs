//! Exercises dynamic filters against the multiset of their keys.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use sstfilter::{
    CountingBloom, CuckooFilter, DynamicFilter, FilterBlock, FilterError, HashIdentity, KeyHash, KindId, MatchBitmap,
    RegisterBlockedBloom, StandardBloom,
};

use crate::pick;

/// The maximum size of a filter.
const MAX_BYTES: u64 = 1 << 16;

/// The keys in a filter, with their numbers.
#[derive(Default)]
struct Multiset(BTreeMap<KeyHash, u64>);

impl Multiset {
    fn insert(&mut self, hash: KeyHash) {
        *self.0.entry(hash).or_default() += 1;
    }

    fn remove(&mut self, hash: KeyHash) -> bool {
        let Some(count) = self.0.get_mut(&hash) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&hash);
        }
        true
    }

    fn keys(&self) -> Vec<KeyHash> {
        self.0.keys().copied().collect()
    }

    fn len(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Inserts, removes, merges, clears, stores and restores, as `bytes` determine.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = run(&mut input);
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let identity = pick::hasher(input)?.identity();
    match input.int_in_range(0..=3)? {
        0 => match standard(input, identity)? {
            Ok(filter) => steps(input, filter, merge_standard),
            Err(_) => Ok(()),
        },
        1 => {
            let (probes, bytes) = (*input.choose(&[2, 3, 4])?, 64 << input.int_in_range(0..=10)?);
            let filter = RegisterBlockedBloom::with_shape(identity, bytes, probes).expect("a power of two");
            steps(input, filter, merge_register_blocked)
        }
        2 => match counting(input, identity)? {
            Ok(filter) => steps(input, filter, |filter, held, keys| {
                remove(filter, held, keys, CountingBloom::remove);
                check_standard(filter, &held.keys());
            }),
            Err(_) => Ok(()),
        },
        _ => match cuckoo(input, identity)? {
            Ok(filter) => steps(input, filter, |filter, held, keys| remove(filter, held, keys, CuckooFilter::remove)),
            Err(_) => Ok(()),
        },
    }
}

/// A new filter, or why there is none.
type New<F> = Result<core::result::Result<F, FilterError>>;

fn standard(input: &mut Unstructured<'_>, identity: HashIdentity) -> New<StandardBloom> {
    Ok(match input.int_in_range(0..=2)? {
        0 => StandardBloom::with_shape(identity, input.int_in_range(0..=MAX_BYTES * 8)?, input.int_in_range(0..=34)?),
        1 => StandardBloom::for_size(identity, input.int_in_range(0..=5_000)?, pick::size(input)?),
        _ => StandardBloom::for_rate(identity, input.int_in_range(0..=5_000)?, pick::rate(input)?),
    })
}

fn counting(input: &mut Unstructured<'_>, identity: HashIdentity) -> New<CountingBloom> {
    Ok(match input.int_in_range(0..=2)? {
        0 => CountingBloom::with_shape(identity, input.int_in_range(0..=MAX_BYTES * 2)?, input.int_in_range(0..=34)?),
        1 => CountingBloom::for_size(identity, input.int_in_range(0..=2_000)?, pick::size(input)?),
        _ => CountingBloom::for_rate(identity, input.int_in_range(0..=2_000)?, pick::rate(input)?),
    })
}

fn cuckoo(input: &mut Unstructured<'_>, identity: HashIdentity) -> New<CuckooFilter> {
    Ok(if input.arbitrary()? {
        CuckooFilter::with_tag_bits(identity, input.int_in_range(0..=3_000)?, input.int_in_range(0..=34)?)
    } else {
        CuckooFilter::for_rate(identity, input.int_in_range(0..=3_000)?, pick::rate(input)?)
    })
}

/// Picks one of the earlier keys, or new ones.
fn step(input: &mut Unstructured<'_>, pool: &mut Vec<KeyHash>) -> Result<(u8, Vec<KeyHash>)> {
    let action = input.int_in_range(0..=7)?;
    let keys = match input.int_in_range(0..=3)? {
        0 if !pool.is_empty() => vec![*input.choose(pool)?],
        1 => vec![KeyHash::mix(u64::from(input.arbitrary::<u8>()?))],
        2 => vec![KeyHash::from_well_mixed(input.arbitrary()?)],
        _ => {
            let (seed, count) = (input.arbitrary::<u16>()?, input.int_in_range(0..=150_u64)?);
            (0..count).map(|index| KeyHash::mix(u64::from(seed) << 16 | index)).collect()
        }
    };
    pool.extend(&keys);
    Ok((action, keys))
}

/// Runs the steps of all kinds, and `special` for those of one kind.
fn steps<F: DynamicFilter>(
    input: &mut Unstructured<'_>,
    mut filter: F,
    special: impl Fn(&mut F, &mut Multiset, &[KeyHash]),
) -> Result<()> {
    let (mut held, mut pool) = (Multiset::default(), Vec::new());
    let counts_exactly = [KindId::COUNTING_BLOOM, KindId::CUCKOO].contains(&filter.kind());
    while !input.is_empty() {
        let (action, keys) = step(input, &mut pool)?;
        match action {
            0..=2 => insert(&mut filter, &mut held, &keys),
            3 => insert_all(&mut filter, &mut held, &keys),
            4 | 5 => special(&mut filter, &mut held, &keys),
            6 if keys.len() == 1 => {
                filter.clear();
                held = Multiset::default();
            }
            _ => filter = restored(&filter, &held.keys()),
        }
        assert!(!counts_exactly || filter.keys() == held.len());
    }
    check(&held.keys(), |hash| filter.contains(hash), |keys, matches| filter.contains_batch(keys, matches));
    let health = filter.health();
    assert!((0.0..=1.0).contains(&health.expected_fpr) && (0.0..=1.0).contains(&health.fill_ratio), "{health:?}");
    Ok(())
}

/// Inserts keys one by one, up to the first that finds no slot, which must change nothing.
fn insert(filter: &mut impl DynamicFilter, held: &mut Multiset, keys: &[KeyHash]) {
    let before = (keys.len() == 1).then(|| filter.to_block().expect("it is small"));
    for &hash in keys {
        if let Err(error) = filter.try_insert(hash) {
            assert!(matches!(error, FilterError::Full { .. }), "{error}");
            let after = before.as_ref().map(|_| filter.to_block().expect("it is small"));
            assert_eq!(after, before, "nothing has changed");
            break;
        }
        held.insert(hash);
    }
}

/// Inserts all keys at once. The number of keys in a full filter shows how many it accepted.
fn insert_all(filter: &mut impl DynamicFilter, held: &mut Multiset, keys: &[KeyHash]) {
    let before = filter.keys();
    let inserted = match filter.try_insert_all(keys) {
        Ok(()) => keys.len(),
        Err(_) => (filter.keys() - before) as usize,
    };
    keys.iter().take(inserted).for_each(|&hash| held.insert(hash));
}

fn remove<F: DynamicFilter>(
    filter: &mut F,
    held: &mut Multiset,
    keys: &[KeyHash],
    remove_one: impl Fn(&mut F, KeyHash) -> std::result::Result<(), FilterError>,
) {
    for &hash in keys {
        if held.remove(hash) {
            remove_one(filter, hash).expect("it is in");
        } else if !filter.contains(hash) {
            assert_eq!(remove_one(filter, hash), Err(FilterError::NotPresent));
        }
    }
}

fn merge_standard(filter: &mut StandardBloom, held: &mut Multiset, keys: &[KeyHash]) {
    let mut other = StandardBloom::with_shape(filter.hash_identity(), filter.bits(), filter.probes());
    let other = other.as_mut().expect("the same shape");
    other.insert_all(keys);
    filter.union(other).expect("the same shape");
    keys.iter().for_each(|&hash| held.insert(hash));
}

/// Inserts half of the keys by the shared insert, the others by a merge.
fn merge_register_blocked(filter: &mut RegisterBlockedBloom, held: &mut Multiset, keys: &[KeyHash]) {
    let (shared, merged) = keys.split_at(keys.len() / 2);
    shared.iter().for_each(|&hash| _ = filter.insert(hash));
    let other = RegisterBlockedBloom::with_shape(filter.hash_identity(), filter.bytes(), filter.probes());
    let other = other.expect("the same shape");
    other.insert_all(merged);
    filter.union(&other).expect("the same shape");
    keys.iter().for_each(|&hash| held.insert(hash));
}

/// The filter after it was stored.
fn restored<F: DynamicFilter>(filter: &F, keys: &[KeyHash]) -> F {
    let bytes = filter.to_block().expect("it is small");
    assert_eq!(bytes.len() as u64, filter.block_bytes());
    let block = FilterBlock::open_unverified(&bytes).expect("it was just written");
    block.verify().expect("it was just written");
    check(keys, |hash| block.may_contain(hash), |keys, matches| block.may_contain_batch(keys, matches));
    let restored = F::from_block(&bytes, filter.hash_identity()).expect("it was just written");
    assert_eq!(restored.to_block().expect("it is small"), bytes);
    restored
}

fn check_standard(filter: &CountingBloom, keys: &[KeyHash]) {
    let standard = filter.to_standard_bloom().expect("it is small");
    check(keys, |hash| standard.contains(hash), |keys, matches| standard.contains_batch(keys, matches));
}

fn check(keys: &[KeyHash], contains: impl Fn(KeyHash) -> bool, batch: impl Fn(&[KeyHash], &mut MatchBitmap)) {
    let mut matches = MatchBitmap::default();
    batch(keys, &mut matches);
    assert_eq!(matches.count(), keys.len() as u64);
    keys.iter().for_each(|&hash| assert!(contains(hash), "{hash:?} is absent"));
}
