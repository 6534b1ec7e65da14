//! Plain Rust: eight slots at a time, with rows as words.

use alloc::vec::Vec;

use super::{Bucket, ChosenPivots, Equation, Pending, PivotBlock, RESULT_BITS, offset_of};

/// Slots eliminated at once: a byte of each row, so that one word holds the bytes of eight rows.
const SLOTS_AT_ONCE: usize = 8;

/// Slots between two removals of empty rows: often enough to keep later passes short, rarely enough to make the copying
/// negligible.
const DROP_EVERY: usize = 16;

/// The lowest bit of every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

pub(super) fn sweep(bucket: Bucket<'_>) -> Option<u8> {
    let Bucket { pending, echelon, first_block, chosen, .. } = bucket;
    let Pending { equations, len, bits, .. } = pending;
    let mut count = *len;
    // A multiple of 8, so that the bits of a row in the block are one of its bytes.
    let mut first = usize::from(offset_of(equations[..count].first()?)) / SLOTS_AT_ONCE * SLOTS_AT_ONCE;
    let mut started = 0;
    while let Some(mut pivots) = echelon.block(first_block + first / 64) {
        let starts = |equation: &&Equation| usize::from(offset_of(equation)) < first + SLOTS_AT_ONCE;
        started += equations[started..count].iter().take_while(starts).count();
        let lanes = &mut equations[..started];
        gather_bits(lanes, first, bits);
        if bits.iter().any(|&bits| bits != 0) {
            let eliminated = eliminate(lanes, bits, first, &mut pivots, chosen);
            apply(lanes, bits, &eliminated);
        }
        first += SLOTS_AT_ONCE;
        if first.is_multiple_of(DROP_EVERY) {
            let dropped = drop_empty(&mut equations[..count], started);
            (started, count) = (started - dropped, count - dropped);
        }
        if started == count && equations[..count].iter().all(|equation| equation[0] == 0) {
            break;
        }
    }
    // Rows ascend by start, so the last contradictory row has the largest offset.
    equations[..count].iter().rfind(|equation| equation[0] == 0 && equation[1] & RESULT_BITS != 0).map(offset_of)
}

/// Removes the empty rows among the first `started`, and returns their number.
fn drop_empty(equations: &mut [Equation], started: usize) -> usize {
    let mut kept = 0;
    for lane in 0..started {
        let equation = equations[lane];
        equations[kept] = equation;
        // A zero row with a nonzero result is a contradiction, which must be kept to be reported.
        kept += usize::from(equation[0] | equation[1] & RESULT_BITS != 0);
    }
    equations.copy_within(started.., kept);
    started - kept
}

/// Gathers each row's bits in the block, without those left of its start: one byte per row, eight to a word.
fn gather_bits(lanes: &[Equation], first: usize, bits: &mut Vec<u64>) {
    bits.clear();
    let shift = first % 64;
    let (eights, rest) = lanes.as_chunks::<8>();
    bits.extend(eights.iter().map(|eight| u64::from_le_bytes(eight.map(|equation| (equation[0] >> shift) as u8))));
    if !rest.is_empty() {
        bits.push(rest.iter().rev().fold(0, |word, equation| word << 8 | equation[0] >> shift & 0xff));
    }
    let ahead = |equation: &Equation| usize::from(offset_of(equation)).saturating_sub(first);
    for (lane, equation) in lanes.iter().enumerate().rev().take_while(|(_, equation)| ahead(equation) > 0) {
        let before_start = (1 << ahead(equation)) - 1;
        bits[lane / 8] &= !(before_start << (lane % 8 * 8));
    }
}

/// Finds the pivots of the slots from `first` on, and turns `bits` into the set of pivots that each row needs.
fn eliminate(
    lanes: &[Equation],
    bits: &mut [u64],
    first: usize,
    pivots: &mut PivotBlock<'_>,
    chosen: &mut ChosenPivots,
) -> [Equation; SLOTS_AT_ONCE] {
    let mut eliminated = [[0; 2]; SLOTS_AT_ONCE];
    for index in 0..SLOTS_AT_ONCE {
        let slot = first + index;
        let pivot = if let Some((row, result)) = pivots.pivot(slot % 64) {
            [row, result.into()]
        } else {
            let Some(lane) = highest_with(bits, index) else { continue };
            let needs = bits[lane / 8] >> (lane % 8 * 8);
            let pivot = reduced(lanes[lane], needs, &eliminated[..index]);
            pivots.set_pivot(slot % 64, pivot[0], pivot[1] as u32);
            chosen.push(slot as u8, offset_of(&lanes[lane]));
            pivot
        };
        eliminated[index] = pivot;
        let later = pivot[0] >> (first % 64) & (0xfe << index & 0xff);
        for word in bits.iter_mut() {
            // The product copies the pivot's later bits to every byte whose row has the slot's bit: eight rows without
            // a branch.
            *word ^= (*word >> index & ONES) * later;
        }
    }
    eliminated
}

/// Returns the last row whose byte in `bits` has bit `index`.
fn highest_with(bits: &[u64], index: usize) -> Option<usize> {
    // From the end, because the last row has the highest priority.
    let word = bits.iter().rposition(|&bits| bits >> index & ONES != 0)?;
    Some(word * 8 + (bits[word] >> index & ONES).ilog2() as usize / 8)
}

/// Returns a pending row as a pivot, after adding the earlier pivots that it needs.
fn reduced(pending: Equation, needs: u64, pivots: &[Equation]) -> Equation {
    let start = [pending[0], pending[1] & RESULT_BITS];
    pivots.iter().enumerate().fold(start, |sum, (index, pivot)| {
        // A mask instead of a branch, because the bits are random.
        let selected = (needs >> index & 1).wrapping_neg();
        [sum[0] ^ pivot[0] & selected, sum[1] ^ pivot[1] & selected]
    })
}

/// Adds to each row the pivots that it needs.
fn apply(lanes: &mut [Equation], bits: &[u64], pivots: &[Equation; SLOTS_AT_ONCE]) {
    let [p0, p1, p2, p3, p4, p5, p6, p7] = *pivots;
    let (low, high) = (sums([p0, p1, p2, p3]), sums([p4, p5, p6, p7]));
    for (lanes, needs) in lanes.chunks_mut(8).zip(bits) {
        for (equation, needs) in lanes.iter_mut().zip(needs.to_le_bytes()) {
            let (low, high) = (low[usize::from(needs & 15)], high[usize::from(needs >> 4)]);
            *equation = [equation[0] ^ low[0] ^ high[0], equation[1] ^ low[1] ^ high[1]];
        }
    }
}

/// Returns all sums of four equations.
fn sums(four: [Equation; 4]) -> [Equation; 16] {
    let mut sums = [[0; 2]; 16];
    for (index, equation) in four.into_iter().enumerate() {
        let (known, new) = sums.split_at_mut(1 << index);
        for (new, known) in new.iter_mut().zip(known) {
            *new = [known[0] ^ equation[0], known[1] ^ equation[1]];
        }
    }
    sums
}
