//! Where a key's bits lie in its word.

/// Bits in a machine word of the payload.
const MACHINE_WORD_BITS: u32 = 64;

/// How many bits a key sets, and in a word of which width. The figures are the rates at 8 bits per key: 262,144 keys in
/// the usual 256 KiB.
///
/// ```
/// use sstfilter::WordLayout;
///
/// assert_eq!(WordLayout::default(), WordLayout::TwoBits);
/// assert_eq!((WordLayout::FourBits.word_bits(), WordLayout::FourBits.bits_per_key()), (64, 4));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WordLayout {
    /// Two bits in a word of 64: 5.33 %. The fastest but for one bit.
    #[default]
    TwoBits,
    /// Three bits in a word of 64: 3.76 %.
    ThreeBits,
    /// Four bits in a word of 64: 3.35 %.
    FourBits,
    /// One bit in a word of 32, as Floe had it first: 11.75 %. Only to compare with.
    FloeOneBit,
    /// Two bits in a word of 32, at most 31 apart, as Floe has them: 5.76 %. Only to compare with: wider words
    /// are better and cost nothing.
    FloeTwoBits,
}

impl WordLayout {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::TwoBits, Self::ThreeBits, Self::FourBits, Self::FloeOneBit, Self::FloeTwoBits];

    /// Width of the word that holds all of a key's bits.
    #[must_use]
    pub const fn word_bits(self) -> u32 {
        match self {
            Self::TwoBits | Self::ThreeBits | Self::FourBits => 64,
            Self::FloeOneBit | Self::FloeTwoBits => 32,
        }
    }

    /// Bits that a key sets; two of them may coincide.
    #[must_use]
    pub const fn bits_per_key(self) -> u32 {
        match self {
            Self::FloeOneBit => 1,
            Self::TwoBits | Self::FloeTwoBits => 2,
            Self::ThreeBits => 3,
            Self::FourBits => 4,
        }
    }

    /// The layout's name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoBits => "2 bits in 64",
            Self::ThreeBits => "3 bits in 64",
            Self::FourBits => "4 bits in 64",
            Self::FloeOneBit => "1 bit in 32 (Floe)",
            Self::FloeTwoBits => "2 bits in 32 (Floe)",
        }
    }

    /// What a parameter word says of the layout: bits per key, and from bit 8 on the width of the word.
    pub(crate) const fn code(self) -> u32 {
        self.word_bits() << 8 | self.bits_per_key()
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.code() == code)
    }
}

/// Runs `$call` compiled for each layout: `$width` and `$probes` are constants in it.
macro_rules! for_layout {
    ($layout:expr, $width:ident, $probes:ident => $call:expr) => {{
        use $crate::filter::two_bit_bloom::WordLayout;
        macro_rules! with {
            ($w:literal, $p:literal) => {{
                const $width: u32 = $w;
                const $probes: u32 = $p;
                $call
            }};
        }
        match $layout {
            WordLayout::TwoBits => with!(64, 2),
            WordLayout::ThreeBits => with!(64, 3),
            WordLayout::FourBits => with!(64, 4),
            WordLayout::FloeOneBit => with!(32, 1),
            WordLayout::FloeTwoBits => with!(32, 2),
        }
    }};
}
pub(super) use for_layout;

/// The index of the key's machine word, from the top bits of its hash: `index_bits` of them, 1 to 63.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the number of words in memory")]
pub(super) const fn word_index(hash: u64, index_bits: u32) -> usize {
    (hash >> (MACHINE_WORD_BITS - index_bits)) as usize
}

/// Where the key's word of `WIDTH` bits begins in its machine word: the bit of the hash below those of the index
/// chooses the half.
#[inline(always)]
const fn first_bit<const WIDTH: u32>(hash: u64, index_bits: u32) -> u64 {
    if WIDTH == MACHINE_WORD_BITS { 0 } else { (hash << index_bits >> 63) << 5 }
}

/// Bit `probe` of the key, within its word: the low bits of the hash, five or six at a time.
#[inline(always)]
const fn bit<const WIDTH: u32>(hash: u64, probe: u32) -> u64 {
    (hash >> (probe * WIDTH.ilog2())) & (WIDTH as u64 - 1)
}

/// The key's bits in its machine word.
#[inline(always)]
pub(super) fn mask<const WIDTH: u32, const PROBES: u32>(hash: u64, index_bits: u32) -> u64 {
    let bits = (0..PROBES).fold(0, |bits, probe| bits | 1_u64 << bit::<WIDTH>(hash, probe));
    bits << first_bit::<WIDTH>(hash, index_bits)
}

/// 1 if all the key's bits are set in `word`, its machine word, else 0. Shifts the word by each bit's number, which
/// costs less than making the mask.
#[inline(always)]
pub(super) fn covers<const WIDTH: u32, const PROBES: u32>(word: u64, hash: u64, index_bits: u32) -> u64 {
    let word = word >> first_bit::<WIDTH>(hash, index_bits);
    (0..PROBES).fold(1, |all, probe| all & word >> bit::<WIDTH>(hash, probe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;

    #[test]
    fn shifting_and_masking_agree_in_every_layout() {
        for layout in WordLayout::ALL {
            for key in 0..2_000 {
                let (hash, word) = (KeyHash::from_remixed(key).get(), KeyHash::from_remixed(!key).get() | key << 20);
                for index_bits in [3, 15, 27] {
                    let (mask, covered) = for_layout!(layout, WIDTH, PROBES => (
                        mask::<WIDTH, PROBES>(hash, index_bits),
                        [word, u64::MAX, 0].map(|word| covers::<WIDTH, PROBES>(word, hash, index_bits)),
                    ));
                    assert!((1..=layout.bits_per_key()).contains(&mask.count_ones()));
                    assert_eq!(covered, [u64::from(word & mask == mask), 1, 0]);
                    assert!(layout.word_bits() == 64 || mask >> 32 == 0 || mask.trailing_zeros() >= 32);
                }
            }
        }
    }

    #[test]
    fn a_keys_bits_are_where_the_format_has_them() {
        let hash = 0b1011 << 60 | 0b1 << 59 | 0b00_0011 << 18 | 0b11_1111 << 12 | 0b00_0001 << 6 | 0b10_0000;
        assert_eq!(word_index(hash, 4), 0b1011);
        assert_eq!(mask::<64, 2>(hash, 4), 1 << 32 | 1 << 1);
        assert_eq!(mask::<64, 4>(hash, 4), 1 << 32 | 1 << 1 | 1 << 63 | 1 << 3);
        // The low bits, five at a time: 00000, 00011.
        assert_eq!(mask::<32, 2>(hash, 4), (1 << 0 | 1 << 3) << 32);
        assert_eq!(mask::<32, 1>(hash & !(1 << 59), 4), 1);
    }

    #[test]
    fn only_the_five_layouts_have_codes() {
        let codes: Vec<u32> = (0..=u32::from(u16::MAX)).filter(|&code| WordLayout::from_code(code).is_some()).collect();
        assert_eq!(codes, [0x2001, 0x2002, 0x4002, 0x4003, 0x4004]);
        assert!(WordLayout::ALL.iter().all(|layout| WordLayout::from_code(layout.code()) == Some(*layout)));
    }
}
