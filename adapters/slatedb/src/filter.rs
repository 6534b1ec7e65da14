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

    /// Everything that the filter keeps in memory.
    fn size(&self) -> usize {
        size_of::<Self>() + size_of::<Stored>() + self.encoded_bytes()
    }

    /// The same filter: nothing is over-allocated.
    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(self.clone())
    }
}
