//! Sidecars: any bytes as one, the same bytes under checksums that hold, and sound ones damaged or opened for other
//! tables.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use sstfilter::partition::{PartitionCut, PartitionOptions, PartitionedFilter};
use sstfilter::sidecar::{Sidecar, SidecarBuilder, TableIdentity};
use sstfilter::{BuildContext, FilterReader, KeyHasher, KeyParts, LoadContext};

use crate::{partitions, pick};

/// Opens the bytes as a sidecar, and builds and damages one of what they say.
pub fn exercise(bytes: &[u8]) {
    open(bytes);
    open(&sealed(bytes));
    let _ = build_and_damage(&mut Unstructured::new(bytes));
}

/// The bytes with the magic number, a length of the filter that fits, and checksums that hold.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(at) = bytes.len().checked_sub(64) else { return out };
    let (body, trailer) = out.split_at_mut(at);
    let names = u32::from_le_bytes([trailer[40], trailer[41], trailer[42], trailer[43]]);
    if let Some(filter) = body.len().checked_sub(names as usize) {
        trailer[..8].copy_from_slice(&(filter as u64).to_le_bytes());
        trailer[36..40].copy_from_slice(&crc32c::crc32c(&body[..filter]).to_le_bytes());
        trailer[48..52].copy_from_slice(&crc32c::crc32c(&body[filter..]).to_le_bytes());
    }
    trailer[52..60].copy_from_slice(b"SSTFLTSC");
    let sum = crc32c::crc32c(&trailer[..60]);
    trailer[60..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Everything that can be done with untrusted bytes.
fn open(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let opened = Sidecar::open_for_any_table(bytes, length);
    let Ok(tail_bytes) = Sidecar::tail_bytes(bytes) else {
        assert!(opened.is_err(), "a tail of no length");
        return;
    };
    let Ok(sidecar) = opened else { return };
    let (filter, tail) = bytes.split_at(usize::try_from(sidecar.filter_bytes()).expect("it is in memory"));
    assert_eq!(tail.len() as u64, tail_bytes);
    assert_eq!(Sidecar::open_for_any_table(tail, length).as_ref(), Ok(&sidecar), "the tail alone says the same");
    assert!(sidecar.key_parts().map(|name| name.len() + 1).sum::<usize>() + 64 == tail.len());
    assert_opens_for_its_table_alone(&sidecar, tail, length);
    let hasher = KeyHasher::default();
    let context = LoadContext::new(&hasher).with_any_key_parts();
    if let Ok(block) = sidecar.load_filter(filter, context) {
        for key in bytes.chunks(7).take(50) {
            let _ = block.may_contain(hasher.hash(key));
        }
    }
    if let Ok(filter) = PartitionedFilter::load(filter, context.with_file_id(sidecar.table().file_id())) {
        partitions::probe(&filter, bytes, &hasher);
    }
}

fn assert_opens_for_its_table_alone(sidecar: &Sidecar, tail: &[u8], length: u64) {
    let table = *sidecar.table();
    assert_eq!(Sidecar::open(tail, length, &table).as_ref(), Ok(sidecar));
    let mut id = table.id;
    id[0] ^= 1;
    let others = [
        TableIdentity::new(id, table.bytes, table.checksum),
        TableIdentity::new(table.id, table.bytes ^ 1, table.checksum),
        TableIdentity::new(table.id, table.bytes, table.checksum ^ 1),
    ];
    assert!(
        others.iter().all(|other| Sidecar::open(tail, length, other).is_err()),
        "a sidecar of another table is used"
    );
    assert!(Sidecar::open(tail, length ^ 1, &table).is_err(), "a sidecar of another length is used");
}

fn build_and_damage(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 3] = input.arbitrary()?;
    let Some(policy) = pick::policy(input)? else { return Ok(()) };
    let (hasher, parts) = (pick::hasher(input)?, pick::key_parts(input)?);
    let table = TableIdentity::new(input.arbitrary()?, input.arbitrary()?, input.arbitrary()?);
    let context = BuildContext::new(&hasher).with_key_parts(parts.clone());
    let mut builder = SidecarBuilder::new(policy.shared(), &context, &table);
    let cut = *input.choose(&[None, Some(PartitionCut::KeyRange), Some(PartitionCut::HashRange)])?;
    if let Some(cut) = cut {
        let options = PartitionOptions::new(cut, input.int_in_range(1 << 10..=4 << 10)?);
        builder = builder.with_partitions(options.expect("in range"));
    }
    let keys = partitions::keys(input)?;
    keys.iter().for_each(|key| builder.add_key(key));
    let Some(file) = builder.finish().expect("a filter that readers use").bytes else { return Ok(()) };
    open(&file);
    let contents = Contents { table, keys, parts, hasher };
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

/// What a sidecar was built of.
struct Contents {
    table: TableIdentity,
    keys: BTreeSet<Vec<u8>>,
    parts: KeyParts,
    hasher: KeyHasher,
}

impl Contents {
    /// Whether a reader that checks every byte uses the sidecar, which then has all keys.
    fn are_served(&self, file: &[u8]) -> bool {
        let Ok(sidecar) = Sidecar::open(file, file.len() as u64, &self.table) else { return false };
        let filter = &file[..usize::try_from(sidecar.filter_bytes()).expect("it is in memory")];
        let context = LoadContext::new(&self.hasher).with_key_parts(&self.parts);
        if let Ok(block) = sidecar.load_filter(filter, context) {
            self.assert_are_in(&FilterReader::from(Ok(block)));
            return true;
        }
        let Ok(filter) = PartitionedFilter::load(filter, context.with_file_id(self.table.file_id())) else {
            return false;
        };
        partitions::assert_holds(&filter, &self.keys, &self.hasher, &self.parts);
        sidecar.check_filter(filter.as_bytes()).is_ok()
    }

    /// Neither a key nor a prefix is absent.
    fn assert_are_in(&self, filter: &FilterReader<&[u8]>) {
        for key in &self.keys {
            assert!(!filter.probe_key(key, self.hasher.hash(key)).is_absent(), "lost {key:?}");
            for prefix in partitions::prefixes(key) {
                let prepared = self.parts.prefix(&self.hasher, prefix);
                assert!(!filter.probe_prefix(&prepared).is_absent(), "lost {prefix:?} of {key:?}");
            }
        }
    }
}
