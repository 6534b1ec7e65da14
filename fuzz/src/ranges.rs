//! Range filters: built from any keys with both maps and compared with a sorted set, damaged, and forged.

use core::ops::Bound;
use std::collections::BTreeSet;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use sstfilter::{BuildContext, KeyExtractor, KeyHasher, KeyRange, MatchBitmap};
use sstfilter_range::{RangeContext, RangeFilter, RangeInfo, RangePolicy, RangeUnits};

use crate::block_forge::Parts;
use crate::pick;

type Key = Vec<u8>;

/// Builds a filter from the bytes, compares it with its keys, damages it, and forges others from it.
pub fn exercise(bytes: &[u8]) {
    open(bytes, &Reader::default());
    let _ = build_and_damage(&mut Unstructured::new(bytes));
}

/// The settings of a reader.
#[derive(Default)]
struct Reader {
    hasher: KeyHasher,
    extractor: Option<Arc<dyn KeyExtractor>>,
}

impl Reader {
    fn context(&self) -> RangeContext<'_> {
        RangeContext::new(&self.hasher, self.extractor.as_ref())
    }
}

/// Opens untrusted bytes, and probes them for ranges between parts of the bytes.
fn open(bytes: &[u8], reader: &Reader) {
    if let Ok(info) = RangeInfo::of_block(bytes) {
        assert!((0.0..=1.0).contains(&info.expected_fpr(7)) && info.block_bytes == bytes.len() as u64);
    }
    let Ok(filter) = RangeFilter::load(bytes, reader.context()) else { return };
    let ends: Vec<Key> = bytes.chunks(5).take(12).map(<[u8]>::to_vec).chain([vec![], vec![0xff; 17]]).collect();
    assert_agrees_with_batch(&filter, &ends);
    for end in &ends {
        if let Some(bound) = filter.seek_hint(end) {
            assert!(bound >= *end && bound.len() <= bytes.len() + 32, "a bound of {} bytes", bound.len());
        }
    }
}

fn bounds(ends: &[Key]) -> Vec<Bound<&[u8]>> {
    let both = ends.iter().flat_map(|end| [Bound::Included(&end[..]), Bound::Excluded(&end[..])]);
    [Bound::Unbounded].into_iter().chain(both).collect()
}

fn all_ranges(ends: &[Key]) -> Vec<KeyRange<'_>> {
    let bounds = bounds(ends);
    bounds.iter().flat_map(|&lower| bounds.iter().map(move |&upper| KeyRange { lower, upper })).collect()
}

fn assert_agrees_with_batch(filter: &RangeFilter<&[u8]>, ends: &[Key]) {
    let ranges = all_ranges(ends);
    let mut matches = MatchBitmap::default();
    filter.may_contain_range_batch(&ranges, &mut matches);
    for (index, range) in ranges.iter().enumerate() {
        assert_eq!(filter.may_contain_range(*range), matches.may_contain(index), "{range:?}");
    }
}

fn build_and_damage(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 3] = input.arbitrary()?;
    let forgery: [u16; 6] = input.arbitrary()?;
    let (hasher, Some(policy)) = (pick::hasher(input)?, policy(input)?) else { return Ok(()) };
    let reader = Reader { hasher, extractor: policy.extractor().cloned() };
    let ends = ends(input)?;
    let keys = keys(input)?;
    let mut builder = policy.builder(&BuildContext::new(&reader.hasher));
    keys.iter().for_each(|key| builder.add_key(key));
    let Some(block) = builder.finish().block else { return Ok(()) };
    let filter = RangeFilter::load(&block[..], reader.context()).expect("it was just built");
    assert_eq!(filter.info().keys, keys.len() as u64);
    assert_holds(&filter, &keys, &ends);
    assert_holds(&filter, &keys, &beside(&keys));
    // Up to three bits: a checksum of 32 bits finds them.
    let mut damaged = block.to_vec();
    for bit in damage.map(|bit| bit as usize % (block.len() * 8)) {
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(RangeFilter::load(&damaged[..], reader.context()).is_ok(), damaged == block, "damage passes for sound");
    forge(&block, forgery, &reader);
    Ok(())
}

/// The block with changed parameters and payload, under checksums that hold.
fn forge(block: &[u8], changes: [u16; 6], reader: &Reader) {
    let mut parts = Parts::of(block);
    for (number, change) in changes.into_iter().enumerate() {
        let value = [change.into(), u32::from(change) << 16, u32::MAX - u32::from(change), 1 << (change % 32)];
        if number < 3 {
            parts.set_payload_word(change.into(), value[usize::from(change >> 8 & 3)]);
            open(&parts.clone().seal(), reader);
        } else {
            let mut forged = parts.clone();
            forged.set_param(usize::from(change % 7), value[usize::from(change >> 8 & 3)]);
            open(&forged.clone().seal(), reader);
            forged.fit_range_payload(1 << 16);
            open(&forged.seal(), reader);
        }
    }
}

