//! NEON: a round of eight lanes is two vectors of four.

use core::arch::aarch64::{
    uint32x4_t, vandq_u32, vbicq_u32, vbslq_u32, vdupq_n_u32, vld1q_u8, vld1q_u32, vmaxvq_u32, vmulq_u32, vorrq_u32,
    vreinterpretq_s32_u32, vreinterpretq_u8_u32, vreinterpretq_u32_s32, vreinterpretq_u32_u8, vshlq_u32, vshrq_n_s32,
    vshrq_n_u32, vst1q_u8,
};

use super::batch::{functions_of_set, line_at, line_at_mut};
use super::{ActiveRow, ActiveRows, Candidate, Line, MULTIPLIERS, active_rows, covered_by, in_line_bits};
use crate::filter::batch::word_of;
use crate::hash::KeyHash;

functions_of_set!(all #[target_feature(enable = "neon")]);

/// The bits of one key in its line, for keys of `ROUNDS` rounds of lanes.
#[derive(Clone, Copy)]
struct Lanes<const ROUNDS: usize> {
    rows: [&'static ActiveRows; 2],
}

/// Four lanes: a mask of all ones if the bit is in the partner's word, and the lane's bit, 0 if inactive.
type FourLanes = (uint32x4_t, uint32x4_t);

impl<const ROUNDS: usize> Lanes<ROUNDS> {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(probes: u8) -> Self {
        Self { rows: active_rows(probes) }
    }

    /// Computes the lanes of round `round`.
    #[inline]
    #[target_feature(enable = "neon")]
    fn round(self, round: usize, x: u32) -> [FourLanes; 2] {
        let active: &ActiveRow = &self.rows[round].0[(x >> (3 * round) & 7) as usize];
        let (multipliers, active) = (load_row(&MULTIPLIERS.0[round]), load_row(active));
        [lanes(x, multipliers[0], active[0]), lanes(x, multipliers[1], active[1])]
    }

    /// Returns whether the line has all of the key's bits.
    #[inline]
    #[target_feature(enable = "neon")]
    fn contains(self, line: &Line, hash: KeyHash) -> bool {
        let x = in_line_bits(hash);
        let [a, b, c, d] = load_line(line);
        let [first, second] = self.round(0, x);
        let mut missing = vorrq_u32(lacks(a, c, first), lacks(b, d, second));
        if ROUNDS == 2 {
            let [first, second] = self.round(1, x);
            missing = vorrq_u32(missing, vorrq_u32(lacks(c, a, first), lacks(d, b, second)));
        }
        // One horizontal maximum for all lanes: NEON has no test of a whole vector for zero.
        vmaxvq_u32(missing) == 0
    }

    /// Tests eight keys, each in its line: bit `i` is the answer for key `i`.
    #[inline]
    #[target_feature(enable = "neon")]
    fn test_eight(self, lines: &[Line], keys: &[KeyHash; 8]) -> u8 {
        word_of(keys.iter().map(|&hash| self.contains(line_at(lines, hash), hash))) as u8
    }

    /// Sets the key's bits.
    #[inline]
    #[target_feature(enable = "neon")]
    fn set(self, line: &mut Line, hash: &KeyHash) {
        let x = in_line_bits(*hash);
        let [mut a, mut b, mut c, mut d] = load_line(line);
        let [first, second] = self.round(0, x);
        [a, c] = with_bits(a, c, first);
        [b, d] = with_bits(b, d, second);
        if ROUNDS == 2 {
            let [first, second] = self.round(1, x);
            [c, a] = with_bits(c, a, first);
            [d, b] = with_bits(d, b, second);
        }
        store_line(line, [a, b, c, d]);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn lanes(x: u32, multipliers: uint32x4_t, active: uint32x4_t) -> FourLanes {
    let products = vmulq_u32(vdupq_n_u32(x), multipliers);
    let negative = vreinterpretq_u32_s32(vshrq_n_s32::<31>(vreinterpretq_s32_u32(products)));
    let counts = vandq_u32(vshrq_n_u32::<26>(products), vdupq_n_u32(31));
    (negative, vshlq_u32(active, vreinterpretq_s32_u32(counts)))
}

/// Returns the lanes' bits that are clear in the line.
#[inline]
#[target_feature(enable = "neon")]
fn lacks(own: uint32x4_t, partner: uint32x4_t, (negative, bits): FourLanes) -> uint32x4_t {
    vbicq_u32(bits, vbslq_u32(negative, partner, own))
}

/// Returns both words with the lanes' bits set.
#[inline]
#[target_feature(enable = "neon")]
fn with_bits(own: uint32x4_t, partner: uint32x4_t, (negative, bits): FourLanes) -> [uint32x4_t; 2] {
    [vorrq_u32(own, vbicq_u32(bits, negative)), vorrq_u32(partner, vandq_u32(bits, negative))]
}

#[inline]
#[target_feature(enable = "neon")]
fn load_row(words: &[u32; 8]) -> [uint32x4_t; 2] {
    let start: *const u32 = words.as_ptr();
    // SAFETY: eight words are readable there.
    unsafe { [vld1q_u32(start), vld1q_u32(start.add(4))] }
}

/// Loads the line's four quarters. Loads of bytes accept any alignment.
#[inline]
#[target_feature(enable = "neon")]
fn load_line(line: &Line) -> [uint32x4_t; 4] {
    let start: *const u8 = line.as_ptr();
    // SAFETY: a line is 64 bytes.
    let quarters =
        unsafe { [vld1q_u8(start), vld1q_u8(start.add(16)), vld1q_u8(start.add(32)), vld1q_u8(start.add(48))] };
    [
        vreinterpretq_u32_u8(quarters[0]),
        vreinterpretq_u32_u8(quarters[1]),
        vreinterpretq_u32_u8(quarters[2]),
        vreinterpretq_u32_u8(quarters[3]),
    ]
}

#[inline]
#[target_feature(enable = "neon")]
fn store_line(line: &mut Line, [a, b, c, d]: [uint32x4_t; 4]) {
    let start: *mut u8 = line.as_mut_ptr();
    // SAFETY: a line is 64 bytes, borrowed for writing; stores of bytes take any alignment.
    unsafe {
        vst1q_u8(start, vreinterpretq_u8_u32(a));
        vst1q_u8(start.add(16), vreinterpretq_u8_u32(b));
        vst1q_u8(start.add(32), vreinterpretq_u8_u32(c));
        vst1q_u8(start.add(48), vreinterpretq_u8_u32(d));
    }
}

#[target_feature(enable = "neon")]
pub(super) fn covered<'a>(mask: &Line, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    let [a, b, c, d] = load_line(mask);
    covered_by(candidates, |line| {
        let line = load_line(line);
        let low = vorrq_u32(vbicq_u32(a, line[0]), vbicq_u32(b, line[1]));
        let high = vorrq_u32(vbicq_u32(c, line[2]), vbicq_u32(d, line[3]));
        vmaxvq_u32(vorrq_u32(low, high)) == 0
    })
}
