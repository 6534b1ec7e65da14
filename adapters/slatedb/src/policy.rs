//! The policy that SlateDB calls, and its builder.

use std::sync::Arc;

use bytes::Bytes;
use slatedb::{Filter, FilterBuilder, FilterPolicy, RowEntry};
use sstfilter::{BuildPurpose, FixedPolicy};

use crate::filter::{PointScheme, Scheme, SlateFilter};

/// A policy that exposes the state of its filters.
pub(crate) trait DecodingPolicy: FilterPolicy + 'static {
    type Scheme: Scheme;

    fn decode_filter(&self, data: &[u8]) -> SlateFilter<Self::Scheme>;
}

/// The policy of point filters of one configuration.
pub(crate) struct SlatePolicy {
    pub(crate) scheme: Arc<PointScheme>,
    pub(crate) kind: FixedPolicy,
    pub(crate) name: String,
}

impl SlatePolicy {
    pub(crate) fn new(scheme: Arc<PointScheme>, kind: FixedPolicy) -> Self {
        let name = scheme.hashing.name();
        Self { scheme, kind, name }
    }
}

impl DecodingPolicy for SlatePolicy {
    type Scheme = PointScheme;

    fn decode_filter(&self, data: &[u8]) -> SlateFilter<PointScheme> {
        SlateFilter::decode(Arc::clone(&self.scheme), data)
    }
}

impl FilterPolicy for SlatePolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        let context = self.scheme.hashing.build_context().with_purpose(BuildPurpose::Compaction);
        let builder = Some(self.kind.builder(&context));
        Box::new(SlateBuilder { scheme: Arc::clone(&self.scheme), builder, ends: Ends::default() })
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(self.decode_filter(data))
    }

    fn estimate_size(&self, num_keys: usize) -> usize {
        let block = self.kind.block_bytes(num_keys as u64).unwrap_or(0);
        usize::try_from(block).unwrap_or(usize::MAX)
    }

    fn supports_prefix_queries(&self) -> bool {
        self.scheme.hashing.keys.has_prefixes()
    }
}

/// Collects the rows of one SST, which come in key order.
struct SlateBuilder {
    scheme: Arc<PointScheme>,
    /// `None` after the build.
    builder: Option<Box<dyn sstfilter::BlockBuilder>>,
    ends: Ends,
}

impl FilterBuilder for SlateBuilder {
    /// Adds a row's key once: versions, tombstones and merge operands count as the key. If an extractor or hash
    /// function panics, there is no filter.
    fn add_entry(&mut self, entry: &RowEntry) {
        if self.ends.add(&entry.key)
            && let Some(builder) = &mut self.builder
        {
            builder.add_key(&entry.key);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        let built = self.builder.take().map(sstfilter::BlockBuilder::finish);
        Arc::new(SlateFilter::built(&self.scheme, built, self.ends.take()))
    }
}

/// The first and the last key of an SST so far.
#[derive(Debug, Default)]
pub(crate) struct Ends(Option<(Bytes, Bytes)>);

impl Ends {
    /// Adds a key. Returns whether it differs from the one before.
    pub(crate) fn add(&mut self, key: &Bytes) -> bool {
        match &mut self.0 {
            Some((_, last)) if last == key => return false,
            Some((_, last)) => *last = key.clone(),
            None => self.0 = Some((key.clone(), key.clone())),
        }
        true
    }

    pub(crate) fn take(&mut self) -> Option<(Bytes, Bytes)> {
        self.0.take()
    }
}
