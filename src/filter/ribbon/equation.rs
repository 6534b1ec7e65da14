//! From a key's hash to its Ribbon equation: the slots that it adds up, the result that they must give, and which
//! keys a bucket bumps.
//!
//! The three multipliers are the first three 64-bit words of the fraction of pi, made odd.

use crate::hash::{STEP, map_to_range, mix64};

/// Slots that one equation spans, and slots in a block: the bits of a word.
pub(super) const WIDTH: u64 = 64;

/// How far beyond each end the final layer's starts are drawn before they are clamped ("smash" in the paper):
/// it fills the first and the last slots, which few equations would reach otherwise.
pub(super) const SMASH: u64 = 16;

/// Slots of a bucket: keys are bumped by bucket.
pub(super) const BUCKET_SLOTS: u64 = 128;

/// By threshold code: keys whose start lies fewer slots than this from the left of the bucket are bumped to
/// the next layer.
pub(super) const THRESHOLDS: [u8; 4] = [0, 18, 38, 128];

/// What happens to keys that a layer cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerRole {
    /// They go to the next layer.
    Bumping,
    /// None: the layer must take all keys.
    Final,
}

const PI: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// The hash that a bumped key has in the next bumping layer.
#[inline]
pub(super) const fn next_layer_hash(hash: u64) -> u64 {
    mix64(hash ^ STEP)
}

/// The hash that a key has in the final layer.
#[inline]
pub(super) const fn final_layer_hash(hash: u64, salt: u8) -> u64 {
    mix64(hash.wrapping_add(STEP.wrapping_mul(salt as u64 + 1)))
}

/// How many starts a bumping layer of `slots` slots has.
pub(super) const fn bumping_starts(slots: u64) -> u64 {
    slots - (WIDTH - 1)
}

/// How many starts the final layer of `slots` slots draws from, before clamping.
pub(super) const fn final_starts(slots: u64) -> u64 {
    slots - (WIDTH - 1) + 2 * SMASH
}

/// The first slot of a key's equation in a bumping layer.
#[inline]
pub(super) const fn bumping_start(hash: u64, slots: u64) -> u64 {
    map_to_range(hash, bumping_starts(slots))
}

/// The first slot of a key's equation in the final layer.
#[inline]
pub(super) fn final_start(hash: u64, slots: u64) -> u64 {
    map_to_range(hash, final_starts(slots)).saturating_sub(SMASH).min(slots - WIDTH)
}

/// Maps a hash to the first slot of its equation in one layer; monotone in the hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starts {
    drawn: u64,
    smash: u64,
    last: u64,
}

impl Starts {
    /// The starts of a layer of `slots` slots.
    pub(super) fn new(slots: u64, role: LayerRole) -> Self {
        let last = slots - WIDTH;
        match role {
            LayerRole::Bumping => Self { drawn: bumping_starts(slots), smash: 0, last },
            LayerRole::Final => Self { drawn: final_starts(slots), smash: SMASH, last },
        }
    }

    #[inline]
    pub(super) fn start(self, hash: u64) -> u64 {
        map_to_range(hash, self.drawn).saturating_sub(self.smash).min(self.last)
    }
}

/// Which of the 64 slots from the start on are added up; always the first.
#[inline]
pub(super) const fn coefficients(hash: u64) -> u64 {
    let product = hash.wrapping_mul(PI[0]);
    (product ^ product >> 32).wrapping_mul(PI[1]) | 1
}

/// The result that the slots must add up to: one bit per column, column 0 in bit 0. It does not use the high bits of
/// the hash, because those decide the start.
#[inline]
pub(super) const fn result(hash: u64) -> u32 {
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

    #[test]
    fn starts_of_any_layer_are_those_that_a_query_draws() {
        for slots in [64, 128, 192, 1 << 20, 1 << 38] {
            for hash in (0..=1_000_u64).map(|step| (u64::MAX / 1_000) * step) {
                assert_eq!(Starts::new(slots, LayerRole::Bumping).start(hash), bumping_start(hash, slots));
                assert_eq!(Starts::new(slots, LayerRole::Final).start(hash), final_start(hash, slots));
            }
        }
    }
}
