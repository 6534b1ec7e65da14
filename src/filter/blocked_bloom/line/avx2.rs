//! AVX2: a round of eight lanes is one vector: one multiply, one variable shift, one blend of the line's two halves.

use core::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256,
    _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
};

use super::batch::{functions_of_set, line_at, line_at_mut};
use super::{ActiveRow, ActiveRows, Candidate, Line, MULTIPLIERS, active_rows, covered_by, in_line_bits};
use crate::hash::KeyHash;

functions_of_set!(all #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]);

/// The low half of a hash, as a scalar and broadcast to all lanes.
#[derive(Clone, Copy)]
struct Key {
    x: u32,
    lanes: __m256i,
}

impl Key {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(hash: KeyHash) -> Self {
        let x = in_line_bits(hash);
        Self { x, lanes: _mm256_set1_epi32(x.cast_signed()) }
    }

    /// Like `new`, for a hash in memory: the broadcast loads it from there, instead of waiting for the register from
    /// which the line's index is computed. This saves 10 % of a batch in cache.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(hash: &KeyHash) -> Self {
        let x = in_line_bits(*hash);
        // SAFETY: a hash is eight readable bytes, the low ones first. Volatile, because the compiler would otherwise
        // merge this load with the one into the register.
        let low = unsafe { core::ptr::from_ref(hash).cast::<i32>().read_volatile() };
        Self { x, lanes: _mm256_set1_epi32(low) }
    }
}

/// Eight lanes of one key.
#[derive(Clone, Copy)]
struct Round {
    /// The sign chooses the half of the line; the five bits below it choose the bit.
    products: __m256i,
    /// 1 in active lanes, 0 in the others.
    active: __m256i,
}

impl Round {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(key: Key, multipliers: &[u32; 8], active: &ActiveRow) -> Self {
        Self { products: _mm256_mullo_epi32(key.lanes, load(multipliers)), active: load(active) }
    }

    /// Returns the key's bits that are clear in the lanes' words; `own` and `partner` are the halves of a line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn missing(self, own: __m256i, partner: __m256i) -> __m256i {
        // The mask drops the sign, which is not part of the count: a count above 31 would shift the bit out. `blendv`
        // reads only the sign, so the products select the half without a compare.
        let counts = _mm256_and_si256(_mm256_srli_epi32::<26>(self.products), _mm256_set1_epi32(31));
        let words = _mm256_blendv_ps(
            _mm256_castsi256_ps(own),
            _mm256_castsi256_ps(partner),
            _mm256_castsi256_ps(self.products),
        );
        _mm256_andnot_si256(_mm256_castps_si256(words), _mm256_sllv_epi32(self.active, counts))
    }

    /// Returns the key's bits in the lanes' own half and in the partner's. The sign is the count's sixth bit, so that
    /// one of the two shifts moves the bit out.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn split(self) -> [__m256i; 2] {
        let counts = _mm256_srli_epi32::<26>(self.products);
        let partner_counts = _mm256_xor_si256(counts, _mm256_set1_epi32(32));
        [_mm256_sllv_epi32(self.active, counts), _mm256_sllv_epi32(self.active, partner_counts)]
    }
}

/// The bits of one key in the two halves of its line, for keys of `ROUNDS` rounds of lanes.
#[derive(Clone, Copy)]
struct Lanes<const ROUNDS: usize> {
    rows: [&'static ActiveRows; 2],
}

impl<const ROUNDS: usize> Lanes<ROUNDS> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(probes: u8) -> Self {
        Self { rows: active_rows(probes) }
    }

    /// Lanes 0 to 7; their own words are in the low half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first(self, key: Key) -> Round {
        Round::new(key, &MULTIPLIERS.0[0], &self.rows[0].0[(key.x & 7) as usize])
    }

    /// Lanes 8 to 15; their own words are in the high half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn second(self, key: Key) -> Round {
        Round::new(key, &MULTIPLIERS.0[1], &self.rows[1].0[(key.x >> 3 & 7) as usize])
    }

    /// Returns the key's bits that are clear in the line; all zero for a match.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn missing(self, line: &Line, key: Key) -> __m256i {
        let [low, high] = load_line(line);
        let missing = self.first(key).missing(low, high);
        if ROUNDS == 1 {
            return missing;
        }
        _mm256_or_si256(missing, self.second(key).missing(high, low))
    }

    /// Returns the missing bits of two keys, packed to 16 bits per lane.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn missing_two(self, lines: &[Line], [a, b]: &[KeyHash; 2]) -> __m256i {
        _mm256_packs_epi32(
            self.missing(line_at(lines, *a), Key::load(a)),
            self.missing(line_at(lines, *b), Key::load(b)),
        )
    }

    /// Returns whether the line has all of the key's bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn contains(self, line: &Line, hash: KeyHash) -> bool {
        let missing = self.missing(line, Key::new(hash));
        _mm256_testz_si256(missing, missing) == 1
    }

    /// Tests eight keys, each in its line: bit `i` is the answer for key `i`.
    ///
    /// The missing bits are packed until each key has four bytes, which takes fewer instructions than eight `vptest`.
    /// Packing saturates, so a nonzero lane stays nonzero.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn test_eight(self, lines: &[Line], keys: &[KeyHash; 8]) -> u8 {
        let (pairs, _) = keys.as_chunks::<2>();
        let low = _mm256_packs_epi16(self.missing_two(lines, &pairs[0]), self.missing_two(lines, &pairs[1]));
        let high = _mm256_packs_epi16(self.missing_two(lines, &pairs[2]), self.missing_two(lines, &pairs[3]));
        // Packing works within 128-bit halves, so a key's lanes end up in both. The permutes bring them together, the
        // first four keys low and the last four high.
        let missing =
            _mm256_or_si256(_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high));
        let found = _mm256_cmpeq_epi32(missing, _mm256_setzero_si256());
        _mm256_movemask_ps(_mm256_castsi256_ps(found)).cast_unsigned() as u8
    }

    /// Returns the key's bits in each half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn halves(self, key: Key) -> [__m256i; 2] {
        let [own, partner] = self.first(key).split();
        if ROUNDS == 1 {
            return [own, partner];
        }
        let [more_own, more_partner] = self.second(key).split();
        [_mm256_or_si256(own, more_partner), _mm256_or_si256(partner, more_own)]
    }

    /// Sets the key's bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn set(self, line: &mut Line, hash: &KeyHash) {
        let [low, high] = load_line(line);
        let [set_low, set_high] = self.halves(Key::load(hash));
        store_line(line, [_mm256_or_si256(low, set_low), _mm256_or_si256(high, set_high)]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: 32 bytes are readable there; `loadu` takes any alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_line(line: &Line) -> [__m256i; 2] {
    let start: *const u8 = line.as_ptr();
    // SAFETY: a line is 64 bytes; `loadu` takes any alignment.
    unsafe { [_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.add(32).cast())] }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_line(line: &mut Line, [low, high]: [__m256i; 2]) {
    let start: *mut u8 = line.as_mut_ptr();
    // SAFETY: a line is 64 bytes, borrowed for writing; `storeu` takes any alignment.
    unsafe {
        _mm256_storeu_si256(start.cast(), low);
        _mm256_storeu_si256(start.add(32).cast(), high);
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn covered<'a>(mask: &Line, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    let [low, high] = load_line(mask);
    covered_by(candidates, |line| {
        let line = load_line(line);
        let missing = _mm256_or_si256(_mm256_andnot_si256(line[0], low), _mm256_andnot_si256(line[1], high));
        _mm256_testz_si256(missing, missing) == 1
    })
}
