//! Keys that a file is known to hold, and whether its partitions hold them.
//!
//! A partition that holds no known key cannot show that it was built with another hash than the reader's. So none is
//! used before all that must hold one were read: a custom hash that changed under its tag would make every other
//! partition negative for nearly all of its keys. One that cannot be read leaves the filter unused: what it would show,
//! of another extractor for instance, no other may.

use core::sync::atomic::{AtomicU8, Ordering};

use std::collections::BTreeMap;

use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};

/// The known keys of one container: the partitions that must hold some.
#[derive(Debug, Default)]
pub(super) struct KnownKeys(Box<[Partition]>);

/// A partition that must hold known keys.
#[derive(Debug)]
struct Partition {
    number: u32,
    hashes: Vec<KeyHash>,
    /// [`UNREAD`], then for good [`HOLDS_ALL`] or [`LACKS_ONE`]: what a partition holds does not change.
    state: AtomicU8,
}

const UNREAD: u8 = 0;
const HOLDS_ALL: u8 = 1;
const LACKS_ONE: u8 = 2;

impl KnownKeys {
    /// Those with these hashes in these partitions.
    pub(super) fn new(places: impl Iterator<Item = (u32, KeyHash)>) -> Self {
        let mut by_partition = BTreeMap::<u32, Vec<KeyHash>>::new();
        for (number, hash) in places {
            by_partition.entry(number).or_default().push(hash);
        }
        let partitions = by_partition.into_iter();
        Self(partitions.map(|(number, hashes)| Partition { number, hashes, state: UNREAD.into() }).collect())
    }

    /// The bytes that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let hashes: usize = self.0.iter().map(|partition| size_of_val(&partition.hashes[..])).sum();
        size_of_val(&*self.0) + hashes
    }

    /// The partitions that must hold known keys and were not read yet, unless one lacks some: then nothing can change.
    pub(super) fn unchecked(&self) -> impl Iterator<Item = u32> + '_ {
        let is_refused = self.0.iter().any(|partition| partition.state.load(Ordering::Acquire) == LACKS_ONE);
        let unread =
            self.0.iter().filter(move |partition| !is_refused && partition.state.load(Ordering::Acquire) == UNREAD);
        unread.map(|partition| partition.number)
    }

    /// Whether every partition can be used, or none.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`] if one is absent. [`BlockError::KnownKeysUnchecked`] while a partition that must
    /// hold some was not read.
    pub(super) fn verdict(&self, hash: HashIdentity) -> Result<(), BlockError> {
        let mut unread = None;
        for partition in &self.0 {
            match partition.state.load(Ordering::Acquire) {
                HOLDS_ALL => {}
                LACKS_ONE => return Err(BlockError::KnownKeyAbsent { hash }),
                _ => unread = unread.or(Some(partition.number)),
            }
        }
        unread.map_or(Ok(()), |partition| Err(BlockError::KnownKeysUnchecked { partition }))
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
            let holds_all = own.hashes.iter().all(|&hash| may_contain(hash));
            own.state.store(if holds_all { HOLDS_ALL } else { LACKS_ONE }, Ordering::Release);
        }
        self.verdict(hash)
    }
}
