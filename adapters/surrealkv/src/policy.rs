//! The policy that the engine calls.

use core::fmt;
use std::sync::Arc;

use sstfilter::{BuildContext, FilterBlock, FixedPolicy, HashIdentity, KeyHash, KeyHasher, Sizing};
use surrealkv::FilterPolicy;

use crate::counters::{FilterCounters, Unusable};
use crate::migration::{Migration, MigrationError, Origin};
use crate::stripes::Reader;

/// The filter policy of a `SurrealKV` store: sstfilter's filters, one for each partition of a table's index.
///
/// The default is [`ribbon`](Self::ribbon). A filter that cannot be read answers "may contain" and is
/// [counted](Self::counters).
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::{FalsePositiveRate, KeyHasher, FixedPolicy};
/// use sstfilter_surrealkv::SstFilterPolicy;
/// use surrealkv::Options;
///
/// // One false positive in a thousand, and a seed that only this store knows: keep it, filters are useless without it.
/// let kind = FixedPolicy::ribbon(FalsePositiveRate::new(0.001)?)?;
/// let (hasher, seed) = KeyHasher::random_secret()?;
/// let policy = SstFilterPolicy::new(kind).with_hasher(hasher);
/// let options = Options::new().with_filter_policy(Some(Arc::new(policy)));
/// # let _ = (options, seed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SstFilterPolicy {
    kind: FixedPolicy,
    hasher: KeyHasher,
    name: String,
    migration: Option<Migration>,
    counters: FilterCounters,
}

impl SstFilterPolicy {
    /// Uses one of the library's kinds, of any rate or size. A user-defined kind is built, but not read.
    #[must_use]
    pub fn new(kind: FixedPolicy) -> Self {
        let hasher = KeyHasher::default();
        let name = name_for(hasher.identity());
        Self { kind, hasher, name, migration: None, counters: FilterCounters::default() }
    }

    /// Uses Ribbon with a false positive rate of 1 in 128 (0.78 %): below the 0.84 % of the engine's Bloom filter, in
    /// 71 % of its bytes. It takes ten times as long to build, which is little compared with the rest of a flush or
    /// compaction. Partitions of fewer than 1,024 keys get blocked Bloom of that rate.
    #[must_use]
    pub fn ribbon() -> Self {
        // Never the default: seven bits are within Ribbon's range.
        Self::new(FixedPolicy::ribbon(Sizing::FingerprintBits(7)).unwrap_or_default())
    }

    /// Uses blocked Bloom at 10 bits per key (0.97 %), the fastest to build and to probe.
    #[must_use]
    pub fn bloom() -> Self {
        Self::new(FixedPolicy::default())
    }

    /// Sets the hash of keys: a seed, a secret seed, or a user-defined function.
    ///
    /// Filters of another hash are not used. A store must keep its hash: two functions with one tag, or two secret
    /// seeds with one fingerprint (a chance of one in 2^32), would lose keys.
    #[must_use]
    pub fn with_hasher(mut self, hasher: KeyHasher) -> Self {
        self.name = name_for(hasher.identity());
        self.hasher = hasher;
        self
    }

    /// Replaces `old`, one of the engine's own policies: its filters are still read, and new filters are stored under
    /// its name, with one more byte. A program without this package can open the store; it answers "may contain" for
    /// new filters. By default, old filters are not used until compaction replaces them.
    ///
    /// It can stay on permanently. To turn it off, reopen the store with a policy without it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sstfilter_surrealkv::SstFilterPolicy;
    /// use surrealkv::Options;
    ///
    /// let options = Options::new(); // its policy is the engine's Bloom filter
    /// let old = options.filter_policy.clone().ok_or("a policy")?;
    /// let policy = SstFilterPolicy::ribbon().migrating_from(old)?;
    /// let options = options.with_filter_policy(Some(Arc::new(policy)));
    /// # let _ = options;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`MigrationError`] if `old` is neither the engine's default nor its `RibbonFilter`, or does not behave like
    /// them.
    pub fn migrating_from(self, old: Arc<dyn FilterPolicy>) -> Result<Self, MigrationError> {
        Ok(Self { migration: Some(Migration::new(old)?), ..self })
    }

