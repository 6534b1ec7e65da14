//! The policy that SlateDB calls, and its builder.

use std::sync::Arc;

use bytes::Bytes;
use slatedb::{Filter, FilterBuilder, FilterPolicy, PrefixTarget, RowEntry};
use sstfilter::{BuildContext, BuildPurpose, KindPolicy};

use crate::filter::{PointScheme, Scheme, SlateFilter};
use crate::keys::Extracted;

/// A policy whose filters can be looked into.
pub(crate) trait DecodingPolicy: FilterPolicy + 'static {
    type Scheme: Scheme;

    fn decode_filter(&self, data: &[u8]) -> SlateFilter<Self::Scheme>;
}

/// Filters of one configuration, for SlateDB.
pub(crate) struct SlatePolicy {
    pub(crate) scheme: Arc<PointScheme>,
    pub(crate) kind: KindPolicy,
    pub(crate) name: String,
}

impl SlatePolicy {
    pub(crate) fn new(scheme: Arc<PointScheme>, kind: KindPolicy) -> Self {
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
        let context = BuildContext::new(&self.scheme.hashing.hasher).with_purpose(BuildPurpose::Compaction);
        Box::new(SlateBuilder {
            scheme: Arc::clone(&self.scheme),
            state: State::Complete(self.kind.builder(&context)),
            ends: Ends::default(),
            last_prefix: None,
        })
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(self.decode_filter(data))
    }

    fn estimate_size(&self, num_keys: usize) -> usize {
        let block = self.kind.block_bytes(num_keys as u64).unwrap_or(0);
        usize::try_from(block).unwrap_or(usize::MAX)
    }

    fn supports_prefix_queries(&self) -> bool {
        self.scheme.hashing.keys.extractor().is_some()
    }
}

/// Collects the rows of one SST, which come in key order.
struct SlateBuilder {
    scheme: Arc<PointScheme>,
    state: State,
    ends: Ends,
    last_prefix: Option<Bytes>,
}

enum State {
    /// The builder has every row so far.
    Complete(Box<dyn sstfilter::FilterBuilder>),
    /// A row may be missing, or the filter was built: there will be no filter.
    Abandoned,
}

impl SlateBuilder {
    /// Adds a key that differs from the one before. `None` when the extractor breaks its contract.
    fn add_key(&mut self, builder: &mut dyn sstfilter::FilterBuilder, key: &Bytes) -> Option<()> {
        let hashing = &self.scheme.hashing;
        if let Some(hash) = hashing.whole_key(key) {
            builder.add_hash(hash);
        }
        match hashing.extract(&PrefixTarget::Point(key.clone())) {
            Some(Extracted::TooLong) => return None,
            Some(Extracted::Prefix(prefix)) if self.last_prefix.as_ref() != Some(&prefix) => {
                builder.add_hash(hashing.prefix(&prefix));
                self.last_prefix = Some(prefix);
            }
            Some(Extracted::Prefix(_)) | None => {}
        }
        Some(())
    }
}

impl FilterBuilder for SlateBuilder {
    /// Versions of one key, tombstones and merge operands all count as the key.
    fn add_entry(&mut self, entry: &RowEntry) {
        if !self.ends.add(&entry.key) {
            return;
        }
        // Taken out while the extractor and the hash run, so that a panic in them leaves no filter that lacks a key.
        if let State::Complete(mut builder) = std::mem::replace(&mut self.state, State::Abandoned)
            && self.add_key(builder.as_mut(), &entry.key).is_some()
        {
            self.state = State::Complete(builder);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        let built = match std::mem::replace(&mut self.state, State::Abandoned) {
            State::Complete(builder) => Some(builder.finish()),
            State::Abandoned => None,
        };
        Arc::new(SlateFilter::built(&self.scheme, built, self.ends.take()))
    }
}

/// The first and the last key of an SST so far.
#[derive(Debug, Default)]
pub(crate) struct Ends(Option<(Bytes, Bytes)>);

impl Ends {
    /// Whether `key` is another than the one before.
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
