//! The query of many keys of one filter, for any instruction set.
//!
//! Keys are processed in blocks of 16. First the equations of a whole block are derived, with arithmetic that the
//! compiler turns into vectors of keys. Then each is compared with its columns, as a vector of columns, while the cache
//! lines of the next block are prefetched. Keys that the first layer has bumped are recorded without a branch, and
//! looked up in the other layers once per [`CHUNK`].

use super::driver::{self, COLUMNS_AT_ONCE, Coefficients, Equation, Kernel, columns_hold};
use super::{Filter, FilterView};
use crate::filter::batch;
use crate::filter::cache::PROBE_PREFETCH_BYTES;
use crate::filter::ribbon::equation::{BUCKET_SLOTS, SMASH, THRESHOLDS, WIDTH, final_layer_hash, starts};
use crate::filter::ribbon::layer::Layer;
use crate::hash::{KeyHash, map_to_small_range};
use crate::kernel::prefetch::prefetch;

/// Keys whose equations are derived together; also the prefetch distance. Two AVX-512 vectors of keys, and 32 to 48
/// cache lines in flight.
const KEYS_AT_ONCE: usize = 16;

/// Keys between two passes over the bumped ones, 4 % of the keys. Each pass then has about 20 independent look-ups,
/// whose cache misses overlap; after each block there would be one, which waits for its own misses.
const CHUNK: usize = 512;

/// See [`super::may_contain_batch`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_batch<K: Kernel>(view: FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    let Filter { layers: [first, ..], bumping, .. } = view.filter;
    // SAFETY: the caller promises the set; each `Batch` has the first layer.
    unsafe {
        if first.slots > u32::MAX.into() {
            // The vectors of keys hold slot numbers in 32 bits.
            batch::answers(hashes, matches, |hash| super::may_contain(view, hash));
        } else if *bumping > 0 {
            Batch::<true> { view, layer: first }.run::<K>(hashes, matches);
        } else {
            Batch::<false> { view, layer: first }.run::<K>(hashes, matches);
        }
    }
}

/// A number for each key of two blocks: the current and the next one, alternating.
type Numbers = [u64; 2 * KEYS_AT_ONCE];

/// The equations of two blocks of keys, field by field.
///
/// One struct for both, so that the compiler knows the offset of each array and that no two overlap.
#[derive(Default)]
struct Equations {
    word: Numbers,
    next: Numbers,
    count: Numbers,
    here: Numbers,
    over: Numbers,
    expected: Numbers,
    /// The word and the bit of the threshold code.
    code_word: Numbers,
    code_bit: Numbers,
    /// The lowest code that bumps the key.
    bumping_code: Numbers,
}

/// A batch in the first layer of a filter.
struct Batch<'a, const BUMPING: bool> {
    view: FilterView<'a>,
    layer: &'a Layer,
}

