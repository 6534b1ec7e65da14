//! Solves with tables of bytes, from solved slots to the left: the version that all vector instruction sets share.
//!
//! Four slots are solved at once, and their contribution is then added to all 63 slots to their left. These lie in the
//! same block and in the one to its left, at positions that do not overlap; so one accumulator of 64 positions serves
//! both.

use super::BlockColumns;
use crate::filter::ribbon::columns::MAX_COLUMNS;
use crate::filter::ribbon::simd::bytes::{ByteTable, ByteVector, Planes};
use crate::filter::ribbon::simd::sweep::Echelon;

/// Slots solved at once.
const SLOTS_AT_ONCE: usize = 4;

const GROUPS: usize = 64 / SLOTS_AT_ONCE;

/// The most bytes of a result.
const RESULT_BYTES: usize = MAX_COLUMNS as usize / 8;

/// The result bits of a block's slots; as many planes as the columns need are in use.
type Values = Planes<RESULT_BYTES, 64>;

/// A byte for each slot of a block.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct BlockBytes([u8; 64]);

/// For the group at position `k` of sixteen bytes, and its slot `j`: indexes that select the slot's byte in each subset
/// with `j`, and 0 elsewhere.
static MEMBERS: [[ByteTable; SLOTS_AT_ONCE]; SLOTS_AT_ONCE] = {
    let mut members = [[[128; 16]; SLOTS_AT_ONCE]; SLOTS_AT_ONCE];
    let mut at = 0;
    while at < SLOTS_AT_ONCE * SLOTS_AT_ONCE * 16 {
        let (place, slot, subset) = (at / 64, at / 16 % SLOTS_AT_ONCE, at % 16);
        if subset >> slot & 1 == 1 {
            members[place][slot][subset] = (place * SLOTS_AT_ONCE + slot) as u8;
        }
        at += 1;
    }
    members
};

/// Maps subsets of solved slots to subsets of their sums so far, for each way in which a group's pivots have bits at
/// the slots to their right: bits 0 to 2 are those of the first pivot, bits 3 and 4 of the second, bit 5 of the third.
static SOLVED: [ByteTable; 64] = {
    let mut solved = [[0; 16]; 64];
    let mut links = 0;
    while links < 64 {
        let fourth = 0b1000;
        let third = 0b0100 ^ (links >> 5 & 1) * fourth;
        let second = 0b0010 ^ (links >> 3 & 1) * third ^ (links >> 4 & 1) * fourth;
        let first = 0b0001 ^ (links & 1) * second ^ (links >> 1 & 1) * third ^ (links >> 2 & 1) * fourth;
        let mut subset = 0;
        while subset < 16 {
            let sum = (subset & 1) * first ^ (subset >> 1 & 1) * second ^ (subset >> 2 & 1) * third;
            solved[links][subset] = (sum ^ (subset >> 3 & 1) * fourth) as u8;
            subset += 1;
        }
        links += 1;
    }
    solved
};

/// The masks for one group of a block, one byte for each slot.
#[derive(Clone, Copy)]
struct GroupMasks {
    /// Selects the half byte for this group in rows of the same block: those of slots to its left.
    here: BlockBytes,
    /// Selects the half byte for this group in rows of the block to the left: those of slots from the group's position
    /// on, within the group only the bits that reach across.
    left: BlockBytes,
    /// The positions of other groups.
    others: BlockBytes,
    /// Indexes that select for each slot of the group its own value, and 0 elsewhere.
    own: BlockBytes,
}

static MASKS: [GroupMasks; GROUPS] = {
    let empty = BlockBytes([0; 64]);
    let mut masks = [GroupMasks { here: empty, left: empty, others: empty, own: empty }; GROUPS];
    let mut at = 0;
    while at < GROUPS * 64 {
        let (group, place) = (at / 64, at % 64);
        let shift = group % 2 * SLOTS_AT_ONCE;
        let mask = &mut masks[group];
        if place < group * SLOTS_AT_ONCE {
            mask.here.0[place] = 0xf << shift;
        } else if place < group * SLOTS_AT_ONCE + SLOTS_AT_ONCE {
            mask.left.0[place] = ((1 << (place - group * SLOTS_AT_ONCE)) - 1) << shift;
        } else {
            mask.left.0[place] = 0xf << shift;
        }
        let is_own = place / SLOTS_AT_ONCE == group;
        mask.others.0[place] = if is_own { 0 } else { 0xff };
        mask.own.0[place] = if is_own { 1 << (place % SLOTS_AT_ONCE) } else { 128 };
        at += 1;
    }
    masks
};

/// A block of the echelon form, with zeros for slots without a pivot.
struct LoadedBlock {
    words: [u64; 64],
    rows: Planes<8, 64>,
    results: Values,
}

