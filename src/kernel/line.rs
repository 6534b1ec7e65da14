//! The pair-lane line: where the bits of one key lie in its 64-byte line.
//!
//! A line is 16 little-endian 32-bit words. Lane `j` owns the *pair* of words `j` and `j XOR 8`; a key
//! uses `probes` of the 16 lanes (of the first 8, up to eight probes), chosen by its own low bits, and
//! sets one of the 64 bits of each lane's pair. So no two probes of the first eight share a bit, and a
//! vector of eight 32-bit lanes computes them all with one multiply and one variable shift.

pub(crate) use crate::codec::LINE_BYTES;
use crate::hash::KeyHash;

/// One line, as it lies in a payload.
pub(crate) type Line = [u8; LINE_BYTES];

/// The bits of one key in its line, as eight little-endian 64-bit words.
pub(crate) type LineMask = [u64; 8];

/// The most probes a line takes: one in each lane.
pub(crate) const MAX_PROBES: u8 = 16;

/// Lane `j`'s multiplier: 0x9e3779b9 (the golden ratio in 32 bits) to the power `j + 1`.
const MULTIPLIERS: [u32; 16] = {
    let mut powers = [0x9e37_79b9_u32; 16];
    let mut lane = 1;
    while lane < 16 {
        powers[lane] = powers[lane - 1].wrapping_mul(0x9e37_79b9);
        lane += 1;
    }
    powers
};

/// Which lanes of a round of eight are active for 0 to 8 probes, before the key's rotation. Chosen by
/// search so that, over the eight rotations, all pairs of lanes come together about equally often.
const BASE_SETS: [u8; 9] = [0x00, 0x01, 0x03, 0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff];

/// For each number of probes, the base sets of lanes 0-7 and of lanes 8-15.
const ROUNDS: [(u8, u8); 17] = {
    let mut rounds = [(0, 0); 17];
    let mut probes = 0;
    while probes <= 16 {
        rounds[probes] =
            if probes <= 8 { (BASE_SETS[probes], 0) } else { (BASE_SETS[probes.div_ceil(2)], BASE_SETS[probes / 2]) };
        probes += 1;
    }
    rounds
};

/// The lanes that the key with low hash bits `x` uses, one bit each.
fn active_lanes(x: u32, probes: u8) -> u16 {
    let (first, second) = ROUNDS[usize::from(probes.min(MAX_PROBES))];
    let first = first.rotate_left(x & 7);
    let second = second.rotate_left((x >> 3) & 7);
    u16::from(first) | u16::from(second) << 8
}

/// The word (0 to 15) and the bit in it (0 to 31) that lane `lane` of the key with low hash bits `x` owns.
fn position(x: u32, lane: usize) -> (usize, u32) {
    let y = x.wrapping_mul(MULTIPLIERS[lane & 15]);
    let partner = (y >> 31) as usize * 8;
    ((lane & 15) ^ partner, (y >> 26) & 31)
}

/// Calls `visit` with the word and bit of each probe.
#[inline]
fn for_each_probe(x: u32, probes: u8, mut visit: impl FnMut(usize, u32)) {
    let mut lanes = active_lanes(x, probes);
    while lanes != 0 {
        let (word, bit) = position(x, lanes.trailing_zeros() as usize);
        visit(word, bit);
        lanes &= lanes - 1;
    }
}

/// The bits of a hash that choose positions inside its line: the low 32. The line itself comes from
/// the high bits.
fn in_line_bits(hash: KeyHash) -> u32 {
    hash.get() as u32
}

/// Sets the key's bits in its line.
#[inline]
pub(crate) fn insert(line: &mut Line, hash: KeyHash, probes: u8) {
    for_each_probe(in_line_bits(hash), probes, |word, bit| {
        line[(word * 4 + bit as usize / 8) & 63] |= 1 << (bit % 8);
    });
}

