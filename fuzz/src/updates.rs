//! Filters that keys come to and go from, against the multiset of their keys.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use sstfilter::{
    CountingBloom, CuckooFilter, FilterBlock, FilterError, HashIdentity, HitBitmap, KeyHash, StandardBloom,
    TwoBitBloom, TwoBitOptions, WordLayout,
};

use crate::pick;

/// The most bytes of a filter.
const MOST_BYTES: u64 = 1 << 16;

/// What is in a filter, and how many times.
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

/// Inserts, removes, stores, takes up and merges as `bytes` say.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = run(&mut input);
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let identity = pick::hasher(input)?.identity();
    match input.int_in_range(0..=3)? {
        0 => standard(input, identity),
        1 => two_bit(input, identity),
        2 => counting(input, identity),
        _ => cuckoo(input, identity),
    }
}

/// One of the keys given before, or new ones.
fn step(input: &mut Unstructured<'_>, pool: &mut Vec<KeyHash>) -> Result<(u8, Vec<KeyHash>)> {
    let action = input.int_in_range(0..=7)?;
    let keys = match input.int_in_range(0..=3)? {
        0 if !pool.is_empty() => vec![*input.choose(pool)?],
        1 => vec![KeyHash::from_remixed(u64::from(input.arbitrary::<u8>()?))],
        2 => vec![KeyHash::from_well_mixed(input.arbitrary()?)],
        _ => {
            let (seed, count) = (input.arbitrary::<u16>()?, input.int_in_range(0..=150_u64)?);
            (0..count).map(|index| KeyHash::from_remixed(u64::from(seed) << 16 | index)).collect()
        }
    };
    pool.extend(&keys);
    Ok((action, keys))
}

fn check(keys: &[KeyHash], contains: impl Fn(KeyHash) -> bool, batch: impl Fn(&[KeyHash], &mut HitBitmap)) {
    let mut hits = HitBitmap::default();
    batch(keys, &mut hits);
    assert_eq!(hits.count(), keys.len() as u64);
    keys.iter().for_each(|&hash| assert!(contains(hash), "{hash:?} is denied"));
}

fn check_block(block: &[u8], keys: &[KeyHash]) {
    let block = FilterBlock::open_unverified(block).expect("it was just written");
    block.verify().expect("it was just written");
    check(keys, |hash| block.may_contain(hash), |keys, hits| block.may_contain_batch(keys, hits));
}

fn standard(input: &mut Unstructured<'_>, identity: HashIdentity) -> Result<()> {
    let new = match input.int_in_range(0..=2)? {
        0 => StandardBloom::with_shape(identity, input.int_in_range(0..=MOST_BYTES * 8)?, input.int_in_range(0..=34)?),
        1 => StandardBloom::for_size(identity, input.int_in_range(0..=5_000)?, pick::size(input)?),
        _ => StandardBloom::for_rate(identity, input.int_in_range(0..=5_000)?, pick::rate(input)?),
    };
    let Ok(mut filter) = new else { return Ok(()) };
    let (mut held, mut pool) = (Multiset::default(), Vec::new());
    while !input.is_empty() {
        let (action, keys) = step(input, &mut pool)?;
        match action {
            0..=3 => keys.iter().for_each(|&hash| _ = filter.insert(hash)),
            4 => _ = filter.insert_all(&keys),
            5 => {
                let mut other =
                    StandardBloom::with_shape(identity, filter.bits(), filter.probes()).expect("the same shape");
                other.insert_all(&keys);
                filter.union(&other).expect("the same shape");
            }
            _ => {
                let block = filter.to_block().expect("it is small");
                check_block(&block, &held.keys());
                filter = StandardBloom::from_block(&block, identity).expect("it was just written");
                assert_eq!(filter.to_block().expect("it is small"), block);
                continue;
            }
        }
        keys.iter().for_each(|&hash| held.insert(hash));
    }
    check(&held.keys(), |hash| filter.contains(hash), |keys, hits| filter.contains_batch(keys, hits));
    assert!((0.0..=1.0).contains(&filter.health().expected_fpr));
    Ok(())
}

fn two_bit(input: &mut Unstructured<'_>, identity: HashIdentity) -> Result<()> {
    let layout = *input.choose(&WordLayout::ALL)?;
    let options = TwoBitOptions::default().with_layout(layout).with_bytes(64 << input.int_in_range(0..=10)?);
    let mut filter = TwoBitBloom::new(identity, options.expect("a power of two")).expect("it is small");
    let (mut held, mut pool) = (Multiset::default(), Vec::new());
    while !input.is_empty() {
        let (action, keys) = step(input, &mut pool)?;
        match action {
            0..=2 => keys.iter().for_each(|&hash| _ = filter.insert(hash)),
            3 => keys.iter().for_each(|&hash| _ = filter.insert_mut(hash)),
            4 => _ = filter.insert_all(&keys),
            5 => {
                let other = TwoBitBloom::new(identity, filter.options()).expect("it is small");
                other.insert_all(&keys);
                filter.union(&other).expect("the same shape");
            }
            6 if keys.len() == 1 => {
                filter.clear();
                held = Multiset::default();
                continue;
            }
            _ => {
                let block = filter.to_block().expect("it is small");
                check_block(&block, &held.keys());
                filter = TwoBitBloom::from_block(&block, identity).expect("it was just written");
                assert_eq!(filter.to_block().expect("it is small"), block);
                continue;
            }
        }
        keys.iter().for_each(|&hash| held.insert(hash));
    }
    check(&held.keys(), |hash| filter.contains(hash), |keys, hits| filter.contains_batch(keys, hits));
    assert!((0.0..=1.0).contains(&filter.health().expected_fpr));
    Ok(())
}

