//! Bytes: little-endian integers and varints of blocks and tables, checksums, and the aligned buffers that hold
//! payloads.
//!
//! A read past the end returns `None` or does not compile; it never panics. Vector kernels and the cells of a payload
//! do not use this module: they read arrays with `from_le_bytes`.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Bytes of a filter's line, and the alignment at which it is fastest: one cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// The little-endian fields of a structure of fixed size. Their offsets are constants, and a field outside the
/// structure does not compile.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a, const BYTES: usize>(&'a [u8; BYTES]);

impl<'a, const BYTES: usize> Fields<'a, BYTES> {
    /// Returns the fields of a structure that fills `bytes`.
    #[must_use]
    pub const fn of(bytes: &'a [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// Splits off the structure that ends `bytes`, and returns the bytes before it with its fields. `None` if there are
    /// too few bytes.
    #[must_use]
    pub fn at_end_of(bytes: &'a [u8]) -> Option<(&'a [u8], Self)> {
        bytes.split_last_chunk().map(|(before, bytes)| (before, Self(bytes)))
    }

    /// Returns the `COUNT` bytes from offset `AT` on.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "the compiler evaluates the assertion")]
    pub fn array<const AT: usize, const COUNT: usize>(self) -> [u8; COUNT] {
        const { assert!(AT + COUNT <= BYTES, "a field lies inside its structure") };
        core::array::from_fn(|position| self.0[AT + position])
    }

    /// Returns the byte at offset `AT`.
    #[must_use]
    pub fn u8<const AT: usize>(self) -> u8 {
        u8::from_le_bytes(self.array::<AT, 1>())
    }

    /// Returns the 16-bit number at offset `AT`.
    #[must_use]
    pub fn u16<const AT: usize>(self) -> u16 {
        u16::from_le_bytes(self.array::<AT, 2>())
    }

    /// Returns the 32-bit number at offset `AT`.
    #[must_use]
    pub fn u32<const AT: usize>(self) -> u32 {
        u32::from_le_bytes(self.array::<AT, 4>())
    }

    /// Returns the 64-bit number at offset `AT`.
    #[must_use]
    pub fn u64<const AT: usize>(self) -> u64 {
        u64::from_le_bytes(self.array::<AT, 8>())
    }

    /// Returns the number of `COUNT` bytes, at most 8, at offset `AT`.
    #[must_use]
    pub fn uint<const AT: usize, const COUNT: usize>(self) -> u64 {
        const { assert!(COUNT <= 8, "a number has at most 64 bits") };
        self.array::<AT, COUNT>().iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

pub mod varint {
    //! LEB128 numbers: seven bits a byte, low bits first, the high bit set on all bytes but the last.

    use alloc::vec::Vec;

    /// Appends a number.
    #[inline]
    pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push((value & 0x7f) as u8);
    }

    /// Splits the number off the front of `bytes`. `None` if it is truncated or exceeds 64 bits.
    #[must_use]
    #[inline]
    pub fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
        let mut value = 0_u64;
        for (position, &byte) in bytes.iter().take(10).enumerate() {
            let low = u64::from(byte & 0x7f);
            // The tenth byte holds the 64th bit alone.
            if position == 9 && low > 1 {
                return None;
            }
            value |= low << (7 * position);
            if byte & 0x80 == 0 {
                return Some((value, bytes.get(position + 1..)?));
            }
        }
        None
    }
}

/// Bytes of a checksum.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// Returns the CRC32C (Castagnoli) of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    checksum_append(0, bytes)
}

/// Returns the checksum of the bytes behind `checksum`, continued over more bytes.
#[cfg(feature = "std")]
pub(crate) use crc32c::crc32c_append as checksum_append;
#[cfg(not(feature = "std"))]
pub(crate) use plain_checksum_append as checksum_append;

