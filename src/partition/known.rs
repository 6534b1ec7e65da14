//! Keys that a file is known to hold, and whether its partitions hold them.
//!
//! A partition that holds no known key cannot show that it was built with another hash than the reader's. So none is
//! used before those that must hold one were read: a custom hash that changed under its tag would make every other
//! partition negative for nearly all of its keys.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::BlockError;
use crate::hash::{Domain, HashIdentity, KeyHash};

/// What a partition must hold of a known key: the key, or a part of this domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownPart {
    pub(super) domain: Option<Domain>,
    /// Inside the partition.
    pub(super) hash: KeyHash,
}

/// The known keys of one container.
#[derive(Debug)]
pub(super) struct KnownKeys {
    /// The partitions that must hold known keys, each with what it must hold.
    partitions: Box<[(u32, Vec<KnownPart>)]>,
    /// A bit for each that was found to hold them; the two highest bits are the verdict.
    seen: AtomicU64,
}

/// Not all partitions with known keys could be read, and those that could were right.
const ACCEPTED: u64 = 1 << 63;

/// A known key is absent.
const REFUSED: u64 = 1 << 62;

/// Partitions with a bit. More known keys say nothing more.
const MAX_PARTITIONS: usize = 62;

impl KnownKeys {
    /// Those of parts and their partitions. `None` if there are none.
    pub(super) fn new(parts: impl Iterator<Item = (u32, KnownPart)>) -> Option<Self> {
        let mut partitions: Vec<(u32, Vec<KnownPart>)> = Vec::new();
        for (number, part) in parts {
            if let Some((_, held)) = partitions.iter_mut().find(|(other, _)| *other == number) {
                held.push(part);
            } else if partitions.len() < MAX_PARTITIONS {
                partitions.push((number, vec![part]));
            }
        }
        (!partitions.is_empty()).then(|| Self { partitions: partitions.into(), seen: AtomicU64::new(0) })
    }

    /// The bytes that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let parts: usize = self.partitions.iter().map(|(_, parts)| size_of_val(&parts[..])).sum();
        size_of_val(&*self.partitions) + parts
    }

    /// The partitions that must hold known keys and were not seen to, while there is no verdict.
    pub(super) fn unchecked(&self) -> impl Iterator<Item = u32> + '_ {
        let seen = self.seen.load(Ordering::Acquire);
        let has_verdict = seen & (ACCEPTED | REFUSED) != 0;
        let unseen = self.partitions.iter().enumerate().filter(move |(bit, _)| !has_verdict && seen >> bit & 1 == 0);
        unseen.map(|(_, &(number, _))| number)
    }

    /// Whether every partition can be used, or none.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`] if one is absent. [`BlockError::KnownKeysUnchecked`] if there is no verdict yet.
    pub(super) fn verdict(&self, hash: HashIdentity) -> Result<(), BlockError> {
        if self.seen.load(Ordering::Acquire) & REFUSED != 0 {
            return Err(BlockError::KnownKeyAbsent { hash });
        }
        match self.unchecked().next() {
            Some(partition) => Err(BlockError::KnownKeysUnchecked { partition }),
            None => Ok(()),
        }
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
        let own = self.partitions.iter().enumerate().find(|(_, (other, _))| *other == number);
        if let Some((bit, (_, parts))) = own {
            let holds_all = parts.iter().all(|part| may_contain(part.hash));
            self.seen.fetch_or(if holds_all { 1 << bit } else { REFUSED }, Ordering::AcqRel);
        }
        self.verdict(hash)
    }

    /// Accepts the filter although some partitions with known keys could not be read, if others were seen to hold their
    /// own, and these are of all the domains that the former must hold hashes of.
    pub(super) fn accept_if_confirmed(&self) {
        let seen = self.seen.load(Ordering::Acquire);
        let domains = |is_seen: bool| {
            let partitions = self.partitions.iter().enumerate();
            let these = partitions.filter(move |(bit, _)| (seen >> bit & 1 == 1) == is_seen);
            these.flat_map(|(_, (_, parts))| parts.iter().map(|part| part.domain))
        };
        if domains(false).all(|domain| domains(true).any(|confirmed| confirmed == domain)) {
            self.seen.fetch_or(ACCEPTED, Ordering::AcqRel);
        }
    }
}
