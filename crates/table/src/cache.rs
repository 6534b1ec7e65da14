//! Data blocks in memory, shared by all tables of a store.

use core::fmt;
use core::hash::{BuildHasher, BuildHasherDefault, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::{Arc, LazyLock};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::headed::HeadedBlock;

/// Which data block: of which open table, and where.
///
/// Tables are told apart by a number that each gets when it is opened. Rejected: the table's id, which would keep
/// blocks from one opening to the next. Ids can repeat, or be forged, and a block of the other table would answer: it
/// is searched by what its neighbours in its own table leave to be compared, and a checksum of it can be forged as
/// well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    pub(super) table: u64,
    pub(super) offset: u64,
}

/// The number of an open table in the keys of its blocks, which no other table of the process ever has, and which is
/// secret: whoever makes a table chooses the other half of these keys.
pub(crate) fn next_table_number() -> u64 {
    static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
    static OTHERS: AtomicU64 = AtomicU64::new(0);
    FIRST.wrapping_add(OTHERS.fetch_add(1, Ordering::Relaxed))
}

/// A data block whose checksum and place in its table have been checked. Clones share its memory.
#[derive(Clone)]
pub struct CachedBlock(pub(super) Arc<HeadedBlock>);

impl CachedBlock {
    /// Bytes of the block in memory, with 12 for each entry by which lookups find it.
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
/// [`BoundedBlockCache`] is one; an engine that has a cache of its own implements this trait for it. A cache may forget
/// a block at any time. It must return a block only for the key that it was inserted with.
///
/// A lookup searches the cache once, and so does each key of a `multi_get`; a key whose block was missing then searches
/// it again only if another key of the batch has read that block in the meantime.
pub trait BlockCache: fmt::Debug + Send + Sync {
    /// The block of `key`, if the cache has it.
    fn get(&self, key: &BlockKey) -> Option<CachedBlock>;

    /// Offers a block that has just been read and checked.
    fn insert(&self, key: BlockKey, block: CachedBlock);
}

/// A cache of a fixed number of bytes, shared by threads. Blocks that are used again stay longer than others (S3-FIFO).
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
    /// An empty cache of at most `max_bytes` of blocks.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        // The usual block of 4 KiB; another size costs the cache's table some growth or some slack.
        let blocks = usize::try_from(max_bytes / 4096).unwrap_or(usize::MAX).min(1 << 20);
        Self(Cache::with(blocks, max_bytes, BlockBytes, BuildHasherDefault::default(), DefaultLifecycle::default()))
    }

    /// Bytes of the blocks in the cache.
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

/// Hashes the two numbers of a key by a multiplication each, in a tenth of the time of the standard library's hash of
/// bytes. It needs no secret of its own, because the number of a table is one.
#[derive(Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves of a product")]
    fn write_u64(&mut self, number: u64) {
        // The fraction of the golden ratio, as in Fibonacci hashing; both halves of the product depend on all bits.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