/// Whether all of the key's bits are set in its line. There is no early exit: on absent keys it would
/// mispredict once per key, which costs more than the probes it saves.
#[inline]
pub(crate) fn contains(line: &Line, hash: KeyHash, probes: u8) -> bool {
    let (words, _) = line.as_chunks::<4>();
    let mut all = 1;
    for_each_probe(in_line_bits(hash), probes, |word, bit| {
        all &= u32::from_le_bytes(words[word & 15]) >> bit;
    });
    all & 1 == 1
}

/// The key's bits as one mask over the line, to be computed once and tested against many filters.
pub(crate) fn mask(hash: KeyHash, probes: u8) -> LineMask {
    let mut line = [0; LINE_BYTES];
    insert(&mut line, hash, probes);
    let (words, _) = line.as_chunks::<8>();
    let mut mask = [0; 8];
    for (out, word) in mask.iter_mut().zip(words) {
        *out = u64::from_le_bytes(*word);
    }
    mask
}

/// Whether all bits of `mask` are set in `line`.
#[inline]
pub(crate) fn covers(line: &Line, mask: &LineMask) -> bool {
    let (words, _) = line.as_chunks::<8>();
    let missing = mask.iter().zip(words).fold(0, |missing, (mask, word)| missing | (mask & !u64::from_le_bytes(*word)));
    missing == 0
}

/// Ones in the line.
pub(crate) fn ones(line: &Line) -> u32 {
    let (words, _) = line.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line's words after one insert.
    fn words_of(hash: u64, probes: u8) -> Vec<(usize, u32)> {
        let mut line = [0; 64];
        insert(&mut line, KeyHash::from_well_mixed(hash), probes);
        let (words, _) = line.as_chunks::<4>();
        words.iter().map(|word| u32::from_le_bytes(*word)).enumerate().filter(|&(_, word)| word != 0).collect()
    }

    #[test]
    fn the_test_vectors_of_the_format_hold() {
        assert_eq!(
            words_of(0x0123_4567_89ab_cdef, 6),
            [(0, 0x1000_0000), (2, 0x40), (3, 0x1_0000), (4, 0x2000_0000), (9, 0x40_0000), (15, 0x1000_0000)]
        );
        assert_eq!(
            words_of(0xfedc_ba98_7654_3210, 6),
            [(1, 0x1_0000), (2, 0x2000_0000), (8, 0x0800_0000), (11, 4), (12, 0x400), (13, 0x4000)]
        );
        assert_eq!(
            words_of(0x0123_4567_89ab_cdef, 9),
            [
                (0, 0x1000_0000),
                (1, 0x40),
                (2, 0x40),
                (4, 0x2000_0000),
                (5, 2),
                (7, 0x100),
                (9, 0x40_0000),
                (14, 0x800),
                (15, 0x1000_0000)
            ]
        );
        assert_eq!(words_of(0, 6), (0..6).map(|word| (word, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn every_number_of_probes_uses_as_many_lanes_and_all_lanes_equally_often() {
        for probes in 1..=MAX_PROBES {
            let mut uses = [0; 16];
            for x in 0..64 {
                let lanes = active_lanes(x, probes);
                assert_eq!(lanes.count_ones(), u32::from(probes));
                (0..16).for_each(|lane| uses[lane] += lanes >> lane & 1);
            }
            let rounds = if probes <= 8 { 1 } else { 2 };
            for round in uses[..8 * rounds].chunks(8) {
                assert!(round.iter().all(|&count| count == round[0] && count > 0), "{probes} probes: {uses:?}");
            }
        }
    }

    #[test]
    fn contains_mask_and_bits_agree_for_every_number_of_probes() {
        let mut line = [0; 64];
        for probes in 1..=MAX_PROBES {
            for seed in 0..200 {
                let (added, asked) = (KeyHash::from_remixed(seed), KeyHash::from_remixed(seed + 1_000));
                insert(&mut line, added, probes);
                assert!(contains(&line, added, probes));
                assert_eq!(contains(&line, asked, probes), covers(&line, &mask(asked, probes)));
                if seed % 16 == 0 {
                    line = [0; 64];
                }
            }
        }
    }
}
