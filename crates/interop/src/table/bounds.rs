//! The bounds of a table, from its database's manifest.

use sstfilter::RandomAccess;

use super::Table;
use super::partitions::INTERNAL_SUFFIX_BYTES;
use super::rules::Order;
use crate::format::footer::Engine;
use crate::manifest::ManifestFile;

/// The smallest and the largest user key of a table, from [`Table::bounds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableBounds<'a> {
    order: Order,
    smallest: &'a [u8],
    largest: &'a [u8],
}

impl TableBounds<'_> {
    /// Returns whether `key` lies within the bounds.
    #[must_use]
    pub fn holds(&self, key: &[u8]) -> bool {
        self.order.compare(self.smallest, key).is_le() && self.order.compare(key, self.largest).is_le()
    }

    /// Returns whether the table may contain a key from `lower` (included) to `upper` (excluded) in bytewise order.
    /// Always true for a table in another order.
    #[must_use]
    pub fn meets(&self, lower: &[u8], upper: &[u8]) -> bool {
        self.order != Order::BYTEWISE || (lower <= self.largest && self.smallest < upper)
    }
}

impl<R: RandomAccess> Table<R> {
    /// Returns the table's bounds, which only the manifest of its database stores. Returns `None` if `file` has another
    /// length, the order of the keys is unknown, or keys have timestamps.
    #[must_use]
    pub fn bounds<'a>(&self, file: &'a ManifestFile) -> Option<TableBounds<'a>> {
        let order = match self.engine() {
            // LevelDB's tables do not name their comparator; known rules are always those of the bytewise one.
            Engine::LevelDb => self.layout.rules.as_ref().ok()?.order,
            Engine::RocksDb => Order::named(self.properties().comparator()?)?,
            Engine::Pebble => {
                // Other comparers of Pebble order suffixes by rules that this package does not implement.
                Order::named(self.properties().comparator()?).filter(|order| *order == Order::BYTEWISE)?
            }
        };
        let user_key = |key: &'a [u8]| key.get(..key.len().checked_sub(INTERNAL_SUFFIX_BYTES)?);
        let (smallest, largest) = (user_key(&file.smallest)?, user_key(&file.largest)?);
        // The length guards against the entry of another file, which has other bounds.
        let is_usable = file.bytes == self.footer.offset.saturating_add(self.footer.bytes)
            && order.timestamp_bytes == 0
            && order.compare(smallest, largest).is_le();
        is_usable.then_some(TableBounds { order, smallest, largest })
    }
}
