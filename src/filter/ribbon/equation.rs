//! Derives a key's Ribbon equation from its hash: the slots that it adds up, and their result. Also has the thresholds
//! for bumping.
//!
//! The three multipliers are the first three 64-bit words of the fraction of pi, made odd.

use crate::hash::{STEP, map_to_range, mix64};

/// The slots that one equation spans, and the slots in a block: the bits of a word.
pub(super) const WIDTH: u64 = 64;

/// How far beyond each end the final layer's starts are drawn before they are clamped ("smash" in the paper): this
/// fills the first and the last slots, which few equations would reach otherwise.
pub(super) const SMASH: u32 = 16;

/// The slots of a bucket, the unit of bumping.
pub(super) const BUCKET_SLOTS: u64 = 128;

/// The threshold of each code: keys are bumped to the next layer if they start fewer slots than this from the left of
/// the bucket.
pub(super) const THRESHOLDS: [u8; 4] = [0, 18, 38, 128];

const PI: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// Returns the hash of a bumped key in the next bumping layer.
#[inline]
pub(super) const fn next_layer_hash(hash: u64) -> u64 {
    mix64(hash ^ STEP)
}

/// Returns the hash of a key in the final layer.
#[inline]
pub(super) const fn final_layer_hash(hash: u64, salt: u8) -> u64 {
    mix64(hash.wrapping_add(STEP.wrapping_mul(salt as u64 + 1)))
}

/// Returns how many starts a layer of `slots` slots draws from. The final layer passes [`SMASH`], as its starts are
/// clamped later; others pass 0.
pub(super) const fn starts(slots: u64, smash: u32) -> u64 {
    // An equation spans 64 slots, so none starts at the last 63.
    slots - (WIDTH - 1) + 2 * smash as u64
}

/// Returns the first slot of a key's equation in a bumping layer.
#[inline]
pub(super) const fn bumping_start(hash: u64, slots: u64) -> u64 {
    map_to_range(hash, starts(slots, 0))
}

/// Returns which of the 64 slots from the start on are added up; always the first.
#[inline]
pub(super) const fn coefficients(hash: u64) -> u64 {
    let product = hash.wrapping_mul(PI[0]);
    // `| 1`, so that a key that starts at a free slot can become its pivot without elimination.
    (product ^ product >> 32).wrapping_mul(PI[1]) | 1
}

/// Returns the result of the sum: one bit per column, column 0 in bit 0. It does not use the high bits of the hash,
/// because those decide the start.
#[inline]
pub(super) const fn result(hash: u64) -> u32 {
    ((hash ^ hash >> 31).wrapping_mul(PI[2]) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_coefficient_is_always_set_and_the_others_half_the_time() {
        let ones: u32 = (0..10_000).map(|key| coefficients(mix64(key)).count_ones()).sum();
        assert!((0..1_000).all(|key| coefficients(mix64(key)) & 1 == 1));
        assert!((324_000..326_000).contains(&ones), "{ones}");
    }
}
