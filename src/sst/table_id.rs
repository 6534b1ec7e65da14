//! The identity that enters every checksum of a table.

use core::fmt;
use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::time::SystemTime;

/// 16 bytes that tell one table of a store from every other.
///
/// They enter the checksum of every block, so that a block of another table is damage. An engine that
/// numbers its files makes ids of the numbers, and gets the same bytes for the same input; otherwise
/// each table gets a random one.
///
/// An engine that may use a file's number again (after a crash, say, for a file that its manifest does not have)
/// adds to the id what never repeats: how often the store has been opened, for example. If it does not, single
/// blocks and pages that are left of the earlier file are damage all the same. But where everything from the filter
/// to the footer is the earlier file's, that file is what the table is: its filter and its range deny the
/// keys of the later one.
///
/// ```
/// use sstfilter::TableId;
///
/// let id = TableId::from_bytes(*b"store 7, file 42");
/// assert_eq!(id.as_bytes(), b"store 7, file 42");
/// assert_ne!(TableId::random(), TableId::random());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId([u8; 16]);

impl TableId {
    /// The id of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// An id that no other table has: 128 bits from the system's random seed of this process, the
    /// time, the process number and a counter. Unique, not secret.
    #[must_use]
    pub fn random() -> Self {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let count = CREATED.fetch_add(1, Ordering::Relaxed);
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        let half = || {
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u64(count);
            hasher.write_u128(nanos);
            hasher.write_u32(std::process::id());
            u128::from(hasher.finish())
        };
        Self((half() << 64 | half()).to_le_bytes())
    }
}

impl fmt::Display for TableId {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableId({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn random_ids_do_not_repeat() {
        let ids: HashSet<TableId> = (0..1_000).map(|_| TableId::random()).collect();
        assert_eq!(ids.len(), 1_000);
    }

    #[test]
    fn an_id_shows_as_hexadecimal_digits() {
        assert_eq!(TableId([0xab; 16]).to_string(), "ab".repeat(16));
    }
}
