//! The parts of a key that go into filters: the whole key, extracted parts, or both, each in its own domain.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{HashIdentity, KeyExtractor, KeyHash, KeyHasher, mix64};

/// A name that separates the hashes of different kinds of strings in one filter, reduced to 64 bits.
///
/// A filter may hold keys and prefixes, or the tags and the classes of a document. It must not confuse equal strings of
/// two kinds, so [`KeyHash::in_domain`] maps them to unrelated hashes. Whole keys have no domain. A part has the domain
/// of its extractor's name.
///
/// ```
/// use sstfilter::{Domain, KeyHasher};
///
/// let hash = KeyHasher::default().hash(b"menu");
/// let [tag, class] = [Domain::new("tag"), Domain::new("class")];
/// assert_ne!(hash.in_domain(tag), hash.in_domain(class));
/// assert_eq!(hash.in_domain(tag), hash.in_domain(Domain::new("tag")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    tag: u64,
}

/// The seed for hashes of domain names: the ASCII bytes `sstfdoma`, read as a big-endian number. It differs from the
/// seed of keys, so that no key's hash is a tag.
const DOMAIN_SEED: u64 = 0x7373_7466_646f_6d61;

impl Domain {
    /// Creates the domain of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { tag: xxh3_64_with_seed(name.as_bytes(), DOMAIN_SEED) }
    }

    /// The 64 bits that stand for the name. Blocks record them for each extractor whose parts they hold.
    #[must_use]
    pub const fn tag(self) -> u64 {
        self.tag
    }

    /// Restores the domain from a tag in a block.
    pub(crate) const fn from_tag(tag: u64) -> Self {
        Self { tag }
    }
}

impl KeyHash {
    /// Returns the hash of the same bytes in `domain`. It is unrelated to this hash and to those in other domains.
    ///
    /// Distinct hashes stay distinct in a domain. Domains can be nested; their order matters.
    pub const fn in_domain(self, domain: Domain) -> Self {
        // Mixed, because hashes that differ only by a constant are related: fuse filters would place them side by side.
        Self(mix64(self.0 ^ domain.tag))
    }
}

/// The parts of each key that go into a filter: the whole key, and parts by any number of extractors.
///
/// A filter of whole keys serves point lookups, and a filter of parts serves prefix scans. One filter can hold both,
/// and takes the bits of both: each key adds one entry for itself, and one for each part that the previous key does not
/// have. Parts are hashed in the [`Domain`] of their extractor's name.
///
/// Pass the parts to [`Filters::with_key_parts`](crate::Filters::with_key_parts) and add keys: the builder extracts and
/// hashes their parts. The block records which parts it holds, so you can add an extractor to a store, change it under
/// a new name, or drop it at any time. A filter answers "may be present" for a part that it does not hold.
///
/// ```
/// use std::sync::Arc;
///
/// use sstfilter::{FileId, Filters, FixedPrefix, KeyParts};
///
/// // A store before and after it gets an extractor.
/// let old = Filters::default();
/// let new = old.clone().with_key_parts(KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4))));
///
/// let filter_of = |written_by: &Filters| {
///     let file = FileId::random();
///     let mut builder = written_by.builder(file);
///     for key in [&b"t041:user:1"[..], b"t041:user:2", b"t042:user:1"] {
///         builder.add_key(key);
///     }
///     new.load(builder.finish().block, file)
/// };
/// let (of_old, of_new) = (filter_of(&old), filter_of(&new));
/// assert_eq!(of_new.block().expect("sound").info().keys, 5, "three keys, two parts");
///
/// assert!(!of_new.probe(b"t041:user:2").is_absent());
/// assert!(of_new.probe_prefix(b"t043:").is_absent());
/// assert!(!of_old.probe_prefix(b"t043:").is_absent(), "it holds no such parts: the file must be read");
/// assert!(!of_new.probe_prefix(b"t04").is_absent(), "it determines no part, so the filter cannot tell");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct KeyParts {
    whole_keys: bool,
    /// Shared by all open tables that use them.
    extractors: Arc<[DomainExtractor]>,
}

/// An extractor, and the domain of its parts.
#[derive(Clone, Debug)]
struct DomainExtractor {
    extractor: Arc<dyn KeyExtractor>,
    domain: Domain,
}

impl DomainExtractor {
    fn new(extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { domain: Domain::new(extractor.name()), extractor }
    }

