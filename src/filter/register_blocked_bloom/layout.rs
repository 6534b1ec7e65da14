//! The positions of a key's bits in its word, and probes of words.

use crate::filter::batch::answers;
use crate::filter::words::Word;
use crate::hash::KeyHash;

/// The supported numbers of bits that a key sets in its word of 64; two of them may coincide. Two are fastest.
pub(super) const PROBES: core::ops::RangeInclusive<u8> = 2..=4;

/// Returns the parameter word: the bits of a key, and from bit 8 on the width of the word.
pub(super) fn code_of(probes: u8) -> u32 {
    64 << 8 | u32::from(probes)
}

/// Runs `$call` compiled for each number of probes, as the constant `$bits`, so that the loops over them are unrolled
/// without a branch.
macro_rules! for_probes {
    ($probes:expr, $bits:ident => $call:expr) => {
        match $probes {
            3 => {
                const $bits: u32 = 3;
                $call
            }
            4 => {
                const $bits: u32 = 4;
                $call
            }
            _ => {
                const $bits: u32 = 2;
                $call
            }
        }
    };
}
pub(super) use for_probes;

/// Returns the index of the key's word: the top `index_bits` bits of its hash, 1 to 63.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the number of words in memory")]
pub(super) const fn word_index(hash: u64, index_bits: u32) -> usize {
    (hash >> (u64::BITS - index_bits)) as usize
}

/// Returns bit `number` of the key within its word. Each takes six of the hash's low bits, because the index takes the
/// high ones.
#[inline(always)]
const fn bit(hash: u64, number: u32) -> u64 {
    hash >> (6 * number) & 63
}

/// Returns the key's bits in its word.
///
/// The last bit comes first: the loops for different numbers then begin with different code. Otherwise the compiler
/// merges them into one path that branches for each bit, and a single insert of four bits takes a quarter longer.
#[inline(always)]
pub(super) fn mask<const BITS: u32>(hash: u64) -> u64 {
    (0..BITS).rev().fold(0, |mask, number| mask | 1 << bit(hash, number))
}

/// Returns whether all of the key's bits are set in `word`.
///
/// It shifts the word by each bit's number and ANDs the lowest bits, which is cheaper than building a mask. Without a
/// branch the CPU overlaps the loads of many keys.
#[inline(always)]
fn has_all<const BITS: u32>(word: u64, hash: u64) -> bool {
    (0..BITS).rev().fold(1, |all, number| all & word >> bit(hash, number)) == 1
}

/// Returns whether `words`, `2 ^ index_bits` of them, contain all bits of the key.
#[inline]
pub(super) fn contains<W: Word>(words: &[W], index_bits: u32, probes: u8, hash: KeyHash) -> bool {
    let hash = hash.get();
    let Some(word) = words.get(word_index(hash, index_bits)) else { return true };
    let word = word.value();
    for_probes!(probes, BITS => has_all::<BITS>(word, hash))
}

/// Like [`contains`], for many keys: sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
///
/// It does not prefetch: without a branch on the answers, the CPU overlaps the loads of many keys by itself. Rejected:
/// a gather of eight words, which was slower than eight loads.
pub(super) fn contains_batch<W: Word>(
    words: &[W],
    index_bits: u32,
    probes: u8,
    hashes: &[KeyHash],
    matches: &mut [u64],
) {
    let Some(last) = words.len().checked_sub(1) else { return matches.fill(u64::MAX) };
    for_probes!(probes, BITS => {
        // The index is below the length, a power of two. The mask shows this to the compiler, which then omits the
        // check.
        answers(hashes, matches, |hash| {
            has_all::<BITS>(words[word_index(hash.get(), index_bits) & last].value(), hash.get())
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifting_and_masking_agree_in_every_layout() {
        for probes in PROBES {
            for key in 0..2_000 {
                let (hash, word) = (KeyHash::mix(key).get(), KeyHash::mix(!key).get() | key << 20);
                let (mask, contained) = for_probes!(probes, BITS => (
                    mask::<BITS>(hash),
                    [word, u64::MAX, 0].map(|word| has_all::<BITS>(word, hash)),
                ));
                assert!((1..=u32::from(probes)).contains(&mask.count_ones()));
                assert_eq!(contained, [word & mask == mask, true, false]);
            }
        }
    }

    #[test]
    fn a_keys_bits_are_where_the_format_has_them() {
        let hash = 0b1011 << 60 | 0b1 << 59 | 0b00_0011 << 18 | 0b11_1111 << 12 | 0b00_0001 << 6 | 0b10_0000;
        assert_eq!(word_index(hash, 4), 0b1011);
        assert_eq!(mask::<2>(hash), 1 << 32 | 1 << 1);
        assert_eq!(mask::<4>(hash), 1 << 32 | 1 << 1 | 1 << 63 | 1 << 3);
    }

    #[test]
    fn the_codes_are_those_of_the_format() {
        assert_eq!(PROBES.map(code_of).collect::<Vec<_>>(), [0x4002, 0x4003, 0x4004]);
    }
}
