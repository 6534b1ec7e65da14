//! One SST's filter, as SlateDB's cache holds it.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use slatedb::{Filter, FilterQuery};
use sstfilter::FilterBlock;

use crate::keys::Hashing;
use crate::range::{FilterRange, RangeError};
use crate::stats::{Counters, Event, Unusable};

/// What a policy and its filters share.
pub(crate) struct Shared {
    pub(crate) hashing: Hashing,
    pub(crate) counters: Arc<Counters>,
}

/// A filter that answers queries, or the bytes of one that cannot.
#[derive(Clone)]
pub(crate) struct SlateFilter {
    shared: Arc<Shared>,
    stored: Arc<Stored>,
}

/// The filter's bytes are copied exactly once, so that the cache is charged what is allocated.
#[expect(clippy::large_enum_variant, reason = "nearly all filters are usable")]
enum Stored {
    Usable { range: FilterRange, block: FilterBlock<Bytes> },
    Unusable { reason: Unusable, bytes: Bytes },
}

impl SlateFilter {
    /// A filter just built: `block` needs no verification.
    pub(crate) fn built(shared: Arc<Shared>, range: FilterRange, block: &[u8]) -> Self {
        let stored = match FilterBlock::open_unverified(Bytes::copy_from_slice(block)) {
            Ok(block) => Stored::Usable { range, block },
            Err(error) => Stored::Unusable { reason: error.into(), bytes: Bytes::new() },
        };
        Self { shared, stored: Arc::new(stored) }
    }

    /// An SST that gets no filter. It is stored as no bytes.
    pub(crate) fn none(shared: Arc<Shared>) -> Self {
        let stored = Stored::Unusable { reason: Unusable::NoFilter, bytes: Bytes::new() };
        Self { shared, stored: Arc::new(stored) }
    }

    /// The filter in stored bytes, whatever they are.
    pub(crate) fn decode(shared: Arc<Shared>, data: &[u8]) -> Self {
        let stored = match load(&shared.hashing, data) {
            Ok((range, block)) => {
                shared.counters.add(Event::Decoded, 1);
                Stored::Usable { range, block }
            }
            Err(reason) => {
                shared.counters.add(reason.event(), 1);
                Stored::Unusable { reason, bytes: Bytes::copy_from_slice(data) }
            }
        };
        Self { shared, stored: Arc::new(stored) }
    }

    /// Bytes that [`Filter::encode`] writes.
    pub(crate) fn encoded_bytes(&self) -> usize {
        match self.stored.as_ref() {
            Stored::Usable { range, block } => range.encoded_bytes() + block.as_bytes().len(),
            Stored::Unusable { bytes, .. } => bytes.len(),
        }
    }

    /// The block, or why there is none.
    pub(crate) fn block(&self) -> Result<&FilterBlock<Bytes>, &Unusable> {
        match self.stored.as_ref() {
            Stored::Usable { block, .. } => Ok(block),
            Stored::Unusable { reason, .. } => Err(reason),
        }
    }

    /// Whether the filter can be that of an SST with this key.
    pub(crate) fn may_hold(&self, key: &Bytes) -> bool {
        let Stored::Usable { range, block } = self.stored.as_ref() else { return true };
        let mut stored = self.shared.hashing.stored(key);
        range.admits_key(key) && stored.all(|hash| block.may_contain(hash))
    }

    fn may_match_counted(&self, event: Event) -> bool {
        self.shared.counters.add(event, 1);
        true
    }
}

fn load(hashing: &Hashing, data: &[u8]) -> Result<(FilterRange, FilterBlock<Bytes>), Unusable> {
    if data.is_empty() {
        return Err(Unusable::NoFilter);
    }
    let (range, block) = FilterRange::decode(data)?;
    let block = FilterBlock::load(Bytes::copy_from_slice(block), &hashing.hasher)?;
    Ok((range, block))
}

