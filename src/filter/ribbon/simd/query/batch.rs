//! Many keys of one filter, for any instruction set.
//!
//! Keys are processed in blocks of 16. First the equations of a whole block are derived, with arithmetic that
//! the compiler turns into vectors of keys. Then each is compared with its columns, as a vector of columns,
//! while the cache lines of the next block are prefetched. Keys that the first layer has bumped are
//! recorded without a branch, and looked up in the other layers once per [`CHUNK`].

use super::FilterView;
use super::driver::{self, COLUMNS_AT_ONCE, Coefficients, Kernel, columns_hold};
use crate::filter::batch;
use crate::filter::cache::PROBE_PREFETCH_BYTES;
use crate::filter::ribbon::equation::{
    BUCKET_SLOTS, SMASH, THRESHOLDS, WIDTH, bumping_starts, coefficients, final_layer_hash, final_starts, result,
};
use crate::filter::ribbon::layer::Layer;
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;

/// Keys whose equations are derived together, which is also the prefetch distance: two AVX-512 vectors of keys, and 32
/// to 48 cache lines in flight.
const KEYS_AT_ONCE: usize = 16;

/// Keys between two passes over the bumped ones, 4 % of them. That makes about 20 independent look-ups per pass, whose
/// cache misses overlap; after each block there would be one, which waits for its own misses.
const CHUNK: usize = 512;

/// See [`super::may_contain_batch`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_batch<K: Kernel>(view: &FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    // SAFETY: the set is the caller's; the layer of each `Batch` fits.
    unsafe {
        if !view.fits() {
            one_by_one::<K>(view, hashes, matches);
        } else if let Some(first) = view.bumping.first() {
            Batch::<true> { view, layer: first }.run::<K>(hashes, matches);
        } else {
            Batch::<false> { view, layer: view.last }.run::<K>(hashes, matches);
        }
    }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn one_by_one<K: Kernel>(view: &FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    // SAFETY: the caller's.
    batch::answers(hashes, matches, |hash| unsafe { driver::may_contain::<K>(view, hash) });
}

impl FilterView<'_> {
    /// Whether all layers lie within the payload and none has 2^32 slots. If not, keys are probed one by one.
    fn fits(&self) -> bool {
        let words = self.words.len() as u64;
        self.last.columns_fit(self.upper, words)
            && self.bumping.iter().all(|layer| layer.columns_fit(self.upper, words) && layer.thresholds_fit(words))
    }
}

/// The equations of two blocks of keys: the current and the next one, alternating.
///
/// One struct for both, so that the compiler knows the offset of each array and that no two overlap.
struct Equations {
    /// First word of the block where they start.
    word: [u64; 2 * KEYS_AT_ONCE],
    /// Words from there to the next block; 0 when that is not needed.
    next: [u64; 2 * KEYS_AT_ONCE],
    count: [u64; 2 * KEYS_AT_ONCE],
    here: [u64; 2 * KEYS_AT_ONCE],
    over: [u64; 2 * KEYS_AT_ONCE],
    expected: [u64; 2 * KEYS_AT_ONCE],
    /// Word and bit of the threshold code.
    code_word: [u64; 2 * KEYS_AT_ONCE],
    code_bit: [u64; 2 * KEYS_AT_ONCE],
    /// The lowest code that bumps the key.
    bumping_code: [u64; 2 * KEYS_AT_ONCE],
}

impl Equations {
    const NONE: Self = {
        let none = [0; 2 * KEYS_AT_ONCE];
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
    view: &'a FilterView<'a>,
    layer: &'a Layer,
}

impl<const BUMPING: bool> Batch<'_, BUMPING> {
    /// # Safety
    ///
    /// The CPU must have the set, and the view fit.
    #[inline(always)]
    unsafe fn run<K: Kernel>(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        let upper = usize::from(self.view.upper);
        // SAFETY: the caller's.
        unsafe {
            match (upper, self.layer.lower_blocks) {
                // The usual rates: four to eight columns are one kernel call, without a loop over columns.
                (4..=COLUMNS_AT_ONCE, 0) => self.run_as::<K, true, false>(hashes, matches),
                (5..=COLUMNS_AT_ONCE, _) => self.run_as::<K, true, true>(hashes, matches),
                _ => self.run_as::<K, false, true>(hashes, matches),
            }
        }
    }

