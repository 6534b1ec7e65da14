//! Where a key's bits lie in its word, and probing words.

use core::fmt;

use super::sync::{AtomicU64, Ordering};
use crate::filter::batch::answers;
use crate::hash::KeyHash;

/// How many bits a key sets in its word of 64. The figures are the false positive rates at 8 bits of filter per key.
///
/// ```
/// use sstfilter::WordLayout;
///
/// assert_eq!(WordLayout::default(), WordLayout::TwoBits);
/// assert_eq!(WordLayout::FourBits.bits_per_key(), 4);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WordLayout {
    /// Two bits: 5.33 %. The fastest.
    #[default]
    TwoBits = 2,
    /// Three bits: 3.76 %.
    ThreeBits = 3,
    /// Four bits: 3.35 %.
    FourBits = 4,
}

impl WordLayout {
    /// All of them, the fastest first.
    pub const ALL: [Self; 3] = [Self::TwoBits, Self::ThreeBits, Self::FourBits];

    /// Bits that a key sets; two of them may coincide.
    #[must_use]
    pub const fn bits_per_key(self) -> u8 {
        self as u8
    }

    /// The layout's parameter word: the bits per key, and from bit 8 on the width of the word.
    pub(super) fn code(self) -> u32 {
        64 << 8 | u32::from(self.bits_per_key())
    }

    pub(super) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.code() == code)
    }
}

impl fmt::Display for WordLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits in 64", self.bits_per_key())
    }
}

/// Runs `$call` compiled for each layout, with the bits per key as the constant `$bits`, so that the loops over them
/// are unrolled without a branch.
macro_rules! for_layout {
    ($layout:expr, $bits:ident => $call:expr) => {{
        use $crate::filter::register_blocked_bloom::WordLayout;
        match $layout {
            WordLayout::TwoBits => {
                const $bits: u32 = 2;
                $call
            }
            WordLayout::ThreeBits => {
                const $bits: u32 = 3;
                $call
            }
            WordLayout::FourBits => {
                const $bits: u32 = 4;
                $call
            }
        }
    }};
}
pub(super) use for_layout;

/// The index of the key's word, from the top bits of its hash: `index_bits` of them, 1 to 63.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the number of words in memory")]
pub(super) const fn word_index(hash: u64, index_bits: u32) -> usize {
    (hash >> (u64::BITS - index_bits)) as usize
}

/// Bit `number` of the key within its word. Each takes six of the hash's low bits, because the index takes the high
/// ones.
#[inline(always)]
const fn bit(hash: u64, number: u32) -> u64 {
    hash >> (6 * number) & 63
}

/// The key's bits in its word.
///
/// The last bit first: the layouts then begin with different code, which the compiler would otherwise merge into one
/// path that branches for each bit, and a single insert of four bits would take a quarter longer.
#[inline(always)]
pub(super) fn mask<const BITS: u32>(hash: u64) -> u64 {
    (0..BITS).rev().fold(0, |mask, number| mask | 1 << bit(hash, number))
}

/// Whether all the key's bits are set in `word`.
///
/// Shifts the word by each bit's number and ANDs the lowest bits: cheaper than building a mask. Without a branch the
/// CPU overlaps the loads of many keys.
#[inline(always)]
fn has_all<const BITS: u32>(word: u64, hash: u64) -> bool {
    (0..BITS).rev().fold(1, |all, number| all & word >> bit(hash, number)) == 1
}

/// A word of a filter, in memory or stored.
pub(super) trait Word {
    fn value(&self) -> u64;
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn value(&self) -> u64 {
        // Relaxed: a filter publishes only its own bits, and those only accumulate.
        self.load(Ordering::Relaxed)
    }
}

/// A stored word, at any alignment.
impl Word for [u8; 8] {
    #[inline(always)]
    fn value(&self) -> u64 {
        u64::from_le_bytes(*self)
    }
}

/// Whether `words`, `2 ^ index_bits` of them, hold all bits of the key.
#[inline]
pub(super) fn contains<W: Word>(words: &[W], index_bits: u32, layout: WordLayout, hash: KeyHash) -> bool {
    let hash = hash.get();
    let Some(word) = words.get(word_index(hash, index_bits)) else { return true };
    let word = word.value();
    for_layout!(layout, BITS => has_all::<BITS>(word, hash))
}

/// [`contains`] for many: bit `i % 64` of word `i / 64` of `matches` becomes the answer for hash `i`.
///
/// No prefetch: without a branch on the answers, the CPU overlaps the loads of many keys by itself. Rejected: a gather
/// of eight words, which was slower than eight loads.
pub(super) fn contains_batch<W: Word>(
    words: &[W],
    index_bits: u32,
    layout: WordLayout,
    hashes: &[KeyHash],
    matches: &mut [u64],
) {
    let Some(last) = words.len().checked_sub(1) else { return matches.fill(u64::MAX) };
    for_layout!(layout, BITS => {
        // The index is below the length, a power of two; the mask tells the compiler, which then omits the check.
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
        for layout in WordLayout::ALL {
            for key in 0..2_000 {
                let (hash, word) = (KeyHash::mix(key).get(), KeyHash::mix(!key).get() | key << 20);
                let (mask, contained) = for_layout!(layout, BITS => (
                    mask::<BITS>(hash),
                    [word, u64::MAX, 0].map(|word| has_all::<BITS>(word, hash)),
                ));
                assert!((1..=u32::from(layout.bits_per_key())).contains(&mask.count_ones()));
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
    fn only_the_three_layouts_have_codes() {
        let codes: Vec<u32> = (0..=u32::from(u16::MAX)).filter(|&code| WordLayout::from_code(code).is_some()).collect();
        assert_eq!(codes, [0x4002, 0x4003, 0x4004]);
        assert!(WordLayout::ALL.iter().all(|layout| WordLayout::from_code(layout.code()) == Some(*layout)));
    }
}
