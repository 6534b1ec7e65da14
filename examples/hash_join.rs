//! A hash join with a filter in front of its table: rows of the probing side that the filter excludes are not looked
//! up. Both take the same hash, which is computed once for each row. It pays while looking up the rows without a match
//! takes longer than probing for all: with a fast table up to about 50 % matches (benches/RESULTS.md). A join can
//! sample, and leave the filter out where more rows match.
//!
//! ```sh
//! cargo run --release --example hash_join
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::hash::{BuildHasherDefault, Hasher};

use sstfilter::{DynamicFilter, FalsePositiveRate, HashIdentity, KeyHash, MatchBitmap, RegisterBlockedBloom};

const BUILD_ROWS: u64 = 100_000;
const PROBE_ROWS: u64 = 1_000_000;
const BATCH: usize = 4_096;

/// Passes on the hash that a row has already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the table's keys are hashes");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // `KeyHash::mix` is a bijection, so the hash of a 64-bit key can stand for it. Any identity will do, because
    // nothing is stored.
    let rate = FalsePositiveRate::new(0.05)?;
    let filter = RegisterBlockedBloom::for_rate(HashIdentity::default(), BUILD_ROWS, rate)?;
    let mut table = HashMap::<u64, u64, BuildHasherDefault<Hashed>>::default();
    for row in 0..BUILD_ROWS {
        let hash = KeyHash::mix(row * 7);
        // `&self`: any number of threads could insert.
        filter.insert(hash);
        table.insert(hash.get(), row);
    }

    let (mut looked_up, mut pairs, mut matches) = (0, 0, MatchBitmap::default());
    let probe_side: Vec<u64> = (0..PROBE_ROWS).map(|row| row * 5).collect();
    for batch in probe_side.chunks(BATCH) {
        let hashes: Vec<KeyHash> = batch.iter().map(|&key| KeyHash::mix(key)).collect();
        filter.contains_batch(&hashes, &mut matches);
        for row in matches.iter() {
            looked_up += 1;
            pairs += u64::from(table.contains_key(&hashes[row].get()));
        }
    }
    println!("{PROBE_ROWS} rows probed a table of {BUILD_ROWS}: {looked_up} were looked up, {pairs} matched");
    assert_eq!(pairs, BUILD_ROWS / 5, "every seventh number of the one side is among every fifth of the other");
    assert!(looked_up < pairs + PROBE_ROWS / 10, "few are looked up in vain");
    Ok(())
}
