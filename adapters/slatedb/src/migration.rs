//! Reads filters of SlateDB's own policy without writing more of them.

use std::sync::Arc;

use bytes::BufMut;
use slatedb::{BloomFilterPolicy, Filter, FilterBuilder, FilterPolicy, FilterQuery, RowEntry};

/// SlateDB's Bloom policy, for reading only; new SSTs get a stub under its name.
#[derive(Debug)]
pub(crate) struct ReadOnlyBloom(pub(crate) BloomFilterPolicy);

/// A filter that is positive for every query.
///
/// It is stored as a Bloom filter of no probes over one byte: SlateDB's decoder panics at fewer than two bytes, and a
/// filter without bits would answer "absent".
struct Stub;

const STUB: [u8; 3] = [0, 0, 0];

impl FilterPolicy for ReadOnlyBloom {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(Stub)
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        // SlateDB's decoder would panic at fewer than two bytes.
        if data.len() < STUB.len() {
            return Arc::new(Stub);
        }
        self.0.decode(data)
    }

    fn estimate_size(&self, _num_keys: usize) -> usize {
        STUB.len()
    }

    fn supports_prefix_queries(&self) -> bool {
        self.0.supports_prefix_queries()
    }
}

impl FilterBuilder for Stub {
    fn add_entry(&mut self, _entry: &RowEntry) {}

    fn build(&mut self) -> Arc<dyn Filter> {
        Arc::new(Stub)
    }
}

impl Filter for Stub {
    fn might_match(&self, _query: &FilterQuery) -> bool {
        true
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        writer.put_slice(&STUB);
    }

    fn size(&self) -> usize {
        STUB.len()
    }

    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(Stub)
    }
}
