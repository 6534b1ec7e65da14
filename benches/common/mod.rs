//! Keys and policies that the benchmarks share.

use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter::{BitsPerKey, FalsePositiveRate, KindPolicy, Sizing};

/// The policies measured, by name: about 1 % false positives, or 0.4 % of those with fingerprints.
pub(crate) fn policies() -> Vec<(&'static str, KindPolicy)> {
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
pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user............";
    let digits = format!("{number:012}");
    key[4..].copy_from_slice(&digits.as_bytes()[..12]);
    key
}

/// Even numbers are present keys; odd ones lie between them and are absent.
pub(crate) fn present(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|number| key(2 * number)).collect()
}

pub(crate) fn absent(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|number| key(2 * number + 1)).collect()
}