/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn solve<V: ByteVector>(
    echelon: &Echelon,
    columns: usize,
    mut visit: impl FnMut(usize, &BlockColumns),
) {
    let Some(last) = echelon.occupied.len().checked_sub(1) else { return };
    // Not a constant of copies of the code, of which it would make three: it takes no longer to count.
    let bytes = columns.div_ceil(8).min(RESULT_BYTES);
    let mut blocks = [const { LoadedBlock::EMPTY }; 2];
    let mut words = BlockColumns::default();
    // SAFETY: the caller promises it.
    unsafe { blocks[last % 2].load::<V>(echelon, Some(last), bytes) };
    let mut sums = blocks[last % 2].results.clone();
    for block in (0..=last).rev() {
        let mut values = Values::default();
        // SAFETY: the caller promises it.
        unsafe {
            blocks[(block + 1) % 2].load::<V>(echelon, block.checked_sub(1), bytes);
            let (here, left) = (&blocks[block % 2], &blocks[(block + 1) % 2]);
            for pair in (0..GROUPS / 2).rev() {
                solve_group::<V, 1>(pair, here, left, &mut sums.0[..bytes], &mut values);
                solve_group::<V, 0>(pair, here, left, &mut sums.0[..bytes], &mut values);
            }
            transpose::<V>(&values, columns, &mut words);
        }
        visit(block, &words);
    }
}

impl LoadedBlock {
    const EMPTY: Self = Self { words: [0; 64], rows: Planes([[0; 64]; 8]), results: Planes([[0; 64]; RESULT_BYTES]) };

    /// Loads a block; `None` loads one without pivots.
    #[inline(always)]
    unsafe fn load<V: ByteVector>(&mut self, echelon: &Echelon, block: Option<usize>, bytes: usize) {
        let Some(block) = block else {
            *self = Self::EMPTY;
            return;
        };
        let (occupied, rows, results) = (echelon.occupied[block], &echelon.rows[block], &echelon.results[block]);
        for (slot, (word, row)) in self.words.iter_mut().zip(rows).enumerate() {
            *word = row & (occupied >> slot & 1).wrapping_neg();
        }
        for (byte, plane) in self.results.0.iter_mut().take(bytes).enumerate() {
            for (slot, (out, result)) in plane.iter_mut().zip(results).enumerate() {
                *out = (result >> (byte * 8)) as u8 & ((occupied >> slot & 1) as u8).wrapping_neg();
            }
        }
        for (chunk, words) in self.words.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: the caller promises it.
            let tables = unsafe { V::transpose(words) };
            self.rows.set(chunk * 16, &tables);
        }
    }

    /// Returns which pivots of the group have bits at the slots to their right, as an index into [`SOLVED`].
    #[inline(always)]
    fn links(&self, group: usize) -> usize {
        let first = group * SLOTS_AT_ONCE % 64;
        let bits = |slot: usize| (self.words[first + slot] >> first) as usize;
        (bits(0) >> 1 & 7) | (bits(1) >> 2 & 3) << 3 | (bits(2) >> 3 & 1) << 5
    }
}

/// Solves group `pair * 2 + ODD`, whose `sums` are complete except for the group itself.
#[inline(always)]
unsafe fn solve_group<V: ByteVector, const ODD: usize>(
    pair: usize,
    here: &LoadedBlock,
    left: &LoadedBlock,
    sums: &mut [[u8; 64]],
    values: &mut Values,
) {
    let group = pair * 2 + ODD;
    let masks = &MASKS[group % GROUPS];
    let solved = &SOLVED[here.links(group) % 64];
    for ((sums, values), begun) in sums.iter_mut().zip(&mut values.0).zip(&left.results.0) {
        // SAFETY: the caller promises it.
        unsafe {
            let sixteen = V::table(&sums.as_chunks::<16>().0[group / SLOTS_AT_ONCE % 4]);
            let [first, second, third, fourth] = &MEMBERS[group % SLOTS_AT_ONCE];
            let half = V::look_up(sixteen, V::table(first)).xor(V::look_up(sixteen, V::table(second)));
            let other = V::look_up(sixteen, V::table(third)).xor(V::look_up(sixteen, V::table(fourth)));
            let subsets = V::look_up(half.xor(other), V::table(solved));
            for at in (0..64).step_by(V::LANES) {
                let row_of = |block: &LoadedBlock, mask: &BlockBytes| {
                    V::load(&block.rows.0[pair % 8][at..]).and(V::load(&mask.0[at..]))
                };
                let bits = row_of(here, &masks.here).or(row_of(left, &masks.left));
                let bits = if ODD == 1 { bits.upper_half() } else { bits };
                // The group's own positions restart with the results of the block to the left; the others keep their
                // sums.
                let begun = V::load(&begun[at..]);
                let kept = V::load(&sums[at..]).xor(begun).and(V::load(&masks.others.0[at..]));
                kept.xor(begun).xor(V::look_up(subsets, bits)).store(&mut sums[at..]);
                let value = V::look_up(subsets, V::load(&masks.own.0[at..]));
                value.or(V::load(&values[at..])).store(&mut values[at..]);
            }
        }
    }
}

/// Transposes the values: bit `c` of all slots becomes word `c`.
#[inline(always)]
unsafe fn transpose<V: ByteVector>(values: &Values, columns: usize, words: &mut BlockColumns) {
    words[..columns].fill(0);
    for (plane, words) in values.0.iter().zip(words.as_chunks_mut::<8>().0).take(columns.div_ceil(8)) {
        for at in (0..64).step_by(V::LANES) {
            // SAFETY: the caller promises it.
            let (low, high) = unsafe {
                let value = V::load(&plane[at..]);
                (value.low_bits(), value.upper_half().low_bits())
            };
            for (word, lanes) in words.iter_mut().zip(low.into_iter().chain(high)) {
                *word |= lanes << at;
            }
        }
    }
}
