//! Vectors of 16 lanes.

use core::arch::aarch64::{
    uint8x16_t, vaddv_u8, vandq_u8, vdupq_n_u8, veorq_u8, vget_high_u8, vget_low_u8, vld1q_u8, vld1q_u64, vminq_u8,
    vorrq_u8, vqsubq_u8, vqtbl1q_u8, vreinterpretq_u8_u64, vshrq_n_u8, vst1q_u8, vtrn1q_u64, vtrn2q_u64, vtstq_u8,
    vuzp1q_u8, vuzp2q_u8,
};

use super::{ByteTable, ByteVector};

/// NEON is part of every 64-bit ARM.
#[derive(Clone, Copy)]
pub(crate) struct Neon(uint8x16_t);

impl ByteVector for Neon {
    const LANES: usize = 16;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(bytes: &[u8]) -> Self {
        // SAFETY: the slice has 16 bytes.
        unsafe { Self(vld1q_u8(bytes[..16].as_ptr())) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(self, bytes: &mut [u8]) {
        // SAFETY: the slice has 16 bytes.
        unsafe { vst1q_u8(bytes[..16].as_mut_ptr(), self.0) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn table(table: &ByteTable) -> Self {
        // SAFETY: 16 bytes can be read.
        unsafe { Self(vld1q_u8(table.as_ptr())) }
    }

    operations! {
        "neon",
        look_up: vqtbl1q_u8,
        and: vandq_u8,
        or: vorrq_u8,
        xor: veorq_u8,
        saturating_sub: vqsubq_u8,
        min: vminq_u8,
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn upper_half(self) -> Self {
        Self(vshrq_n_u8::<4>(self.0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn low_bits(self) -> [u64; 4] {
        [1, 2, 4, 8].map(|bit| lanes_with(self.0, vdupq_n_u8(bit)))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn non_zero(self) -> u64 {
        lanes_with(self.0, self.0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn transpose(words: &[u64; 16]) -> [ByteTable; 8] {
        // SAFETY: two words can be read from each place.
        unsafe {
            let two = |at: usize| vreinterpretq_u8_u64(vld1q_u64(words[at * 2..at * 2 + 2].as_ptr()));
            unzip(core::array::from_fn(two))
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn transpose_pairs(pairs: &[[u64; 2]; 16]) -> [[ByteTable; 8]; 2] {
        // SAFETY: a pair can be read from each place.
        unsafe {
            let pair = |at: usize| vld1q_u64(pairs[at].as_ptr());
            let first = |at: usize| vreinterpretq_u8_u64(vtrn1q_u64(pair(at * 2), pair(at * 2 + 1)));
            let second = |at: usize| vreinterpretq_u8_u64(vtrn2q_u64(pair(at * 2), pair(at * 2 + 1)));
            [unzip(core::array::from_fn(first)), unzip(core::array::from_fn(second))]
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sums(words: [u64; 4]) -> [ByteTable; 8] {
        let mut sums = [0; 16];
        for (index, word) in words.into_iter().enumerate() {
            let (known, new) = sums.split_at_mut(1 << index);
            new.iter_mut().zip(known).for_each(|(new, known)| *new = *known ^ word);
        }
        // SAFETY: this function has the instructions.
        unsafe { Self::transpose(&sums) }
    }
}

/// Returns bit `i` set if lane `i` of both has a bit in common.
#[inline]
#[target_feature(enable = "neon")]
fn lanes_with(bytes: uint8x16_t, bits: uint8x16_t) -> u64 {
    const WEIGHTS: ByteTable = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: 16 bytes can be read.
    unsafe {
        let found = vandq_u8(vtstq_u8(bytes, bits), vld1q_u8(WEIGHTS.as_ptr()));
        u64::from(vaddv_u8(vget_low_u8(found))) | u64::from(vaddv_u8(vget_high_u8(found))) << 8
    }
}

/// Returns byte `b` of sixteen words, two in each vector, as table `b`: separates the even bytes from the odd ones
/// three times.
#[inline]
#[target_feature(enable = "neon")]
fn unzip(words: [uint8x16_t; 8]) -> [ByteTable; 8] {
    let split = |left: uint8x16_t, right: uint8x16_t| [vuzp1q_u8(left, right), vuzp2q_u8(left, right)];
    let [w0, w1, w2, w3, w4, w5, w6, w7] = words;
    let ([even0, odd0], [even1, odd1]) = (split(w0, w1), split(w2, w3));
    let ([even2, odd2], [even3, odd3]) = (split(w4, w5), split(w6, w7));
    let ([b04_0, b26_0], [b04_1, b26_1]) = (split(even0, even1), split(even2, even3));
    let ([b15_0, b37_0], [b15_1, b37_1]) = (split(odd0, odd1), split(odd2, odd3));
    let ([b0, b4], [b2, b6]) = (split(b04_0, b04_1), split(b26_0, b26_1));
    let ([b1, b5], [b3, b7]) = (split(b15_0, b15_1), split(b37_0, b37_1));
    [b0, b1, b2, b3, b4, b5, b6, b7].map(|bytes| {
        let mut table = [0; 16];
        // SAFETY: 16 bytes can be written.
        unsafe { vst1q_u8(table.as_mut_ptr(), bytes) };
        table
    })
}
