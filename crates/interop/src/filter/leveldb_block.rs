//! LevelDB's filter block (`table/filter_block.cc`): one filter per 2 KiB of the file, and an array of their offsets.

use super::{Filter, leveldb_bloom, malformed};
use crate::error::Error;

/// A filter per 2^11 bytes of the file.
const RANGE_BYTES_LOG2: u8 = 11;
/// The trailer behind the offsets: where they begin, and the logarithm of the range.
const TRAILER_BYTES: usize = 5;
/// A shift by more than this is undefined for a file offset; LevelDB does not check it.
const MAX_RANGE_BYTES_LOG2: u8 = 63;

/// A filter block of LevelDB, opened in constant time.
///
/// ```
/// use sstfilter_interop::{LevelDbFilterBlock, LevelDbFilterBlockBuilder};
///
/// let mut builder = LevelDbFilterBlockBuilder::new(10);
/// builder.start_block(0);
/// builder.add_key(b"a");
/// builder.start_block(4_096);
/// builder.add_key(b"b");
/// let block = LevelDbFilterBlock::open(builder.finish())?;
/// assert_eq!(block.filters(), 3);
/// assert!(block.filter_of(0)?.may_contain(b"a"));
/// assert!(!block.filter_of(0)?.may_contain(b"b"));
/// assert!(block.filter_of(4_096)?.may_contain(b"b"));
/// # Ok::<(), sstfilter_interop::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LevelDbFilterBlock<D> {
    bytes: D,
    offsets_start: usize,
    range_bytes_log2: u8,
}

impl<D: AsRef<[u8]>> LevelDbFilterBlock<D> {
    /// Opens a block. A filter's offsets are checked when it is used.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] if the array of offsets is not within the block.
    pub fn open(bytes: D) -> Result<Self, Error> {
        let Some((before, &[a, b, c, d, range_bytes_log2])) = bytes.as_ref().split_last_chunk::<TRAILER_BYTES>() else {
            let got = bytes.as_ref().len();
            return Err(malformed(format!("expected a filter block of at least {TRAILER_BYTES} bytes, got {got}")));
        };
        let start = u32::from_le_bytes([a, b, c, d]);
        // Only the frame is checked here. A table may have thousands of offsets, and a probe needs two.
        let offsets_start = usize::try_from(start).ok().filter(|&start| start <= before.len());
        let Some(offsets_start) = offsets_start.filter(|&start| (before.len() - start).is_multiple_of(4)) else {
            let got = before.len();
            return Err(malformed(format!("expected filter offsets at {start}, got {got} bytes before them")));
        };
        if range_bytes_log2 > MAX_RANGE_BYTES_LOG2 {
            return Err(malformed(format!("expected a filter per at most 2^63 bytes, got 2^{range_bytes_log2}")));
        }
        Ok(Self { bytes, offsets_start, range_bytes_log2 })
    }

    /// Returns the number of filters, including filters of no keys.
    pub fn filters(&self) -> usize {
        self.offsets().len().saturating_sub(1)
    }

    /// Returns how many bytes of the file each filter covers.
    #[must_use]
    pub const fn range_bytes(&self) -> u64 {
        1 << self.range_bytes_log2
    }

    /// Returns the filter of the data block that begins at this offset of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] if the block has no filter for this offset, or its bytes are not within the block, where
    /// LevelDB answers "may be present". Also the errors of [`Filter::leveldb`].
    pub fn filter_of(&self, data_block_offset: u64) -> Result<Filter<&[u8]>, Error> {
        let index = data_block_offset >> self.range_bytes_log2;
        usize::try_from(index).map_or_else(|_| Err(self.no_filter(index)), |index| self.filter(index))
    }

