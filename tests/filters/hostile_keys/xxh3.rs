//! The inverse of XXH3-64 for keys of eight bytes. For that length it is a bijection, so whoever knows the seed can
//! make a key for any hash. (Collet's specification, the case of 4 to 8 bytes.)

const MULTIPLIER: u64 = 0x9fb2_1c65_1e98_df25;
/// Bytes 8 to 15 of the specification's default secret, exclusive or bytes 16 to 23.
const SECRET: u64 = 0xc73a_b174_c5ec_d5a2;
const KEY_BYTES: u64 = 8;

/// Returns the key of eight bytes with hash `hash` under `seed`.
#[expect(clippy::cast_possible_truncation, reason = "the low half of the seed")]
pub(crate) fn key_with_hash(hash: u64, seed: u64) -> [u8; 8] {
    let mut word = hash ^ hash >> 28 ^ hash >> 56;
    word = word.wrapping_mul(inverse(MULTIPLIER));
    word ^= (word >> 35) + KEY_BYTES;
    word = unturned(word.wrapping_mul(inverse(MULTIPLIER)));
    let swapped = u64::from((seed as u32).swap_bytes()) << 32;
    let halves = word ^ SECRET.wrapping_sub(seed ^ swapped);
    halves.rotate_left(32).to_le_bytes()
}

/// Returns a difference between two keys for which hashing begins with the difference `word`, whatever the seed.
pub(crate) fn key_difference(word: u64) -> [u8; 8] {
    unturned(word).rotate_left(32).to_le_bytes()
}

/// Inverts `word ^ word.rotate_left(49) ^ word.rotate_left(24)`. Applied 64 times, this function is the identity.
fn unturned(word: u64) -> u64 {
    (0..63).fold(word, |word, _| word ^ word.rotate_left(49) ^ word.rotate_left(24))
}

/// The inverse of an odd number modulo 2^64, by Newton's method.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}
