//! Which parts of keys a filter holds, and how they are hashed.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::{FilterTarget, PrefixExtractor, PrefixTarget};
use sstfilter::{KeyHash, KeyHasher};

/// The parts of keys that filters hold: whole keys, prefixes, or both.
///
/// Filters of whole keys answer point lookups. Filters of prefixes answer prefix scans, and point lookups less precisely.
/// Filters of both answer both, with two entries for a key whose prefix is new.
///
/// ```
/// use std::sync::Arc;
/// use slatedb::{PrefixExtractor, PrefixTarget};
/// use sstfilter_slatedb::FilteredKeys;
///
/// struct Tenant;
///
/// impl PrefixExtractor for Tenant {
///     fn name(&self) -> &str {
///         "tenant-4"
///     }
///
///     fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
///         let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
///         (bytes.len() >= 4).then_some(4)
///     }
/// }
///
/// let keys = FilteredKeys::whole_and_prefixes(Arc::new(Tenant));
/// # let _ = keys;
/// ```
#[derive(Clone, Default)]
pub struct FilteredKeys(Parts);

#[derive(Clone, Default)]
enum Parts {
    #[default]
    Whole,
    Prefixes(Arc<dyn PrefixExtractor>),
    Both(Arc<dyn PrefixExtractor>),
}

impl FilteredKeys {
    /// Whole keys: for point lookups. Prefix scans probe no filter, and read none.
    #[must_use]
    pub fn whole() -> Self {
        Self(Parts::Whole)
    }

    /// Prefixes alone: the smallest filters, for prefix scans. A point lookup probes them for its key's prefix.
    #[must_use]
    pub fn prefixes(extractor: Arc<dyn PrefixExtractor>) -> Self {
        Self(Parts::Prefixes(extractor))
    }

    /// Whole keys and prefixes.
    #[must_use]
    pub fn whole_and_prefixes(extractor: Arc<dyn PrefixExtractor>) -> Self {
        Self(Parts::Both(extractor))
    }

    pub(crate) fn has_whole_keys(&self) -> bool {
        !matches!(self.0, Parts::Prefixes(_))
    }

    pub(crate) fn extractor(&self) -> Option<&dyn PrefixExtractor> {
        match &self.0 {
            Parts::Whole => None,
            Parts::Prefixes(extractor) | Parts::Both(extractor) => Some(extractor.as_ref()),
        }
    }
}

impl fmt::Debug for FilteredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteredKeys")
            .field("whole_keys", &self.has_whole_keys())
            .field("extractor", &self.extractor().map(PrefixExtractor::name))
            .finish()
    }
}

/// Added to the hash of a prefix: the ASCII bytes `prefixes`, read as a big-endian number. A lookup of a key that equals
/// a stored prefix then matches no more often than any other key.
const PREFIX_DOMAIN: u64 = 0x7072_6566_6978_6573;

/// What turns keys and queries into hashes. Everything that changes a hash is in the policy's name.
#[derive(Clone)]
pub(crate) struct Hashing {
    pub(crate) hasher: KeyHasher,
    pub(crate) keys: FilteredKeys,
}

impl Hashing {
    /// The name under which SlateDB stores the filters. The extractor's name is the last part, because it may contain
    /// anything: a name cannot then mean two things.
    pub(crate) fn name(&self) -> String {
        let identity = self.hasher.identity();
        let mut name = format!("sstfilter:h={}-{:x}", identity.id.code(), identity.seed);
        if !self.keys.has_whole_keys() {
            name.push_str(":wh=0");
        }
        if let Some(extractor) = self.keys.extractor() {
            name.push_str(&extractor_part(extractor.name()));
        }
        name
    }

    pub(crate) fn whole_key(&self, key: &[u8]) -> Option<KeyHash> {
        self.keys.has_whole_keys().then(|| self.hasher.hash(key))
    }

    pub(crate) fn prefix(&self, prefix: &[u8]) -> KeyHash {
        KeyHash::from_well_mixed(self.hasher.hash(prefix).get() ^ PREFIX_DOMAIN)
    }

    /// The extracted prefix of a key or of a scan's prefix; `None` outside the extractor's domain.
    pub(crate) fn extract(&self, target: &PrefixTarget) -> Option<Extracted> {
        let length = self.keys.extractor()?.prefix_len(target)?;
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        if length > bytes.len() {
            return Some(Extracted::TooLong);
        }
        Some(Extracted::Prefix(bytes.slice(..length)))
    }

