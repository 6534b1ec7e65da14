//! In which order a table's keys are, and what of a key its filter holds.

use core::cmp::Ordering;

use crate::error::{Error, Part};
use crate::format::footer::Engine;
use crate::format::properties::{Properties, name, switch};

/// The order of user keys, which the choice of a partition depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Bytewise,
    ReverseBytewise,
}

/// The comparator of LevelDB, and of RocksDB unless another is set.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// A comparator that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) direction: Direction,
    /// The last bytes of a user key are a timestamp, newer ones first. Filters are built without it.
    pub(crate) timestamp_bytes: usize,
}

impl Order {
    pub(crate) const BYTEWISE: Self = Self { direction: Direction::Bytewise, timestamp_bytes: 0 };

    /// By the name that RocksDB stores (`util/comparator.cc`).
    pub(crate) fn named(comparator: &str) -> Option<Self> {
        let (direction, timestamp_bytes) = match comparator {
            BYTEWISE => (Direction::Bytewise, 0),
            "rocksdb.ReverseBytewiseComparator" => (Direction::ReverseBytewise, 0),
            "leveldb.BytewiseComparator.u64ts" => (Direction::Bytewise, 8),
            "rocksdb.ReverseBytewiseComparator.u64ts" => (Direction::ReverseBytewise, 8),
            _ => return None,
        };
        Some(Self { direction, timestamp_bytes })
    }

    fn of_table(properties: &Properties) -> Result<Self, Error> {
        match properties.comparator() {
            Some(comparator) => Self::named(comparator)
                .ok_or_else(|| unsupported(format!("comparator \"{}\"", comparator.escape_debug()))),
            None => Err(unsupported("a table that does not name its comparator".into())),
        }
    }

    /// Of keys without timestamps.
    pub(crate) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self.direction {
            Direction::Bytewise => left.cmp(right),
            Direction::ReverseBytewise => right.cmp(left),
        }
    }
}

/// Makes a prefix of a key (`util/slice.cc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extractor {
    /// The first bytes; shorter keys have no prefix.
    Fixed(usize),
    /// The first bytes, or the whole of a shorter key.
    Capped(usize),
    /// The whole key.
    Noop,
    /// What stands before the last `@`, or the whole key: Pebble's test keys (`internal/testkeys`).
    BeforeAt,
    /// A key of `CockroachDB` without its version: the last byte is the length of the version with that byte, or 0, and
    /// a byte 0 stands before the version (`cockroachkvs`).
    BeforeVersion,
}

impl Extractor {
    /// What of a key Pebble adds to a filter: `Comparer.Split`, known by the comparer's name alone.
    fn of_comparer(name: &str) -> Option<Self> {
        match name {
            "leveldb.BytewiseComparator" => Some(Self::Noop),
            "pebble.internal.testkeys" => Some(Self::BeforeAt),
            "cockroach_comparator" => Some(Self::BeforeVersion),
            _ => None,
        }
    }

    /// By the name that RocksDB stores: the id since it has ids, and the same text before that.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == "rocksdb.Noop" {
            return Some(Self::Noop);
        }
        let (class, bytes) = name.rsplit_once('.')?;
        // `parse` alone would take a plus sign.
        let bytes = Some(bytes).filter(|bytes| bytes.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
        match class {
            "rocksdb.FixedPrefix" => Some(Self::Fixed(bytes)),
            "rocksdb.CappedPrefix" => Some(Self::Capped(bytes)),
            _ => None,
        }
    }

    /// The prefix of `key`; `None`: it is not in the domain, and nothing of it was added.
    pub(crate) fn prefix(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) => key.get(..bytes),
            Self::Capped(bytes) => Some(key.get(..bytes).unwrap_or(key)),
            Self::Noop => Some(key),
            Self::BeforeAt => key.rsplitn(2, |&byte| byte == b'@').last(),
            Self::BeforeVersion => before_version(key),
        }
    }

    /// The prefix that all keys have which begin with `start`; `None`: there are several (`SameResultWhenAppended`).
    pub(crate) fn common_prefix(self, start: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) | Self::Capped(bytes) => start.get(..bytes),
            // What follows decides where the prefix ends.
            Self::Noop | Self::BeforeAt | Self::BeforeVersion => None,
        }
    }
}

/// What of a key is in the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRules {
    pub(crate) order: Order,
    pub(crate) whole_keys: bool,
    /// `None`: no prefixes were added. An extractor that is not known is the error.
    pub(crate) prefixes: Option<Result<Extractor, Error>>,
    /// The table has no entries, says a part of it whose checksum holds. Only then is a filter without bits the filter
    /// of no keys.
    pub(crate) no_entries: bool,
}

impl KeyRules {
    /// By what the table says, and by the comparator that its database is stated to have: LevelDB's tables do not name
    /// theirs, and Pebble's do not say what their default comparer splits keys into.
    pub(crate) fn of_table(
        engine: Engine,
        properties: &Properties,
        is_checked: bool,
        stated: Option<&str>,
    ) -> Result<Self, Error> {
        match engine {
            Engine::LevelDb => Self::of_leveldb(stated),
            Engine::RocksDb => Self::of_rocksdb(properties, is_checked, stated),
            Engine::Pebble => Self::of_pebble(properties, stated),
        }
    }

    /// In another order than bytewise, a key may be in another data block than the index, read in bytewise order, leads
    /// to.
    fn of_leveldb(stated: Option<&str>) -> Result<Self, Error> {
        match stated {
            Some(BYTEWISE) => Ok(Self { order: Order::BYTEWISE, whole_keys: true, prefixes: None, no_entries: false }),
            Some(other) => Err(unsupported(format!("comparator \"{}\"", other.escape_debug()))),
            None => Err(unsupported("a table that does not name its comparator, as none of LevelDB does,".into())),
        }
    }

