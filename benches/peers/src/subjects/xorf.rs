//! `xorf`: Xor and binary fuse filters.

use xorf::{BinaryFuse8, BinaryFuse16, DmaSerializable, Filter as _, Xor8};

use super::{FUSE_EIGHT, FUSE_SIXTEEN, XOR_EIGHT};
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

struct Xorf {
    kind: &'static str,
    against: &'static str,
    build: fn(&[u64]) -> BuildResult,
}

pub(super) fn subjects() -> [Box<dyn Subject>; 3] {
    [
        Box::new(Xorf { kind: "Xor8", against: XOR_EIGHT, build: |keys| Ok(Box::new(Xor8::from(keys))) }),
        Box::new(Xorf {
            kind: "BinaryFuse8",
            against: FUSE_EIGHT,
            build: |keys| Ok(Box::new(BinaryFuse8::try_from(keys)?)),
        }),
        Box::new(Xorf {
            kind: "BinaryFuse16",
            against: FUSE_SIXTEEN,
            build: |keys| Ok(Box::new(BinaryFuse16::try_from(keys)?)),
        }),
    ]
}

impl Subject for Xorf {
    fn label(&self) -> Label {
        let (kind, against) = (self.kind, self.against);
        Label { implementation: "xorf", kind, family: Family::Static, hash: HashUse::Given, isa: None, against }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        (self.build)(keys.numbers)
    }
}

impl Filter for Xor8 {
    /// The fingerprints, the seed and the block length.
    fn bytes(&self) -> u64 {
        self.fingerprints.len() as u64 + 16
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |key| self.contains(key))
    }
}

impl Filter for BinaryFuse8 {
    fn bytes(&self) -> u64 {
        (self.dma_fingerprints().len() + Self::DESCRIPTOR_LEN) as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |key| self.contains(key))
    }
}

impl Filter for BinaryFuse16 {
    fn bytes(&self) -> u64 {
        (self.dma_fingerprints().len() + Self::DESCRIPTOR_LEN) as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |key| self.contains(key))
    }
}
