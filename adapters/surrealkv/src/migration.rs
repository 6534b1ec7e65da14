//! Keeping the name of an old policy: its filters stay in use, and new filters are blocks that it takes for "maybe".
//!
//! A filter of either of the engine's policies ends with one byte, the number of probes. Behind our block follows one
//! more byte, too, with a value that the old policy never writes, and for which it answers "may contain" without a look
//! at the other bytes:
//!
//! | old policy | its last byte | ours | why the old policy answers "may contain" |
//! |---|---|---|---|
//! | `leveldb.BloomFilter` | 1 to 30 | 255 | more than 30 probes are reserved for other encodings (`LevelDB`, `util/bloom.cc`) |
//! | `surrealkv.RibbonFilter` | 1 to 16 | 0 | it makes no probe (`SurrealKV` 1.0 to 1.2, `src/sstable/ribbon.rs`); 255 would be 255 probes, and lose keys |
//!
//! So a program without this package can open the store again at any time.

use core::fmt;
use std::sync::Arc;

use sstfilter::{BuildContext, FixedPolicy, KeyHasher};
use surrealkv::FilterPolicy;

/// What is known of the filters of an old policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OldFormat {
    name: &'static str,
    /// The byte behind our block.
    closing: u8,
    /// The last byte of the old policy's filters.
    probes: (u8, u8),
    /// The bytes before it are a multiple of this, and at least this.
    unit_bytes: usize,
}

const OLD_FORMATS: [OldFormat; 2] = [
    OldFormat { name: "leveldb.BloomFilter", closing: 0xff, probes: (1, 30), unit_bytes: 1 },
    OldFormat { name: "surrealkv.RibbonFilter", closing: 0, probes: (1, 16), unit_bytes: 64 },
];

/// Bytes from the magic number of a block to the block's end. It keeps its place in every version of the format.
const MAGIC_FROM_END: usize = 6;

const MAGIC: &[u8] = b"SF";

/// What the old policy takes for "maybe", in place of a filter that could not be built: as short as no block is.
const NO_BLOCK: [u8; 64] = [0; 64];

/// A policy whose filters are still read.
#[derive(Clone)]
pub(crate) struct Migration {
    policy: Arc<dyn FilterPolicy>,
    format: OldFormat,
}

/// Whose bytes a filter is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// Ours, or closed like ours; without the closing byte.
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
        let migration = Self { policy, format };
        if migration.is_safe() { Ok(migration) } else { Err(MigrationError::NotSafe { name: format.name }) }
    }

    /// Whether the policy is what its name says: it must take blocks for "maybe", and never end a filter like one.
    /// With 100 probes each, filters of 1 and of 2,000 keys find a policy that reads the bits of a block, because half
    /// of those are clear.
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

    /// The bytes to store for a block, or for none. `surrealkv.RibbonFilter` answers "absent" for filters of less than
    /// 64 bytes; a shorter block, which Bloom and Ribbon never have, is not stored.
    pub(crate) fn close(&self, block: Option<&[u8]>) -> Vec<u8> {
        let block = block.filter(|block| block.len() >= self.format.unit_bytes).unwrap_or(&NO_BLOCK);
        let mut closed = Vec::with_capacity(block.len() + 1);
        closed.extend_from_slice(block);
        closed.push(self.format.closing);
        closed
    }

    #[inline]
    pub(crate) fn origin<'a>(&self, filter: &'a [u8]) -> Origin<'a> {
        let Some((&last, before)) = filter.split_last() else { return Origin::Foreign };
        if last == self.format.closing {
            return Origin::Block(before);
        }
        // A block without its closing byte, or with another one, must not be read as an old filter.
        if ends_like_a_block(filter) || ends_like_a_block(before) || !self.is_well_formed(last, before.len()) {
            return Origin::Foreign;
        }
        Origin::Old
    }

    /// Both of the engine's policies answer "absent" for filters that are too short for them.
    fn is_well_formed(&self, probes: u8, bytes: usize) -> bool {
        let (least, most) = self.format.probes;
        let unit_bytes = self.format.unit_bytes;
        (least..=most).contains(&probes) && bytes >= unit_bytes && bytes.is_multiple_of(unit_bytes)
    }
}

/// One old filter in 32,768 does by chance, and is then not used.
fn ends_like_a_block(bytes: &[u8]) -> bool {
    let start = bytes.len().checked_sub(MAGIC_FROM_END);
    start.and_then(|start| bytes.get(start..start + MAGIC.len())) == Some(MAGIC)
}

impl fmt::Debug for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migration").field("format", &self.format).finish_non_exhaustive()
    }
}

/// Why a policy cannot be migrated from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigrationError {
    /// A policy whose filters this package does not know.
    UnknownPolicy {
        /// Its name.
        name: String,
    },
    /// A policy with a known name that answers "absent" for this package's blocks, or whose filters end like them:
    /// another policy of that name.
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