    /// The hash of a key's part.
    fn hash(&self, hasher: &KeyHasher, key: &[u8]) -> Option<KeyHash> {
        self.extractor.extract(key).map(|part| self.hash_of_part(hasher, &part))
    }

    /// The hash of the part that all keys with this prefix have.
    fn prefix_hash(&self, hasher: &KeyHasher, prefix: &[u8]) -> Option<KeyHash> {
        let part = self.extractor.extract_prefix(prefix)?;
        // The promise covers every key that begins with the prefix. The prefix itself is such a key, and cheap to
        // check.
        let is_its_own = self.extractor.extract(prefix).as_ref() == Some(&part);
        is_its_own.then(|| self.hash_of_part(hasher, &part))
    }

    fn hash_of_part(&self, hasher: &KeyHasher, part: &[u8]) -> KeyHash {
        hasher.hash(part).in_domain(self.domain)
    }
}

impl fmt::Display for KeyParts {
    /// `whole keys, 'fixed-prefix:4'`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole_keys.then(|| "whole keys".to_owned());
        let names = self.extractors().map(|extractor| format!("'{}'", extractor.name()));
        let parts: Vec<_> = whole.into_iter().chain(names).collect();
        f.write_str(&if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
    }
}

impl Default for KeyParts {
    /// Only whole keys.
    fn default() -> Self {
        Self::whole_keys()
    }
}

impl KeyParts {
    /// The maximum number of extractors in a filter: blocks and tables record them in a byte and in a bitmap.
    pub const MAX_EXTRACTORS: usize = 63;

    /// Whole keys.
    pub fn whole_keys() -> Self {
        Self { whole_keys: true, extractors: Arc::new([]) }
    }

    /// The parts that `extractor` returns, without whole keys.
    pub fn extracted(extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { whole_keys: false, extractors: Arc::new([DomainExtractor::new(extractor)]) }
    }

    /// Adds the parts that `extractor` returns. It replaces an extractor with the same name, because a name stands for
    /// one function.
    pub fn with_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        let added = DomainExtractor::new(extractor);
        let mut extractors = self.extractors.to_vec();
        match extractors.iter_mut().find(|other| other.extractor.name() == added.extractor.name()) {
            Some(other) => *other = added,
            None => extractors.push(added),
        }
        Self { extractors: extractors.into(), ..self }
    }

    /// Whether whole keys go into the filter.
    #[must_use]
    pub const fn has_whole_keys(&self) -> bool {
        self.whole_keys
    }

    /// The extractors, in the order in which they were added.
    #[must_use]
    pub fn extractors(&self) -> impl ExactSizeIterator<Item = &Arc<dyn KeyExtractor>> {
        self.extractors.iter().map(|part| &part.extractor)
    }

    /// Hashes a prefix once, for the filters of all files that hold these parts.
    pub fn prefix<'a>(&self, hasher: &KeyHasher, prefix: &'a [u8]) -> PreparedPrefix<'a> {
        let hash = |part: &DomainExtractor| Some((part.domain, part.prefix_hash(hasher, prefix)?));
        let hashes = self.extractors.iter().filter_map(hash).collect();
        PreparedPrefix { prefix, identity: hasher.identity(), hashes }
    }

    /// Hashes a key's parts, to probe filters that hold parts but no whole keys. A key outside an extractor's domain
    /// has no such part. If a filter holds whole keys, probe for the key's hash, which excludes more files. Pass the
    /// bytes that were written: a filter partitioned by key range uses them to find the key's partition, whatever the
    /// extractor returns.
    pub fn key<'a>(&self, hasher: &KeyHasher, key: &'a [u8]) -> PreparedPrefix<'a> {
        let hash = |part: &DomainExtractor| Some((part.domain, part.hash(hasher, key)?));
        let hashes = self.extractors.iter().filter_map(hash).collect();
        PreparedPrefix { prefix: key, identity: hasher.identity(), hashes }
    }

    /// Returns these parts without the extractors in `unstable` and those that a filter cannot record: names must have
    /// 1 to 255 bytes, and only the first [`MAX_EXTRACTORS`](Self::MAX_EXTRACTORS) stay.
    pub fn without(&self, unstable: &[String]) -> Self {
        let is_held = |part: &&DomainExtractor| {
            let name = part.extractor.name();
            (1..=255).contains(&name.len()) && !unstable.iter().any(|other| other == name)
        };
        let extractors = self.extractors.iter().filter(is_held).take(Self::MAX_EXTRACTORS).cloned().collect();
        Self { whole_keys: self.whole_keys, extractors }
    }

    /// Returns the parts whose domain `keeps` accepts; `None` stands for whole keys.
    pub fn only(&self, keeps: impl Fn(Option<Domain>) -> bool) -> Self {
        let extractors = self.extractors.iter().filter(|part| keeps(Some(part.domain))).cloned().collect();
        Self { whole_keys: self.whole_keys && keeps(None), extractors }
    }

    /// Whether there are no parts at all.
    pub(crate) fn is_empty(&self) -> bool {
        !self.whole_keys && self.extractors.is_empty()
    }

    /// Whether the only part is the whole key.
    pub(crate) fn are_whole_keys(&self) -> bool {
        self.whole_keys && self.extractors.is_empty()
    }

    /// The domains of the extractors.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Domain> + '_ {
        self.extractors.iter().map(|part| part.domain)
    }

    /// Whether both certainly extract the same parts. Equal names do not prove it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let address = |part: &DomainExtractor| Arc::as_ptr(&part.extractor).cast::<()>();
        self.whole_keys == other.whole_keys
            && self.extractors.iter().map(address).eq(other.extractors.iter().map(address))
    }

    /// Returns the hash of the part of `key` by the extractor at `position`; `None` if the key has no such part. Probe
    /// only filters that hold such parts: others answer "absent" whatever keys they hold.
    /// [`FilterBlock::may_contain_prefix`](crate::FilterBlock::may_contain_prefix) checks this.
    #[inline]
    #[must_use]
    pub fn part_hash(&self, hasher: &KeyHasher, position: usize, key: &[u8]) -> Option<KeyHash> {
        self.extractors.get(position)?.hash(hasher, key)
    }

    /// Returns the hash of the part that all keys with this prefix have, by the extractor at `position`; `None` if
    /// their parts may differ or be missing. Probe only filters that hold such parts, as for
    /// [`part_hash`](Self::part_hash).
    #[must_use]
    pub fn prefix_hash(&self, hasher: &KeyHasher, position: usize, prefix: &[u8]) -> Option<KeyHash> {
        self.extractors.get(position)?.prefix_hash(hasher, prefix)
    }
}

