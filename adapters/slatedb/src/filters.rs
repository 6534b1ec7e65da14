//! The configuration of a store's filters, for every process that opens it.

use core::fmt;
use std::sync::Arc;

use slatedb::{BloomFilterPolicy, CompactionWorkerBuilder, CompactorBuilder, DbBuilder, DbReaderBuilder, FilterPolicy};
use slatedb_common::metrics::MetricsRecorder;
use sstfilter::{FalsePositiveRate, FixedPolicy, KeyHasher};
use sstfilter_range::RangePolicy;

use crate::filter::PointScheme;
use crate::keys::{FilteredKeys, Hashing};
use crate::migration::ReadOnlyBloom;
use crate::policy::SlatePolicy;
use crate::ranges::{RANGE_NAME, SlateRangePolicy};
use crate::stats::{Counters, SlateFilterStats};

/// The rate of SlateDB's Bloom filter at its default of 10 bits per key: six probes that each find a set bit with
/// probability 1 - e^(-6/10).
const BUILT_IN_RATE: f64 = 0.008_44;

/// The maximum number of keys for Ribbon inside [`Db`](slatedb::Db); larger SSTs get blocked Bloom. SlateDB builds a
/// filter in one poll of an async task, and a Ribbon filter of this size takes 7 ms with AVX-512 and 9 ms with AVX2.
const INLINE_RIBBON_KEYS: u64 = 1 << 18;

/// The filters of a store: one object that configures its [`Db`](slatedb::Db), its readers and its compactors alike.
///
/// Every process must use the same hasher and [`FilteredKeys`]. Everything else may differ and may change at any time,
/// because a stored filter describes itself.
///
/// By default, filters contain whole keys. They are Ribbon filters with the false positive rate of SlateDB's Bloom
/// filter at 10 bits per key, in 70 % of its bytes. An SST gets a blocked Bloom filter of that rate if Ribbon would not
/// be smaller, or if building Ribbon would keep other tasks waiting too long.
///
/// ```
/// use std::sync::Arc;
/// use slatedb::object_store::memory::InMemory;
/// use slatedb::{Db, DbReader};
/// use sstfilter_slatedb::SlateFilters;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = Arc::new(InMemory::new());
/// let filters = SlateFilters::default();
///
/// let db = filters.configure(Db::builder("store", store.clone())).build().await?;
/// db.put(b"key", b"value").await?;
/// db.flush().await?;
///
/// let reader = filters.configure(DbReader::builder("store", store)).build().await?;
/// assert_eq!(reader.get(b"key").await?.as_deref(), Some(&b"value"[..]));
/// # reader.close().await?;
/// # db.close().await?;
/// # Ok::<(), slatedb::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SlateFilters {
    hashing: Hashing,
    kind: FixedPolicy,
    inline_keys: u64,
    range: Option<RangePolicy>,
    beside: Vec<Arc<dyn FilterPolicy>>,
    counters: Arc<Counters>,
}

impl SlateFilters {
    /// Returns filters of whole keys, hashed by `hasher`.
    #[must_use]
    pub fn new(hasher: &KeyHasher) -> Self {
        let ribbon = FalsePositiveRate::new(BUILT_IN_RATE).and_then(FixedPolicy::ribbon);
        Self {
            hashing: Hashing { hasher: hasher.clone(), keys: FilteredKeys::default() },
            // Never the default: the rate is within Ribbon's range, and tests would show a fallback.
            kind: ribbon.unwrap_or_default(),
            inline_keys: INLINE_RIBBON_KEYS,
            range: None,
            beside: Vec::new(),
            counters: Arc::default(),
        }
    }

    /// Sets which parts of keys filters contain. Stored filters of other parts are not used.
    #[must_use]
    pub fn with_keys(mut self, keys: FilteredKeys) -> Self {
        self.hashing.keys = keys;
        self
    }

    /// Sets the kind and size of new filters.
    ///
    /// ```
    /// use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy};
    /// use sstfilter_slatedb::SlateFilters;
    ///
    /// let bloom = SlateFilters::default().with_kind(FixedPolicy::bloom(BitsPerKey::TEN)?);
    /// let precise = SlateFilters::default().with_kind(FixedPolicy::ribbon(FalsePositiveRate::new(0.001)?)?);
    /// # Ok::<(), sstfilter::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_kind(mut self, kind: FixedPolicy) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the maximum number of keys in an SST for which [`Db`](slatedb::Db) builds the kind; larger SSTs get blocked
    /// Bloom filters. The default is 262,144. Inside a `Db`, this replaces the kind's own
    /// [`with_max_keys`](FixedPolicy::with_max_keys). A standalone compactor has no such limit.
    #[must_use]
    pub fn with_inline_keys(mut self, keys: u64) -> Self {
        self.inline_keys = keys;
        self
    }