/// Any policy; `None` for those that the library refuses.
fn policy(input: &mut Unstructured<'_>) -> Result<Option<RangePolicy>> {
    let rate = pick::rate(input)?;
    if input.arbitrary()? {
        return Ok(RangePolicy::ordered(rate).ok());
    }
    let bytes = input.int_in_range(1..=8)?;
    let units = RangeUnits::integer(bytes).expect("in range");
    let units = units.with_granularity_bits(input.int_in_range(0..=bytes * 8 - 1)?).expect("in range");
    let units = if input.arbitrary()? { units.with_prefix(pick::extractor(input)?) } else { units };
    let longest = input.arbitrary::<u64>()? >> input.int_in_range(0..=63)?;
    Ok(RangePolicy::hashed(units, longest, rate).ok())
}

/// A string of few letters, among them both extremes, or of any bytes.
fn string(input: &mut Unstructured<'_>) -> Result<Key> {
    if input.arbitrary()? {
        return input.arbitrary();
    }
    let length = input.int_in_range(0..=6)?;
    (0..length).map(|_| Ok([0, 1, b':', 0xff][usize::from(input.arbitrary::<u8>()? & 3)])).collect()
}

fn ends(input: &mut Unstructured<'_>) -> Result<Vec<Key>> {
    let count = input.int_in_range(0..=5)?;
    (0..count).map(|_| string(input)).collect()
}

/// Some keys, and runs of neighbours, so that few bytes make several lines.
fn keys(input: &mut Unstructured<'_>) -> Result<BTreeSet<Key>> {
    let prefix = if input.ratio(1, 4)? { string(input)? } else { Vec::new() };
    let length: Option<u8> = input.arbitrary()?;
    let mut keys = BTreeSet::new();
    while !input.is_empty() && keys.len() < 3_000 {
        let (start, behind, step) = (string(input)?, string(input)?, input.int_in_range(1..=40_u16)?);
        let run = if input.arbitrary()? { input.int_in_range(0..=400_u16)? } else { 1 };
        for number in 0..run {
            let number = number.wrapping_mul(step);
            let own = if run > 1 { vec![(number >> 8) as u8, number as u8] } else { Vec::new() };
            let mut key = [&prefix[..], &start, &own, &behind].concat();
            // All keys of one length, if the input says so.
            length.iter().for_each(|&length| key.resize(usize::from(length % 24), 0));
            keys.insert(key);
        }
    }
    Ok(keys)
}

/// Returns neighbours of some of the keys.
fn beside(keys: &BTreeSet<Key>) -> Vec<Key> {
    let some = keys.iter().step_by(keys.len() / 3 + 1).chain(keys.last());
    let of_key = |key: &Key| {
        let mut raised = key.clone();
        raised.iter_mut().next_back().into_iter().for_each(|last| *last = last.wrapping_add(1));
        let shorter = key[..key.len().saturating_sub(1)].to_vec();
        [key.clone(), [key, &[0][..]].concat(), raised, shorter]
    };
    some.flat_map(of_key).collect()
}

/// Asserts that no range loses a key, and no lower bound passes one.
fn assert_holds(filter: &RangeFilter<&[u8]>, keys: &BTreeSet<Key>, ends: &[Key]) {
    let sorted: Vec<&Key> = keys.iter().collect();
    for range in all_ranges(ends) {
        let first = sorted.partition_point(|key| match range.lower {
            Bound::Included(lower) => &key[..] < lower,
            Bound::Excluded(lower) => &key[..] <= lower,
            Bound::Unbounded => false,
        });
        let has_key = sorted.get(first).is_some_and(|key| range.contains(key));
        assert!(filter.may_contain_range(range) || !has_key, "{range:?} holds {:?}", sorted[first]);
        assert!(!filter.is_exact() || filter.may_contain_range(range) == has_key, "{range:?} holds nothing");
    }
    for end in ends {
        let next = keys.range(end.clone()..).next();
        match filter.seek_hint(end) {
            None => assert_eq!(next, None, "from {end:?}"),
            Some(bound) => {
                assert!(bound >= *end && next.is_none_or(|next| bound <= *next), "from {end:?}: {bound:?}, {next:?}");
            }
        }
    }
    for key in sorted.iter().step_by(sorted.len() / 200 + 1) {
        assert!(filter.may_contain_range(&key[..]..=&key[..]) && filter.may_contain(key), "{key:?} is lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_pass() {
        for entry in std::fs::read_dir("../fixtures/v1").unwrap() {
            exercise(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
}
