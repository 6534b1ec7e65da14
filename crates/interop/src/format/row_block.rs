//! Row blocks: sorted keys, each of which shares bytes with the one before. LevelDB's format, with RocksDB's additions.

use crate::format::cursor::Cursor;
use crate::format::handle::BlockHandle;

/// Flags in the last word of a block, above the number of restart points (`table/block_based/data_block_footer.cc`).
const HASH_INDEX: u32 = 1 << 31;
/// Keys are evenly spread, a hint for searching.
const UNIFORM_KEYS: u32 = 1 << 29;
/// Values lie behind all keys.
const SEPARATED_VALUES: u32 = 1 << 28;
const RESTART_COUNT: u32 = SEPARATED_VALUES - 1;

/// The encoding of a block's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Each value follows its length.
    Sized,
    /// Handles of adjacent blocks, without a length. A handle is stored in full if its key shares nothing with the one
    /// before, otherwise as the difference of the sizes (`IndexBlockIter::DecodeCurrentValue`).
    DeltaHandles {
        /// The first key of the data block follows the handle.
        with_first_key: bool,
    },
}

/// One block with a checked frame.
#[derive(Clone, Debug)]
pub(crate) struct RowBlock<'a> {
    /// The entries, without values if these are separate.
    entries: &'a [u8],
    /// Offsets of the keys that are stored in full, four bytes each.
    restarts: &'a [u8],
    separate_values: Option<&'a [u8]>,
}

impl<'a> RowBlock<'a> {
    /// Parses the uncompressed contents of a block other than a data block. Its values must lie behind their keys:
    /// RocksDB writes all such blocks this way (`BlockBuilder` of `block_based_table_builder.cc`, `index_builder.cc`,
    /// `meta_blocks.cc`), and values then have no more bytes than the block.
    pub(crate) fn parse(contents: &'a [u8]) -> Result<Self, String> {
        let block = Self::parse_data(contents)?;
        if block.separate_values.is_some() {
            return Err("expected values behind their keys, got separate ones, which only data blocks have".into());
        }
        Ok(block)
    }

    /// Parses the uncompressed contents of a data block, whose values may be separate.
    pub(crate) fn parse_data(contents: &'a [u8]) -> Result<Self, String> {
        let (front, last) = contents
            .split_last_chunk()
            .ok_or_else(|| format!("expected four bytes or more, got {}", contents.len()))?;
        let word = u32::from_le_bytes(*last);
        let count = word & RESTART_COUNT;
        if word & !(RESTART_COUNT | HASH_INDEX | UNIFORM_KEYS | SEPARATED_VALUES) != 0 {
            return Err(format!("expected no other flags than those of bits 28, 29 and 31, got {word:#010x}"));
        }
        // From the end inwards: the offset of the values, the hash index, the restart points.
        let (front, values_offset) = if word & SEPARATED_VALUES == 0 { (front, None) } else { split_u32(front)? };
        let front = if word & HASH_INDEX == 0 { front } else { without_hash_index(front)? };
        let start = (count as usize)
            .checked_mul(4)
            .and_then(|bytes| front.len().checked_sub(bytes))
            .ok_or_else(|| format!("expected {count} restart points, got {} bytes", front.len()))?;
        let (entries, restarts) = front.split_at(start);
        let Some(values_offset) = values_offset else {
            return Ok(Self { entries, restarts, separate_values: None });
        };
        let (keys, values) = entries
            .split_at_checked(values_offset as usize)
            .ok_or_else(|| format!("expected values within {} bytes, got offset {values_offset}", entries.len()))?;
        Ok(Self { entries: keys, restarts, separate_values: Some(values) })
    }

    /// Returns the entries in stored order.
    pub(crate) fn entries(self, values: Values) -> Entries<'a> {
        let budget = KeyBudget::of_block(self.entries.len() + self.restarts.len());
        Entries { block: self, steps: Steps::new(values), budget }
    }

    fn is_restart(&self, offset: usize) -> bool {
        let restart = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        self.restarts.as_chunks().0.binary_search_by_key(&offset, restart).is_ok()
    }
}

fn split_u32(bytes: &[u8]) -> Result<(&[u8], Option<u32>), String> {
    let (front, last) = bytes.split_last_chunk().ok_or("expected the offset of the values")?;
    Ok((front, Some(u32::from_le_bytes(*last))))
}

