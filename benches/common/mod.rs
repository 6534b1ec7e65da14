//! Keys and policies that the benchmarks share.

#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a benchmark may stop")]

use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, Sizing};

/// The policies measured, by name: about 1 % false positives, or 0.4 % of those with fingerprints.
#[must_use]
pub fn policies() -> Vec<(&'static str, FixedPolicy)> {
    let for_files = kind::all().iter().filter(|entry| entry.updates < Updates::InsertAndRemove);
    let policy = |entry: &'static KindEntry| {
        let sizing = match entry.name {
            "bloom" | "standard-bloom" => BitsPerKey::TEN.into(),
            "ribbon" | "register-blocked-bloom" => FalsePositiveRate::ONE_PERCENT.into(),
            _ => Sizing::FingerprintBits(8),
        };
        let policy = entry.configure(sizing).or_else(|_| entry.configure(FalsePositiveRate::ONE_PERCENT));
        (entry.name, policy.expect("every kind has filters of these sizes"))
    };
    for_files.map(policy).collect()
}

/// A key of 16 bytes, ascending with its number.
#[must_use]
pub fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user............";
    let digits = format!("{number:012}");
    key[4..].copy_from_slice(&digits.as_bytes()[..12]);
    key
}

/// Even numbers are present keys; odd ones lie between them and are absent.
#[must_use]
pub fn present(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|number| key(2 * number)).collect()
}

/// Keys that are not among the [present] ones.
#[must_use]
pub fn absent(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|number| key(2 * number + 1)).collect()
}
