//! AVX-512 with the instructions for Galois fields: eight slots at a time, with rows as planes of bytes.
//!
//! A product with an 8 by 8 matrix of bits turns eight bits of a row into the set of the eight pivots that it needs;
//! another product turns that set into each byte that these pivots add to the row. One instruction multiplies 64 bytes
//! by such matrices; look-ups of half bytes would need tables of sums. A matrix is a word whose row `i` lies in byte
//! `7 - i`: in this order the instruction also multiplies matrices.
//!
//! The existing pivots of the eight slots are first reduced, so that none has bits at the slots of the others. A row
//! then needs the pivots at whose slots it has bits. With them added, it has bits only at free slots: about three of
//! eight, which are processed one by one. This order of elimination differs from that of the slots, but the outcome
//! does not: a row chosen for a free slot has the bits there that it would have in the order of the slots. Only the row
//! to store differs, because a reduced row may be longer than 64 slots. So the pivots of later slots are added to it
//! again.

use core::arch::x86_64::{
    __m512i, __mmask64, _mm_cvtsi128_si64, _mm_loadu_si128, _mm256_mask_storeu_epi32, _mm256_maskz_loadu_epi32,
    _mm512_and_si512, _mm512_andnot_si512, _mm512_broadcast_i32x4, _mm512_castsi256_si512, _mm512_castsi512_si128,
    _mm512_castsi512_si256, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_blend_epi8,
    _mm512_mask_storeu_epi64, _mm512_maskz_loadu_epi64, _mm512_maskz_permutex2var_epi8, _mm512_maskz_permutexvar_epi8,
    _mm512_min_epu8, _mm512_or_si512, _mm512_permutexvar_epi8, _mm512_permutexvar_epi64, _mm512_set1_epi8,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_storeu_si512, _mm512_subs_epu8,
    _mm512_test_epi8_mask, _mm512_xor_si512,
};

use super::MAX_LANES;
use super::planes::{Block, Sweep};
use crate::filter::ribbon::simd::bytes::ByteTable;
use crate::filter::ribbon::simd::bytes::avx2::Avx2;

/// The maximum number of vectors of lanes.
const VECTORS: usize = MAX_LANES / 64;

/// The bits that count in a row, by how many slots it starts after the group's first.
const STARTED: ByteTable = [0xff, 0xfe, 0xfc, 0xf8, 0xf0, 0xe0, 0xc0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0];

/// The matrix whose row `i` has bit `i`.
const IDENTITY: u64 = 0x0102_0408_1020_4080;

/// The matrix whose row `i` has the bits from `i` on: bits left of a pivot's slot stand for slots 64 further right.
const FROM_DIAGONAL: u64 = 0xfffe_fcf8_f0e0_c080;

/// The lowest bit of every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns the indexes that turn eight words of `bytes` bytes into planes: a matrix for each byte.
const fn to_planes(bytes: usize) -> [u8; 64] {
    let mut from = [0; 64];
    let mut at = 0;
    while at < bytes * 8 {
        from[at] = (bytes * (7 - at % 8) + at / 8) as u8;
        at += 1;
    }
    from
}

/// Returns the indexes for the way back.
const fn from_planes(bytes: usize) -> [u8; 64] {
    let (to, mut from, mut at) = (to_planes(bytes), [0; 64], 0);
    while at < bytes * 8 {
        from[to[at] as usize] = at as u8;
        at += 1;
    }
    from
}

static ROWS_TO_PLANES: [u8; 64] = to_planes(8);
static ROWS_FROM_PLANES: [u8; 64] = from_planes(8);
static RESULTS_TO_PLANES: [u8; 64] = to_planes(4);
static RESULTS_FROM_PLANES: [u8; 64] = from_planes(4);

/// Products of matrices of bits; planes are made and read with AVX2.
pub(super) struct Avx512;

impl Sweep for Avx512 {
    type Bytes = Avx2;

