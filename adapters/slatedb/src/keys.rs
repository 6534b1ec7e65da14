//! The parts of keys in a filter, and their hashes.

use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::{FilterTarget, PrefixExtractor, PrefixTarget};
use sstfilter::{BlockError, BuildContext, Domain, FilterBlock, KeyExtractor, KeyHasher, KeyParts, LoadContext};

/// The parts of keys that filters contain: whole keys, prefixes, or both.
///
/// Filters of whole keys answer point lookups. Filters of prefixes answer prefix scans, and point lookups less
/// precisely. Filters of both answer both, with two entries for a key whose prefix is new.
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
pub struct FilteredKeys {
    parts: KeyParts,
    /// The prefix extractor, if prefixes are among the parts.
    prefixes: Option<Arc<Prefixes>>,
}

impl FilteredKeys {
    /// Whole keys, for point lookups. Prefix scans read and probe no filter.
    #[must_use]
    pub fn whole() -> Self {
        Self::default()
    }

    /// Prefixes only: the smallest filters, for prefix scans. A point lookup probes them for its key's prefix.
    #[must_use]
    pub fn prefixes(extractor: Arc<dyn PrefixExtractor>) -> Self {
        let prefixes = Arc::new(Prefixes::new(extractor));
        Self { parts: KeyParts::extracted(prefixes.clone()), prefixes: Some(prefixes) }
    }

    /// Whole keys and prefixes.
    #[must_use]
    pub fn whole_and_prefixes(extractor: Arc<dyn PrefixExtractor>) -> Self {
        let prefixes = Arc::new(Prefixes::new(extractor));
        Self { parts: KeyParts::whole_keys().with_extractor(prefixes.clone()), prefixes: Some(prefixes) }
    }

    pub(crate) fn has_prefixes(&self) -> bool {
        self.prefixes.is_some()
    }
}

impl fmt::Debug for FilteredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteredKeys")
            .field("whole_keys", &self.parts.has_whole_keys())
            .field("extractor", &self.prefixes)
            .finish()
    }
}

/// Adapts SlateDB's extractor to the library's trait. Both have one contract: if it returns a length for a prefix, all
/// keys that begin with the prefix share that part.
struct Prefixes {
    extractor: Arc<dyn PrefixExtractor>,
    /// The name of the domain in blocks.
    name: String,
    domain: Domain,
}

impl Prefixes {
    fn new(extractor: Arc<dyn PrefixExtractor>) -> Self {
        let name = match extractor.name() {
            // The library's limits for a name.
            name if (1..=255).contains(&name.len()) => name.to_owned(),
            name => hashed_name(name),
        };
        Self { extractor, domain: Domain::new(&name), name }
    }

    /// Returns the part of `bytes`, the bytes of `target`. A part longer than the bytes violates the extractor's
    /// contract and counts as none: filters contain no prefix for such a key, and its lookups probe for none.
    fn part<'key>(&self, bytes: &'key [u8], target: &PrefixTarget) -> Option<Cow<'key, [u8]>> {
        bytes.get(..self.extractor.prefix_len(target)?).map(Cow::Borrowed)
    }
}

impl KeyExtractor for Prefixes {
    fn name(&self) -> &str {
        &self.name
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.part(key, &PrefixTarget::Point(Bytes::copy_from_slice(key)))
    }

    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.part(prefix, &PrefixTarget::Prefix(Bytes::copy_from_slice(prefix)))
    }
}

impl fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.extractor.name().fmt(f)
    }
}

/// The hashing of keys and queries. The policy's name contains everything that changes a hash.
#[derive(Clone)]
pub(crate) struct Hashing {
    pub(crate) hasher: KeyHasher,
    pub(crate) keys: FilteredKeys,
}

impl Hashing {
    /// Returns the name under which SlateDB stores the filters. The extractor's name comes last, because it may contain
    /// any characters: a name then has one meaning.
    pub(crate) fn name(&self) -> String {
        let identity = self.hasher.identity();
        let mut name = format!("sstfilter:h={}-{:x}", identity.id.code(), identity.seed);
        if !self.keys.parts.has_whole_keys() {
            name.push_str(":wh=0");
        }
        if let Some(prefixes) = &self.keys.prefixes {
            name.push_str(&extractor_part(prefixes.extractor.name()));
        }
        name
    }

    pub(crate) fn build_context(&self) -> BuildContext {
        BuildContext::new(&self.hasher).with_key_parts(self.keys.parts.clone())
    }

    pub(crate) fn load_context(&self) -> LoadContext<'_> {
        LoadContext::new(&self.hasher).with_key_parts(&self.keys.parts)
    }

    /// Returns the block if it contains all parts of keys. A builder leaves out the prefixes of an extractor that
    /// violates its contract.
    pub(crate) fn checked(&self, block: FilterBlock<Bytes>) -> Result<FilterBlock<Bytes>, BlockError> {
        let info = block.info();
        // A block may contain more parts than this reader probes, but not fewer.
        let has_whole_keys = info.whole_keys || !self.keys.parts.has_whole_keys();
        let has_prefixes = |prefixes: &Arc<Prefixes>| info.extractors.contains(&prefixes.domain);
        if has_whole_keys && self.keys.prefixes.as_ref().is_none_or(has_prefixes) {
            Ok(block)
        } else {
            Err(BlockError::PartNotHeld)
        }
    }

    /// Returns whether an SST with this [checked](Self::checked) block may match a query.
    pub(crate) fn may_match(&self, block: &FilterBlock<Bytes>, target: &FilterTarget) -> bool {
        match target {
            FilterTarget::Point(key) if self.keys.parts.has_whole_keys() => block.may_contain(self.hasher.hash(key)),
            FilterTarget::Point(key) => block.may_contain_prefix(&self.keys.parts.key(&self.hasher, key)),
            FilterTarget::Prefix(prefix) => block.may_contain_prefix(&self.keys.parts.prefix(&self.hasher, prefix)),
            // Hashes of keys say nothing about ranges.
            FilterTarget::Range { .. } => true,
        }
    }
}

/// SlateDB stores the length of a policy's name in 16 bits, unchecked: a longer one would make the SST unreadable.
const MAX_EXTRACTOR_NAME: usize = 1_024;

fn extractor_part(name: &str) -> String {
    if name.len() <= MAX_EXTRACTOR_NAME { format!(":p={name}") } else { format!(":p{}", hashed_name(name)) }
}

fn hashed_name(name: &str) -> String {
    format!("#={:016x}", KeyHasher::default().hash(name.as_bytes()).get())
}

#[cfg(test)]
mod tests {
    //! SlateDB passes a stored filter to the policy with its name. Two configurations with one name would probe for
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
        let custom = [0, 1, 0x10].map(|tag| KeyHasher::custom(tag, |_| sstfilter::KeyHash::mix(0)));
        [KeyHasher::default()].into_iter().chain(seeded).chain(custom).collect()
    }

    fn extractor_names() -> Vec<String> {
        let evil = ["", "a", "a:wh=0", ":wh=0", ":p=", ":p=a", ":wh=0:p=a", "#=0", "a:h=1-0", "=", "1", "0:p=a"];
        let long = [1_024, 1_025, 70_000].map(|length| "n".repeat(length));
        let alike = format!("{}m", "n".repeat(69_999));
        // An extractor whose own name is the stored form of the name of 70,000 bytes.
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
}