/// Computes [`checksum_append`] byte by byte with a table, because the crate with the fast versions needs `std`.
#[cfg(any(test, not(feature = "std")))]
#[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
pub(crate) fn plain_checksum_append(checksum: u32, bytes: &[u8]) -> u32 {
    const fn remainder(number: u32, bits: u32) -> u32 {
        // The constant is the Castagnoli polynomial, bits reversed.
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

/// Bytes that a writable [`AlignedBuffer`] keeps free behind its contents: the largest tail of a filter block, so that
/// sealing a payload never moves it. One constant serves all kinds: a parameter would run through every builder to save
/// some 100 bytes per filter.
pub(crate) const TAIL_CAPACITY: usize = 100;

/// Buffers from this size on begin at varying lines of a page. Smaller ones do not, because a page would be too much
/// memory for them, and allocators already place them at varying offsets.
const STAGGERED_BYTES: usize = 64 << 10;

/// Lines in a page of 4 KiB.
const LINES_OF_PAGE: usize = 64;

/// Returns the number of lines to leave free before the contents of a large buffer, different for 64 consecutive
/// buffers.
///
/// A key has the same line number in all filters of one size. Large buffers that come straight from the system all
/// start at the same offset in a page, so that those lines share one set of the first-level cache, which holds 8 to 12.
/// If 64 filters are probed for a key, their prefetched lines evict each other before they are tested. Staggered
/// buffers take up to a third less time.
fn stagger() -> usize {
    static BUFFERS: AtomicUsize = AtomicUsize::new(0);
    BUFFERS.fetch_add(1, Ordering::Relaxed) % LINES_OF_PAGE
}

/// Zeroed bytes aligned to a cache line, with room to append a trailer unless made by
/// [`without_tail`](Self::without_tail).
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// Allocates `length` zero bytes and room for a tail. `None` when allocation fails.
    pub(crate) fn zeroed(length: u64) -> Option<Self> {
        Self::with_free(length, TAIL_CAPACITY)
    }

    /// Allocates `length` zero bytes without room for a tail. `None` when allocation fails.
    #[must_use]
    pub fn without_tail(length: u64) -> Option<Self> {
        Self::with_free(length, 0)
    }

    fn with_free(length: u64, tail_bytes: usize) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        // The capacity does not depend on the offset in the page, so that every build is charged the same memory.
        let (free_lines, skipped) = if length < STAGGERED_BYTES { (1, 0) } else { (LINES_OF_PAGE, stagger()) };
        // One line more than needed, or a page more, to align and stagger the start.
        let capacity = length.checked_add(tail_bytes + free_lines * LINE_BYTES)?;
        // `vec!` gets zeroed pages from the system at no cost until they are used, but aborts when allocation fails. So
        // the memory is first reserved and freed; the black box keeps the compiler from removing that.
        core::hint::black_box(&mut Vec::<u8>::new()).try_reserve_exact(capacity).ok()?;
        let mut bytes = vec![0; capacity];
        // `align_offset` may fail to compute an offset (under some interpreters). An unaligned buffer is only slower.
        let aligned = Some(bytes.as_ptr().align_offset(LINE_BYTES)).filter(|&at| at < LINE_BYTES).unwrap_or(0);
        let start = aligned + skipped * LINE_BYTES;
        bytes.truncate(start + length);
        Some(Self { bytes, start })
    }

    /// Allocates an empty buffer with capacity for `length` bytes and a tail.
    #[must_use]
    pub fn empty(length: u64) -> Option<Self> {
        let mut buffer = Self::zeroed(length)?;
        buffer.bytes.truncate(buffer.start);
        Some(buffer)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Returns the bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Returns the capacity in bytes, including the room around the contents.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Grows the capacity to `length` bytes and a tail; moves the contents if necessary. `None` when allocation fails.
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

    /// Appends `tail`, within the capacity.
    pub fn append(&mut self, tail: &[u8]) {
        self.bytes.extend_from_slice(tail);
    }

    /// Returns the bytes as an immutable buffer, without copying them.
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
    fn varints_round_trip_and_refuse_what_exceeds_64_bits() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            varint::put_varint(&mut out, value);
            out.push(0xee);
            assert_eq!(varint::take_varint(&out), Some((value, &[0xee][..])));
        }
        assert_eq!(varint::take_varint(&[]), None);
        assert_eq!(varint::take_varint(&[0x80; 20]), None);
        assert_eq!(varint::take_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
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
