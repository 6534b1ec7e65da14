//! Exercises filters of several parts: any bytes, these bytes under checksums that hold, and filters that are filled,
//! stored and damaged.

use arbitrary::{Result, Unstructured};
use sstfilter::layers::{
    Growth, Late, LateKeys, LayeredFilter, Part, Rotating, RotatingBloom, Scalable, ScalableBloom,
};
use sstfilter::{BuildContext, HashIdentity, KeyHash, KeyHasher, MatchBitmap, RegisterBlockedBloom, StandardBloom};

use crate::pick;

/// The maximum number of keys that a filter is planned for, so that it stays small.
const MAX_PLANNED: u64 = 500;

/// Loads the bytes as each type, then fills one.
pub fn exercise(bytes: &[u8]) {
    let identity = KeyHasher::default().identity();
    for bytes in [bytes.to_vec(), sealed(bytes)] {
        load::<StandardBloom, Late>(&bytes, identity, |filter, hash| {
            filter.insert(hash);
            true
        });
        load::<RegisterBlockedBloom, Scalable>(&bytes, identity, |filter, hash| filter.insert(hash).is_ok());
        load::<StandardBloom, Scalable>(&bytes, identity, |filter, hash| filter.insert(hash).is_ok());
        load::<StandardBloom, Rotating>(&bytes, identity, |filter, hash| {
            filter.insert(hash);
            true
        });
    }
    let _ = fill(&mut Unstructured::new(bytes));
}

/// The bytes with the magic number, the version and checksums that hold, as the ending of an unbound filter.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(ending) = bytes.len().checked_sub(32) else { return out };
    let index_bytes = u32::from_le_bytes(out[ending + 8..ending + 12].try_into().expect("4 bytes")) as usize;
    let Some(index) = ending.checked_sub(index_bytes) else { return out };
    let blocks_sum = crc32c::crc32c(&out[..index]);
    out[ending + 12..ending + 16].copy_from_slice(&blocks_sum.to_le_bytes());
    out[ending + 25..ending + 28].copy_from_slice(b"\x01ST");
    let sum = crc32c::crc32c(&out[index..ending + 28]);
    out[ending + 28..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Loads untrusted bytes. A filter that loads can be used like any other.
fn load<P: Part, G: Growth>(
    bytes: &[u8],
    identity: HashIdentity,
    insert: impl Fn(&mut LayeredFilter<P, G>, KeyHash) -> bool,
) {
    let Ok(mut filter) = LayeredFilter::from_bytes(bytes.to_vec(), identity) else { return };
    let last = (0..20).map(KeyHash::mix).filter(|&hash| insert(&mut filter, hash)).last();
    let health = filter.health();
    assert!((0.0..=1.0).contains(&health.expected_fpr) && (0.0..=1.0).contains(&health.fill_ratio), "{health:?}");
    assert!(last.is_none_or(|hash| filter.contains(hash)), "the key that came last");
    let stored = filter.to_bytes().expect("it is small");
    LayeredFilter::<P, G>::from_bytes(stored, identity).expect("it was just written");
}

fn fill(input: &mut Unstructured<'_>) -> Result<()> {
    match input.int_in_range(0..=3)? {
        0 => late(input),
        1 => scalable::<StandardBloom>(input),
        2 => scalable::<RegisterBlockedBloom>(input),
        _ => rotating(input),
    }
}

fn keys(input: &mut Unstructured<'_>) -> Result<Vec<KeyHash>> {
    let (seed, count) = (input.arbitrary::<u8>()?, input.int_in_range(0..=60_u64)?);
    Ok((0..count).map(|index| KeyHash::mix(u64::from(seed) << 8 | index)).collect())
}

fn late(input: &mut Unstructured<'_>) -> Result<()> {
    let (Some(policy), hasher) = (pick::policy(input)?, KeyHasher::default()) else { return Ok(()) };
    let Some(mut builder) = policy.as_dyn().builder(&BuildContext::new(&hasher)) else { return Ok(()) };
    let mut held = keys(input)?;
    builder.add_hashes(&held);
    let Some(block) = builder.finish().block else { return Ok(()) };
    let (planned, rate) = (input.int_in_range(0..=MAX_PLANNED)?, pick::rate(input)?);
    let Ok(mut filter) = <LateKeys>::over(block, &hasher, planned, rate) else { return Ok(()) };
    while !input.is_empty() {
        for hash in keys(input)? {
            filter.insert(hash);
            held.push(hash);
        }
        filter = restored(input, &filter, &held)?;
    }
    Ok(())
}

fn scalable<P: Part>(input: &mut Unstructured<'_>) -> Result<()> {
    let (planned, rate) = (input.int_in_range(0..=MAX_PLANNED)?, pick::rate(input)?);
    let Ok(mut filter) = ScalableBloom::<P>::new(HashIdentity::default(), planned, rate) else { return Ok(()) };
    let mut held = Vec::new();
    while !input.is_empty() {
        for hash in keys(input)? {
            let was_in = filter.contains(hash);
            match filter.insert(hash) {
                Ok(is_new) => assert!(was_in != is_new),
                // The next part's rate is too low for its kind: nothing was inserted.
                Err(_) => continue,
            }
            held.push(hash);
        }
        filter = restored(input, &filter, &held)?;
    }
    Ok(())
}

/// A key is there until as many generations have begun since as there are.
fn rotating(input: &mut Unstructured<'_>) -> Result<()> {
    let (planned, generations) = (input.int_in_range(0..=MAX_PLANNED)?, input.int_in_range(2..=6_u16)?);
    let new = <RotatingBloom>::new(HashIdentity::default(), planned, generations, pick::rate(input)?);
    let Ok(mut filter) = new else { return Ok(()) };
    // Each key with the rotations before it.
    let (mut inserted, mut rotations) = (Vec::new(), 0);
    while !input.is_empty() {
        let is_by_number = input.arbitrary()?;
        if input.ratio(1, 4)? {
            filter.rotate();
            rotations += 1;
        }
        for hash in keys(input)? {
            if is_by_number && filter.is_full() {
                filter.rotate();
                rotations += 1;
            }
            filter.insert(hash);
            inserted.push((hash, rotations));
        }
        let held = inserted.iter().filter(|(_, before)| rotations - before < u64::from(generations));
        let held: Vec<_> = held.map(|(hash, _)| *hash).collect();
        filter = restored(input, &filter, &held)?;
    }
    Ok(())
}

/// The filter after it was stored, which holds the same keys; with a bit flipped it does not load.
fn restored<P: Part, G: Growth>(
    input: &mut Unstructured<'_>,
    filter: &LayeredFilter<P, G>,
    held: &[KeyHash],
) -> Result<LayeredFilter<P, G>> {
    let identity = HashIdentity::default();
    let bytes = filter.to_bytes().expect("it is small");
    let mut damaged = bytes.to_vec();
    let at = input.choose_index(damaged.len())?;
    damaged[at] ^= 1 << input.int_in_range(0..=7)?;
    assert!(LayeredFilter::<P, G>::from_bytes(damaged, identity).is_err(), "byte {at}");
    let restored = LayeredFilter::<P, G>::from_bytes(bytes.clone(), identity).expect("it was just written");
    assert_eq!(restored.to_bytes().expect("it is small"), bytes);
    let mut matches = MatchBitmap::default();
    for filter in [filter, &restored] {
        assert!(held.iter().all(|&hash| filter.contains(hash)));
        filter.contains_batch(held, &mut matches);
        assert_eq!(matches.count(), held.len() as u64);
    }
    Ok(restored)
}
