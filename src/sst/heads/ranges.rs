//! Which tables have a key in their range, told for 64 of them by the heads of their bounds.

use super::head;
use crate::block::GROUP;
use crate::codec::common_prefix;
use crate::sst::TableProperties;

/// The ranges of tables, in their order.
#[derive(Debug)]
pub(in crate::sst) struct KeyRanges {
    /// What all smallest and largest keys begin with.
    prefix: Vec<u8>,
    /// For each group of tables the heads of their smallest and largest keys, distinct and ascending.
    ///
    /// Between two neighbours the same tables hold every head, so a search by halves finds them all at once. Rejected:
    /// comparing the head with each table's range, 64 comparisons a group; and one list for all groups, which grows
    /// with the square of the tables.
    groups: Vec<Vec<Bound>>,
}

/// The head of a smallest or largest key, and the tables whose ranges lie around it, as the bits of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    head: u64,
    /// Tables that hold the heads between the bound before and this one.
    below: u64,
    /// Tables that may hold a key of this head: their smallest or largest key may have it too.
    at: u64,
}

/// Which tables of a group have a key in their range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sst) enum InRange {
    These(u64),
    /// At most these: some table's smallest or largest key has the key's head, so the keys themselves decide.
    AtMost(u64),
}

impl KeyRanges {
    pub(in crate::sst) fn new<'a>(tables: impl Iterator<Item = &'a TableProperties>) -> Self {
        let ends: Vec<_> = tables.map(ends).collect();
        let prefix = shared_prefix(ends.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]));
        let head_of = |key: &[u8]| head(key.get(prefix.len()..).unwrap_or_default());
        let heads: Vec<_> =
            ends.iter().map(|ends| ends.map(|(smallest, largest)| (head_of(smallest), head_of(largest)))).collect();
        Self { prefix: prefix.to_vec(), groups: heads.chunks(GROUP).map(bounds_of).collect() }
    }

    /// What `key` is compared by; `None` when it is outside all ranges.
    #[inline]
    pub(in crate::sst) fn head(&self, key: &[u8]) -> Option<u64> {
        // A key that does not begin like all bounds is below or above every one of them.
        key.strip_prefix(self.prefix.as_slice()).map(head)
    }

    /// The tables of a group that have the key of `head` in their range.
    #[inline]
    pub(in crate::sst) fn holding(&self, group: usize, head: u64) -> InRange {
        let bounds = self.groups.get(group).map_or(&[][..], Vec::as_slice);
        match bounds.get(bounds.partition_point(|bound| bound.head < head)) {
            Some(bound) if bound.head == head => InRange::AtMost(bound.at),
            Some(bound) => InRange::These(bound.below),
            None => InRange::These(0),
        }
    }
}

/// The bounds of up to [`GROUP`] tables, from the heads of their smallest and largest keys.
fn bounds_of(tables: &[Option<(u64, u64)>]) -> Vec<Bound> {
    let mut heads: Vec<u64> = tables.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]).collect();
    heads.sort_unstable();
    heads.dedup();
    let bound = |head| {
        let tables_where = |holds: fn(u64, u64, u64) -> bool| {
            let is_in =
                |ends: &Option<(u64, u64)>| ends.is_some_and(|(smallest, largest)| holds(smallest, head, largest));
            tables.iter().enumerate().fold(0, |bits, (bit, ends)| bits | u64::from(is_in(ends)) << bit)
        };
        Bound {
            head,
            below: tables_where(|smallest, head, largest| smallest < head && head <= largest),
            at: tables_where(|smallest, head, largest| smallest <= head && head <= largest),
        }
    };
    heads.into_iter().map(bound).collect()
}

/// The smallest and the largest key; `None` in a table of no entries.
fn ends(properties: &TableProperties) -> Option<(&[u8], &[u8])> {
    properties.smallest_key.as_deref().zip(properties.largest_key.as_deref())
}

fn shared_prefix<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> &'a [u8] {
    let first = keys.next().unwrap_or_default();
    keys.fold(first, |shared, key| shared.get(..common_prefix(shared, key)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_prefix_is_the_longest_that_all_keys_begin_with() {
        let shared = |keys: &[&'static [u8]]| shared_prefix(keys.iter().copied());
        assert_eq!(shared(&[]), b"");
        assert_eq!(shared(&[b"user:1"]), b"user:1");
        assert_eq!(shared(&[b"user:17", b"user:1", b"user:192"]), b"user:1");
        assert_eq!(shared(&[b"user:17", b"", b"user:17"]), b"");
    }

    #[test]
    fn bounds_tell_the_tables_of_every_head_between_and_at_them() {
        let tables = [Some((3, 7)), None, Some((5, 5)), Some((0, u64::MAX))];
        let ranges = KeyRanges { prefix: b"p".to_vec(), groups: vec![bounds_of(&tables)] };
        let cases = [
            (0, InRange::AtMost(0b1000)),
            (2, InRange::These(0b1000)),
            (3, InRange::AtMost(0b1001)),
            (4, InRange::These(0b1001)),
            (5, InRange::AtMost(0b1101)),
            (6, InRange::These(0b1001)),
            (7, InRange::AtMost(0b1001)),
            (8, InRange::These(0b1000)),
            (u64::MAX, InRange::AtMost(0b1000)),
        ];
        for (number, tables) in cases {
            let head = ranges.head(&[&b"p"[..], &u64::swap_bytes(number).to_le_bytes()].concat()).unwrap();
            assert_eq!((head, ranges.holding(0, head)), (number, tables));
            assert_eq!(ranges.holding(1, head), InRange::These(0));
        }
        assert_eq!(ranges.head(b"q"), None);
        let bounded = KeyRanges { prefix: Vec::new(), groups: vec![bounds_of(&tables[..3])] };
        assert_eq!([2, 8].map(|head| bounded.holding(0, head)), [InRange::These(0); 2]);
    }
}