    const SLOTS_AT_ONCE: u8 = 8;
    const LANES: usize = 64;

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    unsafe fn sweep(block: &mut Block<'_>, started: usize) -> bool {
        if started <= 64 { block.sweep_eight::<1>() } else { block.sweep_eight::<VECTORS>() }
    }
}

/// The existing pivots of a group, as planes.
struct Existing {
    /// Their slots, as a bit set in each byte.
    slots: __m512i,
    rows: __m512i,
    results: __m512i,
    /// The matrix that reduces them by each other, transposed.
    reduction: __m512i,
    /// The matrix that removes from a row the pivots that it needs.
    removal: __m512i,
}

/// The rows that become pivots of a group.
#[derive(Default)]
struct Choice {
    /// Their slots.
    slots: u8,
    /// Their lanes, in the order of a matrix's rows.
    lanes: u64,
}

impl Block<'_> {
    /// Sweeps eight slots, a *group*, through the first `K` vectors of lanes. Returns whether no row has bits left.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn sweep_eight<const K: usize>(&mut self) -> bool {
        let existing = self.existing();
        let bits = self.started_bits::<K>();
        let mut needs = bits.map(|bits| _mm512_and_si512(bits, existing.slots));
        let free = !*self.pivots.occupied >> (self.first % 64);
        let choice = self.choose_rows(free as u8, bits.map(|bits| product(bits, existing.removal)), &mut needs);
        // The pivots that the chosen rows need: existing ones, and rows chosen before them.
        let needed = _mm512_andnot_si512(identity(), lanes_of(&needs, choice.lanes(), choice.rows()));
        let needed_existing = product(_mm512_and_si512(needed, existing.slots), existing.reduction);
        let needed_chosen = _mm512_andnot_si512(existing.slots, needed);
        let reduction = product(inverse(needed), existing.reduction);
        let of_group = |planes, existing| product(transposed(with_chosen::<K>(planes, &choice, existing)), reduction);
        let rows = of_group(&self.pending.rows.0, existing.rows);
        let results = of_group(&self.pending.results.0[..self.result_bytes], existing.results);
        let again = of_later_slots(word(needed_existing), word(needed_chosen), choice.slots);
        let stored = |reduced, existing| {
            transposed(_mm512_xor_si512(reduced, product(transposed(existing), _mm512_set1_epi64(again.cast_signed()))))
        };
        self.set_pivots(choice.slots, stored(rows, existing.rows), stored(results, existing.results));
        self.add_pivots(&needs, rows, results)
    }

    /// Loads the existing pivots.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn existing(&self) -> Existing {
        let slot = usize::from(self.first % 64);
        let occupied = (*self.pivots.occupied >> slot) as u8;
        // SAFETY: a block has 64 slots, and `slot` is a multiple of 8.
        let (rows, results) = unsafe {
            let rows = _mm512_maskz_loadu_epi64(occupied, self.pivots.rows.as_ptr().add(slot).cast());
            (rows, _mm256_maskz_loadu_epi32(occupied, self.pivots.results.as_ptr().add(slot).cast()))
        };
        let rows = _mm512_permutexvar_epi8(load(&ROWS_TO_PLANES), rows);
        let results = _mm512_permutexvar_epi8(load(&RESULTS_TO_PLANES), _mm512_castsi256_si512(results));
        let slots = _mm512_set1_epi8(occupied.cast_signed());
        let in_group = _mm512_permutexvar_epi64(_mm512_set1_epi64((self.first % 64 / 8).into()), rows);
        let in_group = _mm512_and_si512(in_group, _mm512_set1_epi64(FROM_DIAGONAL.cast_signed()));
        let reduction = inverse(_mm512_andnot_si512(identity(), _mm512_and_si512(in_group, slots)));
        let reduced = product(reduction, transposed(in_group));
        let removal = transposed(_mm512_xor_si512(identity(), reduced));
        Existing { slots, rows, results, reduction: transposed(reduction), removal }
    }

    /// Gathers each row's eight bits in the group, without those left of its start.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn started_bits<const K: usize>(&self) -> [__m512i; K] {
        let plane = self.pending.rows.0[usize::from(self.first) % 64 / 8].as_chunks().0;
        let offsets = self.pending.offsets.0[0].as_chunks().0;
        // SAFETY: 16 bytes can be read.
        let started = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(STARTED.as_ptr().cast())) };
        core::array::from_fn(|vector| {
            let ahead = _mm512_subs_epu8(load(&offsets[vector]), _mm512_set1_epi8(self.first.cast_signed()));
            let is_started = _mm512_shuffle_epi8(started, _mm512_min_epu8(ahead, _mm512_set1_epi8(15)));
            _mm512_and_si512(load(&plane[vector]), is_started)
        })
    }

    /// Chooses rows for the `free` slots by the bits that are `left` in each row, and adds to `needs` which of the
    /// chosen rows each row needs.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn choose_rows<const K: usize>(
        &mut self,
        mut free: u8,
        mut left: [__m512i; K],
        needs: &mut [__m512i; K],
    ) -> Choice {
        let mut choice = Choice::default();
        while free != 0 {
            let slot = free.trailing_zeros() as u8;
            free &= free - 1;
            let bit = _mm512_set1_epi8((1_u8 << slot).cast_signed());
            let found = left.map(|left| _mm512_test_epi8_mask(left, bit));
            let Some(lane) = highest(&found) else { continue };
            let pivot = found.map(|found| lanes_of(&left, _mm512_set1_epi8(lane.cast_signed()), found));
            for vector in 0..K {
                needs[vector] = _mm512_or_si512(needs[vector], _mm512_and_si512(left[vector], bit));
                left[vector] = _mm512_xor_si512(left[vector], pivot[vector]);
            }
            choice.slots |= 1 << slot;
            choice.lanes |= u64::from(lane) << (8 * (7 - slot));
            self.chosen.push(self.first + slot, self.pending.offsets.0[0][usize::from(lane) % MAX_LANES]);
        }
        choice
    }

    /// Stores the rows and results of the slots `chosen`, from planes.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn set_pivots(&mut self, chosen: u8, rows: __m512i, results: __m512i) {
        let slot = usize::from(self.first % 64);
        let rows = _mm512_permutexvar_epi8(load(&ROWS_FROM_PLANES), rows);
        let results = _mm512_permutexvar_epi8(load(&RESULTS_FROM_PLANES), results);
        // SAFETY: a block has 64 slots, and `slot` is a multiple of 8.
        unsafe {
            _mm512_mask_storeu_epi64(self.pivots.rows.as_mut_ptr().add(slot).cast(), chosen, rows);
            let results = _mm512_castsi512_si256(results);
            _mm256_mask_storeu_epi32(self.pivots.results.as_mut_ptr().add(slot).cast(), chosen, results);
        }
        *self.pivots.occupied |= u64::from(chosen) << slot;
    }

    /// Adds to each row the pivots that it needs, whose bytes are transposed. Returns whether no row has bits left.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn add_pivots<const K: usize>(&mut self, needs: &[__m512i; K], rows: __m512i, results: __m512i) -> bool {
        let mut left = _mm512_setzero_si512();
        for (plane, matrix) in self.pending.rows.0.iter_mut().zip(words(rows)) {
            left = _mm512_or_si512(left, add(plane, needs, matrix));
        }
        for (plane, matrix) in self.pending.results.0.iter_mut().take(self.result_bytes).zip(words(results)) {
            add(plane, needs, matrix);
        }
        _mm512_test_epi8_mask(left, left) == 0
    }
}