    /// Returns the filter with this number, counted from 0.
    ///
    /// # Errors
    ///
    /// The errors of [`LevelDbFilterBlock::filter_of`].
    pub fn filter(&self, index: usize) -> Result<Filter<&[u8]>, Error> {
        let Some(&[start, end]) = self.offsets().get(index..).and_then(|from| from.first_chunk::<2>()) else {
            return Err(self.no_filter(index as u64));
        };
        let (start, end) = (u32::from_le_bytes(start), u32::from_le_bytes(end));
        let filters = self.bytes.as_ref().get(..self.offsets_start).unwrap_or_default();
        let filter = filters.get(start as usize..end as usize).ok_or_else(|| {
            let within = self.offsets_start;
            malformed(format!("expected filter {index} within {within} bytes, got {start} to {end}"))
        });
        Filter::leveldb(filter?)
    }

    /// Returns the offsets of the filters, then the end of the last one, which is the offset of the array itself.
    fn offsets(&self) -> &[[u8; 4]] {
        let bytes = self.bytes.as_ref();
        let end = bytes.len().saturating_sub(1);
        bytes.get(self.offsets_start..end).map_or(&[], |array| array.as_chunks::<4>().0)
    }

    fn no_filter(&self, index: u64) -> Error {
        malformed(format!("expected filter {index}, got {} filters", self.filters()))
    }
}

/// Builds the same filter block as LevelDB's `FilterBlockBuilder` with its Bloom policy, byte for byte.
///
/// Calls follow `(start_block add_key*)* finish`, data blocks in the order of the file.
#[derive(Clone, Debug)]
pub struct LevelDbFilterBlockBuilder {
    bits_per_key: u32,
    hashes: Vec<u32>,
    filters: Vec<u8>,
    offsets: Vec<u32>,
}

impl LevelDbFilterBlockBuilder {
    /// Returns a builder of filters with `bits_per_key`.
    #[must_use]
    pub const fn new(bits_per_key: u32) -> Self {
        Self { bits_per_key, hashes: Vec::new(), filters: Vec::new(), offsets: Vec::new() }
    }

    /// Starts a data block at this offset of the file. The keys added next are its keys.
    pub fn start_block(&mut self, offset: u64) {
        let index = offset >> RANGE_BYTES_LOG2;
        // A data block longer than 2 KiB skips ranges; LevelDB stores an empty filter for each of them.
        while index > self.offsets.len() as u64 {
            self.end_filter();
        }
    }

    /// Adds a user key of the current data block.
    pub fn add_key(&mut self, key: &[u8]) {
        self.hashes.push(leveldb_bloom::hash(key));
    }

    /// Returns the contents of the block.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if !self.hashes.is_empty() {
            self.end_filter();
        }
        let array_start = self.position();
        let Self { mut filters, offsets, .. } = self;
        for offset in offsets.into_iter().chain([array_start]) {
            filters.extend_from_slice(&offset.to_le_bytes());
        }
        filters.push(RANGE_BYTES_LOG2);
        filters
    }

    /// Builds the filter of the keys added since the last one. A filter of no keys has no bytes.
    fn end_filter(&mut self) {
        self.offsets.push(self.position());
        if !self.hashes.is_empty() {
            leveldb_bloom::append(&self.hashes, self.bits_per_key, &mut self.filters);
            self.hashes.clear();
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "LevelDB's offsets have 32 bits")]
    fn position(&self) -> u32 {
        self.filters.len() as u32
    }
}

#[cfg(test)]
mod tests {
    //! A reader that probes another data block's filter loses keys.

    use super::{LevelDbFilterBlock, LevelDbFilterBlockBuilder, RANGE_BYTES_LOG2};
    use crate::error::Error;
    use crate::filter::FilterKind;
    use crate::filter::leveldb_bloom::tests::key;

    /// Builds a block for forty data blocks, each fifth without keys. Returns their offsets and the block.
    fn build(bits_per_key: u32, step: u64, keys_per_block: u64) -> (Vec<(u64, Vec<u64>)>, Vec<u8>) {
        let mut builder = LevelDbFilterBlockBuilder::new(bits_per_key);
        let (mut offset, mut next_key) = (0, 0);
        let mut blocks = Vec::new();
        for block in 0..40 {
            builder.start_block(offset);
            let keys = if block % 5 == 4 { 0 } else { keys_per_block };
            let keys: Vec<u64> = (next_key..next_key + keys).collect();
            keys.iter().for_each(|&i| builder.add_key(&key(i)));
            next_key += keys.len() as u64;
            blocks.push((offset, keys));
            offset += step + block * 37 % 500;
        }
        builder.start_block(offset);
        (blocks, builder.finish())
    }

