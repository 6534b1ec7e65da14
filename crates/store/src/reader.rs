//! Turns keys and prefixes into the hashes that filters are probed with.

use std::sync::Arc;

use sstfilter::internal::bits_of;
use sstfilter::{BlockError, Domain, Filters, HashId, KeyExtractor, KeyHash, KeyParts, LoadContext};

use super::metadata::FilterMetadata;

/// The functions that turn a key or a range into a probe.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) filters: Filters,
    /// The extractor of range filters.
    pub(crate) range_extractor: Option<Arc<dyn KeyExtractor>>,
}

/// The parts of keys that a filter holds and its reader knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedParts {
    /// Bit `i` is the extractor at position `i` of the reader, and the highest bit the whole key. Filters have at most
    /// [`KeyParts::MAX_EXTRACTORS`] extractors.
    bits: u64,
}

/// The bit of the whole key.
const WHOLE_KEY: u64 = 1 << KeyParts::MAX_EXTRACTORS;

impl SharedParts {
    /// Returns the parts that point lookups probe for. The whole key says more than all of its parts.
    pub(crate) const fn of_points(self) -> Self {
        if self.has_whole_keys() { Self { bits: WHOLE_KEY } } else { self }
    }

    /// Returns whether point lookups probe for whole keys.
    pub(crate) const fn has_whole_keys(self) -> bool {
        self.bits & WHOLE_KEY != 0
    }

    const fn extractors(self) -> u64 {
        self.bits & !WHOLE_KEY
    }

    /// Returns whether this is a single part.
    pub(crate) const fn is_one(self) -> bool {
        self.bits.is_power_of_two()
    }
}

impl Reader {
    fn parts(&self) -> &KeyParts {
        self.filters.key_parts()
    }

    /// Returns the hashes that a filter of `shared` parts contains if it contains `key`: the fewest that exclude the
    /// most keys. None if the key is outside the domains of all extractors.
    #[inline]
    pub(crate) fn point_hashes<'a>(
        &'a self,
        shared: SharedParts,
        key: &'a [u8],
    ) -> impl Iterator<Item = KeyHash> + use<'a> {
        let shared = shared.of_points();
        let whole = shared.has_whole_keys().then(|| self.filters.hash(key));
        let part = |position| self.parts().part_hash(self.filters.hasher(), position, key);
        whole.into_iter().chain(bits_of(shared.extractors()).filter_map(part))
    }

    /// Returns the hashes that a filter of `shared` parts contains if it contains any key with this prefix; none if it
    /// cannot say. A filter of only whole keys never can, because it does not hold their prefixes.
    pub(crate) fn prefix_hashes<'a>(
        &'a self,
        shared: SharedParts,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = KeyHash> + use<'a> {
        bits_of(shared.extractors())
            .filter_map(|position| self.parts().prefix_hash(self.filters.hasher(), position, prefix))
    }

    /// Returns the parts that a filter holds and this reader knows.
    ///
    /// # Errors
    ///
    /// If there are none: the filter cannot be probed.
    pub(crate) fn parts_shared_with(&self, file: &FilterMetadata) -> Result<SharedParts, BlockError> {
        // At most `MAX_EXTRACTORS`: the next bit is that of the whole key.
        let names =
            self.parts().extractors().map(|extractor| extractor.name()).take(KeyParts::MAX_EXTRACTORS).enumerate();
        let common = names.filter(|(_, name)| file.extractors().any(|other| other == *name));
        let whole_keys = if self.parts().has_whole_keys() && file.whole_keys { WHOLE_KEY } else { 0 };
        let bits = common.fold(whole_keys, |bits, (position, _)| bits | 1 << position);
        if bits != 0 {
            return Ok(SharedParts { bits });
        }
        Err(BlockError::ExtractorMismatch { expected: self.parts().to_string(), got: file.key_parts() })
    }

    /// Returns the context to load a filter whose description says that it holds the parts `shared`: the filter must
    /// say the same.
    pub(crate) fn context_of<'a>(&'a self, shared: &'a KeyParts) -> LoadContext<'a> {
        LoadContext::new(self.filters.hasher()).with_kinds(self.filters.kinds()).with_all_key_parts(shared)
    }

    /// Returns the parts for [`context_of`](Self::context_of).
    pub(crate) fn key_parts_of(&self, shared: SharedParts) -> KeyParts {
        let is_shared = |(position, _): &(usize, _)| shared.extractors() >> position & 1 == 1;
        let own = self.parts().extractors().take(KeyParts::MAX_EXTRACTORS).enumerate().filter(is_shared);
        let own: Vec<Domain> = own.map(|(_, extractor)| Domain::new(extractor.name())).collect();
        self.parts().only(|domain| domain.map_or(shared.has_whole_keys(), |domain| own.contains(&domain)))
    }

    /// Returns whether the other reader is known to compute the same probes; equal names do not prove it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.parts().is_same(other.parts()) && self.filters.hasher().is_same(other.filters.hasher())
    }

    /// Returns whether equal identities prove equal hashes: they do for whole keys under a public seed.
    pub(crate) fn is_known_by_identity(&self, shared: SharedParts) -> bool {
        // The identity has the seed itself only for this hash: it has a fingerprint of a secret seed, and the tag of a
        // custom hash. Names of extractors prove nothing.
        self.filters.hasher().identity().id == HashId::Xxh3 && shared.extractors() == 0
    }

    /// Returns whole keys, and those parts that a known key has: nothing confirms that the other extractors match their
    /// names.
    pub(crate) fn confirmed_by(&self, shared: SharedParts, known: &[&[u8]]) -> SharedParts {
        let has_part = |position: &usize| {
            let extractor = self.parts().extractors().nth(*position);
            extractor.is_some_and(|extractor| known.iter().any(|key| extractor.extract(key).is_some()))
        };
        let confirmed = bits_of(shared.extractors()).filter(has_part).fold(0, |bits, position| bits | 1 << position);
        SharedParts { bits: confirmed | shared.bits & WHOLE_KEY }
    }
}
