//! Bytes: little-endian integers of blocks and tables, checksums, and the aligned buffers that payloads are built in.
//!
//! A read past the end is `None`, or does not compile; it never panics. Vector kernels and the cells of a payload do
//! not use this module: they read arrays with `from_le_bytes`.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Bytes of a filter's line, and the alignment at which it is fastest: one cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// The little-endian fields of a structure of fixed size. Where each begins is a constant: one that does not lie inside
/// the structure does not compile.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a, const BYTES: usize>(&'a [u8; BYTES]);

impl<'a, const BYTES: usize> Fields<'a, BYTES> {
    /// The fields of a structure that fills `bytes`.
    #[must_use]
    pub const fn of(bytes: &'a [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// What stands before the structure that ends `bytes`, and its fields. `None` if there are too few bytes.
    #[must_use]
    pub fn at_end_of(bytes: &'a [u8]) -> Option<(&'a [u8], Self)> {
        bytes.split_last_chunk().map(|(before, bytes)| (before, Self(bytes)))
    }

    /// The bytes of a field.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "the assertion, which the compiler evaluates")]
    pub fn array<const AT: usize, const COUNT: usize>(self) -> [u8; COUNT] {
        const { assert!(AT + COUNT <= BYTES, "a field lies inside its structure") };
        core::array::from_fn(|position| self.0[AT + position])
    }

    /// The byte at a place.
    #[must_use]
    pub fn u8<const AT: usize>(self) -> u8 {
        u8::from_le_bytes(self.array::<AT, 1>())
    }

    /// The number of 16 bits at a place.
    #[must_use]
    pub fn u16<const AT: usize>(self) -> u16 {
        u16::from_le_bytes(self.array::<AT, 2>())
    }

    /// A number of four bytes.
    #[must_use]
    pub fn u32<const AT: usize>(self) -> u32 {
        u32::from_le_bytes(self.array::<AT, 4>())
    }

    /// A number of eight bytes.
    #[must_use]
    pub fn u64<const AT: usize>(self) -> u64 {
        u64::from_le_bytes(self.array::<AT, 8>())
    }

    /// A number of `COUNT` bytes, at most eight.
    #[must_use]
    pub fn uint<const AT: usize, const COUNT: usize>(self) -> u64 {
        const { assert!(COUNT <= 8, "a number has at most 64 bits") };
        self.array::<AT, COUNT>().iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

/// Bytes of a checksum.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// The CRC32C (Castagnoli) of bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    checksum_append(0, bytes)
}

/// The checksum of more bytes behind those of `checksum`.
#[cfg(feature = "std")]
pub(crate) use crc32c::crc32c_append as checksum_append;
#[cfg(not(feature = "std"))]
pub(crate) use plain_checksum_append as checksum_append;

/// The same byte by byte, by a table: the crate that has faster ways needs `std`.
#[cfg(any(test, not(feature = "std")))]
#[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
pub(crate) fn plain_checksum_append(checksum: u32, bytes: &[u8]) -> u32 {
    const fn remainder(number: u32, bits: u32) -> u32 {
        if bits == 0 { number } else { remainder((number >> 1) ^ ((number & 1) * 0x82f6_3b78), bits - 1) }
    }
    static REMAINDERS: [u32; 256] = {
        let (mut remainders, mut byte) = ([0; 256], 0);
        while byte < 256 {
            remainders[byte as usize] = remainder(byte, 8);
            byte += 1;
        }
        remainders
    };
    let add = |sum: u32, byte| REMAINDERS[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(!checksum, add)
}

/// Bytes that each [`AlignedBuffer`] to be written keeps free behind its contents: the largest tail of a filter block,
/// so that sealing a payload never moves it. One constant for all, because a parameter would run through the builders
/// of every kind to save some 100 bytes per filter.
pub(crate) const TAIL_CAPACITY: usize = 100;

/// Buffers from this size on begin at varying lines of a page. In smaller ones a page would be too much memory, and
/// allocators place them at varying offsets anyway.
const STAGGERED_BYTES: usize = 64 << 10;

/// Lines in a page of 4 KiB.
const LINES_OF_PAGE: usize = 64;

/// The lines to leave free before the contents of a large buffer, different for 64 consecutive ones.
///
/// A key has the same line number in all filters of one size. Large buffers that come straight from the system all
/// start at the same offset in a page, and those lines fall into one set of the first-level cache, which holds 8 to 12:
/// lines that were prefetched for 64 filters are evicted before they are tested. Staggered, they take up to a third
/// less time.
fn stagger() -> usize {
    static BUFFERS: AtomicUsize = AtomicUsize::new(0);
    BUFFERS.fetch_add(1, Ordering::Relaxed) % LINES_OF_PAGE
}

/// Zeroed bytes aligned to a cache line. Unless made [without](Self::without_tail), there is room to append a trailer.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// `length` zero bytes. `None` when allocation fails.
    pub(crate) fn zeroed(length: u64) -> Option<Self> {
        Self::with_free(length, TAIL_CAPACITY)
    }

    /// The same for bytes that are read, to which nothing is appended.
    #[must_use]
    pub fn without_tail(length: u64) -> Option<Self> {
        Self::with_free(length, 0)
    }

    fn with_free(length: u64, tail_bytes: usize) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        // The same capacity wherever in its page the buffer begins, so that memory is counted alike in every build.
        let (free_lines, skipped) = if length < STAGGERED_BYTES { (1, 0) } else { (LINES_OF_PAGE, stagger()) };
        let capacity = length.checked_add(tail_bytes + free_lines * LINE_BYTES)?;
        // `vec!` gets zeroed pages from the system at no cost until they are used, but aborts when allocation fails. So
        // the memory is reserved and freed first; the black box keeps the compiler from optimizing that away.
        core::hint::black_box(&mut Vec::<u8>::new()).try_reserve_exact(capacity).ok()?;
        let mut bytes = vec![0; capacity];
        // `align_offset` may decline (it does under some interpreters): unaligned is only slower.
        let aligned = Some(bytes.as_ptr().align_offset(LINE_BYTES)).filter(|&at| at < LINE_BYTES).unwrap_or(0);
        let start = aligned + skipped * LINE_BYTES;
        bytes.truncate(start + length);
        Some(Self { bytes, start })
    }

    /// An empty buffer with capacity for `length` bytes and a tail.
    #[must_use]
    pub fn empty(length: u64) -> Option<Self> {
        let mut buffer = Self::zeroed(length)?;
        buffer.bytes.truncate(buffer.start);
        Some(buffer)
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// All of it, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Bytes held.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Grows the capacity to `length` bytes and a tail, moving the contents if necessary. `None` when allocation fails.
    pub(crate) fn reserve(&mut self, length: usize) -> Option<()> {
        if self.start.checked_add(length)?.checked_add(TAIL_CAPACITY)? > self.bytes.capacity() {
            let mut larger = Self::empty(length.try_into().ok()?)?;
            larger.append(self.as_slice());
            *self = larger;
        }
        Some(())
    }

    /// Appends `count` zero bytes and returns them. `None` when allocation fails.
    pub fn append_zeroed(&mut self, count: u64) -> Option<&mut [u8]> {
        let length = self.as_slice().len();
        let longer = length.checked_add(usize::try_from(count).ok()?)?;
        self.reserve(longer)?;
        self.bytes.resize(self.start + longer, 0);
        self.as_mut_slice().get_mut(length..)
    }

    /// Appends bytes, within the capacity.
    pub fn append(&mut self, tail: &[u8]) {
        self.bytes.extend_from_slice(tail);
    }

    /// Its bytes, which nobody changes any more.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from(self.bytes).slice(self.start..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_little_endian_and_end_with_their_structure() {
        let bytes: Vec<u8> = (0..24).collect();
        let (before, fields) = Fields::<16>::at_end_of(&bytes).unwrap();
        assert_eq!(before, &bytes[..8]);
        assert_eq!((fields.u8::<0>(), fields.u8::<15>()), (8, 23));
        assert_eq!((fields.u16::<1>(), fields.u16::<14>()), (0x0a09, 0x1716));
        assert_eq!(fields.u32::<12>(), 0x1716_1514);
        assert_eq!(fields.u64::<8>(), 0x1716_1514_1312_1110);
        assert_eq!((fields.uint::<2, 3>(), fields.uint::<11, 5>()), (0x0c_0b0a, 0x17_1615_1413));
        assert_eq!(fields.array::<4, 12>(), bytes[12..]);
        assert!(Fields::<16>::at_end_of(&bytes[..15]).is_none());
    }

    #[test]
    fn the_checksum_is_crc32c() {
        // Check value of CRC-32C (iSCSI, RFC 3720) for the nine ASCII digits.
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum_append(checksum(b"1234"), b"56789"), 0xe306_9283);
    }

