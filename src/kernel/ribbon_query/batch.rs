//! Many keys of one filter, for any instruction set.
//!
//! Keys are taken in blocks of 16. First the equations of a whole block are derived, with arithmetic that
//! the compiler turns into vectors of keys; then each is held against its columns, as a vector of columns,
//! while the cache lines of the block after it are asked for. Keys that the first layer has bumped are
//! noted, without a branch, and looked up in the other layers once per [`CHUNK`].

use super::driver::{self, Coefficients, GROUP, Kernel, columns_hold};
use super::{Layer, Table};
use crate::hash::KeyHash;
use crate::kernel::equation::{
    BUCKET_SLOTS, SMASH, THRESHOLDS, WIDTH, bumping_starts, coefficients, final_layer_hash, final_starts, result,
};
use crate::kernel::prefetch::fetch;

/// Keys whose equations are derived together, and how far ahead cache lines are asked for.
const BLOCK: usize = 16;

/// Keys between two passes over those that were bumped.
const CHUNK: usize = 512;

/// Length of payloads, in words, from which on lines are asked for ahead: beyond the second-level cache.
const PREFETCH_FROM_WORDS: usize = (256 << 10) / 8;

/// See [`super::may_contain_batch`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_batch<K: Kernel>(table: &Table<'_>, hashes: &[KeyHash], hits: &mut [u64]) {
    // SAFETY: the set is the caller's; the layer of each `Batch` fits.
    unsafe {
        if !table.fits() {
            one_by_one::<K>(table, hashes, hits);
        } else if let Some(first) = table.bumping.first() {
            Batch::<true> { table, layer: first }.run::<K>(hashes, hits);
        } else {
            Batch::<false> { table, layer: table.last }.run::<K>(hashes, hits);
        }
    }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn one_by_one<K: Kernel>(table: &Table<'_>, hashes: &[KeyHash], hits: &mut [u64]) {
    for (hashes, hits) in hashes.chunks(64).zip(hits) {
        *hits = 0;
        for (bit, &hash) in hashes.iter().enumerate() {
            // SAFETY: the caller's.
            *hits |= u64::from(unsafe { driver::may_contain::<K>(table, hash) }) << bit;
        }
    }
}

impl Table<'_> {
    /// Whether all layers lie within the payload, and none has 2^32 slots: their keys are asked for one by one.
    fn fits(&self) -> bool {
        let words = self.words.len() as u64;
        self.last.columns_fit(self.upper, words)
            && self.bumping.iter().all(|layer| layer.columns_fit(self.upper, words) && layer.thresholds_fit(words))
    }
}

impl Layer {
    /// Whether each block that an equation can reach lies within `words` words.
    fn columns_fit(&self, upper: u8, words: u64) -> bool {
        let (blocks, lower) = (self.slots / WIDTH, self.lower_blocks);
        let is_sound =
            self.slots.is_multiple_of(WIDTH) && (1..1 << 26).contains(&blocks) && upper > u8::from(lower > 0);
        let end = |first: u64| first.checked_add(blocks * u64::from(upper) - lower.min(blocks));
        is_sound && end(self.first_word).is_some_and(|end| end <= words)
    }

    fn thresholds_fit(&self, words: u64) -> bool {
        let last = (self.slots - WIDTH) / BUCKET_SLOTS / 32;
        self.threshold_word.checked_add(last).is_some_and(|last| last < words)
    }
}

/// The equations of two blocks of keys: the one at hand and the one after it, in turns.
///
/// One struct for both, so that the compiler sees where each array lies and that no two overlap.
struct Equations {
    /// First word of the block where they start.
    word: [u64; 2 * BLOCK],
    /// How many words further the block after it is; 0 when it is not needed.
    next: [u64; 2 * BLOCK],
    count: [u64; 2 * BLOCK],
    here: [u64; 2 * BLOCK],
    over: [u64; 2 * BLOCK],
    expected: [u64; 2 * BLOCK],
    /// Word and bit of the threshold code.
    code_word: [u64; 2 * BLOCK],
    code_bit: [u64; 2 * BLOCK],
    /// The lowest code that bumps the key.
    bumping_code: [u64; 2 * BLOCK],
}

impl Equations {
    const NONE: Self = {
        let none = [0; 2 * BLOCK];
        Self {
            word: none,
            next: none,
            count: none,
            here: none,
            over: none,
            expected: none,
            code_word: none,
            code_bit: none,
            bumping_code: none,
        }
    };
}

