//! Windows: the first bytes of the rest of a key as a number in key order, and the cells that windows are divided into.

use byteorder::{BigEndian, ByteOrder};

use sstfilter::internal::key_head::head;

/// Bytes in a window.
pub(super) const WINDOW_BYTES: usize = 16;

/// Bits in a window.
pub(super) const WINDOW_BITS: u32 = 128;

/// Returns the first 16 bytes as a big-endian number, padded with zeros.
///
/// `a <= b` implies `window(a) <= window(b)`. The converse fails for bytes that differ in trailing zeros or after the
/// 16th byte.
#[inline(always)]
pub(super) fn window(rest: &[u8]) -> u128 {
    if let Some(&whole) = rest.first_chunk::<WINDOW_BYTES>() {
        return BigEndian::read_u128(&whole);
    }
    let high = u128::from(head(rest)) << 64;
    match rest.last_chunk::<8>() {
        // 8 to 15 bytes: the last eight overlap the first.
        Some(last) => high | u128::from(BigEndian::read_u64(last)) << (8 * (16 - rest.len() as u32)),
        None => high,
    }
}

/// The division of windows into cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    /// Bits of a window that a cell drops, below 128.
    pub(super) shift: u32,
    /// Length of the keys after the prefix that the window skips, if all keys have one length.
    pub(super) rest_bytes: Option<usize>,
}

impl Cells {
    /// Returns the lowest cell of keys above `rest`, or of `rest` itself unless it is exclusive. `None` if no key can
    /// be above.
    ///
    /// If all keys have one length, an exclusive end has that length too, and the next possible key is one higher.
    /// Otherwise, the end's own cell may contain keys above the end.
    #[inline(always)]
    pub(super) fn lower(self, rest: &[u8], is_exclusive: bool) -> Option<u128> {
        let start = window(rest);
        match self.rest_bytes {
            // All keys of this frame equal the prefix.
            Some(0) if is_exclusive => None,
            Some(bytes @ 1..=WINDOW_BYTES) if is_exclusive => {
                Some(start.checked_add(1 << (WINDOW_BITS - 8 * bytes as u32))? >> self.shift)
            }
            _ => Some(start >> self.shift),
        }
    }

    /// Returns the highest cell of keys below `rest`, or of `rest` itself unless it is exclusive. `None` if all keys in
    /// this frame are above.
    ///
    /// An exclusive end's own cell is excluded only if no key below the end can share the cell. First, the bits that
    /// the cell drops must be zero, and no bytes may follow the window: otherwise, keys between the cell's start and
    /// the end share it. Second, unless all keys have one length, the end must not end in a zero byte: the end without
    /// its trailing zeros is a key below it with the same window.
    #[inline(always)]
    pub(super) fn upper(self, rest: &[u8], is_exclusive: bool) -> Option<u128> {
        let end = window(rest);
        let cell = end >> self.shift;
        if !is_exclusive {
            return Some(cell);
        }
        let starts_cell = cell << self.shift == end && rest.len() <= WINDOW_BYTES;
        let is_first_of_cell = starts_cell && (self.rest_bytes.is_some() || rest.last() != Some(&0));
        if is_first_of_cell { cell.checked_sub(1) } else { Some(cell) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::vectors;

    #[test]
    fn windows_and_slots_of_ends_are_those_of_the_vectors() {
        for row in vectors("ranges").rows("slots") {
            let x = row.bytes("x");
            let cells =
                Cells { shift: row.number("s") as u32, rest_bytes: row["r"].as_number().map(|bytes| bytes as usize) };
            assert_eq!(format!("{:032x}", window(&x)), row.text("window"), "{row}");
            for (name, slot) in [
                ("lower_inclusive", cells.lower(&x, false)),
                ("lower_exclusive", cells.lower(&x, true)),
                ("upper_exclusive", cells.upper(&x, true)),
            ] {
                assert_eq!(slot.map(|slot| format!("{slot:x}")).as_deref(), row.text_or_null(name), "{name} of {row}");
            }
        }
    }

    #[test]
    fn a_window_is_the_first_sixteen_bytes_padded_with_zeros() {
        let bytes: Vec<u8> = (1..=20).collect();
        for length in 0..=20 {
            let mut padded = [0; 16];
            padded[..length.min(16)].copy_from_slice(&bytes[..length.min(16)]);
            assert_eq!(window(&bytes[..length]), BigEndian::read_u128(&padded), "{length} bytes");
        }
    }
}
