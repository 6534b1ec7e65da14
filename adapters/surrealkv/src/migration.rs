//! Migration under the name of an old policy: its filters stay in use, and it answers "may contain" for new filters.
//!
//! A filter of either engine policy ends with one byte, the number of probes. One more byte also follows our block. The
//! old policy never writes its value, and answers "may contain" for it without a look at the other bytes:
//!
//! | old policy | its last byte | ours | why the old policy answers "may contain" |
//! |---|---|---|---|
//! | `leveldb.BloomFilter` | 1 to 30 | 255 | more than 30 probes are reserved for other encodings (`util/bloom.cc`) |
//! | `surrealkv.RibbonFilter` | 1 to 16 | 0 | it makes no probe (see below) |
//!
//! With 255, `surrealkv.RibbonFilter` would make 255 probes and lose keys (`SurrealKV` 1.0 to 1.2,
//! `src/sstable/ribbon.rs`).
//!
//! A program without this package can therefore open the store at any time.

use core::fmt;
use std::sync::Arc;

use sstfilter::{BuildContext, FixedPolicy, KeyHasher};
use surrealkv::FilterPolicy;

/// The format of an old policy's filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OldFormat {
    name: &'static str,
    /// The byte behind our block.
    closing: u8,
    /// The last byte of the old policy's filters.
    probes: (u8, u8),
    /// The number of bytes before it is a positive multiple of this.
    unit_bytes: usize,
}

const OLD_FORMATS: [OldFormat; 2] = [
    OldFormat { name: "leveldb.BloomFilter", closing: 0xff, probes: (1, 30), unit_bytes: 1 },
    OldFormat { name: "surrealkv.RibbonFilter", closing: 0, probes: (1, 16), unit_bytes: 64 },
];

/// Bytes from a block's magic number to the block's end, fixed in every version of the format.
const MAGIC_FROM_END: usize = 6;

const MAGIC: &[u8] = b"SF";

/// Stands for a filter that could not be built. The old policy answers "may contain" for it, and it is shorter than any
/// block.
const NO_BLOCK: [u8; 64] = [0; 64];

/// An old policy whose filters are still read.
#[derive(Clone)]
pub(crate) struct Migration {
    policy: Arc<dyn FilterPolicy>,
    format: OldFormat,
}

/// The origin of a filter's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// A block of this package, or bytes that end like one; without the closing byte.
    Block(&'a [u8]),
    /// The old policy's.
    Old,
    /// Neither: the old policy could answer "absent".
    Foreign,
}

impl Migration {
    pub(crate) fn new(policy: Arc<dyn FilterPolicy>) -> Result<Self, MigrationError> {
        let name = policy.name();
        let format = OLD_FORMATS.into_iter().find(|format| format.name == name);
        let format = format.ok_or_else(|| MigrationError::UnknownPolicy { name: name.to_owned() })?;
        // The name is not enough: any policy can have it, and a wrong one would lose keys.
        let migration = Self { policy, format };
        if migration.is_safe() { Ok(migration) } else { Err(MigrationError::NotSafe { name: format.name }) }
    }

    /// Tests whether the policy behaves like the engine's policy of its name: it must answer "may contain" for blocks,
    /// and its filters must never end like one. With 100 probes each, filters of 1 and of 2,000 keys expose a policy
    /// that reads the bits of a block, because half of these are clear.
    fn is_safe(&self) -> bool {
        let key = |number: u32| number.to_be_bytes().to_vec();
        [1_u32, 2_000].into_iter().all(|keys| {
            let own: Vec<Vec<u8>> = (0..keys).map(key).collect();
            let mut builder = FixedPolicy::default().builder(&BuildContext::new(&KeyHasher::default()));
            own.iter().for_each(|key| builder.add_key(key));
            let block = self.close(builder.finish().block.as_deref());
            let is_maybe = (0..100).all(|number| self.policy.may_contain(&block, &key(number * 100)));
            is_maybe && self.origin(&self.policy.create_filter(&own)) == Origin::Old
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.format.name
    }

    pub(crate) fn policy(&self) -> &dyn FilterPolicy {
        &*self.policy
    }

    /// Returns the bytes to store for a block, or for none. `surrealkv.RibbonFilter` answers "absent" for filters of
    /// less than 64 bytes, so a shorter block, which Bloom and Ribbon never have, is not stored.
    pub(crate) fn close(&self, block: Option<&[u8]>) -> Vec<u8> {
        // Never fewer bytes than the old policy requires, for which it would answer "absent".
        let block = block.filter(|block| block.len() >= self.format.unit_bytes).unwrap_or(&NO_BLOCK);
        let mut closed = Vec::with_capacity(block.len() + 1);
        closed.extend_from_slice(block);
        closed.push(self.format.closing);
        closed
    }

    #[inline]
    pub(crate) fn origin<'a>(&self, filter: &'a [u8]) -> Origin<'a> {
        let Some((&last, before)) = filter.split_last() else { return Origin::Foreign };
        // First, because it decides alone: the old policy never writes this byte.
        if last == self.format.closing {
            return Origin::Block(before);
        }
        // A block without its closing byte, or with another one, must not be read as an old filter.
        if ends_like_a_block(filter) || ends_like_a_block(before) || !self.is_well_formed(last, before.len()) {
            return Origin::Foreign;
        }
        Origin::Old
    }

    /// Returns whether the old policy can have written such a filter. Both engine policies answer "absent" for filters
    /// that are too short for them.
    fn is_well_formed(&self, probes: u8, bytes: usize) -> bool {
        let (least, most) = self.format.probes;
        let unit_bytes = self.format.unit_bytes;
        (least..=most).contains(&probes) && bytes >= unit_bytes && bytes.is_multiple_of(unit_bytes)
    }
}

/// Returns whether bytes end like a block. One old filter in 32,768 does by chance, and is then not used.
fn ends_like_a_block(bytes: &[u8]) -> bool {
    let start = bytes.len().checked_sub(MAGIC_FROM_END);
    start.and_then(|start| bytes.get(start..start + MAGIC.len())) == Some(MAGIC)
}

impl fmt::Debug for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migration").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The reason why a migration from a policy is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigrationError {
    /// This package does not know the policy's filters.
    UnknownPolicy {
        /// Its name.
        name: String,
    },
    /// The policy has a known name, but answers "absent" for this package's blocks, or its filters end like them: it is
    /// another policy with that name.
    NotSafe {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for MigrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { name } => write!(
                f,
                "cannot migrate from the filter policy {name:?}: expected {:?} or {:?}; use the policy without \
                 migration, and old filters are replaced by compaction",
                OLD_FORMATS[0].name, OLD_FORMATS[1].name
            ),
            Self::NotSafe { name } => write!(
                f,
                "cannot migrate from this filter policy: it is named {name:?}, but does not take this package's \
                 blocks for \"may contain\" as the engine's own does"
            ),
        }
    }
}

impl core::error::Error for MigrationError {}
