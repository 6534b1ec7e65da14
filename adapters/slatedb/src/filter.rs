//! One SST's filter in SlateDB's cache.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use slatedb::{Filter, FilterQuery, FilterTarget};
use sstfilter::{BuiltFilter, FilterBlock};

use crate::bounds::{BoundsError, KeyBounds};
use crate::keys::Hashing;
use crate::stats::{Counters, Event, Unusable};

/// The loading and probing of one family of blocks, shared by a policy and its filters.
pub(crate) trait Scheme: Send + Sync + 'static {
    type Block: Send + Sync + 'static;

    fn counters(&self) -> &Counters;

    /// Verifies a stored block, of an SST with these bounds.
    fn load(&self, bounds: &KeyBounds, block: Bytes) -> Result<Self::Block, Unusable>;

    /// Opens a block that was just built, without verification.
    fn open(&self, block: Bytes) -> Result<Self::Block, Unusable>;

    fn bytes(block: &Self::Block) -> &[u8];

    /// Returns whether blocks of the family can be negative for such queries at all.
    fn can_answer(&self, target: &FilterTarget) -> bool;

    /// Returns whether an SST with this block may match a query.
    fn may_match(&self, block: &Self::Block, target: &FilterTarget) -> bool;

    /// Returns whether the block can belong to an SST with this key.
    fn may_contain_range(&self, block: &Self::Block, key: &Bytes) -> bool;
}

/// A usable filter, or the bytes of an unusable one.
pub(crate) struct SlateFilter<S: Scheme> {
    scheme: Arc<S>,
    stored: Arc<Stored<S::Block>>,
}

/// The bytes are copied exactly once, into an allocation of their size, so that the cache is charged for what is
/// allocated.
enum Stored<B> {
    Usable { bounds: KeyBounds, block: B },
    Unusable { reason: Unusable, bytes: Bytes },
}

impl<S: Scheme> Clone for SlateFilter<S> {
    fn clone(&self) -> Self {
        Self { scheme: Arc::clone(&self.scheme), stored: Arc::clone(&self.stored) }
    }
}

impl<S: Scheme> SlateFilter<S> {
    /// Returns the filter of a new SST with these first and last keys. Without a block, the SST gets no filter, which
    /// is stored as no bytes.
    pub(crate) fn built(scheme: &Arc<S>, built: Option<BuiltFilter>, ends: Option<(Bytes, Bytes)>) -> Self {
        let kind = built.as_ref().and_then(|built| built.report.used);
        let stored = match (built.and_then(|built| built.block), ends) {
            (Some(block), Some((first, last))) => match scheme.open(Bytes::copy_from_slice(&block)) {
                Ok(block) => Stored::Usable { bounds: KeyBounds::new(&first, &last), block },
                Err(reason) => Stored::Unusable { reason, bytes: Bytes::new() },
            },
            _ => Stored::Unusable { reason: Unusable::NoFilter, bytes: Bytes::new() },
        };
        let filter = Self { scheme: Arc::clone(scheme), stored: Arc::new(stored) };
        scheme.counters().add_built(filter.block().ok().and(kind), filter.encoded_bytes());
        filter
    }

    /// Decodes any stored bytes; bytes that are no filter are unusable.
    pub(crate) fn decode(scheme: Arc<S>, data: &[u8]) -> Self {
        let stored = match load(scheme.as_ref(), data) {
            Ok((bounds, block)) => {
                scheme.counters().add(Event::Decoded, 1);
                Stored::Usable { bounds, block }
            }
            Err(reason) => {
                scheme.counters().add(reason.event(), 1);
                Stored::Unusable { reason, bytes: Bytes::copy_from_slice(data) }
            }
        };
        Self { scheme, stored: Arc::new(stored) }
    }

    /// Returns the number of bytes that [`Filter::encode`] writes.
    fn encoded_bytes(&self) -> usize {
        match self.stored.as_ref() {
            Stored::Usable { bounds, block } => bounds.encoded_bytes() + S::bytes(block).len(),
            Stored::Unusable { bytes, .. } => bytes.len(),
        }
    }