impl Choice {
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
    fn lanes(&self) -> __m512i {
        _mm512_set1_epi64(self.lanes.cast_signed())
    }

    /// Returns the mask of the bytes of their rows in matrices.
    fn rows(&self) -> __mmask64 {
        u64::from(self.slots.reverse_bits()) * ONES
    }
}

/// Combines the bytes of the chosen rows in `planes` with those of existing pivots.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn with_chosen<const K: usize>(planes: &[[u8; MAX_LANES]], choice: &Choice, existing: __m512i) -> __m512i {
    let mut chosen = _mm512_setzero_si512();
    for (byte, plane) in planes.iter().enumerate() {
        let plane: [__m512i; K] = core::array::from_fn(|vector| load(&plane.as_chunks().0[vector]));
        chosen = _mm512_or_si512(chosen, lanes_of(&plane, choice.lanes(), 0xff << (8 * byte)));
    }
    _mm512_mask_blend_epi8(choice.rows(), existing, chosen)
}

/// Returns, among the existing pivots with which the chosen rows were reduced, those of later slots than the row's own.
///
/// `needed_existing` has those that each row itself needs; rows in `needed_chosen` add theirs.
#[inline]
fn of_later_slots(mut needed_existing: u64, needed_chosen: u64, mut chosen: u8) -> u64 {
    while chosen != 0 {
        let slot = chosen.trailing_zeros();
        chosen &= chosen - 1;
        let later = needed_existing >> (8 * (7 - slot)) & (0xff << slot & 0xff);
        needed_existing ^= (needed_chosen >> slot & ONES) * later;
    }
    needed_existing & FROM_DIAGONAL
}

