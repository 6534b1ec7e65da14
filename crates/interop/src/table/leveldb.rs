//! LevelDB's tables (`doc/table_format.md` of LevelDB).

use sstfilter::RandomAccess;

use crate::error::{Error, Part};
use crate::filter::LevelDbFilterBlock;
use crate::format::footer::{Engine, Footer};
use crate::format::handle::BlockHandle;
use crate::format::properties::Properties;
use crate::format::row_block::{RowBlock, Values};
use crate::hash::HashFunction;
use crate::table::file::TableFile;
use crate::table::keys::check_type;
use crate::table::layout::{DataLocation, FilterLocation, IndexLocation, Layout, NamedBlock, TailBytes};
use crate::table::partitions::{INTERNAL_SUFFIX_BYTES, SeparatedBlocks, Separators};
use crate::table::rules::{KeyRules, Order};

const FILTER: &[u8] = b"filter.";
const BUILTIN_POLICY: &[u8] = b"leveldb.BuiltinBloomFilter2";
/// The name of goleveldb's policy, and of LevelDB's before 1.18: two hashes.
const OLD_POLICY: &[u8] = b"leveldb.BuiltinBloomFilter";

pub(crate) fn layout(footer: &Footer, metaindex: Vec<NamedBlock>) -> Layout {
    let index = footer
        .index
        .map(|handle| IndexLocation { handle, two_levels: false, values: Values::Sized })
        .ok_or(Error::NoFilter);
    let place = |is_known| index.clone().and_then(|index| filter_place(&metaindex, index, is_known));
    let (filter, any_policy) = (place(is_known as fn(&[u8]) -> bool), place(|_| true));
    let unconfirmed = any_policy.ok().filter(|_| filter.is_err());
    let data = index.map(|index| DataLocation {
        index,
        suffix_bytes: INTERNAL_SUFFIX_BYTES,
        max_type: MAX_TYPE,
        has_dictionary: false,
    });
    Layout {
        engine: Engine::LevelDb,
        metaindex,
        properties: Ok(Properties::default()),
        filter,
        unconfirmed,
        // LevelDB's tables have no properties. Their rules are unknown until the caller states a comparator.
        rules: KeyRules::of_table(Engine::LevelDb, &Properties::EMPTY, true, None),
        data,
        has_range_tombstones: false,
    }
}

fn is_known(policy: &[u8]) -> bool {
    [BUILTIN_POLICY, OLD_POLICY].contains(&policy)
}

fn filter_place(
    metaindex: &[NamedBlock],
    index: IndexLocation,
    is_known: fn(&[u8]) -> bool,
) -> Result<FilterLocation, Error> {
    let mut filters = metaindex.iter().filter_map(|block| Some((block.name.strip_prefix(FILTER)?, block.handle)));
    match (filters.next(), filters.next()) {
        (None, _) => Err(Error::NoFilter),
        (Some((policy, handle)), None) if is_known(policy) => {
            let tail = if policy == BUILTIN_POLICY { TailBytes::Unsigned } else { TailBytes::OfEitherSign };
            Ok(FilterLocation::PerDataBlock(handle, index, tail))
        }
        (Some((policy, _)), _) => {
            let what = format!("a filter of the policy \"{}\"", policy.escape_ascii());
            Err(Error::unsupported(Part::Metaindex, what))
        }
    }
}

/// The highest type of an entry: a deletion is 0, a value 1 (`db/dbformat.h`).
const MAX_TYPE: u8 = 1;

/// A database with a million writes per second reaches this number after nine years.
const IMPLAUSIBLE_SEQUENCE_NUMBER: u64 = 1 << 48;
/// The sequence number of a shortened separator (`kMaxSequenceNumber`).
const SHORTENED_SEQUENCE_NUMBER: u64 = (1 << 56) - 1;

/// Refuses an index whose keys have no sequence numbers or are not in bytewise order. A program that uses
/// `leveldb::TableBuilder` directly writes keys without sequence numbers, and its tables do not say so; the type, which
/// would be in the last eight bytes, exposes most of them. A sound index that is not in bytewise order belongs to
/// another comparator.
fn check_separators(contents: &[u8], index: IndexLocation) -> Result<(), Error> {
    let malformed = |problem| Error::malformed(Part::Index, index.handle.offset, problem);
    let mut entries = RowBlock::parse(contents).map_err(malformed)?.entries(index.values);
    let mut last = Vec::new();
    while let Some(entry) = entries.next() {
        let (key, _) = entry.map_err(malformed)?;
        check_type(key, MAX_TYPE, Part::Index)?;
        // `SeparatedBlocks::parse` refuses shorter keys.
        let Some((user_key, suffix)) = key.split_last_chunk::<INTERNAL_SUFFIX_BYTES>() else { continue };
        check_sequence_number(*suffix)?;
        if user_key < last.as_slice() {
            return Err(Error::unsupported(Part::Index, "a comparator whose order is not bytewise"));
        }
        last = user_key.to_vec();
    }
    Ok(())
}

