//! Which tables have a key in their range, told for 64 of them by the heads of their bounds.

use crate::block::GROUP;
use crate::key_head::{SharedPrefix, lower_bound};
use crate::sst::TableProperties;

/// The ranges of tables, in their order.
#[derive(Debug)]
pub(in crate::sst) struct KeyRanges {
    /// What all smallest and largest keys begin with.
    prefix: SharedPrefix,
    groups: Vec<Bounds>,
}

/// The smallest and largest keys of a group of tables, by their heads.
///
/// Between two neighbours the same tables hold every head, so one search finds them all. Rejected: comparing a head
/// with each table's range, which is 64 comparisons; and one list for all groups, which grows with the square of the
/// tables.
#[derive(Debug)]
struct Bounds {
    /// Distinct and ascending.
    heads: Vec<u64>,
    /// For each of `heads`.
    tables: Vec<Around>,
}

/// Tables, as the bits of a word, by what their ranges are to the head of a bound.
#[derive(Clone, Copy, Debug)]
struct Around {
    /// They hold the heads between the bound before and this one.
    below: u64,
    /// They may hold a key of this head: their smallest or largest key may have it too.
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
        let prefix = SharedPrefix::of(ends.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]));
        let heads_of = |(smallest, largest)| prefix.head(smallest).zip(prefix.head(largest));
        let heads: Vec<_> = ends.iter().map(|ends| ends.and_then(heads_of)).collect();
        Self { groups: heads.chunks(GROUP).map(Bounds::new).collect(), prefix }
    }

    /// What `key` is compared by; `None` when it is outside all ranges.
    #[inline]
    pub(in crate::sst) fn head(&self, key: &[u8]) -> Option<u64> {
        self.prefix.head(key)
    }

    /// The tables of a group that have the key of `head` in their range.
    #[inline]
    pub(in crate::sst) fn holding(&self, group: usize, head: u64) -> InRange {
        self.groups.get(group).map_or(InRange::These(0), |bounds| bounds.holding(head))
    }
}

impl Bounds {
    /// From the heads of the smallest and the largest key of up to [`GROUP`] tables.
    fn new(tables: &[Option<(u64, u64)>]) -> Self {
        let mut heads: Vec<u64> =
            tables.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]).collect();
        heads.sort_unstable();
        heads.dedup();
        let mut around = vec![Around { below: 0, at: 0 }; heads.len()];
        let ends = tables.iter().enumerate().filter_map(|(bit, ends)| Some((1 << bit, (*ends)?)));
        for (table, (smallest, largest)) in ends {
            let holding = lower_bound(&heads, smallest)..=lower_bound(&heads, largest);
            for (position, around) in around.get_mut(holding).unwrap_or_default().iter_mut().enumerate() {
                around.at |= table;
                if position > 0 {
                    around.below |= table;
                }
            }
        }
        Self { tables: around, heads }
    }

    #[inline]
    fn holding(&self, head: u64) -> InRange {
        let position = lower_bound(&self.heads, head);
        match (self.heads.get(position), self.tables.get(position)) {
            (Some(&bound), Some(tables)) if bound == head => InRange::AtMost(tables.at),
            (_, Some(tables)) => InRange::These(tables.below),
            // Above all bounds.
            (_, None) => InRange::These(0),
        }
    }
}

/// The smallest and the largest key; `None` in a table of no entries.
fn ends(properties: &TableProperties) -> Option<(&[u8], &[u8])> {
    properties.smallest_key.as_deref().zip(properties.largest_key.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_tell_the_tables_of_every_head_between_and_at_them() {
        let tables = [Some((3, 7)), None, Some((5, 5)), Some((0, u64::MAX))];
        let ranges = KeyRanges { prefix: SharedPrefix::of([&b"p"[..]]), groups: vec![Bounds::new(&tables)] };
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
        let bounded = KeyRanges { prefix: SharedPrefix::default(), groups: vec![Bounds::new(&tables[..3])] };
        assert_eq!([2, 8].map(|head| bounded.holding(0, head)), [InRange::These(0); 2]);
    }
}
