//! Finds duplicates in a stream of unknown length. Each event is probed and then inserted; an event that the filter
//! does not contain is certainly new. The filter is planned for far fewer events than come, and keeps its rate.
//!
//! ```sh
//! cargo run --release --example stream_duplicates
//! ```

use std::error::Error;

use sstfilter::layers::ScalableBloom;
use sstfilter::{FalsePositiveRate, KeyHasher};

const PLANNED: u64 = 10_000;
const EVENTS: u64 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let hasher = KeyHasher::default();
    let mut seen = <ScalableBloom>::new(hasher.identity(), PLANNED, FalsePositiveRate::ONE_PERCENT)?;
    let (mut duplicates, mut missed, mut by_mistake) = (0_u64, 0_u64, 0_u64);
    for number in 0..EVENTS {
        // Every tenth event comes a second time.
        let is_duplicate = number % 10 == 9;
        let event = format!("event-{}", if is_duplicate { number - 5 } else { number });
        let was_seen = !seen.insert(hasher.hash(event.as_bytes()))?;
        duplicates += u64::from(is_duplicate);
        missed += u64::from(is_duplicate && !was_seen);
        by_mistake += u64::from(was_seen && !is_duplicate);
    }
    println!("{EVENTS} events, {duplicates} duplicates: {missed} missed; {by_mistake} false positives");
    assert_eq!(missed, 0, "a filter contains every event that was inserted");
    let health = seen.health();
    println!(
        "{} keys in {} filters, {:.1} bits per key, rate {:.2} %",
        health.keys,
        health.parts,
        health.bytes as f64 * 8.0 / health.keys as f64,
        health.expected_fpr * 100.0
    );
    assert!(health.expected_fpr <= 0.01);
    Ok(())
}