    /// Returns the counters of this policy and its clones.
    #[must_use]
    pub fn counters(&self) -> FilterCounters {
        self.counters.clone()
    }

    /// Probes a block, without a closing byte, in constant time. Its payload is not verified, because the engine compared
    /// the checksum of its filter blocks when it read the bytes. `FilterBlock::probe` would do it again for each key.
    #[inline]
    fn probe(&self, block: &[u8], key: &[u8]) -> bool {
        match FilterBlock::probe_unverified(block, self.hasher.identity(), self.hasher.hash(key)) {
            Ok(answer) => {
                self.counters.count_answer(Reader::Block, answer);
                answer
            }
            Err(error) => self.unusable(Unusable::of(block, &error)),
        }
    }

    #[cold]
    fn unusable(&self, reason: Unusable) -> bool {
        self.counters.count_unusable(reason);
        true
    }

    /// Returns the bytes of a partition of `keys` keys.
    fn partition_bytes(&self, keys: usize) -> Option<u64> {
        // The engine's limit includes the byte behind a migrated block.
        let closing_bytes = u64::from(self.migration.is_some());
        Some(self.kind.block_bytes(keys as u64)? + closing_bytes)
    }
}

impl FilterPolicy for SstFilterPolicy {
    fn name(&self) -> &str {
        self.migration.as_ref().map_or(&self.name, Migration::name)
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        let Some(migration) = &self.migration else { return self.probe(filter, key) };
        match migration.origin(filter) {
            Origin::Block(block) => self.probe(block, key),
            Origin::Old => {
                let answer = migration.policy().may_contain(filter, key);
                self.counters.count_answer(Reader::Old, answer);
                answer
            }
            Origin::Foreign => self.unusable(Unusable::of_foreign(filter)),
        }
    }

    fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        let hashes: Vec<u64> = keys.iter().map(|key| self.key_hash(key)).collect();
        self.create_filter_from_hashes(&hashes)
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key).get()
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        let mut builder = self.kind.builder(&BuildContext::new(&self.hasher));
        // The hashes come from `key_hash`, which has mixed them.
        hashes.iter().for_each(|&hash| builder.add_hash(KeyHash::from_well_mixed(hash)));
        let built = builder.finish();
        let block = built.block.as_deref();
        let filter = match &self.migration {
            Some(migration) => migration.close(block),
            // Empty bytes are read as "may contain".
            None => block.unwrap_or_default().to_vec(),
        };
        self.counters.count_build(&built.report, filter.len());
        filter
    }

    /// Returns the maximum number of keys whose filter fits, by bisection.
    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        let fits = |keys| self.partition_bytes(keys).is_some_and(|bytes| bytes <= partition_bytes as u64);
        // No filter has less than one bit per key.
        let (mut most, mut too_many) = (1, partition_bytes.saturating_mul(8).saturating_add(2));
        while too_many - most > 1 {
            let middle = most.midpoint(too_many);
            if fits(middle) { most = middle } else { too_many = middle }
        }
        most
    }
}

impl Default for SstFilterPolicy {
    fn default() -> Self {
        Self::ribbon()
    }
}

impl fmt::Debug for SstFilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SstFilterPolicy");
        out.field("name", &self.name()).field("kind", &self.kind).field("hasher", &self.hasher);
        out.field("migration", &self.migration).field("counters", &self.counters.snapshot()).finish()
    }
}

/// Returns the name under which tables find their filters. It contains the hash and its seed, as a block's trailer
/// does.
fn name_for(HashIdentity { id, seed, .. }: HashIdentity) -> String {
    format!("sstfilter.hash{}.{seed:016x}", id.code())
}
