//! Filters that take keys while they are in use, as the report fills and asks them.

use anyhow::Context;
use sstfilter::{
    CountingBloom, CuckooFilter, FalsePositiveRate, FilterHealth, HashIdentity, HealthLimits, HitBitmap, KeyHash,
    StandardBloom, TwoBitBloom, TwoBitOptions, WordLayout,
};

use super::contender::Asked;

/// A filter in memory.
pub(super) trait Growing: Asked {
    /// Adds keys; how many of them found no place.
    fn insert_all(&mut self, hashes: &[KeyHash]) -> u64;

    /// How full it is.
    fn health(&self) -> FilterHealth;

    /// The limits that go with its kind.
    fn limits(&self) -> HealthLimits;
}

/// Lets a filter be asked by its own methods.
macro_rules! asked {
    ($($filter:ty),*) => {$(
        impl Asked for $filter {
            fn block_bytes(&self) -> anyhow::Result<u64> {
                Ok(self.to_block()?.len() as u64)
            }

            fn expected_fpr(&self) -> f64 {
                self.health().expected_fpr
            }

            fn count_one_by_one(&self, hashes: &[KeyHash]) -> u64 {
                hashes.iter().map(|&hash| u64::from(self.contains(hash))).sum()
            }

            fn count_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) -> u64 {
                self.contains_batch(hashes, hits);
                hits.count()
            }
        }
    )*};
}

/// Fills a kind of the Bloom family, which takes every key.
macro_rules! never_full {
    ($($filter:ty),*) => {$(
        impl Growing for $filter {
            fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
                let _ = <$filter>::insert_all(self, hashes);
                0
            }

            fn health(&self) -> FilterHealth {
                self.health()
            }

            fn limits(&self) -> HealthLimits {
                HealthLimits::BLOOM
            }
        }
    )*};
}

asked!(StandardBloom, CountingBloom, TwoBitBloom, CuckooFilter);
never_full!(StandardBloom, CountingBloom, TwoBitBloom);

impl Growing for CuckooFilter {
    fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
        let before = self.keys();
        if self.insert_all(hashes).is_ok() {
            return 0;
        }
        // The first one that found no place ended the call: each of the others has its own chance.
        let done = usize::try_from(self.keys() - before).unwrap_or(usize::MAX);
        hashes.iter().skip(done).map(|&hash| u64::from(self.insert(hash).is_err())).sum()
    }

    fn health(&self) -> FilterHealth {
        self.health()
    }

    fn limits(&self) -> HealthLimits {
        HealthLimits::CUCKOO
    }
}

pub(super) fn standard_bloom(keys: u64, rate: FalsePositiveRate) -> anyhow::Result<Box<dyn Growing>> {
    Ok(Box::new(StandardBloom::for_rate(HashIdentity::default(), keys, rate)?))
}

pub(super) fn counting_bloom(keys: u64, rate: FalsePositiveRate) -> anyhow::Result<Box<dyn Growing>> {
    Ok(Box::new(CountingBloom::for_rate(HashIdentity::default(), keys, rate)?))
}

/// Two bits a key or four, whichever takes less memory: its sizes are powers of two.
pub(super) fn two_bit_bloom(keys: u64, rate: FalsePositiveRate) -> anyhow::Result<Box<dyn Growing>> {
    let layouts = [WordLayout::TwoBits, WordLayout::FourBits];
    let options = layouts.map(|layout| TwoBitOptions::default().with_layout(layout).with_room_for(keys, rate));
    let smallest = options.into_iter().flatten().min_by_key(|options| options.bytes());
    let options = smallest.context("it has no size for so many keys at this rate")?;
    Ok(Box::new(TwoBitBloom::new(HashIdentity::default(), options)?))
}

pub(super) fn cuckoo(keys: u64, rate: FalsePositiveRate) -> anyhow::Result<Box<dyn Growing>> {
    Ok(Box::new(CuckooFilter::for_rate(HashIdentity::default(), keys, rate)?))
}
