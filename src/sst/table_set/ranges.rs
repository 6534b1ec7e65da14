//! Which tables have a key in their range, told for 64 of them at once.
//!
//! Of every smallest and largest key the first eight bytes are kept, after what all of them begin with, as
//! a number that is ordered as the bytes are. Numbers that differ decide; where they are equal, the keys
//! themselves are compared.

use crate::block::GROUP;
use crate::codec::{common_prefix, order_prefix};
use crate::kernel::within::{LANES, Ranges, Within, within};
use crate::sst::{Table, TableProperties};

/// The ranges of tables, in their order, in groups of 64.
#[derive(Debug)]
pub(super) struct KeyRanges {
    /// What all smallest and largest keys begin with.
    prefix: Vec<u8>,
    groups: Vec<Vec<Ranges>>,
}

impl KeyRanges {
    pub(super) fn new(tables: &[Table]) -> Self {
        let bounds: Vec<_> = tables.iter().map(|table| bounds(table.properties())).collect();
        let prefix = shared_prefix(bounds.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]));
        let number = |key: &[u8]| order_prefix(key.get(prefix.len()..).unwrap_or_default());
        let lanes = |bounds: &[Option<(&[u8], &[u8])>]| {
            let mut ranges = Ranges::EMPTY;
            let places = ranges.smallest.iter_mut().zip(&mut ranges.largest).zip(bounds);
            for ((smallest, largest), bounds) in places.filter_map(|(place, bounds)| Some((place, (*bounds)?))) {
                (*smallest, *largest) = (number(bounds.0), number(bounds.1));
            }
            ranges
        };
        let groups = bounds.chunks(GROUP).map(|group| group.chunks(LANES).map(lanes).collect()).collect();
        Self { prefix: prefix.to_vec(), groups }
    }

    /// The number by which `key` is compared; `None` when it is outside of all ranges.
    #[inline]
    pub(super) fn number_of(&self, key: &[u8]) -> Option<u64> {
        // A key that does not begin like all bounds is below or above every one of them.
        key.strip_prefix(self.prefix.as_slice()).map(order_prefix)
    }

    /// Where a key of this number stands to the ranges of a group. At an end the key may be on either side.
    #[inline]
    pub(super) fn within(&self, group: usize, number: u64) -> Within {
        self.groups.get(group).map(|ranges| within(number, ranges)).unwrap_or_default()
    }
}

/// The smallest and the largest key; `None` in a table of no entries.
fn bounds(properties: &TableProperties) -> Option<(&[u8], &[u8])> {
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
}
