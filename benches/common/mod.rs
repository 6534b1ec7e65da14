//! Keys and policies that the benchmarks share.

use sstfilter::{
    BloomPolicy, FalsePositiveRate, FilterPolicy, FusePolicy, FuseSizing, RibbonPolicy, RibbonSizing,
    StandardBloomPolicy,
};
use sstfilter::{XorLayout, XorPolicy, XorSizing, XorWidth};

/// The policies measured, by name: about 1 % false positives each, fuse and xor 0.4 %.
pub(crate) fn policies() -> Vec<(&'static str, Box<dyn FilterPolicy>)> {
    let ribbon = RibbonPolicy::new(RibbonSizing::Rate(FalsePositiveRate::ONE_PERCENT));
    let ribbon = ribbon.expect("one percent is in range");
    let fuse = FusePolicy::new(FuseSizing::FingerprintBits(8)).expect("eight bits are in range");
    let xor = |layout| {
        let policy = XorPolicy::new(layout, XorSizing::Width(XorWidth::Eight));
        Box::new(policy.expect("there are fingerprints of 8 bits"))
    };
    vec![
        ("bloom", Box::new(BloomPolicy::default())),
        ("ribbon", Box::new(ribbon)),
        ("standard-bloom", Box::new(StandardBloomPolicy::default())),
        ("fuse", Box::new(fuse)),
        ("xor", xor(XorLayout::Plain)),
        ("xor+", xor(XorLayout::Plus)),
    ]
}

/// A key of 16 bytes, ascending with its number.
pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user............";
    let digits = format!("{number:012}");
    key[4..].copy_from_slice(&digits.as_bytes()[..12]);
    key
}

/// Even numbers are keys that are there, odd ones are between them and are not.
pub(crate) fn present(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|number| key(2 * number)).collect()
}

pub(crate) fn absent(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|number| key(2 * number + 1)).collect()
}
