//! From a key's hash to where its equation starts; the rest of it is [`crate::kernel::equation`]'s.

use super::shape::LayerRole;
use crate::codec::map_to_range;
pub(super) use crate::kernel::equation::{
    SMASH, WIDTH, bumping_starts, coefficients, final_layer_hash, final_starts, next_layer_hash, result,
};

/// From a hash to the first slot of its equation, in one layer: never less for a greater hash.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::equation::{bumping_start, final_start};

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
