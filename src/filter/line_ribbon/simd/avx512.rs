//! AVX-512 with the instructions for Galois fields, which multiply matrices of 8 by 8 bits.

use core::arch::x86_64::*;

use super::equation::COEFFICIENTS;
use super::solver::{AT_ONCE, Solver};
use super::{Line, Set, functions_of_set};

pub(super) struct Avx512;

functions_of_set!(
    Avx512,
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
);

impl Set for Avx512 {
    type Solver = Planes;

    #[inline(always)]
    unsafe fn parities(line: &Line, coefficients: u64) -> u8 {
        // SAFETY: the caller promises the set.
        unsafe {
            let masked = _mm512_and_si512(load(line), _mm512_set1_epi64(coefficients.cast_signed()));
            _mm512_test_epi64_mask(_mm512_popcnt_epi64(masked), _mm512_set1_epi64(1))
        }
    }

    /// In assembly, with a register from 16 on: those need no `vzeroupper`, with which the compiler would end each
    /// probe. In loops, its own code is faster.
    #[inline(always)]
    unsafe fn parities_alone(line: &Line, coefficients: u64) -> u8 {
        let odd: u32;
        // SAFETY: the caller promises the set; a line has 64 bytes, and the operand can have any alignment.
        unsafe {
            core::arch::asm!(
                "vpbroadcastq zmm16, {coefficients}",
                "vpandq zmm16, zmm16, zmmword ptr [{line}]",
                "vpopcntq zmm16, zmm16",
                "vpsllq zmm16, zmm16, 63",
                "vpmovq2m k1, zmm16",
                "kmovb {odd:e}, k1",
                out("zmm16") _,
                out("k1") _,
                coefficients = in(reg) coefficients,
                line = in(reg) line,
                odd = lateout(reg) odd,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        odd as u8
    }

    #[inline(always)]
    unsafe fn differing(ones: &[u8; 64], others: &[u8; 64]) -> u64 {
        // SAFETY: the caller promises the set.
        unsafe { _mm512_cmpneq_epu8_mask(load(ones), load(others)) }
    }

    #[inline(always)]
    unsafe fn above(ones: &[u8; 64], others: &[u8; 64]) -> u64 {
        // SAFETY: the caller promises the set.
        unsafe { _mm512_cmpgt_epu8_mask(load(ones), load(others)) }
    }
}

/// A system as matrices of 8 by 8 bits. Plane `r` has a byte for each slot: whether it contains free slots `8 r` to
/// `8 r + 7`. The constants are a plane, too, with a bit for each column. Slot `8 s + j` has byte `8 s + 7 - j`, the
/// order of rows in a matrix.
pub(super) struct Planes {
    slots: [__m512i; 8],
    constants: __m512i,
}

/// The matrix whose row `i`, byte `7 - i`, has bit `i`. Multiplied with a matrix, it gives the transpose.
const IDENTITY: i64 = 0x0102_0408_1020_4080;

/// Byte `8 s + k` of the result is byte `8 k + s`: from words to planes.
static TO_PLANES: [u8; 64] = transposition(0, 0);
/// The same with the words in the order of rows.
static TO_ROWS: [u8; 64] = transposition(7, 0);
/// From rows to words.
static TO_WORDS: [u8; 64] = transposition(0, 7);

/// Returns indexes that transpose 8 by 8 bytes, with the order of words or of bytes reversed by a 7.
const fn transposition(words: usize, bytes: usize) -> [u8; 64] {
    let (mut index, mut at) = ([0; 64], 0);
    while at < 64 {
        index[at] = (8 * (at % 8 ^ words) + (at / 8 ^ bytes)) as u8;
        at += 1;
    }
    index
}

impl Solver for Planes {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the caller promises the set.
        unsafe {
            let own = |plane: usize| _mm512_maskz_set1_epi64(1 << plane, IDENTITY);
            Self { slots: core::array::from_fn(own), constants: _mm512_setzero_si512() }
        }
    }

    #[inline(always)]
    unsafe fn add(&mut self, hashes: &[u64; AT_ONCE]) -> Result<(), usize> {
        // SAFETY: the caller promises the set; there are 64 bytes of hashes.
        unsafe {
            let hashes = _mm512_loadu_si512(hashes.as_ptr().cast());
            let to_planes = load(&TO_PLANES);
            let coefficients = _mm512_mullo_epi64(hashes, _mm512_set1_epi64(COEFFICIENTS.cast_signed()));
            let coefficients = _mm512_permutexvar_epi8(to_planes, coefficients);
            // Lane `s` has the sums of slots `8 s` to `8 s + 7`, a byte for each equation.
            let sums_in = |plane| _mm512_gf2p8affine_epi64_epi8::<0>(coefficients, transposed(plane));
            let two = |plane: usize| {
                let (one, other) = (sums_in(self.slots[plane]), sums_in(self.slots[plane + 1]));
                _mm512_xor_si512(_mm512_unpacklo_epi64(one, other), _mm512_unpackhi_epi64(one, other))
            };
            // Each lane of the result is the sum of two.
            let fold = |a, b| _mm512_xor_si512(_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
            let sums = fold(fold(two(0), two(2)), fold(two(4), two(6)));
            let mut sums = _mm512_permutexvar_epi8(to_planes, sums);
            let constants = sums_in(self.constants);
            let half = _mm256_xor_si256(_mm512_castsi512_si256(constants), _mm512_extracti64x4_epi64::<1>(constants));
            let quarter = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
            let constants = _mm_xor_si128(quarter, _mm_unpackhi_epi64(quarter, quarter));
            let results = _mm512_and_si512(_mm512_srli_epi64::<24>(hashes), _mm512_set1_epi64(255));
            let mut values = _mm512_xor_si512(_mm512_cvtepu8_epi64(constants), results);
            // Reduces the equations by each other.
            macro_rules! reduce {
                ($($index:literal)*) => {$(
                    let (sum, value) = (lane::<$index>(sums), lane::<$index>(values));
                    let has = _mm512_mask_test_epi64_mask(!(1 << $index), sums, lowest_bits(sum));
                    sums = _mm512_mask_xor_epi64(sums, has, sums, sum);
                    values = _mm512_mask_xor_epi64(values, has, values, value);
                )*};
            }
            reduce!(0 1 2 3 4 5 6 7);
            // Equations without slots must be true.
            let wrong = _mm512_mask_test_epi64_mask(_mm512_testn_epi64_mask(sums, sums), values, values);
            if wrong != 0 {
                return Err(wrong.trailing_zeros() as usize);
            }
            let to_rows = load(&TO_ROWS);
            let pivots = _mm512_permutexvar_epi8(to_rows, lowest_bits(sums));
            let sums = transposed(_mm512_permutexvar_epi8(to_rows, sums));
            let values = transposed(_mm512_permutexvar_epi8(to_rows, values));
            // For each slot, which pivots it contains: the equations to add to it.
            let mut contained = _mm512_setzero_si512();
            macro_rules! each_plane {
                ($($plane:literal)*) => {
                    $(
                        let found = _mm512_gf2p8affine_epi64_epi8::<0>(self.slots[$plane], lane::<$plane>(pivots));
                        contained = _mm512_xor_si512(contained, found);
                    )*
                    $(
                        let added = _mm512_gf2p8affine_epi64_epi8::<0>(contained, lane::<$plane>(sums));
                        self.slots[$plane] = _mm512_xor_si512(self.slots[$plane], added);
                    )*
                };
            }
            each_plane!(0 1 2 3 4 5 6 7);
            let added = _mm512_gf2p8affine_epi64_epi8::<0>(contained, lane::<0>(values));
            self.constants = _mm512_xor_si512(self.constants, added);
            Ok(())
        }
    }

    #[inline(always)]
    unsafe fn line(&self) -> Line {
        let mut line = [0; 64];
        // SAFETY: the caller promises the set; a line has 64 bytes.
        unsafe {
            // Lane `s` has byte `s` of word `j` as its byte `7 - j`.
            let words = _mm512_permutexvar_epi8(load(&TO_WORDS), transposed(self.constants));
            _mm512_storeu_si512(line.as_mut_ptr().cast(), words);
        }
        line
    }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the caller promises the set; `loadu` takes any alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn transposed(matrices: __m512i) -> __m512i {
    // SAFETY: the caller promises the set.
    unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(IDENTITY), matrices) }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn lane<const LANE: i64>(vector: __m512i) -> __m512i {
    // SAFETY: the caller promises the set.
    unsafe { _mm512_permutexvar_epi64(_mm512_set1_epi64(LANE), vector) }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn lowest_bits(words: __m512i) -> __m512i {
    // SAFETY: the caller promises the set.
    unsafe { _mm512_and_si512(words, _mm512_sub_epi64(_mm512_setzero_si512(), words)) }
}
