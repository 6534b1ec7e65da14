//! Elimination of the pending rows of one bucket: where a Ribbon build spends its time.
//!
//! A row is one word, in *circular* form: bit `i` stands for the slot congruent to `i` modulo 64, so
//! elimination needs no shift. At each slot, from left to right, the slot's pivot is added (exclusive
//! or) to every pending row that has the slot's bit. A slot without a pivot takes one: of the rows with
//! its bit, the one that starts furthest right, which has the highest priority.
//!
//! Done one slot at a time that is a pass over all rows per slot. Instead, several slots are settled at
//! once (the *method of the four Russians*: Arlazarov, Dinic, Kronrod, Faradzhev 1970). Which pivots each
//! row will need over the next four slots follows from four bits of each row and six bits of the pivots;
//! so first those bits alone are worked through, on bitmaps with one bit per row. Then all sixteen sums
//! of the four pivots are tabulated, and every row is changed once, by the sum that it needs.
//!
//! With vectors, rows are kept as planes: plane `b` holds byte `b` of every row. A table look-up is then
//! one byte shuffle for 16, 32 or 64 rows.
//!
//! A row takes part only from the slot on where it starts: before that, its bits for the slots 64 further
//! right stand in the same places.

mod portable;

/// A row and what goes with it: in the first word the row, in the second the result in the low 32 bits, and
/// above it the start, counted from the left of the bucket.
pub(crate) type Equation = [u64; 2];

/// The result of an equation, without its start.
const RESULT_BITS: u64 = 0xffff_ffff;

/// Rows that are not pivots yet, in ascending order of their starts: the last has the highest priority.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The first `len` are in use; the others are left over.
    equations: Vec<Equation>,
    len: usize,
    /// What the portable form keeps from bucket to bucket.
    bits: Vec<u64>,
}

impl Pending {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a row if it `is_pending`: without a branch, because nothing could predict it.
    #[inline]
    pub(crate) fn push_if(&mut self, is_pending: bool, row: u64, result: u32, offset: u8) {
        if self.len == self.equations.len() {
            self.grow();
        }
        self.equations[self.len] = [row, u64::from(result) | u64::from(offset) << 32];
        self.len += usize::from(is_pending);
    }

    #[cold]
    fn grow(&mut self) {
        self.equations.resize(self.len * 2 + 64, [0; 2]);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.equations.capacity() * size_of::<Equation>() + self.bits.capacity() * 8
    }
}

/// Where a row starts, counted from the left of the bucket.
#[expect(clippy::cast_possible_truncation, reason = "it was widened from eight bits")]
#[inline]
fn offset_of(equation: &Equation) -> u8 {
    (equation[1] >> 32) as u8
}

/// The pivots of a section's slots.
#[derive(Debug, Default)]
pub(crate) struct Echelon {
    /// One bit per slot: whether it has a pivot. Without, what stands in the arrays is left over.
    pub(crate) occupied: Vec<u64>,
    pub(crate) rows: Vec<u64>,
    pub(crate) results: Vec<u32>,
}

impl Echelon {
    /// The pivot of a slot: its row and its result.
    #[inline]
    pub(crate) fn pivot(&self, slot: usize) -> Option<(u64, u32)> {
        let is_occupied = self.occupied[slot / 64] >> (slot % 64) & 1 == 1;
        is_occupied.then(|| (self.rows[slot], self.results[slot]))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "results were widened from 32 bits")]
    fn set_pivot(&mut self, slot: usize, pivot: Equation) {
        self.rows[slot] = pivot[0];
        self.results[slot] = pivot[1] as u32;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }
}

/// A pivot that was chosen from the pending rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) slot: usize,
    /// Start of the row, counted from the left of the bucket.
    pub(crate) offset: u8,
}

/// Eliminates all of `pending`, rows of the bucket at slot `bucket` (a multiple of 64), from each other
/// and from the pivots there are. Appends the pivots chosen to `picks`.
///
/// Returns the largest offset of a row that came out contradictory: nothing left of the row, but
/// something of its result.
pub(crate) fn sweep(pending: &mut Pending, echelon: &mut Echelon, bucket: usize, picks: &mut Vec<Pick>) -> Option<u8> {
    portable::sweep(pending, echelon, bucket, picks)
}