    /// Returns the block, or the reason why there is none.
    pub(crate) fn block(&self) -> Result<&S::Block, &Unusable> {
        match self.stored.as_ref() {
            Stored::Usable { block, .. } => Ok(block),
            Stored::Unusable { reason, .. } => Err(reason),
        }
    }

    /// Returns whether the filter can belong to an SST with this key.
    pub(crate) fn may_contain_range(&self, key: &Bytes) -> bool {
        let Stored::Usable { bounds, block } = self.stored.as_ref() else { return true };
        // The audit's question, so a key outside the bounds is absent here; a probe answers "may match".
        bounds.admits_key(key) && self.scheme.may_contain_range(block, key)
    }

    fn may_match_counted(&self, event: Event) -> bool {
        self.scheme.counters().add(event, 1);
        true
    }
}

fn load<S: Scheme>(scheme: &S, data: &[u8]) -> Result<(KeyBounds, S::Block), Unusable> {
    if data.is_empty() {
        return Err(Unusable::NoFilter);
    }
    let (bounds, block) = KeyBounds::decode(data)?;
    let block = scheme.load(&bounds, Bytes::copy_from_slice(block))?;
    Ok((bounds, block))
}

impl From<BoundsError> for Unusable {
    fn from(error: BoundsError) -> Self {
        match error {
            BoundsError::Damaged => Self::Damaged("the header with the key range is damaged".to_owned()),
            BoundsError::Version(version) => {
                Self::Unsupported(format!("header of version 1 expected, version {version} found"))
            }
        }
    }
}

impl<S: Scheme> Filter for SlateFilter<S> {
    fn might_match(&self, query: &FilterQuery) -> bool {
        // First, and not counted: such a query says nothing about the state of the filter.
        if !self.scheme.can_answer(&query.target) {
            return true;
        }
        match self.stored.as_ref() {
            Stored::Unusable { .. } => self.may_match_counted(Event::UnusableProbes),
            // Before the block: another SST's filter would be negative for this SST's keys.
            Stored::Usable { bounds, .. } if !bounds.admits(&query.target) => {
                self.may_match_counted(Event::ForeignProbes)
            }
            Stored::Usable { block, .. } => self.scheme.may_match(block, &query.target),
        }
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        match self.stored.as_ref() {
            Stored::Usable { bounds, block } => {
                writer.put_slice(&bounds.encode());
                writer.put_slice(S::bytes(block));
            }
            // Unchanged, because a cache on disk may pass these bytes to a newer reader that can use them.
            Stored::Unusable { bytes, .. } => writer.put_slice(bytes),
        }
    }

    /// Returns the filter's memory, without two reference counts (32 bytes).
    fn size(&self) -> usize {
        size_of::<Self>() + size_of::<Stored<S::Block>>() + self.encoded_bytes()
    }

    /// Returns the filter itself: nothing is over-allocated.
    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(self.clone())
    }
}

/// Filters of hashes: of whole keys, of prefixes, or of both.
pub(crate) struct PointScheme {
    pub(crate) hashing: Hashing,
    pub(crate) counters: Arc<Counters>,
}

impl Scheme for PointScheme {
    type Block = FilterBlock<Bytes>;

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Loads a block that must contain the SST's first and last key and their prefixes. This finds an extractor or hash
    /// that changed without its name.
    fn load(&self, bounds: &KeyBounds, block: Bytes) -> Result<Self::Block, Unusable> {
        let keys: Vec<&[u8]> = bounds.whole_keys().collect();
        let block = FilterBlock::load(block, self.hashing.load_context().with_known_keys(&keys))?;
        Ok(self.hashing.checked(block)?)
    }

    fn open(&self, block: Bytes) -> Result<Self::Block, Unusable> {
        Ok(self.hashing.checked(FilterBlock::open_unverified(block)?)?)
    }

