//! The version that all vector instruction sets share, with rows as planes of bytes. Sets with a byte shuffle eliminate
//! four slots at a time.

use super::{Bucket, ChosenPivots, MAX_LANES, Pending, PivotBlock, offset_of, portable};
use crate::filter::ribbon::equation::{BUCKET_SLOTS, WIDTH};
use crate::filter::ribbon::simd::bytes::{ByteTable, ByteVector, sums_of_bytes};

/// Slots eliminated at once: half a byte of each row, because a byte shuffle looks up 4 bits. (The portable version
/// eliminates 8, with two look-ups in memory.)
const SLOTS_AT_ONCE: usize = 4;

/// The end of the slots in which a bucket's rows and pivots have bits: none starts beyond the bucket, and each spans
/// 64.
const END: u8 = (BUCKET_SLOTS + WIDTH) as u8;

/// The bits that count in a row, by how many slots it starts after the block's first, up to four.
const STARTED: ByteTable = [0b1111, 0b1110, 0b1100, 0b1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Maps a row's own four bits to the four pivots that it needs. One table for each way in which pivots have bits at the
/// slots of later ones: bits 0 to 2 of the index are those of the first pivot, bits 3 and 4 of the second, bit 5 of the
/// third.
static NEEDS: [ByteTable; 64] = {
    let mut needs = [[0; 16]; 64];
    let mut links = 0;
    while links < 64 {
        let mut bits = 0;
        while bits < 16 {
            let first = bits & 1;
            let second = bits >> 1 & 1 ^ first & links;
            let third = bits >> 2 & 1 ^ first & links >> 1 ^ second & links >> 3;
            let fourth = bits >> 3 & 1 ^ first & links >> 2 ^ second & links >> 4 ^ third & links >> 5;
            needs[links][bits] = (first | (second & 1) << 1 | (third & 1) << 2 | (fourth & 1) << 3) as u8;
            bits += 1;
        }
        links += 1;
    }
    needs
};

/// A sweep by an instruction set, with rows as planes of bytes.
pub(super) trait Sweep {
    /// The vectors of lanes with which planes are made and read.
    type Bytes: ByteVector;

    /// Slots eliminated at once, a divisor of 8.
    const SLOTS_AT_ONCE: u8;

    /// Lanes are in use up to a multiple of this.
    const LANES: usize;

    /// Sweeps the block's slots through the first `started` lanes, and returns whether no row has bits left. Rows that
    /// start further right have no bits in the block yet.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn sweep(block: &mut Block<'_>, started: usize) -> bool;
}

impl<V: ByteVector> Sweep for V {
    type Bytes = V;

    const SLOTS_AT_ONCE: u8 = SLOTS_AT_ONCE as u8;
    /// A multiple of 32 for NEON as well, because some numbers of its vectors are rounded up.
    const LANES: usize = 32;

    #[inline(always)]
    unsafe fn sweep(block: &mut Block<'_>, started: usize) -> bool {
        // SAFETY: the caller promises it.
        unsafe {
            // The number of vectors is a constant in each arm, so that the loops over them are unrolled and stay in
            // registers. With NEON's 16 lanes, odd numbers above 4 are rounded up to limit the number of copies.
            match started.div_ceil(V::LANES) {
                0 | 1 => block.sweep::<V, 1>(),
                2 => block.sweep::<V, 2>(),
                3 => block.sweep::<V, 3>(),
                4 => block.sweep::<V, 4>(),
                5 | 6 if V::LANES < 32 => block.sweep::<V, 6>(),
                _ if V::LANES < 32 => block.sweep::<V, 8>(),
                _ => false,
            }
        }
    }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn sweep<S: Sweep>(bucket: Bucket<'_>) -> Option<u8> {
    if bucket.pending.len > MAX_LANES {
        return portable::sweep(bucket);
    }
    let Bucket { pending, echelon, first_block, result_bytes, chosen } = bucket;
    let count = pending.len;
    let mut first = offset_of(pending.equations[..count].first()?) / S::SLOTS_AT_ONCE * S::SLOTS_AT_ONCE;
    // SAFETY: the caller promises it.
    unsafe { fill_planes::<S>(pending) };
    let mut started = 0;
    let mut is_swept = false;
    while !is_swept
        && first < END
        && let Some(pivots) = echelon.block(first_block + usize::from(first / 64))
    {
        while started < count && pending.offsets.0[0][started % MAX_LANES] < first + S::SLOTS_AT_ONCE {
            started += 1;
        }
        // SAFETY: the caller promises it.
        let is_spent = unsafe { S::sweep(&mut Block { pending, pivots, chosen, result_bytes, first }, started) };
        is_swept = is_spent && started == count;
        first += S::SLOTS_AT_ONCE;
    }
    // `END` bounds the loop: otherwise a wrong vector operation would make a build loop forever.
    debug_assert!(is_swept, "bits are left behind the last slot: a vector operation is wrong");
    if !is_swept {
        // Reports a contradiction in the last row: a bumping layer then bumps the whole bucket, and the final layer
        // fails.
        return Some(u8::MAX);
    }
    // SAFETY: the caller promises it.
    unsafe { last_contradiction::<S::Bytes>(pending) }
}

/// Transposes the pending rows into planes. Sets the unused lanes of the last vectors to 0.
#[inline(always)]
unsafe fn fill_planes<S: Sweep>(pending: &mut Pending) {
    let Pending { equations, len, rows, results, offsets, .. } = pending;
    let lanes = len.next_multiple_of(S::LANES);
    equations[*len..lanes].fill([0; 2]);
    for (chunk, equations) in equations[..lanes].as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: the caller promises it.
        let [row_bytes, tail_bytes] = unsafe { S::Bytes::transpose_pairs(equations) };
        rows.set(chunk * 16, &row_bytes);
        results.set(chunk * 16, &tail_bytes);
        offsets.set(chunk * 16, &tail_bytes[4..]);
    }
}

/// Returns the largest offset of a row that became zero while its result did not.
#[inline(always)]
unsafe fn last_contradiction<V: ByteVector>(pending: &Pending) -> Option<u8> {
    let mut at = pending.len.next_multiple_of(V::LANES);
    while at > 0 {
        at -= V::LANES;
        // SAFETY: the caller promises it.
        let lanes = unsafe {
            let (mut rows, mut results) = (V::splat(0), V::splat(0));
            for plane in &pending.rows.0 {
                rows = rows.or(V::load(&plane[at..]));
            }
            for plane in &pending.results.0 {
                results = results.or(V::load(&plane[at..]));
            }
            results.non_zero() & !rows.non_zero()
        };
        if let Some(lane) = lanes.checked_ilog2() {
            return Some(pending.offsets.0[0][at + lane as usize]);
        }
    }
    None
}

/// The slots that are eliminated at once, with all that a sweep of them reads and writes.
pub(super) struct Block<'a> {
    pub(super) pending: &'a mut Pending,
    pub(super) pivots: PivotBlock<'a>,
    pub(super) chosen: &'a mut ChosenPivots,
    /// The bytes of a result that are in use. Not a constant of copies of the code, of which it would make three: it
    /// takes no longer to count them.
    pub(super) result_bytes: usize,
    /// The first slot, counted from the left of the bucket.
    pub(super) first: u8,
}