    /// The hash to probe for a query; `None` when filters of these keys cannot answer it.
    pub(crate) fn query(&self, target: &FilterTarget) -> Option<KeyHash> {
        if let FilterTarget::Point(key) = target
            && let Some(hash) = self.whole_key(key)
        {
            return Some(hash);
        }
        match self.extract(&target.as_prefix_target()?)? {
            Extracted::Prefix(prefix) => Some(self.prefix(&prefix)),
            Extracted::TooLong => None,
        }
    }

    /// The hashes that the filter of an SST with this key must contain: none when it need not contain any.
    pub(crate) fn stored(&self, key: &Bytes) -> impl Iterator<Item = KeyHash> {
        let prefix = match self.extract(&PrefixTarget::Point(key.clone())) {
            Some(Extracted::Prefix(prefix)) => Some(self.prefix(&prefix)),
            Some(Extracted::TooLong) | None => None,
        };
        self.whole_key(key).into_iter().chain(prefix)
    }
}

/// SlateDB stores the length of a policy's name in 16 bits, unchecked: a longer one would make the SST unreadable.
const MAX_EXTRACTOR_NAME: usize = 1_024;

fn extractor_part(name: &str) -> String {
    if name.len() <= MAX_EXTRACTOR_NAME {
        format!(":p={name}")
    } else {
        format!(":p#={:016x}", KeyHasher::default().hash(name.as_bytes()).get())
    }
}

/// What an extractor made of a key.
pub(crate) enum Extracted {
    Prefix(Bytes),
    /// A prefix longer than the key, against the extractor's contract: nothing it says can be trusted.
    TooLong,
}

#[cfg(test)]
mod tests {
    //! SlateDB gives a stored filter to the policy of the same name. Two configurations that share one would probe for
    //! hashes that were never added, and lose keys.

    use std::collections::HashMap;

    use super::*;

    struct Named(String);

    impl PrefixExtractor for Named {
        fn name(&self) -> &str {
            &self.0
        }

        fn prefix_len(&self, _target: &PrefixTarget) -> Option<usize> {
            Some(0)
        }
    }

    fn hashers() -> Vec<KeyHasher> {
        let seeded = [0, 1, 0x10, 0x737].map(KeyHasher::with_seed);
        let custom = [0, 1, 0x10].map(|tag| KeyHasher::custom(tag, |_| KeyHash::mix(0)));
        [KeyHasher::default()].into_iter().chain(seeded).chain(custom).collect()
    }

    fn extractor_names() -> Vec<String> {
        let evil = ["", "a", "a:wh=0", ":wh=0", ":p=", ":p=a", ":wh=0:p=a", "#=0", "a:h=1-0", "=", "1", "0:p=a"];
        let long = [1_024, 1_025, 70_000].map(|length| "n".repeat(length));
        let alike = format!("{}m", "n".repeat(69_999));
        // What the name of 70,000 bytes is stored as, as a name of its own.
        let hashed = extractor_part(&long[2])[3..].to_owned();
        evil.map(str::to_owned).into_iter().chain(long).chain([alike, hashed]).collect()
    }

    #[test]
    fn no_two_configurations_share_a_name() {
        let mut names = HashMap::new();
        for (index, hasher) in hashers().into_iter().enumerate() {
            let mut check = |keys: FilteredKeys, what: String| {
                let name = Hashing { hasher: hasher.clone(), keys }.name();
                assert!(u16::try_from(name.len()).is_ok(), "SlateDB stores the length in 16 bits");
                let before = names.insert(name.clone(), format!("{index} {what}"));
                assert_eq!(before, None, "{name} is the name of {index} {what}, too");
            };
            check(FilteredKeys::whole(), "whole".to_owned());
            for name in extractor_names() {
                check(FilteredKeys::prefixes(Arc::new(Named(name.clone()))), format!("prefixes {name}"));
                check(FilteredKeys::whole_and_prefixes(Arc::new(Named(name.clone()))), format!("both {name}"));
            }
        }
    }

    #[test]
    fn a_key_that_equals_a_prefix_has_another_hash() {
        let hashing = Hashing { hasher: KeyHasher::default(), keys: FilteredKeys::whole() };
        assert_ne!(hashing.whole_key(b"tenant"), Some(hashing.prefix(b"tenant")));
    }
}
