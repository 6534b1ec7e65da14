//! The failure guarded against: a builder keeps whole keys until the file is finished.

use std::sync::Arc;

use sstfilter::{FalsePositiveRate, FileId, FilterPolicy, kind};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{FilterStore, PartitionCut, PartitionOptions};

use crate::allocator::{alone, measure};

/// 2,000 bytes each, of which hashes, codes and separators take at most 60.
// promise: bounded-memory
#[test]
fn builders_keep_no_whole_keys() {
    let _alone = alone();
    // Enough that the one segment of keys that an ordered range filter keeps does not count.
    let keys = 20_000;
    let rate = FalsePositiveRate::ONE_PERCENT;
    let of_kind = |entry: &kind::KindEntry| Arc::new(entry.configure(rate).unwrap()) as Arc<dyn FilterPolicy>;
    let of_kinds = kind::all().iter().map(|entry| FilterStore::default().with_policy(of_kind(entry)));
    let of_cuts = [PartitionCut::KeyRange, PartitionCut::HashRange]
        .map(|cut| FilterStore::default().with_partitions(PartitionOptions::new(cut, 4 << 10).unwrap()));
    let of_ranges = [RangePolicy::ordered(rate), RangePolicy::hashed(RangeUnits::integer(8).unwrap(), 16, rate)]
        .map(|policy| FilterStore::default().with_range_filters(policy.unwrap()));
    for store in of_kinds.chain(of_cuts).chain(of_ranges) {
        let mut key = [b'x'; 2_000];
        let (_, peak) = measure(|| {
            let mut builder = store.builder(FileId::random());
            for number in 0..keys {
                key[..8].copy_from_slice(format!("{number:08}").as_bytes());
                builder.add_key(&key);
            }
            builder.finish().seal()
        });
        println!("{:.1} bytes per key", peak as f64 / keys as f64);
        assert!(peak <= 60 * keys + 100_000, "{store:?}: {peak} bytes");
    }
}
