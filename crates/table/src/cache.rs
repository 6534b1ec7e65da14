//! Data blocks in memory, shared by all tables of a store.

use core::hash::{BuildHasher, BuildHasherDefault, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::{Arc, LazyLock};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::headed::HeadedBlock;

/// Data blocks that lookups have read, whose checksums and positions have been checked, by an open table's number and
/// an offset. Blocks that are used again stay longer than others (S3-FIFO).
///
/// Rejected alternative to the number: the table's id, which would keep blocks valid when a table is reopened. Ids can
/// repeat or be forged, and then a block of the other table would answer. Such a block is searched without the prefix
/// that its own table's index implies, and its checksum can be forged as well.
#[derive(Debug)]
pub(super) struct BlockCache(Cache<(u64, u64), Arc<HeadedBlock>, BlockBytes, BuildHasherDefault<Mix>>);

impl BlockCache {
    /// Returns an empty cache of at most `max_bytes` of blocks.
    pub(super) fn new(max_bytes: u64) -> Self {
        // Assumes the usual block of 4 KiB; for other sizes, the cache's table grows, or is larger than needed.
        let blocks = usize::try_from(max_bytes / 4096).unwrap_or(usize::MAX).min(1 << 20);
        Self(Cache::with(blocks, max_bytes, BlockBytes, BuildHasherDefault::default(), DefaultLifecycle::default()))
    }
}

/// The cache as one open table uses it.
pub(super) struct TableCache {
    blocks: Arc<BlockCache>,
    /// No other table of the process ever gets it.
    table: u64,
}

impl TableCache {
    pub(super) fn new(blocks: Arc<BlockCache>) -> Self {
        // Secret, because whoever makes a table chooses the other half of the keys. `RandomState` is the standard
        // library's only source of random numbers.
        static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
        static OTHERS: AtomicU64 = AtomicU64::new(0);
        Self { blocks, table: FIRST.wrapping_add(OTHERS.fetch_add(1, Ordering::Relaxed)) }
    }

    /// Returns the block at an offset of the table, if the cache contains it.
    pub(super) fn get(&self, offset: u64) -> Option<Arc<HeadedBlock>> {
        self.blocks.0.get(&(self.table, offset))
    }

    pub(super) fn insert(&self, offset: u64, block: HeadedBlock) {
        self.blocks.0.insert((self.table, offset), Arc::new(block));
    }
}

/// A block's weight in the cache.
#[derive(Clone)]
struct BlockBytes;

impl Weighter<(u64, u64), Arc<HeadedBlock>> for BlockBytes {
    fn weight(&self, _: &(u64, u64), block: &Arc<HeadedBlock>) -> u64 {
        block.memory_bytes()
    }
}

/// Hashes the two numbers of a key with one multiplication each, in a tenth of the time of the standard library's
/// hasher. It needs no secret, because the number of a table is secret.
#[derive(Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves of a product")]
    fn write_u64(&mut self, number: u64) {
        // The fraction of the golden ratio, as in Fibonacci hashing. Folding the halves of the product makes all bits
        // depend on all input bits.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    // Required by the trait. The hash of a key only writes numbers.
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
