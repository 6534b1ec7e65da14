//! Filters that share a number of bytes, of which each gets what prevents most useless reads.
//!
//! The filters of a large store do not fit into its memory, and a cache that keeps or drops them whole spends its bytes
//! badly: the first bits of a filter prevent far more reads than the last ones. A [`FilterBudget`] gives each file a
//! share by its use. Filters come into memory when they are probed; those that the plan gives fewer bytes are *shrunk*
//! ([`FilterBlock::shrunk_to`](crate::FilterBlock::shrunk_to)), and a cold file's go last to none. Everything is
//! reversible, because the whole filter stays in its file.
//!
//! Ribbon filters shrink best. Bloom filters should have numbers of lines that divide well
//! ([`BlockedBloomKind::with_fold`](crate::kind::BlockedBloomKind::with_fold)), and rather four probes than six.
//!
//! - A filter that is not in memory answers "may be present". No answer is ever "absent" for a key that is there.
//! - Readers do not wait. A thread that finds another one loading a filter goes on without it.
//! - One probe of a cold file displaces nothing: a plan, made after many probes, counts all that was used.
//!
//! ```
//! use std::sync::Arc;
//! use bytes::Bytes;
//! use sstfilter::budget::{FilterBudget, FilterLayout, FilterSource};
//! use sstfilter::{BlockError, BuildContext, FileId, FilterBlock, KeyHasher, KindPolicy, LoadContext};
//!
//! /// Reads a file's filter. Here the "file" is in memory.
//! #[derive(Debug)]
//! struct File { block: Bytes, id: FileId, hasher: KeyHasher }
//!
//! impl FilterSource for File {
//!     fn load(&self, _unit: u32) -> Result<FilterBlock<Bytes>, BlockError> {
//!         FilterBlock::load(self.block.clone(), LoadContext::new(&self.hasher).with_file_id(self.id))
//!     }
//! }
//!
//! let (hasher, id) = (KeyHasher::default(), FileId::random());
//! let mut builder = KindPolicy::default().builder(&BuildContext::new(&hasher).with_file_id(id));
//! (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
//! let block = builder.finish().block.unwrap_or_default();
//!
//! let budget = FilterBudget::new(64 << 10);
//! let layout = FilterLayout::Whole { bytes: block.len() as u64 };
//! let filter = budget.register(layout, Arc::new(File { block, id, hasher: hasher.clone() }));
//! assert_eq!(budget.stats().used_bytes, 0);
//!
//! let key = b"no such key";
//! assert!(filter.probe(key, hasher.hash(key)).is_absent());
//! assert!(budget.stats().used_bytes > 10_000, "the probe has loaded it");
//! ```

mod account;
mod curve;
mod file;
mod filter;
mod handle;
mod plan;
#[cfg(test)]
mod plan_tests;
mod pool;
mod registry;
mod state;
mod unit;

use core::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::block::FilterBlock;
use crate::error::BlockError;
use crate::partition::PartitionIndex;

pub use filter::{BudgetedFilter, BudgetedProbe, NotLoaded};
pub use handle::FilterBudget;
pub use state::{BudgetReason, BudgetStats, FileBudget, FilterState};

/// Where a file's filter is read from.
///
/// **A whole filter that is loaded is believed**: another file's is negative for nearly every key. Bind blocks to their
/// files, and load them with the file's known keys. Partitions are compared with the [`PartitionIndex`] of the layout,
/// and with the known keys that it was loaded for.
pub trait FilterSource: Send + Sync + Debug {
    /// Reads and verifies a block: the filter, as unit 0, or a partition by its number. Its length is that of the
    /// [`FilterLayout`], and its bytes should be an allocation of their own: a slice of a larger one keeps all of it in
    /// memory, and counts only itself.
    ///
    /// Called by threads that probe, one at a time for each unit. A panic is passed on to the probe's caller, and the
    /// filter is unusable until a later try.
    ///
    /// # Errors
    ///
    /// Whatever makes the block unusable: the filter then answers "may be present", and is tried again after 64 probes,
    /// and ever more rarely.
    fn load(&self, unit: u32) -> Result<FilterBlock<Bytes>, BlockError>;
}

/// What parts a filter has.
#[derive(Debug)]
#[non_exhaustive]
pub enum FilterLayout {
    /// One block.
    Whole {
        /// Its bytes.
        bytes: u64,
    },
    /// Partitions, of which each is a block that comes into memory and leaves it by itself. The source shares the
    /// index.
    Partitioned(Arc<PartitionIndex>),
}
