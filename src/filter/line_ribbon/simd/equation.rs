//! Derives a key's line and tag in each layer, and its equation, from its hash.

use crate::hash::{KeyHash, STEP};

/// The first 64 bits of the fraction of pi, which are odd; `PI[0]` in FORMAT.md.
pub(in crate::filter::line_ribbon) const COEFFICIENTS: u64 = 0x243f_6a88_85a3_08d3;

/// A multiplier of `mix64`.
const NEXT: u64 = 0xbf58_476d_1ce4_e5b9;

/// The inverse of `NEXT` modulo 2^64.
const PREVIOUS: u64 = 0x96de_1b17_3f11_9089;

/// Returns the line of a layer and the tag. Both ascend with the hash: sorted hashes are sorted by line, then by tag.
#[inline(always)]
pub(in crate::filter::line_ribbon) fn place(hash: u64, lines: u64) -> (u64, u8) {
    let product = u128::from(hash) * u128::from(lines);
    ((product >> 64) as u64, (product as u64 >> 56) as u8)
}

/// Returns the hash that chooses a line in the next layer. The coefficients would not do: all keys of a line would have
/// some in common.
#[inline(always)]
pub(in crate::filter::line_ribbon) fn next_hash(hash: u64) -> u64 {
    (hash ^ hash >> 32).wrapping_mul(NEXT)
}

#[inline(always)]
fn previous_hash(hash: u64) -> u64 {
    let mixed = hash.wrapping_mul(PREVIOUS);
    mixed ^ mixed >> 32
}

/// Returns the hash whose equation a key has in the final layer.
#[inline(always)]
pub(in crate::filter::line_ribbon) fn final_hash(hash: u64, salt: u8) -> u64 {
    next_hash(hash ^ STEP.wrapping_mul(u64::from(salt) + 1))
}

/// Bit `q` says whether slot `q` counts.
#[inline(always)]
pub(in crate::filter::line_ribbon) fn coefficients(hash: u64) -> u64 {
    hash.wrapping_mul(COEFFICIENTS)
}

/// Bit `j` belongs to column `j`. Not linear in the coefficients, or a column would match every key; nor bits that all
/// keys of a line share.
#[inline(always)]
pub(in crate::filter::line_ribbon) fn result(hash: u64) -> u8 {
    (hash >> 24) as u8
}

/// Which equations the keys of a layer have. A layer is built from the hashes that choose its lines.
#[derive(Clone, Copy, Debug)]
pub(in crate::filter::line_ribbon) struct Equations {
    /// The number of layers before it.
    pub(in crate::filter::line_ribbon) layer: usize,
    /// The salt of the final layer; `None` for a bumping layer.
    pub(in crate::filter::line_ribbon) salt: Option<u8>,
}

impl Equations {
    /// Returns the hash whose equation the key has.
    #[inline(always)]
    pub(in crate::filter::line_ribbon) fn of(self, hash: KeyHash) -> u64 {
        let key_hash = (0..self.layer).fold(hash.get(), |hash, _| previous_hash(hash));
        self.salt.map_or(key_hash, |salt| final_hash(key_hash, salt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_from_the_next_layer_is_the_inverse() {
        for hash in (0..1_000).map(KeyHash::mix).chain([0, 1, u64::MAX].map(KeyHash::from_well_mixed)) {
            let mapped = |layers: usize| (0..layers).fold(hash.get(), |hash, _| next_hash(hash));
            for layer in 0..7 {
                let there = KeyHash::from_well_mixed(mapped(layer));
                assert_eq!(Equations { layer, salt: None }.of(there), hash.get());
                assert_eq!(Equations { layer, salt: Some(3) }.of(there), final_hash(hash.get(), 3));
            }
        }
    }
}