/// A prefix with the hashes of the parts that it determines ([`KeyParts::prefix`]), or a key with those of its parts
/// ([`KeyParts::key`]), ready to probe the filters of many files.
#[derive(Clone, Debug)]
#[must_use]
pub struct PreparedPrefix<'a> {
    prefix: &'a [u8],
    identity: HashIdentity,
    hashes: Vec<(Domain, KeyHash)>,
}

impl<'a> PreparedPrefix<'a> {
    /// The prefix itself.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.prefix
    }

    /// The identity of the hash function. A filter with another one answers "may be present".
    pub const fn hash_identity(&self) -> HashIdentity {
        self.identity
    }

    /// Returns the part's hash and domain for each extractor by which all keys with the prefix have the same part.
    pub fn hashes(&self) -> impl Iterator<Item = (Domain, KeyHash)> + '_ {
        self.hashes.iter().copied()
    }
}

/// Hashes keys that arrive in order, and their parts.
#[derive(Debug)]
pub struct OrderedKeyHashes {
    hasher: KeyHasher,
    parts: KeyParts,
    /// The state of each extractor.
    seen: Vec<Seen>,
    all: Vec<KeyHash>,
    new: Vec<KeyHash>,
    has_keys: bool,
    has_bare_hashes: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: Option<KeyHash>,
    prefixes: PrefixWatch,
}

/// Watches whether an extractor keeps its promise about prefixes while keys are added. It checks the same as
/// [`check_prefix_stability`](crate::check_prefix_stability), but on samples, so that builders can afford it. If an
/// extractor broke its promise, do not use its filter for prefixes.
///
/// The samples are all prefixes of up to 64 bytes of the first eight keys, and one prefix of each later key. Passing is
/// no proof.
///
/// ```
/// use sstfilter::{FixedPrefix, PrefixWatch};
///
/// let mut watch = PrefixWatch::default();
/// for key in [&b"t042:user:7"[..], b"t042:user:8", b"t043:user:1"] {
///     watch.look_at(&FixedPrefix::new(4), key);
/// }
/// assert!(!watch.is_unstable());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixWatch {
    /// Number of keys so far.
    keys: usize,
    /// Whether a prefix had another part than its key.
    is_unstable: bool,
}

