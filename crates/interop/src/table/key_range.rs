//! Which keys a table may have by its bounds, as its database's manifest has them.

use crate::random_access::RandomAccess;

use super::Table;
use super::partitions::INTERNAL_SUFFIX_BYTES;
use super::rules::Order;
use crate::format::footer::Engine;
use crate::manifest::ManifestFile;

/// The smallest and the largest user key of a table, made by [`Table::key_range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    order: Order,
    smallest: &'a [u8],
    largest: &'a [u8],
}

impl KeyRange<'_> {
    /// Whether the table may have `key`, by its bounds.
    #[must_use]
    pub fn holds(&self, key: &[u8]) -> bool {
        self.order.compare(self.smallest, key).is_le() && self.order.compare(key, self.largest).is_le()
    }

    /// Whether the table may have a key from `lower` up to, but without `upper`, in bytewise order. In another order,
    /// every table may.
    #[must_use]
    pub fn meets(&self, lower: &[u8], upper: &[u8]) -> bool {
        self.order != Order::BYTEWISE || (lower <= self.largest && self.smallest < upper)
    }
}

impl<R: RandomAccess> Table<R> {
    /// The table's bounds, which stand in the manifest of its database alone. `None` if `file` says nothing that can be
    /// used: it is of a file of another length, or the order of the keys is not known, or keys have timestamps.
    #[must_use]
    pub fn key_range<'a>(&self, file: &'a ManifestFile) -> Option<KeyRange<'a>> {
        let order = match self.engine() {
            // Its tables do not name their comparator: rules that are known are those of the bytewise one.
            Engine::LevelDb => self.layout.rules.as_ref().ok()?.order,
            Engine::RocksDb => Order::named(self.properties().comparator()?)?,
            Engine::Pebble => {
                Order::named(self.properties().comparator()?).filter(|order| *order == Order::BYTEWISE)?
            }
        };
        let user_key = |key: &'a [u8]| key.get(..key.len().checked_sub(INTERNAL_SUFFIX_BYTES)?);
        let (smallest, largest) = (user_key(&file.smallest)?, user_key(&file.largest)?);
        let is_usable = file.bytes == self.footer.offset.saturating_add(self.footer.bytes)
            && order.timestamp_bytes == 0
            && order.compare(smallest, largest).is_le();
        is_usable.then_some(KeyRange { order, smallest, largest })
    }
}
