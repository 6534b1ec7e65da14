//! From cells to bits of the payload.

/// How fingerprints lie in the payload.
pub(crate) trait Width: Copy {
    /// What remains of a key's 32 bits.
    fn fingerprint(self, bits: u32) -> u32;
    /// The bits in a cell, and above them perhaps some of its neighbours; `None` beyond the payload.
    fn read(self, payload: &[u8], cell: usize) -> Option<u32>;
    /// Writes a cell whose bits are 0.
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32);
    /// Where the cell begins.
    fn byte(self, cell: usize) -> usize;
    /// Whether all bits of a cell are 0 in what was read.
    fn is_zero(self, sum: u32) -> bool;
}

/// Defines a width of whole bytes.
macro_rules! whole_bytes {
    ($name:ident, $number:ty) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl Width for $name {
            #[inline]
            fn fingerprint(self, bits: u32) -> u32 {
                bits >> (32 - <$number>::BITS)
            }

            #[inline]
            fn read(self, payload: &[u8], cell: usize) -> Option<u32> {
                payload.as_chunks().0.get(cell).map(|&bytes| <$number>::from_le_bytes(bytes).into())
            }

            #[inline]
            #[expect(clippy::allow_attributes, reason = "u32 is not truncated")]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                reason = "fingerprints have as many bits"
            )]
            fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32) {
                if let Some(bytes) = payload.as_chunks_mut().0.get_mut(cell) {
                    *bytes = (fingerprint as $number).to_le_bytes();
                }
            }

            #[inline]
            fn byte(self, cell: usize) -> usize {
                // No overflow where cells are in memory; counts that lie lead elsewhere, for a hint.
                cell.wrapping_mul(size_of::<$number>())
            }

            #[inline]
            fn is_zero(self, sum: u32) -> bool {
                sum == 0
            }
        }
    };
}

whole_bytes!(Bits8, u8);
whole_bytes!(Bits16, u16);
whole_bytes!(Bits32, u32);

/// Any number of bits up to 16: cell `i` begins at bit `i * bits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    pub(crate) bits: u8,
}

impl Packed {
    /// A payload of 512 MiB has more bits than a 32-bit `usize` can count.
    #[inline]
    fn first_bit(self, cell: usize) -> u64 {
        cell as u64 * u64::from(self.bits)
    }
}

impl Width for Packed {
    #[inline]
    fn fingerprint(self, bits: u32) -> u32 {
        bits >> (32 - self.bits)
    }

    #[inline]
    fn read(self, payload: &[u8], cell: usize) -> Option<u32> {
        let bytes = payload.get(self.byte(cell)..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) >> (self.first_bit(cell) % 8))
    }

    #[inline]
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32) {
        if let Some(bytes) = payload.get_mut(self.byte(cell)..).and_then(<[u8]>::first_chunk_mut) {
            let bits = fingerprint & ((1 << self.bits) - 1);
            *bytes = (u32::from_le_bytes(*bytes) | bits << (self.first_bit(cell) % 8)).to_le_bytes();
        }
    }

    #[inline]
    fn byte(self, cell: usize) -> usize {
        (self.first_bit(cell) / 8) as usize
    }

    #[inline]
    fn is_zero(self, sum: u32) -> bool {
        sum << (32 - self.bits) == 0
    }
}
