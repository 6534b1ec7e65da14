//! Descriptions of filters, and changed ones under valid checksums.

use std::sync::Arc;

use sstfilter::{DelimitedPrefix, FalsePositiveRate, FileId, Filters, FixedPrefix, KeyHasher, KeyParts, SecretSeed};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{FilterMetadata, FilterStore, PartitionCut, PartitionOptions};

pub(crate) fn crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// Replaces the checksum of a description by a valid one.
pub(crate) fn sealed(mut description: Vec<u8>) -> Vec<u8> {
    let end = description.len() - 4;
    let sum = crc(&description[..end]);
    description[end..].copy_from_slice(&sum);
    description
}

/// Range filters inside prefixes of two bytes.
pub(crate) fn ranges() -> RangePolicy {
    let units = RangeUnits::integer(4).unwrap().with_prefix(Arc::new(FixedPrefix::new(2)));
    RangePolicy::hashed(units, 16, FalsePositiveRate::new(0.01).unwrap()).unwrap()
}

/// Returns descriptions with every field in use, and with few.
pub(crate) fn descriptions() -> Vec<FilterMetadata> {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    let full = FilterStore::new(Filters::default().with_key_parts(parts)).with_range_filters(ranges());
    let full = full.with_partitions(PartitionOptions::new(PartitionCut::KeyRange, 1 << 10).unwrap());
    let secret =
        FilterStore::new(Filters::default().with_hasher(KeyHasher::with_secret_seed(SecretSeed::from_bytes([3; 8]))));
    let described = |store: &FilterStore, keys: &[String], has_tombstone: bool| {
        let mut builder = store.builder(FileId::random());
        keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
        if has_tombstone {
            builder.add_range_tombstone(b"b", b"c");
        }
        builder.finish().seal().1
    };
    // Neither the smallest nor the largest key has a part.
    let tagged = (0..900).map(|number| format!("t:{number:05}"));
    let keys: Vec<String> = ["a".into()].into_iter().chain(tagged).chain(["z".into()]).collect();
    vec![
        described(&full, &keys, false),
        described(&full, &keys, true),
        described(&secret, &keys[..9], true),
        described(&secret, &[], false),
        secret.open_without_description(..).metadata().as_ref().clone(),
        secret.open_without_description(&b"a"[..]..&b"b"[..]).metadata().as_ref().clone(),
    ]
}
