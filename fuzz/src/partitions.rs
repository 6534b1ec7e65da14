//! Partitioned filters: any bytes as a container, and sound ones damaged.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use sstfilter::partition::{PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder, PartitionedFilter};
use sstfilter::{BuildContext, KeyHash, KeyHasher};

use crate::pick;

/// Opens the bytes as a container, and builds and damages one of what they say.
pub fn exercise(bytes: &[u8]) {
    open(bytes, &KeyHasher::default());
    let _ = build_and_damage(&mut Unstructured::new(bytes));
}

/// Everything that can be done with untrusted bytes.
fn open(bytes: &[u8], hasher: &KeyHasher) {
    let _ = PartitionIndex::tail_bytes(bytes);
    let _ = PartitionIndex::load(bytes, hasher);
    if let Ok(filter) = PartitionedFilter::load(bytes, hasher) {
        probe(&filter, bytes, hasher);
    }
}

/// Everything that can be done with a filter that was opened from untrusted bytes. The keys are made of `bytes`.
pub(crate) fn probe(filter: &PartitionedFilter<&[u8]>, bytes: &[u8], hasher: &KeyHasher) {
    let _ = (filter.verify(), filter.problems().count(), filter.index().entries().count());
    assert!(filter.index().memory_bytes() <= 8 * bytes.len() + 512, "an index larger than its bytes explain");
    for key in bytes.chunks(7).take(50) {
        let place = filter.index().place(key, hasher.hash(key));
        assert!(place.number < filter.index().partitions());
        let _ = filter.may_contain(key, hasher.hash(key));
        let places = filter.index().places_with_prefix(key, hasher.hash(key));
        assert!(places.count() <= filter.index().partitions() as usize);
    }
}

fn build_and_damage(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 3] = input.arbitrary()?;
    let Some(policy) = pick::policy(input)? else { return Ok(()) };
    let cut = *input.choose(&[PartitionCut::KeyRange, PartitionCut::HashRange])?;
    let options = PartitionOptions::new(cut, input.int_in_range(1 << 10..=4 << 10)?).expect("in range");
    let hasher = pick::hasher(input)?;
    let aux: u8 = input.arbitrary()?;
    let keys = keys(input)?;
    let mut builder = PartitionedBuilder::new(policy.shared(), &BuildContext::new(&hasher), options);
    for key in &keys {
        builder.add(key, &[hasher.hash(key), prefix_hash(&hasher, key)]);
    }
    let mut built = builder.finish();
    for number in 0..built.partitions().min(aux.into()) {
        built.set_aux(number, &vec![aux; usize::from(aux)]).expect("a partition that exists");
    }
    let bytes = built.report().block_bytes;
    let Some(mut container) = built.seal().map(|container| container.to_vec()) else { return Ok(()) };
    assert_eq!(container.len() as u64, bytes);
    let sound = PartitionedFilter::load(&container[..], &hasher).expect("it was just built");
    sound.verify().expect("it was just built");
    assert_holds(&sound, &keys, &hasher);
    open(&container, &hasher);
    // Up to three bits: a checksum of 32 bits finds them.
    let sound = container.clone();
    for bit in damage.map(|bit| bit as usize % (container.len() * 8)) {
        container[bit / 8] ^= 1 << (bit % 8);
    }
    if let Ok(damaged) = PartitionedFilter::load(&container[..], &hasher) {
        assert_eq!(damaged.verify().is_ok(), container == sound, "damage passes for sound");
        assert_holds(&damaged, &keys, &hasher);
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

fn prefix(key: &[u8]) -> &[u8] {
    &key[..key.len().min(2)]
}

fn prefix_hash(hasher: &KeyHasher, key: &[u8]) -> KeyHash {
    hasher.hash(prefix(key))
}

fn assert_holds(filter: &PartitionedFilter<&[u8]>, keys: &BTreeSet<Vec<u8>>, hasher: &KeyHasher) {
    for key in keys {
        assert!(filter.may_contain(key, hasher.hash(key)), "lost {key:?}");
        assert!(filter.may_contain_prefix(prefix(key), prefix_hash(hasher, key)), "lost the prefix of {key:?}");
        filter.check_known_key(key, hasher.hash(key)).expect("it holds the key");
    }
}
