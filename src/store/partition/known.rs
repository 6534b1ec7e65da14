//! Keys that a file is known to hold, and whether its partitions hold them.
//!
//! A partition that holds no known key cannot show that it was built with another hash than the reader's. So none is
//! used before all that must hold one were read: a custom hash that changed under its tag would make every other
//! partition negative for nearly all of its keys. One that cannot be read leaves the filter unused: what it would show,
//! of another extractor for instance, no other may.

use std::sync::OnceLock;

use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};

/// The known keys of one container, by the partitions that must hold them.
#[derive(Debug, Default)]
pub(super) struct KnownKeys(Box<[Known]>);

#[derive(Debug)]
struct Known {
    partition: u32,
    hash: KeyHash,
    /// Known once the partition was read, and then for good: what it holds does not change.
    is_held: OnceLock<bool>,
}

impl KnownKeys {
    /// Those with these hashes in these partitions.
    pub(super) fn new(places: impl Iterator<Item = (u32, KeyHash)>) -> Self {
        let mut known: Vec<_> =
            places.map(|(partition, hash)| Known { partition, hash, is_held: OnceLock::new() }).collect();
        known.sort_by_key(|known| known.partition);
        Self(known.into())
    }

    /// The bytes that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// The partitions that must hold known keys and were not read yet, unless one lacks some: then nothing can change.
    pub(super) fn unchecked(&self) -> impl Iterator<Item = u32> + '_ {
        let lacks_one = self.0.iter().any(|known| known.is_held.get() == Some(&false));
        let known = if lacks_one { &[] } else { &*self.0 };
        let partitions = known.chunk_by(|one, other| one.partition == other.partition);
        partitions.filter_map(|own| own.iter().find(|known| known.is_held.get().is_none())).map(|known| known.partition)
    }

    /// Whether every partition can be used, or none.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`] if one is absent. [`BlockError::KnownKeysUnchecked`] while a partition that must
    /// hold some was not read.
    pub(super) fn verdict(&self, hash: HashIdentity) -> Result<(), BlockError> {
        let mut unchecked = None;
        // In one pass, which looks at each once: another thread may be finding out that one is absent.
        for known in &self.0 {
            match known.is_held.get() {
                Some(true) => {}
                Some(false) => return Err(BlockError::KnownKeyAbsent { hash }),
                None => unchecked = unchecked.or(Some(known.partition)),
            }
        }
        unchecked.map_or(Ok(()), |partition| Err(BlockError::KnownKeysUnchecked { partition }))
    }

    /// Looks whether a partition that was read holds its known keys.
    ///
    /// # Errors
    ///
    /// Those of [`verdict`](Self::verdict): until there is one, not even a partition that holds its known keys is used.
    /// In a filter cut by hash range, what it holds may be parts of keys, which tell nothing of whole ones.
    pub(super) fn check(
        &self,
        number: u32,
        hash: HashIdentity,
        may_contain: impl Fn(KeyHash) -> bool,
    ) -> Result<(), BlockError> {
        for known in self.0.iter().filter(|known| known.partition == number) {
            known.is_held.get_or_init(|| may_contain(known.hash));
        }
        self.verdict(hash)
    }
}
