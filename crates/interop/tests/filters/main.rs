//! Filters built from other engines' descriptions, and read back: a reader that loses a key hides data, and a wrong
//! expected false positive rate leads to filters of the wrong size.

#![expect(clippy::expect_used, reason = "what fails here is a failed test")]

mod build;
mod rates;

/// `SplitMix64`: numbers without a pattern, the same in each run.
fn random(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Sixteen bytes per key.
fn key(i: u64) -> [u8; 16] {
    (u128::from(random(2 * i)) << 64 | u128::from(random(2 * i + 1))).to_le_bytes()
}
