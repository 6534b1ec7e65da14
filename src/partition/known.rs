//! Keys that a file is known to hold, and whether its partitions hold them.
//!
//! A partition that holds no known key cannot show that it was built with another hash than the reader's. So none is
//! used before those that must hold one were read: a custom hash that changed under its tag would make every other
//! partition negative for nearly all of its keys.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};

/// The known keys of one container.
#[derive(Debug)]
pub(super) struct KnownKeys {
    /// The partitions that must hold known keys, each with the hashes of these inside it.
    partitions: Box<[(u32, Vec<KeyHash>)]>,
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
    /// `None` if there are none.
    pub(super) fn new(places: impl Iterator<Item = (u32, KeyHash)>) -> Option<Self> {
        let mut partitions: Vec<(u32, Vec<KeyHash>)> = Vec::new();
        for (number, hash) in places {
            if let Some((_, hashes)) = partitions.iter_mut().find(|(other, _)| *other == number) {
                hashes.push(hash);
            } else if partitions.len() < MAX_PARTITIONS {
                partitions.push((number, vec![hash]));
            }
        }
        (!partitions.is_empty()).then(|| Self { partitions: partitions.into(), seen: AtomicU64::new(0) })
    }

    /// The bytes that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let hashes: usize = self.partitions.iter().map(|(_, hashes)| size_of_val(&hashes[..])).sum();
        size_of_val(&*self.partitions) + hashes
    }

    /// The partitions that must hold known keys and were not seen to.
    pub(super) fn unseen(&self) -> impl Iterator<Item = u32> + '_ {
        let seen = self.seen.load(Ordering::Acquire);
        let unseen = self.partitions.iter().enumerate().filter(move |(bit, _)| seen >> bit & 1 == 0);
        unseen.map(|(_, &(number, _))| number)
    }

    /// Whether every partition can be used, or none.
    pub(super) fn verdict(&self, hash: HashIdentity) -> Option<Result<(), BlockError>> {
        let seen = self.seen.load(Ordering::Acquire);
        if seen & REFUSED != 0 {
            return Some(Err(BlockError::KnownKeyAbsent { hash }));
        }
        let all = (1_u64 << self.partitions.len()) - 1;
        (seen & ACCEPTED != 0 || seen & all == all).then_some(Ok(()))
    }

    /// Looks whether a partition that was read holds its known keys.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`] if one is absent, here or before. [`BlockError::KnownKeysUnchecked`] if the
    /// partition must hold none, and there is no verdict yet.
    pub(super) fn check(
        &self,
        number: u32,
        hash: HashIdentity,
        may_contain: impl Fn(KeyHash) -> bool,
    ) -> Result<(), BlockError> {
        let own = self.partitions.iter().position(|(other, _)| *other == number);
        if let Some((bit, (_, hashes))) = own.and_then(|bit| Some((bit, self.partitions.get(bit)?))) {
            let holds_all = hashes.iter().all(|&hash| may_contain(hash));
            self.seen.fetch_or(if holds_all { 1 << bit } else { REFUSED }, Ordering::AcqRel);
        }
        match (self.verdict(hash), own) {
            (Some(verdict), _) => verdict,
            (None, Some(_)) => Ok(()),
            (None, None) => {
                let partition = self.unseen().next().unwrap_or(number);
                Err(BlockError::KnownKeysUnchecked { partition })
            }
        }
    }

    /// Accepts the filter although some partitions with known keys could not be read, if another was seen to hold its
    /// own.
    pub(super) fn accept_what_was_seen(&self) -> bool {
        let is_seen = self.seen.load(Ordering::Acquire) & (REFUSED - 1) != 0;
        if is_seen {
            self.seen.fetch_or(ACCEPTED, Ordering::AcqRel);
        }
        is_seen
    }
}
