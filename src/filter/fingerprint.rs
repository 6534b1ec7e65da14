//! Fingerprints in cells: the part that xor, xor+ and binary fuse filters share once their keys are peeled.
//!
//! A kind defines each key's cells ([`Placement`]); the exclusive or of their values is the key's fingerprint.

use crate::codec::AlignedBuffer;
use crate::filter::batch::{answers, word_of};
use crate::filter::cache::PROBE_PREFETCH_BYTES;
use crate::filter::peel::{AttemptError, CellSums, PeelOrder, Placement, try_salts};
use crate::filter::{BuildResult, BuiltPayload, FallbackReason, FilterShape};
use crate::hash::KeyHash;
use crate::kernel::{Vectorizable, has_vector_products, vectorized};

/// The second 64 bits of the fraction of pi, which are odd; `PI[1]` in FORMAT.md.
const FINGERPRINT_MULTIPLIER: u64 = 0x1319_8a2e_0370_7345;

/// Returns a key's 32 fingerprint bits; a fingerprint is the highest of them.
///
/// The cells come from the bits of `salted` without further mixing. The high bits of the product depend on all of these
/// bits, so that keys with the same cells still have different fingerprints.
#[inline]
pub(crate) const fn fingerprint_bits(salted: u64) -> u32 {
    (salted.wrapping_mul(FINGERPRINT_MULTIPLIER) >> 32) as u32
}

/// A placement that also computes the cells of many keys at once.
pub(crate) trait VectorPlacement<const ARITY: usize>: Placement<ARITY> {
    /// Places up to 64 keys. Each loop computes one number of all keys: in a loop that stores several, the compiler
    /// sees no vectors. Must be `#[inline(always)]`.
    fn place_all(&self, hashes: &[KeyHash], placed: &mut Placed<ARITY>);
}

/// The cells and the fingerprint bits of up to 64 keys.
pub(crate) struct Placed<const ARITY: usize> {
    pub(crate) cells: [[usize; 64]; ARITY],
    pub(crate) bits: [u32; 64],
}

/// A shape whose filters are built by peeling: the keys are taken off, then their cells are set in reverse order.
///
/// `add_all`, `peel` and `set_cells` call the functions of [`CellSums`] and of this module with the shape's placement
/// and width.
pub(crate) trait PeeledShape: FilterShape + Copy {
    fn with_salt(self, salt: u8) -> Self;

    /// Returns the number of cells in the whole array.
    fn cells(&self) -> u64;

    /// Adds hashes that are sorted or at least [partitioned](crate::hash::partition_hashes), on up to `threads`
    /// threads.
    fn add_all(&self, sums: &mut CellSums, hashes: &[KeyHash], threads: usize) -> Result<(), AttemptError>;

    fn peel(&self, sums: &mut CellSums, reserve: usize) -> Result<PeelOrder, AttemptError>;

    fn set_cells(&self, sums: &CellSums, order: &PeelOrder, cells: &mut [u8]);

    /// Returns the bytes that building takes in addition to the hashes and the payload.
    fn build_bytes(&self, keys: u64) -> u64 {
        self.cells() * CellSums::BYTES + keys * size_of::<u32>() as u64
    }
}

/// Builds the filter of distinct, ascending `hashes`. Keeps as many cells as possible from `reserve` on empty.
///
/// Threads share the adding of keys. One thread peels, because the order of peeling decides which cells stay empty.
pub(crate) fn build<S: PeeledShape>(hashes: &[KeyHash], shape: S, reserve: usize, threads: usize) -> BuildResult<S> {
    let mut sums = CellSums::new(shape.cells())?;
    try_salts(|salt| {
        sums.clear();
        attempt(hashes, shape.with_salt(salt), &mut sums, reserve, threads)
    })
}

