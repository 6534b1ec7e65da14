//! Exercises partitioned filters: any bytes as a container, also under checksums that hold.

use std::sync::Arc;

use sstfilter::{FixedPrefix, KeyHasher, KeyParts, LoadContext};
use sstfilter_store::PartitionIndex;

use crate::container::Container;

/// Opens the bytes as a container, unchanged, and under checksums that hold.
pub fn exercise(bytes: &[u8]) {
    open(bytes, &KeyHasher::default());
    open(&sealed(bytes), &KeyHasher::default());
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
fn probe(filter: &Container, bytes: &[u8], hasher: &KeyHasher) {
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
