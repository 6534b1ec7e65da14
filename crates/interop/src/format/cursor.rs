//! Reads integers in the encodings of LevelDB's `util/coding.h`.

/// A reader from the front of some bytes. A read returns `None` if the bytes end too early or do not fit the type; stop
/// reading after that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the unread bytes.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*first))
    }

    /// Reads a varint: seven bits per byte, lowest first; the eighth means that more follow. Refuses bits above the
    /// 64th.
    pub(crate) fn varint64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn varint32(&mut self) -> Option<u32> {
        self.varint64()?.try_into().ok()
    }

    /// Reads a varint whose lowest bit is the sign (`PutVarsignedint64` in RocksDB's `util/coding.h`).
    pub(crate) fn signed_varint64(&mut self) -> Option<i64> {
        let bits = self.varint64()?;
        let magnitude = (bits >> 1).cast_signed();
        Some(if bits & 1 == 0 { magnitude } else { !magnitude })
    }

    /// Reads a varint length and that many bytes.
    pub(crate) fn length_prefixed(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn varints_are_read_as_leveldb_writes_them() {
        let mut cursor =
            Cursor::new(&[0x00, 0x7f, 0x80, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!([cursor.varint64(), cursor.varint64(), cursor.varint64()], [Some(0), Some(127), Some(128)]);
        assert_eq!(cursor.varint64(), Some(u64::MAX));
        assert_eq!(cursor.varint64(), None);
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_none() {
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).varint64(), None);
        assert_eq!(Cursor::new(&[0xff; 11]).varint64(), None);
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None);
    }

    #[test]
    fn signs_are_in_the_lowest_bit() {
        let mut cursor = Cursor::new(&[0, 1, 2, 3]);
        assert_eq!([cursor.signed_varint64(), cursor.signed_varint64()], [Some(0), Some(-1)]);
        assert_eq!([cursor.signed_varint64(), cursor.signed_varint64()], [Some(1), Some(-2)]);
    }

    #[test]
    fn a_length_that_lies_is_none() {
        assert_eq!(Cursor::new(&[3, b'a', b'b']).length_prefixed(), None);
        assert_eq!(Cursor::new(&[2, b'a', b'b']).length_prefixed(), Some(&b"ab"[..]));
    }
}
