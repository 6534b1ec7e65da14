//! Two servers hold different keys. Each builds a filter of its own in the shape that both agreed on; the blocks
//! travel over the network, and a router joins them into one filter of what either has.
//!
//! ```sh
//! cargo run --release --example union_of_servers
//! ```

use std::error::Error;

use sstfilter::{FalsePositiveRate, FilterBlock, KeyHasher, StandardBloom};

/// What all servers agree on: the union has to hold the keys of all, so the shape is made for all of them.
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

    // The router restores the blocks: checksums, kind and hash are compared, and damage is an error here.
    let mut both = StandardBloom::from_block(&east, &hasher)?;
    both.union(&StandardBloom::from_block(&west, &hasher)?)?;
    let health = both.health();
    println!("east {} bytes, west {} bytes, fill of both {:.1} %", east.len(), west.len(), health.fill_ratio * 100.0);
    println!(
        "about {} users in all, {:.2} % false positives expected",
        both.estimated_keys(),
        health.expected_fpr * 100.0
    );

    // What it asks from now on is one block like any other.
    let block = both.to_block()?;
    let filter = FilterBlock::load(&block, &hasher)?;
    let knows = |user: u32| filter.may_contain(hasher.hash(&user.to_le_bytes()));
    assert!((0..100_000).all(knows), "no user of either server is denied");
    let strangers = (100_000..200_000).filter(|&user| knows(user)).count();
    println!("of 100,000 strangers, {strangers} are let through");

    // Filters of other shapes, or of another hash, do not mix, and say so.
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
