//! Stored filters of several parts, rebuilt byte for byte and read back.

use bytes::Bytes;
use sstfilter::layers::{
    Growth, Late, LateKeys, LayeredFilter, Part, Rotating, RotatingBloom, Scalable, ScalableBloom,
};
use sstfilter::{
    BuildContext, FalsePositiveRate, FileId, FixedPolicy, KeyHash, KeyHasher, LoadContext, RegisterBlockedBloom,
    StandardBloom,
};

use crate::common::cases::{self, directory, key};
use crate::common::golden::{check_file, is_regenerating};

/// Names of the files, and the keys that each must contain.
const FILES: [(&str, u32, u32); 3] = [
    ("layers-scalable.layers", 0, 1_000),
    ("layers-rotating.layers", 800, 1_000),
    ("layers-late-bound-to-file-7.layers", 0, 400),
];

fn hashes(first: u32, last: u32) -> Vec<KeyHash> {
    (first..last).map(|number| KeyHasher::default().hash(&key(number))).collect()
}

fn rate(rate: f64) -> FalsePositiveRate {
    FalsePositiveRate::new(rate).unwrap()
}

fn file() -> FileId {
    FileId::new(&7_u64.to_le_bytes()).unwrap()
}

fn built() -> [Bytes; 3] {
    let hasher = KeyHasher::default();
    let mut scalable = <ScalableBloom>::new(hasher.identity(), 100, rate(0.05)).unwrap();
    let mut rotating = RotatingBloom::<RegisterBlockedBloom>::new(hasher.identity(), 100, 3, rate(0.25)).unwrap();
    for hash in hashes(0, 1_000) {
        scalable.insert(hash).unwrap();
        if rotating.is_full() {
            rotating.rotate();
        }
        rotating.insert(hash);
    }
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_file_id(file()));
    builder.add_hashes(&hashes(0, 300));
    let (block, context) = (builder.finish().block.unwrap(), LoadContext::new(&hasher).with_file_id(file()));
    let mut late = <LateKeys>::over(block, context, 100, rate(0.01)).unwrap();
    hashes(300, 400).into_iter().for_each(|hash| _ = late.insert(hash));
    [scalable.to_bytes().unwrap(), rotating.to_bytes().unwrap(), late.to_bytes().unwrap()]
}

// promise: same-bytes
#[test]
fn stored_layers_are_built_as_they_were_byte_for_byte() {
    for ((name, ..), bytes) in FILES.into_iter().zip(built()) {
        check_file(&directory().join(name), &bytes);
    }
}

/// Loads a file and looks for its keys, and returns how many absent ones it seems to contain.
fn check<P: Part, G: Growth>((name, first, last): (&str, u32, u32), context: LoadContext<'_>) -> usize {
    let bytes = std::fs::read(directory().join(name)).unwrap();
    let filter = LayeredFilter::<P, G>::from_bytes(bytes, context).unwrap();
    assert!(hashes(first, last).into_iter().all(|hash| filter.contains(hash)), "{name}");
    let absent = (0..2_000).map(|number| KeyHasher::default().hash(&cases::absent_key(number)));
    absent.filter(|&hash| filter.contains(hash)).count()
}

// promise: stays-readable
#[test]
fn every_key_of_stored_layers_is_found() {
    if is_regenerating() {
        return;
    }
    let hasher = KeyHasher::default();
    let context = LoadContext::new(&hasher);
    let positives = [
        check::<StandardBloom, Scalable>(FILES[0], context),
        check::<RegisterBlockedBloom, Rotating>(FILES[1], context),
        check::<StandardBloom, Late>(FILES[2], context.with_file_id(file())),
    ];
    let most = [0.05_f64, 0.25, 0.02].map(|rate| 2_000.0 * rate + 4.0 * (2_000.0 * rate).sqrt());
    assert!(positives.iter().zip(most).all(|(found, most)| *found as f64 <= most), "{positives:?} of at most {most:?}");
}