    /// Adds range filters to the point filters: scans then skip SSTs without a key in their range.
    ///
    /// They are off by default, because they cost requests and memory. SlateDB reads all filters of an SST together, so
    /// a point lookup reads more bytes and the cache holds more. A scan reads the filters of each SST before anything
    /// else, which is one more request for each SST that contains keys of the scan. Range filters pay off where SSTs
    /// overlap and scans are short: most SSTs whose range a scan meets then contain none of its keys.
    ///
    /// [`RangePolicy::ordered`] is for any keys and ranges of any length, [`RangePolicy::hashed`] for short ranges near
    /// existing keys, such as rows of one entity by time. Range filters also answer prefix scans, without a prefix
    /// extractor, and point lookups, after the point filter. The policy may change at any time, also from `ordered` to
    /// `hashed`. A stored filter that the new policy cannot read, because its extractor or seed differs, answers "may
    /// match".
    ///
    /// Range filters have their own name in an SST. Processes without this setting continue to use the point filters.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use slatedb::object_store::memory::InMemory;
    /// use slatedb::Db;
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter_range::RangePolicy;
    /// use sstfilter_slatedb::SlateFilters;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let store = Arc::new(InMemory::new());
    /// let filters = SlateFilters::default().with_range_filter(RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?);
    /// let db = filters.configure(Db::builder("store", store)).build().await?;
    /// let mut rows = db.scan("from".."to").await?;
    /// assert!(rows.next().await?.is_none());
    /// # db.close().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_range_filter(mut self, policy: RangePolicy) -> Self {
        self.range = Some(policy);
        self
    }

    /// Also reads the filters that SlateDB's own policy wrote, as long as SSTs with them exist.
    ///
    /// `old` must be the policy that wrote them, with its prefix extractor; use it in every process. [`OldBloom`]
    /// decides what new SSTs store.
    #[must_use]
    pub fn with_old_bloom(self, old: BloomFilterPolicy, new_ssts: OldBloom) -> Self {
        match new_ssts {
            OldBloom::Stub => self.with_policy_beside(Arc::new(ReadOnlyBloom(old))),
            OldBloom::Full => self.with_policy_beside(Arc::new(old)),
        }
    }

    /// Adds a user-defined policy, for instance one for timestamps in values. Each SST then has a filter of each
    /// policy, and is skipped if one of them is negative.
    #[must_use]
    pub fn with_policy_beside(mut self, policy: Arc<dyn FilterPolicy>) -> Self {
        self.beside.push(policy);
        self
    }

    /// Also counts into metrics of `recorder`, which should be the recorder of the builder to configure. A process with
    /// several recorders uses a clone of the filters for each.
    ///
    /// | metric | label |
    /// |---|---|
    /// | `sstfilter.slatedb.filters_built` | `kind`: `ribbon`, `blocked_bloom`, `range`, `other`, `none` |
    /// | `sstfilter.slatedb.filter_bytes_built` | |
    /// | `sstfilter.slatedb.filters_decoded` | `outcome`: `usable`, `damaged`, `unsupported`, `other_hash`, `none` |
    /// | `sstfilter.slatedb.unusable_probes` | |
    /// | `sstfilter.slatedb.foreign_probes` | |
    ///
    /// Builders that were configured before do not count into them.
    #[must_use]
    pub fn with_metrics_recorder(mut self, recorder: &dyn MetricsRecorder) -> Self {
        self.counters = Arc::new(Counters::with_recorder(recorder));
        self
    }

    /// Configures the builder of a [`Db`](slatedb::Db), a [`DbReader`](slatedb::DbReader), a standalone compactor or a
    /// compaction worker to write and read these filters. Replaces the builder's filter policies.
    #[must_use]
    pub fn configure<B: TakesFilters>(&self, builder: B) -> B {
        builder.with_policies(self.policies(B::PROCESS))
    }

    /// Returns the counts of this configuration and its clones in this process.
    #[must_use]
    pub fn stats(&self) -> SlateFilterStats {
        self.counters.snapshot()
    }

    /// Returns the name under which SSTs store the filters of points and prefixes.
    #[must_use]
    pub fn name(&self) -> String {
        self.hashing.name()
    }

    /// Returns the name under which SSTs store range filters, or `None` if there are none.
    #[must_use]
    pub fn range_name(&self) -> Option<&'static str> {
        self.range.as_ref().map(|_| RANGE_NAME)
    }

    fn policies(&self, process: Process) -> Vec<Arc<dyn FilterPolicy>> {
        let kind = match process {
            // A long build would delay the reads and writes that share the engine's threads.
            Process::Engine => self.kind.clone().with_max_keys(self.inline_keys),
            Process::Compactor => self.kind.clone(),
        };
        let scheme = PointScheme { hashing: self.hashing.clone(), counters: Arc::clone(&self.counters) };
        let points: Arc<dyn FilterPolicy> = Arc::new(SlatePolicy::new(Arc::new(scheme), kind));
        let ranges = self.range_policy(Arc::clone(&self.counters)).map(|policy| Arc::new(policy) as _);
        // Points first: a lookup probes the range filter only if the point filter is positive.
        [points].into_iter().chain(ranges).chain(self.beside.iter().cloned()).collect()
    }

    fn range_policy(&self, counters: Arc<Counters>) -> Option<SlateRangePolicy> {
        let policy = self.range.clone()?;
        Some(SlateRangePolicy::new(&self.hashing.hasher, policy, counters))
    }

    /// Returns a policy like that of [`configure`](Self::configure), with separate counters.
    pub(crate) fn uncounted_policy(&self) -> SlatePolicy {
        let scheme = PointScheme { hashing: self.hashing.clone(), counters: Arc::default() };
        SlatePolicy::new(Arc::new(scheme), self.kind.clone())
    }

    /// Returns a range policy like that of [`configure`](Self::configure), with separate counters.
    pub(crate) fn uncounted_range_policy(&self) -> Option<SlateRangePolicy> {
        self.range_policy(Arc::default())
    }
}

