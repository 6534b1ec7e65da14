//! Whether hashes that are read several times are the same each time.

use core::cell::Cell;

use crate::hash::{KeyHash, mix64};

/// The readings of one build, in any order each. A key that one of them lacks may be in no cell of the filter.
#[derive(Debug, Default)]
pub(super) struct Readings {
    first: Cell<Option<Digest>>,
    have_differed: Cell<bool>,
}

/// What two readings of the same hashes have in common, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    count: u64,
    sum: u64,
}

impl Readings {
    /// The hashes of one reading, which is compared with the first when it is read to its end.
    pub(super) fn watched(&self, mut hashes: impl Iterator<Item = KeyHash>) -> impl Iterator<Item = KeyHash> {
        let mut digest = Digest::default();
        core::iter::from_fn(move || {
            let hash = hashes.next();
            match hash {
                Some(hash) => {
                    digest.count += 1;
                    digest.sum = digest.sum.wrapping_add(mix64(hash.get()));
                }
                None => self.compare(digest),
            }
            hash
        })
    }

    fn compare(&self, digest: Digest) {
        match self.first.get() {
            None => self.first.set(Some(digest)),
            Some(first) if first != digest => self.have_differed.set(true),
            Some(_) => {}
        }
    }

    pub(super) fn have_differed(&self) -> bool {
        self.have_differed.get()
    }
}
