//! Exercises filters of several parts: any bytes, and these bytes under checksums that hold.

use sstfilter::layers::{Growth, Late, LayeredFilter, Part, Rotating, Scalable};
use sstfilter::{HashIdentity, KeyHash, KeyHasher, RegisterBlockedBloom, StandardBloom};

/// Loads the bytes as each type.
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
