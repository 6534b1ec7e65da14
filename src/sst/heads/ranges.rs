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
    /// For each table the head of its smallest key, and how far above it that of its largest key is: one subtraction
    /// and one comparison then tell whether a head lies between them.
    spans: Vec<(u64, u64)>,
    /// The heads of all smallest and largest keys, ascending.
    bounds: Vec<u64>,
}

/// What a key is compared with ranges by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sst) struct RangeKey {
    head: u64,
    /// Some table's smallest or largest key has the same head: there the keys themselves decide.
    pub(in crate::sst) is_bound: bool,
}

/// The span of a table of no entries. It holds the head of no key, or one that equals a bound.
const NO_SPAN: (u64, u64) = (u64::MAX, 0);

impl KeyRanges {
    pub(in crate::sst) fn new<'a>(tables: impl Iterator<Item = &'a TableProperties>) -> Self {
        let ends: Vec<_> = tables.map(ends).collect();
        let prefix = shared_prefix(ends.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]));
        let head_of = |key: &[u8]| head(key.get(prefix.len()..).unwrap_or_default());
        let span = |(smallest, largest)| (head_of(smallest), head_of(largest).wrapping_sub(head_of(smallest)));
        let spans: Vec<_> = ends.iter().map(|ends| ends.map_or(NO_SPAN, span)).collect();
        Self { prefix: prefix.to_vec(), bounds: bounds_of(&spans), spans }
    }

    /// What `key` is compared by; `None` when it is outside all ranges.
    #[inline]
    pub(in crate::sst) fn key(&self, key: &[u8]) -> Option<RangeKey> {
        // A key that does not begin like all bounds is below or above every one of them.
        let head = head(key.strip_prefix(self.prefix.as_slice())?);
        Some(RangeKey { head, is_bound: self.bounds.binary_search(&head).is_ok() })
    }

    /// The tables of a group that have the key in their range; if its head is that of a bound, those that may.
    #[inline]
    pub(in crate::sst) fn holding(&self, group: usize, key: RangeKey) -> u64 {
        let spans = self.spans.get(group * GROUP..).unwrap_or_default().iter().take(GROUP);
        // Without branches: whether a key is in a range is not predictable.
        let is_within = |&(smallest, span): &(u64, u64)| u64::from(key.head.wrapping_sub(smallest) <= span);
        spans.enumerate().fold(0, |tables, (bit, span)| tables | is_within(span) << bit)
    }
}

fn bounds_of(spans: &[(u64, u64)]) -> Vec<u64> {
    let mut bounds: Vec<u64> = spans.iter().flat_map(|&(low, span)| [low, low.wrapping_add(span)]).collect();
    bounds.sort_unstable();
    bounds
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
    fn spans_hold_the_heads_from_the_smallest_to_the_largest_and_bounds_are_known() {
        let spans = vec![(3, 4), NO_SPAN, (5, 0), (0, u64::MAX)];
        let ranges = KeyRanges { prefix: b"p".to_vec(), bounds: bounds_of(&spans), spans };
        let cases = [(0, 0b1000, true), (2, 0b1000, false), (3, 0b1001, true), (5, 0b1101, true), (6, 0b1001, false)];
        for (head, tables, is_bound) in cases {
            let key = ranges.key(&[&b"p"[..], &u64::swap_bytes(head).to_le_bytes()].concat()).unwrap();
            assert_eq!(key, RangeKey { head, is_bound });
            assert_eq!((ranges.holding(0, key), ranges.holding(1, key)), (tables, 0), "{head}");
        }
        assert_eq!(ranges.key(b"q"), None);
    }
}
