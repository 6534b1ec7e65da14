//! Elimination of the pending rows of one bucket, the most expensive step of a Ribbon build.
//!
//! A row is one word, in *circular* form: bit `i` stands for the slot congruent to `i` modulo 64, so that elimination
//! needs no shift. At each slot, from left to right, the slot's pivot is added (exclusive or) to every pending row that
//! has the slot's bit. A slot without a pivot takes one: of the rows with its bit, the one that starts furthest right,
//! which has the highest priority.
//!
//! One slot at a time, this takes a pass over all rows per slot. Instead, several slots are eliminated at once (the
//! *method of the four Russians*: Arlazarov, Dinic, Kronrod, Faradzhev 1970). The pivots that a row needs over the next
//! four slots follow from four bits of the row and six bits of the pivots. So those bits are eliminated first, on
//! bitmaps with one bit per row. Then all sixteen sums of the four pivots are tabulated, and every row is changed once,
//! by the sum that it needs.
//!
//! The vector versions store rows as planes: plane `b` holds byte `b` of every row. A table look-up is then one byte
//! shuffle for 16 or 32 rows. CPUs with AVX-512 multiply matrices of bits instead, and need no tables.
//!
//! A row takes part only from its start on: before that, the same bit positions hold its bits for the slots 64 further
//! right.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
mod planes;
mod portable;

use alloc::vec::Vec;

use super::bytes::Planes;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use super::bytes::avx2;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
use super::bytes::neon;
use crate::kernel::dispatch_generic;

/// An equation in two words: the row; then the result in the low 32 bits, and above it the start, counted from the left
/// of the bucket.
pub(crate) type Equation = [u64; 2];

/// The bits of an equation's second word that hold the result.
const RESULT_BITS: u64 = 0xffff_ffff;

/// The maximum number of rows in the planes. About 80 of a bucket's 133 keys are pending. With well-mixed hashes, more
/// than 128 occur once in millions of buckets; the portable version then takes over.
const MAX_LANES: usize = 128;

/// Rows written between two length checks, so that the loop that writes them has no bounds check and no reallocation.
pub(crate) const RESERVED_ROWS: usize = 64;

/// Rows that are not pivots yet, ascending by start: the last has the highest priority.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The first `len` are in use; the others are stale.
    equations: Vec<Equation>,
    len: usize,
    /// Scratch memory of the portable version, reused from bucket to bucket.
    bits: Vec<u64>,
    /// Scratch memory of the vector versions: byte planes of the rows, the results and the starts.
    rows: Planes<8, MAX_LANES>,
    results: Planes<4, MAX_LANES>,
    offsets: Planes<1, MAX_LANES>,
}

impl Pending {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns memory for [`RESERVED_ROWS`] more rows; [`commit`](Self::commit) then keeps the first of them.
    #[inline]
    pub(crate) fn reserve(&mut self) -> &mut [Equation; RESERVED_ROWS] {
        if self.len + RESERVED_ROWS > self.equations.len() {
            self.equations.resize(self.len * 2 + MAX_LANES, [0; 2]);
        }
        let (reserved, _) = self.equations[self.len..].as_chunks_mut();
        &mut reserved[0]
    }

    /// Keeps the first `count` rows that were written to the [reserve](Self::reserve).
    #[inline]
    pub(crate) fn commit(&mut self, count: usize) {
        self.len += count.min(RESERVED_ROWS);
    }

    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.equations.capacity() * size_of::<Equation>() + self.bits.capacity() * 8
    }
}

/// Returns a pending row.
#[inline]
pub(crate) fn equation(row: u64, result: u32, offset: u8) -> Equation {
    [row, u64::from(result) | u64::from(offset) << 32]
}

/// Returns the start of a row, counted from the left of the bucket.
#[inline]
fn offset_of(equation: &Equation) -> u8 {
    (equation[1] >> 32) as u8
}

/// The pivots of a section's slots, 64 to a block.
#[derive(Debug, Default)]
pub(crate) struct Echelon {
    /// One bit per slot: whether it has a pivot. If not, its entries in the arrays are stale.
    pub(crate) occupied: Vec<u64>,
    pub(crate) rows: Vec<[u64; 64]>,
    pub(crate) results: Vec<[u32; 64]>,
}

/// The pivots of one block.
pub(crate) struct PivotBlock<'a> {
    pub(crate) occupied: &'a mut u64,
    pub(crate) rows: &'a mut [u64; 64],
    pub(crate) results: &'a mut [u32; 64],
}

impl Echelon {
    #[inline]
    pub(crate) fn block(&mut self, index: usize) -> Option<PivotBlock<'_>> {
        Some(PivotBlock {
            occupied: self.occupied.get_mut(index)?,
            rows: self.rows.get_mut(index)?,
            results: self.results.get_mut(index)?,
        })
    }
}

impl PivotBlock<'_> {
    /// Returns the pivot of a slot.
    #[inline]
    fn pivot(&self, slot: usize) -> Option<(u64, u32)> {
        let is_occupied = *self.occupied >> slot & 1 == 1;
        is_occupied.then(|| (self.rows[slot % 64], self.results[slot % 64]))
    }

    #[inline]
    fn set_pivot(&mut self, slot: usize, row: u64, result: u32) {
        // The remainders make bounds checks unnecessary.
        self.rows[slot % 64] = row;
        self.results[slot % 64] = result;
        *self.occupied |= 1 << slot;
    }
}

/// The pivots chosen from the pending rows of one bucket. There are fewer than 192, because a row ends at most 63 slots
/// beyond the bucket.
#[derive(Debug)]
pub(crate) struct ChosenPivots {
    /// The slot of each, and the start of its row, both counted from the left of the bucket.
    list: [[u8; 2]; 256],
    len: u8,
}

impl Default for ChosenPivots {
    fn default() -> Self {
        Self { list: [[0; 2]; 256], len: 0 }
    }
}

impl ChosenPivots {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn as_slice(&self) -> &[[u8; 2]] {
        &self.list[..usize::from(self.len)]
    }

    #[inline]
    fn push(&mut self, slot: u8, offset: u8) {
        // The list has 256 entries, so that an index of 8 bits needs no bounds check.
        self.list[usize::from(self.len)] = [slot, offset];
        self.len += 1;
    }
}

/// A bucket to sweep.
#[derive(Debug)]
pub(crate) struct Bucket<'a> {
    pub(crate) pending: &'a mut Pending,
    pub(crate) echelon: &'a mut Echelon,
    /// The bucket's first block in the echelon form.
    pub(crate) first_block: usize,
    /// The bytes of a result that can have set bits, 1 to 4.
    pub(crate) result_bytes: usize,
    /// Receives the chosen pivots.
    pub(crate) chosen: &'a mut ChosenPivots,
}

/// Eliminates all pending rows of a bucket against each other and against the existing pivots.
///
/// Returns the largest offset of a contradictory row: one that became zero while its result did not.
pub(crate) fn sweep(bucket: Bucket<'_>) -> Option<u8> {
    dispatch_generic!(planes::sweep, self, portable::sweep, (bucket: Bucket<'_>) -> Option<u8>)
}
