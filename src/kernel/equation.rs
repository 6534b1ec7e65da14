//! From a key's hash to its Ribbon equation: which slots it adds up, what they must give, and which keys
//! a bucket passes on.
//!
//! The three multipliers are the first three 64-bit words of the fraction of pi, made odd.

use crate::codec::map_to_range;
use crate::hash::{STEP, mix64};

/// Slots that one equation spans, and slots in a block: the bits of a word.
pub(crate) const WIDTH: u64 = 64;

/// How far beyond each end the starts of the final layer are drawn before they are clamped ("smash"):
/// it fills the first and the last slots, which few equations would reach otherwise.
pub(crate) const SMASH: u64 = 16;

/// Slots of a bucket: keys are bumped by bucket.
pub(crate) const BUCKET_SLOTS: u64 = 128;

/// By threshold code: keys whose start lies fewer slots than this from the left of the bucket are bumped to
/// the next layer.
pub(crate) const THRESHOLDS: [u8; 4] = [0, 18, 38, 128];

const PI: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// The hash that a bumped key has in the next bumping layer.
#[inline]
pub(crate) const fn next_layer_hash(hash: u64) -> u64 {
    mix64(hash ^ STEP)
}

/// The hash that a key has in the final layer.
#[inline]
pub(crate) const fn final_layer_hash(hash: u64, salt: u8) -> u64 {
    mix64(hash.wrapping_add(STEP.wrapping_mul(salt as u64 + 1)))
}

/// How many starts a bumping layer of `slots` slots has.
pub(crate) const fn bumping_starts(slots: u64) -> u64 {
    slots - (WIDTH - 1)
}

/// How many starts the final layer of `slots` slots draws from, before clamping.
pub(crate) const fn final_starts(slots: u64) -> u64 {
    slots - (WIDTH - 1) + 2 * SMASH
}

/// The first slot of a key's equation in a bumping layer.
#[inline]
pub(crate) const fn bumping_start(hash: u64, slots: u64) -> u64 {
    map_to_range(hash, bumping_starts(slots))
}

/// The first slot of a key's equation in the final layer.
#[inline]
pub(crate) fn final_start(hash: u64, slots: u64) -> u64 {
    map_to_range(hash, final_starts(slots)).saturating_sub(SMASH).min(slots - WIDTH)
}

/// Which of the 64 slots from the start on are added up; always the first.
#[inline]
pub(crate) const fn coefficients(hash: u64) -> u64 {
    let product = hash.wrapping_mul(PI[0]);
    (product ^ product >> 32).wrapping_mul(PI[1]) | 1
}

/// What they must add up to: one bit per column, column 0 in bit 0. The start uses the high bits of the
/// hash, so these do not.
#[inline]
pub(crate) const fn result(hash: u64) -> u32 {
    ((hash ^ hash >> 31).wrapping_mul(PI[2]) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_leave_room_for_the_whole_equation_and_grow_with_the_hash() {
        for slots in [64, 128, 192, 1 << 20, 1 << 38] {
            let hashes = (0..=1_000_u64).map(|step| (u64::MAX / 1_000) * step);
            for start in [bumping_start, final_start] {
                let starts: Vec<u64> = hashes.clone().map(|hash| start(hash, slots)).collect();
                assert!(starts.is_sorted() && starts[0] == 0 && starts[1_000] + WIDTH <= slots);
            }
            assert_eq!(final_start(u64::MAX, slots), slots - WIDTH);
        }
    }

    #[test]
    fn the_first_coefficient_is_always_set_and_the_others_half_the_time() {
        let ones: u32 = (0..10_000).map(|key| coefficients(mix64(key)).count_ones()).sum();
        assert!((0..1_000).all(|key| coefficients(mix64(key)) & 1 == 1));
        assert!((324_000..326_000).contains(&ones), "{ones}");
    }
}
