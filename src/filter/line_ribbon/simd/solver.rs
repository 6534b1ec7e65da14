//! The build of lines, for any instruction set.
//!
//! A line's system is kept in *substitution form*: each slot stands for a sum of free slots, at first itself, and a
//! constant in each column. A new equation, with all slots replaced, says that some sum of free slots is a constant;
//! its lowest slot becomes a *pivot*, and is replaced everywhere. In the end free slots are 0, so the constants are the
//! line: nothing is substituted back. The pivots are the leading slots of the space that the equations span, whatever
//! their order.
//!
//! Eight equations are added at once: first they are reduced by each other, then all slots are replaced in one pass.

use alloc::vec::Vec;

use super::equation::{coefficients, next_hash, place, result};
use super::query::gather_lowest;
use super::{Equations, Line, Lines, Set};
use crate::hash::KeyHash;

/// The keys that a layer bumps, by the hashes that choose their lines in the next layer.
#[derive(Debug, Default)]
pub(in crate::filter::line_ribbon) struct Bumped {
    pub(in crate::filter::line_ribbon) hashes: Vec<KeyHash>,
    max: usize,
}

impl Bumped {
    /// Reserves memory for up to `max` keys.
    pub(in crate::filter::line_ribbon) fn new(max: u64) -> Option<Self> {
        let (mut hashes, max) = (Vec::new(), usize::try_from(max).ok()?);
        hashes.try_reserve_exact(max).ok()?;
        Some(Self { hashes, max })
    }

    /// Appends keys of the layer; returns `false` if they are too many.
    fn extend(&mut self, keys: &[KeyHash]) -> bool {
        let fits = keys.len() <= self.max - self.hashes.len();
        if fits {
            self.hashes.extend(keys.iter().map(|key| KeyHash::from_well_mixed(next_hash(key.get()))));
        }
        fits
    }
}

/// Equations added at once.
pub(super) const AT_ONCE: usize = 8;

/// The system of one line.
pub(super) trait Solver {
    /// Returns the system without equations.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn new() -> Self;

    /// Adds the equations of eight hashes, or none and returns the first that contradicts those before it. That of the
    /// hash 0 is always true.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn add(&mut self, hashes: &[u64; AT_ONCE]) -> Result<(), usize>;

    /// Returns the line.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn line(&self) -> Line;
}

/// See [`super::solve`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn solve<S: Set>(
    mut keys: &[KeyHash],
    equations: Equations,
    (lines, limits): Lines<'_>,
    bumped: &mut Bumped,
) -> bool {
    let count = lines.len() as u64;
    for (index, line) in lines.iter_mut().enumerate() {
        let is_own = |key: &&KeyHash| place(key.get(), count).0 == index as u64;
        let (own, later) = keys.split_at(keys.iter().take_while(is_own).count());
        keys = later;
        // In the final layer all keys have one tag, so that all are kept or none.
        let is_final = equations.salt.is_some();
        let tag = |key: &KeyHash| if is_final { 0 } else { place(key.get(), count).1 };
        // SAFETY: the caller promises the set.
        let kept = unsafe { solve_line::<S>(own, equations, tag, line) };
        let limit = match own.get(kept) {
            None => u8::MAX,
            // No limit is below the lowest tag.
            Some(first) if tag(first) > 0 && bumped.extend(&own[kept..]) => tag(first) - 1,
            Some(_) => return false,
        };
        if let Some(recorded) = limits.get_mut(index) {
            *recorded = limit;
        }
    }
    true
}

/// Solves the longest prefix of whole tags whose equations are consistent, and returns the number of its keys.
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn solve_line<S: Set>(
    keys: &[KeyHash],
    equations: Equations,
    tag: impl Fn(&KeyHash) -> u8,
    line: &mut Line,
) -> usize {
    let (mut kept, mut at) = (keys.len(), 0);
    // SAFETY: the caller promises the set.
    unsafe {
        let mut solver = S::Solver::new();
        while at < kept {
            let mut hashes = [0; AT_ONCE];
            for (hash, key) in hashes.iter_mut().zip(&keys[at..kept]) {
                *hash = equations.of(*key);
            }
            match solver.add(&hashes) {
                Ok(()) => at += AT_ONCE,
                Err(position) => {
                    // Other keys of the contradicting tag go as well. If some were added before, all is added again.
                    let contradicting = tag(&keys[at + position]);
                    while kept > at + position || kept > 0 && tag(&keys[kept - 1]) == contradicting {
                        kept -= 1;
                    }
                    if kept < at {
                        (solver, at) = (S::Solver::new(), 0);
                    }
                }
            }
        }
        *line = solver.line();
    }
    kept
}