/// Adds to each byte of `plane` the bytes that it needs of the pivots in `matrix`. Returns the OR of all resulting
/// bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn add<const K: usize>(plane: &mut [u8; MAX_LANES], needs: &[__m512i; K], matrix: u64) -> __m512i {
    let matrix = _mm512_set1_epi64(matrix.cast_signed());
    let mut left = _mm512_setzero_si512();
    for (bytes, needs) in plane.as_chunks_mut().0.iter_mut().zip(needs) {
        let sum = _mm512_xor_si512(load(bytes), product(*needs, matrix));
        // SAFETY: 64 bytes can be written.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), sum) };
        left = _mm512_or_si512(left, sum);
    }
    left
}

/// Returns the last lane found.
#[inline]
fn highest<const K: usize>(found: &[u64; K]) -> Option<u8> {
    if K > 1 && found[K - 1] != 0 {
        return Some(64 + found[K - 1].ilog2() as u8);
    }
    found[0].checked_ilog2().map(|lane| lane as u8)
}

/// Selects, for each byte of `mask`, the byte of `vectors` in the lane that `lanes` has there; 0 for the other bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn lanes_of<const K: usize>(vectors: &[__m512i; K], lanes: __m512i, mask: __mmask64) -> __m512i {
    if K == 1 {
        return _mm512_maskz_permutexvar_epi8(mask, lanes, vectors[0]);
    }
    _mm512_maskz_permutex2var_epi8(mask, vectors[0], lanes, vectors[K - 1])
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn identity() -> __m512i {
    _mm512_set1_epi64(IDENTITY.cast_signed())
}

/// Returns the inverse of `1 + m`, for a matrix `m` whose eighth power is 0: its bits link different slots of a group,
/// in an order in which no slot needs a later one.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn inverse(m: __m512i) -> __m512i {
    // (1 + m)(1 + m^2)(1 + m^4) = 1 + m^8
    let m_transposed = transposed(m);
    let square = product(m, m_transposed);
    let square_transposed = product(m_transposed, m);
    let fourth_transposed = product(square_transposed, square);
    let mut inverse = _mm512_xor_si512(m, identity());
    inverse = _mm512_xor_si512(inverse, product(inverse, square_transposed));
    _mm512_xor_si512(inverse, product(inverse, fourth_transposed))
}

/// Multiplies each row in `rows` by a matrix that is passed transposed.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn product(rows: __m512i, transposed: __m512i) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(rows, transposed)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn transposed(matrix: __m512i) -> __m512i {
    product(identity(), matrix)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn word(vector: __m512i) -> u64 {
    _mm_cvtsi128_si64(_mm512_castsi512_si128(vector)).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn words(vector: __m512i) -> [u64; 8] {
    let mut words = [0; 8];
    // SAFETY: 64 bytes can be written.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
    words
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi,gfni")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes can be read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}