impl<const BUMPING: bool> Batch<'_, BUMPING> {
    /// # Safety
    ///
    /// The CPU must have the set, and the layer must be the view's first.
    #[inline(always)]
    unsafe fn run<K: Kernel>(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        // SAFETY: the caller promises it.
        unsafe {
            match (usize::from(self.view.filter.upper), self.layer.lower_blocks) {
                // The usual rates: four to eight columns are one kernel call, without a loop over columns.
                (4..=COLUMNS_AT_ONCE, 0) if K::HAS_COPIES => self.run_as::<K, true, false>(hashes, matches),
                (5..=COLUMNS_AT_ONCE, _) if K::HAS_COPIES => self.run_as::<K, true, true>(hashes, matches),
                _ => self.run_as::<K, false, true>(hashes, matches),
            }
        }
    }

    /// If `NARROW`, every block has four to eight columns. If `MIXED`, the lower blocks have one column less.
    ///
    /// # Safety
    ///
    /// As for `run`.
    #[inline(always)]
    unsafe fn run_as<K: Kernel, const NARROW: bool, const MIXED: bool>(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        let mut bumped = Bumped { positions: [0; CHUNK], count: 0 };
        let mut equations = Equations::default();
        let blocks = hashes.len().div_ceil(KEYS_AT_ONCE);
        // Each block is derived one turn before it is checked, so that its prefetches have a turn to complete.
        for turn in 0..=blocks {
            let rest = hashes.get(turn * KEYS_AT_ONCE..).unwrap_or_default();
            self.derive::<K, NARROW, MIXED>(rest, turn % 2 * KEYS_AT_ONCE, &mut equations);
            let Some(block) = turn.checked_sub(1) else { continue };
            let keys = KEYS_AT_ONCE.min(hashes.len() - block * KEYS_AT_ONCE);
            let first_position = block * KEYS_AT_ONCE % CHUNK;
            // SAFETY: the caller promises it.
            let answers = unsafe {
                self.check::<K, NARROW, MIXED>(&equations, block % 2 * KEYS_AT_ONCE, keys, first_position, &mut bumped)
            };
            if let Some(word) = matches.get_mut(block * KEYS_AT_ONCE / 64) {
                let bit = block * KEYS_AT_ONCE % 64;
                *word = if bit == 0 { answers } else { *word | answers << bit };
            }
            if BUMPING && (first_position + KEYS_AT_ONCE == CHUNK || turn == blocks) {
                let first = block * KEYS_AT_ONCE / CHUNK * CHUNK;
                for &position in bumped.positions.iter().take(core::mem::take(&mut bumped.count)) {
                    let position = first + usize::from(position);
                    // SAFETY: the caller promises it.
                    let answer = unsafe { driver::may_contain_after_first::<K>(self.view, hashes[position]) };
                    matches[position / 64] |= u64::from(answer) << (position % 64);
                }
            }
        }
    }

    /// Derives the equations of the next block of keys, padded with zeros.
    #[inline(always)]
    fn derive<K: Kernel, const NARROW: bool, const MIXED: bool>(
        &self,
        hashes: &[KeyHash],
        at: usize,
        out: &mut Equations,
    ) {
        let mut padded = [KeyHash::from_well_mixed(0); KEYS_AT_ONCE];
        let keys: &[KeyHash; KEYS_AT_ONCE] = hashes.first_chunk().unwrap_or_else(|| {
            padded.iter_mut().zip(hashes).for_each(|(key, hash)| *key = *hash);
            &padded
        });
        // Where there are no lower blocks, the compiler sees a constant.
        let lower_blocks = if MIXED { self.layer.lower_blocks } else { 0 };
        let layer = Layer { lower_blocks, ..*self.layer };
        // The mask shows the compiler that `at` is within bounds.
        let at = at & KEYS_AT_ONCE;
        for index in 0..KEYS_AT_ONCE {
            self.derive_one::<K, NARROW>(&layer, at + index, keys[index].get(), out);
        }
    }

    #[inline(always)]
    fn derive_one<K: Kernel, const NARROW: bool>(&self, layer: &Layer, index: usize, hash: u64, out: &mut Equations) {
        let hash = if BUMPING { hash } else { final_layer_hash(hash, self.view.filter.salt) };
        let drawn = map_to_small_range(hash, starts(layer.slots, if BUMPING { 0 } else { SMASH }));
        let start = if BUMPING { drawn } else { drawn.saturating_sub(SMASH.into()).min(layer.slots - WIDTH) };
        let equation = Equation::new(layer, self.view.filter.upper, hash, start);
        out.word[index] = equation.word;
        out.next[index] = equation.next;
        out.count[index] = equation.count;
        out.here[index] = equation.coefficients.here;
        out.over[index] = equation.coefficients.next;
        let Equation { expected, count, .. } = equation;
        out.expected[index] = if NARROW { K::arrange(expected, count) } else { expected };
        if BUMPING {
            let offset = start % BUCKET_SLOTS;
            out.code_word[index] = layer.threshold_word + start / (BUCKET_SLOTS * 32);
            out.code_bit[index] = start / BUCKET_SLOTS % 32 * 2;
            out.bumping_code[index] =
                1 + u64::from(offset >= u64::from(THRESHOLDS[1])) + u64::from(offset >= u64::from(THRESHOLDS[2]));
        }
    }

    /// Returns one bit per key: whether its equation holds. Bumped keys get 0 and are recorded in `bumped`.
    ///
    /// # Safety
    ///
    /// As for `run`, and the equations must be of this layer.
    #[inline(always)]
    unsafe fn check<K: Kernel, const NARROW: bool, const MIXED: bool>(
        &self,
        equations: &Equations,
        at: usize,
        keys: usize,
        first_position: usize,
        bumped: &mut Bumped,
    ) -> u64 {
        let upper = u64::from(self.view.filter.upper);
        let mut answers = 0;
        let (at, ahead) = (at & KEYS_AT_ONCE, !at & KEYS_AT_ONCE);
        // A filter of one layer has at most 5,000 keys, which the nearer caches hold.
        let prefetches = BUMPING && self.view.filter.payload_bytes >= PROBE_PREFETCH_BYTES as u64;
        for index in 0..keys.min(KEYS_AT_ONCE) {
            let now = at + index;
            if prefetches {
                let first = self.view.words.wrapping_add(equations.word[ahead + index] as usize);
                prefetch(first);
                // The equation's two blocks span several lines, so the line of the last byte is prefetched as well.
                prefetch(first.wrapping_add(2 * upper as usize).cast::<u8>().wrapping_sub(1));
            }
            let (word, next) = (equations.word[now], equations.next[now]);
            let count = if MIXED { equations.count[now] } else { upper };
            debug_assert!((word + next + count) * 8 <= self.view.filter.payload_bytes);
            let coefficients = Coefficients { here: equations.here[now], next: equations.over[now] };
            let expected = equations.expected[now];
            // SAFETY: the caller promises the set. A start is at least 64 slots before the layer's end: the block lies
            // in the layer, and the one after it too, unless `next` is 0.
            let mut holds = unsafe {
                let block = self.view.word(word);
                if NARROW {
                    K::agree(block, next as usize, count as usize, coefficients, expected)
                } else {
                    columns_hold::<K>(block, &Equation { word, next, count, coefficients, expected })
                }
            };
            if BUMPING {
                // SAFETY: each bucket in which an equation starts has a code.
                let packed = u64::from_le_bytes(unsafe { *self.view.word(equations.code_word[now]) });
                let is_bumped = packed >> equations.code_bit[now] & 3 >= equations.bumping_code[now];
                bumped.push_if(is_bumped, first_position + index);
                holds &= !is_bumped;
            }
            answers |= u64::from(holds) << index;
        }
        answers
    }
}

/// The positions of the bumped keys in a chunk.
struct Bumped {
    positions: [u16; CHUNK],
    count: usize,
}

impl Bumped {
    /// Appends without a branch, which would mispredict for each bumped key.
    #[inline(always)]
    fn push_if(&mut self, condition: bool, position: usize) {
        self.positions[self.count % CHUNK] = position as u16;
        self.count += usize::from(condition);
    }
}