/// Builds the filter of distinct `hashes`, at least partitioned, with the salt of `shape`, in empty `sums`.
pub(crate) fn attempt<S: PeeledShape>(
    hashes: &[KeyHash],
    shape: S,
    sums: &mut CellSums,
    reserve: usize,
    threads: usize,
) -> Result<BuiltPayload<S>, AttemptError> {
    shape.add_all(sums, hashes, threads)?;
    let order = shape.peel(sums, reserve)?;
    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes()).ok_or(FallbackReason::MemoryBudget)?;
    shape.set_cells(sums, &order, payload.as_mut_slice());
    let peak_bytes = sums.bytes() + size_of_val(order.as_slice()) as u64 + payload.capacity() as u64;
    Ok(BuiltPayload { shape, payload, attempts: u32::from(shape.salt()) + 1, peak_bytes })
}

/// Calls a function with a placement and the [`Width`] for `$bits` bits, so that its loops are compiled for both.
macro_rules! with_width {
    ($bits:expr, $function:ident($placement:expr, $($argument:expr),* $(,)?)) => {{
        use $crate::filter::fingerprint::{Packed, WholeBytes};
        match $bits {
            8 => $function($placement, WholeBytes::<1>, $($argument),*),
            16 => $function($placement, WholeBytes::<2>, $($argument),*),
            32 => $function($placement, WholeBytes::<4>, $($argument),*),
            bits @ ..16 => $function($placement, Packed::<4> { bits }, $($argument),*),
            bits => $function($placement, Packed::<8> { bits }, $($argument),*),
        }
    }};
}
pub(crate) use with_width;

/// Fills zeroed cells so that the cells of every peeled key add up to its fingerprint.
pub(crate) fn set_cells<const ARITY: usize>(
    placement: impl Placement<ARITY>,
    width: impl Width,
    sums: &CellSums,
    order: &PeelOrder,
    cells: &mut [u8],
) {
    sums.assign(order, |free, hash| {
        let (places, bits) = placement.place(hash);
        // The free cell is still 0, so it can be added with the others.
        let read = |place| width.read(cells, place).unwrap_or_default();
        let sum = places.into_iter().fold(width.fingerprint(bits), |sum, place| sum ^ read(place));
        width.write(cells, free, sum);
    });
}

/// Returns whether the key of `hash` may be in the filter. If the payload is too short for one of its cells, the answer
/// is positive.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call is a fifth of a probe")]
pub(crate) fn may_contain<const ARITY: usize>(
    placement: impl Placement<ARITY>,
    width: impl Width,
    payload: &[u8],
    hash: KeyHash,
) -> bool {
    let (cells, bits) = placement.place(hash.get());
    // All cells are read and added before the one comparison: which cell makes the difference cannot be predicted.
    let mut sum = width.fingerprint(bits);
    for cell in cells {
        let Some(value) = width.read(payload, cell) else { return true };
        sum ^= value;
    }
    width.is_zero(sum)
}

/// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`. The payload has all cells.
///
/// Nothing is prefetched: once the cells of 64 keys are computed, so little is left to do for each key that enough
/// loads are in flight. With prefetches, no size up to 45 MB was faster.
pub(crate) fn may_contain_batch<const ARITY: usize>(
    placement: impl VectorPlacement<ARITY>,
    width: impl Width,
    payload: &[u8],
    hashes: &[KeyHash],
    matches: &mut [u64],
) {
    // The payload has all cells, so the default is never used; `may_contain`'s early return would cost a branch here.
    let add = |sum, cell| sum ^ width.read(payload, cell).unwrap_or_default();
    // Without vectors, computing the cells apart pays only if it lets more loads miss the nearer caches at once.
    if payload.len() <= PROBE_PREFETCH_BYTES && !has_vector_products() {
        return answers(hashes, matches, |hash| {
            let (cells, bits) = placement.place(hash.get());
            width.is_zero(cells.into_iter().fold(width.fingerprint(bits), add))
        });
    }
    let mut placed = Placed { cells: [[0; 64]; ARITY], bits: [0; 64] };
    for (chunk, word) in hashes.chunks(64).zip(matches) {
        vectorized(Placing { placement, hashes: chunk, placed: &mut placed });
        let holds = |key: usize| {
            let cells = placed.cells.iter().map(|cells| cells[key]);
            width.is_zero(cells.fold(width.fingerprint(placed.bits[key]), add))
        };
        *word = match chunk.len() {
            // Loops of fixed length, which the compiler unrolls.
            64 => (0..8).fold(0, |word, byte| word | word_of((0..8).map(|key| holds(8 * byte + key))) << (8 * byte)),
            count => word_of((0..count.min(64)).map(holds)),
        };
    }
}

