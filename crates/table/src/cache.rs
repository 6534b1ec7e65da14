//! Data blocks in memory, shared by all tables of a store.

use core::fmt;
use core::hash::{BuildHasher, BuildHasherDefault, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::{Arc, LazyLock};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::headed::HeadedBlock;

/// Identifies a data block by an open table and an offset.
///
/// Each table gets a new number when it is opened. Rejected alternative: the table's id, which would keep blocks valid
/// when a table is reopened. Ids can repeat or be forged, and then a block of the other table would answer. Such a
/// block is searched without the prefix that its own table's index implies, and its checksum can be forged as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    pub(super) table: u64,
    pub(super) offset: u64,
}

/// Returns a number for an open table that no other table of the process ever gets. The first one is secret, because
/// whoever makes a table chooses the other half of the cache keys.
pub(crate) fn next_table_number() -> u64 {
    // `RandomState` is the standard library's only source of random numbers.
    static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
    static OTHERS: AtomicU64 = AtomicU64::new(0);
    FIRST.wrapping_add(OTHERS.fetch_add(1, Ordering::Relaxed))
}

/// A data block whose checksum and position have been checked. Clones share its memory.
#[derive(Clone)]
pub struct CachedBlock(pub(super) Arc<HeadedBlock>);

impl CachedBlock {
    /// Returns the bytes of the block in memory, including 12 per entry for searches.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
}

impl fmt::Debug for CachedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedBlock").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Keeps data blocks that lookups have read, for tables that are opened with
/// [`TableOptions::with_block_cache`](super::TableOptions::with_block_cache).
///
/// [`BoundedBlockCache`] is an implementation; an engine implements this trait for its own cache. A cache may evict a
/// block at any time. It must return a block only for the key that it was inserted with.
///
/// A lookup searches the cache once, and so does each key of a `multi_get`. After a miss, a key searches the cache
/// again only if another key of the batch has since read its block.
pub trait BlockCache: fmt::Debug + Send + Sync {
    /// Returns the block of `key`, if the cache contains it.
    fn get(&self, key: &BlockKey) -> Option<CachedBlock>;

    /// Offers a block that has just been read and checked.
    fn insert(&self, key: BlockKey, block: CachedBlock);
}

/// A thread-safe cache of bounded size. Blocks that are used again stay longer than others (S3-FIFO).
///
/// ```
/// use std::sync::{Arc, LazyLock};
/// use sstfilter_table::{BoundedBlockCache, Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// builder.add(b"apple", b"1")?;
/// let bytes = bytes::Bytes::from(builder.finish()?.0);
///
/// let cache = Arc::new(BoundedBlockCache::new(64 << 20));
/// let table = Table::open_source(bytes, &TableOptions::default().with_block_cache(cache))?;
/// assert_eq!(table.get(b"apple")?, table.get(b"apple")?);
/// assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (1, 1));
/// # Ok::<(), sstfilter_table::TableError>(())
/// ```
pub struct BoundedBlockCache(Cache<BlockKey, CachedBlock, BlockBytes, BuildHasherDefault<Mix>>);

impl BoundedBlockCache {
    /// Returns an empty cache of at most `max_bytes` of blocks.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        // Assumes the usual block of 4 KiB; for other sizes, the cache's table grows, or is larger than needed.
        let blocks = usize::try_from(max_bytes / 4096).unwrap_or(usize::MAX).min(1 << 20);
        Self(Cache::with(blocks, max_bytes, BlockBytes, BuildHasherDefault::default(), DefaultLifecycle::default()))
    }

    /// Returns the bytes of the blocks in the cache.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

impl BlockCache for BoundedBlockCache {
    fn get(&self, key: &BlockKey) -> Option<CachedBlock> {
        self.0.get(key)
    }

    fn insert(&self, key: BlockKey, block: CachedBlock) {
        self.0.insert(key, block);
    }
}

impl fmt::Debug for BoundedBlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedBlockCache")
            .field("bytes", &self.bytes())
            .field("max_bytes", &self.0.capacity())
            .finish_non_exhaustive()
    }
}

/// A block's weight in the cache.
#[derive(Clone)]
struct BlockBytes;

impl Weighter<BlockKey, CachedBlock> for BlockBytes {
    fn weight(&self, _: &BlockKey, block: &CachedBlock) -> u64 {
        block.bytes()
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

    // Required by the trait. The hash of a `BlockKey` only writes numbers.
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