impl Default for SlateFilters {
    /// Returns filters of whole keys, hashed by the default [`KeyHasher`].
    fn default() -> Self {
        Self::new(&KeyHasher::default())
    }
}

impl fmt::Debug for SlateFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlateFilters")
            .field("name", &self.name())
            .field("kind", &self.kind)
            .field("inline_keys", &self.inline_keys)
            .field("range", &self.range)
            .field("beside", &self.beside.iter().map(|policy| policy.name()).collect::<Vec<_>>())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The filter that new SSTs store under the name of SlateDB's own Bloom policy while its filters are still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldBloom {
    /// A filter of three bytes that is positive for every key. A process without this crate's filters reads such SSTs
    /// like SSTs without filters, with one more read for the filter.
    Stub,
    /// A filter of the old policy in addition to the new one, for the bytes of both. Processes without this crate's
    /// filters lose no speed.
    Full,
}

/// The process that builds filters.
#[derive(Clone, Copy, Debug)]
pub enum Process {
    /// An engine, with its reads and writes, or a reader, which builds none.
    Engine,
    /// A process that only compacts.
    Compactor,
}

/// SlateDB's builders that take filter policies.
pub trait TakesFilters: sealed::Sealed {
    #[doc(hidden)]
    const PROCESS: Process;

    #[doc(hidden)]
    #[must_use]
    fn with_policies(self, policies: Vec<Arc<dyn FilterPolicy>>) -> Self;
}

mod sealed {
    /// Closed: SlateDB has four such builders.
    pub trait Sealed {}
}

macro_rules! takes_filters {
    ($($builder:ident [$($path:ident: $into:path)?] $process:ident,)+) => {
        $(
            impl<$($path: $into)?> sealed::Sealed for $builder<$($path)?> {}

            impl<$($path: $into)?> TakesFilters for $builder<$($path)?> {
                const PROCESS: Process = Process::$process;

                fn with_policies(self, policies: Vec<Arc<dyn FilterPolicy>>) -> Self {
                    self.with_filter_policies(policies)
                }
            }
        )+
    };
}

takes_filters! {
    DbBuilder [P: Into<slatedb::object_store::path::Path>] Engine,
    DbReaderBuilder [P: Into<slatedb::object_store::path::Path>] Engine,
    CompactorBuilder [P: Into<slatedb::object_store::path::Path>] Compactor,
    CompactionWorkerBuilder [P: Into<slatedb::object_store::path::Path>] Compactor,
}
