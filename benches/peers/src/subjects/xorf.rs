//! `xorf`: Xor and binary fuse filters.

use xorf::{BinaryFuse8, BinaryFuse16, DmaSerializable, Filter, Xor8};

use crate::subject::{BuildResult, Family, Label, Subject, built};

pub(super) fn subjects() -> [Box<dyn Subject>; 3] {
    let label = |kind, against| Label::of("xorf", kind, Family::Static, against);
    [
        label("Xor8", "Xor, 8").built_by(|keys| {
            let filter = Xor8::from(keys.numbers);
            // The fingerprints, the seed and the block length.
            let bytes = filter.fingerprints.len() + 16;
            built(filter, bytes, |filter, hash| filter.contains(&hash))
        }),
        label("BinaryFuse8", "BinaryFuse 3-wise, 8").built_by(|keys| fuse(BinaryFuse8::try_from(keys.numbers)?)),
        label("BinaryFuse16", "BinaryFuse 3-wise, 16").built_by(|keys| fuse(BinaryFuse16::try_from(keys.numbers)?)),
    ]
}

fn fuse<F: Filter<u64> + DmaSerializable + 'static>(filter: F) -> BuildResult {
    let bytes = filter.dma_fingerprints().len() + F::DESCRIPTOR_LEN;
    built(filter, bytes, |filter, hash| filter.contains(&hash))
}
