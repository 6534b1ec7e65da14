//! Exercises sidecars: any bytes, these bytes under valid checksums, and sound sidecars damaged or opened for other
//! tables.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use sstfilter::{FileId, Filters, KeyHasher, KeyParts, LoadContext};
use sstfilter_store::{
    FileFilters, FilterMetadata, FilterPart, FilterStore, PartitionCut, PartitionOptions, TableIdentity,
};

use crate::container::Container;
use crate::{metadata, partitions, pick};

/// Opens the bytes as a sidecar, then builds a sidecar from them and damages it.
pub fn exercise(bytes: &[u8]) {
    open(bytes);
    open(&sealed(bytes));
    let _ = build_and_damage(&mut Unstructured::new(bytes));
}

/// The bytes with the magic numbers, a length of the filters that fits, one hash and file, and checksums that hold.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(at) = bytes.len().checked_sub(60) else { return out };
    let (body, end) = out.split_at_mut(at);
    let metadata_bytes = u32::from_le_bytes([end[36], end[37], end[38], end[39]]);
    if let Some(filters) = body.len().checked_sub(metadata_bytes as usize) {
        end[..8].copy_from_slice(&(filters as u64).to_le_bytes());
        let (filters, metadata) = body.split_at_mut(filters);
        metadata::seal_covered(metadata, filters);
        if let Some(header) = metadata.first_chunk::<44>() {
            end[20..36].copy_from_slice(&header[8..24]);
            end[49..52].fill(0);
            end[52] = header[24] << 4;
        }
        end[40..44].copy_from_slice(&crc32c::crc32c(metadata).to_le_bytes());
    }
    end[53..56].copy_from_slice(b"\x11SC");
    let sum = crc32c::crc32c(&end[..56]);
    end[56..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Opens untrusted bytes and exercises them in every way.
fn open(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let opened = FilterMetadata::of_any_sidecar(bytes, length);
    let Ok(tail_bytes) = FilterMetadata::sidecar_tail_bytes(bytes) else {
        assert!(opened.is_err(), "a tail of no length");
        return;
    };
    let Ok((metadata, table)) = opened else { return };
    let filters = bytes.len() - usize::try_from(tail_bytes).expect("it is in memory");
    let (filters, tail) = bytes.split_at(filters);
    let of_tail = FilterMetadata::of_any_sidecar(tail, length);
    assert_eq!(of_tail, Ok((metadata.clone(), table)), "the tail alone says the same");
    assert_eq!(FilterMetadata::decode(&metadata.encode()).as_ref(), Ok(&metadata), "written and read");
    assert_opens_for_its_table_alone(&metadata, table, tail, length);
    let file = FilterStore::default().open(metadata, Bytes::copy_from_slice(filters));
    for key in bytes.chunks(7).take(50) {
        let _ = (file.probe(key), file.may_contain_prefix(key), file.may_contain_range(key..=key));
    }
}

fn assert_opens_for_its_table_alone(metadata: &FilterMetadata, table: TableIdentity, tail: &[u8], length: u64) {
    assert_eq!(FilterMetadata::of_sidecar(tail, length, &table).as_ref(), Ok(metadata));
    let others = [
        TableIdentity::new(FileId::from_fingerprint(table.file.fingerprint() ^ 1), table.bytes, table.checksum),
        TableIdentity::new(table.file, table.bytes ^ 1, table.checksum),
        TableIdentity::new(table.file, table.bytes, table.checksum ^ 1),
    ];
    let is_refused = |other| FilterMetadata::of_sidecar(tail, length, other).is_err();
    assert!(others.iter().all(is_refused), "a sidecar of another table is used");
    assert!(FilterMetadata::of_sidecar(tail, length ^ 1, &table).is_err(), "a sidecar of another length is used");
}

fn build_and_damage(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 3] = input.arbitrary()?;
    let Some(policy) = pick::policy(input)? else { return Ok(()) };
    let (hasher, parts) = (pick::hasher(input)?, pick::key_parts(input)?);
    let table =
        TableIdentity::new(FileId::from_fingerprint(input.arbitrary()?), input.arbitrary()?, input.arbitrary()?);
    let mut store = FilterStore::new(Filters::default().with_hasher(hasher.clone()).with_key_parts(parts.clone()))
        .with_policy(policy);
    let cut = *input.choose(&[None, Some(PartitionCut::KeyRange), Some(PartitionCut::HashRange)])?;
    if let Some(cut) = cut {
        let options = PartitionOptions::new(cut, input.int_in_range(1 << 10..=4 << 10)?);
        store = store.with_partitions(options.expect("in range"));
    }
    let mut builder = store.sidecar_builder(&table);
    let keys = partitions::keys(input)?;
    keys.iter().for_each(|key| builder.add_key(key));
    let Some(file) = builder.finish().seal_sidecar() else { return Ok(()) };
    open(&file);
    let has_part = |key: &Vec<u8>| parts.extractors().any(|extractor| extractor.extract(key).is_some());
    if !parts.has_whole_keys() && !keys.iter().any(has_part) {
        // Without a key to check the extractors, a reader never probes the filter.
        return Ok(());
    }
    let contents = Contents { table, keys, parts, hasher, store };
    assert!(contents.are_served(&file), "a sound sidecar is not used");
    // Up to three bits: a checksum of 32 bits finds them.
    let mut damaged = file.to_vec();
    for bit in damage.map(|bit| bit as usize % (file.len() * 8)) {
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    open(&damaged);
    assert_eq!(contents.are_served(&damaged), damaged == file, "damage passes for sound");
    let cut = damage[0] as usize % file.len();
    assert!(
        !contents.are_served(&file[..cut]) && !contents.are_served(&file[file.len() - cut..]),
        "half a sidecar is used"
    );
    Ok(())
}

/// The source of a sidecar.
struct Contents {
    table: TableIdentity,
    keys: BTreeSet<Vec<u8>>,
    parts: KeyParts,
    hasher: KeyHasher,
    store: FilterStore,
}

impl Contents {
    /// Returns whether a reader that checks every byte uses the sidecar. If it does, no key may be lost.
    fn are_served(&self, file: &[u8]) -> bool {
        let Ok(metadata) = FilterMetadata::of_sidecar(file, file.len() as u64, &self.table) else { return false };
        let sections = metadata.sections();
        let is_partitioned = sections.iter().any(|section| section.part == FilterPart::PartitionedPoints);
        let filters = &file[..sections.iter().map(|section| section.bytes).sum::<u64>() as usize];
        let opened = self.store.open(metadata.clone(), Bytes::copy_from_slice(filters));
        self.assert_are_in(&opened);
        if !is_partitioned {
            return opened.problem().is_none();
        }
        let context = LoadContext::new(&self.hasher).with_key_parts(&self.parts);
        let container = Container::load(filters, context.with_file_id(self.table.file));
        opened.problem().is_none() && container.is_ok_and(|container| container.verify().is_ok())
    }

    /// Asserts that no key and no prefix is absent.
    fn assert_are_in(&self, filters: &FileFilters) {
        for key in &self.keys {
            assert!(!filters.probe(key).is_absent(), "lost {key:?}");
            for prefix in partitions::prefixes(key) {
                assert!(filters.may_contain_prefix(prefix), "lost {prefix:?} of {key:?}");
            }
        }
    }
}