impl PrefixWatch {
    /// Checks one or several prefixes of a key.
    pub fn look_at(&mut self, extractor: &dyn KeyExtractor, key: &[u8]) {
        let is_stable = watched_lengths(self.keys, key.len()).all(|length| {
            let part = key.get(..length).and_then(|prefix| extractor.extract_prefix(prefix));
            part.is_none_or(|part| extractor.extract(key) == Some(part))
        });
        self.is_unstable |= !is_stable;
        self.keys += 1;
    }

    /// Whether the extractor has broken the promise of [`KeyExtractor::extract_prefix`].
    #[must_use]
    pub fn is_unstable(self) -> bool {
        self.is_unstable
    }
}

/// All prefixes of this many keys are checked, up to this many bytes; later keys have one prefix checked each. Checking
/// all prefixes of all keys would take longer than hashing them.
const WATCHED_KEYS: usize = 8;
const WATCHED_BYTES: usize = 64;

/// The hashes of one key.
#[derive(Clone, Copy, Debug)]
pub struct HashesOfKey<'a> {
    /// All hashes that readers may probe for. A filter that holds the key contains all of them.
    pub all: &'a [KeyHash],
    /// The hashes that earlier keys have not added already.
    pub new: &'a [KeyHash],
}

impl OrderedKeyHashes {
    /// Creates the state before the first key.
    #[must_use]
    pub fn new(hasher: KeyHasher, parts: KeyParts) -> Self {
        let seen = vec![Seen::default(); parts.extractors.len()];
        Self { hasher, parts, seen, all: Vec::new(), new: Vec::new(), has_keys: false, has_bare_hashes: false }
    }

    /// Hashes the next key. Adjacent keys share parts, and a part that the previous key has added need not be buffered
    /// again.
    #[inline]
    pub fn of(&mut self, key: &[u8]) -> HashesOfKey<'_> {
        self.has_keys = true;
        self.all.clear();
        if self.parts.are_whole_keys() {
            self.all.push(self.hasher.hash(key));
            return HashesOfKey { all: &self.all, new: &self.all };
        }
        self.parts_of(key)
    }

    fn parts_of(&mut self, key: &[u8]) -> HashesOfKey<'_> {
        self.new.clear();
        if self.parts.whole_keys {
            let hash = self.hasher.hash(key);
            self.all.push(hash);
            self.new.push(hash);
        }
        for (part, seen) in self.parts.extractors.iter().zip(&mut self.seen) {
            // Before the key's part, because a prefix can promise a part to a key that has none.
            seen.prefixes.look_at(part.extractor.as_ref(), key);
            let Some(hash) = part.hash(&self.hasher, key) else { continue };
            self.all.push(hash);
            // Comparing with the previous key is enough: keys come in order, so keys with equal parts are mostly
            // adjacent.
            if seen.last.replace(hash) != Some(hash) {
                self.new.push(hash);
            }
        }
        HashesOfKey { all: &self.all, new: &self.new }
    }

    /// Names of the extractors that have broken the promise of [`KeyExtractor::extract_prefix`].
    #[must_use]
    pub fn unstable_extractors(&self) -> Vec<String> {
        let unstable = self.parts.extractors.iter().zip(&self.seen).filter(|(_, seen)| seen.prefixes.is_unstable());
        unstable.map(|(part, _)| part.extractor.name().to_owned()).collect()
    }

    /// Notes that whole keys were added by their hashes, so that their parts are missing.
    pub fn note_bare_hashes(&mut self) {
        self.has_bare_hashes = true;
    }

    /// Returns the parts that a filter holds of every key that was added; `None` if there are none.
    pub fn held(&self) -> Option<KeyParts> {
        match (self.has_keys, self.has_bare_hashes) {
            (_, false) => {
                let held = self.parts.without(&self.unstable_extractors());
                (!held.is_empty()).then_some(held)
            }
            // Bare hashes are those of whole keys, and parts cannot be extracted from them.
            (false, true) => Some(KeyParts::whole_keys()),
            // Only whole keys can be complete, and only if the keys were added whole as well.
            (true, true) => self.parts.whole_keys.then(KeyParts::whole_keys),
        }
    }
}

