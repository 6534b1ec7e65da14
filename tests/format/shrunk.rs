//! Shrunk fixtures. The failure guarded against: a block shrinks to other bytes on another platform, with another
//! instruction set, or in another version, so that copies of one table differ.

use sstfilter::FilterBlock;

use crate::common::cases::BLOCKS;
use crate::common::for_each_set;

/// The fixtures that shrink, the number of sizes at which they do, and the CRC32C of these blocks, concatenated.
const SHRUNK: &[(&str, usize, u32)] = &[
    ("bloom-1000-keys-10-bits", 18, 0xf1fe_a164),
    ("bloom-1000-keys-16-bits", 16, 0x3b1e_b3e3),
    ("bloom-custom-hash", 15, 0xa0ab_135d),
    ("bloom-secret-seed", 15, 0x148a_ed12),
    ("ribbon-1024-keys-1-percent", 19, 0x56f0_3e2f),
    ("ribbon-two-layers", 19, 0x1d9d_a67f),
    ("ribbon-20000-keys-01-percent", 23, 0xfd2f_7dbd),
    ("ribbon-32-columns", 45, 0x5f98_0b89),
    ("ribbon-fallen-back-to-bloom", 12, 0x0f15_edb6),
    ("line-ribbon-fallen-back-to-bloom", 12, 0xaac0_7043),
    ("bloom-bound-to-file-7", 6, 0xccbb_41e8),
    ("bloom-three-parts-bound-to-file-10", 14, 0xddf9_2b31),
    ("bloom-prefixes-alone", 6, 0x1479_5435),
];

/// The block at each of its steps, and at each sixteenth of its size.
fn shrunk(bytes: &[u8]) -> Vec<bytes::Bytes> {
    let block = FilterBlock::open_unverified(bytes).unwrap();
    let parts = |bytes: &[u8]| {
        let info = FilterBlock::open_unverified(bytes).unwrap().info();
        (info.whole_keys, info.extractors)
    };
    let steps = block.shrink_steps().into_iter().map(|(bytes, _)| bytes);
    let sizes = steps.chain((1..16).map(|share| bytes.len() as u64 * share / 16));
    let shrunk: Vec<_> = sizes.filter_map(|size| block.shrink_to(size).map(FilterBlock::into_inner).ok()).collect();
    assert!(shrunk.iter().all(|shrunk| parts(shrunk) == parts(bytes)), "the parts of keys that it holds");
    shrunk
}

// promise: limited-memory
#[test]
fn every_fixture_shrinks_to_the_same_bytes_everywhere() {
    for_each_set(|set| {
        let digests = BLOCKS.iter().map(|case| {
            let blocks = shrunk(&case.read());
            (case.name, blocks.len(), crc32c::crc32c(&blocks.concat()))
        });
        let digests: Vec<_> = digests.filter(|&(_, blocks, _)| blocks > 0).collect();
        assert_eq!(digests, SHRUNK, "{set}");
    });
}