/// A set of lanes: lane `i` is bit `i % 64` of word `i / 64`.
type LaneSet = [u64; MAX_LANES / 64];

/// The pivots of a block's slots; zeros for a slot without one, so that adding it changes nothing.
struct Eliminated {
    rows: [u64; SLOTS_AT_ONCE],
    results: [u32; SLOTS_AT_ONCE],
    /// Which pivots have bits at the slots of later ones: an index into [`NEEDS`].
    links: usize,
}

impl Block<'_> {
    /// Sweeps the block's slots through the first `K` vectors of lanes. Returns whether no row has bits left.
    #[inline(always)]
    unsafe fn sweep<V: ByteVector, const K: usize>(&mut self) -> bool {
        // SAFETY: the caller promises it.
        unsafe {
            let (bits, columns) = self.gather::<V, K>();
            let eliminated = self.eliminate(columns, K * V::LANES > 64);
            self.apply::<V, K>(bits, &eliminated)
        }
    }

    /// Gathers each row's four bits in the block, without those left of its start, and the same bits as one lane set
    /// per slot.
    #[inline(always)]
    unsafe fn gather<V: ByteVector, const K: usize>(&self) -> ([V; K], [LaneSet; SLOTS_AT_ONCE]) {
        let plane = &self.pending.rows.0[usize::from(self.first) % 64 / 8];
        let is_upper_half = !self.first.is_multiple_of(8);
        let mut columns = [LaneSet::default(); SLOTS_AT_ONCE];
        // SAFETY: the caller promises it.
        unsafe {
            let (started, first, four) = (V::table(&STARTED), V::splat(self.first), V::splat(SLOTS_AT_ONCE as u8));
            let mut bits = [V::splat(0); K];
            for (vector, bits) in bits.iter_mut().enumerate() {
                let at = vector * V::LANES;
                let byte = V::load(&plane[at..]);
                let half = if is_upper_half { byte.upper_half() } else { byte.and(V::splat(0xf)) };
                let ahead = V::load(&self.pending.offsets.0[0][at..]).saturating_sub(first).min(four);
                *bits = half.and(V::look_up(started, ahead));
                for (lanes, found) in columns.iter_mut().zip(bits.low_bits()) {
                    lanes[at / 64] |= found << (at % 64);
                }
            }
            (bits, columns)
        }
    }

    /// Finds the pivots of the block's slots. `columns` holds the lanes that have each slot's bit. If at most 64 lanes
    /// are in use, `is_wide` is false, and the second word, which is empty, is skipped.
    #[inline(always)]
    fn eliminate(&mut self, mut columns: [LaneSet; SLOTS_AT_ONCE], is_wide: bool) -> Eliminated {
        let mut eliminated = Eliminated { rows: [0; SLOTS_AT_ONCE], results: [0; SLOTS_AT_ONCE], links: 0 };
        self.eliminate_slot::<0>(&mut columns, is_wide, &mut eliminated);
        self.eliminate_slot::<1>(&mut columns, is_wide, &mut eliminated);
        self.eliminate_slot::<2>(&mut columns, is_wide, &mut eliminated);
        self.eliminate_slot::<3>(&mut columns, is_wide, &mut eliminated);
        eliminated
    }

    /// Finds the pivot of the block's slot `INDEX`, and eliminates it from the later `columns`.
    #[inline(always)]
    fn eliminate_slot<const INDEX: usize>(
        &mut self,
        columns: &mut [LaneSet; SLOTS_AT_ONCE],
        is_wide: bool,
        eliminated: &mut Eliminated,
    ) {
        let first = self.first % 64;
        let later = if let Some((row, result)) = self.pivots.pivot(usize::from(first) + INDEX) {
            (eliminated.rows[INDEX], eliminated.results[INDEX]) = (row, result);
            row >> first
        } else {
            let Some(lane) = highest(&columns[INDEX], is_wide) else { return };
            self.choose::<INDEX>(lane, columns, eliminated);
            let mut later = 0;
            for after in INDEX + 1..SLOTS_AT_ONCE {
                later |= has(&columns[after], lane) << after;
            }
            later
        };
        // Masks instead of branches, because it is random whether a pivot has a bit at a later slot.
        for after in INDEX + 1..SLOTS_AT_ONCE {
            let is_held = (later >> after & 1).wrapping_neg();
            columns[after][0] ^= columns[INDEX][0] & is_held;
            if is_wide {
                columns[after][1] ^= columns[INDEX][1] & is_held;
            }
        }
        eliminated.links |= match INDEX {
            0 => later >> 1 & 7,
            1 => (later >> 2 & 3) << 3,
            2 => (later >> 3 & 1) << 5,
            _ => 0,
        } as usize;
    }

    /// Makes the row in `lane` the pivot of the block's slot `INDEX`, after adding the earlier pivots that it needs.
    /// The planes are not reduced yet: `apply` changes them once, for all four slots.
    #[inline(always)]
    fn choose<const INDEX: usize>(
        &mut self,
        lane: usize,
        columns: &[LaneSet; SLOTS_AT_ONCE],
        eliminated: &mut Eliminated,
    ) {
        let lane = lane % MAX_LANES;
        let mut row = u64::from_le_bytes(self.pending.rows.0.each_ref().map(|plane| plane[lane]));
        let mut result = 0;
        for (byte, plane) in self.pending.results.0.iter().take(self.result_bytes).enumerate() {
            result |= u32::from(plane[lane]) << (byte * 8);
        }
        for before in 0..INDEX {
            let is_needed = has(&columns[before], lane).wrapping_neg();
            row ^= eliminated.rows[before] & is_needed;
            result ^= eliminated.results[before] & is_needed as u32;
        }
        (eliminated.rows[INDEX], eliminated.results[INDEX]) = (row, result);
        self.pivots.set_pivot(usize::from(self.first % 64) + INDEX, row, result);
        self.chosen.push(self.first + INDEX as u8, self.pending.offsets.0[0][lane]);
    }

    /// Adds to each row the pivots that it needs. Returns whether no row has bits left.
    #[inline(always)]
    unsafe fn apply<V: ByteVector, const K: usize>(&mut self, mut bits: [V; K], eliminated: &Eliminated) -> bool {
        // SAFETY: the caller promises it.
        unsafe {
            let needs = V::table(&NEEDS[eliminated.links % 64]);
            for bits in &mut bits {
                *bits = V::look_up(needs, *bits);
            }
            // One look-up per plane and vector adds up to four pivots at once. The pass also detects whether any bit is
            // left: if none is, the bucket is done, usually long before `END`.
            let mut left = V::splat(0);
            for (plane, sums) in self.pending.rows.0.iter_mut().zip(&V::sums(eliminated.rows)) {
                left = left.or(add::<V, K>(plane, sums, &bits));
            }
            for (byte, plane) in self.pending.results.0.iter_mut().take(self.result_bytes).enumerate() {
                let bytes = eliminated.results.map(|result| (result >> (byte * 8)) as u8);
                add::<V, K>(plane, &sums_of_bytes(bytes), &bits);
            }
            left.non_zero() == 0
        }
    }
}

/// Adds to each byte of `plane` the sum at its index. Returns the OR of all resulting bytes.
#[inline(always)]
unsafe fn add<V: ByteVector, const K: usize>(plane: &mut [u8; MAX_LANES], sums: &ByteTable, indexes: &[V; K]) -> V {
    // SAFETY: the caller promises it.
    unsafe {
        let sums = V::table(sums);
        let mut left = V::splat(0);
        for (vector, &index) in indexes.iter().enumerate() {
            let bytes = &mut plane[vector * V::LANES..];
            let sum = V::load(bytes).xor(V::look_up(sums, index));
            sum.store(bytes);
            left = left.or(sum);
        }
        left
    }
}

/// Returns the last lane in `set`.
#[inline(always)]
fn highest(set: &LaneSet, is_wide: bool) -> Option<usize> {
    if is_wide && set[1] != 0 {
        return Some(64 + set[1].ilog2() as usize);
    }
    set[0].checked_ilog2().map(|lane| lane as usize)
}

/// Returns 1 if `lane` is in `set`, otherwise 0.
#[inline(always)]
fn has(set: &LaneSet, lane: usize) -> u64 {
    set[lane / 64 % 2] >> (lane % 64) & 1
}