/// Cuts off the hash index: one byte per bucket, then their number in two
/// (`table/block_based/data_block_hash_index.h`).
fn without_hash_index(bytes: &[u8]) -> Result<&[u8], String> {
    let (front, last) = bytes.split_last_chunk().ok_or("expected the number of buckets of a hash index")?;
    let buckets = usize::from(u16::from_le_bytes(*last));
    front
        .split_at_checked(front.len().wrapping_sub(buckets))
        .map(|(front, _)| front)
        .ok_or_else(|| format!("expected {buckets} buckets"))
}

/// The value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    Handle(BlockHandle),
}

impl Value<'_> {
    /// Returns the handle at the beginning of the value. In an index, a key may follow it.
    pub(crate) fn handle(self) -> Option<BlockHandle> {
        match self {
            Self::Bytes(bytes) => BlockHandle::decode(&mut Cursor::new(bytes)),
            Self::Handle(handle) => Some(handle),
        }
    }
}

/// An iterator over the entries of a block, which fails if the keys are too long in all to be kept.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    block: RowBlock<'a>,
    steps: Steps,
    budget: KeyBudget,
}

impl<'a> Entries<'a> {
    /// Returns the next entry, or `None` behind the last one. Do not call this again after an error.
    pub(crate) fn next(&mut self) -> Option<Result<(&[u8], Value<'a>), String>> {
        let value = self.steps.next(&self.block)?;
        let spent = self.budget.spend(self.steps.key().len());
        Some(value.and_then(|value| spent.map(|()| (self.steps.key(), value))))
    }
}

/// A position in a block, without its bytes, so that the owner of the bytes can store both. All keys share one buffer.
#[derive(Debug)]
pub(crate) struct Steps {
    values: Values,
    /// The offset of the next entry.
    offset: usize,
    /// The offset of the next value, if values are separate.
    next_value: usize,
    key: Vec<u8>,
    handle: BlockHandle,
}

impl Steps {
    pub(crate) const fn new(values: Values) -> Self {
        Self { values, offset: 0, next_value: 0, key: Vec::new(), handle: BlockHandle { offset: 0, size: 0 } }
    }

    /// Returns the key of the entry that [`Steps::next`] read last.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the value of the next entry. Pass the same `block` in every call.
    pub(crate) fn next<'a>(&mut self, block: &RowBlock<'a>) -> Option<Result<Value<'a>, String>> {
        let rest = block.entries.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let mut cursor = Cursor::new(rest);
        let value = self.step(block, &mut cursor);
        let problem = || format!("expected an entry at {} of {}", self.offset, block.entries.len());
        let value = value.ok_or_else(problem);
        self.offset = block.entries.len() - cursor.rest().len();
        Some(value)
    }

    fn step<'a>(&mut self, block: &RowBlock<'a>, cursor: &mut Cursor<'a>) -> Option<Value<'a>> {
        let shared = cursor.varint32()? as usize;
        let unshared = cursor.varint32()? as usize;
        let value_bytes = match self.values {
            Values::Sized => cursor.varint32()? as usize,
            Values::DeltaHandles { .. } => 0,
        };
        if block.separate_values.is_some() && block.is_restart(self.offset) {
            let offset = cursor.varint32()? as usize;
            // Values must not overlap: a forged block could otherwise expand beyond its size.
            if offset < self.next_value {
                return None;
            }
            self.next_value = offset;
        }
        let suffix = cursor.take(unshared)?;
        // `truncate` would accept this silently and make another key.
        if shared > self.key.len() {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let Some(values) = block.separate_values else {
            return self.value(cursor, value_bytes, shared != 0);
        };
        let mut behind = Cursor::new(values.get(self.next_value..)?);
        let value = self.value(&mut behind, value_bytes, shared != 0);
        self.next_value = values.len() - behind.rest().len();
        value
    }

    fn value<'a>(&mut self, cursor: &mut Cursor<'a>, bytes: usize, shares: bool) -> Option<Value<'a>> {
        let Values::DeltaHandles { with_first_key } = self.values else {
            return cursor.take(bytes).map(Value::Bytes);
        };
        // The key's shared bytes decide, not the restart points: RocksDB's reader does the same.
        self.handle =
            if shares { self.handle.following(cursor.signed_varint64()?)? } else { BlockHandle::decode(cursor)? };
        if with_first_key {
            cursor.length_prefixed()?;
        }
        Some(Value::Handle(self.handle))
    }
}

/// Limits the keys kept of one block. Keys that share bytes with the one before are short in a block and long in
/// memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyBudget {
    bytes: usize,
    limit: usize,
}

