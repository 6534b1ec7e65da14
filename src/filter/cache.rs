//! The sizes from which filters are treated as larger than the nearer caches.
//!
//! A prefetch costs an address computation and a load slot for each key; it pays when the load would otherwise stall.
//! Out-of-order execution already overlaps the loads of several keys, so an operation with fewer branches on loaded
//! data has a higher limit. All limits are payload sizes, because a cache holds little else during a batch.
//!
//! The machine's cache sizes are not read: each operating system would need its own query, and near a limit both paths
//! cost about the same (in 250 KiB of Bloom lines a prefetch costs 0.1 ns per key, in 500 KiB it saves 0.5 ns).
//!
//! To measure a limit, set it to 0 and to `MAX`, and compare the batch rows of
//! `cargo bench -p sstfilter-benches --bench filters -- KIND` at sizes from a quarter of the limit to four times the
//! limit.

/// Batch probes prefetch in larger payloads: this is the smallest second-level cache in use (256 KiB to 2 MiB on CPUs
/// of the last ten years), because a needless prefetch costs less than a miss.
pub(crate) const PROBE_PREFETCH_BYTES: usize = 256 << 10;

/// Batch probes and inserts of cuckoo filters prefetch from this size on. A probe is two loads without a branch between
/// them; out-of-order execution overlaps them with later loads as long as all hit L2 or L3.
pub(crate) const CUCKOO_PREFETCH_BYTES: usize = 2 << 20;

/// Atomic inserts of many keys prefetch from this size on. An atomic OR waits for its cache line and blocks later ones,
/// so prefetches pay as soon as L2 misses. (Reads of the same words overlap, and are never prefetched.)
pub(crate) const ATOMIC_INSERT_PREFETCH_BYTES: usize = 512 << 10;

/// Plain inserts into a standard Bloom filter prefetch beyond this size. They do not branch on loaded data, so only
/// loads from memory are worth a prefetch.
pub(crate) const BIT_INSERT_PREFETCH_BYTES: usize = 16 << 20;

/// While keys are peeled, the cells of later keys are prefetched if all sums together are larger than this, and so come
/// from memory. In smaller arrays a prefetch costs a twelfth of the time; at 90 MiB it saves a sixth (binary fuse) to a
/// quarter (xor).
pub(crate) const PEEL_PREFETCH_BYTES: u64 = 8 << 20;

/// From this size on, hashes wait for their part of a blocked Bloom filter. It is several times the size that a
/// second-level cache or a TLB covers, so that each insert misses both, and no CPU has enough loads in flight to hide
/// that. At 12 MiB waiting saves a third of the time, at 5 MiB nothing.
pub(crate) const PARTITION_FROM_BYTES: u64 = 8 << 20;

/// How many keys ahead a key's part of a filter is prefetched: longer than a load from memory takes, and few enough
/// that the lines are still in the first-level cache. Constants that differ state their reason.
pub(crate) const KEYS_AHEAD: usize = 16;

/// Hashes in one slice are prefetched this many ahead of their use, 8 KiB: hardware prefetches end with each page, and
/// start again only after a miss.
pub(crate) const HASHES_AHEAD: usize = 1 << 10;

/// The part of a filter whose hashes wait together: small enough to stay in the second-level cache.
pub(crate) const PARTITION_BYTES: u64 = 256 << 10;
