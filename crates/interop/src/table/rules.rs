//! The rules of a table's keys: their order, and the part of a key that the filter contains.

use core::cmp::Ordering;

use crate::error::{Error, Part};
use crate::format::footer::Engine;
use crate::format::properties::{Properties, name, switch};

/// The order of user keys, which decides a key's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Bytewise,
    ReverseBytewise,
}

/// The default comparator of LevelDB and RocksDB.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// A known comparator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) direction: Direction,
    /// The length of the timestamp at the end of a user key. Newer timestamps come first; filters are built without
    /// them.
    pub(crate) timestamp_bytes: usize,
}

impl Order {
    pub(crate) const BYTEWISE: Self = Self { direction: Direction::Bytewise, timestamp_bytes: 0 };

    /// Finds a comparator by the name that RocksDB stores (`util/comparator.cc`).
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

    pub(crate) fn of_table(properties: &Properties) -> Result<Self, Error> {
        let comparator =
            properties.comparator().ok_or_else(|| unsupported("a table that does not name its comparator"))?;
        Self::named(comparator).ok_or_else(|| {
            let name = comparator.escape_debug();
            unsupported(format!("comparator \"{name}\" (expected {BYTEWISE} or rocksdb.ReverseBytewiseComparator)"))
        })
    }

    /// Compares keys without timestamps.
    pub(crate) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self.direction {
            Direction::Bytewise => left.cmp(right),
            Direction::ReverseBytewise => right.cmp(left),
        }
    }
}

/// A prefix extractor (`util/slice.cc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extractor {
    /// The first bytes; shorter keys have no prefix.
    Fixed(usize),
    /// The first bytes, or the whole of a shorter key.
    Capped(usize),
    /// The whole key.
    Noop,
    /// The part before the last `@`, or the whole key: Pebble's test keys (`internal/testkeys`).
    BeforeAt,
    /// A key of `CockroachDB` without its version. The last byte is the length of the version including that byte, or
    /// 0; a byte 0 precedes the version (`cockroachkvs`).
    BeforeVersion,
}

impl Extractor {
    /// Finds Pebble's `Comparer.Split`, which yields the part of a key that is added to a filter. Only the comparer's
    /// name identifies it.
    fn of_comparer(name: &str) -> Option<Self> {
        match name {
            "leveldb.BytewiseComparator" => Some(Self::Noop),
            "pebble.internal.testkeys" => Some(Self::BeforeAt),
            "cockroach_comparator" => Some(Self::BeforeVersion),
            _ => None,
        }
    }

    /// Finds an extractor by the name that RocksDB stores. It stores the extractor's id; versions without ids stored
    /// the same text.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == "rocksdb.Noop" {
            return Some(Self::Noop);
        }
        let (class, bytes) = name.rsplit_once('.')?;
        // `parse` alone would accept a plus sign.
        let bytes = Some(bytes).filter(|bytes| bytes.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
        match class {
            "rocksdb.FixedPrefix" => Some(Self::Fixed(bytes)),
            "rocksdb.CappedPrefix" => Some(Self::Capped(bytes)),
            _ => None,
        }
    }

    /// Returns the prefix of `key`, or `None` if it is not in the extractor's domain, so that nothing was added.
    pub(crate) fn prefix(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) => key.get(..bytes),
            Self::Capped(bytes) => Some(key.get(..bytes).unwrap_or(key)),
            Self::Noop => Some(key),
            Self::BeforeAt => key.rsplitn(2, |&byte| byte == b'@').last(),
            Self::BeforeVersion => before_version(key),
        }
    }

    /// Returns the prefix of all keys that begin with `start`, or `None` if their prefixes differ
    /// (`SameResultWhenAppended`).
    pub(crate) fn common_prefix(self, start: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) | Self::Capped(bytes) => start.get(..bytes),
            // The bytes behind `start` decide where the prefix ends.
            Self::Noop | Self::BeforeAt | Self::BeforeVersion => None,
        }
    }
}

/// The rules that determine a filter's answer for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRules {
    pub(crate) order: Order,
    pub(crate) whole_keys: bool,
    /// `None` if no prefixes were added; an error if the extractor is unknown.
    pub(crate) prefixes: Option<Result<Extractor, Error>>,
    /// Whether checksummed properties say that the table has no entries. Only then is a filter without bits a filter of
    /// no keys.
    pub(crate) no_entries: bool,
}

impl KeyRules {
    /// Determines the rules from the table, and from the comparator that the caller states: LevelDB's tables do not
    /// name theirs, and Pebble's do not store how the default comparer splits keys.
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

    /// Accepts only the bytewise order. In another order, a bytewise search of the index can lead to the wrong data
    /// block.
    fn of_leveldb(stated: Option<&str>) -> Result<Self, Error> {
        match stated {
            Some(BYTEWISE) => Ok(Self { order: Order::BYTEWISE, whole_keys: true, prefixes: None, no_entries: false }),
            Some(other) => {
                let name = other.escape_debug();
                Err(unsupported(format!("comparator \"{name}\" of a LevelDB database (expected {BYTEWISE})")))
            }
            None => Err(unsupported("a table of LevelDB without the comparator of its database")),
        }
    }

