//! The policy of range filters, in addition to that of point filters.
//!
//! It has its own name, so that SSTs keep their point filters when range filters are turned on or off. SlateDB stores
//! all filters of an SST in one section, and reads it at once.

use core::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::{Filter, FilterBuilder, FilterPolicy, FilterTarget, RowEntry};
use sstfilter::{BuildContext, BuildPurpose, KeyExtractor, KeyHasher, KeyRange, LoadContext};
use sstfilter_range::{RangeBuilder, RangeContext, RangeFilter, RangePolicy};

use crate::bounds::KeyBounds;
use crate::filter::{Scheme, SlateFilter};
use crate::policy::{DecodingPolicy, Ends};
use crate::stats::{Counters, Unusable};

/// The name under which SSTs store range filters. It names no code maps, hash functions or extractors: a block records
/// its own, and a block that does not match its reader is unusable.
pub(crate) const RANGE_NAME: &str = "sstfilter-range";

/// An estimate of a filter's bytes per key, for SlateDB's size estimates. At 1 %, ordered codes take 10 bits, hashed
/// ones 14 to 43.
const ESTIMATED_KEY_BYTES: usize = 2;

/// The loading and probing of range filters.
pub(crate) struct RangeScheme {
    pub(crate) hasher: KeyHasher,
    pub(crate) extractor: Option<Arc<dyn KeyExtractor>>,
    pub(crate) counters: Arc<Counters>,
}

impl RangeScheme {
    fn context<'a>(&'a self, known_keys: &'a [&'a [u8]]) -> RangeContext<'a> {
        RangeContext::new(LoadContext::new(&self.hasher).with_known_keys(known_keys), self.extractor.as_ref())
    }
}

impl Scheme for RangeScheme {
    type Block = RangeFilter<Bytes>;

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Loads a block that must contain the SST's first and last key. This finds an extractor or hash that changed
    /// without its name.
    fn load(&self, bounds: &KeyBounds, block: Bytes) -> Result<Self::Block, Unusable> {
        let keys: Vec<&[u8]> = bounds.whole_keys().collect();
        Ok(RangeFilter::load(block, self.context(&keys))?)
    }

    fn open(&self, block: Bytes) -> Result<Self::Block, Unusable> {
        Ok(RangeFilter::open_unverified(block, self.context(&[]))?)
    }

    fn bytes(block: &Self::Block) -> &[u8] {
        block.as_bytes()
    }

    /// Always true: a prefix is a range, and a key is a range of one key.
    fn can_answer(&self, _target: &FilterTarget) -> bool {
        true
    }

    fn may_match(&self, block: &Self::Block, target: &FilterTarget) -> bool {
        match target {
            FilterTarget::Point(key) => self.may_contain_range(block, key),
            FilterTarget::Prefix(prefix) => {
                // Only reached if another policy supports prefixes; otherwise SlateDB passes ranges.
                let end = KeyRange::prefix_upper_bound(prefix);
                block.may_contain_range(KeyRange { lower: Bound::Included(prefix), upper: slice(&end) })
            }
            FilterTarget::Range { lower, upper } => {
                block.may_contain_range(KeyRange { lower: slice(lower), upper: slice(upper) })
            }
        }
    }

    fn may_contain_range(&self, block: &Self::Block, key: &Bytes) -> bool {
        block.may_contain_range(key..=key)
    }
}

fn slice<T: AsRef<[u8]>>(end: &Bound<T>) -> Bound<&[u8]> {
    match end {
        Bound::Included(key) => Bound::Included(key.as_ref()),
        Bound::Excluded(key) => Bound::Excluded(key.as_ref()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The policy of range filters of one configuration.
pub(crate) struct SlateRangePolicy {
    scheme: Arc<RangeScheme>,
    policy: RangePolicy,
}

impl SlateRangePolicy {
    pub(crate) fn new(hasher: &KeyHasher, policy: RangePolicy, counters: Arc<Counters>) -> Self {
        let scheme = RangeScheme { hasher: hasher.clone(), extractor: policy.extractor().cloned(), counters };
        Self { scheme: Arc::new(scheme), policy }
    }
}

impl DecodingPolicy for SlateRangePolicy {
    type Scheme = RangeScheme;

    fn decode_filter(&self, data: &[u8]) -> SlateFilter<RangeScheme> {
        SlateFilter::decode(Arc::clone(&self.scheme), data)
    }
}

impl FilterPolicy for SlateRangePolicy {
    fn name(&self) -> &str {
        RANGE_NAME
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        // SlateDB does not tell a builder whether it flushes or compacts.
        let context = BuildContext::new(&self.scheme.hasher).with_purpose(BuildPurpose::Compaction);
        let builder = Some(self.policy.builder(&context));
        Box::new(SlateRangeBuilder { scheme: Arc::clone(&self.scheme), builder, ends: Ends::default() })
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(self.decode_filter(data))
    }

    fn estimate_size(&self, num_keys: usize) -> usize {
        num_keys.saturating_mul(ESTIMATED_KEY_BYTES)
    }

    fn supports_range_queries(&self) -> bool {
        true
    }

    /// Returns false, although range filters answer prefixes. If no policy supports them, SlateDB passes the range of
    /// the scan, cut to the SST and to the scanned part of the prefix, which is more precise.
    fn supports_prefix_queries(&self) -> bool {
        false
    }
}

/// Collects the rows of one SST, which come in key order.
struct SlateRangeBuilder {
    scheme: Arc<RangeScheme>,
    /// `None` after the build.
    builder: Option<RangeBuilder>,
    ends: Ends,
}

impl FilterBuilder for SlateRangeBuilder {
    /// Adds a row's key once: versions, tombstones and merge operands count as the key. SlateDB has no range
    /// tombstones. If keys are not in bytewise order, or an extractor or hash function panics, there is no filter.
    fn add_entry(&mut self, entry: &RowEntry) {
        if self.ends.add(&entry.key)
            && let Some(builder) = &mut self.builder
        {
            builder.add_key(&entry.key);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        let built = self.builder.take().map(RangeBuilder::finish);
        Arc::new(SlateFilter::built(&self.scheme, built, self.ends.take()))
    }
}