/// The placing of up to 64 keys.
struct Placing<'a, P, const ARITY: usize> {
    placement: P,
    hashes: &'a [KeyHash],
    placed: &'a mut Placed<ARITY>,
}

impl<P: VectorPlacement<ARITY>, const ARITY: usize> Vectorizable for Placing<'_, P, ARITY> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled with the instructions of its caller")]
    fn run(self) {
        self.placement.place_all(self.hashes, self.placed);
    }
}

/// How fingerprints are laid out in the payload.
pub(crate) trait Width: Copy {
    /// Cuts the fingerprint out of a key's 32 bits.
    fn fingerprint(self, bits: u32) -> u32;
    /// Reads the bits of a cell, possibly with bits of its neighbours above them; `None` beyond the payload.
    fn read(self, payload: &[u8], cell: usize) -> Option<u32>;
    /// Writes a cell whose bits are 0.
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32);
    /// Returns the byte in which the cell begins.
    fn byte(self, cell: usize) -> usize;
    /// Returns whether the cell's bits in `sum` are all 0.
    fn is_zero(self, sum: u32) -> bool;
}

/// Fingerprints of 1, 2 or 4 whole bytes: a cell is one aligned load, without shifts and masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeBytes<const BYTES: usize>;

impl<const BYTES: usize> Width for WholeBytes<BYTES> {
    #[inline]
    fn fingerprint(self, bits: u32) -> u32 {
        bits >> (32 - 8 * BYTES)
    }

    #[inline]
    fn read(self, payload: &[u8], cell: usize) -> Option<u32> {
        let bytes = payload.as_chunks::<BYTES>().0.get(cell)?;
        // Little-endian in one load; a copy into four bytes made batch probes a tenth slower.
        Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    #[inline]
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32) {
        if let Some(bytes) = payload.as_chunks_mut::<BYTES>().0.get_mut(cell) {
            bytes.copy_from_slice(&fingerprint.to_le_bytes()[..BYTES]);
        }
    }

    #[inline]
    fn byte(self, cell: usize) -> usize {
        // Wrapping, because positions in a damaged xor+ payload can be anything. The result is only prefetched.
        cell.wrapping_mul(BYTES)
    }

    #[inline]
    fn is_zero(self, sum: u32) -> bool {
        sum == 0
    }
}

/// Fingerprints of any number of bits: cell `i` begins at bit `i * bits`, and lies in the `WINDOW` bytes that begin at
/// the byte of its first bit.
///
/// Up to 16 bits, with up to 7 before them, always fit 4 bytes. 17 to 31 bits take up to 38 with them, so 8 bytes are
/// read. (Up to 25 would fit 4 bytes; one rule for all is worth 4 bytes more at the end of a payload.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<const WINDOW: usize> {
    pub(crate) bits: u8,
}

impl<const WINDOW: usize> Packed<WINDOW> {
    /// The position is computed in 64 bits: a payload of 512 MiB has more bits than a 32-bit `usize` can count.
    #[inline]
    fn first_bit(self, cell: usize) -> u64 {
        cell as u64 * u64::from(self.bits)
    }
}