    fn bytes(block: &Self::Block) -> &[u8] {
        block.as_bytes()
    }

    fn can_answer(&self, target: &FilterTarget) -> bool {
        !matches!(target, FilterTarget::Range { .. })
    }

    fn may_match(&self, block: &Self::Block, target: &FilterTarget) -> bool {
        self.hashing.may_match(block, target)
    }

    /// Returns whether the block contains the key and its prefix.
    fn may_contain_range(&self, block: &Self::Block, key: &Bytes) -> bool {
        let known: [&[u8]; 1] = [key];
        FilterBlock::load(block.as_bytes(), self.hashing.load_context().with_known_keys(&known)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use slatedb::{FilterPolicy, PrefixExtractor, PrefixTarget, RowEntry, ValueDeletable};
    use sstfilter::Domain;

    use super::*;
    use crate::policy::{DecodingPolicy, SlatePolicy};
    use crate::{FilteredKeys, SlateFilters};

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

    /// The first bytes of a key.
    struct First(usize);

    impl PrefixExtractor for First {
        fn name(&self) -> &'static str {
            "first"
        }

        fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
            let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
            (bytes.len() >= self.0).then_some(self.0)
        }
    }

    /// SlateDB passes a policy only filters of its own name, which names the parts they contain. The block does, too.
    #[test]
    fn a_filter_says_which_parts_of_keys_it_holds_and_one_that_lacks_a_part_may_match() {
        let [prefixes, both] =
            [FilteredKeys::prefixes, FilteredKeys::whole_and_prefixes].map(|keys| keys(Arc::new(First(10))));
        let policies = [FilteredKeys::whole(), prefixes, both]
            .map(|keys| SlateFilters::default().with_keys(keys).uncounted_policy());
        let first = [Domain::new("first")];
        let held = [(true, &first[..0]), (false, &first), (true, &first)];
        for (writer, (whole_keys, extractors)) in policies.iter().zip(held) {
            let bytes = encoded(writer);
            let info = writer.decode_filter(&bytes).block().unwrap().info();
            assert_eq!((info.whole_keys, &info.extractors[..]), (whole_keys, extractors));
            for (reader, (whole_keys, extractors)) in policies.iter().zip(held) {
                let holds_all = info.whole_keys >= whole_keys && info.extractors.len() >= extractors.len();
                let filter = reader.decode_filter(&bytes);
                assert_eq!(filter.block().is_ok(), holds_all);
                let reason = filter.block().err();
                assert!(matches!(reason, None | Some(Unusable::OtherHash(_))), "{reason:?}");
                for number in 0..2_000 {
                    assert!(may_match(&filter, number));
                    assert!(filter.might_match(&FilterQuery::prefix(key(number).slice(..10))));
                }
            }
        }
    }

    /// An extractor for keys only, like one whose prefixes depend on later bytes.
    struct OfKeys(First);

    impl PrefixExtractor for OfKeys {
        fn name(&self) -> &'static str {
            "first of keys"
        }

        fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
            matches!(target, PrefixTarget::Point(_)).then(|| self.0.prefix_len(target)).flatten()
        }
    }

    #[test]
    fn a_filter_of_prefixes_alone_rules_out_keys_of_other_prefixes() {
        let extractors: [Arc<dyn PrefixExtractor>; 2] = [Arc::new(First(10)), Arc::new(OfKeys(First(10)))];
        for extractor in extractors {
            let policy = SlateFilters::default().with_keys(FilteredKeys::prefixes(extractor)).uncounted_policy();
            let filter = policy.decode_filter(&encoded(&policy));
            assert!((0..2_000).all(|number| may_match(&filter, number)));
            let point = |letter: &char| FilterQuery::point(Bytes::from(format!("key-00000{letter}01")));
            let absent = ('a'..='z').filter(|letter| !filter.might_match(&point(letter)));
            assert!(absent.count() > 20);
        }
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
