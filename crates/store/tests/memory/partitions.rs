//! The failure guarded against: an untrusted container of a few MiB names millions of partitions in two bytes each, and
//! what the reader keeps for each of them fills its memory.

use std::sync::Arc;

use sstfilter::{BuildContext, FixedPolicy, KeyHash, KeyHasher};
use sstfilter_store::{PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder};

use crate::allocator::{alone, held};

const LINE: usize = 64;

/// Returns a container of partitions with these lengths, all below 128, cut by hash range. Their blocks are zeros.
fn forged(lengths: impl Iterator<Item = u8>) -> Vec<u8> {
    let (mut container, mut index, mut partitions) = (vec![], vec![], 0_u32);
    for length in lengths {
        partitions += 1;
        container.resize(container.len().next_multiple_of(LINE) + usize::from(length), 0);
        index.push(length);
        if length > 0 {
            index.extend([0; 4]);
        }
        index.push(0);
    }
    let options = PartitionOptions::new(PartitionCut::HashRange, 1 << 10).unwrap();
    let context = BuildContext::new(&KeyHasher::default());
    let mut builder = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), &context, options);
    builder.add_key(b"a key");
    let sound = builder.finish().block.unwrap();
    let mut trailer = sound[sound.len() - 32..].to_vec();
    trailer[8..12].copy_from_slice(&u32::try_from(index.len()).unwrap().to_le_bytes());
    trailer[12..16].copy_from_slice(&crc32c::crc32c(&index).to_le_bytes());
    trailer[21..24].copy_from_slice(&partitions.to_le_bytes()[..3]);
    let sum = crc32c::crc32c(&trailer[..28]).to_le_bytes();
    trailer[28..].copy_from_slice(&sum);
    [container, index, trailer].concat()
}

// promise: limited-memory
#[test]
fn a_forged_container_takes_at_most_eleven_times_its_bytes() {
    let _alone = alone();
    let count = 200_001;
    for one_block_in in [1, 2, 4, 8, 16, 17, 64, count] {
        let lengths = (0..count).map(|number| u8::from(number % one_block_in == 0));
        let container = forged(lengths);
        let before = held();
        let start = container.len() - usize::try_from(PartitionIndex::tail_bytes(&container).unwrap()).unwrap();
        let index = PartitionIndex::load(&container[start..], &KeyHasher::default()).unwrap();
        assert_eq!(index.partitions() as usize, count);
        let is_sound = |number| {
            let place = index.block_range(number).unwrap();
            let [start, end] = [place.start, place.end].map(|at| usize::try_from(at).unwrap());
            index.open(number, &container[start..end]).is_ok()
        };
        assert!(!(0..index.partitions()).any(is_sound));
        assert!((0..100_000).all(|number| (index.locate(b"", KeyHash::mix(number)).0 as usize) < count));
        let taken = held() - before;
        println!("one block in {one_block_in}: {:.2} times the bytes", taken as f64 / container.len() as f64);
        assert!(taken <= 11 * container.len(), "{taken} bytes for {}", container.len());
    }
}