    #[test]
    fn both_ways_to_a_checksum_give_the_same_in_one_piece_and_in_several() {
        let bytes: Vec<u8> = (0..1_000).map(|at| crate::hash::mix64(at).to_le_bytes()[0]).collect();
        for length in [0, 1, 7, 8, 63, 300, 1_000] {
            let whole = checksum(&bytes[..length]);
            assert_eq!(plain_checksum_append(0, &bytes[..length]), whole, "{length} bytes");
            for cut in [0, 1, length / 3, length] {
                let (front, end) = bytes[..length].split_at(cut.min(length));
                assert_eq!(plain_checksum_append(checksum(front), end), whole, "{cut} of {length} bytes");
                assert_eq!(checksum_append(plain_checksum_append(0, front), end), whole, "{cut} of {length} bytes");
            }
        }
    }

    #[test]
    fn memory_that_does_not_exist_is_none() {
        assert!(AlignedBuffer::zeroed(u64::MAX).is_none());
        assert!(AlignedBuffer::zeroed(1 << 62).is_none());
    }

    #[test]
    fn a_buffer_that_outgrows_its_capacity_keeps_its_bytes_and_its_alignment() {
        let mut buffer = AlignedBuffer::empty(10).unwrap();
        for length in [5_u8, 100, 200] {
            buffer.append_zeroed(length.into()).unwrap().fill(length);
            assert_eq!(buffer.as_slice().as_ptr().align_offset(LINE_BYTES), 0);
        }
        let expected: Vec<u8> = [5_u8, 100, 200].into_iter().flat_map(|length| vec![length; length.into()]).collect();
        assert_eq!(buffer.as_slice(), expected);
        assert!(buffer.append_zeroed(u64::MAX).is_none());
    }

    #[test]
    fn aligned_buffers_stay_aligned_when_a_tail_is_appended() {
        for length in [0, 1, 63, 64, 1000] {
            let mut buffer = AlignedBuffer::zeroed(length).unwrap();
            buffer.append(&[7; 10]);
            let bytes = buffer.freeze();
            assert_eq!(bytes.len() as u64, length + 10);
            assert_eq!(bytes.as_ptr().align_offset(LINE_BYTES), 0);
        }
    }
}
