//! Two servers hold different keys. Each builds a filter in the shape that both agreed on. The blocks travel over the
//! network, and a router merges them into one filter of the keys of both.
//!
//! ```sh
//! cargo run --release --example union_of_servers
//! ```

use std::error::Error;

use sstfilter::{DynamicFilter, FalsePositiveRate, FilterBlock, KeyHasher, StandardBloom};

/// The number of keys that all servers size their filters for: that of the union.
const KEYS_OF_ALL: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let hasher = KeyHasher::default();
    let shape = || StandardBloom::for_rate(hasher.identity(), KEYS_OF_ALL, FalsePositiveRate::ONE_PERCENT);

    let serve = |first: u32, last: u32| -> Result<_, Box<dyn Error>> {
        let mut filter = shape()?;
        for user in first..last {
            filter.insert(hasher.hash(&user.to_le_bytes()));
        }
        Ok(filter.to_block()?)
    };
    let (east, west) = (serve(0, 60_000)?, serve(40_000, 100_000)?);

    // The router restores the blocks, which compares checksums, kind and hash. Damage is an error.
    let mut both = StandardBloom::from_block(&east, &hasher)?;
    both.union(&StandardBloom::from_block(&west, &hasher)?)?;
    let health = both.health();
    println!("east {} bytes, west {} bytes, fill of both {:.1} %", east.len(), west.len(), health.fill_ratio * 100.0);
    println!(
        "about {} users in all, {:.2} % false positives expected",
        both.estimated_keys(),
        health.expected_fpr * 100.0
    );

    // From now on it probes one block like any other.
    let block = both.to_block()?;
    let filter = FilterBlock::load(&block, &hasher)?;
    let knows = |user: u32| filter.may_contain(hasher.hash(&user.to_le_bytes()));
    assert!((0..100_000).all(knows), "all users of both servers are in the filter");
    let strangers = (100_000..200_000).filter(|&user| knows(user)).count();
    println!("of 100,000 strangers, {strangers} are false positives");

    // Filters of another shape or another hash cannot be merged.
    let mut smaller = StandardBloom::for_rate(hasher.identity(), 1_000, FalsePositiveRate::ONE_PERCENT)?;
    if let Err(refused) = smaller.union(&both) {
        println!("{refused}");
    }
    let foreign =
        StandardBloom::for_rate(KeyHasher::with_seed(7).identity(), KEYS_OF_ALL, FalsePositiveRate::ONE_PERCENT)?;
    if let Err(refused) = both.union(&foreign) {
        println!("{refused}");
    }
    Ok(())
}
