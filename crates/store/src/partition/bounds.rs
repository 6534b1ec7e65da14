//! The lower bounds of the partitions of a filter that is cut by key range.
//!
//! Each bound is a separator: the shortest key above all keys of one partition and not above those of the next. Sixteen
//! partitions share one copy of the prefix that their bounds have in common. They are stored in the form in which they
//! are held in memory, so an index takes no more memory than it has bytes, whatever it claims: with prefixes that refer
//! to the previous bound, as in blocks of a table, a forged index of some MiB could claim gigabytes.

use sstfilter::internal::key_head::common_prefix;

/// The number of partitions whose bounds share a prefix. With more, one prefix serves more bounds; but where keys
/// change from one long prefix to another (tenants, tables), more bounds repeat it in full.
pub(super) const PREFIX_GROUP: usize = 16;

/// Items in `starts` for a group: its prefix, then a suffix for each partition.
const GROUP_ITEMS: usize = PREFIX_GROUP + 1;

/// The bounds, in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    /// The items of all groups, end to end.
    bytes: Vec<u8>,
    /// Where each item begins.
    starts: Vec<u32>,
}

impl Bounds {
    /// Reserves memory for the bounds of `partitions` partitions.
    pub(super) fn with_capacity(partitions: usize) -> Self {
        Self { bytes: Vec::new(), starts: Vec::with_capacity(partitions + partitions.div_ceil(PREFIX_GROUP)) }
    }

    /// Appends the next item: the prefix of a group, or the suffix of a partition's bound.
    pub(super) fn push_item(&mut self, item: &[u8]) -> Option<()> {
        self.starts.push(u32::try_from(self.bytes.len()).ok()?);
        self.bytes.extend_from_slice(item);
        Some(())
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * size_of::<u32>()
    }

    fn item(&self, number: usize) -> &[u8] {
        let at = |number: usize| self.starts.get(number).map(|&start| start as usize);
        let end = at(number + 1).unwrap_or(self.bytes.len());
        at(number).and_then(|start| self.bytes.get(start..end)).unwrap_or_default()
    }

    /// Returns the two parts of a bound. Partition 0 has none: it begins before all keys.
    pub(super) fn parts(&self, partition: usize) -> [&[u8]; 2] {
        if partition == 0 {
            return [&[], &[]];
        }
        let group = partition / PREFIX_GROUP * GROUP_ITEMS;
        [self.item(group), self.item(group + 1 + partition % PREFIX_GROUP)]
    }

    /// Returns whether the bound is not above `key`.
    pub(super) fn is_at_most(&self, partition: usize, key: &[u8]) -> bool {
        let [prefix, suffix] = self.parts(partition);
        let (head, rest) = key.split_at(prefix.len().min(key.len()));
        prefix.cmp(head).then_with(|| suffix.cmp(rest)).is_le()
    }

    /// Returns whether the bound begins with `prefix`.
    pub(super) fn begins_with(&self, partition: usize, prefix: &[u8]) -> bool {
        let [first, second] = self.parts(partition);
        first.iter().chain(second).take(prefix.len()).eq(prefix)
    }

    /// Returns whether the bound is above that of the previous partition. The bound of partition 0 is empty.
    pub(super) fn is_above_previous(&self, partition: usize) -> bool {
        let [one, other] = [partition - 1, partition].map(|partition| self.parts(partition));
        let [one, other] = [one, other].map(|parts| parts.into_iter().flatten());
        one.lt(other)
    }
}

/// Returns the shortest separator of two keys: above `last`, not above `first`.
pub(super) fn separator<'a>(last: &[u8], first: &'a [u8]) -> &'a [u8] {
    first.get(..=common_prefix(last, first)).unwrap_or(first)
}

/// Returns the prefix of the bounds of the group that begins with partition `first`.
pub(super) fn group_prefix(bounds: &[Vec<u8>], first: usize) -> &[u8] {
    let end = (first + PREFIX_GROUP).min(bounds.len());
    // Not partition 0, whose bound is empty and not stored. Bounds ascend, so the first and the last share what all
    // share.
    let group = bounds.get(first.max(1)..end).unwrap_or_default();
    match group {
        [one, .., last] => last.get(..common_prefix(one, last)).unwrap_or_default(),
        [one] => one,
        [] => &[],
    }
}

#[cfg(test)]
mod tests {
    use sstfilter::KeyHash;

    use super::*;
    use crate::vectors::vectors;

    fn held(bounds: &[Vec<u8>]) -> Bounds {
        let mut held = Bounds::with_capacity(bounds.len());
        for (partition, bound) in bounds.iter().enumerate() {
            let prefix = group_prefix(bounds, partition / PREFIX_GROUP * PREFIX_GROUP);
            if partition % PREFIX_GROUP == 0 {
                held.push_item(prefix).unwrap();
            }
            held.push_item(bound.get(prefix.len()..).unwrap_or_default()).unwrap();
        }
        held
    }

    #[test]
    fn bounds_compare_like_the_keys_that_they_are() {
        let numbers: Vec<String> = (0..200).map(|number| format!("tenant-{}/key-{number:05}", number / 40)).collect();
        let mut bounds = vec![Vec::new()];
        bounds.extend(numbers.into_iter().map(String::into_bytes));
        let held = held(&bounds);
        let keys: Vec<Vec<u8>> = bounds
            .iter()
            .flat_map(|bound| {
                (0..=bound.len()).flat_map(|length| [bound[..length].to_vec(), [&bound[..length], b"0"].concat()])
            })
            .collect();
        for (partition, bound) in bounds.iter().enumerate() {
            assert_eq!(held.parts(partition).concat(), *bound);
            for key in &keys {
                assert_eq!(held.is_at_most(partition, key), bound <= key, "{partition} {key:?}");
                assert_eq!(held.begins_with(partition, key), bound.starts_with(key), "{partition} {key:?}");
            }
            assert!(partition == 0 || held.is_above_previous(partition));
        }
        assert!(held.bytes.len() < 200 * 8, "{} bytes for prefixes and suffixes", held.bytes.len());
    }

    #[test]
    fn a_separator_is_above_the_one_key_and_not_above_the_other_and_no_shorter_key_is() {
        let keys: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"abcd", b"abd", b"\xff\xff"];
        for (at, last) in keys.iter().enumerate() {
            for first in &keys[at + 1..] {
                let between = separator(last, first);
                assert!(last < &between && &between <= first, "{last:?} {first:?}: {between:?}");
                assert!(first[..between.len() - 1] <= **last, "{last:?} {first:?}: {between:?}");
            }
        }
    }

    #[test]
    fn places_and_bounds_are_those_of_the_vectors() {
        let own = vectors("partitioned");
        for row in own.rows("places") {
            let (number, inside) =
                KeyHash::from_well_mixed(row.hex("hash")).in_partition(row.number("partitions") as u32);
            assert_eq!((u64::from(number), inside.get()), (row.number("number"), row.hex("hash_inside")), "{row}");
        }
        for row in own.rows("bounds") {
            let [last, first, bound] = ["last", "first", "bound"].map(|name| row.text(name).as_bytes());
            assert_eq!(separator(last, first), bound, "{row}");
        }
    }
}
