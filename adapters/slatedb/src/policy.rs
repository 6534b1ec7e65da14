//! The policy that SlateDB calls, and its builder.

use std::sync::Arc;

use bytes::Bytes;
use slatedb::{Filter, FilterBuilder, FilterPolicy, PrefixTarget, RowEntry};
use sstfilter::{BuildContext, BuildPurpose, KindPolicy};

use crate::filter::{Shared, SlateFilter};
use crate::keys::Extracted;
use crate::range::FilterRange;

/// Filters of one configuration, for SlateDB.
pub(crate) struct SlatePolicy {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kind: KindPolicy,
    pub(crate) name: String,
}

impl SlatePolicy {
    pub(crate) fn new(shared: Arc<Shared>, kind: KindPolicy) -> Self {
        let name = shared.hashing.name();
        Self { shared, kind, name }
    }

    pub(crate) fn decode_filter(&self, data: &[u8]) -> SlateFilter {
        SlateFilter::decode(Arc::clone(&self.shared), data)
    }
}

impl FilterPolicy for SlatePolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        let context = BuildContext::new(&self.shared.hashing.hasher).with_purpose(BuildPurpose::Compaction);
        Box::new(SlateBuilder {
            shared: Arc::clone(&self.shared),
            state: State::Complete(self.kind.builder(&context)),
            bounds: None,
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
        self.shared.hashing.keys.extractor().is_some()
    }
}

/// Collects the rows of one SST, which come in key order.
struct SlateBuilder {
    shared: Arc<Shared>,
    state: State,
    /// The first and the last key so far.
    bounds: Option<(Bytes, Bytes)>,
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
        let hashing = &self.shared.hashing;
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
        match &mut self.bounds {
            Some((_, last)) if *last == entry.key => return,
            Some((_, last)) => *last = entry.key.clone(),
            None => self.bounds = Some((entry.key.clone(), entry.key.clone())),
        }
        // Taken out while the extractor and the hash run, so that a panic in them leaves no filter that lacks a key.
        if let State::Complete(mut builder) = std::mem::replace(&mut self.state, State::Abandoned)
            && self.add_key(builder.as_mut(), &entry.key).is_some()
        {
            self.state = State::Complete(builder);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        let shared = Arc::clone(&self.shared);
        let (State::Complete(builder), Some((first, last))) =
            (std::mem::replace(&mut self.state, State::Abandoned), self.bounds.take())
        else {
            self.shared.counters.add_built(None, 0);
            return Arc::new(SlateFilter::none(shared));
        };
        let built = builder.finish();
        let Some(block) = built.block else {
            self.shared.counters.add_built(None, 0);
            return Arc::new(SlateFilter::none(shared));
        };
        let filter = SlateFilter::built(shared, FilterRange::new(&first, &last), &block);
        self.shared.counters.add_built(built.report.used, filter.encoded_bytes());
        Arc::new(filter)
    }
}