impl<const WINDOW: usize> Width for Packed<WINDOW> {
    #[inline]
    fn fingerprint(self, bits: u32) -> u32 {
        bits >> (32 - self.bits)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a cell has at most 31 bits")]
    fn read(self, payload: &[u8], cell: usize) -> Option<u32> {
        let mut bytes = [0; 8];
        bytes[..WINDOW].copy_from_slice(payload.get(self.byte(cell)..)?.first_chunk::<WINDOW>()?);
        Some((u64::from_le_bytes(bytes) >> (self.first_bit(cell) % 8)) as u32)
    }

    #[inline]
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32) {
        let first_byte = self.byte(cell);
        if let Some(bytes) = payload.get_mut(first_byte..).and_then(<[u8]>::first_chunk_mut::<WINDOW>) {
            let cell_bits = u64::from(fingerprint & ((1 << self.bits) - 1)) << (self.first_bit(cell) % 8);
            bytes.iter_mut().zip(cell_bits.to_le_bytes()).for_each(|(byte, bits)| *byte |= bits);
        }
    }

    #[inline]
    fn byte(self, cell: usize) -> usize {
        (self.first_bit(cell) / 8) as usize
    }

    #[inline]
    fn is_zero(self, sum: u32) -> bool {
        // The shift drops the neighbours' bits, which lie above the cell's own.
        sum << (32 - self.bits) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "fuse")]
    use crate::filter::binary_fuse::{FuseShape, shape::FuseArity};
    use crate::simd::for_each_set;

    /// Writes every cell once and reads it back, next to neighbours of other values.
    fn round_trip(width: impl Width, bits: u8) {
        let value = |cell: usize| width.fingerprint((KeyHash::mix(cell as u64).get() >> 32) as u32);
        let mut payload = vec![0; 1_000 * usize::from(bits) / 8 + 8];
        (0..1_000).for_each(|cell| width.write(&mut payload, cell, value(cell)));
        for cell in 0..1_000 {
            let read = width.read(&payload, cell).unwrap();
            assert!(width.is_zero(read ^ value(cell)), "cell {cell} of {bits} bits");
            assert!(!width.is_zero(read ^ value(cell) ^ 1 << (bits - 1)), "cell {cell} of {bits} bits");
        }
        assert_eq!(width.read(&payload, 9_000), None);
    }

    fn places_many_keys_as_one<const ARITY: usize>(placement: impl VectorPlacement<ARITY>) {
        let hashes: Vec<KeyHash> =
            (0..60).map(KeyHash::mix).chain([0, 1, u64::MAX].map(KeyHash::from_well_mixed)).collect();
        for_each_set(|set| {
            for hashes in [&hashes[..1], &hashes[..], &[&hashes[..], &hashes[..]].concat()] {
                let mut placed = Placed { cells: [[0; 64]; ARITY], bits: [0; 64] };
                vectorized(Placing { placement, hashes, placed: &mut placed });
                for (key, hash) in hashes.iter().take(64).enumerate() {
                    assert_eq!(
                        (placed.cells.map(|cells| cells[key]), placed.bits[key]),
                        placement.place(hash.get()),
                        "{set}"
                    );
                }
            }
        });
    }

    #[test]
    fn many_keys_are_placed_as_one_by_every_set() {
        for salt in [0, 1, 15] {
            #[cfg(feature = "fuse")]
            {
                let fuse = |arity| FuseShape::new(arity, 8, 18, 16_381).unwrap().with_salt(salt);
                places_many_keys_as_one(fuse(FuseArity::Three).placement::<3>());
                places_many_keys_as_one(fuse(FuseArity::Four).placement::<4>());
            }
            #[cfg(feature = "xor")]
            places_many_keys_as_one(crate::filter::XorShape::new(8, u32::MAX).with_salt(salt).placement());
        }
    }

    #[test]
    fn cells_of_every_width_read_back_as_written() {
        (1..=16).for_each(|bits| round_trip(Packed::<4> { bits }, bits));
        (1..=31).for_each(|bits| round_trip(Packed::<8> { bits }, bits));
        round_trip(WholeBytes::<1>, 8);
        round_trip(WholeBytes::<2>, 16);
        round_trip(WholeBytes::<4>, 32);
    }
}