/// Refuses sequence numbers that no database has reached. User-defined keys that end in big-endian integers look like
/// them.
fn check_sequence_number(suffix: [u8; INTERNAL_SUFFIX_BYTES]) -> Result<(), Error> {
    let number = u64::from_le_bytes(suffix) >> 8;
    if number < IMPLAUSIBLE_SEQUENCE_NUMBER || number == SHORTENED_SEQUENCE_NUMBER {
        return Ok(());
    }
    Err(Error::unsupported(Part::Index, format!("a key with the sequence number {number}, or without one,")))
}

/// The filter block, and the index that maps keys to data blocks.
#[derive(Debug)]
pub(crate) struct DataBlockFilters {
    pub(crate) block: LevelDbFilterBlock<Vec<u8>>,
    data_blocks: SeparatedBlocks,
    filter_offset: u64,
    tail: TailBytes,
}

impl DataBlockFilters {
    /// Reads the index and the filter block, in two reads.
    ///
    /// A LevelDB table does not name its comparator. An index that is not in bytewise order has another one and is
    /// refused.
    pub(crate) fn read<R: RandomAccess>(
        file: &TableFile<R>,
        handle: BlockHandle,
        index: IndexLocation,
        tail: TailBytes,
    ) -> Result<Self, Error> {
        let contents = file.decompressed(index.handle, Part::Index)?;
        // Before the index is parsed: its order errors would report damage where the comparator is the reason.
        check_separators(&contents, index)?;
        let separators =
            Separators { order: Order::BYTEWISE, suffix_bytes: INTERNAL_SUFFIX_BYTES, values: index.values };
        let data_blocks = SeparatedBlocks::parse(&contents, separators)
            .map_err(|problem| Error::malformed(Part::Index, index.handle.offset, problem))?;
        let block = file.plain(handle, Part::Filter)?;
        let block = LevelDbFilterBlock::open(block).map_err(|error| error.at(Part::Filter, handle.offset))?;
        Ok(Self { block, data_blocks, filter_offset: handle.offset, tail })
    }

    /// Probes the filter of the key's data block; `hash` is the [`HashFunction::LevelDbBloomHash`] of `key`. Returns
    /// false for a key above the last data block, for which LevelDB reads nothing.
    pub(crate) fn may_contain(&self, key: &[u8], hash: u64) -> Result<bool, Error> {
        let Some(&data_block) = self.data_blocks.block_of(key).and_then(|block| self.data_blocks.handles().get(block))
        else {
            return Ok(false);
        };
        let filter =
            self.block.filter_of(data_block.offset).map_err(|error| error.at(Part::Filter, self.filter_offset))?;
        // Both hashes, where they differ: the writer used one of them.
        let signed = || filter.may_contain_hash(HashFunction::RocksDbBloomHash.hash(key));
        Ok(filter.may_contain_hash(hash) || (self.tail == TailBytes::OfEitherSign && signed()))
    }
}

#[cfg(test)]
mod tests {
    //! User-defined keys, cut as if they ended in a sequence number, lead to another data block and its filter.

    use super::check_sequence_number;

    #[test]
    fn the_end_of_a_key_is_a_sequence_number_that_a_database_may_have() {
        let of = |number: u64| (number << 8 | 1).to_le_bytes();
        for number in [0, 1, 1 << 40, (1 << 48) - 1, (1 << 56) - 1] {
            assert_eq!(check_sequence_number(of(number)), Ok(()), "{number}");
        }
        for own in [[0, 0, 0, 0, 0, 0, 0, 7], [0, 0, 0, 0, 0, 0, 3, 232], [0, 0, 0, 0, 0, 1, 0, 1]] {
            assert!(check_sequence_number(own).is_err(), "{own:?}");
        }
        assert!(check_sequence_number(of(1 << 48)).is_err());
    }
}
