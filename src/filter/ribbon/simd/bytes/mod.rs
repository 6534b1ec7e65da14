//! Vectors of bytes: the basis of the sweep and of back-substitution, with one file per instruction set.
//!
//! The most important operation is [`ByteVector::look_up`], a table look-up of 4 bits in every lane at once.

/// Implements operations of two vectors that are one instruction each.
macro_rules! operations {
    ($features:literal, $($operation:ident: $instruction:ident,)+) => {$(
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $operation(self, other: Self) -> Self {
            Self($instruction(self.0, other.0))
        }
    )+};
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) mod avx2;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
pub(crate) mod neon;

/// A table of sixteen bytes.
pub(crate) type ByteTable = [u8; 16];

/// A vector of bytes, one for each of its lanes.
///
/// # Safety
///
/// All functions must only be called if the CPU has the instructions of the implementing set.
pub(crate) trait ByteVector: Copy {
    const LANES: usize;

    /// Loads the first `LANES` of `bytes`; panics if there are fewer.
    unsafe fn load(bytes: &[u8]) -> Self;
    /// Stores to the first `LANES` of `bytes`; panics if there are fewer.
    unsafe fn store(self, bytes: &mut [u8]);
    /// Loads the table, for [`look_up`](Self::look_up).
    unsafe fn table(table: &ByteTable) -> Self;
    /// Puts one byte into every lane.
    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the caller promises it.
        unsafe { Self::table(&[byte; 16]) }
    }
    /// Returns, in each lane, the byte of this table at the lane's index: below 16, or 128 for a 0.
    unsafe fn look_up(self, indexes: Self) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// Returns the upper half of each byte.
    unsafe fn upper_half(self) -> Self;
    unsafe fn saturating_sub(self, other: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    /// Returns, for each of the four low bits, which lanes have it: lane `i` in bit `i`.
    unsafe fn low_bits(self) -> [u64; 4];
    /// Returns which lanes are not 0.
    unsafe fn non_zero(self) -> u64;
    /// Returns byte `b` of all words as table `b`.
    unsafe fn transpose(words: &[u64; 16]) -> [ByteTable; 8];
    /// Like [`transpose`](Self::transpose), for the first words of all pairs, and for the second ones.
    unsafe fn transpose_pairs(pairs: &[[u64; 2]; 16]) -> [[ByteTable; 8]; 2];
    /// Returns, for each byte of four words, all sixteen sums (exclusive or).
    unsafe fn sums(words: [u64; 4]) -> [ByteTable; 8];
}

/// `N` planes of one byte for each of `LANES` lanes.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Planes<const N: usize, const LANES: usize>(pub(crate) [[u8; LANES]; N]);

impl<const N: usize, const LANES: usize> Default for Planes<N, LANES> {
    fn default() -> Self {
        Self([[0; LANES]; N])
    }
}

impl<const N: usize, const LANES: usize> Planes<N, LANES> {
    /// Sets 16 lanes from `at` on, in as many planes as there are tables.
    #[inline(always)]
    pub(crate) fn set(&mut self, at: usize, tables: &[ByteTable]) {
        for (plane, table) in self.0.iter_mut().zip(tables) {
            plane[at..at + 16].copy_from_slice(table);
        }
    }
}

/// Returns all sums of four bytes. The product with a word of zeros and ones copies a byte to each sum that it is part
/// of.
#[inline(always)]
pub(crate) fn sums_of_bytes(bytes: [u8; 4]) -> ByteTable {
    let [first, second, third, fourth] = bytes.map(u64::from);
    let low = first * 0x0100_0100_0100_0100 ^ second * 0x0101_0000_0101_0000 ^ third * 0x0101_0101_0000_0000;
    let high = low ^ fourth * 0x0101_0101_0101_0101;
    let mut sums = [0; 16];
    let (low_half, high_half) = sums.split_at_mut(8);
    low_half.copy_from_slice(&low.to_le_bytes());
    high_half.copy_from_slice(&high.to_le_bytes());
    sums
}