/// The lengths of the prefixes to check; for later keys, all lengths take turns.
fn watched_lengths(keys_before: usize, key_bytes: usize) -> RangeInclusive<usize> {
    if keys_before < WATCHED_KEYS {
        return 0..=key_bytes.min(WATCHED_BYTES);
    }
    let length = keys_before % (key_bytes + 1);
    length..=length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{DelimitedPrefix, FixedPrefix};

    fn three_parts() -> KeyParts {
        let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(2)));
        parts.with_extractor(Arc::new(DelimitedPrefix::new(b':')))
    }

    #[test]
    fn equal_bytes_have_unrelated_hashes_in_two_domains() {
        let domains = ["", "a", "fixed-prefix:4", "fixed-prefix:8"].map(Domain::new);
        let hash = |key: u64| KeyHasher::default().hash(&key.to_le_bytes());
        for (at, one) in domains.iter().enumerate() {
            for other in &domains[at + 1..] {
                let differing =
                    |key| (hash(key).in_domain(*one).get() ^ hash(key).in_domain(*other).get()).count_ones();
                let flipped: u32 = (0..1_000).map(differing).sum();
                assert!((31_000..33_000).contains(&flipped), "{flipped} of 64,000 bits");
            }
            let flipped: u32 =
                (0..1_000).map(|key| (hash(key).get() ^ hash(key).in_domain(*one).get()).count_ones()).sum();
            assert!((31_000..33_000).contains(&flipped), "{flipped} of 64,000 bits differ from those of whole keys");
        }
    }

    #[test]
    fn all_prefixes_of_the_first_keys_are_looked_at_and_those_of_later_ones_in_turn_up_to_the_whole_key() {
        for key_bytes in [0, 1, 5, 64, 100] {
            let first = (0..WATCHED_KEYS).map(|keys| watched_lengths(keys, key_bytes));
            assert!(first.into_iter().all(|lengths| lengths == (0..=key_bytes.min(WATCHED_BYTES))));
            let later = (WATCHED_KEYS..=WATCHED_KEYS + key_bytes).map(|keys| watched_lengths(keys, key_bytes));
            let mut later: Vec<_> = later.map(RangeInclusive::into_inner).collect();
            later.sort_unstable();
            assert_eq!(later, (0..=key_bytes).map(|length| (length, length)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_key_has_a_hash_for_each_part() {
        let (hasher, parts) = (KeyHasher::default(), three_parts());
        let hashes = |key: &[u8]| parts.key(&hasher, key).hashes().collect::<Vec<_>>();
        let [fixed, delimited] = ["fixed-prefix:2", "prefix-to-byte:0x3a"].map(Domain::new);
        let in_domain = |part: &[u8], domain| (domain, hasher.hash(part).in_domain(domain));
        assert_eq!(hashes(b"ab:c"), [in_domain(b"ab", fixed), in_domain(b"ab:", delimited)]);
        assert_eq!(hashes(b"a"), [], "outside both domains");
    }

    #[test]
    fn a_prefix_has_the_hashes_of_the_parts_that_follow_from_it() {
        let (hasher, parts) = (KeyHasher::default(), three_parts());
        let hashes = |prefix: &[u8]| parts.prefix(&hasher, prefix).hashes().collect::<Vec<_>>();
        assert_eq!(hashes(b"a"), []);
        assert_eq!(hashes(b"ab").len(), 1);
        assert_eq!(hashes(b"ab:"), parts.key(&hasher, b"ab:zz").hashes().collect::<Vec<_>>());
    }

    #[test]
    fn one_name_is_one_extractor_and_the_last_one_counts() {
        let parts = three_parts().with_extractor(Arc::new(FixedPrefix::new(2)));
        let names: Vec<&str> = parts.extractors().map(|extractor| extractor.name()).collect();
        assert_eq!(names, ["fixed-prefix:2", "prefix-to-byte:0x3a"]);
        assert!(parts.has_whole_keys() && !KeyParts::extracted(Arc::new(FixedPrefix::new(2))).has_whole_keys());
        assert!(parts.is_same(&parts.clone()) && !parts.is_same(&three_parts()));
    }

    #[test]
    fn parts_that_neighbours_share_are_new_once() {
        let mut ordered = OrderedKeyHashes::new(KeyHasher::default(), three_parts());
        let mut counts = |key: &[u8]| (ordered.of(key).all.len(), ordered.of(b"").new.len(), ordered.of(key).new.len());
        assert_eq!(counts(b"ab:1"), (3, 1, 1), "all parts are those of the key before: itself");
        let mut ordered = OrderedKeyHashes::new(KeyHasher::default(), three_parts());
        let new = [&b"ab:1"[..], b"ab:2", b"abc", b"b", b"bc:", b"bc:x:"].map(|key| ordered.of(key).new.to_vec());
        assert_eq!(new.each_ref().map(Vec::len), [3, 1, 1, 1, 3, 1]);
    }
}