/// A batch in the first layer of a filter.
struct Batch<'a, const BUMPING: bool> {
    table: &'a Table<'a>,
    layer: &'a Layer,
}

impl<const BUMPING: bool> Batch<'_, BUMPING> {
    /// # Safety
    ///
    /// The CPU must have the set, and the table fit.
    #[inline(always)]
    unsafe fn run<K: Kernel>(&self, hashes: &[KeyHash], hits: &mut [u64]) {
        let upper = usize::from(self.table.upper);
        // SAFETY: the caller's.
        unsafe {
            match (upper, self.layer.lower_blocks) {
                (4..=GROUP, 0) => self.run_as::<K, true, false>(hashes, hits),
                (5..=GROUP, _) => self.run_as::<K, true, true>(hashes, hits),
                _ => self.run_as::<K, false, true>(hashes, hits),
            }
        }
    }

    /// `NARROW`: no block has fewer than four columns or more than eight. `MIXED`: some may have one less.
    ///
    /// # Safety
    ///
    /// As above.
    #[inline(always)]
    unsafe fn run_as<K: Kernel, const NARROW: bool, const MIXED: bool>(&self, hashes: &[KeyHash], hits: &mut [u64]) {
        let mut bumped = Bumped { positions: [0; CHUNK], count: 0 };
        let mut equations = Equations::NONE;
        let blocks = hashes.len().div_ceil(BLOCK);
        // Each block is derived one turn before it is checked.
        for turn in 0..=blocks {
            let rest = hashes.get(turn * BLOCK..).unwrap_or_default();
            self.derive::<NARROW, MIXED>(rest, turn % 2 * BLOCK, &mut equations);
            let Some(block) = turn.checked_sub(1) else { continue };
            let keys = BLOCK.min(hashes.len() - block * BLOCK);
            let first_position = block * BLOCK % CHUNK;
            // SAFETY: the caller's.
            let answers = unsafe {
                self.check::<K, NARROW, MIXED>(&equations, block % 2 * BLOCK, keys, first_position, &mut bumped)
            };
            if let Some(word) = hits.get_mut(block * BLOCK / 64) {
                let bit = block * BLOCK % 64;
                *word = if bit == 0 { answers } else { *word | answers << bit };
            }
            if BUMPING && (first_position + BLOCK == CHUNK || turn == blocks) {
                let first = block * BLOCK / CHUNK * CHUNK;
                // SAFETY: the caller's.
                unsafe { self.later_layers::<K>(&hashes[first..], &mut bumped, &mut hits[first / 64..]) };
            }
        }
    }

    /// Derives the equations of the first keys; what is left of the block is derived from zeros.
    #[inline(always)]
    fn derive<const NARROW: bool, const MIXED: bool>(&self, hashes: &[KeyHash], at: usize, out: &mut Equations) {
        let mut padded = [KeyHash::from_well_mixed(0); BLOCK];
        let keys: &[KeyHash; BLOCK] = hashes.first_chunk().unwrap_or_else(|| {
            padded.iter_mut().zip(hashes).for_each(|(key, hash)| *key = *hash);
            &padded
        });
        // Within bounds, whatever `at` is.
        let at = at & BLOCK;
        for index in 0..BLOCK {
            self.derive_one::<NARROW, MIXED>(at + index, keys[index].get(), out);
        }
    }

    #[inline(always)]
    fn derive_one<const NARROW: bool, const MIXED: bool>(&self, index: usize, hash: u64, out: &mut Equations) {
        let layer = self.layer;
        let hash = if BUMPING { hash } else { final_layer_hash(hash, self.table.salt) };
        let start = if BUMPING {
            map_to_small_range(hash, bumping_starts(layer.slots))
        } else {
            map_to_small_range(hash, final_starts(layer.slots)).saturating_sub(SMASH).min(layer.slots - WIDTH)
        };
        let (block, shift) = (start / WIDTH, start % WIDTH);
        let is_lower = u64::from(MIXED && block < layer.lower_blocks);
        let lower_before = if MIXED { block.min(layer.lower_blocks) } else { 0 };
        let upper = u64::from(self.table.upper);
        let count = upper - is_lower;
        // One multiplication of 32 bits.
        out.word[index] = layer.first_word + (block & 0xffff_ffff) * upper - lower_before;
        out.next[index] = if shift == 0 { 0 } else { count };
        if MIXED {
            out.count[index] = count;
        }
        let all = coefficients(hash);
        out.here[index] = all << shift;
        out.over[index] = all >> 1 >> (WIDTH - 1 - shift);
        let expected = u64::from(result(hash));
        out.expected[index] = if NARROW { (expected & 0xf) | (expected >> (count - 4) & 0xf) << 4 } else { expected };
        if BUMPING {
            let offset = start % BUCKET_SLOTS;
            out.code_word[index] = layer.threshold_word + start / (BUCKET_SLOTS * 32);
            out.code_bit[index] = start / BUCKET_SLOTS % 32 * 2;
            out.bumping_code[index] =
                1 + u64::from(offset >= u64::from(THRESHOLDS[1])) + u64::from(offset >= u64::from(THRESHOLDS[2]));
        }
    }

    /// Whether the equations hold of keys that are not bumped, one bit each.
    ///
    /// # Safety
    ///
    /// As above, and the equations must be of this layer.
    #[inline(always)]
    unsafe fn check<K: Kernel, const NARROW: bool, const MIXED: bool>(
        &self,
        equations: &Equations,
        at: usize,
        keys: usize,
        first_position: usize,
        bumped: &mut Bumped,
    ) -> u64 {
        let (words, upper) = (self.table.words, usize::from(self.table.upper));
        let mut answers = 0;
        let (at, ahead) = (at & BLOCK, !at & BLOCK);
        let prefetches = BUMPING && words.len() >= PREFETCH_FROM_WORDS;
        for index in 0..keys.min(BLOCK) {
            let now = at + index;
            if prefetches {
                let first = words.as_ptr().wrapping_add(equations.word[ahead + index] as usize);
                fetch(first.cast());
                fetch(first.wrapping_add(2 * upper).cast::<u8>().wrapping_sub(1));
            }
            let (word, next) = (equations.word[now] as usize, equations.next[now] as usize);
            let count = if MIXED { equations.count[now] as usize } else { upper };
            debug_assert!(word + next + count <= words.len());
            let coefficients = Coefficients { here: equations.here[now], next: equations.over[now] };
            let expected = equations.expected[now] as u32;
            // SAFETY: the set is the caller's. The layer fits, and a start is at most 64 slots from its end: the
            // block lies within it, and the one after it too unless `next` is 0.
            let mut holds = unsafe {
                let block = words.as_ptr().add(word);
                if NARROW {
                    K::agree(&driver::eight(block, next, 0, count - 4), coefficients, expected)
                } else {
                    columns_hold::<K>(block, next, count, coefficients, expected)
                }
            };
            if BUMPING {
                // SAFETY: the layer's thresholds fit, and there is a code for each of its buckets.
                let packed = u64::from_le_bytes(unsafe { *words.get_unchecked(equations.code_word[now] as usize) });
                let is_bumped = packed >> equations.code_bit[now] & 3 >= equations.bumping_code[now];
                bumped.push_if(is_bumped, first_position + index);
                holds &= !is_bumped;
            }
            answers |= u64::from(holds) << index;
        }
        answers
    }

    /// Asks for the bumped keys of a chunk in the layers after the first.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn later_layers<K: Kernel>(&self, hashes: &[KeyHash], bumped: &mut Bumped, hits: &mut [u64]) {
        for &position in bumped.positions.iter().take(core::mem::take(&mut bumped.count)) {
            let position = usize::from(position);
            let hash = hashes[position].get();
            // SAFETY: the caller's.
            let answer = unsafe { driver::may_contain_after_first::<K>(self.table, hash) };
            hits[position / 64] |= u64::from(answer) << (position % 64);
        }
    }
}

/// `map_to_range` for a range below 2^32, with multiplications of 32 bits.
#[inline(always)]
const fn map_to_small_range(hash: u64, range: u64) -> u64 {
    let range = range & 0xffff_ffff;
    ((hash >> 32) * range + (((hash & 0xffff_ffff) * range) >> 32)) >> 32
}

/// Positions in a chunk of keys that were bumped.
struct Bumped {
    positions: [u16; CHUNK],
    count: usize,
}

impl Bumped {
    /// Without a branch, which would be mispredicted for each such key.
    #[inline(always)]
    fn push_if(&mut self, condition: bool, position: usize) {
        self.positions[self.count % CHUNK] = position as u16;
        self.count += usize::from(condition);
    }
}
