//! Exercises partitioned filters: any bytes as a container, and sound containers damaged.

use std::collections::BTreeSet;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use sstfilter::{BlockError, BuildContext, FixedPrefix, KeyHasher, KeyParts, LoadContext};
use sstfilter_store::{FilterProblem, PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder};

use crate::container::Container;
use crate::pick;

/// Opens the bytes as a container, and builds and damages one of what they say.
pub fn exercise(bytes: &[u8]) {
    open(bytes, &KeyHasher::default());
    open(&sealed(bytes), &KeyHasher::default());
    let _ = build_and_damage(&mut Unstructured::new(bytes));
}

/// The bytes with the magic number of a container, and with checksums of its end and its top index that hold.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(at) = bytes.len().checked_sub(32) else { return out };
    out[at + 26..at + 28].copy_from_slice(b"SP");
    let flags = bytes[at + 25] >> 4;
    let end = at.saturating_sub(if flags & 1 == 0 { 0 } else { 8 });
    let extractors = bytes[..end].last_chunk().map_or(0, |&[extractors, ..]: &[u8; 4]| usize::from(extractors));
    let end = end.saturating_sub(if flags & 4 == 0 { 0 } else { 4 + extractors * 8 });
    let index_bytes = u32::from_le_bytes([bytes[at + 8], bytes[at + 9], bytes[at + 10], bytes[at + 11]]);
    let index = &bytes[end.saturating_sub(index_bytes as usize)..end];
    out[at + 12..at + 16].copy_from_slice(&crc32c::crc32c(index).to_le_bytes());
    let sum = crc32c::crc32c(&out[end..at + 28]);
    out[at + 28..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Opens untrusted bytes and exercises them in every way.
fn open(bytes: &[u8], hasher: &KeyHasher) {
    let _ = PartitionIndex::tail_bytes(bytes);
    let _ = PartitionIndex::load(bytes, hasher);
    if let Ok(filter) = Container::load(bytes, LoadContext::new(hasher).with_any_key_parts()) {
        probe(&filter, bytes, hasher);
    }
}

/// Exercises a filter opened from untrusted bytes. The keys are made of `bytes`.
pub(crate) fn probe(filter: &Container, bytes: &[u8], hasher: &KeyHasher) {
    let _ = (filter.verify(), filter.problems().len(), filter.index.lower_bound(filter.index.partitions()));
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(2)));
    assert!(filter.index.memory_bytes() <= 8 * bytes.len() + 512, "an index larger than its bytes explain");
    for key in bytes.chunks(7).take(50) {
        let (number, _) = filter.index.locate(key, hasher.hash(key));
        assert_eq!(number < filter.index.partitions(), filter.index.has_whole_keys());
        let _ = filter.may_contain(key, hasher.hash(key));
        let prefix = parts.prefix(hasher, key);
        match filter.index.partitions_with_prefix(&prefix) {
            Ok(places) => assert!(places.count() <= filter.index.partitions() as usize),
            Err(_) => assert!(filter.may_contain_prefix(&prefix), "absent by a part that it does not hold"),
        }
    }
}

fn build_and_damage(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 3] = input.arbitrary()?;
    let Some(policy) = pick::policy(input)? else { return Ok(()) };
    let cut = *input.choose(&[PartitionCut::KeyRange, PartitionCut::HashRange])?;
    let options = PartitionOptions::new(cut, input.int_in_range(1 << 10..=4 << 10)?).expect("in range");
    let (hasher, parts) = (pick::hasher(input)?, pick::key_parts(input)?);
    let read = if input.ratio(1, 4)? { pick::key_parts(input)? } else { parts.clone() };
    let keys = keys(input)?;
    let context = BuildContext::new(&hasher).with_key_parts(parts.clone());
    let mut builder = PartitionedBuilder::new(policy, &context, options);
    keys.iter().for_each(|key| builder.add_key(key));
    let built = builder.finish();
    let bytes = built.report.block_bytes;
    let Some(mut container) = built.block.map(|container| container.to_vec()) else { return Ok(()) };
    assert_eq!(container.len() as u64, bytes);
    let known: Vec<&[u8]> = keys.first().into_iter().chain(keys.last()).map(Vec::as_slice).collect();
    let context = LoadContext::new(&hasher).with_known_keys(&known);
    let sound = Container::load(&container[..], context.with_key_parts(&parts)).expect("it was just built");
    sound.verify().expect("it was just built");
    assert_holds(&sound, &keys, &hasher, &parts);
    let context = context.with_key_parts(&read);
    match Container::load(&container[..], context) {
        Ok(filter) => assert_holds(&filter, &keys, &hasher, &read),
        Err(error) => assert!(matches!(error, FilterProblem::Block(BlockError::ExtractorMismatch { .. })), "{error}"),
    }
    open(&container, &hasher);
    // Up to three bits: a checksum of 32 bits finds them.
    let sound = container.clone();
    for bit in damage.map(|bit| bit as usize % (container.len() * 8)) {
        container[bit / 8] ^= 1 << (bit % 8);
    }
    if let Ok(damaged) = Container::load(&container[..], context) {
        assert_eq!(damaged.verify().is_ok(), container == sound, "damage passes for sound");
        assert_holds(&damaged, &keys, &hasher, &read);
    }
    Ok(())
}

/// Some keys, and runs of neighbours, so that few bytes make several partitions.
pub(crate) fn keys(input: &mut Unstructured<'_>) -> Result<BTreeSet<Vec<u8>>> {
    let mut keys = BTreeSet::new();
    while !input.is_empty() && keys.len() < 6_000 {
        let key: Vec<u8> = input.arbitrary()?;
        let run = input.int_in_range(0..=1_500_u16)?;
        keys.extend((0..run).map(|number| [&key[..], &[(number >> 8) as u8, number as u8]].concat()));
        keys.insert(key);
    }
    Ok(keys)
}

/// Some prefixes of a key, from none of it to all.
pub(crate) fn prefixes(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    [0, 2, key.len() / 2, key.len()].into_iter().filter_map(|length| key.get(..length))
}

/// Asserts that no key and no prefix is absent for a reader of these parts.
pub(crate) fn assert_holds(filter: &Container, keys: &BTreeSet<Vec<u8>>, hasher: &KeyHasher, read: &KeyParts) {
    for key in keys {
        assert!(filter.may_contain(key, hasher.hash(key)), "lost {key:?}");
        for prefix in prefixes(key) {
            assert!(filter.may_contain_prefix(&read.prefix(hasher, prefix)), "lost {prefix:?} of {key:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn containers() -> impl Iterator<Item = Vec<u8>> {
        let fixtures = std::fs::read_dir("../fixtures/v1").unwrap().map(|entry| entry.unwrap().path());
        let is_container = |path: &std::path::PathBuf| path.to_string_lossy().contains("/partitioned-");
        fixtures.filter(is_container).map(|path| std::fs::read(path).unwrap())
    }

    #[test]
    fn fixtures_sealed_again_are_what_they_were() {
        assert_eq!(containers().filter(|container| sealed(container) == *container).count(), 7);
    }

    #[test]
    fn fixtures_and_forged_ends_of_them_pass() {
        for container in containers() {
            exercise(&container);
            for at in container.len() - 60..container.len() {
                exercise(&[&container[..at], &[container[at] ^ 1], &container[at + 1..]].concat());
            }
        }
    }
}