/// A system in two arrays of words, with tables of sums.
pub(super) struct Tables<S> {
    /// For each slot, the free slots whose sum it stands for.
    slots: [u64; 64],
    /// For each column, the slots whose constant is 1.
    constants: [u64; 8],
    set: core::marker::PhantomData<S>,
}

impl<S: Set> Solver for Tables<S> {
    #[inline(always)]
    unsafe fn new() -> Self {
        Self { slots: core::array::from_fn(|slot| 1 << slot), constants: [0; 8], set: core::marker::PhantomData }
    }

    #[inline(always)]
    unsafe fn add(&mut self, hashes: &[u64; AT_ONCE]) -> Result<(), usize> {
        // Sums of the slots by nibbles of coefficients.
        let mut by_nibble = [[0; 16]; 16];
        for (sums, slots) in by_nibble.iter_mut().zip(self.slots.as_chunks().0) {
            *sums = sums_of::<4, 16>(slots);
        }
        // SAFETY: the caller promises the set.
        let line = unsafe { self.line() };
        let (mut sums, mut values) = ([0_u64; AT_ONCE], [0_u64; AT_ONCE]);
        for index in 0..AT_ONCE {
            let coefficients = coefficients(hashes[index]);
            for nibble in 0..16 {
                sums[index] ^= by_nibble[nibble][(coefficients >> (4 * nibble) & 15) as usize];
            }
            // SAFETY: the caller promises the set.
            values[index] = u64::from(result(hashes[index]) ^ unsafe { S::parities(&line, coefficients) });
        }
        let mut pivots = [0; AT_ONCE];
        for index in 0..AT_ONCE {
            let (sum, value) = (sums[index], values[index]);
            if sum == 0 && value != 0 {
                return Err(index);
            }
            pivots[index] = sum & sum.wrapping_neg();
            for other in 0..AT_ONCE {
                let has = if other != index && sums[other] & pivots[index] != 0 { u64::MAX } else { 0 };
                sums[other] ^= sum & has;
                values[other] ^= value & has;
            }
        }
        self.replace(&pivots, &sums, &values);
        Ok(())
    }

    #[inline(always)]
    unsafe fn line(&self) -> Line {
        let mut line = [0; 64];
        line.copy_from_slice(self.constants.map(u64::to_le_bytes).as_flattened());
        line
    }
}

impl<S: Set> Tables<S> {
    /// Replaces pivots in all slots: `sums[i]` contains `pivots[i]`, and is the constant `values[i]`.
    #[inline(always)]
    fn replace(&mut self, pivots: &[u64; AT_ONCE], sums: &[u64; AT_ONCE], values: &[u64; AT_ONCE]) {
        let all = pivots.iter().fold(0, |all, pivot| all | pivot);
        // In the order of pivots.
        let (mut ordered, mut ordered_values) = ([0; AT_ONCE], [0; AT_ONCE]);
        for index in 0..AT_ONCE {
            if pivots[index] != 0 {
                let rank = (all & (pivots[index] - 1)).count_ones() as usize & 7;
                (ordered[rank], ordered_values[rank]) = (sums[index], values[index]);
            }
        }
        let sums = sums_of::<8, 256>(&ordered);
        // SAFETY: only functions that have the set make a system of it.
        let contained = unsafe { S::extract(&self.slots, all) };
        for (slot, pivots) in self.slots.iter_mut().zip(contained) {
            *slot ^= sums[usize::from(pivots)];
        }
        let words = contained.as_chunks().0;
        for (rank, value) in ordered_values.iter().enumerate() {
            let slots = u64::from_le_bytes(core::array::from_fn(|eight| {
                gather_lowest(u64::from_le_bytes(words[eight]) >> rank)
            }));
            for (column, word) in self.constants.iter_mut().enumerate() {
                *word ^= slots & (value >> column & 1).wrapping_neg();
            }
        }
    }
}

/// Returns all sums of some of `words`, by which of them.
#[inline(always)]
fn sums_of<const WORDS: usize, const SUMS: usize>(words: &[u64; WORDS]) -> [u64; SUMS] {
    let mut sums = [0; SUMS];
    for (bit, word) in words.iter().enumerate() {
        for below in 0..1 << bit {
            sums[(1 << bit) + below] = sums[below] ^ word;
        }
    }
    sums
}
