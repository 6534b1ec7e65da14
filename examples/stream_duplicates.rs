//! Finds duplicates in a stream that outgrows its plan. Each event is probed and then inserted; an event that the
//! filter does not contain is certainly new. When the filter reports that it is too full, a larger one takes over.
//!
//! A Bloom filter cannot grow, because it does not store its keys. So the old filter stays only for lookups, and new
//! events go into a filter of twice the size. The false positive rates of all filters add up.
//!
//! ```sh
//! cargo run --release --example stream_duplicates
//! ```

use std::error::Error;

use sstfilter::{DynamicFilter, FalsePositiveRate, FilterError, HashIdentity, KeyHash, KeyHasher, StandardBloom};

const PLANNED: u64 = 10_000;
const EVENTS: u64 = 200_000;

/// Tighter than the usual limits: several filters are probed, and their rates add up.
const MAX_FILL_RATIO: f64 = 0.55;
const MAX_FPR: f64 = 0.02;

fn main() -> Result<(), Box<dyn Error>> {
    let hasher = KeyHasher::default();
    let mut seen = Seen::new(PLANNED)?;
    let (mut duplicates, mut missed, mut by_mistake) = (0_u64, 0_u64, 0_u64);
    for number in 0..EVENTS {
        // Every tenth event comes a second time.
        let is_duplicate = number % 10 == 9;
        let event = format!("event-{}", if is_duplicate { number - 5 } else { number });
        let was_seen = seen.check_and_add(hasher.hash(event.as_bytes()), number)?;
        duplicates += u64::from(is_duplicate);
        missed += u64::from(is_duplicate && !was_seen);
        by_mistake += u64::from(was_seen && !is_duplicate);
    }
    println!("{EVENTS} events, {duplicates} duplicates: {missed} missed; {by_mistake} false positives");
    assert_eq!(missed, 0, "a filter contains every event that was inserted");
    for filter in &seen.filters {
        let health = filter.health();
        println!(
            "{:>7} keys, fill {:.1} %, rate {:.2} %",
            health.keys,
            health.fill_ratio * 100.0,
            health.expected_fpr * 100.0
        );
    }
    Ok(())
}

/// Filters of growing size: only the last accepts keys, all are probed.
struct Seen {
    filters: Vec<StandardBloom>,
    planned: u64,
}

impl Seen {
    fn new(planned: u64) -> Result<Self, FilterError> {
        Ok(Self {
            filters: vec![StandardBloom::for_rate(HashIdentity::default(), planned, FalsePositiveRate::ONE_PERCENT)?],
            planned,
        })
    }

    /// Inserts an event, and returns whether it may have been seen before.
    fn check_and_add(&mut self, event: KeyHash, number: u64) -> Result<bool, FilterError> {
        let Some((current, older)) = self.filters.split_last_mut() else { return Ok(false) };
        let was_seen = older.iter().any(|filter| filter.contains(event)) || !current.insert(event);
        // Reading the fill costs a pass over the filter, so check only once in a while.
        if number.is_multiple_of(1_000) {
            let health = current.health();
            if health.fill_ratio > MAX_FILL_RATIO || health.expected_fpr > MAX_FPR {
                self.planned *= 2;
                println!("at event {number}: {health:?}; the next filter is for {} events", self.planned);
                self.filters.push(StandardBloom::for_rate(
                    HashIdentity::default(),
                    self.planned,
                    FalsePositiveRate::ONE_PERCENT,
                )?);
            }
        }
        Ok(was_seen)
    }
}
