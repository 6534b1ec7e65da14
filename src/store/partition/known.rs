//! Keys that a file is known to hold, and whether its partitions hold them.
//!
//! A partition that holds no known key cannot show that it was built with another hash than the reader's. So none is
//! used before all that must hold one were read: a custom hash that changed under its tag would make every other
//! partition negative for nearly all of its keys. One that cannot be read leaves the filter unused: what it would show,
//! of another extractor for instance, no other may.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};

/// The known keys of one container: the partitions that must hold some.
#[derive(Debug, Default)]
pub(super) struct KnownKeys(Box<[Partition]>);

/// A partition that must hold known keys.
#[derive(Debug)]
struct Partition {
    number: u32,
    hashes: Box<[KeyHash]>,
    /// Known once the partition was read, and then for good: what it holds does not change.
    holds_all: OnceLock<bool>,
}

impl KnownKeys {
    /// Those with these hashes in these partitions.
    pub(super) fn new(places: impl Iterator<Item = (u32, KeyHash)>) -> Self {
        let mut by_partition = BTreeMap::<u32, Vec<KeyHash>>::new();
        for (number, hash) in places {
            by_partition.entry(number).or_default().push(hash);
        }
        let partition = |(number, hashes): (u32, Vec<KeyHash>)| {
            let (hashes, holds_all) = (hashes.into_boxed_slice(), OnceLock::new());
            Partition { number, hashes, holds_all }
        };
        Self(by_partition.into_iter().map(partition).collect())
    }

    /// The bytes that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let hashes: usize = self.0.iter().map(|partition| size_of_val(&partition.hashes[..])).sum();
        size_of_val(&*self.0) + hashes
    }

    /// The partitions that must hold known keys and were not read yet, unless one lacks some: then nothing can change.
    pub(super) fn unchecked(&self) -> impl Iterator<Item = u32> + '_ {
        let is_refused = self.lacks_one();
        let unread = self.0.iter().filter(move |partition| !is_refused && partition.holds_all.get().is_none());
        unread.map(|partition| partition.number)
    }

    fn lacks_one(&self) -> bool {
        self.0.iter().any(|partition| partition.holds_all.get() == Some(&false))
    }

    /// Whether every partition can be used, or none.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`] if one is absent. [`BlockError::KnownKeysUnchecked`] while a partition that must
    /// hold some was not read.
    pub(super) fn verdict(&self, hash: HashIdentity) -> Result<(), BlockError> {
        if self.lacks_one() {
            return Err(BlockError::KnownKeyAbsent { hash });
        }
        self.unchecked().next().map_or(Ok(()), |partition| Err(BlockError::KnownKeysUnchecked { partition }))
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
        if let Some(own) = self.0.iter().find(|partition| partition.number == number) {
            own.holds_all.get_or_init(|| own.hashes.iter().all(|&hash| may_contain(hash)));
        }
        self.verdict(hash)
    }
}
