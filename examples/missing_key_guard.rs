//! A guard in front of a database. Lookups of absent keys miss every cache, because there is nothing to cache, so each
//! of them reaches the database. A filter of the existing keys answers them in nanoseconds. Keys are added and removed,
//! so the guard is a counting filter.
//!
//! ```sh
//! cargo run --release --example missing_key_guard
//! ```

use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error;

use sstfilter::{CountingBloom, DynamicFilter, FalsePositiveRate, FilterError, KeyHasher};

fn main() -> Result<(), Box<dyn Error>> {
    let mut shop = GuardedDatabase::new(50_000)?;
    for order in 0..50_000 {
        shop.put(&format!("order-{order}"), "paid");
    }
    for order in 0..10_000 {
        shop.delete(&format!("order-{order}"))?;
    }

    let found = (0..50_000).filter(|order| shop.get(&format!("order-{order}")).is_some()).count();
    println!("{found} of 50,000 orders are there, {} queries reached the database", shop.database.queries.take());

    let attack = 1_000_000;
    let found = (0..attack).filter(|guess| shop.get(&format!("guess-{guess}")).is_some()).count();
    println!("{attack} guesses: {found} found, {} queries reached the database", shop.database.queries.take());
    println!("{:?}, {} counters saturated", shop.guard.health(), shop.guard.saturated());
    Ok(())
}

/// Puts and deletes go to both, and gets go to the guard first.
struct GuardedDatabase {
    database: Database,
    guard: CountingBloom,
    hasher: KeyHasher,
}

impl GuardedDatabase {
    fn new(keys: u64) -> Result<Self, FilterError> {
        let hasher = KeyHasher::default();
        let guard = CountingBloom::for_rate(hasher.identity(), keys, FalsePositiveRate::ONE_PERCENT)?;
        Ok(Self { database: Database::default(), guard, hasher })
    }

    fn put(&mut self, key: &str, value: &str) {
        // Insert only absent keys: the guard must count each key once, because it is removed once.
        if self.database.put(key, value) {
            self.guard.insert(self.hasher.hash(key.as_bytes()));
        }
    }

    fn delete(&mut self, key: &str) -> Result<(), FilterError> {
        // Remove only present keys: removing another one would decrement counters that it shares with present keys.
        if self.database.delete(key) {
            self.guard.remove(self.hasher.hash(key.as_bytes()))?;
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&str> {
        if self.guard.contains(self.hasher.hash(key.as_bytes())) { self.database.get(key) } else { None }
    }
}

/// Stands for a database behind a network.
#[derive(Default)]
struct Database {
    rows: HashMap<String, String>,
    queries: Cell<u64>,
}

impl Database {
    fn get(&self, key: &str) -> Option<&str> {
        self.queries.set(self.queries.get() + 1);
        self.rows.get(key).map(String::as_str)
    }

    /// Returns whether the key is new.
    fn put(&mut self, key: &str, value: &str) -> bool {
        self.rows.insert(key.to_owned(), value.to_owned()).is_none()
    }

    /// Returns whether the key was present.
    fn delete(&mut self, key: &str) -> bool {
        self.rows.remove(key).is_some()
    }
}