    fn of_rocksdb(properties: &Properties, is_checked: bool, stated: Option<&str>) -> Result<Self, Error> {
        let prefixes = if switch(properties, name::PREFIX_FILTERING)? { extractor(properties) } else { None };
        Ok(Self {
            order: Order::of_table(properties)?,
            whole_keys: holds_whole_keys(properties, stated)?,
            prefixes,
            // Without a checksum, a damaged count could make a truncated filter negative.
            no_entries: is_checked && properties.entries() == Some(0),
        })
    }

    /// Determines the rules from the name of the table's comparer.
    fn of_pebble(properties: &Properties, stated: Option<&str>) -> Result<Self, Error> {
        let comparer = properties.comparator().ok_or_else(|| unsupported("a table that does not name its comparer"))?;
        let unknown = |what: &str| unsupported(format!("comparer \"{}\"{what}", comparer.escape_debug()));
        let expected = " (expected leveldb.BytewiseComparator or cockroach_comparator)";
        let split = Extractor::of_comparer(comparer).ok_or_else(|| unknown(expected))?;
        let whole_keys = split == Extractor::Noop;
        if whole_keys && !holds_whole_keys(properties, stated)? {
            return Err(unknown(" with a filter of prefixes"));
        }
        let prefixes = (!whole_keys).then_some(Ok(split));
        Ok(Self { order: Order::BYTEWISE, whole_keys, prefixes, no_entries: false })
    }

    /// Returns whether `next` may follow `last` in a table, as far as the order is known. Pebble's comparers order keys
    /// of equal prefix by their own rules.
    pub(crate) fn may_follow(&self, last: &[u8], next: &[u8]) -> bool {
        match &self.prefixes {
            Some(Ok(split @ (Extractor::BeforeAt | Extractor::BeforeVersion))) => {
                split.prefix(last) <= split.prefix(next) && last != next
            }
            _ => self.order.compare(last, next).is_lt(),
        }
    }

    /// Returns the part of `key` that the engine adds, or `Ok(None)` if it adds nothing.
    pub(crate) fn added_of<'a>(&self, key: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        // Whole keys first: a filter of both answers more precisely for the whole key than for its prefix.
        if self.whole_keys {
            return Ok(Some(key));
        }
        match &self.prefixes {
            Some(extractor) => extractor.as_ref().map(|extractor| extractor.prefix(key)).map_err(Clone::clone),
            None => Err(unsupported("a filter of neither whole keys nor prefixes")),
        }
    }

    /// Returns the part that the engine adds of every key that begins with `start`, or `Ok(None)` if the part depends
    /// on the key.
    pub(crate) fn added_of_all<'a>(&self, start: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        match &self.prefixes {
            Some(extractor) => extractor.as_ref().map(|extractor| extractor.common_prefix(start)).map_err(Clone::clone),
            None => Err(unsupported("a prefix, in a filter of whole keys only,")),
        }
    }
}

/// Returns the part before the version, or `None` if `CockroachDB` makes no such key, whose split is then undefined.
fn before_version(key: &[u8]) -> Option<&[u8]> {
    let version_bytes = usize::from(*key.last()?);
    let (prefix, _version) = key.split_at_checked(key.len().checked_sub(version_bytes)?)?;
    // A length counts itself, and no version is empty: 1 is not a length that CockroachDB writes.
    (version_bytes != 1 && prefix.last() == Some(&0)).then_some(prefix)
}

/// Returns whether the filter contains whole keys. Every RocksDB that writes such filters stores that, and Pebble
/// stored it until its version 2. Since then, a comparer that splits keys under the default comparer's name cannot be
/// distinguished from the default one.
fn holds_whole_keys(properties: &Properties, stated: Option<&str>) -> Result<bool, Error> {
    let is_stated = stated == Some(BYTEWISE) && properties.comparator() == stated;
    if properties.raw(name::WHOLE_KEY_FILTERING).is_some() || is_stated {
        return switch(properties, name::WHOLE_KEY_FILTERING);
    }
    Err(unsupported("a table that does not record whether its filter holds whole keys"))
}

fn extractor(properties: &Properties) -> Option<Result<Extractor, Error>> {
    let stored = properties.raw(name::PREFIX_EXTRACTOR).filter(|name| !name.is_empty() && *name != b"nullptr")?;
    let known = str::from_utf8(stored).ok().and_then(Extractor::named);
    Some(known.ok_or_else(|| unsupported(format!("prefix extractor \"{}\"", stored.escape_ascii()))))
}

fn unsupported(what: impl Into<String>) -> Error {
    Error::unsupported(Part::Properties, what)
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