    /// `NARROW`: every block has four to eight columns. `MIXED`: the lower blocks have one column less.
    ///
    /// # Safety
    ///
    /// As above.
    #[inline(always)]
    unsafe fn run_as<K: Kernel, const NARROW: bool, const MIXED: bool>(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        let mut bumped = Bumped { positions: [0; CHUNK], count: 0 };
        let mut equations = Equations::NONE;
        let blocks = hashes.len().div_ceil(KEYS_AT_ONCE);
        // Each block is derived one turn before it is checked, so that its prefetches have a turn to complete.
        for turn in 0..=blocks {
            let rest = hashes.get(turn * KEYS_AT_ONCE..).unwrap_or_default();
            self.derive::<NARROW, MIXED>(rest, turn % 2 * KEYS_AT_ONCE, &mut equations);
            let Some(block) = turn.checked_sub(1) else { continue };
            let keys = KEYS_AT_ONCE.min(hashes.len() - block * KEYS_AT_ONCE);
            let first_position = block * KEYS_AT_ONCE % CHUNK;
            // SAFETY: the caller's.
            let answers = unsafe {
                self.check::<K, NARROW, MIXED>(&equations, block % 2 * KEYS_AT_ONCE, keys, first_position, &mut bumped)
            };
            if let Some(word) = matches.get_mut(block * KEYS_AT_ONCE / 64) {
                let bit = block * KEYS_AT_ONCE % 64;
                *word = if bit == 0 { answers } else { *word | answers << bit };
            }
            if BUMPING && (first_position + KEYS_AT_ONCE == CHUNK || turn == blocks) {
                let first = block * KEYS_AT_ONCE / CHUNK * CHUNK;
                // SAFETY: the caller's.
                unsafe { self.later_layers::<K>(&hashes[first..], &mut bumped, &mut matches[first / 64..]) };
            }
        }
    }

    /// Derives the equations of the next block of keys, padded with zeros.
    #[inline(always)]
    fn derive<const NARROW: bool, const MIXED: bool>(&self, hashes: &[KeyHash], at: usize, out: &mut Equations) {
        let mut padded = [KeyHash::from_well_mixed(0); KEYS_AT_ONCE];
        let keys: &[KeyHash; KEYS_AT_ONCE] = hashes.first_chunk().unwrap_or_else(|| {
            padded.iter_mut().zip(hashes).for_each(|(key, hash)| *key = *hash);
            &padded
        });
        // Within bounds, whatever `at` is.
        let at = at & KEYS_AT_ONCE;
        for index in 0..KEYS_AT_ONCE {
            self.derive_one::<NARROW, MIXED>(at + index, keys[index].get(), out);
        }
    }

    #[inline(always)]
    fn derive_one<const NARROW: bool, const MIXED: bool>(&self, index: usize, hash: u64, out: &mut Equations) {
        let layer = self.layer;
        let hash = if BUMPING { hash } else { final_layer_hash(hash, self.view.salt) };
        let start = if BUMPING {
            map_to_small_range(hash, bumping_starts(layer.slots))
        } else {
            map_to_small_range(hash, final_starts(layer.slots)).saturating_sub(SMASH).min(layer.slots - WIDTH)
        };
        let (block, shift) = (start / WIDTH, start % WIDTH);
        let is_lower = u64::from(MIXED && block < layer.lower_blocks);
        let lower_before = if MIXED { block.min(layer.lower_blocks) } else { 0 };
        let upper = u64::from(self.view.upper);
        let count = upper - is_lower;
        // A 32-bit multiplication: vectors have no 64-bit one before AVX-512.
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

    /// One bit per key: whether its equation holds. Bumped keys get 0 and are recorded in `bumped`.
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
        let (words, upper) = (self.view.words, usize::from(self.view.upper));
        let mut answers = 0;
        let (at, ahead) = (at & KEYS_AT_ONCE, !at & KEYS_AT_ONCE);
        // A filter of one layer has at most 5,000 keys, which the nearer caches hold.
        let prefetches = BUMPING && words.len() >= PROBE_PREFETCH_BYTES / 8;
        for index in 0..keys.min(KEYS_AT_ONCE) {
            let now = at + index;
            if prefetches {
                let first = words.as_ptr().wrapping_add(equations.word[ahead + index] as usize);
                prefetch(first);
                prefetch(first.wrapping_add(2 * upper).cast::<u8>().wrapping_sub(1));
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

    /// Looks up the bumped keys of a chunk in the layers after the first.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn later_layers<K: Kernel>(&self, hashes: &[KeyHash], bumped: &mut Bumped, matches: &mut [u64]) {
        for &position in bumped.positions.iter().take(core::mem::take(&mut bumped.count)) {
            let position = usize::from(position);
            let hash = hashes[position].get();
            // SAFETY: the caller's.
            let answer = unsafe { driver::may_contain_after_first::<K>(self.view, hash) };
            matches[position / 64] |= u64::from(answer) << (position % 64);
        }
    }
}

/// `map_to_range` for a range below 2^32, with multiplications of 32 bits: vectors have no 128-bit product.
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