impl KeyBudget {
    /// Allows 64 times the block's bytes, and at least a mebibyte. The engines store every sixteenth key in full, so
    /// their own blocks stay far below.
    pub(crate) const fn of_block(block_bytes: usize) -> Self {
        let limit = block_bytes.saturating_mul(64);
        // A small block may have long keys: the limit must not refuse what an engine writes.
        let limit = if limit < 1 << 20 { 1 << 20 } else { limit };
        Self { bytes: 0, limit }
    }

    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit {
            Err(format!("expected keys of at most {} bytes in all", self.limit))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RowBlock, Value, Values};
    use crate::format::handle::BlockHandle;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn all(block: &[u8], values: Values) -> Result<Pairs, String> {
        let mut entries = RowBlock::parse_data(block)?.entries(values);
        let mut read = Vec::new();
        while let Some(entry) = entries.next() {
            let (key, value) = entry?;
            let value = match value {
                Value::Bytes(bytes) => bytes.to_vec(),
                Value::Handle(BlockHandle { offset, size }) => format!("{offset}+{size}").into_bytes(),
            };
            read.push((key.to_vec(), value));
        }
        Ok(read)
    }

    fn pairs(expected: &[(&str, &str)]) -> Pairs {
        expected.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    const ENTRIES: &[u8] = &[0, 3, 1, b'a', b'b', b'c', b'1', 2, 1, 2, b'd', b'2', b'2'];

    #[test]
    fn keys_share_what_the_key_before_has() {
        let block = [ENTRIES, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
        assert_eq!(all(&block, Values::Sized), Ok(pairs(&[("abc", "1"), ("abd", "22")])));
    }

    #[test]
    fn a_hash_index_and_uniform_keys_change_nothing() {
        let block = [ENTRIES, &[0, 0, 0, 0], &[255, 0, 255, 3, 0], &[1, 0, 0, 0xa0]].concat();
        assert_eq!(all(&block, Values::Sized), Ok(pairs(&[("abc", "1"), ("abd", "22")])));
    }

    #[test]
    fn values_may_lie_behind_all_keys() {
        let keys: &[u8] = &[0, 3, 1, 0, b'a', b'b', b'c', 2, 1, 2, b'd', 0, 1, 1, 3, b'x'];
        let block = [keys, b"1223", &[0, 0, 0, 0, 11, 0, 0, 0], &[16, 0, 0, 0], &[2, 0, 0, 0x10]].concat();
        assert_eq!(all(&block, Values::Sized), Ok(pairs(&[("abc", "1"), ("abd", "22"), ("x", "3")])));
        assert!(RowBlock::parse(&block).is_err(), "not a data block");
    }

    #[test]
    fn separate_values_do_not_overlap() {
        let block = |second: u8| {
            let keys: &[u8] = &[0, 1, 2, 0, b'a', 0, 1, 2, second, b'b'];
            [keys, b"1234", &[0, 0, 0, 0, 5, 0, 0, 0], &[10, 0, 0, 0], &[2, 0, 0, 0x10]].concat()
        };
        assert_eq!(all(&block(2), Values::Sized), Ok(pairs(&[("a", "12"), ("b", "34")])));
        for second in [0, 1, 3] {
            assert!(all(&block(second), Values::Sized).is_err(), "{second}");
        }
    }

    #[test]
    fn a_handle_is_a_difference_where_the_key_shares_bytes() {
        // The last key shares nothing although it is no restart point, so its handle is stored in full.
        let entries: &[u8] = &[0, 2, b'a', b'b', 100, 20, 1, 1, b'c', 9, 0, 1, b'x', 200, 1, 7];
        let block = [entries, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
        let expected = pairs(&[("ab", "100+20"), ("ac", "125+15"), ("x", "200+7")]);
        assert_eq!(all(&block, Values::DeltaHandles { with_first_key: false }), Ok(expected));
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        for block in [&[][..], &[1, 0, 0, 0], &[1, 0, 0, 0x10], &[9, 9, 0, 0, 0, 0x80], &[0, 0, 0, 0x40]] {
            assert!(RowBlock::parse_data(block).is_err(), "{block:?}");
        }
        for entry in [&[1, 1, 0, b'a'][..], &[0, 9, 0, b'a'], &[0, 1, 9, b'a'], &[0], &[0xff; 12]] {
            let block = [entry, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
            assert!(all(&block, Values::Sized).is_err(), "{entry:?}");
        }
    }

    #[test]
    fn a_block_of_range_tombstones_alone_has_no_keys() {
        assert_eq!(all(&[0, 0, 0, 0, 1, 0, 0, 0], Values::Sized), Ok(Vec::new()));
        assert_eq!(all(&[0, 0, 0, 0], Values::Sized), Ok(Vec::new()));
    }
}