    fn of_rocksdb(properties: &Properties, is_checked: bool, stated: Option<&str>) -> Result<Self, Error> {
        let prefixes = if switch(properties, name::PREFIX_FILTERING)? { extractor(properties) } else { None };
        Ok(Self {
            order: Order::of_table(properties)?,
            whole_keys: holds_whole_keys(properties, stated)?,
            prefixes,
            no_entries: is_checked && properties.entries() == Some(0),
        })
    }

    /// By the name of the table's comparer.
    fn of_pebble(properties: &Properties, stated: Option<&str>) -> Result<Self, Error> {
        let Some(comparer) = properties.comparator() else {
            return Err(unsupported("a table that does not name its comparer".into()));
        };
        let unknown = |what: &str| unsupported(format!("comparer \"{}\"{what}", comparer.escape_debug()));
        let split = Extractor::of_comparer(comparer).ok_or_else(|| unknown(""))?;
        let whole_keys = split == Extractor::Noop;
        if whole_keys && !holds_whole_keys(properties, stated)? {
            return Err(unknown(" with a filter of prefixes"));
        }
        let prefixes = (!whole_keys).then_some(Ok(split));
        Ok(Self { order: Order::BYTEWISE, whole_keys, prefixes, no_entries: false })
    }

    /// Whether `next` may follow `last` in a table: with what is known of the order. Pebble's comparers order equal
    /// prefixes by rules of their own.
    pub(crate) fn may_follow(&self, last: &[u8], next: &[u8]) -> bool {
        match &self.prefixes {
            Some(Ok(split @ (Extractor::BeforeAt | Extractor::BeforeVersion))) => {
                split.prefix(last) <= split.prefix(next) && last != next
            }
            _ => self.order.compare(last, next).is_lt(),
        }
    }

    /// What of `key` was added if the key was. `Ok(None)`: nothing.
    pub(crate) fn added_of<'a>(&self, key: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        if self.whole_keys {
            return Ok(Some(key));
        }
        match &self.prefixes {
            Some(extractor) => extractor.as_ref().map(|extractor| extractor.prefix(key)).map_err(Clone::clone),
            None => Err(unsupported("a filter of neither whole keys nor prefixes".into())),
        }
    }

    /// What was added of each key that begins with `start`. `Ok(None)`: that depends on the key.
    pub(crate) fn added_of_all<'a>(&self, start: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        match &self.prefixes {
            Some(extractor) => extractor.as_ref().map(|extractor| extractor.common_prefix(start)).map_err(Clone::clone),
            None => Err(unsupported("a prefix, in a filter of whole keys alone,".into())),
        }
    }
}

/// `None`: not a key that `CockroachDB` makes, and so one whose split is not defined.
fn before_version(key: &[u8]) -> Option<&[u8]> {
    let version_bytes = usize::from(*key.last()?);
    let (prefix, _version) = key.split_at_checked(key.len().checked_sub(version_bytes)?)?;
    (version_bytes != 1 && prefix.last() == Some(&0)).then_some(prefix)
}

/// Every RocksDB that writes such filters says whether whole keys are in them. Pebble said so until its version 2;
/// since then a comparer that splits keys, and kept the default one's name, cannot be told from one that does not.
fn holds_whole_keys(properties: &Properties, stated: Option<&str>) -> Result<bool, Error> {
    let is_stated = stated == Some(BYTEWISE) && properties.comparator() == stated;
    if properties.raw(name::WHOLE_KEY_FILTERING).is_some() || is_stated {
        return switch(properties, name::WHOLE_KEY_FILTERING);
    }
    Err(unsupported("a table that does not say whether its filter holds whole keys".into()))
}

fn extractor(properties: &Properties) -> Option<Result<Extractor, Error>> {
    let stored = properties.raw(name::PREFIX_EXTRACTOR).filter(|name| !name.is_empty() && *name != b"nullptr")?;
    let known = str::from_utf8(stored).ok().and_then(Extractor::named);
    Some(known.ok_or_else(|| unsupported(format!("prefix extractor \"{}\"", stored.escape_ascii()))))
}

fn unsupported(what: String) -> Error {
    Error::Unsupported { part: Part::Properties, what }
}

#[cfg(test)]
mod tests {
    use super::{Extractor, Order};

    #[test]
    fn extractors_are_known_by_the_names_that_rocksdb_stores() {
        assert_eq!(Extractor::named("rocksdb.FixedPrefix.3"), Some(Extractor::Fixed(3)));
        assert_eq!(Extractor::named("rocksdb.CappedPrefix.8"), Some(Extractor::Capped(8)));
        assert_eq!(Extractor::named("rocksdb.Noop"), Some(Extractor::Noop));
        for unknown in
            ["rocksdb.FixedPrefix", "rocksdb.FixedPrefix.", "rocksdb.FixedPrefix.+3", "mine.3", "rocksdb.Noop.1", ""]
        {
            assert_eq!(Extractor::named(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_start_of_keys_has_a_prefix_only_if_all_its_keys_have_that_one() {
        assert_eq!(Extractor::Fixed(3).common_prefix(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(Extractor::Fixed(3).common_prefix(b"ab"), None);
        assert_eq!(Extractor::Capped(3).common_prefix(b"ab"), None);
        assert_eq!(Extractor::Capped(3).prefix(b"ab"), Some(&b"ab"[..]));
        assert_eq!(Extractor::Noop.common_prefix(b"ab"), None);
    }

    #[test]
    fn comparators_other_than_bytewise_are_not_known() {
        assert_eq!(Order::named("leveldb.BytewiseComparator"), Some(Order::BYTEWISE));
        assert_eq!(Order::named("idb_cmp1"), None);
    }
}