    /// The checksums are those of blocks that LevelDB 1.23 built for the same calls.
    #[test]
    fn filter_blocks_are_leveldbs_to_the_byte() {
        for (bits_per_key, checksum) in [(1, 0x5932_840b), (10, 0x3812_acc7), (20, 0xb3f6_ccfd)] {
            let mut built = Vec::new();
            for step in [100, 700, 2_048, 4_096, 9_001] {
                for keys_per_block in [0, 1, 13] {
                    built.extend(build(bits_per_key, step, keys_per_block).1);
                }
            }
            assert_eq!(crc32c::crc32c(&built), checksum, "{bits_per_key} bits per key");
        }
    }

    #[test]
    fn each_data_block_finds_its_keys() {
        for step in [100, 700, 2_048, 4_096, 9_001] {
            let (blocks, mut bytes) = build(10, step, 13);
            // LevelDB's readers take the range from the block. A different range assigns the same filters to other
            // offsets.
            for range_bytes_log2 in [0, 5, 11, 20, 40] {
                *bytes.last_mut().expect("a trailer") = range_bytes_log2;
                let filters = LevelDbFilterBlock::open(bytes.as_slice()).expect("a filter block");
                assert_eq!(filters.range_bytes(), 1 << range_bytes_log2);
                for (offset, keys) in &blocks {
                    let offset = offset >> RANGE_BYTES_LOG2 << range_bytes_log2;
                    for offset in [offset, offset + filters.range_bytes() - 1] {
                        let Ok(filter) = filters.filter_of(offset) else { panic!("no filter at {offset}") };
                        assert!(keys.iter().all(|&i| filter.may_contain(&key(i))), "block at {offset}, step {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_range_without_keys_has_a_filter_of_no_keys() {
        let (_, bytes) = build(10, 9_001, 1);
        let filters = LevelDbFilterBlock::open(bytes).expect("a filter block");
        assert_eq!(filters.filter(1).expect("a filter").kind(), FilterKind::NoKeys);
    }

    #[test]
    fn what_leveldb_answers_may_be_present_for_is_refused() {
        let (_, bytes) = build(10, 2_048, 5);
        let filters = LevelDbFilterBlock::open(bytes.as_slice()).expect("a filter block");
        assert!(matches!(filters.filter(filters.filters()), Err(Error::Malformed { .. })));
        assert!(matches!(filters.filter_of(u64::MAX), Err(Error::Malformed { .. })));
        let end = bytes.len();
        for (at, byte) in [(end - 1, 64), (end - 5, 255), (end - 2, 1)] {
            let mut damaged = bytes.clone();
            damaged[at] ^= byte;
            assert!(matches!(LevelDbFilterBlock::open(damaged), Err(Error::Malformed { .. })), "byte {at}");
        }
    }

    #[test]
    fn an_offset_outside_the_filters_is_refused() {
        let (_, bytes) = build(10, 2_048, 5);
        let array =
            bytes.len() - 1 - 4 * (LevelDbFilterBlock::open(bytes.as_slice()).expect("a filter block").filters() + 1);
        for offset in [u32::MAX, 1 << 20] {
            let mut damaged = bytes.clone();
            damaged[array..array + 4].copy_from_slice(&offset.to_le_bytes());
            let filters = LevelDbFilterBlock::open(damaged).expect("the array is in the block");
            assert!(matches!(filters.filter(0), Err(Error::Malformed { .. })), "offset {offset}");
        }
    }

    #[test]
    fn bytes_without_a_trailer_are_refused() {
        for length in 0..5 {
            assert!(matches!(LevelDbFilterBlock::open(vec![0; length]), Err(Error::Malformed { .. })));
        }
    }
}
