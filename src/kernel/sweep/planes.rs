//! Four slots at a time, with rows as planes of bytes: the form that all vector instruction sets share.

use super::{Bucket, MAX_LANES, Pending, Picks, PivotBlock, offset_of, portable};
use crate::kernel::bytes::{ByteVector, Table, sums_of_bytes};
use crate::kernel::equation::{BUCKET_SLOTS, WIDTH};

/// Slots settled at once: half a byte of each row.
const BLOCK: usize = 4;

/// Behind the last slot that a bucket's rows and pivots have bits in: they start inside the bucket, if not before it.
const END: u8 = (BUCKET_SLOTS + WIDTH) as u8;

/// For a row that starts so many slots after the block's first, up to four: which of its bits count.
const STARTED: Table = [0b1111, 0b1110, 0b1100, 0b1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// What a row needs of four pivots, by its own four bits, for each way in which pivots hold the slots of
/// later ones: bits 0 to 2 say whether the first has the slots of the others, bits 3 and 4 the second, bit 5
/// the third.
static NEEDS: [Table; 64] = {
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

/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn sweep<V: ByteVector>(bucket: Bucket<'_>) -> Option<u8> {
    if bucket.pending.len > MAX_LANES {
        return portable::sweep(bucket);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match bucket.result_bytes {
            0 | 1 => sweep_results::<V, 1>(bucket),
            2 => sweep_results::<V, 2>(bucket),
            _ => sweep_results::<V, 4>(bucket),
        }
    }
}

/// The sweep, where `R` bytes of the results have any bits.
#[inline(always)]
unsafe fn sweep_results<V: ByteVector, const R: usize>(bucket: Bucket<'_>) -> Option<u8> {
    let Bucket { pending, echelon, first_block, picks, .. } = bucket;
    let count = pending.len;
    let mut first = offset_of(pending.equations[..count].first()?) / BLOCK as u8 * BLOCK as u8;
    // SAFETY: the caller's promise.
    unsafe { fill_planes::<V>(pending) };
    let mut started = 0;
    let mut is_swept = false;
    while !is_swept
        && first < END
        && let Some(pivots) = echelon.block(first_block + usize::from(first / 64))
    {
        while started < count && pending.offsets.0[0][started % MAX_LANES] < first + BLOCK as u8 {
            started += 1;
        }
        let mut block = Block { pending, pivots, picks, first };
        // SAFETY: the caller's promise.
        let is_spent = unsafe {
            match started.div_ceil(V::LANES) {
                0 | 1 => block.sweep::<V, R, 1>(),
                2 => block.sweep::<V, R, 2>(),
                3 if V::LANES < 64 => block.sweep::<V, R, 3>(),
                4 if V::LANES < 64 => block.sweep::<V, R, 4>(),
                5 | 6 if V::LANES < 32 => block.sweep::<V, R, 6>(),
                _ if V::LANES < 32 => block.sweep::<V, R, 8>(),
                _ => false,
            }
        };
        is_swept = is_spent && started == count;
        first += BLOCK as u8;
    }
    // Without this bound a vector operation that is wrong makes an endless loop of a build.
    debug_assert!(is_swept, "bits are left behind the last slot: a vector operation is wrong");
    if !is_swept {
        // As if the last row contradicted the others: the bucket is bumped whole, and the final layer fails.
        return Some(u8::MAX);
    }
    // SAFETY: the caller's promise.
    unsafe { last_contradiction::<V>(pending) }
}

/// Turns the pending rows into planes; lanes without a row, of the vectors in use, become 0.
#[inline(always)]
unsafe fn fill_planes<V: ByteVector>(pending: &mut Pending) {
    let Pending { equations, len, rows, results, offsets, .. } = pending;
    // Some numbers of vectors are rounded up, to a multiple of 32 lanes.
    let lanes = len.next_multiple_of(V::LANES.max(32));
    equations[*len..lanes].fill([0; 2]);
    for (chunk, equations) in equations[..lanes].as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: the caller's promise.
        let [row_bytes, tail_bytes] = unsafe { V::transpose_pairs(equations) };
        rows.set(chunk * 16, &row_bytes);
        results.set(chunk * 16, &tail_bytes);
        offsets.set(chunk * 16, &tail_bytes[4..]);
    }
}

/// The largest offset of a row of which nothing is left but something of the result.
#[inline(always)]
unsafe fn last_contradiction<V: ByteVector>(pending: &Pending) -> Option<u8> {
    let mut at = pending.len.next_multiple_of(V::LANES);
    while at > 0 {
        at -= V::LANES;
        // SAFETY: the caller's promise.
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

/// Four slots, and all that is needed to sweep them.
struct Block<'a> {
    pending: &'a mut Pending,
    pivots: PivotBlock<'a>,
    picks: &'a mut Picks,
    /// The first slot, counted from the left of the bucket.
    first: u8,
}

/// Which lanes have a bit: lane `i` in bit `i % 64` of word `i / 64`.
type LaneSet = [u64; MAX_LANES / 64];

/// The pivots of a block's slots; nothing but zeros for a slot without.
struct Settled {
    rows: [u64; BLOCK],
    results: [u32; BLOCK],
    /// Which pivots hold the slots of later ones, as [`NEEDS`] is indexed.
    links: usize,
}

impl Block<'_> {
    /// Sweeps the block's slots through the first `K` vectors of lanes; whether no row has bits left.
    #[inline(always)]
    unsafe fn sweep<V: ByteVector, const R: usize, const K: usize>(&mut self) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let (bits, columns) = self.gather::<V, K>();
            let settled = self.settle::<R>(columns, K * V::LANES > 64);
            self.apply::<V, R, K>(bits, &settled)
        }
    }

    /// For each row its four bits in the block, but those to the left of its start; and the same as sets of lanes.
    #[inline(always)]
    unsafe fn gather<V: ByteVector, const K: usize>(&self) -> ([V; K], [LaneSet; BLOCK]) {
        let plane = &self.pending.rows.0[usize::from(self.first) % 64 / 8];
        let is_upper_half = !self.first.is_multiple_of(8);
        let mut columns = [LaneSet::default(); BLOCK];
        // SAFETY: the caller's promise.
        unsafe {
            let (started, first, four) = (V::table(&STARTED), V::splat(self.first), V::splat(BLOCK as u8));
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

    /// Finds the pivots of the block's slots. `columns` are the lanes that have each slot's bit.
    #[inline(always)]
    fn settle<const R: usize>(&mut self, mut columns: [LaneSet; BLOCK], is_wide: bool) -> Settled {
        let mut settled = Settled { rows: [0; BLOCK], results: [0; BLOCK], links: 0 };
        self.settle_slot::<R, 0>(&mut columns, is_wide, &mut settled);
        self.settle_slot::<R, 1>(&mut columns, is_wide, &mut settled);
        self.settle_slot::<R, 2>(&mut columns, is_wide, &mut settled);
        self.settle_slot::<R, 3>(&mut columns, is_wide, &mut settled);
        settled
    }

    /// Finds the pivot of the block's slot `INDEX`, and takes its bits out of the later `columns`.
    #[inline(always)]
    fn settle_slot<const R: usize, const INDEX: usize>(
        &mut self,
        columns: &mut [LaneSet; BLOCK],
        is_wide: bool,
        settled: &mut Settled,
    ) {
        let first = self.first % 64;
        let later = if let Some((row, result)) = self.pivots.pivot(usize::from(first) + INDEX) {
            (settled.rows[INDEX], settled.results[INDEX]) = (row, result);
            row >> first
        } else {
            let Some(lane) = highest(&columns[INDEX], is_wide) else { return };
            self.pick::<R, INDEX>(lane, columns, settled);
            let mut later = 0;
            for after in INDEX + 1..BLOCK {
                later |= has(&columns[after], lane) << after;
            }
            later
        };
        for after in INDEX + 1..BLOCK {
            let is_held = (later >> after & 1).wrapping_neg();
            columns[after][0] ^= columns[INDEX][0] & is_held;
            if is_wide {
                columns[after][1] ^= columns[INDEX][1] & is_held;
            }
        }
        settled.links |= match INDEX {
            0 => later >> 1 & 7,
            1 => (later >> 2 & 3) << 3,
            2 => (later >> 3 & 1) << 5,
            _ => 0,
        } as usize;
    }

    /// Makes the row in `lane` the pivot of the block's slot `INDEX`, after those before it were added as needed.
    #[inline(always)]
    fn pick<const R: usize, const INDEX: usize>(
        &mut self,
        lane: usize,
        columns: &[LaneSet; BLOCK],
        settled: &mut Settled,
    ) {
        let lane = lane % MAX_LANES;
        let mut row = u64::from_le_bytes(self.pending.rows.0.each_ref().map(|plane| plane[lane]));
        let mut result = 0;
        for (byte, plane) in self.pending.results.0.iter().take(R).enumerate() {
            result |= u32::from(plane[lane]) << (byte * 8);
        }
        for before in 0..INDEX {
            let is_needed = has(&columns[before], lane).wrapping_neg();
            row ^= settled.rows[before] & is_needed;
            result ^= settled.results[before] & is_needed as u32;
        }
        (settled.rows[INDEX], settled.results[INDEX]) = (row, result);
        self.pivots.set_pivot(usize::from(self.first % 64) + INDEX, row, result);
        self.picks.push(self.first + INDEX as u8, self.pending.offsets.0[0][lane]);
    }

    /// Adds to each row the pivots that it needs; whether no row has bits left.
    #[inline(always)]
    unsafe fn apply<V: ByteVector, const R: usize, const K: usize>(
        &mut self,
        mut bits: [V; K],
        settled: &Settled,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let needs = V::table(&NEEDS[settled.links % 64]);
            for bits in &mut bits {
                *bits = V::look_up(needs, *bits);
            }
            let mut left = V::splat(0);
            for (plane, sums) in self.pending.rows.0.iter_mut().zip(&V::sums(settled.rows)) {
                left = left.or(add::<V, K>(plane, sums, &bits));
            }
            for (byte, plane) in self.pending.results.0.iter_mut().take(R).enumerate() {
                let bytes = settled.results.map(|result| (result >> (byte * 8)) as u8);
                add::<V, K>(plane, &sums_of_bytes(bytes), &bits);
            }
            left.non_zero() == 0
        }
    }
}

/// Adds to each byte of `plane` the sum at its index; returns all bits that are left.
#[inline(always)]
unsafe fn add<V: ByteVector, const K: usize>(plane: &mut [u8; MAX_LANES], sums: &Table, indexes: &[V; K]) -> V {
    // SAFETY: the caller's promise.
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

/// The last lane in `set`.
#[inline(always)]
fn highest(set: &LaneSet, is_wide: bool) -> Option<usize> {
    if is_wide && set[1] != 0 {
        return Some(64 + set[1].ilog2() as usize);
    }
    set[0].checked_ilog2().map(|lane| lane as usize)
}

/// 1 if `lane` is in `set`, else 0.
#[inline(always)]
fn has(set: &LaneSet, lane: usize) -> u64 {
    set[lane / 64 % 2] >> (lane % 64) & 1
}