impl From<RangeError> for Unusable {
    fn from(error: RangeError) -> Self {
        match error {
            RangeError::Damaged => Self::Damaged("the header with the key range is damaged".to_owned()),
            RangeError::Version(version) => {
                Self::Unsupported(format!("header of version 1 expected, version {version} found"))
            }
        }
    }
}

impl Filter for SlateFilter {
    fn might_match(&self, query: &FilterQuery) -> bool {
        match self.stored.as_ref() {
            Stored::Unusable { .. } => self.may_match_counted(Event::UnusableProbes),
            Stored::Usable { range, .. } if !range.admits(&query.target) => {
                self.may_match_counted(Event::ForeignProbes)
            }
            Stored::Usable { block, .. } => {
                self.shared.hashing.query(&query.target).is_none_or(|hash| block.may_contain(hash))
            }
        }
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        match self.stored.as_ref() {
            Stored::Usable { range, block } => {
                writer.put_slice(&range.encode());
                writer.put_slice(block.as_bytes());
            }
            // A cache on disk gets back what was read: a newer reader may be able to use it.
            Stored::Unusable { bytes, .. } => writer.put_slice(bytes),
        }
    }

    /// What the filter keeps in memory, but for two reference counts (32 bytes).
    fn size(&self) -> usize {
        size_of::<Self>() + size_of::<Stored>() + self.encoded_bytes()
    }

    /// The same filter: nothing is over-allocated.
    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use slatedb::{FilterPolicy, RowEntry, ValueDeletable};

    use super::*;
    use crate::SlateFilters;
    use crate::policy::SlatePolicy;

    fn key(number: u32) -> Bytes {
        format!("key-{number:08}").into_bytes().into()
    }

    /// The encoded filter of keys 0 to 1,999.
    fn encoded(policy: &SlatePolicy) -> Vec<u8> {
        let mut builder = policy.builder();
        for number in 0..2_000 {
            let value = ValueDeletable::Tombstone;
            builder.add_entry(&RowEntry { key: key(number), value, seq: 1, create_ts: None, expire_ts: None });
        }
        bytes_of(builder.build().as_ref())
    }

    fn bytes_of(filter: &dyn Filter) -> Vec<u8> {
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        bytes
    }

    fn may_match(filter: &dyn Filter, number: u32) -> bool {
        filter.might_match(&FilterQuery::point(key(number)))
    }

    /// A cache on disk stores what `encode` writes, and decodes it again.
    #[test]
    fn a_decoded_filter_is_encoded_as_it_was_whether_usable_or_not() {
        let policy = SlateFilters::default().uncounted_policy();
        let sound = encoded(&policy);
        let mut damaged = sound.clone();
        damaged[500] ^= 1;
        for bytes in [&sound[..], &damaged[..], &sound[..700], b"", b"not a filter"] {
            let filter = policy.decode(bytes);
            assert_eq!(bytes_of(filter.as_ref()), bytes);
            assert_eq!(bytes_of(filter.clamp_allocated_size().as_ref()), bytes);
            assert_eq!(filter.size(), filter.clamp_allocated_size().size());
            assert!(filter.size() > bytes.len());
            assert!((0..2_000).all(|number| may_match(filter.as_ref(), number)));
        }
    }

    #[test]
    fn only_a_whole_filter_answers_absent() {
        let policy = SlateFilters::default().uncounted_policy();
        let sound = encoded(&policy);
        let between = FilterQuery::point(Bytes::from_static(b"key-00000100-not-stored"));
        assert!(!policy.decode(&sound).might_match(&between));
        for length in 0..sound.len() {
            assert!(policy.decode(&sound[..length]).might_match(&between), "cut to {length}");
            assert!(policy.decode(&sound[sound.len() - length..]).might_match(&between), "last {length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe_to_decode_and_may_match(bytes: Vec<u8>, key in any::<Vec<u8>>()) {
            let filter = SlateFilters::default().uncounted_policy().decode(&bytes);
            assert!(filter.might_match(&FilterQuery::point(key.into())));
        }
    }
}