fn counting(input: &mut Unstructured<'_>, identity: HashIdentity) -> Result<()> {
    let new = match input.int_in_range(0..=2)? {
        0 => CountingBloom::with_shape(identity, input.int_in_range(0..=MOST_BYTES * 2)?, input.int_in_range(0..=34)?),
        1 => CountingBloom::for_size(identity, input.int_in_range(0..=2_000)?, pick::size(input)?),
        _ => CountingBloom::for_rate(identity, input.int_in_range(0..=2_000)?, pick::rate(input)?),
    };
    let Ok(mut filter) = new else { return Ok(()) };
    let (mut held, mut pool) = (Multiset::default(), Vec::new());
    while !input.is_empty() {
        let (action, keys) = step(input, &mut pool)?;
        match action {
            0..=2 => keys.iter().for_each(|&hash| _ = filter.insert(hash)),
            3 => _ = filter.insert_all(&keys),
            4 | 5 => {
                for hash in keys {
                    if held.remove(hash) {
                        filter.remove(hash).expect("it is in");
                    } else if !filter.contains(hash) {
                        assert_eq!(filter.remove(hash), Err(FilterError::NotPresent));
                    }
                }
                continue;
            }
            _ => {
                let block = filter.to_block().expect("it is small");
                check_block(&block, &held.keys());
                filter = CountingBloom::from_block(&block, identity).expect("it was just written");
                assert_eq!(filter.to_block().expect("it is small"), block);
                let standard = filter.to_standard_bloom().expect("it is small");
                check(&held.keys(), |hash| standard.contains(hash), |keys, hits| standard.contains_batch(keys, hits));
                continue;
            }
        }
        keys.iter().for_each(|&hash| held.insert(hash));
    }
    assert_eq!(filter.keys(), held.len());
    check(&held.keys(), |hash| filter.contains(hash), |keys, hits| filter.contains_batch(keys, hits));
    assert!((0.0..=1.0).contains(&filter.health().expected_fpr));
    Ok(())
}

fn cuckoo(input: &mut Unstructured<'_>, identity: HashIdentity) -> Result<()> {
    let new = if input.arbitrary()? {
        CuckooFilter::with_tag_bits(identity, input.int_in_range(0..=3_000)?, input.int_in_range(0..=34)?)
    } else {
        CuckooFilter::for_rate(identity, input.int_in_range(0..=3_000)?, pick::rate(input)?)
    };
    let Ok(mut filter) = new else { return Ok(()) };
    let (mut held, mut pool) = (Multiset::default(), Vec::new());
    while !input.is_empty() {
        let (action, keys) = step(input, &mut pool)?;
        match action {
            0..=2 => {
                let before = (keys.len() == 1).then(|| filter.to_block().expect("it is small"));
                for &hash in &keys {
                    match filter.insert(hash) {
                        Ok(()) => held.insert(hash),
                        Err(error) => {
                            assert!(matches!(error, FilterError::Full { .. }), "{error}");
                            let after = before.as_ref().map(|_| filter.to_block().expect("it is small"));
                            assert_eq!(after, before, "nothing has changed");
                            break;
                        }
                    }
                }
            }
            3 => {
                let before = filter.keys();
                let is_in = filter.insert_all(&keys).is_ok();
                let taken = filter.keys() - before;
                assert_eq!(is_in, taken == keys.len() as u64);
                keys.iter().take(taken as usize).for_each(|&hash| held.insert(hash));
            }
            4 | 5 => {
                for hash in keys {
                    if held.remove(hash) {
                        filter.remove(hash).expect("it is in");
                    } else if !filter.contains(hash) {
                        assert_eq!(filter.remove(hash), Err(FilterError::NotPresent));
                    }
                }
            }
            _ => {
                let block = filter.to_block().expect("it is small");
                check_block(&block, &held.keys());
                filter = CuckooFilter::from_block(&block, identity).expect("it was just written");
                assert_eq!(filter.to_block().expect("it is small"), block);
            }
        }
        assert_eq!(filter.keys(), held.len());
    }
    check(&held.keys(), |hash| filter.contains(hash), |keys, hits| filter.contains_batch(keys, hits));
    assert!((0.0..=1.0).contains(&filter.health().expected_fpr));
    Ok(())
}
