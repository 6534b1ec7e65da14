//! The failure guarded against: a description or the end of a sidecar claims lengths and numbers under a valid checksum,
//! and the reader panics, or allocates what they claim.

use bytes::Bytes;
use sstfilter::FileId;
use sstfilter_store::{FilterMetadata, FilterStore, TableIdentity};

use crate::allocator::{alone, measure};
use crate::common::effort;
use crate::common::random::Random;
use crate::descriptions::{crc, descriptions, sealed};

// promise: safe-to-open
#[test]
fn a_description_with_any_byte_changed_and_a_checksum_that_holds_never_panics_nor_allocates_much() {
    let _alone = alone();
    let values = effort::stride(51);
    for description in descriptions() {
        let bytes = description.encode();
        for at in 0..bytes.len() - 4 {
            for value in (0..=255).step_by(values) {
                let mut changed = bytes.clone();
                changed[at] = value;
                let changed = sealed(changed);
                let (decoded, allocated) = measure(|| FilterMetadata::decode(&changed));
                assert!(allocated < 16 * bytes.len() + 4_096, "{allocated} bytes for {at} = {value}");
                if let Ok(decoded) = decoded {
                    // No field is believed: opening, probing and encoding it again do not panic.
                    let file = FilterStore::default().open(decoded.clone(), Bytes::from_static(&[7; 300]));
                    let _ = (file.probe(b"t:00001"), file.may_contain_prefix(b"t"), file.may_contain_range(..));
                    assert_eq!(FilterMetadata::decode(&decoded.encode()), Ok(decoded));
                }
            }
        }
    }
}

// promise: safe-to-open
#[test]
fn random_bytes_are_no_description_and_no_sidecar() {
    let _alone = alone();
    let mut random = Random::new(1);
    let table = TableIdentity::new(FileId::from([1; 16]), 2, 3);
    for _ in 0..20_000 / effort::stride(10) {
        let mut bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next().to_le_bytes()[0]).collect();
        if random.one_in(2) && bytes.len() >= 48 {
            bytes[..6].copy_from_slice(b"SFMD\x01\x07");
            bytes = sealed(bytes);
        }
        let (_, first) = measure(|| FilterMetadata::decode(&bytes));
        if random.one_in(2) && bytes.len() >= 64 {
            let end = bytes.len() - 60;
            bytes[end + 53..end + 56].copy_from_slice(b"\x11SC");
            bytes[end + 36..end + 40].copy_from_slice(&u32::try_from(end).unwrap().to_le_bytes());
            let of_description = crc(&bytes[..end]);
            bytes[end + 40..end + 44].copy_from_slice(&of_description);
            let sum = crc(&bytes[end..end + 56]);
            bytes[end + 56..].copy_from_slice(&sum);
        }
        let length = bytes.len() as u64;
        let (_, second) = measure(|| FilterMetadata::sidecar_tail_bytes(&bytes));
        let (_, third) = measure(|| FilterMetadata::of_sidecar(&bytes, length, &table));
        assert!(first.max(second).max(third) < 16_384, "{first} {second} {third}");
    }
}
